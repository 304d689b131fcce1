//! Broadcast state, with types: the same for every key.
//!
//! Any handler reads it. A write in [`crate::Plugin::process_element`] or in a timer ends the call:
//! lanes would not agree about it.

use std::{marker::PhantomData, ops::RangeBounds};

use serde::{Serialize, de::DeserializeOwned};

use super::{Bytes, EntryKey, PAGE, successor, take_page};
use crate::{
    codec::{decode, encode},
    context::Context,
    error::Result,
};

/// One value.
#[derive(Debug)]
pub struct BroadcastValue<T> {
    state: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for BroadcastValue<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BroadcastValue<T> {}

impl<T> BroadcastValue<T> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Removes the value. Only while a broadcast record is handled.
    pub fn remove(&self, context: &mut Context<'_>) {
        context.host.broadcast_remove(self.state, &[]);
    }
}

impl<T: Serialize + DeserializeOwned> BroadcastValue<T> {
    /// Returns the value; `None` when it is absent.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn get(&self, context: &mut Context<'_>) -> Result<Option<T>> {
        context.host.broadcast_get(self.state, &[]).map(|bytes| decode(&bytes)).transpose()
    }

    /// Writes the value. Only while a broadcast record is handled.
    ///
    /// # Errors
    ///
    /// When the value cannot be written.
    pub fn put(&self, context: &mut Context<'_>, value: &T) -> Result {
        let bytes = encode(value)?;
        context.host.broadcast_put(self.state, &[], &bytes);
        Ok(())
    }
}

/// Entries, ordered by their keys.
#[derive(Debug)]
pub struct BroadcastMap<K, V> {
    state: u32,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for BroadcastMap<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for BroadcastMap<K, V> {}

impl<K: EntryKey, V: Serialize + DeserializeOwned> BroadcastMap<K, V> {
    /// Returns the value of an entry; `None` when it is absent.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn get(&self, context: &mut Context<'_>, entry: &K) -> Result<Option<V>> {
        let found = context.host.broadcast_get(self.state, &entry.to_entry());
        found.map(|bytes| decode(&bytes)).transpose()
    }

    /// Returns the entries of a range, ascending.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn range(
        &self,
        context: &mut Context<'_>,
        range: impl RangeBounds<K>,
    ) -> Result<Vec<(K, V)>> {
        let Bytes { from, mut after, to } = Bytes::of(&range);
        let mut found = Vec::new();
        loop {
            let (to, behind) = (to.as_deref(), after.as_deref());
            let page = context.host.broadcast_scan(self.state, &from, to, behind, PAGE);
            if !take_page(page, &mut after, &mut found)? {
                return Ok(found);
            }
        }
    }

    /// Writes an entry. Only while a broadcast record is handled.
    ///
    /// # Errors
    ///
    /// When the value cannot be written.
    pub fn put(&self, context: &mut Context<'_>, entry: &K, value: &V) -> Result {
        context.host.broadcast_put(self.state, &entry.to_entry(), &encode(value)?);
        Ok(())
    }
}

impl<K: EntryKey, V> BroadcastMap<K, V> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Removes an entry. Only while a broadcast record is handled.
    pub fn remove(&self, context: &mut Context<'_>, entry: &K) {
        context.host.broadcast_remove(self.state, &entry.to_entry());
    }

    /// Removes the entries of a range. Only while a broadcast record is handled.
    pub fn remove_range(&self, context: &mut Context<'_>, range: impl RangeBounds<K>) {
        let bounds = Bytes::of(&range);
        let from = bounds.after.map_or(bounds.from, successor);
        context.host.broadcast_remove_range(self.state, &from, bounds.to.as_deref());
    }

    /// Removes every entry. Only while a broadcast record is handled.
    pub fn clear(&self, context: &mut Context<'_>) {
        context.host.broadcast_remove_range(self.state, &[], None);
    }
}
