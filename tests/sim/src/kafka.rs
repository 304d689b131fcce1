//! A model of Kafka's brokers: partition logs, transaction coordinator, group coordinator.
//!
//! Knows requests and answers, not clients or networks: a request is executed at the moment it
//! arrives, whoever still waits for it. What it models and why is in the reference on exactly-once
//! delivery: markers written after the answer to the commit, offsets pending until their marker,
//! fencing by producer epoch, coordinators and leaders that are away for a while.
//!
//! Invariant: what a read-committed reader sees of a transaction is all or nothing once its
//! markers are written, and a transaction that is prepared is never decided differently.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dovetail_core::{log::CommittedOffset, record::Record};

use crate::{
    faults::Knobs,
    history::OUTPUT_PARTITIONS,
    job::{Call, DEAD_LETTERS},
    workload,
};

/// One partition of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Input and partition.
    Input(u16, u16),
    /// Output (the dead letters come after the plugin's) and partition.
    Output(u16, u16),
    /// The journal of a lane.
    Journal(u16),
    /// The partition that holds the committed offsets of the lanes' group.
    Offsets,
}

#[derive(Debug, Clone)]
struct Entry {
    /// `None` for a control marker.
    record: Option<Record>,
    is_aborted: bool,
}

/// The log of one partition.
#[derive(Debug, Clone, Default)]
pub struct PartitionLog {
    entries: Vec<Entry>,
    /// The first offset that is kept.
    pub start: i64,
    /// Open transactions: producer to first offset, and the offsets it has written.
    open: BTreeMap<u64, Vec<i64>>,
    /// Without a leader until then.
    pub up_at: i64,
    /// The last sequence number of each producer epoch, against doubled requests.
    sequences: BTreeMap<(u64, u32), (u64, i64)>,
}

impl PartitionLog {
    /// Returns the offset behind the last entry.
    #[must_use]
    pub fn end(&self) -> i64 {
        i64::try_from(self.entries.len()).unwrap_or(i64::MAX)
    }

    /// Returns the last stable offset.
    #[must_use]
    pub fn stable_end(&self) -> i64 {
        let open = self.open.values().filter_map(|offsets| offsets.first());
        open.copied().min().unwrap_or_else(|| self.end())
    }

    /// Appends records, of a transaction or of none; returns the first's offset.
    pub fn append(&mut self, producer: Option<u64>, records: Vec<Record>) -> i64 {
        let first = self.end();
        for mut record in records {
            let offset = self.end();
            record.offset = offset;
            if let Some(producer) = producer {
                self.open.entry(producer).or_default().push(offset);
            }
            self.entries.push(Entry { record: Some(record), is_aborted: false });
        }
        first
    }

    /// Writes a transaction's marker.
    pub fn mark(&mut self, producer: u64, is_commit: bool) {
        for offset in self.open.remove(&producer).unwrap_or_default() {
            if !is_commit
                && let Some(entry) =
                    usize::try_from(offset).ok().and_then(|at| self.entries.get_mut(at))
            {
                entry.is_aborted = true;
            }
        }
        self.entries.push(Entry { record: None, is_aborted: false });
    }

    /// Returns the records with offsets in `from..to`, at most `max`, and where to read on.
    /// A read-committed reader passes a `to` not beyond [`Self::stable_end`].
    #[must_use]
    pub fn read(&self, from: i64, to: i64, max: usize, is_committed: bool) -> (Vec<Record>, i64) {
        let mut records = Vec::new();
        let mut at = from.max(self.start);
        while at < to.min(self.end()) && records.len() < max {
            let entry = usize::try_from(at).ok().and_then(|at| self.entries.get(at));
            if let Some(Entry { record: Some(record), is_aborted }) = entry
                && !(is_committed && *is_aborted)
            {
                records.push(record.clone());
            }
            at += 1;
        }
        (records, at)
    }

    /// Loses what stands at an offset.
    pub fn punch(&mut self, at: i64) {
        if let Some(entry) = usize::try_from(at).ok().and_then(|at| self.entries.get_mut(at)) {
            entry.record = None;
        }
    }

