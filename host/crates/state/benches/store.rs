//! What keyed state costs: reads through the cache of hot rows and through RocksDB, and applying.
//!
//! Goal: a read over 200,000 keys in memory costs about 0.2 µs, and one from RocksDB stays a few µs.
//! Method: rows of 20 bytes with values of 40, in an order that no prefetcher can guess; figures are
//! processor time of the calling thread, which other load on the machine disturbs least.

use std::{
    collections::HashMap, fs, hint::black_box, ops::ControlFlow, path::Path, time::Duration,
};

use bytes::Bytes;
use criterion::{
    BatchSize, Criterion, Throughput, criterion_group, criterion_main,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use dovetail_core::{
    epoch::LaneId,
    key::Key,
    record::Partition,
    state::{Clocks, MemoryStore, StateId, StateSize, StateStore, StoreError, Visit, row},
};
use dovetail_state::{Claim, MemoryBudget, RocksStore, StateDirectory};

const KEYS: u64 = 200_000;
const ROWS_PER_EPOCH: u64 = 10_000;
const CLOCKS: Clocks = Clocks { watermark: 0, processing_time: 0 };
const BUDGET: MemoryBudget =
    MemoryBudget { block_cache: 64 << 20, memtables: 64 << 20, row_cache: 64 << 20 };

fn encoded_row(number: u64, entry: &[u8]) -> Vec<u8> {
    let key = Key::new(format!("user-{number:08}").into_bytes());
    let mut encoded = Vec::new();
    row::state_row(Partition(0), &key, StateId(0), entry, &mut encoded);
    encoded
}

fn encoded_value(number: u64) -> Vec<u8> {
    let payload = [&number.to_be_bytes()[..], &[7; 20]].concat();
    let mut encoded = Vec::new();
    row::Value { schema_version: 1, stamp: Some(0), payload: &payload }.encode(&mut encoded);
    encoded
}

fn open(path: &Path, budget: MemoryBudget) -> RocksStore {
    let claim = Claim {
        pipeline: "bench".to_owned(),
        cluster_id: "none".to_owned(),
        since: "now".to_owned(),
    };
    let directory = StateDirectory::open(path, &claim, 1, budget).expect("a new directory opens");
    directory.open_lane(LaneId(0)).expect("a new lane opens")
}

fn fill(store: &mut dyn StateStore, rows: &[Vec<u8>]) {
    let value = encoded_value(1);
    for epoch in rows.chunks(10_000) {
        let mut changes = epoch.iter().map(|row| (&row[..], Some(&value[..])));
        store.apply(&mut changes, b"head", CLOCKS).expect("an epoch applies");
    }
    store.flush().expect("the store flushes");
}

/// A hash map of rows, to compare with: what its reads cost is what the machine's memory costs.
#[derive(Default)]
struct PlainMap(HashMap<Vec<u8>, Bytes>);

impl StateStore for PlainMap {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.get(row).cloned())
    }

    fn scan(&mut self, _from: &[u8], _to: &[u8], _visit: &mut Visit<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        _head: &[u8],
        _clocks: Clocks,
    ) -> Result<(), StoreError> {
        let set = changes.filter_map(|(row, value)| Some((row.to_vec(), value?)));
        self.0.extend(set.map(|(row, value)| (row, Bytes::copy_from_slice(value))));
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> StateSize {
        StateSize::default()
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.0.clear();
        Ok(())
    }
}

/// Processor time of the calling thread, as Linux counts it.
struct ThreadTime;

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts time");
        let on_processor = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(on_processor.expect("it begins with a number"))
    }

    fn end(&self, start: Duration) -> Duration {
        // Never nothing: short calls fall between two counts.
        (self.start() - start).max(Duration::from_nanos(1))
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// All rows in an order without a pattern: a full-period generator modulo 2^18, those in range.
///
/// One behind the other in memory, as the keys of records are: looking for them costs nothing.
struct Shuffled {
    bytes: Vec<u8>,
    row_size: usize,
}

impl Shuffled {
    fn new(rows: &[Vec<u8>]) -> Self {
        let mut at = 1_u64;
        let mut bytes = Vec::new();
        for _ in 0..1_u64 << 18 {
            at = (at * 1_664_525 + 1_013_904_223) % (1 << 18);
            if let Some(row) = usize::try_from(at).ok().and_then(|at| rows.get(at)) {
                bytes.extend_from_slice(row);
            }
        }
        Self { bytes, row_size: rows[0].len() }
    }

    fn rows(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.bytes.chunks_exact(self.row_size)
    }
}

fn reads(criterion: &mut Criterion<ThreadTime>) {
    let rows: Vec<_> = (0..KEYS).map(|n| encoded_row(n, b"")).collect();
    let absent: Vec<_> = (0..KEYS).map(|n| encoded_row(n, b"absent")).collect();
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut group = criterion.benchmark_group("read over 200,000 keys");
    group.throughput(Throughput::Elements(1));
    let mut bench = |name: &str, store: &mut dyn StateStore, rows: &[Vec<u8>]| {
        let order = Shuffled::new(rows);
        let mut next = order.rows().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let row = next.next().expect("a cycle has no end");
                black_box(store.get(black_box(row)).expect("a read succeeds"))
            });
        });
    };
    let mut memory = MemoryStore::default();
    fill(&mut memory, &rows);
    bench("memory store", &mut memory, &rows);

    let mut plain = PlainMap::default();
    fill(&mut plain, &rows);
    bench("plain hash map", &mut plain, &rows);

    let mut store = open(dir.path(), BUDGET);
    fill(&mut store, &rows);
    bench("cache hit", &mut store, &rows);
    for row in &absent {
        store.get(row).expect("a read succeeds");
    }
    bench("cache hit, absent", &mut store, &absent);
    drop(store);

    let mut store = open(dir.path(), MemoryBudget { row_cache: 0, ..BUDGET });
    bench("RocksDB, in its block cache", &mut store, &rows);
    bench("RocksDB, absent", &mut store, &absent);
    group.finish();
    scans(criterion, &mut store, &rows);
}

fn visit_ten(store: &mut RocksStore, from: &[u8]) {
    let mut left = 10;
    let mut visit = |row: &[u8], value: &[u8]| {
        black_box((row, value));
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(from, &[row::STATE_PREFIX + 1], &mut visit).expect("a scan succeeds");
}

fn scans(criterion: &mut Criterion<ThreadTime>, store: &mut RocksStore, rows: &[Vec<u8>]) {
    let order = Shuffled::new(rows);
    let mut next = order.rows().cycle();
    criterion.bench_function("scan of 10 rows", |bencher| {
        bencher.iter(|| visit_ten(store, next.next().expect("a cycle has no end")));
    });
}

fn epochs(criterion: &mut Criterion<ThreadTime>) {
    let rows: Vec<_> = (0..KEYS).map(|n| encoded_row(n, b"")).collect();
    let shuffled = Shuffled::new(&rows);
    let order: Vec<&[u8]> = shuffled.rows().collect();
    let value = encoded_value(2);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut store = open(dir.path(), BUDGET);
    fill(&mut store, &rows);
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Elements(ROWS_PER_EPOCH));
    let mut next = order.chunks_exact(10_000).cycle();
    group.bench_function("epoch of 10,000 rows", |bencher| {
        bencher.iter_batched(
            || next.next().expect("a cycle has no end"),
            |epoch| {
                let mut changes = epoch.iter().map(|row| (*row, Some(&value[..])));
                store.apply(&mut changes, b"head", CLOCKS).expect("an epoch applies");
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(ThreadTime);
    targets = reads, epochs
}
criterion_main!(benches);
