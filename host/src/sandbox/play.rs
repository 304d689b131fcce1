//! Plays a case on the production engine: the lane loop, the real component, the in-memory ports.
//!
//! A case is played three times: with an epoch closed after every call; in as few epochs as
//! possible, so that a crash loses all of the open one; and with a fresh instance for every call.
//! What comes out must be the same.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use dovetail_codec::Decoder;
use dovetail_core::{
    clock::ManualClock,
    epoch::{Attempt, LaneId, Owner},
    identity::InputIdentity,
    log::memory::{Arrived, CommittedRecord, MemoryCluster},
    output::Target,
    plugin::PluginDescriptor,
    record::{
        DecodedRecord, Decoding, Header, Headers, InputIndex, Partition, Record, Source,
        SourceIndex,
    },
    state::{ExpiryTable, StateId, StateStore, StoreError, row},
};
use dovetail_runtime::{
    LaneSetup, PipelineSetup,
    acquire::{Predecessor, acquire},
    setup::expiry_of,
    tick::{LaneLoop, TickOutcome, tick},
};

use super::{
    case::{Action, Case, RawStep, RecordStep, StateStep, Step},
    compare,
    meter::Meter,
    prepare::Prepared,
    store::SharedStore,
};
use crate::{cli::terminal, wiring::lanes};

/// The output name that stands for the dead-letter topic.
pub(super) const DEAD_LETTERS: &str = "dead_letters";

/// How a case is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// An epoch for every call; expectations are compared.
    EpochPerCall,
    /// One epoch between two crashes. A crash loses it, and its steps happen again; then the store
    /// is lost and rebuilt from the journal.
    OneEpoch,
    /// A fresh instance for every call, an epoch for every call.
    Cold,
}

/// One expectation that does not hold.
#[derive(Debug, Clone)]
pub(super) struct Mismatch {
    /// The step's line.
    pub(super) line: usize,
    pub(super) message: String,
}

/// What a play brought.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) mismatches: Vec<Mismatch>,
    /// Everything committed, by output name.
    pub(super) outputs: BTreeMap<String, Vec<CommittedRecord>>,
    /// The `expect` steps that do not hold.
    pub(super) differing: BTreeSet<usize>,
    /// For each `expect` step, what its outputs held: for `--update`.
    pub(super) got: HashMap<usize, Vec<(String, Vec<CommittedRecord>)>>,
    /// Late records of each input, by name.
    pub(super) late: Vec<(String, u64)>,
    /// Where the lane's time stands at the end.
    pub(super) watermark: i64,
    /// The live rows of keyed state at the end, as text.
    pub(super) state: Vec<String>,
}

/// Where a play stands: a step, the clock, and what has arrived.
#[derive(Debug)]
struct Begun {
    step: usize,
    clock: i64,
    arrived: Arrived,
}

/// What was decoded by hand, by place.
type Given = Arc<Mutex<HashMap<(u16, u16, i64), Decoding>>>;

struct Player<'a> {
    case: &'a Case,
    mode: Mode,
    setup: PipelineSetup,
    parts: LaneSetup,
    cluster: MemoryCluster,
    given: Given,
    store: SharedStore,
    expiry: ExpiryTable,
    state_ids: Vec<StateId>,
    turning: Option<LaneLoop>,
    clock: ManualClock,
    attempt: u128,
    /// Where the open epoch of [`Mode::OneEpoch`] began.
    begun: Begun,
    /// Where state on disk lies, for as long as the play lasts.
    _folder: Option<tempfile::TempDir>,
    seen: BTreeMap<String, usize>,
    /// Late records of each input, and how many of them a step has asked for.
    late: Vec<u64>,
    late_seen: Vec<u64>,
    played: Played,
}

/// Plays a case.
pub(super) fn play(case: &Case, prepared: &Prepared, mode: Mode, meter: &Meter) -> Result<Played> {
    let mut player = Player::new(case, prepared, mode, meter)?;
    player.restart(Box::new(player.store.clone()))?;
    for (at, step) in case.steps.iter().enumerate() {
        player.step(at, step)?;
    }
    player.finish()
}

