//! The log port: inputs, outputs and journal of one lane.
//!
//! Invariant: what [`Log::commit`] was given becomes visible as a whole or not at all, and exactly
//! one attempt at a time can commit: [`Log::acquire`] ends every earlier one.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use bytes::Bytes;

use crate::{
    epoch::metadata::CommitMetadata,
    output::OutputBuffer,
    record::{Record, SourceIndex},
};

pub mod gap;
pub mod memory;

/// What a fetch brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// Records of one source, in order, following what was fetched before.
    Records {
        /// The source.
        source: SourceIndex,
        /// The records.
        records: Vec<Record>,
    },
    /// The source has nothing after what was fetched; `position` is the next offset, which may lie
    /// behind the last record (control markers).
    AtEnd {
        /// The source.
        source: SourceIndex,
        /// The next offset.
        position: i64,
    },
    /// The source's end is not known: an outage.
    Unknown {
        /// The source.
        source: SourceIndex,
    },
    /// What came next is not there any more, and the source's options allow to go on without it:
    /// the first thing to be heard of the source after [`Log::resume`].
    Gap {
        /// The source.
        source: SourceIndex,
        /// Where it goes on; before the old position where the topic is another one than it was.
        position: i64,
        /// How many offsets were jumped over.
        lost: u64,
    },
    /// A bounded source has nothing left and never will.
    Ended {
        /// The source.
        source: SourceIndex,
    },
}

/// What the log says was committed for one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub position: i64,
    /// The metadata string beside it.
    pub metadata: String,
}

/// What one epoch commits.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// Outputs and dead letters, in order.
    pub outputs: &'a OutputBuffer,
    /// The chunks of the epoch record.
    pub chunks: &'a [Vec<u8>],
    /// The next offset of every source of the lane, in lane order. Those of broadcast inputs are in
    /// the epoch record alone: they say where the lane stands, and the log keeps them nowhere else.
    pub positions: &'a [i64],
    /// The metadata; the log fills in the journal offset.
    pub metadata: CommitMetadata,
}

/// Why the log could not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Another attempt has taken over, or the broker ended our transaction: our producer's epoch
    /// is old.
    #[error("this lane's producer was fenced: {0}")]
    Fenced(String),
    /// The outcome is unknown or the log cannot be reached; recovery finds out.
    #[error("the log did not answer as expected: {0}")]
    Doubt(String),
    /// The log refuses this for a reason that trying again does not change.
    #[error("{topic}[{partition}] refuses what was written: {message}")]
    Refused {
        /// The topic.
        topic: String,
        /// The partition; −1 where it is not known.
        partition: i32,
        /// The log's reason.
        message: String,
    },
    /// Records between the committed position and what is left are gone.
    #[error("{topic}[{partition}]: {message}")]
    Gap {
        /// The topic.
        topic: String,
        /// The partition.
        partition: u16,
        /// Which offsets, and the ways out.
        message: String,
    },
    /// The machine that the log runs on fails, and may go on to: worth a second try, not a tenth.
    #[error("the log cannot go on: {0}")]
    Failed(String),
    /// Durable data contradicts itself.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// The operator must change something.
    #[error("{0}")]
    Config(String),
}

/// What a client of the log says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStatistics {
    /// Which of the lane's clients: `consumer` or `producer`.
    pub client: &'static str,
    /// Records that wait in it.
    pub queued_records: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Requests that are sent or to be sent.
    pub requests_in_flight: u64,
    /// Requests that were not answered in time, since it was made.
    pub request_timeouts: u64,
    /// Connections that were tried, since it was made.
    pub connects: u64,
    /// The mean round trip to the slowest broker, µs; `None` where none was measured.
    pub round_trip_us: Option<i64>,
}

/// What a log knows of itself without asking anybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogStatistics {
    /// The offset behind the last record of each source, in lane order, as it was last heard;
    /// shorter, or `None`, where it was not.
    pub ends: Vec<Option<i64>>,
    /// The clients.
    pub clients: Vec<ClientStatistics>,
}

/// Wakes a lane that waits in [`Log::wait`]; may be called from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Removes journal records before an offset; may be called from any thread.
pub type Trimmer = Arc<dyn Fn(i64) -> Result<(), LogError> + Send + Sync>;

/// The log port of one lane. Sources are numbered in lane order: those of keyed inputs by input, then
/// partition, and behind them those of broadcast inputs alike.
pub trait Log: Send {
    /// Becomes the lane's only writer. Drops every client that was in use and makes new ones.
    /// From here on no earlier attempt can commit, and what it left open is ended.
    ///
    /// # Errors
    ///
    /// When the log does not answer within its time, or refuses for good.
    fn acquire(&mut self) -> Result<(), LogError>;

    /// Returns what is committed for each source of the keyed inputs; `None` = never. Stable: what an open transaction
    /// has not decided yet is waited for. Without [`Log::acquire`] before it fences nobody, and an
    /// owner may commit more at once.
    ///
    /// # Errors
    ///
    /// When any source's answer is an error.
    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError>;

    /// Visits committed journal records from an offset on, in order, up to the end known at the
    /// start of the call; returns that end: the offset that the next one will get or follow.
    /// An offset before the first kept one starts there.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read to its end.
    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError>;

    /// Returns where each source starts when the pipeline has never run, by its `start` option.
    ///
    /// # Errors
    ///
    /// When the log does not answer.
    fn start_positions(&mut self) -> Result<Vec<i64>, LogError>;

    /// Goes on reading at these positions, one per source. All fetched before is void.
    ///
    /// # Errors
    ///
    /// [`LogError::Gap`] when a position is no longer there and the source's options do not allow to
    /// go on without it ([`Fetched::Gap`]).
    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError>;

    /// Hands over what has arrived for the wanted sources, without waiting.
    ///
    /// # Errors
    ///
    /// When a source fails for good; passing outages are [`Fetched::Unknown`].
    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError>;

    /// Waits until something may have arrived, the waker was called or the time is over.
    fn wait(&mut self, at_most: Duration);

    /// Returns a way to end [`Log::wait`] early.
    fn waker(&self) -> Waker;

    /// Returns a way to trim the lane's journal; `None` where it is never trimmed.
    fn trimmer(&self) -> Option<Trimmer> {
        None
    }

    /// Hands over a flag that is raised when the lane is to stop. While it is raised, whatever
    /// belongs to acquiring a lane gives up soon, with [`LogError::Doubt`], instead of waiting for
    /// what does not answer; [`Log::commit`] goes on. A log that never waits needs no flag.
    fn heed(&mut self, _stopping: &Arc<AtomicBool>) {}

    /// Returns what the log knows of itself. Cheap; for metrics, and for nothing that decides. The
    /// default is for logs that have nothing to tell.
    fn statistics(&self) -> LogStatistics {
        LogStatistics::default()
    }

    /// Commits an epoch; returns the journal offset behind its record.
    ///
    /// # Errors
    ///
    /// Anything but `Ok` leaves the outcome open: acquire again and look.
    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError>;
}
