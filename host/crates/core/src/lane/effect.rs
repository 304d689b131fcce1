//! Everything a lane may ask for.

use crate::{
    context::{LogLine, MetricUpdate},
    copartition::KeySample,
    dead_letter::Reason,
    epoch::Epoch,
    record::{InputIndex, Partition},
    state::StoreError,
};

/// Effects of a step, in order.
pub type Effects = Vec<Effect>;

/// Everything a lane may ask of log and operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Commit the closed epoch ([`super::Lane::transaction`]) and say so with
    /// [`super::Event::Committed`]; in any doubt drop the lane and recover.
    Commit,
    /// An epoch is committed and applied: publish what it counted.
    Applied(Box<EpochReport>),
    /// The pipeline must stop.
    Stop(StopCause),
}

/// Why a lane stops the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum StopCause {
    /// Too many of the last records became dead letters.
    DeadLetterFlood {
        /// Dead letters in the last 10 s.
        dead_letters: u64,
        /// Records in the last 10 s.
        records: u64,
        /// The percentage allowed.
        percent_max: u32,
        /// The most frequent reason among them.
        reason: Reason,
        /// The last message with that reason.
        message: String,
    },
    /// Keyed state failed: reopen it and replay the journal.
    Store(StoreError),
}

/// Something an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The same key was seen under two partition numbers.
    Copartition {
        /// The input of the later record.
        input: InputIndex,
        /// The key, as text.
        key: String,
        /// Where the key was seen first.
        first: Partition,
        /// Where it was seen now.
        second: Partition,
    },
    /// Nothing has matched in many records of each input.
    NothingMatched {
        /// Sample keys, per input.
        samples: Vec<Vec<String>>,
    },
}

/// Counts of one input in one epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Records taken.
    pub records: u64,
    /// Bytes of keys, values and headers.
    pub bytes: u64,
    /// Records that were late.
    pub late: u64,
    /// Records with a null key that were dropped.
    pub dropped_null_key: u64,
    /// Late records that were dropped.
    pub dropped_late: u64,
    /// Records too far in the future to move time.
    pub skew_ignored: u64,
    /// Offsets that were jumped over because the records there were gone.
    pub lost: u64,
    /// Dead letters by reason.
    pub dead_letters: Vec<(Reason, u64)>,
}

/// What an epoch did, published when it is committed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpochReport {
    /// The epoch.
    pub epoch: Option<Epoch>,
    /// Counts per input.
    pub inputs: Vec<InputCounts>,
    /// Records emitted, per output of the plugin.
    pub outputs: Vec<u64>,
    /// Bytes of their keys, values and headers.
    pub output_bytes: Vec<u64>,
    /// Dead letters of timers, by reason.
    pub timer_dead_letters: Vec<(Reason, u64)>,
    /// The last message of each reason among the dead letters.
    pub dead_letter_messages: Vec<(Reason, String)>,
    /// Timers fired.
    pub timers_fired: u64,
    /// Plugin calls, continuations and retries included.
    pub calls: u64,
    /// Calls that failed, by reason, before any retry.
    pub failures: Vec<(Reason, u64)>,
    /// What the plugin logged.
    pub log_lines: Vec<LogLine>,
    /// Log lines dropped because there were too many.
    pub log_lines_dropped: u64,
    /// What the plugin measured.
    pub metrics: Vec<MetricUpdate>,
    /// Bytes of the epoch record.
    pub journal_bytes: u64,
    /// Sampled keys, for [`crate::copartition::CopartitionWatch`].
    pub key_samples: Vec<KeySample>,
}
