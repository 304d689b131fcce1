//! Runs a plugin in a unit test: core's own lane over its in-memory log and store.
//!
//! What a test sees here is what a host does: undo and retry, timers and their order, lateness,
//! epochs, restores. Only bytes are not decoded: a test gives key and event time itself. Event time
//! moves when it is told to ([`Harness::watermark`]) and never by a record.
//!
//! Invariant: everything a method returns was committed.

use std::{collections::BTreeMap, marker::PhantomData};

use bytes::Bytes;
use dovetail_core::{
    epoch::{Attempt, LaneId, Owner, codec},
    identity::{BROADCAST, Identity, InputIdentity, states_of},
    key::{Key, KeyType},
    lane::{Effect, EpochReport, Event, Lane, LaneParts, Start},
    log::{
        Log,
        memory::{CommittedRecord, MemoryCluster, MemoryLog},
    },
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    output::Target,
    plugin::PluginDescriptor,
    record::{
        DecodedRecord, Decoding, Header as CoreHeader, Headers, InputIndex, Partition, Record,
        Source, SourceIndex,
    },
    state::{MemoryStore, StateStore},
};

use crate::{
    error::{Error, Result},
    headers::Header,
    native::NativePlugin,
    plugin::Plugin,
};

/// A plugin under test.
pub struct Harness<P> {
    config: String,
    descriptor: PluginDescriptor,
    cluster: MemoryCluster,
    log: MemoryLog,
    /// Absent only while it is started again.
    lane: Option<Lane>,
    offsets: Vec<i64>,
    now: i64,
    attempt: u128,
    taken: Vec<usize>,
    metrics: BTreeMap<String, f64>,
    log_lines: Vec<String>,
    plugin: PhantomData<fn() -> P>,
}

/// A record that the plugin emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emitted {
    /// The key; `None` is the null key.
    pub key: Option<String>,
    /// The value; `None` is a tombstone.
    pub value: Option<String>,
    /// The headers.
    pub headers: Vec<Header>,
    /// The event time.
    pub time: Option<i64>,
}

/// A record or timer that could not be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why, as `__dovetail.errors.reason` names it.
    pub reason: String,
    /// The plugin's message.
    pub message: String,
    /// The record's value; `None` for a tombstone or a timer.
    pub value: Option<String>,
}

impl<P> std::fmt::Debug for Harness<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<P: Plugin + Send> Harness<P> {
    /// Opens the plugin with a configuration (JSON) and starts a lane that has never run.
    ///
    /// # Errors
    ///
    /// When the plugin refuses the configuration.
    pub fn new(config: &str) -> Result<Self> {
        let (_, descriptor) = NativePlugin::<P>::new(config)?;
        let inputs = descriptor.inputs.len();
        let cluster = MemoryCluster::new(inputs);
        let mut harness = Self {
            config: config.to_owned(),
            taken: vec![0; descriptor.outputs.len() + 1],
            descriptor,
            log: cluster.log(),
            cluster,
            lane: None,
            offsets: vec![0; inputs],
            now: 0,
            attempt: 0,
            metrics: BTreeMap::new(),
            log_lines: Vec::new(),
            plugin: PhantomData,
        };
        harness.start(Box::new(MemoryStore::default()));
        Ok(harness)
    }

