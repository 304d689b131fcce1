//! A lane of two inputs with one partition each, driven event by event.

use bytes::Bytes;

use crate::{
    context::{Context, ContextError, Subject},
    epoch::{Attempt, LaneId, Owner, codec},
    identity::{Identity, InputIdentity, states_of},
    key::Key,
    lane::{Effect, EpochReport, Event, Lane, LaneParts, Start, StopCause},
    log::{
        Log,
        memory::{CommittedRecord, MemoryCluster, MemoryLog},
    },
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    output::Target,
    plugin::{
        CallFailure, CallResult, FailureKind, MatchFunction, MetricDescriptor, MetricKind,
        PluginDescriptor, StateDescriptor, StateKind, StateScope,
    },
    record::{DecodedRecord, Decoding, InputIndex, Partition, Record, Source, SourceIndex},
    state::{MemoryStore, StateStore},
};

/// What a test's handler does with a record or timer.
pub(super) type Handler = fn(&mut Context) -> Result<(), ContextError>;

pub(super) const VALUE: u32 = 0;
pub(super) const MAP: u32 = 1;

/// A handler as a match function; text values `trap` and `error` fail before it is called.
struct Native {
    handler: Handler,
    renewed: bool,
}

impl Native {
    fn run(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = (self.handler)(&mut context);
        let failure = |kind, message: String| CallFailure { kind, message };
        let result = match result {
            Err(ContextError::Refused(refused)) => Err(refused),
            Err(ContextError::Store(error)) => Err(failure(FailureKind::Trap, error.to_string())),
            Ok(()) => match value(&context).as_str() {
                "trap" => Err(failure(FailureKind::Trap, "it trapped".to_owned())),
                "trap once" if !self.renewed => {
                    Err(failure(FailureKind::Trap, "it trapped".to_owned()))
                }
                "deadline" => Err(failure(FailureKind::Deadline, "it looped".to_owned())),
                _ => Ok(()),
            },
        };
        (context, result)
    }
}

impl MatchFunction for Native {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.run(context)
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.run(context)
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.run(context)
    }

    fn renew(&mut self) {
        self.renewed = true;
    }
}

/// Returns the current record's value as text.
pub(super) fn value(context: &Context) -> String {
    let value = context.record().and_then(|record| record.value.clone()).unwrap_or_default();
    String::from_utf8_lossy(&value).into_owned()
}

/// Returns the tag of the current timer.
pub(super) fn tag(context: &Context) -> Option<u64> {
    match context.current().subject {
        Subject::Timer { tag, .. } => Some(tag),
        Subject::None | Subject::Record { .. } => None,
    }
}

/// A lane, its topics and its clock.
pub(super) struct Harness {
    pub(super) cluster: MemoryCluster,
    pub(super) options: LaneOptions,
    pub(super) now: i64,
    pub(super) reports: Vec<EpochReport>,
    pub(super) stopped: Option<StopCause>,
    /// How long every commit takes, ms.
    pub(super) commit_ms: i64,
    handler: Handler,
    log: MemoryLog,
    lane: Option<Lane>,
    offsets: [i64; 2],
    seen: usize,
}

impl Harness {
    pub(super) fn new(handler: Handler) -> Self {
        Self::with_options(handler, |_| {})
    }

    pub(super) fn with_options(handler: Handler, change: impl FnOnce(&mut LaneOptions)) -> Self {
        let mut options = options();
        change(&mut options);
        let broadcast = options.inputs.iter().filter(|input| input.is_broadcast).count();
        let cluster = MemoryCluster::with_broadcast(2 - broadcast, broadcast);
        let log = cluster.log();
        let mut harness = Self {
            cluster,
            options,
            now: 0,
            reports: Vec::new(),
            stopped: None,
            commit_ms: 0,
            handler,
            log,
            lane: None,
            offsets: [0; 2],
            seen: 0,
        };
        harness.start(Box::new(MemoryStore::default()));
        harness
    }

