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

/// Rows of an epoch, and what each has besides its key, bytes.
const EPOCH_ROWS: usize = 4_000;
const PAYLOAD: usize = 100;
const EPOCHS: i64 = 250;

/// Rows that nobody reads, writes or removes again; what they hold cannot be compressed.
fn epoch_of(epoch: i64) -> Changes {
    let mut random = u64::try_from(epoch).unwrap();
    let mut payload = [0; PAYLOAD];
    let mut row = |number: usize| {
        for piece in payload.chunks_mut(8) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            piece.copy_from_slice(&random.to_be_bytes()[..piece.len()]);
        }
        let key = Key::new(format!("{:016x}", random ^ number as u64).into_bytes());
        let mut row = Vec::new();
        state_row(Partition(0), &key, EXPIRING, b"", &mut row);
        let value = Value { schema_version: 1, stamp: Some(epoch), payload: &payload };
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        (row, Some(encoded))
    };
    (0..EPOCH_ROWS).map(&mut row).collect()
}

#[test]
fn a_million_rows_that_are_never_touched_again_leave_the_disk_with_their_time() {
    const AFTER: i64 = 10;
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.set_expiry(table(AFTER));
    for epoch in 1..=EPOCHS {
        apply(&mut store, &epoch_of(epoch), b"head", watermark(epoch));
    }
    let written = u64::try_from(EPOCHS).unwrap() * (EPOCH_ROWS * PAYLOAD) as u64;
    let live = u64::try_from(AFTER).unwrap() * (EPOCH_ROWS * PAYLOAD) as u64;

    // What is written compacts what was there: a good part is gone while the pipeline runs.
    store.flush().unwrap();
    let running = store.size().bytes;
    assert!(running < written / 2, "{running} bytes of {written} that were written");

    // Files that nothing is written into are compacted after hours; here at once.
    store.compact().unwrap();
    let rows = all(&mut store);
    assert!(
        rows.iter()
            .all(|(row, value)| { !table(AFTER).is_row_expired(row, value, watermark(EPOCHS)) })
    );
    assert_eq!(rows.len(), usize::try_from(AFTER).unwrap() * EPOCH_ROWS);
    let rested = store.size().bytes;
    assert!(rested < 2 * live, "{rested} bytes for {live} that are alive");

    apply(&mut store, &Changes::new(), b"head", watermark(EPOCHS + AFTER));
    store.compact().unwrap();
    assert_eq!(all(&mut store), Rows::new());
    let gone = store.size().bytes;
    assert!(gone < 1 << 16, "{gone} bytes for nothing");
}
