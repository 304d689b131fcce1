//! Goal: a replay gives what a live run would have given, and holds no more state than one. Method:
//! the production loop, codec and configuration over core's in-memory log that holds a day before
//! the lane starts, with a clock that a turn moves; the rows of the store after every turn.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use dovetail::{
    config::{self, Environment, Loaded},
    wiring::{options, roles},
};
use dovetail_core::{
    clock::ManualClock,
    epoch::{Attempt, LaneId, Owner},
    identity::{Identity, InputIdentity, states_of},
    lane::{PluginSwitch, SourceCondition},
    log::memory::{CommittedRecord, MemoryCluster},
    options::OutputOptions,
    output::Target,
    plugin::PluginDescriptor,
    record::{InputIndex, Partition, Record, Source, SourceIndex},
    state::{ExpiryTable, MemoryStore, StateId, StateStore, StoreError},
};
use dovetail_runtime::{
    LaneSetup, PipelineSetup, Revision,
    acquire::{Predecessor, acquire},
    tick::{LaneLoop, TickOutcome, tick},
};
use dovetail_sdk::NativePlugin;
use order_payment::OrderPayment;
use serde_json::Value;

/// 2026-03-01T10:00:00Z.
const BASE: i64 = 1_772_359_200_000;
const HOUR: i64 = 3_600_000;
const ORDERS: i64 = 10_000;
/// Between two orders, ms: they fill a day.
const SPACING: i64 = 24 * HOUR / ORDERS;
/// One order in so many is paid, so long after it.
const PAID_ONE_IN: i64 = 10;
const PAID_AFTER: i64 = 9_000;
/// How long a source may stay at its end before it is idle, ms.
const IDLE_AFTER: i64 = 5_000;
/// A turn moves the clock by this much, ms, and takes at most so many records.
const TURN_MS: i64 = 1_000;
const TURN_RECORDS: u32 = 50;
/// An order waits as two rows: itself and its timer.
const ROWS_OF_ORDER: u64 = 2;

struct Native(PluginDescriptor, String);

impl Revision for Native {
    fn digest(&self) -> &str {
        "native"
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.0
    }

    fn instantiate(&self, _: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        let opened = NativePlugin::<OrderPayment>::new(&self.1);
        let (function, descriptor) = opened.map_err(|error| error.to_string())?;
        Ok(PluginSwitch {
            function: Box::new(function),
            descriptor,
            state_ids,
            roles: vec![0, 1],
            outputs: outputs(),
            late_output: None,
            revision: "native".to_owned(),
        })
    }
}

fn outputs() -> Vec<OutputOptions> {
    let output = |name: &str| OutputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        max_record_bytes: usize::MAX,
        requires_key: false,
    };
    ["main", "late"].map(output).into()
}

/// The pipeline of the other scenarios, its epochs cut small.
fn setup() -> (Loaded, PipelineSetup) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/pipelines/pay-match.yaml");
    let set = [format!("commit.max_records={TURN_RECORDS}")];
    let loaded = config::load(Path::new(file), &Environment::of_process(&set)).unwrap();
    let config = &loaded.config;
    let plugin = config.plugin.config.clone();
    let (_, descriptor) = NativePlugin::<OrderPayment>::new(&plugin).unwrap();
    let fit = roles::fit(&loaded, &descriptor).unwrap();
    let facts = vec![options::InputFacts::default(); config.inputs.len()];
    let input = |input: &config::model::InputConfig| InputIdentity {
        name: input.name.clone(),
        topic: options::place(input),
        partitions: 2,
        key_type: "string".to_owned(),
    };
    let setup = PipelineSetup {
        identity: Identity {
            pipeline: config.pipeline.clone(),
            cluster_id: "memory".to_owned(),
            lanes: 1,
            inputs: config.inputs.iter().map(input).collect(),
            states: states_of(&descriptor),
        },
        options: options::lane_options(config, &facts, &fit, &outputs()),
        owner: Owner { host: "test".to_owned(), pid: 0, started_at: 0 },
        revision: Arc::new(Native(descriptor, plugin)),
        transaction_timeout: 0,
        checkpoints: None,
        committed: None,
        untrimmed: None,
    };
    (loaded, setup)
}

