//! A lane over the in-memory ports that a case drives event by event.

use std::ops::ControlFlow;

use bytes::Bytes;
use dovetail_core::{
    epoch::{Attempt, LaneId, Owner, codec},
    identity::{Identity, InputIdentity, states_of},
    key::{Key, KeyType},
    lane::{Effect, Event, Lane, LaneParts, Start},
    log::{
        Log,
        memory::{CommittedRecord, MemoryCluster, MemoryLog},
    },
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    output::Target,
    plugin::{MatchFunction, PluginDescriptor},
    record::{DecodedRecord, Decoding, InputIndex, Partition, Record, Source, SourceIndex},
    state::{MemoryStore, StateStore, row},
};

/// Makes the handlers of a case anew: after a restore nothing of the old ones is left.
pub(crate) type MakeFunction = Box<dyn Fn() -> Box<dyn MatchFunction>>;

/// Two inputs of one partition each, told watermarks, one lane.
pub(crate) struct Operator {
    make: MakeFunction,
    descriptor: PluginDescriptor,
    cluster: MemoryCluster,
    log: MemoryLog,
    lane: Option<Lane>,
    now: i64,
    offsets: [i64; 2],
    seen: usize,
    max_records: u32,
}

impl Operator {
    pub(crate) fn new(descriptor: PluginDescriptor, max_records: u32, make: MakeFunction) -> Self {
        let cluster = MemoryCluster::new(2);
        let log = cluster.log();
        let mut operator = Self {
            make,
            descriptor,
            cluster,
            log,
            lane: None,
            now: 0,
            offsets: [0; 2],
            seen: 0,
            max_records,
        };
        operator.start(Box::new(MemoryStore::default()));
        operator
    }

    fn start(&mut self, mut store: Box<dyn StateStore>) {
        self.log = self.cluster.log();
        self.log.acquire().expect("the in-memory log is always there");
        let head = store.head().expect("the in-memory store is always there");
        let start = match head {
            Some(head) => {
                Start::Resume(Box::new(codec::decode_stored(&head).expect("we wrote it")))
            }
            None => Start::Genesis { identity: self.identity(), positions: vec![0, 0] },
        };
        let lane = Lane::new(LaneParts {
            lane: LaneId(0),
            sources: [0, 1].map(source).to_vec(),
            options: options(&self.descriptor, self.max_records),
            store,
            function: (self.make)(),
            descriptor: self.descriptor.clone(),
            state_ids: self.identity().state_ids(&self.descriptor).expect("they are its own"),
            revision: "case".to_owned(),
            attempt: Attempt(1),
            owner: Owner { host: String::new(), pid: 0, started_at: 0 },
            start,
            now: self.now,
        });
        self.lane = Some(lane);
        self.step(Event::Close);
        for at in [0, 1] {
            self.at_end(at);
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            pipeline: "case".to_owned(),
            cluster_id: String::new(),
            lanes: 1,
            inputs: ["L", "R"]
                .map(|name| InputIdentity {
                    name: name.to_owned(),
                    topic: name.to_owned(),
                    partitions: 1,
                    key_type: KeyType::String.name().to_owned(),
                })
                .to_vec(),
            states: states_of(&self.descriptor),
        }
    }

    /// Handles one event; returns whether an epoch was committed on the way.
    fn step(&mut self, event: Event) -> bool {
        let mut effects = Vec::new();
        let lane = self.lane.as_mut().expect("a lane runs between restores");
        lane.step(self.now, event, &mut effects);
        let committed = effects.iter().any(|effect| matches!(effect, Effect::Commit));
        if committed {
            let next = self.log.commit(&lane.transaction()).expect("nobody else writes");
            lane.step(self.now, Event::Committed { journal_next: next }, &mut effects);
        }
        let stopped = effects.iter().find(|effect| matches!(effect, Effect::Stop(_)));
        assert!(stopped.is_none(), "the lane stopped: {stopped:?}");
        committed
    }

    /// Works until nothing is left, or an epoch has cut a move of time.
    pub(crate) fn settle(&mut self) {
        while self.step(Event::Proceed { calls_max: 1_000_000 }) {
            if self.is_firing() {
                return;
            }
        }
        self.step(Event::Close);
    }

