//! The record or timer that a call is about.

use crate::{
    context::Context,
    key::Key,
    record::{Headers, InputIndex, Partition, Record},
    time::{EventTime, ProcessingTime},
    timers::TimerDomain,
};

/// What a call handles.
#[derive(Debug, Clone)]
pub enum Subject {
    /// Nothing: between calls.
    None,
    /// A record.
    Record {
        /// The input it came from.
        input: InputIndex,
        /// The plugin's number for that input.
        role: u32,
        /// The record.
        record: Record,
        /// Its event time.
        time: Option<EventTime>,
        /// Whether it is late.
        is_late: bool,
        /// Whether every lane handles it.
        is_broadcast: bool,
    },
    /// A timer.
    Timer {
        /// The time it was registered for; for *continue*, the event time of the call that asked.
        time: Option<i64>,
        /// Its domain.
        domain: TimerDomain,
        /// The plugin's mark.
        tag: u64,
    },
}

/// The record or timer at hand, and whose it is.
#[derive(Debug, Clone)]
pub struct Current {
    /// What is handled.
    pub subject: Subject,
    /// The key; `None` for a record processed without one. That of a broadcast record reaches no
    /// keyed state.
    pub key: Option<Key>,
    /// The partition.
    pub partition: Partition,
    /// The event time of the record or timer: stamps and default output times take it.
    pub event_time: Option<EventTime>,
}

impl Current {
    /// Returns the state between calls.
    #[must_use]
    pub fn none() -> Self {
        Self { subject: Subject::None, key: None, partition: Partition(0), event_time: None }
    }
}

impl Context {
    /// Returns what the call is about.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Returns the current key; `None` for a record processed without one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.current.key.as_ref()
    }

    /// Returns the lane's watermark; [`crate::time::NO_WATERMARK`] before the first.
    #[must_use]
    pub fn watermark(&self) -> EventTime {
        self.clocks.watermark
    }

    /// Returns the lane's processing time, constant within a step.
    #[must_use]
    pub fn processing_time(&self) -> ProcessingTime {
        self.clocks.processing_time
    }

    /// Returns whether the current record is late; false for a timer.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self.current.subject, Subject::Record { is_late: true, .. })
    }

    /// Returns whether the current record is one that every lane handles.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        matches!(self.current.subject, Subject::Record { is_broadcast: true, .. })
    }

    /// Returns the partition and offset of the current record; the offset is −1 for a timer.
    #[must_use]
    pub fn position(&self) -> (Partition, i64) {
        (self.current.partition, self.record().map_or(-1, |record| record.offset))
    }

    /// Returns the headers of the current record; none for a timer.
    #[must_use]
    pub fn headers(&self) -> Headers {
        self.record().map(|record| record.headers.clone()).unwrap_or_default()
    }

    /// Returns the current record, where there is one.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        match &self.current.subject {
            Subject::Record { record, .. } => Some(record),
            Subject::None | Subject::Timer { .. } => None,
        }
    }

    /// Returns the plugin's number of the input that the current record came from.
    #[must_use]
    pub fn role(&self) -> Option<u32> {
        match &self.current.subject {
            Subject::Record { role, .. } => Some(*role),
            Subject::None | Subject::Timer { .. } => None,
        }
    }
}