    fn start(&mut self, mut store: Box<dyn StateStore>) {
        self.log = self.cluster.log();
        self.log.acquire().unwrap();
        let descriptor = descriptor();
        let identity = identity(&descriptor);
        let start = match store.head().unwrap() {
            Some(head) => Start::Resume(Box::new(codec::decode_stored(&head).unwrap())),
            None => Start::Genesis { identity: identity.clone(), positions: vec![0, 0] },
        };
        self.lane = Some(Lane::new(LaneParts {
            lane: LaneId(0),
            sources: [0, 1].map(source).to_vec(),
            options: self.options.clone(),
            store,
            function: Box::new(Native { handler: self.handler, renewed: false }),
            state_ids: identity.state_ids(&descriptor).unwrap(),
            descriptor,
            revision: "test".to_owned(),
            attempt: Attempt(1),
            owner: Owner { host: String::new(), pid: 0, started_at: 0 },
            start,
            now: self.now,
        }));
        self.step(Event::Close);
    }

    pub(super) fn lane(&self) -> &Lane {
        self.lane.as_ref().unwrap()
    }

    /// Handles one event; returns whether an epoch was committed.
    pub(super) fn step(&mut self, event: Event) -> bool {
        let mut effects = Vec::new();
        let lane = self.lane.as_mut().unwrap();
        lane.step(self.now, event, &mut effects);
        let committed = effects.contains(&Effect::Commit);
        if committed {
            let journal_next = self.log.commit(&lane.transaction()).unwrap();
            self.now += self.commit_ms;
            lane.step(self.now, Event::Committed { journal_next }, &mut effects);
        }
        for effect in effects {
            match effect {
                Effect::Applied(report) => self.reports.push(*report),
                Effect::Stop(cause) => self.stopped = Some(cause),
                Effect::Commit => {}
            }
        }
        committed
    }

    /// Where the last commit says that the inputs stand.
    pub(super) fn positions(&mut self) -> Vec<i64> {
        let committed = self.log.committed().unwrap();
        committed.into_iter().flatten().map(|offset| offset.position).collect()
    }

    /// Where the last committed epoch says that the sources stand.
    pub(super) fn recorded_positions(&mut self) -> Vec<i64> {
        let store = self.lane.as_mut().unwrap().context_mut().store.head().unwrap().unwrap();
        let head = codec::decode_stored(&store).unwrap();
        head.record.sources.iter().map(|state| state.position).collect()
    }

    /// When the lane wants to be called again if nothing happens.
    pub(super) fn deadline(&mut self) -> Option<i64> {
        let lane = self.lane.as_mut()?;
        lane.step(self.now, Event::Proceed { calls_max: 0 }, &mut Vec::new())
    }

    /// Adds a record of an input (`o1@5` = key o1, event time 5, value as given).
    pub(super) fn add(&mut self, input: u16, key: Option<&str>, time: Option<i64>, value: &str) {
        let key = key.map(|key| Key::new(key.as_bytes().to_vec()));
        self.fetched(input, Decoding::Ready { key, time }, value);
    }

    pub(super) fn fetched(&mut self, input: u16, decoding: Decoding, value: &str) {
        let offset = self.offsets[usize::from(input)];
        self.offsets[usize::from(input)] += 1;
        let value = Some(Bytes::copy_from_slice(value.as_bytes()));
        let key = match &decoding {
            Decoding::Ready { key, .. } => key.as_ref().map(|key| key.0.clone()),
            Decoding::Rejected { .. } => None,
        };
        let record = Record { offset, value, key, ..Record::default() };
        let records = vec![DecodedRecord { record, decoding }];
        self.step(Event::Fetched { source: SourceIndex(input), records });
    }

    pub(super) fn at_end(&mut self, input: u16) {
        let position = self.offsets[usize::from(input)];
        self.step(Event::AtEnd { source: SourceIndex(input), position });
    }

    /// Says that both inputs are at their end and works until nothing is left.
    pub(super) fn settle(&mut self) {
        self.at_end(0);
        self.at_end(1);
        self.work();
    }

