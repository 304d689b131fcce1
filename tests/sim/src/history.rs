//! What was committed, and whether it may have been: the oracles.
//!
//! Fed by the model of Kafka at the moment a transaction is decided, and by the model of a disk at
//! the moment an epoch is applied. It knows what the hosts cannot: every call behind every epoch.
//!
//! Checked, in the numbering of the reference: I1 (epochs grow by one on one chain), I2 (outputs
//! are those of the model), I3 (no store is ahead of the commit), I4 (a store is, row by row, what
//! the committed changes make), I5 (positions), I6 (nothing of an attempt that is not in the
//! journal); also that every input record is handled once and in order, that watermark and clock
//! never go back, and that timers fire when they should and as often.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dovetail_core::{
    epoch::{
        Attempt, EpochRecord, JournaledEpoch, LaneId,
        chunk::Assembler,
        codec,
        metadata::{CommitMetadata, ForeignMetadata},
    },
    key::murmur2_partition,
    state::{ExpiryTable, row},
    time::NO_WATERMARK,
    timers::{Timer, TimerDomain},
};

use crate::{
    job::{Call, CallSubject, Expected, Job, Model, Out, REVISION, TimerSet},
    kafka::{Contents, Kafka, OffsetEntry, Place},
    workload::RULES,
};

/// Partitions of each output.
pub const OUTPUT_PARTITIONS: u16 = 2;

/// Returns where an output record goes.
#[must_use]
pub fn place_of(output: u16, key: &[u8]) -> Place {
    Place::Output(output, murmur2_partition(key, OUTPUT_PARTITIONS))
}

/// Hashes one row; a state's hash is the sum over its rows.
#[must_use]
pub fn row_hash(row: &[u8], value: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in row.iter().chain([&0xff]).chain(value) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 29)
}

/// Rows, and the hash over them.
#[derive(Debug, Default, Clone)]
pub struct Rows {
    /// The rows.
    pub rows: BTreeMap<Bytes, Bytes>,
    /// The sum of their hashes.
    pub hash: u64,
}

impl Rows {
    /// Changes one row; returns what stood there.
    pub fn change(&mut self, row: &Bytes, value: Option<Bytes>) -> Option<Bytes> {
        let before = match value {
            Some(value) => {
                self.hash = self.hash.wrapping_add(row_hash(row, &value));
                self.rows.insert(row.clone(), value)
            }
            None => self.rows.remove(row),
        };
        if let Some(before) = &before {
            self.hash = self.hash.wrapping_sub(row_hash(row, before));
        }
        before
    }
}

/// A committed epoch.
#[derive(Debug, Clone)]
pub struct CommittedEpoch {
    /// What it said.
    pub record: EpochRecord,
    /// Its hash.
    pub hash: u64,
    /// The hash of keyed state behind it.
    state_hash: u64,
    /// Of the rows that expire: their hash, and up to which watermark they live.
    expiring: Vec<(u64, i64)>,
    /// The offsets that it committed.
    pub offsets: Vec<OffsetEntry>,
    /// The journal offset behind it.
    pub journal_next: i64,
}

/// A transaction that was taken into the history.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Its epoch.
    pub epoch: u64,
    /// Its attempt.
    pub attempt: Attempt,
    /// Whether another revision decided it than the one before.
    pub is_switch: bool,
}

/// The committed history of one lane.
pub struct LaneHistory {
    lane: u16,
    /// Its epochs, in order.
    pub epochs: Vec<CommittedEpoch>,
    rows: Rows,
    expiry: ExpiryTable,
    model: Box<dyn Model>,
    /// The timers that are registered.
    pub timers: TimerSet,
    /// Up to which watermark and clock all timers have fired.
    settled: (i64, i64),
    continuation: Option<(Bytes, u16, u64)>,
    retried: Option<CallSubject>,
    /// Sources whose topic was made anew and is read from its beginning.
    pub(crate) anew: BTreeSet<(u16, u16)>,
    /// What was emitted.
    pub outputs: Vec<Out>,
    /// Records that were late.
    pub late: u64,
    /// Records that were handled.
    pub records: u64,
    /// Timers that fired.
    pub fired: u64,
}

