//! Keyed state and timers of the current key.

use bytes::Bytes;

use super::{Context, ContextError};
use crate::{
    key::Key,
    plugin::StateScope,
    timers::{Timer, TimerDomain, TimerQueue},
};

/// One page of a range scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Entries and values, ascending.
    pub entries: Vec<(Bytes, Bytes)>,
    /// Whether entries may follow the last one.
    pub has_more: bool,
}

impl Context {
    /// Returns a value of the current key: `entry` is empty for a value state.
    ///
    /// # Errors
    ///
    /// When the state is unknown, of the other kind, or the call has no key.
    pub fn state_get(&mut self, state: u32, entry: &[u8]) -> Result<Option<Bytes>, ContextError> {
        let state = self.address(StateScope::Keyed, state, entry)?;
        self.get_in(state, entry)
    }

    /// Writes a value of the current key.
    ///
    /// # Errors
    ///
    /// As [`Context::state_get`], and when the row is larger than a row may be.
    pub fn state_put(
        &mut self,
        state: u32,
        entry: &[u8],
        value: &[u8],
    ) -> Result<(), ContextError> {
        let state = self.address(StateScope::Keyed, state, entry)?;
        self.put_in(state, entry, value)
    }

    /// Removes a value of the current key; an absent one stays absent.
    ///
    /// # Errors
    ///
    /// As [`Context::state_get`].
    pub fn state_remove(&mut self, state: u32, entry: &[u8]) -> Result<(), ContextError> {
        let state = self.address(StateScope::Keyed, state, entry)?;
        self.remove_in(state, entry)
    }

    /// Returns entries with `from` ≤ entry < `to`, ascending, behind `after` where it is given.
    /// `to` of `None` is the end of the state; `limit` is cut to the configured page size.
    ///
    /// # Errors
    ///
    /// As [`Context::state_get`]; also for a value state, which has no entries.
    pub fn state_scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Result<Page, ContextError> {
        let state = self.address_map(StateScope::Keyed, state)?;
        self.scan_in(state, (from, to, after), limit)
    }

    /// Removes entries with `from` ≤ entry < `to`.
    ///
    /// # Errors
    ///
    /// As [`Context::state_scan`].
    pub fn state_remove_range(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(), ContextError> {
        let state = self.address_map(StateScope::Keyed, state)?;
        self.remove_range_in(state, from, to)
    }

    /// Registers a timer of the current key; an equal one is the same.
    ///
    /// # Errors
    ///
    /// When the call has no key, or for *continue*, which is asked for with
    /// [`Context::continue_with`].
    pub fn timer_register(
        &mut self,
        domain: TimerDomain,
        time: i64,
        tag: u64,
    ) -> Result<(), ContextError> {
        let timer = self.timer(time, tag)?;
        self.queue(domain)?.register(timer);
        Ok(())
    }

    /// Removes a timer of the current key; an absent one stays absent.
    ///
    /// # Errors
    ///
    /// As [`Context::timer_register`].
    pub fn timer_delete(
        &mut self,
        domain: TimerDomain,
        time: i64,
        tag: u64,
    ) -> Result<(), ContextError> {
        let timer = self.timer(time, tag)?;
        self.queue(domain)?.remove(&timer);
        Ok(())
    }

    /// Asks for `on-timer` right after this call, before the next record, as its own undo unit.
    /// Asked for twice in a call, the last tag stands.
    ///
    /// # Errors
    ///
    /// When the call has no key.
    pub fn continue_with(&mut self, tag: u64) -> Result<(), ContextError> {
        self.timer(0, tag)?;
        self.call.continued = Some(tag);
        Ok(())
    }

    fn timer(&mut self, time: i64, tag: u64) -> Result<Timer, ContextError> {
        let Some(key) = self.current.key.as_ref().filter(|_| !self.is_broadcast()) else {
            return Err(self.no_key());
        };
        // A key is a slice of the batch it came in; a timer may outlive that by days.
        let key = Key::new(Bytes::copy_from_slice(key.as_bytes()));
        self.call.timers += 1;
        if self.call.timers > self.limits.timers_max {
            let max = self.limits.timers_max;
            return Err(ContextError::limit(format!(
                "a call may register and delete {max} timers"
            )));
        }
        Ok(Timer { time, key, tag, partition: self.current.partition })
    }

    fn queue(&mut self, domain: TimerDomain) -> Result<&mut TimerQueue, ContextError> {
        match domain {
            TimerDomain::Event => Ok(&mut self.event_timers),
            TimerDomain::Processing => Ok(&mut self.processing_timers),
            TimerDomain::Continue => Err(ContextError::limit(
                "a continuation is not registered for a time: ask for it in the call itself",
            )),
        }
    }
}
