//! A plugin on the production loop over core's in-memory log: topics of several partitions that fill
//! batch by batch, a clock, and a process that dies.

use std::sync::Arc;

use dovetail::{
    config::{self, Environment, Loaded},
    wiring::{options, roles},
};
use dovetail_core::{
    clock::ManualClock,
    epoch::{Attempt, LaneId, Owner},
    identity::{Identity, InputIdentity, states_of},
    lane::PluginSwitch,
    log::memory::{CommittedRecord, MemoryCluster},
    options::OutputOptions,
    output::Target,
    plugin::{MatchFunction, PluginDescriptor},
    record::{InputIndex, Partition, Record, Source, SourceIndex},
    state::{ExpiryTable, MemoryStore, StateId, StateStore, StoreError},
};
use dovetail_runtime::{
    LaneSetup, PipelineSetup, Revision,
    acquire::{Predecessor, acquire},
    tick::{LaneLoop, TickOutcome, tick},
};
use dovetail_sdk::{NativePlugin, Plugin};

/// Partitions of each input.
pub(super) const PARTITIONS: u16 = 2;
/// Records come at most so much later than their time says, ms.
pub(super) const OUT_OF_ORDERNESS: i64 = 8;
/// 2026-03-01T10:00:00Z.
pub(super) const BASE: i64 = 1_772_359_200_000;

/// A plugin with a configuration.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) config: &'static str,
    pub(super) open: fn(&str) -> (Box<dyn MatchFunction>, PluginDescriptor),
}

/// Opens a plugin natively.
pub(super) fn open<P: Plugin + Send + 'static>(
    config: &str,
) -> (Box<dyn MatchFunction>, PluginDescriptor) {
    let (function, descriptor) = NativePlugin::<P>::new(config).unwrap();
    (Box::new(function), descriptor)
}

/// A record of an input.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) input: u16,
    pub(super) key: u8,
    /// Behind [`BASE`].
    pub(super) time: i64,
    /// How much later than its time it comes.
    pub(super) delay: i64,
    /// The fields of its value besides key and time.
    pub(super) fields: String,
    pub(super) is_delete: bool,
}

impl Given {
    fn source(&self) -> SourceIndex {
        SourceIndex(self.input * PARTITIONS + u16::from(self.key) % PARTITIONS)
    }

    fn record(&self) -> Record {
        let Self { key, time, fields, .. } = self;
        let time = BASE + time;
        let value = format!(r#"{{"k":"{key}","ts":{time},{fields}}}"#);
        Record {
            timestamp: Some(time),
            key: Some(key.to_string().into()),
            value: (!self.is_delete).then(|| value.into()),
            ..Record::default()
        }
    }
}

/// Numbers without a pattern, by a seed.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0xb5ad_4ece);
        (self.0 >> 33) % end
    }

    pub(super) fn millis(&mut self, end: i64) -> i64 {
        i64::try_from(self.below(end.unsigned_abs())).unwrap()
    }
}

struct Native(Job, PluginDescriptor, Vec<OutputOptions>, Vec<u32>);

impl Revision for Native {
    fn digest(&self) -> &str {
        "native"
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.1
    }

    fn instantiate(&self, _: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        let (function, descriptor) = (self.0.open)(self.0.config);
        Ok(PluginSwitch {
            function,
            descriptor,
            state_ids,
            roles: self.3.clone(),
            outputs: self.2.clone(),
            late_output: late_of(&self.1),
            revision: "native".to_owned(),
        })
    }
}

fn late_of(descriptor: &PluginDescriptor) -> Option<u16> {
    let late = descriptor.outputs.iter().position(|name| name == "late");
    late.map(|at| u16::try_from(at).unwrap())
}

/// The pipeline file of a job.
fn load(job: Job, descriptor: &PluginDescriptor, epoch_records: u64) -> Loaded {
    let mut text = "pipeline: shuffled\ninputs:\n".to_owned();
    for input in &descriptor.inputs {
        text += &format!(
            "  {input}:\n    topic: {input}\n    key: {{ from: key }}\n    time: {{ from: timestamp, \
             out_of_orderness: {OUT_OF_ORDERNESS}ms, idle_after: never }}\n    start: earliest\n"
        );
    }
    text += &format!("plugin: {{ file: plugin.wasm, config: {} }}\noutputs:\n", job.config);
    for output in &descriptor.outputs {
        text += &format!("  {output}: {{ topic: out-{output} }}\n");
    }
    text += &format!("embedded: {{ dir: data }}\ncommit: {{ max_records: {epoch_records} }}\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.yaml");
    std::fs::write(&file, text).unwrap();
    config::load(&file, &Environment::of_process(&[])).unwrap_or_else(|error| panic!("{error}"))
}

fn setup(job: Job, epoch_records: u64) -> (Loaded, PipelineSetup) {
    let (_, descriptor) = (job.open)(job.config);
    let loaded = load(job, &descriptor, epoch_records);
    let config = &loaded.config;
    let fit = roles::fit(&loaded, &descriptor).unwrap();
    let facts = vec![options::InputFacts::default(); config.inputs.len()];
    let output = |name: &String| OutputOptions {
        name: name.clone(),
        topic: name.clone(),
        max_record_bytes: usize::MAX,
        requires_key: false,
    };
    let outputs: Vec<_> = descriptor.outputs.iter().map(output).collect();
    let input = |input: &config::model::InputConfig| InputIdentity {
        name: input.name.clone(),
        topic: options::place(input),
        partitions: PARTITIONS,
        key_type: "string".to_owned(),
    };
    let options = options::lane_options(config, &facts, &fit, &outputs);
    let revision = Native(job, descriptor.clone(), outputs, options.roles.clone());
    let setup = PipelineSetup {
        identity: Identity {
            pipeline: config.pipeline.clone(),
            cluster_id: "memory".to_owned(),
            lanes: 1,
            inputs: config.inputs.iter().map(input).collect(),
            states: states_of(&descriptor),
        },
        options,
        owner: Owner { host: "test".to_owned(), pid: 0, started_at: 0 },
        revision: Arc::new(revision),
        transaction_timeout: 0,
        checkpoints: None,
        committed: None,
        untrimmed: None,
    };
    (loaded, setup)
}

