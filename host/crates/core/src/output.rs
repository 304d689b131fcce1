//! The outputs of the open epoch: one arena of bytes, one small entry per record.
//!
//! Invariant: entries are in the order they were emitted; truncating to an earlier [`Mark`] gives
//! exactly what was there then, which is how a failed call is undone.

use std::ops::Range;

use crate::{record::Headers, time::EventTime};

/// Where an output record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The output of that place in the plugin's `describe`.
    Output(u16),
    /// The dead-letter topic.
    DeadLetters,
}

#[derive(Debug, Clone)]
struct Entry {
    target: Target,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Headers,
    time: Option<EventTime>,
}

/// One record to be produced, borrowed from the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRecord<'a> {
    /// Where it goes.
    pub target: Target,
    /// The Kafka key; `None` is the null key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a Headers,
    /// The event time in ms; `None` where it has none.
    pub time: Option<EventTime>,
}

impl OutputRecord<'_> {
    /// Returns the bytes of key, value and headers.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let bytes = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let headers = self.headers.as_slice().iter();
        bytes(self.key)
            + bytes(self.value)
            + headers
                .map(|header| header.name.len() + bytes(header.value.as_deref()))
                .sum::<usize>()
    }
}

/// A point to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    entries: usize,
    bytes: usize,
}

/// Records emitted and not yet committed.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl OutputBuffer {
    /// Adds a record.
    pub fn push(&mut self, record: OutputRecord<'_>) {
        let key = record.key.map(|bytes| self.store(bytes));
        let value = record.value.map(|bytes| self.store(bytes));
        self.entries.push(Entry {
            target: record.target,
            key,
            value,
            headers: record.headers.clone(),
            time: record.time,
        });
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Returns the point reached.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { entries: self.entries.len(), bytes: self.bytes.len() }
    }

    /// Drops what was added since `mark`.
    pub fn undo_to(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.bytes.truncate(mark.bytes);
    }

    /// Returns the records in the order they were emitted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = OutputRecord<'_>> {
        self.entries.iter().map(|entry| OutputRecord {
            target: entry.target,
            key: entry.key.clone().map(|range| &self.bytes[range]),
            value: entry.value.clone().map(|range| &self.bytes[range]),
            headers: &entry.headers,
            time: entry.time,
        })
    }

    /// Returns how many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the bytes of keys and values.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it, keeping its memory for the next epoch.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
