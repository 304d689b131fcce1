//! Copies a batch of librdkafka's messages into records, with one allocation for all of their bytes.

use bytes::Bytes;
use dovetail_core::{
    log::Fetched,
    record::{Header, Headers, Record, SourceIndex},
};

use crate::ffi::{Batch, Message};

/// The records of a batch, their bytes in one piece.
pub(super) struct Records {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    offset: i64,
    timestamp: Option<i64>,
    key: Option<usize>,
    value: Option<usize>,
    headers: Headers,
}

impl Records {
    pub(super) fn with_room(batch: &Batch) -> Self {
        let (mut bytes, mut count) = (0, 0);
        for message in batch.iter().filter(|message| message.error().is_none()) {
            bytes += message.key().map_or(0, <[u8]>::len);
            bytes += message.value().map_or(0, <[u8]>::len);
            count += 1;
        }
        Self { bytes: Vec::with_capacity(bytes), entries: Vec::with_capacity(count) }
    }

    pub(super) fn add(&mut self, message: Message<'_>) {
        let bytes = &mut self.bytes;
        let mut store = |part: Option<&[u8]>| {
            part.map(|part| {
                bytes.extend_from_slice(part);
                part.len()
            })
        };
        let (key, value) = (store(message.key()), store(message.value()));
        self.entries.push(Entry {
            offset: message.offset(),
            timestamp: message.timestamp(),
            key,
            value,
            headers: headers(message),
        });
    }

    pub(super) fn hand_over(&mut self, source: SourceIndex, take: &mut dyn FnMut(Fetched)) {
        if self.entries.is_empty() {
            return;
        }
        let mut rest = Bytes::from(std::mem::take(&mut self.bytes));
        let mut cut = |length: Option<usize>| length.map(|length| rest.split_to(length));
        let records = self.entries.drain(..).map(|entry| Record {
            offset: entry.offset,
            timestamp: entry.timestamp,
            key: cut(entry.key),
            value: cut(entry.value),
            headers: entry.headers,
        });
        let records = records.collect();
        take(Fetched::Records { source, records });
    }
}

fn headers(message: Message<'_>) -> Headers {
    let mut headers = Vec::new();
    message.each_header(&mut |name, value| {
        headers.push(Header { name, value: value.map(Bytes::copy_from_slice) });
    });
    Headers::new(headers)
}
