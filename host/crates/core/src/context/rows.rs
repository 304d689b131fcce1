//! Rows of keyed and of broadcast state, as a call reads and changes them: overlay over store.

use std::ops::ControlFlow;

use bytes::{Buf as _, Bytes};

use super::{Context, ContextError, keyed::Page};
use crate::{
    plugin::{Expiry, ExpiryDomain, StateKind, StateScope},
    state::{StateId, StoreError, Visit, row},
    time::NO_WATERMARK,
};

/// A state as a call addresses it.
#[derive(Clone, Copy)]
pub(super) struct Addressed {
    /// Its place in `describe`.
    at: u32,
    id: StateId,
    scope: StateScope,
    expiry: Option<Expiry>,
    schema_version: u16,
    is_map: bool,
}

impl Context {
    pub(super) fn get_in(
        &mut self,
        state: Addressed,
        entry: &[u8],
    ) -> Result<Option<Bytes>, ContextError> {
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

    pub(super) fn put_in(
        &mut self,
        state: Addressed,
        entry: &[u8],
        value: &[u8],
    ) -> Result<(), ContextError> {
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

    pub(super) fn remove_in(&mut self, state: Addressed, entry: &[u8]) -> Result<(), ContextError> {
        self.seek_row(state, entry)?;
        self.charge(self.row.len())?;
        self.overlay.put(&self.row, None, state.is_map);
        Ok(())
    }

    pub(super) fn scan_in(
        &mut self,
        state: Addressed,
        (from, to, after): (&[u8], Option<&[u8]>, Option<&[u8]>),
        limit: u32,
    ) -> Result<Page, ContextError> {
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

    pub(super) fn remove_range_in(
        &mut self,
        state: Addressed,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(), ContextError> {
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

    pub(super) fn address(
        &self,
        scope: StateScope,
        state: u32,
        entry: &[u8],
    ) -> Result<Addressed, ContextError> {
        let addressed = self.lookup(scope, state)?;
        if addressed.is_map || entry.is_empty() {
            return Ok(addressed);
        }
        let name = &self.descriptor.states[state as usize].name;
        Err(ContextError::limit(format!("state `{name}` is a value and has no entries")))
    }

    pub(super) fn address_map(
        &self,
        scope: StateScope,
        state: u32,
    ) -> Result<Addressed, ContextError> {
        let addressed = self.lookup(scope, state)?;
        if addressed.is_map {
            return Ok(addressed);
        }
        let name = &self.descriptor.states[state as usize].name;
        Err(ContextError::limit(format!("state `{name}` is a value and cannot be scanned")))
    }

    fn lookup(&self, scope: StateScope, state: u32) -> Result<Addressed, ContextError> {
        let Some(described) = self.descriptor.states.get(state as usize) else {
            return Err(ContextError::limit(format!(
                "state number {state} is unknown: `describe` names {} states",
                self.descriptor.states.len()
            )));
        };
        if described.scope != scope {
            let (name, has) = (&described.name, scope_name(described.scope));
            return Err(ContextError::limit(format!(
                "state `{name}` is {has} state and was asked for as {} state",
                scope_name(scope)
            )));
        }
        Ok(Addressed {
            at: state,
            id: self.state_ids[state as usize],
            scope,
            expiry: described.expiry,
            schema_version: described.schema_version,
            is_map: described.kind == StateKind::Map,
        })
    }

    /// Makes `self.row` the row of that entry.
    fn seek_row(&mut self, state: Addressed, entry: &[u8]) -> Result<(), ContextError> {
        if state.scope == StateScope::Broadcast {
            row::broadcast_row(state.id, entry, &mut self.row);
            return Ok(());
        }
        let Some(key) = self.current.key.as_ref().filter(|_| !self.is_broadcast()) else {
            return Err(self.no_key());
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
                "a call may change {max} bytes of state; `continue` goes on in another"
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

    pub(super) fn no_key(&self) -> ContextError {
        ContextError::limit(if self.is_broadcast() {
            "a broadcast record belongs to no key: it reaches no keyed state and no timers"
        } else {
            "this record has no key: it reaches no state and no timers"
        })
    }
}

fn scope_name(scope: StateScope) -> &'static str {
    match scope {
        StateScope::Keyed => "keyed",
        StateScope::Broadcast => "broadcast",
    }
}
