//! Items per key in the order they were added.

use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use super::{EntryKey, PAGE, sequence::Sequence};
use crate::{
    codec::{decode, encode},
    context::Context,
    error::Result,
};

/// Items per key in the order they were added. Each is an entry of its own: adding one does not
/// rewrite the others.
#[derive(Debug)]
pub struct ListState<T> {
    state: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for ListState<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ListState<T> {}

impl<T> ListState<T> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Returns how many items there are.
    ///
    /// # Errors
    ///
    /// When what is stored is not a list.
    pub fn len(&self, context: &mut Context<'_>) -> Result<u64> {
        Ok(Sequence::read(self.state, context)?.count)
    }

    /// Returns whether there are none.
    ///
    /// # Errors
    ///
    /// As [`ListState::len`].
    pub fn is_empty(&self, context: &mut Context<'_>) -> Result<bool> {
        Ok(self.len(context)? == 0)
    }

    /// Removes every item.
    pub fn clear(&self, context: &mut Context<'_>) {
        context.host.remove_range(self.state, &[], None);
    }
}

impl<T: Serialize + DeserializeOwned> ListState<T> {
    /// Adds an item at the end.
    ///
    /// # Errors
    ///
    /// When the item cannot be written.
    pub fn push(&self, context: &mut Context<'_>, item: &T) -> Result {
        let mut sequence = Sequence::read(self.state, context)?;
        context.host.put(self.state, &sequence.next.to_entry(), &encode(item)?);
        sequence.next += 1;
        sequence.count += 1;
        sequence.write(self.state, context)
    }

    /// Returns all items.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn all(&self, context: &mut Context<'_>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let first = 0u64.to_entry();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let (page, has_more) =
                context.host.scan(self.state, &first, None, after.as_deref(), PAGE);
            for (_, item) in &page {
                items.push(decode(item)?);
            }
            after = page.into_iter().next_back().map(|(entry, _)| entry);
            if !has_more || after.is_none() {
                return Ok(items);
            }
        }
    }
}