    pub(super) fn work(&mut self) {
        while self.step(Event::Proceed { calls_max: 10_000 }) {}
    }

    /// A record of input 0, settled.
    pub(super) fn left(&mut self, key: &str, time: i64, value: &str) {
        self.add(0, Some(key), Some(time), value);
        self.settle();
    }

    /// A record of input 1, settled.
    pub(super) fn right(&mut self, key: &str, time: i64, value: &str) {
        self.add(1, Some(key), Some(time), value);
        self.settle();
    }

    /// Moves the clock and works.
    pub(super) fn clock(&mut self, now: i64) {
        self.now = now;
        self.work();
    }

    pub(super) fn watermark(&self) -> i64 {
        self.lane().status().watermark
    }

    pub(super) fn commit(&mut self) {
        self.step(Event::Close);
    }

    /// Loses what is not committed and starts again.
    pub(super) fn crash(&mut self) {
        let store = self.lane.take().unwrap().into_store();
        self.offsets = [0; 2];
        self.start(store);
        for (at, state) in self.lane.as_ref().unwrap().status().sources.iter().enumerate() {
            self.offsets[at] = state.position;
        }
    }

    /// Returns what was committed since the last call: (output or reason, value).
    pub(super) fn outputs(&mut self) -> Vec<(String, String)> {
        self.commit();
        let new = self.cluster.outputs().split_off(self.seen);
        self.seen += new.len();
        new.iter().map(shown).collect()
    }
}

fn shown(record: &CommittedRecord) -> (String, String) {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let name = match record.target {
        Target::Output(at) => ["main", "late"][usize::from(at)].to_owned(),
        Target::DeadLetters => {
            let reason = record.headers.last("__dovetail.errors.reason").unwrap();
            text(reason.value.as_ref().unwrap())
        }
    };
    (name, record.value.as_ref().map(text).unwrap_or_default())
}

fn source(input: u16) -> Source {
    Source { input: InputIndex(input), partition: Partition(0) }
}

fn descriptor() -> PluginDescriptor {
    let state = |name: &str, kind| StateDescriptor {
        name: name.to_owned(),
        kind,
        scope: StateScope::Keyed,
        schema_version: 1,
        expiry: None,
    };
    PluginDescriptor {
        inputs: vec!["left".to_owned(), "right".to_owned()],
        broadcast: Vec::new(),
        outputs: vec!["main".to_owned(), "late".to_owned()],
        states: vec![state("value", StateKind::Value), state("map", StateKind::Map)],
        metrics: vec![MetricDescriptor { name: "sizes".to_owned(), kind: MetricKind::Histogram }],
    }
}

fn identity(descriptor: &PluginDescriptor) -> Identity {
    let input = |name: &str| InputIdentity {
        name: name.to_owned(),
        topic: name.to_owned(),
        partitions: 1,
        key_type: "string".to_owned(),
    };
    Identity {
        pipeline: "test".to_owned(),
        cluster_id: String::new(),
        lanes: 1,
        inputs: vec![input("left"), input("right")],
        states: states_of(descriptor),
    }
}

fn options() -> LaneOptions {
    let output = |name: &str| OutputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        max_record_bytes: 1_000,
        requires_key: false,
    };
    let input = |name: &str| InputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        watermark: WatermarkRule::OutOfOrderness(0),
        idle_after: Some(100),
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::DeadLetter,
        is_broadcast: false,
        bootstrap: false,
    };
    LaneOptions {
        pipeline: "test".to_owned(),
        inputs: vec![input("left"), input("right")],
        roles: vec![0, 1],
        outputs: vec![output("main"), output("late")],
        late_output: Some(1),
        wait_for_input: 10_000,
        when_all_idle: WhenAllIdle::Hold,
        commit: CommitOptions {
            every: i64::MAX,
            max_records: u32::MAX,
            max_bytes: u64::MAX,
            keepalive_every: i64::MAX,
        },
        dead_letter_rate: DeadLetterRate { percent_max: 100, from_count: 100 },
        limits: CallLimits::default(),
    }
}
