//! Removes expired rows from disk while RocksDB compacts.
//!
//! Goal: expired rows do not stay on disk for ever. Nobody may see when that happens: readers judge
//! expiry themselves. The clocks are those of the last *applied*, that is committed, epoch; a crash
//! may take the database back behind it, but not before the journal has been replayed to at least
//! that epoch does anyone read.
//!
//! Invariant: without clocks or without a table nothing is removed.

use std::{
    ffi::CStr,
    sync::{Arc, Mutex, PoisonError},
};

use dovetail_core::state::{Clocks, ExpiryTable};
use rocksdb::{
    CompactionDecision,
    compaction_filter::CompactionFilter,
    compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory},
};

#[derive(Debug, Default, Clone)]
struct Terms {
    table: ExpiryTable,
    /// `None` until an epoch has been applied since the database was opened.
    clocks: Option<Clocks>,
}

/// What expiry is judged by, shared between a store and RocksDB's background threads.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExpiryTerms(Arc<Mutex<Terms>>);

impl ExpiryTerms {
    fn change(&self, change: impl FnOnce(&mut Terms)) {
        // A panic elsewhere cannot leave the terms half changed.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn set_table(&self, table: ExpiryTable) {
        self.change(|terms| terms.table = table);
    }

    pub(crate) fn set_clocks(&self, clocks: Clocks) {
        self.change(|terms| terms.clocks = Some(clocks));
    }

    /// Until the next epoch is applied, nothing is expired.
    pub(crate) fn forget_clocks(&self) {
        self.change(|terms| terms.clocks = None);
    }
}

/// Makes one filter per compaction, so that no row takes a lock.
pub(crate) struct ExpiryFilterFactory(pub(crate) ExpiryTerms);

impl CompactionFilterFactory for ExpiryFilterFactory {
    type Filter = ExpiryFilter;

    fn create(&mut self, _context: CompactionFilterContext) -> ExpiryFilter {
        ExpiryFilter(self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn name(&self) -> &CStr {
        c"dovetail.expiry.factory"
    }
}

/// The filter of one compaction.
pub(crate) struct ExpiryFilter(Terms);

impl CompactionFilter for ExpiryFilter {
    fn filter(&mut self, _level: u32, row: &[u8], value: &[u8]) -> CompactionDecision {
        match self.0.clocks {
            Some(clocks) if self.0.table.is_row_expired(row, value, clocks) => {
                CompactionDecision::Remove
            }
            Some(_) | None => CompactionDecision::Keep,
        }
    }

    fn name(&self) -> &CStr {
        c"dovetail.expiry"
    }
}
