//! A consumer that goes on reading a topic while other things happen.

use super::Record;
use anyhow::{Context as _, Result};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use std::time::{Duration, Instant};

/// A `read_committed` consumer of a whole topic, from its beginning.
pub struct Follower {
    consumer: BaseConsumer,
    /// Everything that was read, in the order of reading.
    pub records: Vec<Record>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Follower").field("records", &self.records.len()).finish()
    }
}

impl Follower {
    pub(super) fn new(consumer: BaseConsumer) -> Self {
        Follower { consumer, records: Vec::new() }
    }

    /// Reads until that many records were read in all, or the time is over; returns whether they
    /// were.
    ///
    /// # Errors
    /// The broker refuses to give them.
    pub fn read(&mut self, count: usize, at_most: Duration) -> Result<bool> {
        let begin = Instant::now();
        while self.records.len() < count {
            let rest = at_most.saturating_sub(begin.elapsed());
            if rest.is_zero() {
                return Ok(false);
            }
            match self.consumer.poll(rest) {
                None | Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Ok(message)) => self.records.push(Record::from_message(&message)),
                Some(Err(error)) => return Err(error).context("read on in the topic"),
            }
        }
        Ok(true)
    }
}
