//! How far files may lie behind what was applied.

use std::path::Path;

use dovetail_core::state::StateStore;
use dovetail_state::{MemoryBudget, RocksStore};

use crate::fixture::{Changes, LANE, apply, at, claim};

/// Large memtables: RocksDB itself has no reason to write files.
const ROOMY: MemoryBudget =
    MemoryBudget { block_cache: 8 << 20, memtables: 512 << 20, row_cache: 0 };

fn open(path: &Path) -> RocksStore {
    dovetail_state::StateDirectory::open(path, &claim(), 1, ROOMY).unwrap().open_lane(LANE).unwrap()
}

/// Writes what is left to a file, waits for those asked for before, and counts them all.
fn flushed_files(store: &mut RocksStore) -> usize {
    store.flush().unwrap();
    let files = std::fs::read_dir(store.path()).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension() == Some("sst".as_ref())).count()
}

fn one_row() -> Changes {
    vec![(vec![2, 1], Some(vec![1]))]
}

#[test]
fn a_file_is_written_once_thirty_seconds_of_epochs_lie_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    apply(&mut store, &one_row(), b"1", at(1_000));
    apply(&mut store, &one_row(), b"2", at(31_000));
    apply(&mut store, &one_row(), b"3", at(31_001));
    assert_eq!(flushed_files(&mut store), 2, "the first two epochs, and the third");
    apply(&mut store, &one_row(), b"4", at(100_000));
    apply(&mut store, &one_row(), b"5", at(129_999));
    apply(&mut store, &one_row(), b"6", at(129_999));
    assert_eq!(flushed_files(&mut store), 3, "the time is counted from the first epoch behind");
}

#[test]
fn a_file_is_written_once_64_mib_lie_behind() {
    let large: Changes = (0..8_u8).map(|n| (vec![2, n], Some(vec![n; 1 << 20]))).collect();
    for (epochs, files) in [(7_u8, 1), (8, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        for epoch in 0..epochs {
            apply(&mut store, &large, &[epoch], at(0));
        }
        apply(&mut store, &one_row(), b"last", at(0));
        assert_eq!(flushed_files(&mut store), files, "after {epochs} epochs of 8 MiB");
    }
}
