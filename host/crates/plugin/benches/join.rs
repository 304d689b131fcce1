//! What a record of a whole join costs in processor time: latest-dimension with its JSON, called as
//! a lane calls it, over the store and the cache that a lane has.
//!
//! Goal: at most 1.3 µs with one key, and 1.8 µs over 200,000 keys in memory.
//! Method: three behaviours to one newer dimension, keys in an order that no prefetcher can guess;
//! epochs of 1,000 records, whose commit is not part of the figure.

#[path = "measure/lane_parts.rs"]
mod lane_parts;
#[path = "measure/processor_time.rs"]
mod processor_time;

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use dovetail_core::{
    context::{Context, Current, Subject},
    epoch::LaneId,
    key::Key,
    plugin::MatchFunction,
    record::{InputIndex, Partition, Record},
    state::{Clocks, MemoryStore, StateId, StateStore, row},
};
use dovetail_plugin::{Engine, Gate, GateOptions, Instance, Limits, Revision};
use dovetail_state::{Claim, MemoryBudget, StateDirectory};

use lane_parts::context;
use processor_time::processor_time;

const DIMENSION: u32 = 0;
const BEHAVIOUR: u32 = 1;
const PARTITION: Partition = Partition(3);
/// The plugin's row per key is its first state.
const LATEST: u32 = 0;
const EPOCH: usize = 1_000;
const BUDGET: MemoryBudget =
    MemoryBudget { block_cache: 64 << 20, memtables: 64 << 20, row_cache: 64 << 20 };

fn joins(criterion: &mut Criterion) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins/latest-dimension");
    let file = dovetail_plugin::build_guest(&top, &mut |_| ()).expect("the plugin builds");
    let config = fs::read_to_string(top.join("bench-config.json")).expect("beside the plugin");
    let engine = Engine::new().expect("this machine runs WebAssembly");
    let gate = Gate::new(&engine, GateOptions::default()).expect("imports are defined");
    let bytes = fs::read(file).expect("just written");
    let revision = gate.load_bytes(bytes, &config).expect("a good plugin");

    for (name, keys) in [("join/one key", 1), ("join/200,000 keys in memory", 200_000)] {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut join = Join::new(&revision, filled_store(folder.path(), &revision, keys));
        let mut stream = Stream { keys, random: 1, records: 0 };
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|calls| {
                let mut taken = Duration::ZERO;
                let calls = usize::try_from(calls).expect("fewer than 2^32");
                for begun in (0..calls).step_by(EPOCH) {
                    let epoch = stream.by_ref().take(EPOCH.min(calls - begun));
                    taken += join.epoch(epoch.collect());
                }
                taken.max(Duration::from_nanos(1))
            });
        });
    }
}

/// Records of the workload without end, over so many keys.
struct Stream {
    keys: u64,
    random: u64,
    records: u64,
}

impl Iterator for Stream {
    type Item = Current;

    fn next(&mut self) -> Option<Current> {
        self.random = self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        self.records += 1;
        let role = if self.records.is_multiple_of(4) { DIMENSION } else { BEHAVIOUR };
        Some(current(role, (self.random >> 33) % self.keys, self.records))
    }
}

/// The plugin as a lane has it: an instance and the open epoch.
struct Join {
    instance: Instance,
    context: Option<Box<Context>>,
}

impl Join {
    fn new(revision: &Revision, store: Box<dyn StateStore>) -> Self {
        let context = Some(context(revision, store));
        Self { instance: revision.instantiate(Limits::default()), context }
    }

    fn call(&mut self, current: Current) {
        let mut context = self.context.take().expect("put back by every call");
        context.begin_call(current);
        let (context, result) = self.instance.process_element(context);
        result.expect("the plugin takes what it is given");
        self.context = Some(context);
    }

    /// Handles the records of an epoch; returns the processor time that took.
    fn epoch(&mut self, records: Vec<Current>) -> Duration {
        let start = processor_time();
        for current in records {
            self.call(current);
        }
        let taken = processor_time() - start;
        self.context.as_mut().expect("put back by every call").end_epoch();
        taken
    }
}

/// Returns a lane's store that knows the dimension of every key: what the plugin itself wrote.
fn filled_store(folder: &Path, revision: &Revision, keys: u64) -> Box<dyn StateStore> {
    let mut join = Join::new(revision, Box::new(MemoryStore::default()));
    let mut rows = Vec::new();
    for number in 0..keys {
        join.call(current(DIMENSION, number, 0));
        let context = join.context.as_mut().expect("put back by every call");
        let payload = context.state_get(LATEST, b"").expect("it is declared").expect("written");
        let (mut key, mut value) = (Vec::new(), Vec::new());
        row::state_row(PARTITION, &user(number), StateId(0), b"", &mut key);
        let schema_version = revision.descriptor().states[0].schema_version;
        row::Value { schema_version, stamp: None, payload: &payload }.encode(&mut value);
        rows.push((key, value));
        context.end_epoch();
    }
    let claim = Claim {
        pipeline: "bench".to_owned(),
        cluster_id: "none".to_owned(),
        since: "now".to_owned(),
    };
    let directory = StateDirectory::open(folder, &claim, 1, BUDGET).expect("a new directory opens");
    let mut store = directory.open_lane(LaneId(0)).expect("a new lane opens");
    let clocks = Clocks { watermark: 0, processing_time: 0 };
    let mut changes = rows.iter().map(|(key, value)| (&key[..], Some(&value[..])));
    store.apply(&mut changes, b"head", clocks).expect("an epoch applies");
    Box::new(store)
}

fn user(number: u64) -> Key {
    Key::new(format!("u{number:08}").into_bytes())
}

/// Returns a record of the benchmark's workload (`tests/bench/gen`).
fn current(role: u32, number: u64, record: u64) -> Current {
    let time = 1_700_000_000_000 + i64::try_from(record).unwrap_or(0);
    let value = match role {
        DIMENSION => format!(
            "{{\"user_id\":\"u{number:08}\",\"campaign\":\"c{:04}\",\"tag\":\"t17\",\
             \"version\":{record},\"ts\":{time}}}",
            number % 1_000
        ),
        _ => format!(
            "{{\"user_id\":\"u{number:08}\",\"event_id\":\"e{record:010}\",\"ts\":{time},\
             \"amount\":12345,\"pt\":1000000000000}}"
        ),
    };
    Current {
        subject: Subject::Record {
            input: InputIndex(u16::try_from(role).unwrap_or(0)),
            role,
            record: Record { value: Some(Bytes::from(value)), ..Record::default() },
            time: Some(time),
            is_late: false,
            is_broadcast: false,
        },
        key: Some(user(number)),
        partition: PARTITION,
        event_time: Some(time),
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = joins
}
criterion_main!(benches);