/// The sources in lane order: two partitions of orders, then two of payments.
const SOURCES: [(u16, u16); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

fn append(cluster: &MemoryCluster, source: u16, time: i64, value: String) {
    let record = Record { timestamp: Some(time), value: Some(value.into()), ..Record::default() };
    cluster.append(SourceIndex(source), record);
}

/// Fills the topics; returns what was paid for each order.
fn fill(cluster: &MemoryCluster) -> BTreeMap<String, Option<i64>> {
    let mut expected = BTreeMap::new();
    for number in 0..ORDERS {
        // Partition 0 holds hours 0 to 12, partition 1 hours 12 to 24.
        let (partition, time) = (u16::from(number >= ORDERS / 2), BASE + number * SPACING);
        append(cluster, partition, time, format!(r#"{{"order_id":"o{number}","ts":{time}}}"#));
        let paid = (number % PAID_ONE_IN == 0).then_some(number);
        if let Some(paid) = paid {
            let at = time + PAID_AFTER;
            let value = format!(r#"{{"order_id":"o{number}","ts":{at},"paid":{paid}}}"#);
            append(cluster, 2 + partition, at, value);
        }
        expected.insert(format!("o{number}"), paid);
    }
    // Moves time behind everything; never decided itself.
    let end = BASE + 36 * HOUR;
    append(cluster, 1, end, format!(r#"{{"order_id":"end","ts":{end}}}"#));
    expected
}

fn result(record: &CommittedRecord) -> (String, Option<i64>) {
    assert_eq!(record.target, Target::Output(0), "{record:?}");
    let value: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
    (value["order_id"].as_str().unwrap().to_owned(), value["paid"].as_i64())
}

#[test]
fn p13_a_replay_reads_in_step_and_keeps_no_more_than_a_live_run() {
    let (loaded, setup) = setup();
    let cluster = MemoryCluster::new(SOURCES.len());
    let expected = fill(&cluster);
    let source =
        |(input, partition)| Source { input: InputIndex(input), partition: Partition(partition) };
    let mut parts = LaneSetup {
        lane: LaneId(0),
        sources: SOURCES.map(source).into(),
        log: Box::new(cluster.log()),
        decoder: options::decoder(&loaded.config),
        stores: Box::new(|_: &ExpiryTable| -> Result<Box<dyn StateStore>, StoreError> {
            Ok(Box::new(MemoryStore::default()))
        }),
    };
    let mut clock = ManualClock(BASE + 48 * HOUR);
    let before = Predecessor { store: None, identity: None };
    let acquired = acquire(&mut parts, &setup, before, Attempt(1), clock.0, &mut |_| {}).unwrap();
    let mut turning = LaneLoop::new(acquired.lane, parts.sources.clone());

    // Rows while every source with orders has some left, and from then on.
    let (mut peak, mut peak_at_end) = (0, 0);
    while cluster.outputs().len() < expected.len() {
        clock.0 += TURN_MS;
        assert!(clock.0 < BASE + 480 * HOUR, "{} results", cluster.outputs().len());
        let outcome = tick(&mut turning, parts.log.as_mut(), parts.decoder.as_mut(), &mut clock);
        assert!(matches!(outcome, TickOutcome::Again | TickOutcome::Idle { .. }), "{outcome:?}");
        let status = turning.lane().status();
        let is_at_end = status.sources[0].condition == SourceCondition::AtEnd;
        let peak = if is_at_end { &mut peak_at_end } else { &mut peak };
        *peak = status.state.rows.max(*peak);
    }

    let late: u64 = turning
        .committed
        .iter()
        .flat_map(|committed| &committed.report.inputs)
        .map(|counts| counts.late)
        .sum();
    assert_eq!(late, 0);
    let found: BTreeMap<String, Option<i64>> = cluster.outputs().iter().map(result).collect();
    assert!(found == expected);

    let arrivals = u64::try_from(12_000 / SPACING + 2).unwrap();
    assert!(peak > 0 && peak <= arrivals * ROWS_OF_ORDER, "{peak} rows for {arrivals} arrivals");
    // What is read while partition 0 is at its end and not idle yet cannot be decided meanwhile.
    let turns = u64::try_from(IDLE_AFTER / TURN_MS + 2).unwrap();
    let more = arrivals + turns * u64::from(TURN_RECORDS);
    assert!(peak_at_end <= more * ROWS_OF_ORDER, "{peak_at_end} rows for {more} arrivals");
}
