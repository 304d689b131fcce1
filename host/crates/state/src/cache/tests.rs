//! The cache against a map of what it was told.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Insert(u8, usize),
    InsertAbsent(u8),
    Remove(u8),
    Read(u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (any::<u8>(), 0_usize..700).prop_map(|(row, size)| Step::Insert(row, size)),
        2 => any::<u8>().prop_map(Step::InsertAbsent),
        2 => any::<u8>().prop_map(Step::Remove),
        12 => any::<u8>().prop_map(Step::Read),
        1 => (0_u8..20).prop_map(|n| if n == 0 { Step::Clear } else { Step::Read(n) }),
    ];
    prop::collection::vec(step, 1..600)
}

fn key(row: u8) -> Vec<u8> {
    vec![row; usize::from(row % 40) + 1]
}

/// Walks over the ring and compares it with the index.
fn assert_consistent(cache: &RowCache) {
    let (mut at, mut seen, mut live) = (cache.tail, 0, 0);
    while seen < cache.used {
        let header = cache.header(at);
        assert!(header.slot > 0 && header.size() <= header.slot || !header.is(LIVE));
        if header.is(LIVE) {
            live += 1;
            let slot = cache.slot_of(at, header);
            assert_eq!(position(cache.index[slot][1]), at);
        }
        seen += header.slot;
        at = (at + header.slot) % cache.ring.len();
    }
    assert_eq!((seen, at), (cache.used, cache.head));
    assert_eq!(live, cache.entries);
    assert_eq!(cache.index.iter().filter(|slot| **slot != FREE).count(), live);
}

proptest! {
    #[test]
    fn it_never_answers_anything_but_what_it_was_told_last(
        budget in (4_usize << 10)..(24 << 10),
        steps in steps(),
    ) {
        let mut cache = RowCache::new(budget);
        let mut told: BTreeMap<u8, Option<Vec<u8>>> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert(row, size) => {
                    let value = vec![u8::try_from(number % 251).unwrap(); size];
                    cache.insert(&key(row), Some(&value));
                    told.insert(row, Some(value));
                }
                Step::InsertAbsent(row) => {
                    cache.insert(&key(row), None);
                    told.insert(row, None);
                }
                Step::Remove(row) => {
                    cache.remove(&key(row));
                    told.insert(row, None);
                }
                Step::Read(row) => {
                    if let Some(known) = cache.get(&key(row)) {
                        prop_assert_eq!(known.map(|bytes| bytes.to_vec()), told[&row].clone());
                    }
                }
                Step::Clear => {
                    cache.clear();
                    told.clear();
                }
            }
            assert_consistent(&cache);
        }
    }
}

#[test]
fn a_row_that_fits_is_known_from_the_moment_it_is_told() {
    let mut cache = RowCache::new(64 << 10);
    for size in [0, 1, 7, 8, 9, 1000, 3] {
        let value = vec![7; size];
        cache.insert(b"row", Some(&value));
        assert_eq!(cache.get(b"row"), Some(Some(Bytes::from(value))));
    }
    cache.remove(b"row");
    assert_eq!(cache.get(b"row"), Some(None));
    assert_eq!(cache.get(b"other"), None);
    cache.insert(b"other", None);
    assert_eq!(cache.get(b"other"), Some(None));
}

#[test]
fn rows_that_are_read_outlive_rows_that_are_only_written() {
    let mut cache = RowCache::new(64 << 10);
    let hot: Vec<Vec<u8>> = (0..50_u32).map(|row| format!("hot {row}").into_bytes()).collect();
    for row in &hot {
        cache.insert(row, Some(&[1; 40]));
    }
    for cold in 0..20_000_u32 {
        cache.insert(&cold.to_be_bytes(), Some(&[2; 40]));
        if cold % 20 == 0 {
            for row in &hot {
                assert!(cache.get(row).is_some(), "a row that is read often went");
            }
        }
    }
    assert!(cache.counts().evictions > 10_000);
}

#[test]
fn a_row_too_large_for_it_is_forgotten_and_not_left_with_its_old_value() {
    let mut cache = RowCache::new(1 << 20);
    cache.insert(b"row", Some(b"small"));
    cache.insert(b"row", Some(&vec![0; ENTRY_MAX]));
    assert_eq!(cache.get(b"row"), None);
}

#[test]
fn it_stays_within_its_budget_and_is_off_without_one() {
    let cache = RowCache::new(1 << 20);
    assert!(cache.ring.capacity() + cache.index_max * size_of::<Slot>() <= 1 << 20);
    let mut off = RowCache::new(0);
    off.insert(b"row", Some(b"value"));
    off.remove(b"row");
    assert_eq!(off.get(b"row"), None);
}