    /// Forgets everything from an offset on: an unclean leader election.
    pub fn truncate(&mut self, to: i64) {
        self.entries.truncate(usize::try_from(to).unwrap_or(0));
        self.open.clear();
    }
}

/// What a commit of offsets says of one partition: input, partition, position, metadata.
pub type OffsetEntry = ((u16, u16), i64, String);

/// The offsets of the group.
#[derive(Debug, Default)]
pub struct Group {
    /// What is committed.
    pub committed: BTreeMap<(u16, u16), (i64, String)>,
    pending: BTreeMap<u64, Vec<OffsetEntry>>,
    /// Committed, but not in the coordinator's cache until it loads again (the broker's
    /// KAFKA-17507).
    unseen: Vec<OffsetEntry>,
    /// The next marker meets that defect.
    pub goes_stale: bool,
}

impl Group {
    fn mark(&mut self, producer: u64, is_commit: bool) {
        let Some(offsets) = self.pending.remove(&producer) else { return };
        if !is_commit {
            return;
        }
        if std::mem::take(&mut self.goes_stale) && self.unseen.is_empty() {
            self.unseen.extend(offsets);
            return;
        }
        self.unseen.retain(|(source, ..)| offsets.iter().all(|(other, ..)| other != source));
        self.committed.extend(offsets.into_iter().map(|(source, at, text)| (source, (at, text))));
    }

    /// The coordinator loads its partition again.
    pub fn reload(&mut self) {
        let unseen = std::mem::take(&mut self.unseen);
        self.committed.extend(unseen.into_iter().map(|(source, at, text)| (source, (at, text))));
    }

    /// Forgets everything that is committed.
    pub fn forget(&mut self) {
        self.unseen.clear();
        self.committed.clear();
    }
}

/// Where a transactional id stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// Nothing is open.
    Idle,
    /// Partitions were added.
    Ongoing,
    /// Decided; markers are being written.
    Prepared {
        /// Which way.
        is_commit: bool,
    },
}

/// What a transaction holds: what the brokers took of it, and the calls behind it.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Records per output, in order.
    pub outputs: Vec<(Place, Record)>,
    /// Chunks of the epoch record.
    pub chunks: Vec<Bytes>,
    /// The offsets.
    pub offsets: Vec<OffsetEntry>,
    /// The calls of the plugin that led to it: the simulator's own knowledge, no broker's.
    pub calls: Vec<Call>,
}

/// One transactional id.
#[derive(Debug)]
pub struct Transactional {
    /// The producer epoch that may write.
    pub epoch: u32,
    /// Where it stands.
    pub state: TransactionState,
    /// When the open transaction began.
    pub began_at: i64,
    partitions: BTreeSet<Place>,
    /// Markers not yet written.
    unmarked: BTreeSet<Place>,
    contents: Contents,
}

