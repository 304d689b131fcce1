//! Dead letters: records and timers that could not be processed, with why.
//!
//! Invariant: key, value and headers of the record are the original bytes; what we add is headers.

use bytes::Bytes;

use crate::{
    record::{Header, Headers, Partition, Record},
    text::cut,
    time::EventTime,
};

/// Longest text in a header, in bytes; longer ones are cut, so that a dead letter always fits.
pub const HEADER_TEXT_BYTES_MAX: usize = 4096;

/// Why a record or timer is a dead letter. The names are durable: headers and metrics carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The value or key is not in the format the input declares.
    Decode,
    /// The key is not of the declared type.
    KeyType,
    /// The key is null.
    NullKey,
    /// The input has event time and this record has none.
    TimeMissing,
    /// The event time lies outside `time.valid`.
    TimeOutOfRange,
    /// The guest trapped.
    PluginTrap,
    /// The handler returned an error.
    PluginError,
    /// The call ran too long.
    PluginDeadline,
    /// The guest wanted too much memory.
    PluginMemory,
    /// The call exceeded another limit.
    PluginLimit,
    /// An output topic would refuse what the call emitted.
    OutputRefused,
    /// One (key, tag) fired too often in one move of time.
    TimerLoop,
}

impl Reason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Decode,
        Self::KeyType,
        Self::NullKey,
        Self::TimeMissing,
        Self::TimeOutOfRange,
        Self::PluginTrap,
        Self::PluginError,
        Self::PluginDeadline,
        Self::PluginMemory,
        Self::PluginLimit,
        Self::OutputRefused,
        Self::TimerLoop,
    ];

    /// Returns the name in headers and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::KeyType => "key_type",
            Self::NullKey => "null_key",
            Self::TimeMissing => "time_missing",
            Self::TimeOutOfRange => "time_out_of_range",
            Self::PluginTrap => "plugin_trap",
            Self::PluginError => "plugin_error",
            Self::PluginDeadline => "plugin_deadline",
            Self::PluginMemory => "plugin_memory",
            Self::PluginLimit => "plugin_limit",
            Self::OutputRefused => "output_refused",
            Self::TimerLoop => "timer_loop",
        }
    }

    /// Returns where in the life of a record it failed.
    #[must_use]
    pub fn stage(self) -> &'static str {
        match self {
            Self::Decode
            | Self::KeyType
            | Self::NullKey
            | Self::TimeMissing
            | Self::TimeOutOfRange => "decode",
            Self::PluginTrap
            | Self::PluginError
            | Self::PluginDeadline
            | Self::PluginMemory
            | Self::PluginLimit => "plugin",
            Self::OutputRefused => "output",
            Self::TimerLoop => "timer",
        }
    }
}

/// What a dead letter says about its origin, besides the record.
#[derive(Debug, Clone)]
pub struct Origin<'a> {
    /// The pipeline.
    pub pipeline: &'a str,
    /// The input's name; empty for a timer.
    pub input: &'a str,
    /// The topic; empty for a timer.
    pub topic: &'a str,
    /// The partition.
    pub partition: Partition,
    /// The event time of the record or timer.
    pub event_time: Option<EventTime>,
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The digest of the plugin revision.
    pub plugin_digest: &'a str,
    /// How many times the call was tried (0: it never reached the plugin).
    pub attempt: u32,
}

/// Returns the headers of a dead letter: the record's own first, then ours.
#[must_use]
pub fn headers(record: &Record, reason: Reason, message: &str, origin: &Origin<'_>) -> Headers {
    let mut headers = record.headers.as_slice().to_vec();
    let mut add = |name: &str, value: String| {
        headers.push(Header { name: name.to_owned(), value: Some(Bytes::from(value)) });
    };
    add("__streams.errors.exception", format!("dovetail.{}", reason.name()));
    add("__streams.errors.message", cut(message, HEADER_TEXT_BYTES_MAX).to_owned());
    add("__streams.errors.topic", origin.topic.to_owned());
    add("__streams.errors.partition", origin.partition.0.to_string());
    add("__streams.errors.offset", record.offset.to_string());
    add("__dovetail.errors.reason", reason.name().to_owned());
    add("__dovetail.errors.input", origin.input.to_owned());
    add("__dovetail.errors.stage", reason.stage().to_owned());
    add("__dovetail.errors.pipeline", origin.pipeline.to_owned());
    add("__dovetail.errors.plugin_digest", origin.plugin_digest.to_owned());
    if let Some(time) = origin.event_time {
        add("__dovetail.errors.event_time", time.to_string());
    }
    if let Some(timestamp) = record.timestamp {
        add("__dovetail.errors.timestamp", timestamp.to_string());
    }
    add("__dovetail.errors.watermark", origin.watermark.to_string());
    add("__dovetail.errors.attempt", origin.attempt.to_string());
    Headers::new(headers)
}

/// Returns the headers of a late record: its own first, then ours.
#[must_use]
pub fn late_headers(
    record: &Record,
    input: &str,
    time: EventTime,
    watermark: EventTime,
) -> Headers {
    let mut headers = record.headers.as_slice().to_vec();
    let mut add = |name: &str, value: String| {
        headers.push(Header { name: name.to_owned(), value: Some(Bytes::from(value)) });
    };
    add("__dovetail.late.input", input.to_owned());
    add("__dovetail.late.lateness_ms", watermark.saturating_sub(time).to_string());
    add("__dovetail.late.watermark", watermark.to_string());
    Headers::new(headers)
}
