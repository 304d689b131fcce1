//! Whatever is done to it, RocksDB answers as the reference store does.

use dovetail_core::state::{MemoryStore, StateStore};
use proptest::prelude::*;

use crate::fixture::{BUDGET, Changes, all, apply, at, open, open_directory, scan};

#[derive(Debug, Clone)]
enum Step {
    Apply(Changes),
    Get(Vec<u8>),
    Scan(Vec<u8>, Vec<u8>, usize),
    Flush,
    Compact,
    Reopen,
    Clear,
}

/// Few and short, so that steps meet the same rows; zero and 0xff bytes stand for edges.
fn row() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0x61), Just(0x62), Just(0xff)];
    (2_u8..5, prop::collection::vec(byte, 0..4)).prop_map(|(prefix, mut rest)| {
        rest.insert(0, prefix);
        rest
    })
}

fn bound() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => row(), 1 => Just(Vec::new()), 1 => Just(vec![0xff; 5])]
}

fn changes() -> impl Strategy<Value = Changes> {
    let value = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Some),
        1 => prop::collection::vec(any::<u8>(), 3000..3100).prop_map(Some),
        4 => Just(None),
    ];
    prop::collection::vec((row(), value), 0..20)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => changes().prop_map(Step::Apply),
        20 => row().prop_map(Step::Get),
        10 => (bound(), bound(), 1_usize..40).prop_map(|(from, to, n)| Step::Scan(from, to, n)),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn it_answers_as_the_store_in_memory_does(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut rocks = open(dir.path());
        let mut memory = MemoryStore::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Apply(changes) => {
                    let head = format!("head {number}");
                    let clocks = at(i64::try_from(number).unwrap() * 9_000);
                    apply(&mut rocks, &changes, head.as_bytes(), clocks);
                    apply(&mut memory, &changes, head.as_bytes(), clocks);
                }
                Step::Get(row) => {
                    prop_assert_eq!(rocks.get(&row).unwrap(), memory.get(&row).unwrap());
                }
                Step::Scan(from, to, limit) => {
                    let expected = scan(&mut memory, &from, &to, limit);
                    prop_assert_eq!(scan(&mut rocks, &from, &to, limit), expected);
                }
                Step::Flush => rocks.flush().unwrap(),
                Step::Compact => rocks.compact().unwrap(),
                Step::Reopen => {
                    rocks.flush().unwrap();
                    drop(rocks);
                    rocks = open(dir.path());
                }
                Step::Clear => {
                    rocks.clear().unwrap();
                    memory.clear().unwrap();
                }
            }
            prop_assert_eq!(rocks.head().unwrap(), memory.head().unwrap());
        }
        prop_assert_eq!(all(&mut rocks), all(&mut memory));
    }
}

#[test]
fn a_row_that_the_store_keeps_for_itself_is_refused_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    apply(&mut store, &vec![(vec![2, 1], Some(vec![1]))], b"head", at(0));
    let own = [0x00, b'h', b'e', b'a', b'd'];
    assert_eq!(store.get(&own).unwrap(), None);
    assert_eq!(all(&mut store), [(vec![2, 1], vec![1])]);
    let mut changes = [(&own[..], Some(&b"x"[..]))].into_iter();
    let refused = store.apply(&mut changes, b"head 2", at(0)).unwrap_err().to_string();
    assert!(refused.contains("belongs to the store"), "{refused}");
    assert_eq!(store.head().unwrap().as_deref(), Some(&b"head"[..]));
}

#[test]
fn the_size_grows_with_what_is_stored_and_a_clear_takes_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let empty = store.size();
    let changes: Changes = (0..2000_u32)
        .map(|n| ([&[2], &n.to_be_bytes()[..]].concat(), Some(vec![7; 500])))
        .collect();
    apply(&mut store, &changes, b"head", at(0));
    store.flush().unwrap();
    assert!((1900..2100).contains(&store.size().rows), "{:?}", store.size());
    assert!(store.size().bytes > empty.bytes);
    store.clear().unwrap();
    assert_eq!(store.size().rows, 0);
    assert_eq!(store.head().unwrap(), None);
}

#[test]
fn lanes_of_one_directory_share_its_memory_and_not_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open_directory(dir.path());
    let mut one = directory.open_lane(dovetail_core::epoch::LaneId(0)).unwrap();
    let mut other = directory.open_lane(dovetail_core::epoch::LaneId(1)).unwrap();
    apply(&mut one, &vec![(vec![2, 1], Some(vec![1]))], b"one", at(0));
    assert_eq!(other.get(&[2, 1]).unwrap(), None);
    assert_eq!(other.head().unwrap(), None);
    assert!(directory.memory_use().memtables > 0);
    // All lanes together keep within what one budget allows, up to a memtable's arena each.
    for epoch in 0..40_u8 {
        let rows: Changes = (0..200_u8).map(|n| (vec![2, n, epoch], Some(vec![3; 1000]))).collect();
        apply(&mut one, &rows, b"one", at(0));
        apply(&mut other, &rows, b"other", at(0));
    }
    let used = directory.memory_use().memtables;
    assert!(used < 3 * BUDGET.memtables, "{used} bytes of memtables");
}
