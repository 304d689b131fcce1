//! Keyed state that can be looked at while a lane owns it.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dovetail_core::{
    epoch::codec,
    state::{Clocks, ExpiryTable, StateId, StateSize, StateStore, StoreError, Visit, row},
};

/// Shows a row of broadcast state: the state, the entry and the encoded value.
pub(super) type VisitBroadcast<'a> = dyn FnMut(StateId, &[u8], &[u8]) + 'a;

/// A store whose clones share one content.
#[derive(Clone)]
pub(super) struct SharedStore(Arc<Mutex<Box<dyn StateStore>>>);

impl SharedStore {
    /// Returns a store that others can look at.
    pub(super) fn new(store: Box<dyn StateStore>) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    fn inner(&self) -> MutexGuard<'_, Box<dyn StateStore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many live entries a key has, of one state or of all.
    pub(super) fn entries(
        &self,
        key: &[u8],
        state: Option<StateId>,
        expiry: &ExpiryTable,
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        self.each_live(expiry, &mut |row, _| {
            if row.key.as_bytes() == key && state.is_none_or(|state| state == row.state) {
                count += 1;
            }
        })?;
        Ok(count)
    }

    /// Visits the live rows of keyed state, in order.
    pub(super) fn each_live(
        &self,
        expiry: &ExpiryTable,
        visit: &mut dyn FnMut(&row::StateRow<'_>, &[u8]),
    ) -> Result<(), StoreError> {
        let mut store = self.inner();
        let clocks = match store.head()?.map(|head| codec::decode_stored(&head)) {
            Some(Ok(head)) => head.record.clocks(),
            Some(Err(_)) | None => return Ok(()),
        };
        store.scan(&[row::STATE_PREFIX], &[row::STATE_PREFIX + 1], &mut |bytes, value| {
            if !expiry.is_row_expired(bytes, value, clocks)
                && let Some(row) = row::parse_state_row(bytes)
            {
                visit(&row, value);
            }
            ControlFlow::Continue(())
        })
    }

    /// Visits the rows of broadcast state, in order.
    pub(super) fn each_broadcast(&self, visit: &mut VisitBroadcast<'_>) -> Result<(), StoreError> {
        let (from, to) = ([row::BROADCAST_PREFIX], [row::BROADCAST_PREFIX + 1]);
        self.inner().scan(&from, &to, &mut |bytes, value| {
            if let Some((state, entry)) = row::parse_broadcast_row(bytes) {
                visit(state, entry, value);
            }
            ControlFlow::Continue(())
        })
    }
}

impl StateStore for SharedStore {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.inner().get(row)
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.inner().scan(from, to, visit)
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        clocks: Clocks,
    ) -> Result<(), StoreError> {
        self.inner().apply(changes, head, clocks)
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        self.inner().head()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.inner().flush()
    }

    fn size(&self) -> StateSize {
        self.inner().size()
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.inner().clear()
    }
}
