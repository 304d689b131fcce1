//! What one record costs in core alone: choice, watermark, call, overlay, epoch; and what single
//! pieces cost (a state read and write, a watermark step, a timer).

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dovetail_core::{
    context::{Context, emit::OutputKey},
    epoch::{Attempt, LaneId, Owner},
    identity::{Identity, states_of},
    key::Key,
    lane::{Effect, Event, Lane, LaneParts, Start},
    log::{Log, memory::MemoryCluster},
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    plugin::{CallResult, MatchFunction, PluginDescriptor, StateDescriptor, StateKind, StateScope},
    record::{
        DecodedRecord, Decoding, Headers, InputIndex, Partition, Record, Source, SourceIndex,
    },
    state::MemoryStore,
    timers::{Timer, TimerDomain, TimerQueue},
    watermark::{Combiner, combiner::SourceActivity},
};

const RECORDS: usize = 10_000;
const KEYS: usize = 1_000;

/// Reads, writes and emits: what a join does at least.
struct ReadWriteEmit;

impl MatchFunction for ReadWriteEmit {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let before = context.state_get(0, b"").ok().flatten();
        let value = context.record().and_then(|record| record.value.clone()).unwrap_or_default();
        let time = context.current().event_time;
        let wrote = context.state_put(0, b"", &value);
        let emitted = context.emit(0, OutputKey::Current, Some(&value), &Headers::default(), time);
        black_box((before, wrote.is_ok(), emitted.is_ok()));
        (context, Ok(()))
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        (context, Ok(()))
    }

    fn renew(&mut self) {}
}

fn descriptor() -> PluginDescriptor {
    PluginDescriptor {
        inputs: vec!["left".to_owned(), "right".to_owned()],
        broadcast: Vec::new(),
        outputs: vec!["main".to_owned()],
        states: vec![StateDescriptor {
            name: "value".to_owned(),
            kind: StateKind::Value,
            scope: StateScope::Keyed,
            schema_version: 1,
            expiry: None,
        }],
        metrics: Vec::new(),
    }
}

fn options() -> LaneOptions {
    let output = |name: &str| OutputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        max_record_bytes: usize::MAX,
        requires_key: false,
    };
    let input = |name: &str| InputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        watermark: WatermarkRule::OutOfOrderness(5_000),
        idle_after: None,
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::DeadLetter,
        is_broadcast: false,
        bootstrap: false,
    };
    LaneOptions {
        pipeline: "bench".to_owned(),
        inputs: vec![input("left"), input("right")],
        roles: vec![0, 1],
        outputs: vec![output("main")],
        late_output: None,
        wait_for_input: 0,
        when_all_idle: WhenAllIdle::Hold,
        commit: CommitOptions {
            every: i64::MAX,
            max_records: u32::MAX,
            max_bytes: u64::MAX,
            keepalive_every: i64::MAX,
        },
        dead_letter_rate: DeadLetterRate::default(),
        limits: CallLimits::default(),
    }
}

fn lane(cluster: &MemoryCluster) -> Lane {
    let descriptor = descriptor();
    let identity = Identity {
        pipeline: "bench".to_owned(),
        cluster_id: String::new(),
        lanes: 1,
        inputs: Vec::new(),
        states: states_of(&descriptor),
    };
    let source = |input| Source { input: InputIndex(input), partition: Partition(0) };
    let mut lane = Lane::new(LaneParts {
        lane: LaneId(0),
        sources: vec![source(0), source(1)],
        options: options(),
        store: Box::new(MemoryStore::default()),
        function: Box::new(ReadWriteEmit),
        state_ids: identity.state_ids(&descriptor).unwrap_or_default(),
        descriptor,
        revision: String::new(),
        attempt: Attempt(0),
        owner: Owner { host: String::new(), pid: 0, started_at: 0 },
        start: Start::Genesis { identity, positions: vec![0, 0] },
        now: 0,
    });
    commit(&mut lane, cluster);
    lane
}

fn commit(lane: &mut Lane, cluster: &MemoryCluster) {
    let mut effects = Vec::new();
    lane.step(0, Event::Close, &mut effects);
    if effects.contains(&Effect::Commit) {
        let mut log = cluster.log();
        log.acquire().expect("memory is always there");
        let next = log.commit(&lane.transaction()).expect("nobody else writes");
        lane.step(0, Event::Committed { journal_next: next }, &mut effects);
    }
}

fn records(input: u16) -> (SourceIndex, Vec<DecodedRecord>) {
    let record = |at: usize| {
        let number = at % KEYS;
        let key = Bytes::from(format!("u{number:08}"));
        let offset = i64::try_from(at).unwrap_or(0);
        let record = Record {
            offset,
            timestamp: Some(offset),
            key: Some(key.clone()),
            value: Some(Bytes::from_static(&[b'x'; 97])),
            headers: Headers::default(),
        };
        let decoding = Decoding::Ready { key: Some(Key(key)), time: Some(offset) };
        DecodedRecord { record, decoding }
    };
    (SourceIndex(input), (0..RECORDS / 2).map(record).collect())
}

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lane");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function("record: read, write, emit, epoch of 10,000", |bencher| {
        bencher.iter_batched(
            || {
                let cluster = MemoryCluster::new(2);
                (lane(&cluster), cluster, [records(0), records(1)])
            },
            |(mut lane, cluster, batches)| {
                let mut effects = Vec::new();
                for (source, records) in batches {
                    lane.step(0, Event::Fetched { source, records }, &mut effects);
                }
                lane.step(0, Event::Proceed { calls_max: u32::MAX }, &mut effects);
                commit(&mut lane, &cluster);
                (lane, cluster)
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn pieces(criterion: &mut Criterion) {
    let mut combiner = Combiner::new(8, i64::MIN);
    let mut time = 0_i64;
    criterion.bench_function("watermark: a step over 8 sources", |bencher| {
        bencher.iter(|| {
            time += 1;
            combiner.set(usize::try_from(time % 8).unwrap_or(0), time, SourceActivity::Active);
            black_box(combiner.advance())
        });
    });
    let mut store = MemoryStore::default();
    let mut queue = TimerQueue::new(TimerDomain::Event, &[]);
    let key = Key::new("u00000001");
    criterion.bench_function("timer: register, find first, remove", |bencher| {
        bencher.iter(|| {
            time += 1;
            let timer = Timer { time, key: key.clone(), tag: 0, partition: Partition(0) };
            queue.begin_call();
            queue.register(timer);
            let first = queue.first(&mut store).ok().flatten().cloned();
            if let Some(first) = first {
                queue.remove(&first);
            }
            if time % 1_024 == 0 {
                queue.clear_changes();
            }
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = step, pieces
}
criterion_main!(benches);
