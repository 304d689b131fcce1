//! When files are asked for: right then the memtable that takes new rows is an empty one.

use dovetail_core::epoch::LaneId;

use super::*;
use crate::{Claim, MemoryBudget};

fn open(path: &Path) -> RocksStore {
    let claim = Claim {
        pipeline: "p".to_owned(),
        cluster_id: "c".to_owned(),
        since: "10:00:02".to_owned(),
    };
    // Large memtables: RocksDB itself has no reason to write files.
    let budget = MemoryBudget { block_cache: 8 << 20, memtables: 512 << 20, row_cache: 0 };
    StateDirectory::open(path, &claim, 1, budget).unwrap().open_lane(LaneId(0)).unwrap()
}

/// Applies an epoch and returns whether it led to a flush.
fn is_flushed_after(store: &mut RocksStore, rows: &[(Vec<u8>, Vec<u8>)], now: i64) -> bool {
    let clocks = Clocks { watermark: 0, processing_time: now };
    let mut changes = rows.iter().map(|(row, value)| (&row[..], Some(&value[..])));
    store.apply(&mut changes, b"head", clocks).unwrap();
    let database = store.database.as_ref().unwrap();
    let entries = database.property_int_value(properties::NUM_ENTRIES_ACTIVE_MEM_TABLE);
    entries.unwrap().unwrap() == 0
}

#[test]
fn a_flush_is_asked_for_once_thirty_seconds_of_epochs_lie_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let row = [(vec![2, 1], vec![1])];
    assert!(!is_flushed_after(&mut store, &row, 1_000));
    assert!(!is_flushed_after(&mut store, &row, 30_999));
    assert!(is_flushed_after(&mut store, &row, 31_000));
    // Counted from the first epoch behind, however late that comes.
    assert!(!is_flushed_after(&mut store, &row, 100_000));
    assert!(!is_flushed_after(&mut store, &row, 129_999));
    store.flush().unwrap();
    assert!(!is_flushed_after(&mut store, &row, 130_000));
}

#[test]
fn a_flush_is_asked_for_once_64_mib_lie_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let rows: Vec<_> = (0..8_u8).map(|n| (vec![2, n], vec![n; 1 << 20])).collect();
    for _ in 0..7 {
        assert!(!is_flushed_after(&mut store, &rows, 0));
    }
    assert!(is_flushed_after(&mut store, &rows, 0));
    assert!(!is_flushed_after(&mut store, &rows[..1], 0));
}