/// What a run committed.
pub(super) struct Ran {
    /// Output, key, value and time of every result; the outputs by name.
    pub(super) results: Vec<(String, String, String, Option<i64>)>,
    pub(super) late: u64,
    pub(super) crashes: u64,
}

/// A process that runs the lane until it dies.
struct Process {
    parts: LaneSetup,
    setup: PipelineSetup,
    clock: ManualClock,
    turning: Option<LaneLoop>,
    attempt: u128,
    late: u64,
}

impl Process {
    /// Starts, or starts again with the store of the one before or without it.
    fn start(&mut self, store: Option<Box<dyn StateStore>>) {
        self.attempt += 1;
        let before = Predecessor { store, identity: None };
        let (attempt, now) = (Attempt(self.attempt), self.clock.0);
        let acquired = acquire(&mut self.parts, &self.setup, before, attempt, now, &mut |_| {});
        let sources = self.parts.sources.clone();
        self.turning = Some(LaneLoop::new(acquired.unwrap().lane, sources));
    }

    /// One turn; returns whether the lane has finished.
    fn turn(&mut self, millis: i64) -> bool {
        self.clock.0 += millis;
        let turning = self.turning.as_mut().unwrap();
        let Self { parts, clock, .. } = self;
        let outcome = tick(turning, parts.log.as_mut(), parts.decoder.as_mut(), clock);
        for committed in turning.committed.drain(..) {
            self.late += committed.report.inputs.iter().map(|counts| counts.late).sum::<u64>();
        }
        match outcome {
            TickOutcome::Again | TickOutcome::Idle { .. } => false,
            TickOutcome::Finished => true,
            other => panic!("{other:?}"),
        }
    }

    /// Dies with what is not committed.
    fn crash(&mut self, keeps_disk: bool) {
        let store = self.turning.take().unwrap().into_lane().into_store();
        self.start(keeps_disk.then_some(store));
    }
}

/// Runs a job over the records. Without chaos all records are there in the order of their times;
/// with it they come in the order of their arrival, in batches, and the process dies now and then.
pub(super) fn run(job: Job, given: &[Given], mut chaos: Option<&mut Numbers>) -> Ran {
    let epoch_records = chaos.as_mut().map_or(1_000, |numbers| 1 + numbers.below(20));
    let (loaded, setup) = setup(job, epoch_records);
    let inputs = u16::try_from(loaded.config.inputs.len()).unwrap();
    let cluster = MemoryCluster::new(usize::from(inputs * PARTITIONS));
    let sources = (0..inputs).flat_map(|input| {
        let partitions = (0..PARTITIONS).map(Partition);
        partitions.map(move |partition| Source { input: InputIndex(input), partition })
    });
    let parts = LaneSetup {
        lane: LaneId(0),
        sources: sources.collect(),
        log: Box::new(cluster.log()),
        decoder: options::decoder(&loaded.config),
        stores: Box::new(|_: &ExpiryTable| -> Result<Box<dyn StateStore>, StoreError> {
            Ok(Box::new(MemoryStore::default()))
        }),
    };
    let clock = ManualClock(BASE + 1_000_000);
    let mut process = Process { parts, setup, clock, turning: None, attempt: 0, late: 0 };
    process.start(None);
    let mut order: Vec<&Given> = given.iter().collect();
    order.sort_by_key(|it| it.time + if chaos.is_some() { it.delay } else { 0 });
    let mut crashes = 0;
    for (at, it) in order.iter().enumerate() {
        cluster.append(it.source(), it.record());
        let Some(numbers) = &mut chaos else { continue };
        for _ in 0..numbers.below(3) {
            process.turn(numbers.millis(80));
        }
        if at % 4 == 3 && numbers.below(3) == 0 {
            process.crash(numbers.below(2) == 0);
            crashes += 1;
        }
    }
    (0..inputs * PARTITIONS).for_each(|source| cluster.end(SourceIndex(source)));
    let mut turns = 0;
    while !process.turn(50) {
        turns += 1;
        assert!(turns < 10_000, "{} does not end", job.name);
        if let Some(numbers) = &mut chaos
            && turns < 20
            && numbers.below(4) == 0
        {
            process.crash(numbers.below(2) == 0);
            crashes += 1;
        }
    }
    let (_, descriptor) = (job.open)(job.config);
    let told = |record: &CommittedRecord| {
        let output = match record.target {
            Target::Output(at) => descriptor.outputs[usize::from(at)].clone(),
            Target::DeadLetters => panic!("{}: {record:?}", job.name),
        };
        let text = |bytes: &Option<bytes::Bytes>| {
            String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
        };
        (output, text(&record.key), text(&record.value), record.time)
    };
    Ran { results: cluster.outputs().iter().map(told).collect(), late: process.late, crashes }
}