impl std::fmt::Debug for LaneHistory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneHistory").field("epochs", &self.epochs.len()).finish_non_exhaustive()
    }
}

impl LaneHistory {
    /// Returns the history of a lane that has never run.
    #[must_use]
    pub fn new(lane: u16, job: Job) -> Self {
        Self {
            lane,
            epochs: Vec::new(),
            rows: Rows::default(),
            expiry: job.expiry(),
            model: job.model(),
            timers: TimerSet::default(),
            settled: (i64::MIN, i64::MIN),
            continuation: None,
            retried: None,
            anew: BTreeSet::new(),
            outputs: Vec::new(),
            late: 0,
            records: 0,
            fired: 0,
        }
    }

    /// Returns what the last epoch said.
    #[must_use]
    pub fn last(&self) -> Option<&EpochRecord> {
        self.epochs.last().map(|epoch| &epoch.record)
    }

    /// Takes a transaction that was decided to be committed.
    ///
    /// # Errors
    ///
    /// Which rule it breaks.
    pub fn committed(&mut self, contents: Contents, kafka: &mut Kafka) -> Result<Taken, String> {
        let epoch = decode(self.lane, &contents.chunks)?;
        self.check_chain(&epoch)?;
        let is_switch = self.check_revision(&epoch.record, &contents.calls)?;
        check_offsets(&epoch, &contents.offsets)?;
        self.check_inputs(&epoch.record, &contents.calls, kafka)?;
        let expected = self.replay(&contents.calls)?;
        check_outputs(&expected, &contents)?;
        self.outputs.extend(expected);
        self.check_cut(&epoch.record)?;
        for (row, value) in &epoch.changes {
            drop(self.rows.change(row, value.clone()));
        }
        self.check_timers()?;
        let (number, attempt) = (epoch.record.epoch.0, epoch.record.attempt);
        let (record, hash) = (epoch.record, epoch.hash);
        let (state_hash, offsets) = (self.rows.hash, contents.offsets);
        let (expiring, journal_next) = (self.expiring(&self.rows), contents.journal_next);
        let committed =
            CommittedEpoch { record, hash, state_hash, expiring, offsets, journal_next };
        self.epochs.push(committed);
        Ok(Taken { epoch: number, attempt, is_switch })
    }

    /// One revision decides an epoch, the one that the journal names; a process does not go back
    /// to an earlier one. Returns whether it is another than before.
    fn check_revision(&self, record: &EpochRecord, calls: &[Call]) -> Result<bool, String> {
        let number = record.epoch.0;
        let wanted = revision_number(&record.revision)?;
        if let Some(call) = calls.iter().find(|call| call.revision != wanted) {
            return Err(format!(
                "revision: epoch {number} names revision {wanted}, and revision {} decided {:?}",
                call.revision, call.subject
            ));
        }
        let Some(last) = self.last() else { return Ok(false) };
        let before = revision_number(&last.revision)?;
        if last.owner == record.owner && wanted < before {
            return Err(format!(
                "revision: epoch {number} goes back from revision {before} to {wanted} in one process"
            ));
        }
        Ok(before != wanted)
    }

    fn check_chain(&self, epoch: &JournaledEpoch) -> Result<(), String> {
        let (number, previous) = (epoch.record.epoch.0, self.epochs.last());
        let next = self.epochs.len() as u64;
        if number != next {
            return Err(format!("I1: epoch {number} is committed, the next is {next}"));
        }
        let Some(previous) = previous else { return Ok(()) };
        if epoch.record.previous_hash != previous.hash {
            return Err(format!("I1: epoch {number} does not continue its predecessor"));
        }
        if epoch.record.watermark < previous.record.watermark {
            return Err(format!("time: the watermark goes back with epoch {number}"));
        }
        if epoch.record.processing_time < previous.record.processing_time {
            return Err(format!("time: processing time goes back with epoch {number}"));
        }
        let sources = epoch.record.sources.iter().zip(&previous.record.sources);
        if sources.into_iter().any(|(after, before)| after.watermark < before.watermark) {
            return Err(format!("time: the watermark of a source goes back with epoch {number}"));
        }
        Ok(())
    }

