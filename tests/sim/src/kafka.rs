//! A model of Kafka's brokers: partition logs, transaction coordinator, group coordinator.
//!
//! Knows requests and answers, not clients or networks: a request is executed at the moment it
//! arrives, whoever still waits for it. What it models and why is in the reference on exactly-once
//! delivery: markers written after the answer to the commit, offsets pending until their marker,
//! fencing by producer epoch, coordinators and leaders that are away for a while.
//!
//! Invariant: what a read-committed reader sees of a transaction is all or nothing once its
//! markers are written, and a transaction that is prepared is never decided differently.

mod group;
mod partition;
mod protocol;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dovetail_core::{log::CommittedOffset, record::Record};

pub use self::{
    group::{Group, OffsetEntry},
    partition::PartitionLog,
    protocol::{Answer, Request},
};
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
    /// The journal offset behind them.
    pub journal_next: i64,
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
    used_at: i64,
    partitions: BTreeSet<Place>,
    /// Markers not yet written.
    unmarked: BTreeSet<Place>,
    contents: Contents,
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
    /// A lane's journal was trimmed up to an offset.
    Trimmed(u16, i64),
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
    /// How long offsets and transactional ids that nobody uses are kept, ms; `None` = for ever.
    pub retention: Option<i64>,
    /// Transactional ids that a producer had in use when they expired.
    pub expired_ids: u64,
}

/// The producer id of a lane's transactional id.
#[must_use]
pub fn producer_of(lane: u16) -> u64 {
    1_000 + u64::from(lane)
}

impl Kafka {
    /// Makes the topics.
    pub fn prepare_places(&mut self, knobs: &Knobs) {
        self.retention = knobs.retention;
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

    /// Returns whether a producer's transaction is open.
    #[must_use]
    pub fn is_open(&self, lane: u16, epoch: u32) -> bool {
        let is_its =
            |one: &Transactional| one.epoch == epoch && one.state == TransactionState::Ongoing;
        self.transactional.get(&lane).is_some_and(is_its)
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
            Request::Trim { lane, .. } if self.log(Place::Journal(lane)).up_at > now => {
                Answer::Away
            }
            Request::Trim { lane, before } => {
                self.log(Place::Journal(lane)).trim(before);
                follow.push(Follow::Trimmed(lane, before));
                Answer::Done
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
            Request::Init { lane } => self.init(now, lane, follow),
            Request::Add { lane, epoch, places } => self.add(now, lane, epoch, places, follow),
            Request::Offsets { lane, epoch, offsets } => self.offsets(lane, epoch, offsets),
            Request::End { lane, epoch, is_commit } => self.end(lane, epoch, is_commit, follow),
            Request::FetchOffsets { sources, is_stable } => {
                if let Some(retention) = self.retention {
                    self.group.expire(now - retention);
                }
                self.fetch_offsets(&sources, is_stable)
            }
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
            used_at: 0,
            partitions: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            contents: Contents::default(),
        })
    }

    fn init(&mut self, now: i64, lane: u16, follow: &mut Vec<Follow>) -> Answer {
        let transactional = self.transactional(lane);
        transactional.used_at = now;
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
        let retention = self.retention.unwrap_or(i64::MAX);
        let transactional = self.transactional(lane);
        if transactional.epoch != epoch {
            return Answer::Fenced;
        }
        // The id is forgotten, and with it the producer: the next one has another.
        if now - transactional.used_at > retention && transactional.state == TransactionState::Idle
        {
            transactional.epoch += 1;
            self.expired_ids += 1;
            return Answer::Fenced;
        }
        transactional.used_at = now;
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
        let next = log.end();
        if matches!(place, Place::Journal(_)) {
            self.transactional(lane).contents.journal_next = next;
        }
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
            Place::Offsets => self.group.mark(now, producer_of(lane), is_commit),
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