/// A request.
#[derive(Debug, Clone)]
pub enum Request {
    /// `InitProducerId`.
    Init {
        /// Whose.
        lane: u16,
    },
    /// `AddPartitionsToTxn`, `AddOffsetsToTxn`.
    Add {
        /// Whose.
        lane: u16,
        /// The producer's epoch.
        epoch: u32,
        /// What is added.
        places: Vec<Place>,
    },
    /// `Produce`.
    Produce {
        /// Whose.
        lane: u16,
        /// The producer's epoch.
        epoch: u32,
        /// Where to.
        place: Place,
        /// The records.
        records: Vec<Record>,
        /// Grows with every request of a producer.
        sequence: u64,
        /// With the journal record.
        calls: Vec<Call>,
    },
    /// `TxnOffsetCommit`.
    Offsets {
        /// Whose.
        lane: u16,
        /// The producer's epoch.
        epoch: u32,
        /// The offsets.
        offsets: Vec<OffsetEntry>,
    },
    /// `EndTxn`.
    End {
        /// Whose.
        lane: u16,
        /// The producer's epoch.
        epoch: u32,
        /// Commit or abort.
        is_commit: bool,
    },
    /// `OffsetFetch`.
    FetchOffsets {
        /// Which.
        sources: Vec<(u16, u16)>,
        /// Whether pending offsets are an error.
        is_stable: bool,
    },
    /// `ListOffsets`: start and end.
    Bounds {
        /// Of what.
        place: Place,
        /// The last stable offset instead of the end.
        is_committed: bool,
    },
    /// `Fetch`.
    Fetch {
        /// Of what.
        place: Place,
        /// From this offset.
        from: i64,
        /// To before this one.
        to: i64,
        /// Records at most.
        max: usize,
        /// Without aborted ones.
        is_committed: bool,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Done.
    Done,
    /// The producer's epoch.
    Epoch(u32),
    /// The first offset of what was produced.
    Produced(i64),
    /// Committed offsets.
    Committed(Vec<Option<CommittedOffset>>),
    /// First offset and end.
    Bounds(i64, i64),
    /// Records, and where to read on.
    Records(Vec<Record>, i64),
    /// The previous transaction is not complete: ask again.
    Concurrent,
    /// An offset is pending: ask again.
    Unstable,
    /// No leader, no coordinator: ask again.
    Away,
    /// The producer's epoch is old.
    Fenced,
    /// Not in this state of the transaction.
    Invalid,
}

/// What the world has to do after a request.
#[derive(Debug)]
pub enum Follow {
    /// Write the markers of a lane's transaction, each at its own time.
    Markers(u16, Vec<Place>),
    /// A transaction began: it times out.
    Began(u16, u32),
    /// A transaction is decided to be committed.
    Committed(u16, Box<Contents>),
}

/// The brokers.
#[derive(Debug, Default)]
pub struct Kafka {
    /// Partition logs.
    pub logs: BTreeMap<Place, PartitionLog>,
    /// The group.
    pub group: Group,
    transactional: BTreeMap<u16, Transactional>,
    /// The coordinators are away until then.
    pub coordinator_up_at: i64,
}

/// The producer id of a lane's transactional id.
#[must_use]
pub fn producer_of(lane: u16) -> u64 {
    1_000 + u64::from(lane)
}

impl Answer {
    /// Returns a short name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Committed(offsets) => {
                let known = offsets.iter().flatten().map(|offset| offset.position);
                format!("committed {:?}", known.collect::<Vec<_>>())
            }
            Self::Records(records, next) => format!("{} records, then {next}", records.len()),
            other => format!("{other:?}"),
        }
    }
}

impl Kafka {
    /// Makes the topics.
    pub fn prepare_places(&mut self, knobs: &Knobs) {
        for (input, partition) in workload::sources(knobs) {
            self.log(Place::Input(input, partition));
        }
        for lane in 0..knobs.lanes {
            self.log(Place::Journal(lane));
        }
        for output in 0..=DEAD_LETTERS {
            for partition in 0..OUTPUT_PARTITIONS {
                self.log(Place::Output(output, partition));
            }
        }
    }

    /// Returns a partition's log.
    pub fn log(&mut self, place: Place) -> &mut PartitionLog {
        self.logs.entry(place).or_default()
    }

    /// Returns the producer epoch of a lane, for a client that does not fence.
    #[must_use]
    pub fn epoch_of(&self, lane: u16) -> Option<u32> {
        self.transactional.get(&lane).map(|transactional| transactional.epoch)
    }

