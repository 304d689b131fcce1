//! Items per key ordered by event time: what a join keeps of records that wait.
//!
//! Invariant: two items of the same time keep the order in which they were added; the count is
//! exact.

use std::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{EntryKey, PAGE, sequence::Sequence, successor};
use crate::{
    codec::{decode, encode},
    context::Context,
    error::{Error, Result},
};

/// Where an item lies in its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The item's event time in ms.
    pub time: i64,
    /// Its number among all items of the key.
    pub sequence: u64,
}

impl Slot {
    fn entry(self) -> Vec<u8> {
        (self.time, self.sequence).to_entry()
    }
}

/// Items per key ordered by event time, then by the order they were added. Reading a range reads
/// nothing else; removing from the front costs what is removed.
#[derive(Debug)]
pub struct EventTimeBuffer<T> {
    state: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for EventTimeBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for EventTimeBuffer<T> {}

impl<T> EventTimeBuffer<T> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Returns how many items there are.
    ///
    /// # Errors
    ///
    /// When what is stored is not a buffer.
    pub fn len(&self, context: &mut Context<'_>) -> Result<u64> {
        Ok(Sequence::read(self.state, context)?.count)
    }

    /// Returns whether there are none.
    ///
    /// # Errors
    ///
    /// As [`EventTimeBuffer::len`].
    pub fn is_empty(&self, context: &mut Context<'_>) -> Result<bool> {
        Ok(self.len(context)? == 0)
    }

    /// Removes an item that is there.
    ///
    /// # Errors
    ///
    /// As [`EventTimeBuffer::len`].
    pub fn remove(&self, context: &mut Context<'_>, slot: Slot) -> Result {
        context.host.remove(self.state, &slot.entry());
        self.removed(context, 1)
    }

    /// Removes items that are there, as read before.
    ///
    /// # Errors
    ///
    /// As [`EventTimeBuffer::len`].
    pub fn remove_all(
        &self,
        context: &mut Context<'_>,
        slots: impl IntoIterator<Item = Slot>,
    ) -> Result {
        let mut count = 0;
        for slot in slots {
            context.host.remove(self.state, &slot.entry());
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        self.removed(context, count)
    }

    /// Removes the items of a range of event times; their values are not looked at.
    ///
    /// # Errors
    ///
    /// As [`EventTimeBuffer::len`].
    pub fn remove_range(&self, context: &mut Context<'_>, times: impl RangeBounds<i64>) -> Result {
        let (from, to) = bounds(&times);
        let mut count = 0;
        let mut after: Option<Vec<u8>> = None;
        loop {
            let (page, has_more) =
                context.host.scan(self.state, &from, to.as_deref(), after.as_deref(), PAGE);
            for (entry, _) in &page {
                context.host.remove(self.state, entry);
            }
            count += page.len() as u64;
            after = page.into_iter().next_back().map(|(entry, _)| entry);
            if !has_more || after.is_none() {
                break;
            }
        }
        if count == 0 { Ok(()) } else { self.removed(context, count) }
    }

    /// Removes every item.
    pub fn clear(&self, context: &mut Context<'_>) {
        context.host.remove_range(self.state, &[], None);
    }

    fn removed(&self, context: &mut Context<'_>, count: u64) -> Result {
        let mut sequence = Sequence::read(self.state, context)?;
        sequence.count = sequence.count.saturating_sub(count);
        sequence.write(self.state, context)
    }
}

impl<T: Serialize + DeserializeOwned> EventTimeBuffer<T> {
    /// Adds an item.
    ///
    /// # Errors
    ///
    /// When the item cannot be written.
    pub fn push(&self, context: &mut Context<'_>, time: i64, item: &T) -> Result<Slot> {
        let mut sequence = Sequence::read(self.state, context)?;
        let slot = Slot { time, sequence: sequence.next };
        context.host.put(self.state, &slot.entry(), &encode(item)?);
        sequence.next += 1;
        sequence.count += 1;
        sequence.write(self.state, context)?;
        Ok(slot)
    }

