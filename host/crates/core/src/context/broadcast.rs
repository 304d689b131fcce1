//! Broadcast state: read by every handler, written while a broadcast record is handled.
//!
//! Invariant: only what every lane handles alike, in the order of one partition, changes it.

use bytes::Bytes;

use super::{Context, ContextError, keyed::Page};
use crate::plugin::StateScope::Broadcast;

impl Context {
    /// Returns a broadcast value: `entry` is empty for a value state.
    ///
    /// # Errors
    ///
    /// When the state is unknown, of the other kind, or keyed.
    pub fn broadcast_get(
        &mut self,
        state: u32,
        entry: &[u8],
    ) -> Result<Option<Bytes>, ContextError> {
        let state = self.address(Broadcast, state, entry)?;
        self.get_in(state, entry)
    }

    /// Writes a broadcast value.
    ///
    /// # Errors
    ///
    /// As [`Context::broadcast_get`]; when the call is about anything but a broadcast record, or the
    /// row is larger than a row may be.
    pub fn broadcast_put(
        &mut self,
        state: u32,
        entry: &[u8],
        value: &[u8],
    ) -> Result<(), ContextError> {
        self.check_may_write()?;
        let state = self.address(Broadcast, state, entry)?;
        self.put_in(state, entry, value)
    }

    /// Removes a broadcast value; an absent one stays absent.
    ///
    /// # Errors
    ///
    /// As [`Context::broadcast_put`].
    pub fn broadcast_remove(&mut self, state: u32, entry: &[u8]) -> Result<(), ContextError> {
        self.check_may_write()?;
        let state = self.address(Broadcast, state, entry)?;
        self.remove_in(state, entry)
    }

    /// Returns entries with `from` ≤ entry < `to`, ascending, as [`Context::state_scan`] does.
    ///
    /// # Errors
    ///
    /// As [`Context::broadcast_get`]; also for a value state, which has no entries.
    pub fn broadcast_scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Page, ContextError> {
        let state = self.address_map(Broadcast, state)?;
        self.scan_in(state, (from, to, after), limit)
    }

    /// Removes entries with `from` ≤ entry < `to`.
    ///
    /// # Errors
    ///
    /// As [`Context::broadcast_put`]; also for a value state, which has no entries.
    pub fn broadcast_remove_range(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(), ContextError> {
        self.check_may_write()?;
        let state = self.address_map(Broadcast, state)?;
        self.remove_range_in(state, from, to)
    }

    fn check_may_write(&self) -> Result<(), ContextError> {
        if self.is_broadcast() {
            return Ok(());
        }
        Err(ContextError::limit(
            "broadcast state is written while a broadcast record is handled and not otherwise: lanes \
             would not agree about it",
        ))
    }
}
