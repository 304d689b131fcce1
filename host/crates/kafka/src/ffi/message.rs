//! Messages as they come out of a queue.

use std::ptr;

use rdkafka_sys as sys;
use rdkafka_sys::types::{RDKafkaErrorCode, RDKafkaRespErr};

use super::{bytes_of, text_of};

/// Messages taken from a queue at once.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) messages: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: messages may be read and destroyed from any thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Makes one with room for `size` messages.
    pub(crate) fn with_room(size: usize) -> Self {
        Self { messages: Vec::with_capacity(size) }
    }

    /// Returns for how many messages there is room.
    pub(crate) fn room(&self) -> usize {
        self.messages.capacity()
    }

    /// Returns the messages in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        // SAFETY: each pointer is valid until `clear`, which needs the batch for itself.
        self.messages.iter().map(|&message| Message(unsafe { &*message }))
    }

    /// Gives the messages back.
    pub(crate) fn clear(&mut self) {
        for message in self.messages.drain(..) {
            // SAFETY: each is ours and given back once.
            unsafe { sys::rd_kafka_message_destroy(message) }
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A message or an error about a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a>(pub(super) &'a sys::rd_kafka_message_t);

impl<'a> Message<'a> {
    /// Returns the error, if this is one.
    pub(crate) fn error(&self) -> Option<RDKafkaErrorCode> {
        (self.0.err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| self.0.err.into())
    }

    /// Returns what an error says.
    pub(crate) fn error_text(&self) -> String {
        // SAFETY: the message lives; the text belongs to it.
        unsafe { text_of(sys::rd_kafka_message_errstr(self.0)) }
    }

    /// Returns the topic; empty where there is none.
    pub(crate) fn topic(&self) -> String {
        if self.0.rkt.is_null() {
            return String::new();
        }
        // SAFETY: the topic lives as long as the message.
        unsafe { text_of(sys::rd_kafka_topic_name(self.0.rkt)) }
    }

    /// Returns the partition.
    pub(crate) fn partition(&self) -> i32 {
        self.0.partition
    }

    /// Returns the offset.
    pub(crate) fn offset(&self) -> i64 {
        self.0.offset
    }

    /// Returns the key; `None` is null.
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: key and length belong together and live as long as the message.
        unsafe { bytes_of(self.0.key, self.0.key_len) }
    }

    /// Returns the value; `None` is null.
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: value and length belong together and live as long as the message.
        unsafe { bytes_of(self.0.payload, self.0.len) }
    }

    /// Returns the timestamp in ms, where there is one.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        (kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE).then_some(time)
    }

    /// Visits the headers in order.
    pub(crate) fn each_header(&self, visit: &mut dyn FnMut(String, Option<&[u8]>)) {
        let mut headers = ptr::null_mut();
        // SAFETY: the headers belong to the message, their names and values to them.
        unsafe {
            let found = sys::rd_kafka_message_headers(self.0, &raw mut headers);
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            for index in 0.. {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                let found = sys::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                );
                if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                visit(text_of(name), bytes_of(value, size));
            }
        }
    }
}