impl<'a> Player<'a> {
    fn new(case: &'a Case, prepared: &Prepared, mode: Mode, meter: &Meter) -> Result<Self> {
        let partitions = partitions(case);
        let inputs = prepared.identity.inputs.iter().cloned();
        let inputs: Vec<InputIdentity> =
            inputs.map(|input| InputIdentity { partitions, ..input }).collect();
        let sources = lanes::sources(LaneId(0), 1, &inputs);
        let is_broadcast =
            |source: &&Source| prepared.options.inputs[usize::from(source.input.0)].is_broadcast;
        let broadcast = sources.iter().filter(is_broadcast).count();
        let cluster = MemoryCluster::with_broadcast(sources.len() - broadcast, broadcast);
        let given = Given::default();
        let begun = Begun { step: 0, clock: case.base, arrived: cluster.arrived() };
        let mut options = prepared.options.clone();
        options.commit.every = if mode == Mode::OneEpoch { i64::MAX } else { 0 };
        options.commit.max_records = u32::MAX;
        options.commit.max_bytes = u64::MAX;
        options.commit.keepalive_every = i64::MAX;
        let descriptor = prepared.descriptor.clone();
        let state_ids = prepared
            .identity
            .state_ids(&descriptor)
            .map_err(|differences| anyhow!("the plugin's states differ: {differences:?}"))?;
        let (store, folder) = prepared.store()?;
        let store = SharedStore::new(store);
        let opened = store.clone();
        let setup = PipelineSetup {
            identity: prepared.identity.clone(),
            revision: Arc::new(prepared.revision(&options, mode == Mode::Cold, meter)),
            options,
            owner: Owner { host: "sandbox".to_owned(), pid: 0, started_at: 0 },
            transaction_timeout: 0,
            checkpoints: None,
            committed: None,
            untrimmed: None,
        };
        let parts = LaneSetup {
            lane: LaneId(0),
            sources,
            log: Box::new(cluster.log()),
            decoder: Box::new(decoder(prepared.decoders.clone(), Arc::clone(&given))),
            stores: Box::new(move |_: &ExpiryTable| -> Result<Box<dyn StateStore>, StoreError> {
                Ok(Box::new(opened.clone()))
            }),
        };
        Ok(Self {
            case,
            mode,
            expiry: expiry_of(&descriptor, &state_ids),
            state_ids,
            late: vec![0; setup.options.inputs.len()],
            late_seen: vec![0; setup.options.inputs.len()],
            setup,
            parts,
            cluster,
            given,
            store,
            turning: None,
            clock: ManualClock(case.base),
            attempt: 0,
            begun,
            seen: BTreeMap::new(),
            played: Played::default(),
            _folder: folder,
        })
    }

    fn restart(&mut self, store: Box<dyn StateStore>) -> Result<()> {
        self.attempt += 1;
        let attempt = Attempt(self.attempt);
        let now = self.clock.0;
        let before = Predecessor { store: Some(store), identity: None };
        let acquired = acquire(&mut self.parts, &self.setup, before, attempt, now, &mut |_| {})?;
        self.turning = Some(LaneLoop::new(acquired.lane, self.parts.sources.clone()));
        self.settle()
    }

