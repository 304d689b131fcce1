//! Epochs: what one committed transaction of a lane says, and how records of it hang together.
//!
//! An epoch record carries everything a successor needs: where the inputs stand, the watermarks,
//! the changes of state and timers by value, and the hash of its predecessor. The journal of epoch
//! records is the redo log of keyed state; Kafka's commit is the only commit point.

pub mod chunk;
pub mod codec;
pub mod metadata;

use bytes::Bytes;

use crate::{
    identity::Identity,
    key::Key,
    record::{Partition, Source},
    state::{Clocks, RowChange},
    time::{EventTime, ProcessingTime},
    timers::TimerDomain,
};

/// A lane's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LaneId(pub u16);

/// The number of a lane's committed transaction; grows by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The first epoch: it carries the identity and the start positions.
    pub const GENESIS: Self = Self(0);

    /// Returns the epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Who wrote an epoch: drawn at random each time a lane is acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt(pub u128);

/// The process behind an attempt, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The host's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When the process started, ms since the Unix epoch.
    pub started_at: ProcessingTime,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// Where a source stands at the end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceState {
    /// The source.
    pub source: Source,
    /// The next offset to read.
    pub position: i64,
    /// Its watermark.
    pub watermark: EventTime,
    /// Whether it was idle.
    pub is_idle: bool,
    /// Whether it has ended.
    pub is_ended: bool,
}

/// A move of time that an epoch has cut: it goes on before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// The domain whose timers are firing.
    pub domain: TimerDomain,
    /// The time up to which they are due.
    pub up_to: i64,
}

/// A *continue* that an epoch has cut: it runs before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Whose call asked for it.
    pub key: Key,
    /// The partition of that key's records.
    pub partition: Partition,
    /// The plugin's mark.
    pub tag: u64,
    /// The event time of the call that asked for it.
    pub event_time: Option<EventTime>,
}

/// Row keys below which no live timer lies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimerFloors {
    /// Of event-time timers.
    pub event: Bytes,
    /// Of processing-time timers.
    pub processing: Bytes,
}

/// What an epoch says, without its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochRecord {
    /// The lane.
    pub lane: LaneId,
    /// The epoch.
    pub epoch: Epoch,
    /// Who wrote it.
    pub attempt: Attempt,
    /// The process that wrote it.
    pub owner: Owner,
    /// The hash of the record before; 0 for genesis.
    pub previous_hash: u64,
    /// The identity; in the genesis record only.
    pub identity: Option<Identity>,
    /// Where the sources stand, in lane order.
    pub sources: Vec<SourceState>,
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The lane's processing time.
    pub processing_time: ProcessingTime,
    /// A move of time that was cut.
    pub firing: Option<Firing>,
    /// A *continue* that was cut.
    pub continuation: Option<Continuation>,
    /// Where live timers begin.
    pub timer_floors: TimerFloors,
    /// The digest of the plugin revision that decided this epoch.
    pub revision: String,
    /// How many records it emitted, dead letters included.
    pub outputs: u64,
    /// How many timers fired.
    pub timers_fired: u64,
}

impl EpochRecord {
    /// Returns the clocks at the end of the epoch.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        Clocks { watermark: self.watermark, processing_time: self.processing_time }
    }
}

/// An epoch record as read from the journal: head, changes and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournaledEpoch {
    /// What it says.
    pub record: EpochRecord,
    /// The changed rows of state and timers.
    pub changes: Vec<RowChange>,
    /// The hash over all of its bytes.
    pub hash: u64,
}

/// What a store keeps of the last applied epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHead {
    /// What the epoch says.
    pub record: EpochRecord,
    /// Its hash.
    pub hash: u64,
    /// The journal offset behind it: where replay goes on.
    pub journal_next: i64,
}