    /// Begins a record of an input; [`Feed::value`] or [`Feed::tombstone`] hands it over.
    ///
    /// # Panics
    ///
    /// When the plugin has no such input.
    pub fn record(&mut self, input: &str) -> Feed<'_, P> {
        let known = &self.descriptor.inputs;
        let at = known.iter().position(|name| name == input);
        assert!(at.is_some(), "the plugin has no input `{input}`, only {known:?}");
        let at = at.map_or(0, source_number);
        Feed { harness: self, input: at, key: None, time: None, headers: Vec::new() }
    }

    /// Says of every input that no more records with event time ≤ `time` are expected; fires what
    /// is due.
    pub fn watermark(&mut self, time: i64) {
        for source in self.sources() {
            self.step(Event::Watermark { source, watermark: time });
        }
        self.settle();
    }

    /// Moves the lane's clock; fires processing-time timers that are due.
    pub fn clock(&mut self, now: i64) {
        self.now = now;
        self.settle();
    }

    /// Ends every input: event time reaches its end.
    pub fn end(&mut self) {
        for source in self.sources() {
            self.step(Event::Ended { source });
        }
        self.work();
    }

    /// Commits what was done so far.
    pub fn commit(&mut self) {
        self.step(Event::Close);
    }

    /// Loses what is not committed and starts again from what was, on a fresh instance. Records
    /// whose handling was lost are not fed again.
    pub fn crash(&mut self) {
        let lane = self.lane.take().expect("a lane runs between calls");
        self.start(lane.into_store());
    }

    /// Commits, and starts again with another configuration over the same state.
    ///
    /// # Errors
    ///
    /// When the plugin refuses the configuration, or has other numbers of inputs or outputs with
    /// it.
    pub fn reconfigure(&mut self, config: &str) -> Result {
        let (_, descriptor) = NativePlugin::<P>::new(config)?;
        let sizes = |of: &PluginDescriptor| (of.inputs.len(), of.outputs.len());
        if sizes(&descriptor) != sizes(&self.descriptor) {
            return Err(Error::new(
                "another configuration should leave as many inputs and outputs",
            ));
        }
        self.commit();
        config.clone_into(&mut self.config);
        self.descriptor = descriptor;
        self.crash();
        Ok(())
    }

    /// Commits, and returns what was emitted to an output since it was last taken.
    ///
    /// # Panics
    ///
    /// When the plugin has no such output.
    pub fn take(&mut self, output: &str) -> Vec<Emitted> {
        let known = &self.descriptor.outputs;
        let at = known.iter().position(|name| name == output);
        assert!(at.is_some(), "the plugin has no output `{output}`, only {known:?}");
        let target = Target::Output(at.map_or(0, source_number));
        self.take_target(target).iter().map(emitted).collect()
    }

    /// Commits, and returns the values emitted to an output since it was last taken; a tombstone
    /// is the empty text.
    pub fn values(&mut self, output: &str) -> Vec<String> {
        self.take(output).into_iter().map(|emitted| emitted.value.unwrap_or_default()).collect()
    }

    /// Commits, and returns the dead letters since they were last taken.
    pub fn dead_letters(&mut self) -> Vec<DeadLetter> {
        let records = self.take_target(Target::DeadLetters);
        let header = |record: &CommittedRecord, name: &str| {
            let header = record.headers.last(name).and_then(|header| header.value.clone());
            text(&header.unwrap_or_default())
        };
        records
            .iter()
            .map(|record| DeadLetter {
                reason: header(record, "__dovetail.errors.reason"),
                message: header(record, "__streams.errors.message"),
                value: record.value.as_ref().map(text),
            })
            .collect()
    }

    /// Commits, and returns a metric: a counter's sum, a gauge's last value, the sum of what a
    /// histogram recorded; 0 where nothing was measured.
    pub fn metric(&mut self, name: &str) -> f64 {
        self.commit();
        self.metrics.get(name).copied().unwrap_or(0.0)
    }

    /// Commits, and returns the lines logged since they were last taken.
    pub fn log_lines(&mut self) -> Vec<String> {
        self.commit();
        std::mem::take(&mut self.log_lines)
    }

    /// Commits, starts again, and returns how many rows of state and timers are kept over all
    /// keys: 0 where nothing is left behind.
    pub fn rows(&mut self) -> u64 {
        self.commit();
        let store = self.lane.take().expect("a lane runs between calls").into_store();
        let rows = store.size().rows;
        self.start(store);
        rows
    }

    fn take_target(&mut self, target: Target) -> Vec<CommittedRecord> {
        self.commit();
        let slot = match target {
            Target::Output(at) => usize::from(at),
            Target::DeadLetters => self.taken.len() - 1,
        };
        let all = self.cluster.outputs().into_iter().filter(|record| record.target == target);
        let new: Vec<_> = all.skip(self.taken[slot]).collect();
        self.taken[slot] += new.len();
        new
    }

    fn sources(&self) -> impl Iterator<Item = SourceIndex> + use<P> {
        (0..self.descriptor.inputs.len()).map(|at| SourceIndex(source_number(at)))
    }

    fn start(&mut self, mut store: Box<dyn StateStore>) {
        let (function, descriptor) =
            NativePlugin::<P>::new(self.config.clone()).expect("it opened before");
        let identity = identity(&descriptor);
        let head = store.head().expect("memory does not fail");
        let start = match head {
            Some(head) => {
                let head = codec::decode_stored(&head).expect("the lane wrote it");
                Start::Resume(Box::new(head))
            }
            None => Start::Genesis {
                identity: identity.clone(),
                positions: vec![0; descriptor.inputs.len()],
            },
        };
        self.log = self.cluster.log();
        self.log.acquire().expect("memory does not fail");
        self.attempt += 1;
        let lane = Lane::new(LaneParts {
            lane: LaneId(0),
            sources: (0..descriptor.inputs.len()).map(source).collect(),
            options: options(&descriptor),
            store,
            function: Box::new(function),
            state_ids: identity.state_ids(&descriptor).expect("its own states"),
            descriptor,
            revision: "test".to_owned(),
            attempt: Attempt(self.attempt),
            owner: Owner { host: String::new(), pid: 0, started_at: 0 },
            start,
            now: self.now,
        });
        let sources = lane.status().sources;
        self.offsets = sources.iter().map(|source| source.position).collect();
        self.lane = Some(lane);
        self.commit();
        self.settle();
    }

    /// Says that every input is at its end, and works until nothing is left.
    fn settle(&mut self) {
        for source in self.sources() {
            let position = self.offsets[usize::from(source.0)];
            self.step(Event::AtEnd { source, position });
        }
        self.work();
    }

    fn work(&mut self) {
        // What is cut by an epoch goes on in the next step.
        while self.step(Event::Proceed { calls_max: u32::MAX }) {}
    }

    /// Handles one event; returns whether an epoch was committed.
    fn step(&mut self, event: Event) -> bool {
        let mut effects = Vec::new();
        let lane = self.lane.as_mut().expect("a lane runs between calls");
        lane.step(self.now, event, &mut effects);
        let is_committed = effects.contains(&Effect::Commit);
        if is_committed {
            let journal_next = self.log.commit(&lane.transaction()).expect("memory does not fail");
            lane.step(self.now, Event::Committed { journal_next }, &mut effects);
        }
        for effect in effects {
            match effect {
                Effect::Applied(report) => self.publish(*report),
                // Memory does not fail and no flood of dead letters stops a test.
                Effect::Stop(_) | Effect::Commit => {}
            }
        }
        is_committed
    }

    fn publish(&mut self, report: EpochReport) {
        use dovetail_core::plugin::MetricKind;
        for update in report.metrics {
            let metric = &self.descriptor.metrics[update.metric as usize];
            let value = self.metrics.entry(metric.name.clone()).or_default();
            match metric.kind {
                MetricKind::Counter | MetricKind::Histogram => *value += update.value.max(0.0),
                MetricKind::Gauge => *value = update.value,
            }
        }
        self.log_lines.extend(report.log_lines.into_iter().map(|line| line.text));
    }
}

