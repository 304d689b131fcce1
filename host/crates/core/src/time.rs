//! Event time and processing time: both are signed milliseconds since 1970-01-01T00:00:00Z.
//!
//! They never mix: event time is in the data, processing time is the lane's clock.

/// Time in the data, in ms since the Unix epoch.
pub type EventTime = i64;

/// The lane's clock, in ms since the Unix epoch: max(committed, wall clock), constant in a step.
pub type ProcessingTime = i64;

/// The watermark before any record: nothing is late and no timer is due.
pub const NO_WATERMARK: EventTime = i64::MIN;

/// The watermark of a bounded input that has ended: every event-time timer is due.
pub const END_OF_TIME: EventTime = i64::MAX;