    /// Executes a request that arrives now.
    pub fn execute(&mut self, now: i64, request: Request, follow: &mut Vec<Follow>) -> Answer {
        match request {
            Request::Produce { place, .. }
            | Request::Bounds { place, .. }
            | Request::Fetch { place, .. }
                if self.log(place).up_at > now =>
            {
                Answer::Away
            }
            Request::Produce { lane, epoch, place, records, sequence, calls } => {
                self.produce((lane, epoch, sequence), place, records, calls)
            }
            Request::Bounds { place, is_committed } => {
                let log = self.log(place);
                let end = if is_committed { log.stable_end() } else { log.end() };
                Answer::Bounds(log.start, end)
            }
            Request::Fetch { place, from, to, max, is_committed } => {
                let (records, next) = self.log(place).read(from, to, max, is_committed);
                Answer::Records(records, next)
            }
            Request::Init { .. }
            | Request::Add { .. }
            | Request::Offsets { .. }
            | Request::End { .. }
            | Request::FetchOffsets { .. }
                if self.coordinator_up_at > now =>
            {
                Answer::Away
            }
            Request::Init { lane } => self.init(lane, follow),
            Request::Add { lane, epoch, places } => self.add(now, lane, epoch, places, follow),
            Request::Offsets { lane, epoch, offsets } => self.offsets(lane, epoch, offsets),
            Request::End { lane, epoch, is_commit } => self.end(lane, epoch, is_commit, follow),
            Request::FetchOffsets { sources, is_stable } => self.fetch_offsets(&sources, is_stable),
        }
    }