    /// Works until there is nothing to do at this time.
    fn settle(&mut self) -> Result<()> {
        loop {
            match self.tick() {
                TickOutcome::Again => {}
                TickOutcome::Idle { .. } | TickOutcome::Finished | TickOutcome::Closed => break,
                TickOutcome::Stop(cause) => bail!("the pipeline stops: {cause:?}"),
                TickOutcome::Doubt(error) => return Err(error.into()),
            }
        }
        let Some(turning) = &mut self.turning else { return Ok(()) };
        for committed in turning.committed.drain(..) {
            for (late, counts) in self.late.iter_mut().zip(&committed.report.inputs) {
                *late += counts.late;
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> TickOutcome {
        let Some(turning) = &mut self.turning else { return TickOutcome::Closed };
        let LaneSetup { log, decoder, .. } = &mut self.parts;
        tick(turning, log.as_mut(), decoder.as_mut(), &mut self.clock)
    }

    /// Ends the open epoch and the lane.
    fn close(&mut self) -> Result<()> {
        if let Some(turning) = &mut self.turning {
            turning.close();
        }
        self.settle()?;
        self.turning = None;
        Ok(())
    }

    fn step(&mut self, at: usize, step: &Step) -> Result<()> {
        match &step.action {
            Action::Record(record) => self.record(record)?,
            Action::Raw(raw) => self.raw(raw)?,
            Action::Watermark(watermarks) => {
                for (input, watermark) in watermarks {
                    self.watermark(input, *watermark)?;
                }
            }
            Action::Clock(ms) => self.clock.0 = self.clock.0.saturating_add(*ms),
            Action::Ended(inputs) => {
                for input in inputs {
                    for source in self.sources_of(input)? {
                        self.cluster.end(source);
                    }
                }
            }
            Action::Crash => self.crash(at)?,
            // Nothing of the open epoch is committed yet; time stands where it stands.
            Action::Expect(_) | Action::ExpectLate(_) | Action::ExpectState(_)
                if self.mode == Mode::OneEpoch => {}
            Action::Expect(outputs) => self.expect(at, step, outputs),
            Action::ExpectLate(counts) => self.expect_late(step, counts)?,
            Action::ExpectState(expected) => self.expect_state(step, expected)?,
            Action::ExpectWatermark(expected) => self.expect_watermark(step, *expected),
        }
        self.settle()
    }

    /// A crash loses what is not committed. With an epoch for every call that is nothing; else it
    /// is every step since the epoch began: those happen again, in their order and at their times,
    /// and are committed. Then the store is lost, and rebuilt from the journal alone.
    fn crash(&mut self, at: usize) -> Result<()> {
        self.die_and_restart()?;
        if self.mode != Mode::OneEpoch {
            return Ok(());
        }
        let case = self.case;
        for (at, step) in case.steps.iter().enumerate().take(at).skip(self.begun.step) {
            self.step(at, step)?;
        }
        self.close()?;
        self.store.clone().clear()?;
        let now = self.clock.0;
        self.begun = Begun { step: at + 1, clock: now, arrived: self.cluster.arrived() };
        self.die_and_restart()
    }

    /// Drops the lane as it is, and starts again from what is committed.
    fn die_and_restart(&mut self) -> Result<()> {
        self.turning = None;
        if self.mode == Mode::OneEpoch {
            self.cluster.take_back(&self.begun.arrived);
            self.clock.0 = self.begun.clock;
        }
        self.parts.log = Box::new(self.cluster.log());
        self.restart(Box::new(self.store.clone()))
    }

    fn record(&mut self, step: &RecordStep) -> Result<()> {
        let source = self.source(&step.input, step.partition)?;
        let key = step.key.as_ref().map(|key| Bytes::from(key.clone()));
        let record = Record {
            offset: 0,
            timestamp: step.time,
            key: key.clone(),
            value: step.value.as_ref().map(|value| Bytes::from(value.clone())),
            headers: headers(&step.headers),
        };
        if let Some(time) = step.time {
            self.clock.0 = self.clock.0.max(time);
        }
        let offset = self.cluster.append(source.0, record);
        let decoding =
            Decoding::Ready { key: key.map(dovetail_core::key::Key::new), time: step.time };
        let place = (source.1.input.0, source.1.partition.0, offset);
        self.given.lock().unwrap_or_else(PoisonError::into_inner).insert(place, decoding);
        Ok(())
    }

    fn raw(&mut self, step: &RawStep) -> Result<()> {
        let (source, _) = self.source(&step.input, step.partition)?;
        if let Some(time) = step.timestamp {
            self.clock.0 = self.clock.0.max(time);
        }
        let record = Record {
            offset: 0,
            timestamp: Some(step.timestamp.unwrap_or(self.clock.0)),
            key: step.key.as_ref().map(|key| Bytes::from(key.clone())),
            value: step.value.as_ref().map(|value| Bytes::from(value.clone())),
            headers: headers(&step.headers),
        };
        self.cluster.append(source, record);
        Ok(())
    }

    fn watermark(&mut self, input: &str, watermark: i64) -> Result<()> {
        for source in self.sources_of(input)? {
            let Some(turning) = &mut self.turning else { continue };
            let event = dovetail_core::lane::Event::Watermark { source, watermark };
            turning.lane_mut().step(self.clock.0, event, &mut Vec::new());
        }
        Ok(())
    }

    fn input(&self, name: &str) -> Result<InputIndex> {
        let at = self.setup.options.inputs.iter().position(|input| input.name == name);
        let Some(at) = at else {
            let known: Vec<&str> =
                self.setup.options.inputs.iter().map(|input| input.name.as_str()).collect();
            bail!("there is no input `{name}`, the pipeline has {}", known.join(", "));
        };
        Ok(InputIndex(u16::try_from(at)?))
    }

    fn source(&self, name: &str, partition: u16) -> Result<(SourceIndex, Source)> {
        let source = Source { input: self.input(name)?, partition: Partition(partition) };
        let at = self.parts.sources.iter().position(|known| *known == source);
        let at = at.ok_or_else(|| anyhow!("input `{name}` has no partition {partition}"))?;
        Ok((SourceIndex(u16::try_from(at)?), source))
    }

    fn sources_of(&self, name: &str) -> Result<Vec<SourceIndex>> {
        let input = self.input(name)?;
        let places = self.parts.sources.iter().enumerate();
        let places = places.filter(|(_, source)| source.input == input);
        places.map(|(at, _)| Ok(SourceIndex(u16::try_from(at)?))).collect()
    }

    fn output_name(&self, target: Target) -> String {
        match target {
            Target::DeadLetters => DEAD_LETTERS.to_owned(),
            Target::Output(at) => self.setup.options.outputs[usize::from(at)].name.clone(),
        }
    }

    fn collect(&self) -> BTreeMap<String, Vec<CommittedRecord>> {
        let mut outputs: BTreeMap<String, Vec<CommittedRecord>> = BTreeMap::new();
        for record in self.cluster.outputs() {
            outputs.entry(self.output_name(record.target)).or_default().push(record);
        }
        outputs
    }

    fn mismatch(&mut self, line: usize, message: String) {
        self.played.mismatches.push(Mismatch { line, message });
    }

    fn expect(&mut self, at: usize, step: &Step, outputs: &[(String, Vec<serde_json::Value>)]) {
        let committed = self.collect();
        for (name, expected) in outputs {
            let all = committed.get(name).map_or(&[][..], Vec::as_slice);
            let seen = self.seen.insert(name.clone(), all.len()).unwrap_or(0);
            let new = all[seen..].to_vec();
            if let Some(message) = compare::difference(name, expected, &new, self.case.base) {
                self.mismatch(step.line, message);
                self.played.differing.insert(at);
            }
            self.played.got.entry(at).or_default().push((name.clone(), new));
        }
    }

    fn expect_late(&mut self, step: &Step, counts: &[(String, u64)]) -> Result<()> {
        for (input, expected) in counts {
            let at = usize::from(self.input(input)?.0);
            let got = self.late[at] - std::mem::replace(&mut self.late_seen[at], self.late[at]);
            if got != *expected {
                let message = format!("expected {expected} late records of `{input}`, got {got}");
                self.mismatch(step.line, message);
            }
        }
        Ok(())
    }

    fn expect_state(&mut self, step: &Step, expected: &StateStep) -> Result<()> {
        let descriptor: &PluginDescriptor = self.setup.revision.descriptor();
        let state = match &expected.state {
            None => None,
            Some(name) => {
                let at = descriptor.states.iter().position(|state| state.name == *name);
                let at = at.ok_or_else(|| anyhow!("the plugin has no state `{name}`"))?;
                Some(self.state_ids[at])
            }
        };
        let got = self.store.entries(expected.key.as_bytes(), state, &self.expiry)?;
        if got != expected.entries {
            let what = expected.state.as_deref().unwrap_or("all states");
            let message = format!(
                "expected {} entries of key {} in {what}, got {got}",
                expected.entries, expected.key
            );
            self.mismatch(step.line, message);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<String>> {
        let descriptor = self.setup.revision.descriptor();
        let name = |id: StateId| {
            let at = self.state_ids.iter().position(|known| *known == id);
            at.map_or("?", |at| descriptor.states[at].name.as_str())
        };
        let mut rows = Vec::new();
        self.store.each_live(&self.expiry, &mut |row, value| {
            let key = row.key.as_bytes().escape_ascii();
            let value = row::parse_value(value).map_or(value, |value| value.payload);
            let (entry, value) = (row.entry.escape_ascii(), value.escape_ascii());
            rows.push(format!("key {key}, {} [{entry}] = {value}", name(row.state)));
        })?;
        self.store.each_broadcast(&mut |state, entry, value| {
            let value = row::parse_value(value).map_or(value, |value| value.payload);
            let (entry, value) = (entry.escape_ascii(), value.escape_ascii());
            rows.push(format!("every key, {} [{entry}] = {value}", name(state)));
        })?;
        Ok(rows)
    }

    fn expect_watermark(&mut self, step: &Step, expected: i64) {
        let got = self.watermark_now();
        if got != expected {
            let show = |time| compare::offset(time, self.case.base);
            let message =
                format!("expected the watermark at {}, got {}", show(expected), show(got));
            self.mismatch(step.line, message);
        }
    }

    fn watermark_now(&self) -> i64 {
        self.turning.as_ref().map_or(i64::MIN, |turning| turning.lane().status().watermark)
    }

    fn finish(mut self) -> Result<Played> {
        self.played.watermark = self.watermark_now();
        self.close()?;
        self.played.state = self.state()?;
        let inputs = self.setup.options.inputs.iter().map(|input| input.name.clone());
        self.played.late = inputs.zip(self.late.iter().copied()).collect();
        let outputs = self.collect();
        let line = self.case.line;
        let dead_letters = outputs.get(DEAD_LETTERS).map_or(&[][..], Vec::as_slice);
        if let Some(first) = dead_letters.first()
            && !self.seen.contains_key(DEAD_LETTERS)
            && self.mode != Mode::OneEpoch
        {
            let count = u64::try_from(dead_letters.len()).unwrap_or(u64::MAX);
            let message = format!(
                "{} that no step expects: {}; if that is meant, expect it: `- expect: {{ \
                 {DEAD_LETTERS}: [ {{ reason: … }} ] }}`",
                terminal::count(count, "dead letter"),
                compare::why_dead(first)
            );
            self.mismatch(line, message);
        }
        for (name, seen) in std::mem::take(&mut self.seen) {
            let left = outputs.get(&name).map_or(0, Vec::len) - seen;
            if left > 0 {
                let message = format!(
                    "output `{name}` holds {left} more records than the case expects; the last \
                     `expect` of an output comes after everything that goes there"
                );
                self.mismatch(line, message);
            }
        }
        self.played.outputs = outputs;
        Ok(self.played)
    }
}

fn headers(given: &[(String, Option<String>)]) -> Headers {
    let header = |(name, value): &(String, Option<String>)| Header {
        name: name.clone(),
        value: value.clone().map(Bytes::from),
    };
    Headers::new(given.iter().map(header).collect())
}

fn decoder(
    decoders: Vec<Decoder>,
    given: Given,
) -> impl FnMut(Source, Record) -> DecodedRecord + Send {
    move |source, record| {
        let place = (source.input.0, source.partition.0, record.offset);
        let known = given.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        match known {
            Some(decoding) => DecodedRecord { record, decoding },
            None => decoders[usize::from(source.input.0)].decode(record),
        }
    }
}

/// What the case says, else one more than the highest partition that it names.
fn partitions(case: &Case) -> u16 {
    if let Some(partitions) = case.partitions {
        return partitions;
    }
    let partition = |step: &Step| match &step.action {
        Action::Record(record) => record.partition,
        Action::Raw(raw) => raw.partition,
        Action::Watermark(_)
        | Action::Clock(_)
        | Action::Ended(_)
        | Action::Crash
        | Action::Expect(_)
        | Action::ExpectLate(_)
        | Action::ExpectState(_)
        | Action::ExpectWatermark(_) => 0,
    };
    case.steps.iter().map(partition).max().unwrap_or(0).saturating_add(1)
}