    pub(crate) fn is_firing(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.status().firing.is_some())
    }

    fn at_end(&mut self, at: u16) {
        let position = self.offsets[usize::from(at)];
        self.step(Event::AtEnd { source: SourceIndex(at), position });
    }

    pub(crate) fn record(&mut self, at: u16, key: &str, time: Option<i64>, value: Option<Vec<u8>>) {
        let offset = self.offsets[usize::from(at)];
        self.offsets[usize::from(at)] += 1;
        let value = value.map(Bytes::from);
        let record = Record { offset, value, ..Record::default() };
        let key = Some(Key::new(Bytes::copy_from_slice(key.as_bytes())));
        let records = vec![DecodedRecord { record, decoding: Decoding::Ready { key, time } }];
        self.step(Event::Fetched { source: SourceIndex(at), records });
        self.at_end(at);
    }

    pub(crate) fn watermark(&mut self, at: u16, watermark: i64) {
        self.step(Event::Watermark { source: SourceIndex(at), watermark });
    }

    pub(crate) fn clock(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    pub(crate) fn end(&mut self) {
        for at in [0, 1] {
            self.step(Event::Ended { source: SourceIndex(at) });
        }
    }

    /// Commits, throws the lane away and starts another over the same store.
    pub(crate) fn restore(&mut self) {
        self.step(Event::Close);
        let lane = self.lane.take().expect("a lane runs between restores");
        self.start(lane.into_store());
    }

    /// Commits, and returns the entries that a state has, over all keys in their order.
    pub(crate) fn entries(&mut self, state: &str) -> Vec<Vec<u8>> {
        self.step(Event::Close);
        let at = self.descriptor.states.iter().position(|known| known.name == state);
        let ids = self.identity().state_ids(&self.descriptor).expect("they are its own");
        let lane = self.lane.take().expect("a lane runs between restores");
        let mut store = lane.into_store();
        let mut entries = Vec::new();
        let (from, to) = ([row::STATE_PREFIX], [row::STATE_PREFIX + 1]);
        let mut visit = |key: &[u8], _: &[u8]| {
            let found = row::parse_state_row(key).expect("the lane wrote it");
            if at.is_some_and(|at| ids[at] == found.state) {
                entries.push(found.entry.to_vec());
            }
            ControlFlow::Continue(())
        };
        store.scan(&from, &to, &mut visit).expect("the in-memory store is always there");
        self.start(store);
        entries
    }

    /// Returns the lane's watermark once its timers have fired.
    pub(crate) fn watermark_passed_on(&self) -> i64 {
        self.lane.as_ref().map_or(i64::MIN, |lane| lane.status().watermark)
    }

    /// Returns the name of an output; none is the dead letters.
    pub(crate) fn output_name(&self, target: Target) -> Option<&str> {
        match target {
            Target::Output(at) => Some(&self.descriptor.outputs[usize::from(at)]),
            Target::DeadLetters => None,
        }
    }

    /// Returns what was committed since the last call.
    pub(crate) fn new_outputs(&mut self) -> Vec<CommittedRecord> {
        let outputs = self.cluster.outputs().split_off(self.seen);
        self.seen += outputs.len();
        outputs
    }
}

fn source(input: u16) -> Source {
    Source { input: InputIndex(input), partition: Partition(0) }
}

fn options(descriptor: &PluginDescriptor, max_records: u32) -> LaneOptions {
    let output = |name: &String| OutputOptions {
        name: name.clone(),
        topic: name.clone(),
        max_record_bytes: usize::MAX,
        requires_key: false,
    };
    let input = |name: &str| InputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        watermark: WatermarkRule::Told,
        idle_after: None,
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::DeadLetter,
        is_broadcast: false,
        bootstrap: false,
    };
    LaneOptions {
        pipeline: "case".to_owned(),
        inputs: vec![input("L"), input("R")],
        roles: vec![0, 1],
        outputs: descriptor.outputs.iter().map(output).collect(),
        late_output: None,
        wait_for_input: 0,
        when_all_idle: WhenAllIdle::Hold,
        commit: CommitOptions {
            every: i64::MAX,
            max_records,
            max_bytes: u64::MAX,
            keepalive_every: i64::MAX,
        },
        dead_letter_rate: DeadLetterRate { percent_max: 100, from_count: u64::MAX },
        limits: CallLimits::default(),
    }
}
