//! What a lane shows of itself: plain data, taken between steps.

use crate::{
    epoch::{Epoch, Firing},
    record::Source,
    time::{EventTime, ProcessingTime},
};

/// In which of three conditions a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceCondition {
    /// Its next record is fetched and decoded.
    Head,
    /// The end came after its last record.
    AtEnd,
    /// Neither is known.
    Unknown,
    /// It is bounded and has nothing left.
    Ended,
}

/// One source, as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// The source.
    pub source: Source,
    /// Its condition.
    pub condition: SourceCondition,
    /// The next offset to read.
    pub position: i64,
    /// Its watermark.
    pub watermark: EventTime,
    /// Whether it no longer holds the watermark back.
    pub is_idle: bool,
    /// Whether it is (one of those) that hold the lane's watermark.
    pub is_holder: bool,
    /// Since when it holds the watermark where it is, ms of processing time.
    pub held_since: Option<ProcessingTime>,
    /// Whether a record of it was ever seen by this process or its predecessors.
    pub has_records: bool,
}

/// A lane, as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStatus {
    /// The last committed epoch.
    pub epoch: Option<Epoch>,
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The lane's clock.
    pub processing_time: ProcessingTime,
    /// The sources in lane order.
    pub sources: Vec<SourceStatus>,
    /// A move of time that goes on.
    pub firing: Option<Firing>,
    /// An estimate of how many timers wait.
    pub timers_pending: u64,
    /// Whether every source that has not ended is idle.
    pub all_idle: bool,
    /// The digest of the plugin revision.
    pub revision: String,
}