    /// Every record between the positions is handled once, in order, and no other.
    fn check_inputs(
        &mut self,
        record: &EpochRecord,
        calls: &[Call],
        kafka: &mut Kafka,
    ) -> Result<(), String> {
        let mut handled: BTreeMap<(u16, u16), Vec<i64>> = BTreeMap::new();
        let mut last = None;
        for call in calls {
            let CallSubject::Record { input, offset, .. } = call.subject else { continue };
            let this = (input, call.partition, offset);
            if last != Some(this) {
                handled.entry((input, call.partition)).or_default().push(offset);
            }
            last = Some(this);
        }
        for (at, source) in record.sources.iter().enumerate() {
            let place = (source.source.input.0, source.source.partition.0);
            let mut before = self.last().map_or(0, |last| last.sources[at].position);
            if source.position < before && self.anew.remove(&place) {
                before = 0;
            }
            let log = kafka.log(Place::Input(place.0, place.1));
            let (records, _) = log.read(before, source.position, usize::MAX, true);
            let wanted: Vec<i64> = records.iter().map(|record| record.offset).collect();
            let found = handled.remove(&place).unwrap_or_default();
            self.records += found.len() as u64;
            if wanted != found {
                return Err(format!(
                    "I5: epoch {} takes input {place:?} from {before} to {}, which are the records \
                     {wanted:?}, but {found:?} were handled",
                    record.epoch.0, source.position
                ));
            }
        }
        match handled.into_iter().next() {
            Some((place, _)) => {
                Err(format!("I5: records of {place:?} were handled by another lane"))
            }
            None => Ok(()),
        }
    }

    fn replay(&mut self, calls: &[Call]) -> Result<Vec<Out>, String> {
        let mut outs = Vec::new();
        for call in calls {
            self.check_call(call)?;
            let Expected { outputs, continues, is_retried } =
                self.model.call(call, &mut self.timers);
            outs.extend(outputs);
            self.retried = is_retried.then(|| call.subject.clone());
            self.continuation = continues.map(|tag| (call.key.clone(), call.partition, tag));
        }
        Ok(outs)
    }

    fn check_call(&mut self, call: &Call) -> Result<(), String> {
        if let Some(retried) = &self.retried {
            return match *retried == call.subject {
                true => Ok(()),
                false => Err(format!("calls: a failed call is followed by {:?}", call.subject)),
            };
        }
        if let Some((key, partition, tag)) = self.continuation.take() {
            let is_it = matches!(call.subject, CallSubject::Timer { domain: TimerDomain::Continue, tag: found, .. } if found == tag);
            return match is_it && key == call.key && partition == call.partition {
                true => Ok(()),
                false => Err(format!("calls: a continuation is followed by {:?}", call.subject)),
            };
        }
        match &call.subject {
            CallSubject::Record { time, .. } => {
                let is_broadcast = matches!(call.subject, CallSubject::Record { input: RULES, .. });
                if call.is_late != (*time <= call.watermark && !is_broadcast) {
                    return Err(format!(
                        "time: lateness of {:?} at {}",
                        call.subject, call.watermark
                    ));
                }
                self.late += u64::from(call.is_late);
                self.check_settled(call)
            }
            CallSubject::Timer { domain: TimerDomain::Continue, .. } => {
                Err("calls: a continuation that nobody asked for".to_owned())
            }
            CallSubject::Timer { time, domain, tag } => {
                self.fired += 1;
                let timer = crate::job::timer_of(call, time.unwrap_or(i64::MIN), *tag);
                let now = match domain {
                    TimerDomain::Processing => call.processing_time,
                    TimerDomain::Event | TimerDomain::Continue => call.watermark,
                };
                let timers = self.timers.of(*domain);
                if timers.first() != Some(&timer) || timer.time > now {
                    let first = timers.first();
                    return Err(format!(
                        "timers: at {now} {timer:?} fires, and the first is {first:?}"
                    ));
                }
                timers.pop_first();
                Ok(())
            }
        }
    }

