//! Expired rows leave the disk, and when that happens nobody can tell.

use dovetail_core::{
    key::Key,
    plugin::{Expiry, ExpiryDomain},
    record::Partition,
    state::{
        Clocks, ExpiryTable, StateId, StateStore,
        row::{Value, state_row},
    },
    timers::{TIMER_VALUE, Timer, TimerDomain},
};
use dovetail_state::RocksStore;

use crate::fixture::{Changes, Rows, all, apply, open};

const EXPIRING: StateId = StateId(0);
const LASTING: StateId = StateId(1);

fn table(after: i64) -> ExpiryTable {
    let expiry = Expiry { after, domain: ExpiryDomain::EventTime, refresh_on_read: false };
    ExpiryTable::new([(EXPIRING, Some(expiry)), (LASTING, None)])
}

fn entry(state: StateId, key: &str, stamp: i64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut row = Vec::new();
    state_row(Partition(0), &Key::new(key.as_bytes().to_vec()), state, b"", &mut row);
    let value = Value { schema_version: 1, stamp: Some(stamp), payload: key.as_bytes() };
    let mut encoded = Vec::new();
    value.encode(&mut encoded);
    (row, Some(encoded))
}

fn timer() -> (Vec<u8>, Option<Vec<u8>>) {
    let timer = Timer { time: 0, key: Key::new(b"k".to_vec()), tag: 0, partition: Partition(0) };
    (timer.row(TimerDomain::Event), Some(TIMER_VALUE.to_vec()))
}

fn watermark(watermark: i64) -> Clocks {
    Clocks { watermark, processing_time: 0 }
}

fn written() -> Changes {
    vec![
        entry(EXPIRING, "old", 0),
        entry(EXPIRING, "new", 1_000),
        entry(LASTING, "old", 0),
        timer(),
    ]
}

/// What a reader sees: rows that are not expired by the clocks it reads at.
fn seen(store: &mut RocksStore, table: &ExpiryTable, clocks: Clocks) -> Rows {
    let mut rows = all(store);
    rows.retain(|(row, value)| !table.is_row_expired(row, value, clocks));
    rows
}

#[test]
fn expired_rows_leave_the_disk_and_readers_see_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.set_expiry(table(100));
    apply(&mut store, &written(), b"1", watermark(99));
    store.compact().unwrap();
    assert_eq!(all(&mut store).len(), 4, "nothing is expired before its time");

    apply(&mut store, &vec![], b"2", watermark(100));
    let before = seen(&mut store, &table(100), watermark(100));
    assert_eq!(all(&mut store).len(), 4, "expired, and still on disk");
    store.compact().unwrap();
    assert_eq!(all(&mut store).len(), 3, "the expired row has left");
    assert_eq!(seen(&mut store, &table(100), watermark(100)), before);
    assert_eq!(all(&mut store), before);
    assert_eq!(store.head().unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_row_behind_the_cache_is_judged_by_its_reader() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.set_expiry(table(100));
    apply(&mut store, &written(), b"1", watermark(500));
    store.compact().unwrap();
    let (row, _) = entry(EXPIRING, "old", 0);
    // The cache may still hold it, the disk may not: the read-time check makes both the same.
    let value = store.get(&row).unwrap();
    assert!(value.is_none_or(|value| table(100).is_row_expired(&row, &value, watermark(500))));
}

#[test]
fn a_longer_expiry_keeps_what_was_not_removed_yet() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.set_expiry(table(100));
    apply(&mut store, &written(), b"1", watermark(150));
    store.expiry_setter().set(table(200));
    store.compact().unwrap();
    assert_eq!(all(&mut store).len(), 4);
    apply(&mut store, &vec![], b"2", watermark(200));
    store.compact().unwrap();
    assert_eq!(all(&mut store).len(), 3);
}

#[test]
fn nothing_is_removed_before_an_epoch_says_what_time_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    apply(&mut store, &written(), b"1", watermark(10_000));
    store.flush().unwrap();
    drop(store);
    let mut store = open(dir.path());
    store.set_expiry(table(100));
    store.compact().unwrap();
    assert_eq!(all(&mut store).len(), 4);
}
