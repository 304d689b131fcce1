//! Keyed state of the current key, and broadcast state, with types.
//!
//! Values are written with [`crate::codec`], entry keys with [`EntryKey`]. Every read and write
//! crosses to the host, so a handler reads once what it needs and writes it back once.

mod broadcast;
mod buffer;
mod entry_key;
mod list;
mod sequence;

use std::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    broadcast::{BroadcastMap, BroadcastValue},
    buffer::{EventTimeBuffer, Slot},
    entry_key::EntryKey,
    list::ListState,
};
use crate::{
    codec::{decode, encode},
    context::Context,
    error::{Error, Result},
    imports::Page,
};

/// Most entries asked for in one page.
const PAGE: u32 = 1_000;

/// One value per key.
#[derive(Debug)]
pub struct ValueState<T> {
    state: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for ValueState<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ValueState<T> {}

impl<T> ValueState<T> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Returns the value's bytes, for a type that borrows from them (see [`crate::codec::decode`]).
    #[must_use]
    pub fn get_bytes(&self, context: &mut Context<'_>) -> Option<Vec<u8>> {
        context.host.get(self.state, &[])
    }

    /// Writes the value's bytes.
    pub fn put_bytes(&self, context: &mut Context<'_>, bytes: &[u8]) {
        context.host.put(self.state, &[], bytes);
    }

    /// Removes the value.
    pub fn remove(&self, context: &mut Context<'_>) {
        context.host.remove(self.state, &[]);
    }
}

impl<T: Serialize + DeserializeOwned> ValueState<T> {
    /// Returns the value; `None` when it is absent or expired.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn get(&self, context: &mut Context<'_>) -> Result<Option<T>> {
        self.get_bytes(context).map(|bytes| decode(&bytes)).transpose()
    }

    /// Writes the value.
    ///
    /// # Errors
    ///
    /// When the value cannot be written.
    pub fn put(&self, context: &mut Context<'_>, value: &T) -> Result {
        let bytes = encode(value)?;
        self.put_bytes(context, &bytes);
        Ok(())
    }
}

/// Entries per key, ordered by their own keys.
#[derive(Debug)]
pub struct MapState<K, V> {
    state: u32,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for MapState<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for MapState<K, V> {}

impl<K: EntryKey, V: Serialize + DeserializeOwned> MapState<K, V> {
    /// Returns the value of an entry; `None` when it is absent or expired.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn get(&self, context: &mut Context<'_>, entry: &K) -> Result<Option<V>> {
        let found = context.host.get(self.state, &entry.to_entry());
        found.map(|bytes| decode(&bytes)).transpose()
    }

    /// Writes an entry.
    ///
    /// # Errors
    ///
    /// When the value cannot be written.
    pub fn put(&self, context: &mut Context<'_>, entry: &K, value: &V) -> Result {
        context.host.put(self.state, &entry.to_entry(), &encode(value)?);
        Ok(())
    }

    /// Returns the entries of a range, ascending. For ranges that may be large see
    /// [`MapState::page`].
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn range(
        &self,
        context: &mut Context<'_>,
        range: impl RangeBounds<K>,
    ) -> Result<Vec<(K, V)>> {
        let bounds = Bytes::of(&range);
        let mut found = Vec::new();
        let mut after = bounds.after.clone();
        loop {
            let has_more = self.read_page(context, &bounds, &mut after, PAGE, &mut found)?;
            if !has_more {
                return Ok(found);
            }
        }
    }

    /// Returns at most `limit` entries of a range, ascending (the host may cut a page), and
    /// whether more may follow: go on with `(Bound::Excluded(last), …)`, in a call of its own
    /// ([`crate::Timers::continue_with`]) where the work is large.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn page(
        &self,
        context: &mut Context<'_>,
        range: impl RangeBounds<K>,
        limit: u32,
    ) -> Result<(Vec<(K, V)>, bool)> {
        let bounds = Bytes::of(&range);
        let mut found = Vec::new();
        let mut after = bounds.after.clone();
        let has_more = self.read_page(context, &bounds, &mut after, limit, &mut found)?;
        Ok((found, has_more))
    }

    fn read_page(
        &self,
        context: &mut Context<'_>,
        bounds: &Bytes,
        after: &mut Option<Vec<u8>>,
        limit: u32,
        found: &mut Vec<(K, V)>,
    ) -> Result<bool> {
        let (from, to) = (&bounds.from, bounds.to.as_deref());
        let (entries, has_more) = context.host.scan(self.state, from, to, after.as_deref(), limit);
        take_page((entries, has_more), after, found)
    }
}

impl<K: EntryKey, V> MapState<K, V> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Removes an entry.
    pub fn remove(&self, context: &mut Context<'_>, entry: &K) {
        context.host.remove(self.state, &entry.to_entry());
    }

    /// Removes the entries of a range.
    pub fn remove_range(&self, context: &mut Context<'_>, range: impl RangeBounds<K>) {
        let bounds = Bytes::of(&range);
        let mut from = bounds.from;
        if let Some(after) = bounds.after {
            from = successor(after);
        }
        context.host.remove_range(self.state, &from, bounds.to.as_deref());
    }

    /// Removes every entry.
    pub fn clear(&self, context: &mut Context<'_>) {
        context.host.remove_range(self.state, &[], None);
    }
}

/// Decodes a page; returns whether more may follow behind `after`.
fn take_page<K: EntryKey, V: DeserializeOwned>(
    (entries, has_more): Page,
    after: &mut Option<Vec<u8>>,
    found: &mut Vec<(K, V)>,
) -> Result<bool> {
    for (entry, value) in &entries {
        let key = K::decode(&mut entry.as_slice());
        let key = key.ok_or_else(|| {
            let wanted = std::any::type_name::<K>();
            Error::new(format!("a map entry {entry:02x?} is not a {wanted}"))
        })?;
        found.push((key, decode(value)?));
    }
    *after = entries.into_iter().next_back().map(|(entry, _)| entry);
    Ok(has_more && after.is_some())
}

/// A range of entries as the interface takes it.
struct Bytes {
    from: Vec<u8>,
    after: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Bytes {
    fn of<K: EntryKey>(range: &impl RangeBounds<K>) -> Self {
        let (from, after) = match range.start_bound() {
            Bound::Unbounded => (Vec::new(), None),
            Bound::Included(entry) => (entry.to_entry(), None),
            Bound::Excluded(entry) => (entry.to_entry(), Some(entry.to_entry())),
        };
        let to = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Excluded(entry) => Some(entry.to_entry()),
            Bound::Included(entry) => Some(successor(entry.to_entry())),
        };
        Self { from, after, to }
    }
}

/// Returns the least bytes above an entry: no encoding of its type lies between.
fn successor(mut entry: Vec<u8>) -> Vec<u8> {
    entry.push(0);
    entry
}
