//! Keyed state and timers of the current key.

use std::ops::ControlFlow;

use bytes::{Buf as _, Bytes};

use super::{Context, ContextError};
use crate::{
    key::Key,
    plugin::{Expiry, ExpiryDomain, StateKind},
    state::{StateId, StoreError, Visit, row},
    time::NO_WATERMARK,
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

/// A state as a call addresses it.
#[derive(Clone, Copy)]
struct Addressed {
    /// Its place in `describe`.
    at: u32,
    id: StateId,
    expiry: Option<Expiry>,
    schema_version: u16,
    is_map: bool,
}

impl Context {
    /// Returns a value of the current key: `entry` is empty for a value state.
    ///
    /// # Errors
    ///
    /// When the state is unknown, of the other kind, or the call has no key.
    pub fn state_get(&mut self, state: u32, entry: &[u8]) -> Result<Option<Bytes>, ContextError> {
        let state = self.address(state, entry)?;
        self.seek_row(state, entry)?;
        let found = match self.overlay.get(&self.row) {
            Some(value) => Ok(value.cloned()),
            None => self.store.get(&self.row),
        };
        let Some(mut value) = found.map_err(|error| self.fail_store(error))? else {
            return Ok(None);
        };
        let Some(parsed) = row::parse_value(&value) else {
            let message = format!("row {:02x?} has a value of another format", self.row);
            return Err(self.fail_store(StoreError::Corrupt(message)));
        };
        if self.is_expired(parsed.stamp, state.expiry) {
            return Ok(None);
        }
        let stamp = parsed.stamp;
        value.advance(row::payload_offset(&value));
        let refreshes = state.expiry.is_some_and(|expiry| expiry.refresh_on_read);
        if refreshes && stamp != self.stamp(state.expiry) {
            self.write_row(state, &value)?;
        }
        Ok(Some(value))
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
        let state = self.address(state, entry)?;
        let size = entry.len() as u64 + value.len() as u64;
        if size > self.limits.state_row_bytes_max {
            let max = self.limits.state_row_bytes_max;
            return Err(ContextError::limit(format!(
                "a state row of {size} bytes exceeds the limit of {max} bytes"
            )));
        }
        self.seek_row(state, entry)?;
        self.write_row(state, value)
    }

    /// Removes a value of the current key; an absent one stays absent.
    ///
    /// # Errors
    ///
    /// As [`Context::state_get`].
    pub fn state_remove(&mut self, state: u32, entry: &[u8]) -> Result<(), ContextError> {
        let state = self.address(state, entry)?;
        self.seek_row(state, entry)?;
        self.charge(self.row.len())?;
        self.overlay.put(&self.row, None, state.is_map);
        Ok(())
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
        let state = self.address_map(state)?;
        let (from, to) = self.bounds(state, from, to, after)?;
        let limit = limit.clamp(1, self.limits.scan_entries_max.max(1)) as usize;
        self.seek_row(state, &[])?;
        let prefix = self.row.len();
        let (expiry, clocks) = (state.expiry, self.clocks);
        let (mut page, mut bytes) = (Page::default(), 0);
        let bytes_max = self.limits.scan_bytes_max;
        self.scan_rows(state, &from, &to, &mut |row, value| {
            let Some(parsed) = row::parse_value(value) else {
                return ControlFlow::Continue(());
            };
            let is_expired = parsed
                .stamp
                .zip(expiry)
                .is_some_and(|(stamp, expiry)| clocks.is_expired(stamp, expiry));
            if is_expired {
                return ControlFlow::Continue(());
            }
            bytes += (row.len() - prefix + parsed.payload.len()) as u64;
            let is_full =
                page.entries.len() == limit || (bytes > bytes_max && !page.entries.is_empty());
            if is_full {
                page.has_more = true;
                return ControlFlow::Break(());
            }
            let entry = Bytes::copy_from_slice(&row[prefix..]);
            page.entries.push((entry, Bytes::copy_from_slice(parsed.payload)));
            ControlFlow::Continue(())
        })?;
        if expiry.is_some_and(|expiry| expiry.refresh_on_read) {
            for (entry, value) in &page.entries {
                self.seek_row(state, entry)?;
                self.write_row(state, value)?;
            }
        }
        Ok(page)
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
        let state = self.address_map(state)?;
        let (from, to) = self.bounds(state, from, to, None)?;
        let (mut rows, mut bytes) = (Vec::new(), 0_usize);
        let bytes_max = self.limits.state_bytes_max;
        self.scan_rows(state, &from, &to, &mut |row, _| {
            rows.push(row.to_vec());
            bytes += row.len();
            if bytes as u64 > bytes_max {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        self.charge(bytes)?;
        for row in &rows {
            self.overlay.put(row, None, true);
        }
        Ok(())
    }

    /// Visits the live rows of a range, and remembers where the first of them was.
    fn scan_rows(
        &mut self,
        state: Addressed,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), ContextError> {
        let Self { overlay, store, cleared, scan_from, first_row, .. } = self;
        scan_from.clear();
        scan_from.extend_from_slice(cleared.skip(state.at, from).unwrap_or(from));
        first_row.clear();
        let scanned = overlay.scan(store.as_mut(), scan_from, to, &mut |row, value| {
            if first_row.is_empty() {
                first_row.extend_from_slice(row);
            }
            visit(row, value)
        });
        if scanned.is_ok() && from < to {
            let until = if first_row.is_empty() { to } else { first_row };
            cleared.note(state.at, from, until);
        }
        scanned.map_err(|error| self.fail_store(error))
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
        let Some(key) = &self.current.key else { return Err(no_key()) };
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

    fn address(&self, state: u32, entry: &[u8]) -> Result<Addressed, ContextError> {
        let addressed = self.lookup(state)?;
        if addressed.is_map || entry.is_empty() {
            return Ok(addressed);
        }
        let name = &self.descriptor.states[state as usize].name;
        Err(ContextError::limit(format!("state `{name}` is a value and has no entries")))
    }

    fn address_map(&self, state: u32) -> Result<Addressed, ContextError> {
        let addressed = self.lookup(state)?;
        if addressed.is_map {
            return Ok(addressed);
        }
        let name = &self.descriptor.states[state as usize].name;
        Err(ContextError::limit(format!("state `{name}` is a value and cannot be scanned")))
    }

    fn lookup(&self, state: u32) -> Result<Addressed, ContextError> {
        let Some(described) = self.descriptor.states.get(state as usize) else {
            return Err(ContextError::limit(format!(
                "state number {state} is unknown: `describe` names {} states",
                self.descriptor.states.len()
            )));
        };
        Ok(Addressed {
            at: state,
            id: self.state_ids[state as usize],
            expiry: described.expiry,
            schema_version: described.schema_version,
            is_map: described.kind == StateKind::Map,
        })
    }

    /// Makes `self.row` the row of that entry.
    fn seek_row(&mut self, state: Addressed, entry: &[u8]) -> Result<(), ContextError> {
        let Some(key) = &self.current.key else {
            return Err(no_key());
        };
        row::state_row(self.current.partition, key, state.id, entry, &mut self.row);
        Ok(())
    }

    fn bounds(
        &mut self,
        state: Addressed,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Vec<u8>), ContextError> {
        self.seek_row(state, from)?;
        let mut lower = self.row.clone();
        if let Some(after) = after.filter(|after| *after >= from) {
            self.seek_row(state, after)?;
            lower.clone_from(&self.row);
            lower.push(0);
        }
        if let Some(to) = to {
            self.seek_row(state, to)?;
        } else {
            let next = StateId(state.id.0.saturating_add(1));
            self.seek_row(Addressed { id: next, ..state }, &[])?;
        }
        Ok((lower, self.row.clone()))
    }

    /// Writes the row that `self.row` names.
    fn write_row(&mut self, state: Addressed, payload: &[u8]) -> Result<(), ContextError> {
        self.charge(self.row.len() + payload.len())?;
        let stamp = self.stamp(state.expiry);
        let value = row::Value { schema_version: state.schema_version, stamp, payload };
        value.encode(&mut self.value);
        if state.is_map {
            self.cleared.put(state.at, &self.row);
        }
        self.overlay.put(&self.row, Some(&self.value), state.is_map);
        Ok(())
    }

    /// Counts bytes of changed rows against what a call may change.
    fn charge(&mut self, bytes: usize) -> Result<(), ContextError> {
        self.call.state_bytes += bytes as u64;
        if self.call.state_bytes > self.limits.state_bytes_max {
            let max = self.limits.state_bytes_max;
            return Err(ContextError::limit(format!(
                "a call may change {max} bytes of keyed state; `continue` goes on in another"
            )));
        }
        Ok(())
    }

    fn stamp(&self, expiry: Option<Expiry>) -> Option<i64> {
        let event_time = self.current.event_time.unwrap_or(NO_WATERMARK);
        expiry.map(|expiry| match expiry.domain {
            ExpiryDomain::EventTime => event_time.max(self.clocks.watermark),
            ExpiryDomain::ProcessingTime => self.clocks.processing_time,
        })
    }

    fn is_expired(&self, stamp: Option<i64>, expiry: Option<Expiry>) -> bool {
        stamp.zip(expiry).is_some_and(|(stamp, expiry)| self.clocks.is_expired(stamp, expiry))
    }

    fn fail_store(&mut self, error: StoreError) -> ContextError {
        self.store_failure.get_or_insert_with(|| error.clone());
        ContextError::Store(error)
    }
}

fn no_key() -> ContextError {
    ContextError::limit("this record has no key: it reaches no state and no timers")
}
