//! Stores in temporary directories, and short ways to write and read them.

use std::{ops::ControlFlow, path::Path};

use dovetail_core::{
    epoch::LaneId,
    state::{Clocks, StateStore},
};
use dovetail_state::{Claim, MemoryBudget, RocksStore, StateDirectory};

pub(crate) const LANE: LaneId = LaneId(0);

/// Small, so that files are written and caches evict within a test.
pub(crate) const BUDGET: MemoryBudget =
    MemoryBudget { block_cache: 4 << 20, memtables: 2 << 20, row_cache: 16 << 10 };

pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;
pub(crate) type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

pub(crate) fn claim() -> Claim {
    Claim {
        pipeline: "ad-attribution".to_owned(),
        cluster_id: "cluster-1".to_owned(),
        since: "10:00:02".to_owned(),
    }
}

pub(crate) fn open_directory(path: &Path) -> StateDirectory {
    StateDirectory::open(path, &claim(), 1, BUDGET).unwrap()
}

pub(crate) fn open(path: &Path) -> RocksStore {
    open_directory(path).open_lane(LANE).unwrap()
}

pub(crate) fn at(processing_time: i64) -> Clocks {
    Clocks { watermark: processing_time, processing_time }
}

pub(crate) fn apply(store: &mut dyn StateStore, changes: &Changes, head: &[u8], clocks: Clocks) {
    let mut borrowed = changes.iter().map(|(row, value)| (&row[..], value.as_deref()));
    store.apply(&mut borrowed, head, clocks).unwrap();
}

pub(crate) fn scan(store: &mut dyn StateStore, from: &[u8], to: &[u8], limit: usize) -> Rows {
    let mut rows = Rows::new();
    let mut visit = |row: &[u8], value: &[u8]| {
        rows.push((row.to_vec(), value.to_vec()));
        if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(from, to, &mut visit).unwrap();
    rows
}

pub(crate) fn all(store: &mut dyn StateStore) -> Rows {
    scan(store, &[], &[0xff; 8], usize::MAX)
}