/// A record on its way to the plugin.
#[derive(Debug)]
pub struct Feed<'h, P> {
    harness: &'h mut Harness<P>,
    input: u16,
    key: Option<String>,
    time: Option<i64>,
    headers: Vec<CoreHeader>,
}

impl<P: Plugin + Send> Feed<'_, P> {
    /// Gives it a key; without one it is a record of an input with `null_key: process`.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Gives it an event time in ms.
    #[must_use]
    pub fn time(mut self, time: i64) -> Self {
        self.time = Some(time);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let value = Some(Bytes::copy_from_slice(value.as_bytes()));
        self.headers.push(CoreHeader { name: name.to_owned(), value });
        self
    }

    /// Hands it over with this value; the plugin has handled it when this returns.
    pub fn value(self, value: &str) {
        self.send(Some(Bytes::copy_from_slice(value.as_bytes())));
    }

    /// Hands it over without a value.
    pub fn tombstone(self) {
        self.send(None);
    }

    fn send(self, value: Option<Bytes>) {
        let Self { harness, input, key, time, headers } = self;
        let offset = &mut harness.offsets[usize::from(input)];
        let key = key.map(|key| Key::new(key.into_bytes()));
        let record = Record {
            offset: *offset,
            timestamp: time,
            key: key.as_ref().map(|key| key.0.clone()),
            value,
            headers: Headers::new(headers),
        };
        *offset += 1;
        let decoding = Decoding::Ready { key, time };
        let records = vec![DecodedRecord { record, decoding }];
        harness.step(Event::Fetched { source: SourceIndex(input), records });
        harness.settle();
    }
}

