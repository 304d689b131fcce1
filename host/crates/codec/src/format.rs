//! What the configuration says about reading one input, in the codec's own terms.

use std::ops::Range;

use dovetail_core::{key::KeyType, time::EventTime};

use crate::path::JsonPath;

/// The default of `time.valid`: 2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z, the end excluded.
pub const TIME_VALID_DEFAULT: Range<EventTime> = 946_684_800_000..4_102_444_800_000;

/// How the records of one input are read.
#[derive(Debug, Clone)]
pub struct InputFormat {
    /// Where the key is and how it is compared.
    pub key: KeyFormat,
    /// Where the event time is; `None` for an input without event time.
    pub time: Option<TimeFormat>,
}

/// How the key of an input is read (`key.from`, `key.format`, `key.type`).
#[derive(Debug, Clone)]
pub struct KeyFormat {
    /// Where it is.
    pub from: KeySource,
    /// How bytes of the Kafka key, or of the header, are read. Tombstones use it too, wherever
    /// the key of other records is: a tombstone's key is the Kafka key.
    pub format: WireFormat,
    /// How it is compared.
    pub key_type: KeyType,
}

/// Where the key of a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In the Kafka key. The path counts with [`WireFormat::Json`] only; [`JsonPath::root`] is the
    /// whole key.
    KafkaKey(JsonPath),
    /// In the value, which is JSON.
    Value(JsonPath),
    /// In the last header of that name.
    Header(String),
}

/// How the bytes of a Kafka key or header are read (`key.format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireFormat {
    /// UTF-8 text.
    #[default]
    String,
    /// Four bytes, big-endian, signed.
    Int32,
    /// Eight bytes, big-endian, signed.
    Int64,
    /// A JSON document.
    Json,
    /// As they are.
    Bytes,
}

impl WireFormat {
    /// Every format, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::String, Self::Int32, Self::Int64, Self::Json, Self::Bytes];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Json => "json",
            Self::Bytes => "bytes",
        }
    }

    /// Returns the format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// How the event time of an input is read (`time.from`, `time.unit`, `time.valid`).
#[derive(Debug, Clone)]
pub struct TimeFormat {
    /// Where it is.
    pub from: TimeSource,
    /// What it counts. [`TimeSource::Timestamp`] is always in ms.
    pub unit: TimeUnit,
    /// Times that can be right, in ms; see [`TIME_VALID_DEFAULT`].
    pub valid: Range<EventTime>,
}

/// Where the event time of a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeSource {
    /// In the value, which is JSON.
    Value(JsonPath),
    /// In the last header of that name, as text.
    Header(String),
    /// It is the record's timestamp.
    Timestamp,
}

impl std::fmt::Display for TimeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(path) => write!(f, "{path}"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Timestamp => f.write_str("the record's timestamp"),
        }
    }
}

/// What an event time counts (`time.unit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TimeUnit {
    /// Seconds since the Unix epoch; may have a fraction.
    Seconds,
    /// Milliseconds since the Unix epoch.
    #[default]
    Milliseconds,
    /// Microseconds since the Unix epoch.
    Microseconds,
    /// Nanoseconds since the Unix epoch.
    Nanoseconds,
    /// Text like `2026-01-01T00:00:00Z`, always with an offset.
    Rfc3339,
}

impl TimeUnit {
    /// Every unit, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds, Self::Rfc3339];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
            Self::Rfc3339 => "rfc3339",
        }
    }

    /// Returns the unit of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// Returns the name in a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
            Self::Rfc3339 => "RFC 3339",
        }
    }

    /// Returns the power of ten from the unit to ms; `None` for text.
    pub(crate) fn shift(self) -> Option<i64> {
        match self {
            Self::Seconds => Some(3),
            Self::Milliseconds => Some(0),
            Self::Microseconds => Some(-3),
            Self::Nanoseconds => Some(-6),
            Self::Rfc3339 => None,
        }
    }
}