    /// Time moves first: before a record all timers fire that are due by it.
    fn check_settled(&mut self, call: &Call) -> Result<(), String> {
        let (event, processing) = self.settled;
        self.settled = (event.max(call.watermark), processing.max(call.processing_time));
        let is_due = |timers: &BTreeSet<Timer>, before: i64, now: i64| {
            now > before && timers.first().is_some_and(|timer| timer.time <= now)
        };
        let event_is_due = is_due(&self.timers.event, event, call.watermark);
        let at_end = call.watermark == dovetail_core::time::END_OF_TIME;
        let processing_is_due =
            !at_end && is_due(&self.timers.processing, processing, call.processing_time);
        if event_is_due || processing_is_due {
            return Err(format!(
                "time: {:?} is handled at watermark {}, and {:?} has not fired",
                call.subject,
                call.watermark,
                self.timers.event.first().or(self.timers.processing.first())
            ));
        }
        Ok(())
    }

    fn check_cut(&self, record: &EpochRecord) -> Result<(), String> {
        let said = record
            .continuation
            .as_ref()
            .map(|continued| (continued.key.0.clone(), continued.partition.0, continued.tag));
        match said == self.continuation {
            true => Ok(()),
            false => Err(format!("calls: epoch {} says continue {said:?}", record.epoch.0)),
        }
    }

    fn check_timers(&self) -> Result<(), String> {
        let mut stored = TimerSet::default();
        for row in self.rows.rows.keys() {
            if let Some((domain, timer)) = Timer::parse(row) {
                stored.of(domain).insert(timer);
            }
        }
        let expected = &self.timers;
        if stored.event == expected.event && stored.processing == expected.processing {
            return Ok(());
        }
        let missing: Vec<_> = expected.event.difference(&stored.event).take(2).collect();
        let more: Vec<_> = stored.event.difference(&expected.event).take(2).collect();
        Err(format!("timers: stored timers lack {missing:?} and have {more:?} too much"))
    }

    /// Returns a committed epoch.
    ///
    /// # Errors
    ///
    /// Why there is no such one.
    pub fn find(&self, epoch: u64, hash: u64) -> Result<&CommittedEpoch, String> {
        let committed = usize::try_from(epoch).ok().and_then(|at| self.epochs.get(at));
        let Some(committed) = committed else {
            return Err(format!("epoch {epoch}, which is not committed"));
        };
        match committed.hash == hash {
            true => Ok(committed),
            false => Err(format!("another epoch {epoch} than the committed")),
        }
    }

    /// Returns the rows that expire, by hash, and up to which watermark they live.
    fn expiring(&self, rows: &Rows) -> Vec<(u64, i64)> {
        let ends =
            rows.rows.iter().filter(|_| !self.expiry.is_empty()).filter_map(|(row, value)| {
                let expiry = self.expiry.get(row::state_of(row)?)?;
                let stamp =
                    row::parse_value(value)?.stamp.filter(|stamp| *stamp != NO_WATERMARK)?;
                Some((row_hash(row, value), stamp.checked_add(expiry.after)?))
            });
        ends.collect()
    }

    /// Returns whether rows are the state behind a committed epoch; what has expired by now, which
    /// is by a committed watermark, may be gone.
    #[must_use]
    pub fn is_state(&self, epoch: &CommittedEpoch, rows: &Rows) -> bool {
        if epoch.state_hash == rows.hash {
            return true;
        }
        let now = self.last().map_or(NO_WATERMARK, |last| last.watermark);
        let living = |hash: u64, expiring: &[(u64, i64)]| {
            let gone = expiring.iter().filter(|(_, end)| *end <= now);
            gone.fold(hash, |left, (hash, _)| left.wrapping_sub(*hash))
        };
        living(epoch.state_hash, &epoch.expiring) == living(rows.hash, &self.expiring(rows))
    }

    /// Checks a store that has applied an epoch.
    ///
    /// # Errors
    ///
    /// Which rule it breaks.
    pub fn applied(&self, epoch: u64, hash: u64, rows: &Rows) -> Result<(), String> {
        let found = self.find(epoch, hash);
        let committed = found.map_err(|why| format!("I3: a store applies {why}"))?;
        if !self.is_state(committed, rows) {
            return Err(format!("I4: a store differs from the committed changes at epoch {epoch}"));
        }
        Ok(())
    }
}