fn emitted(record: &CommittedRecord) -> Emitted {
    let headers = record.headers.as_slice().iter();
    Emitted {
        key: record.key.as_ref().map(text),
        value: record.value.as_ref().map(text),
        headers: headers
            .map(|header| Header {
                name: header.name.clone(),
                value: header.value.as_ref().map(|value| value.to_vec()),
            })
            .collect(),
        time: record.time,
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn source_number(at: usize) -> u16 {
    u16::try_from(at).expect("a plugin has fewer than 2^16 inputs and outputs")
}

fn source(input: usize) -> Source {
    Source { input: InputIndex(source_number(input)), partition: Partition(0) }
}

fn identity(descriptor: &PluginDescriptor) -> Identity {
    let inputs = descriptor.inputs.iter().map(|name| InputIdentity {
        name: name.clone(),
        topic: name.clone(),
        partitions: 1,
        key_type: if descriptor.is_broadcast(name) { BROADCAST } else { KeyType::String.name() }
            .to_owned(),
    });
    Identity {
        pipeline: "test".to_owned(),
        cluster_id: String::new(),
        lanes: 1,
        inputs: inputs.collect(),
        states: states_of(descriptor),
    }
}

fn options(descriptor: &PluginDescriptor) -> LaneOptions {
    let output = |name: &str| OutputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        max_record_bytes: 1 << 20,
        requires_key: false,
    };
    let input = |name: &String| InputOptions {
        name: name.clone(),
        topic: name.clone(),
        watermark: if descriptor.is_broadcast(name) {
            WatermarkRule::None
        } else {
            WatermarkRule::Told
        },
        idle_after: None,
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::Process,
        is_broadcast: descriptor.is_broadcast(name),
        bootstrap: false,
    };
    let late = descriptor.outputs.iter().position(|name| name == "late");
    LaneOptions {
        pipeline: "test".to_owned(),
        inputs: descriptor.inputs.iter().map(input).collect(),
        roles: (0..descriptor.inputs.len()).map(|at| u32::from(source_number(at))).collect(),
        outputs: descriptor.outputs.iter().map(|name| output(name)).collect(),
        late_output: late.map(source_number),
        wait_for_input: i64::MAX,
        when_all_idle: WhenAllIdle::Hold,
        commit: CommitOptions {
            every: i64::MAX,
            max_records: u32::MAX,
            max_bytes: u64::MAX,
            keepalive_every: i64::MAX,
        },
        dead_letter_rate: DeadLetterRate { percent_max: 100, from_count: u64::MAX },
        limits: CallLimits::default(),
    }
}
