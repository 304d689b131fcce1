//! Requests and answers, as far as a lane's clients use them.

use dovetail_core::{log::CommittedOffset, record::Record};

use super::{OffsetEntry, Place};
use crate::job::Call;

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
    /// `DeleteRecords` of a journal.
    Trim {
        /// Whose.
        lane: u16,
        /// Before this offset.
        before: i64,
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