/// Returns the number in a simulated revision's digest.
///
/// # Errors
///
/// When it is another revision's.
pub fn revision_number(digest: &str) -> Result<u32, String> {
    let number = digest.strip_prefix(REVISION).and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("a revision `{digest}` that nobody made"))
}

fn decode(lane: u16, chunks: &[Bytes]) -> Result<JournaledEpoch, String> {
    let mut assembler = Assembler::default();
    let mut found = None;
    for chunk in chunks {
        if let Some(bytes) = assembler.add(chunk).map_err(|error| error.to_string())? {
            found = Some(codec::decode(&bytes).map_err(|error| error.to_string())?);
        }
    }
    let epoch: JournaledEpoch =
        found.ok_or_else(|| "I6: a transaction is committed without an epoch record".to_owned())?;
    if epoch.record.lane != LaneId(lane) {
        return Err(format!("I6: a record of lane {}", epoch.record.lane.0));
    }
    Ok(epoch)
}

fn check_offsets(epoch: &JournaledEpoch, offsets: &[OffsetEntry]) -> Result<(), String> {
    let number = epoch.record.epoch.0;
    let keyed = epoch.record.sources.iter().filter(|source| source.source.input.0 != RULES);
    if offsets.len() != keyed.clone().count() {
        return Err(format!("I5: epoch {number} is committed without its offsets"));
    }
    for (source, (place, position, text)) in keyed.zip(offsets) {
        let metadata: CommitMetadata =
            text.parse().map_err(|error: ForeignMetadata| error.to_string())?;
        let is_ours = metadata.epoch == epoch.record.epoch
            && metadata.attempt == epoch.record.attempt
            && metadata.hash == epoch.hash;
        let is_place = *place == (source.source.input.0, source.source.partition.0);
        if !is_ours || !is_place || *position != source.position {
            return Err(format!(
                "I5: epoch {number} ends {place:?} at {}, and commits offset {position}",
                source.position
            ));
        }
    }
    Ok(())
}

fn check_outputs(expected: &[Out], contents: &Contents) -> Result<(), String> {
    let mut wanted: BTreeMap<Place, Vec<(Bytes, Bytes)>> = BTreeMap::new();
    for out in expected {
        let place = place_of(out.output, &out.key);
        wanted.entry(place).or_default().push((out.key.clone(), out.value.clone()));
    }
    let mut found: BTreeMap<Place, Vec<(Bytes, Bytes)>> = BTreeMap::new();
    for (place, record) in &contents.outputs {
        let key = record.key.clone().unwrap_or_default();
        found.entry(*place).or_default().push((key, record.value.clone().unwrap_or_default()));
    }
    if wanted == found {
        return Ok(());
    }
    for (place, wanted) in &wanted {
        let found = found.get(place).map_or(&[][..], Vec::as_slice);
        if wanted != found {
            return Err(format!("I2: {place:?} should get {wanted:?} and gets {found:?}"));
        }
    }
    Err(format!("I2: nothing should be emitted, and {found:?} is"))
}

/// Compares what a read-committed reader sees of all outputs with what was committed.
///
/// # Errors
///
/// What it sees too much or too little.
pub fn check_topics(histories: &[LaneHistory], kafka: &mut Kafka) -> Result<(), String> {
    let mut expected: Vec<(Place, Bytes, Bytes)> = histories
        .iter()
        .flat_map(|history| &history.outputs)
        .map(|out| (place_of(out.output, &out.key), out.key.clone(), out.value.clone()))
        .collect();
    let mut seen = Vec::new();
    for (place, log) in &kafka.logs {
        if !matches!(place, Place::Output(..)) {
            continue;
        }
        let (records, _) = log.read(0, log.stable_end(), usize::MAX, true);
        for record in records {
            let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
            seen.push((*place, key, value));
        }
    }
    // Order within a lane's partition was checked epoch by epoch.
    expected.sort();
    seen.sort();
    match expected == seen {
        true => Ok(()),
        false => Err(format!(
            "I2: a reader sees {} records, {} were committed",
            seen.len(),
            expected.len()
        )),
    }
}
