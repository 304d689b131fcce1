//! Keyed state: rows, expiry, the overlay of the open epoch, and the store port.
//!
//! A store is an ordered map of byte rows; what the bytes mean is decided here
//! ([`row`]), so that every store keeps the same format.

pub mod cleared;
pub mod expiry;
pub mod memory;
pub mod overlay;
pub mod row;

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::checkpoint::Frozen;

pub use self::{
    cleared::ClearedRanges,
    expiry::{Clocks, ExpiryTable},
    memory::MemoryStore,
    overlay::Overlay,
};

/// A durable number of a named state: given once, in the order of the first revision's `describe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub u16);

/// One changed row: its encoded key and its new encoded value; `None` removes it.
pub type RowChange = (Bytes, Option<Bytes>);

/// Shows a row to a scan, which goes on until it breaks.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// How much a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateSize {
    /// Rows, as far as the store can tell cheaply; an estimate in RocksDB.
    pub rows: u64,
    /// Bytes on disk (or in memory, for a store without disk).
    pub bytes: u64,
}

/// How a store has answered reads of single rows since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreReads {
    /// From memory.
    pub hits: u64,
    /// From the disk, or because there is no such row.
    pub misses: u64,
}

/// Why a store could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or database failed.
    #[error("keyed state cannot be read or written: {0}")]
    Unavailable(String),
    /// What is stored contradicts its format.
    #[error("keyed state is damaged: {0}")]
    Corrupt(String),
}

/// The keyed-state port: an ordered map from row keys to row values, changed only by whole epochs.
///
/// Invariant: after [`StateStore::apply`] returned, reads see all of its changes and
/// [`StateStore::head`] returns its head; after a crash a store holds some applied epoch entirely,
/// with the head of that epoch.
pub trait StateStore: Send {
    /// Returns the value of a row.
    ///
    /// # Errors
    ///
    /// When the store fails.
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Visits rows with `from` ≤ key < `to` in ascending order until `visit` breaks.
    ///
    /// # Errors
    ///
    /// When the store fails.
    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// Applies a committed epoch in one atomic step: row changes and the head.
    ///
    /// `clocks` are those of the applied epoch: a store may drop rows that are expired by them
    /// and by no later clock.
    ///
    /// # Errors
    ///
    /// When the store fails; it must then be reopened and the journal replayed.
    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        clocks: Clocks,
    ) -> Result<(), StoreError>;

    /// Returns the head given with the last applied epoch.
    ///
    /// # Errors
    ///
    /// When the store fails.
    fn head(&mut self) -> Result<Option<Bytes>, StoreError>;

    /// Makes everything applied durable (a clean stop).
    ///
    /// # Errors
    ///
    /// When the store fails.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Returns how much is stored.
    fn size(&self) -> StateSize;

    /// Returns how reads were answered. The default is for stores without a cache.
    fn reads(&self) -> StoreReads {
        StoreReads::default()
    }

    /// Freezes what is applied at some epoch, without making the caller wait: `None` = what it needs
    /// is on its way, ask again after the next epoch. The frozen epoch may be older than the last
    /// applied one. The default is for stores that nobody takes checkpoints of.
    ///
    /// # Errors
    ///
    /// When the store fails; it goes on as before.
    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        Err(StoreError::Unavailable("this store cannot be frozen".to_owned()))
    }

    /// Drops everything, to be filled again from the journal.
    ///
    /// # Errors
    ///
    /// When the store fails.
    fn clear(&mut self) -> Result<(), StoreError>;
}