    /// Writes an item that is there anew.
    ///
    /// # Errors
    ///
    /// When the item cannot be written.
    pub fn replace(&self, context: &mut Context<'_>, slot: Slot, item: &T) -> Result {
        context.host.put(self.state, &slot.entry(), &encode(item)?);
        Ok(())
    }

    /// Returns the items of a range of event times. For ranges that may be large see
    /// [`EventTimeBuffer::page`].
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn range(
        &self,
        context: &mut Context<'_>,
        times: impl RangeBounds<i64>,
    ) -> Result<Vec<(Slot, T)>> {
        let (from, to) = bounds(&times);
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let page = (from.as_slice(), to.as_deref());
            let has_more = self.read(context, page, after.as_deref(), PAGE, &mut items)?;
            if !has_more {
                return Ok(items);
            }
            after = items.last().map(|(slot, _)| slot.entry());
        }
    }

    /// Returns the first items of a range of event times, at most `limit` (the host may cut a
    /// page), and whether more may follow.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn page(
        &self,
        context: &mut Context<'_>,
        times: impl RangeBounds<i64>,
        limit: u32,
    ) -> Result<(Vec<(Slot, T)>, bool)> {
        self.page_after(context, times, None, limit)
    }

    /// Returns items of a range behind `after`, as [`EventTimeBuffer::page`] does.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn page_after(
        &self,
        context: &mut Context<'_>,
        times: impl RangeBounds<i64>,
        after: Option<Slot>,
        limit: u32,
    ) -> Result<(Vec<(Slot, T)>, bool)> {
        let (from, to) = bounds(&times);
        let after = after.map(Slot::entry);
        let mut items = Vec::new();
        let page = (from.as_slice(), to.as_deref());
        let has_more = self.read(context, page, after.as_deref(), limit, &mut items)?;
        Ok((items, has_more))
    }

    /// Removes and returns the items with event time ≤ `time`.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn pop_until(&self, context: &mut Context<'_>, time: i64) -> Result<Vec<(i64, T)>> {
        let items = self.range(context, ..=time)?;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (from, to) = bounds(&(..=time));
        context.host.remove_range(self.state, &from, to.as_deref());
        self.removed(context, items.len() as u64)?;
        Ok(items.into_iter().map(|(slot, item)| (slot.time, item)).collect())
    }

    fn read(
        &self,
        context: &mut Context<'_>,
        (from, to): (&[u8], Option<&[u8]>),
        after: Option<&[u8]>,
        limit: u32,
        items: &mut Vec<(Slot, T)>,
    ) -> Result<bool> {
        let (page, has_more) = context.host.scan(self.state, from, to, after, limit);
        let is_empty = page.is_empty();
        for (entry, item) in page {
            let slot = <(i64, u64)>::decode(&mut entry.as_slice());
            let (time, sequence) =
                slot.ok_or_else(|| Error::new("an entry of a buffer is not a time and a number"))?;
            items.push((Slot { time, sequence }, decode(&item)?));
        }
        Ok(has_more && !is_empty)
    }
}

/// Returns entries from and up to (exclusive); the head row lies before all of them.
fn bounds(times: &impl RangeBounds<i64>) -> (Vec<u8>, Option<Vec<u8>>) {
    let from = match times.start_bound() {
        Bound::Unbounded => i64::MIN.to_entry(),
        Bound::Included(time) => time.to_entry(),
        // Every sequence number of that time lies below this.
        Bound::Excluded(time) => behind(*time),
    };
    let to = match times.end_bound() {
        Bound::Unbounded => None,
        Bound::Excluded(time) => Some(time.to_entry()),
        Bound::Included(time) => Some(behind(*time)),
    };
    (from, to)
}

fn behind(time: i64) -> Vec<u8> {
    match time.checked_add(1) {
        Some(next) => next.to_entry(),
        None => successor((time, u64::MAX).to_entry()),
    }
}