    /// Returns whether no transaction is decided whose markers are not all written.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_prepared = |transactional: &Transactional| {
            matches!(transactional.state, TransactionState::Prepared { .. })
        };
        !self.transactional.values().any(is_prepared)
    }

    /// Returns whether no transaction is open or being ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.transactional.values().all(|one| one.state == TransactionState::Idle)
    }

    fn transactional(&mut self, lane: u16) -> &mut Transactional {
        self.transactional.entry(lane).or_insert_with(|| Transactional {
            epoch: 0,
            state: TransactionState::Idle,
            began_at: 0,
            partitions: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            contents: Contents::default(),
        })
    }

    fn init(&mut self, lane: u16, follow: &mut Vec<Follow>) -> Answer {
        let transactional = self.transactional(lane);
        match transactional.state {
            TransactionState::Idle => {
                transactional.epoch += 1;
                Answer::Epoch(transactional.epoch)
            }
            TransactionState::Ongoing => {
                transactional.epoch += 1;
                self.prepare(lane, false, follow);
                Answer::Concurrent
            }
            TransactionState::Prepared { .. } => Answer::Concurrent,
        }
    }

    fn add(
        &mut self,
        now: i64,
        lane: u16,
        epoch: u32,
        places: Vec<Place>,
        follow: &mut Vec<Follow>,
    ) -> Answer {
        let transactional = self.transactional(lane);
        if transactional.epoch != epoch {
            return Answer::Fenced;
        }
        match transactional.state {
            TransactionState::Prepared { .. } => return Answer::Concurrent,
            TransactionState::Ongoing => {}
            TransactionState::Idle => {
                transactional.state = TransactionState::Ongoing;
                transactional.began_at = now;
                transactional.contents = Contents::default();
                follow.push(Follow::Began(lane, epoch));
            }
        }
        transactional.partitions.extend(places);
        Answer::Done
    }

    /// A leader asks the coordinator whether the transaction is open before it takes its data.
    fn verify(&mut self, lane: u16, epoch: u32, place: Place) -> Option<Answer> {
        let transactional = self.transactional(lane);
        if transactional.epoch != epoch {
            return Some(Answer::Fenced);
        }
        let is_open = transactional.state == TransactionState::Ongoing
            && transactional.partitions.contains(&place);
        (!is_open).then_some(Answer::Invalid)
    }

    fn produce(
        &mut self,
        (lane, epoch, sequence): (u16, u32, u64),
        place: Place,
        records: Vec<Record>,
        calls: Vec<Call>,
    ) -> Answer {
        let producer = producer_of(lane);
        if let Some((last, first)) = self.log(place).sequences.get(&(producer, epoch)).copied()
            && sequence <= last
        {
            return Answer::Produced(first);
        }
        if let Some(refused) = self.verify(lane, epoch, place) {
            return refused;
        }
        let contents = &mut self.transactional(lane).contents;
        match place {
            Place::Journal(_) => {
                contents.chunks.extend(records.iter().filter_map(|record| record.value.clone()));
                contents.calls = calls;
            }
            Place::Input(..) | Place::Output(..) | Place::Offsets => {
                contents.outputs.extend(records.iter().map(|record| (place, record.clone())));
            }
        }
        let log = self.log(place);
        let first = log.append(Some(producer), records);
        log.sequences.insert((producer, epoch), (sequence, first));
        Answer::Produced(first)
    }

    fn offsets(&mut self, lane: u16, epoch: u32, offsets: Vec<OffsetEntry>) -> Answer {
        if let Some(refused) = self.verify(lane, epoch, Place::Offsets) {
            return refused;
        }
        self.transactional(lane).contents.offsets.clone_from(&offsets);
        self.group.pending.insert(producer_of(lane), offsets);
        Answer::Done
    }

    fn end(&mut self, lane: u16, epoch: u32, is_commit: bool, follow: &mut Vec<Follow>) -> Answer {
        let transactional = self.transactional(lane);
        if transactional.epoch != epoch {
            return Answer::Fenced;
        }
        match transactional.state {
            TransactionState::Ongoing => {
                self.prepare(lane, is_commit, follow);
                Answer::Done
            }
            // A repeated request; without KIP-890 nobody can tell it from the next one's.
            TransactionState::Idle => Answer::Done,
            TransactionState::Prepared { is_commit: decided } if decided == is_commit => {
                Answer::Done
            }
            TransactionState::Prepared { .. } => Answer::Invalid,
        }
    }

    fn prepare(&mut self, lane: u16, is_commit: bool, follow: &mut Vec<Follow>) {
        let transactional = self.transactional(lane);
        transactional.state = TransactionState::Prepared { is_commit };
        transactional.unmarked = std::mem::take(&mut transactional.partitions);
        let contents = std::mem::take(&mut transactional.contents);
        let places = transactional.unmarked.iter().copied().collect();
        if is_commit {
            follow.push(Follow::Committed(lane, Box::new(contents)));
        }
        follow.push(Follow::Markers(lane, places));
    }

    /// Writes one marker; returns false when the partition or coordinator is away.
    pub fn mark(&mut self, now: i64, lane: u16, place: Place) -> bool {
        if self.coordinator_up_at > now || self.log(place).up_at > now {
            return false;
        }
        let transactional = self.transactional(lane);
        let TransactionState::Prepared { is_commit } = transactional.state else { return true };
        if !transactional.unmarked.remove(&place) {
            return true;
        }
        if transactional.unmarked.is_empty() {
            transactional.state = TransactionState::Idle;
        }
        match place {
            Place::Offsets => self.group.mark(producer_of(lane), is_commit),
            Place::Input(..) | Place::Output(..) | Place::Journal(_) => {
                self.log(place).mark(producer_of(lane), is_commit);
            }
        }
        true
    }

    /// Ends a transaction that is open for too long; returns whether there was one.
    pub fn time_out(
        &mut self,
        lane: u16,
        epoch: u32,
        timeout: i64,
        now: i64,
        follow: &mut Vec<Follow>,
    ) -> bool {
        let transactional = self.transactional(lane);
        let is_due = transactional.state == TransactionState::Ongoing
            && transactional.epoch == epoch
            && now - transactional.began_at >= timeout;
        if is_due {
            transactional.epoch += 1;
            self.prepare(lane, false, follow);
        }
        is_due
    }

    fn fetch_offsets(&self, sources: &[(u16, u16)], is_stable: bool) -> Answer {
        let is_pending =
            |source| self.group.pending.values().flatten().any(|(pending, ..)| pending == source);
        if is_stable && sources.iter().any(is_pending) {
            return Answer::Unstable;
        }
        let committed = |source| {
            let (position, metadata) = self.group.committed.get(source)?.clone();
            Some(CommittedOffset { position, metadata })
        };
        Answer::Committed(sources.iter().map(committed).collect())
    }
}
