//! Records as they come from an input, before and after decoding.
//!
//! A record keeps its original bytes for as long as it lives: a dead letter shows them unchanged.

use std::sync::Arc;

use bytes::Bytes;

use crate::{dead_letter::Reason, key::Key, time::EventTime};

/// The header in which our Kafka outputs put an event time (ms, decimal text) that the record's
/// timestamp cannot carry. Where the timestamp is the event time, this header wins over it.
pub const EVENT_TIME_HEADER: &str = "dovetail-event-time";

/// A Kafka partition number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u16);

/// The place of an input in the configuration: 0 for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputIndex(pub u16);

/// One partition of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The input.
    pub input: InputIndex,
    /// The partition.
    pub partition: Partition,
}

/// The place of a source in its lane: sources are ordered by input, then partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceIndex(pub u16);

/// One header of a record. Names may repeat; their order is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The bytes; `None` is Kafka's null header value.
    pub value: Option<Bytes>,
}

/// The headers of a record, in order. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Option<Arc<[Header]>>);

impl Headers {
    /// Returns headers in the given order.
    #[must_use]
    pub fn new(headers: Vec<Header>) -> Self {
        if headers.is_empty() { Self(None) } else { Self(Some(headers.into())) }
    }

    /// Returns the headers in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Header] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// Returns the value of the last header of that name, as Kafka clients do.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&Header> {
        self.as_slice().iter().rev().find(|header| header.name == name)
    }
}

/// One record of an input: original bytes and place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The offset in its partition.
    pub offset: i64,
    /// The record's timestamp in ms, where the log keeps one.
    pub timestamp: Option<i64>,
    /// The key bytes.
    pub key: Option<Bytes>,
    /// The value bytes; `None` is a tombstone, empty bytes are not.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
}

/// What became of a record in the codec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoding {
    /// Key and event time are known.
    Ready {
        /// The join key; `None` is the null key, which equals nothing.
        key: Option<Key>,
        /// The event time in ms; `None` where the input has none.
        time: Option<EventTime>,
    },
    /// The record cannot be used.
    Rejected {
        /// The reason, as a dead letter names it.
        reason: Reason,
        /// What was expected and what was found.
        message: String,
    },
}

/// A record and what the codec made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedRecord {
    /// The record.
    pub record: Record,
    /// Key and time, or why there are none.
    pub decoding: Decoding,
}

impl DecodedRecord {
    /// Returns the event time, where the record has one.
    #[must_use]
    pub fn time(&self) -> Option<EventTime> {
        match &self.decoding {
            Decoding::Ready { time, .. } => *time,
            Decoding::Rejected { .. } => None,
        }
    }

    /// Returns the bytes of key, value and headers together.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let record = &self.record;
        record.key.as_ref().map_or(0, Bytes::len)
            + record.value.as_ref().map_or(0, Bytes::len)
            + record
                .headers
                .as_slice()
                .iter()
                .map(|header| header.name.len() + header.value.as_ref().map_or(0, Bytes::len))
                .sum::<usize>()
    }
}
