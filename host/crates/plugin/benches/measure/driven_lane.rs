//! Core's lane over a store, handed records and watermarks directly: what a record costs without the
//! log, the decoder and other threads.

use bytes::Bytes;
use dovetail_core::{
    epoch::{Attempt, LaneId, Owner},
    identity::{BROADCAST, Identity, InputIdentity, states_of},
    key::Key,
    lane::{Effect, Event, Lane, LaneParts, Start},
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    plugin::{MatchFunction, PluginDescriptor},
    record::{DecodedRecord, Decoding, InputIndex, Partition, Record, Source, SourceIndex},
    state::{StateId, StateStore},
};

/// A record of an input, decoded.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) input: u16,
    pub(crate) key: String,
    pub(crate) time: i64,
    pub(crate) value: String,
}

/// A plugin's lane; what it commits goes nowhere.
pub(crate) struct DrivenLane {
    lane: Lane,
    offsets: Vec<i64>,
    /// Inputs that have a watermark.
    keyed: Vec<u16>,
    journal: i64,
    /// Results so far.
    pub(crate) results: u64,
    /// Called when an epoch is committed.
    pub(crate) on_commit: Box<dyn FnMut()>,
}

impl DrivenLane {
    /// Starts a lane whose epochs end when `commit` says so.
    pub(crate) fn new(
        (function, descriptor): (Box<dyn MatchFunction>, PluginDescriptor),
        store: Box<dyn StateStore>,
        commit: CommitOptions,
    ) -> Self {
        let inputs = u16::try_from(descriptor.inputs.len()).expect("few inputs");
        let source = |input| Source { input: InputIndex(input), partition: Partition(0) };
        let identity = identity(&descriptor);
        let is_keyed =
            |input: &u16| !descriptor.is_broadcast(&descriptor.inputs[usize::from(*input)]);
        let keyed = (0..inputs).filter(is_keyed).collect();
        let lane = Lane::new(LaneParts {
            lane: LaneId(0),
            sources: (0..inputs).map(source).collect(),
            options: options(&descriptor, commit),
            store,
            function,
            state_ids: (0..).map(StateId).take(descriptor.states.len()).collect(),
            descriptor,
            revision: "bench".to_owned(),
            attempt: Attempt(1),
            owner: Owner { host: String::new(), pid: 0, started_at: 0 },
            start: Start::Genesis { identity, positions: vec![0; usize::from(inputs)] },
            now: 0,
        });
        let offsets = vec![0; usize::from(inputs)];
        Self { lane, offsets, keyed, journal: 0, results: 0, on_commit: Box::new(|| ()) }
    }

    /// Handles one event; returns whether an epoch was committed.
    pub(crate) fn step(&mut self, now: i64, event: Event) -> bool {
        let mut effects = Vec::new();
        self.lane.step(now, event, &mut effects);
        let is_committed = effects.contains(&Effect::Commit);
        if is_committed {
            (self.on_commit)();
            self.journal += 1;
            let committed = Event::Committed { journal_next: self.journal };
            self.lane.step(now, committed, &mut effects);
        }
        let mut stopped = None;
        for effect in effects {
            match effect {
                Effect::Applied(report) => {
                    self.results += report.outputs.iter().sum::<u64>();
                    let failures = report.failures;
                    assert!(failures.is_empty(), "{failures:?} {:?}", report.dead_letter_messages);
                }
                Effect::Stop(cause) => stopped = Some(cause),
                Effect::Commit => {}
            }
        }
        assert_eq!(stopped, None, "the lane stops");
        is_committed
    }

    /// Hands over records, and says that nothing follows for now.
    pub(crate) fn hand_over(&mut self, records: &[Given]) {
        let mut of_source = vec![Vec::new(); self.offsets.len()];
        for given in records {
            let at = usize::from(given.input);
            let (key, value) = (given.key.clone(), given.value.clone());
            let record = Record {
                offset: self.offsets[at],
                value: Some(Bytes::from(value)),
                ..Record::default()
            };
            self.offsets[at] += 1;
            let key = Some(Key::new(key.into_bytes()));
            let decoding = Decoding::Ready { key, time: Some(given.time) };
            of_source[at].push(DecodedRecord { record, decoding });
        }
        for (at, records) in of_source.into_iter().enumerate() {
            let source = SourceIndex(u16::try_from(at).expect("few inputs"));
            if !records.is_empty() {
                self.step(0, Event::Fetched { source, records });
            }
            self.step(0, Event::AtEnd { source, position: self.offsets[at] });
        }
    }

    /// Says of every input that no more records with event time ≤ `watermark` are expected.
    pub(crate) fn watermark(&mut self, watermark: i64) {
        for at in self.keyed.clone() {
            self.step(0, Event::Watermark { source: SourceIndex(at), watermark });
        }
    }

    /// Works until nothing is left to do.
    pub(crate) fn work(&mut self) {
        while self.step(0, Event::Proceed { calls_max: u32::MAX }) {}
    }

    /// Commits, and gives the store back.
    pub(crate) fn into_store(mut self) -> Box<dyn StateStore> {
        self.step(0, Event::Close);
        self.lane.into_store()
    }
}

fn identity(descriptor: &PluginDescriptor) -> Identity {
    let input = |name: &String| InputIdentity {
        name: name.clone(),
        topic: name.clone(),
        partitions: 1,
        key_type: if descriptor.is_broadcast(name) { BROADCAST } else { "string" }.to_owned(),
    };
    Identity {
        pipeline: "bench".to_owned(),
        cluster_id: String::new(),
        lanes: 1,
        inputs: descriptor.inputs.iter().map(input).collect(),
        states: states_of(descriptor),
    }
}

fn options(descriptor: &PluginDescriptor, commit: CommitOptions) -> LaneOptions {
    let output = |name: &String| OutputOptions {
        name: name.clone(),
        topic: name.clone(),
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
        pipeline: "bench".to_owned(),
        inputs: descriptor.inputs.iter().map(input).collect(),
        roles: (0..).take(descriptor.inputs.len()).collect(),
        outputs: descriptor.outputs.iter().map(output).collect(),
        late_output: late.and_then(|at| u16::try_from(at).ok()),
        wait_for_input: i64::MAX,
        when_all_idle: WhenAllIdle::Hold,
        commit,
        dead_letter_rate: DeadLetterRate { percent_max: 100, from_count: u64::MAX },
        limits: CallLimits::default(),
    }
}
