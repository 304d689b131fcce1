//! The log port of one lane on Kafka.
//!
//! Invariant: consumer and producer live from one [`Log::acquire`] to the first error; a producer
//! that has seen any doubt commits nothing more.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use dovetail_core::{
    clock::Clock,
    log::{CommittedOffset, Fetched, Log, LogError, LogStatistics, Transaction, Trimmer, Waker},
};
use rdkafka_sys::types::RDKafkaErrorCode as Code;

use crate::{
    admin,
    consumer::LaneConsumer,
    failure::of_call,
    ffi::{Failure, Signal},
    journal,
    options::{BATCH_OVERHEAD_BYTES, LaneLogOptions},
    producer::LaneProducer,
    settings::{REQUEST_TIMEOUT, queued_record_bytes_max},
};

/// Longest wait while something has to be tried again.
const RETRY_STEP: Duration = Duration::from_millis(50);

/// Dead letters are not shortened to less than this: a topic that takes no more takes none.
const DEAD_LETTER_BYTES_MIN: usize = 8 * 1024;

/// The log port of one lane on Kafka.
pub struct KafkaLog {
    options: LaneLogOptions,
    clock: Box<dyn Clock>,
    signal: Arc<Signal>,
    /// Whether the lane is to stop.
    stopping: Arc<AtomicBool>,
    producer: Option<LaneProducer>,
    consumer: Option<LaneConsumer>,
    /// Dead letters larger than this are shortened; learned from what their topic refuses.
    dead_letter_bytes_max: usize,
}

impl std::fmt::Debug for KafkaLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaLog").field("options", &self.options).finish_non_exhaustive()
    }
}

impl KafkaLog {
    /// Makes the log of a lane; nothing is connected before [`Log::acquire`] or
    /// [`Log::read_journal`].
    ///
    /// # Errors
    ///
    /// [`LogError::Doubt`] when the process has no file descriptor left.
    pub fn new(options: LaneLogOptions, clock: Box<dyn Clock>) -> Result<Self, LogError> {
        let signal = Signal::new()
            .map_err(|error| LogError::Doubt(format!("a file descriptor to wait on: {error}")))?;
        let signal = Arc::new(signal);
        let dead_letter_bytes_max = queued_record_bytes_max(&options);
        let (producer, consumer) = (None, None);
        Ok(Self {
            options,
            clock,
            signal,
            stopping: Arc::default(),
            producer,
            consumer,
            dead_letter_bytes_max,
        })
    }

    fn drop_clients(&mut self) {
        self.consumer = None;
        self.producer = None;
    }

    /// A dead letter was too large. The topic's bound is tried first, then half of what was tried
    /// last: the setting may have changed.
    fn shorten_dead_letters(&mut self, refusal: LogError) -> LogError {
        if self.dead_letter_bytes_max <= DEAD_LETTER_BYTES_MIN {
            return refusal;
        }
        let bound = self.options.dead_letters.max_batch_bytes.saturating_sub(BATCH_OVERHEAD_BYTES);
        let room = match self.dead_letter_bytes_max {
            tried if tried > bound => bound,
            tried => tried / 2,
        };
        self.dead_letter_bytes_max = room.max(DEAD_LETTER_BYTES_MIN);
        LogError::Doubt(format!(
            "a dead letter is too large for its topic and comes again, cut to {} bytes: {refusal}",
            self.dead_letter_bytes_max
        ))
    }

    /// librdkafka asks again by itself while a transaction holds the offsets back and only says
    /// that time is over. Every transaction of the lane has ended when it was acquired, so one that
    /// is still open now is one that the broker has forgotten to end.
    fn not_read_back(&self, failure: &Failure) -> LogError {
        let doing = match failure.code {
            Code::OperationTimedOut | Code::UnstableOffsetCommit => format!(
                "reading the committed positions (if this goes on, the broker has left a \
                 transaction of group `{}` or of `{}[{}]` open, and the lane waits until it is \
                 ended: `kafka-transactions.sh --bootstrap-server … find-hanging --broker-id …` \
                 names it)",
                self.options.group(),
                self.options.journal_topic,
                self.options.lane.0
            ),
            _ => "reading the committed positions".to_owned(),
        };
        of_call(&doing, failure)
    }

    fn consumer(&mut self) -> Result<&mut LaneConsumer, LogError> {
        self.consumer.as_mut().ok_or_else(not_acquired)
    }
}

fn not_acquired() -> LogError {
    LogError::Doubt("the lane has no clients: acquire it first".to_owned())
}

impl Log for KafkaLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        self.drop_clients();
        // Both connect at the same time.
        self.consumer = Some(LaneConsumer::new(&self.options, &self.signal)?);
        let mut producer = LaneProducer::new(&self.options, self.dead_letter_bytes_max)?;
        producer.acquire(&self.stopping)?;
        self.producer = Some(producer);
        Ok(())
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        if !self.options.exactly_once {
            let keyed = self.options.sources.iter().filter(|source| !source.is_broadcast);
            return Ok(keyed.map(|_| None).collect());
        }
        if self.consumer.is_none() {
            // Who only looks has not acquired the lane.
            self.consumer = Some(LaneConsumer::new(&self.options, &self.signal)?);
        }
        let deadline = Instant::now() + 2 * self.options.transaction_timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = match self.consumer()?.committed(left.min(REQUEST_TIMEOUT / 2)) {
                Ok(committed) => return Ok(committed),
                Err(failure) => failure,
            };
            let may_pass = matches!(
                failure.code,
                Code::UnstableOffsetCommit
                    | Code::OperationTimedOut
                    | Code::BrokerTransportFailure
                    | Code::AllBrokersDown
                    | Code::WaitingForCoordinator
                    | Code::CoordinatorLoadInProgress
                    | Code::CoordinatorNotAvailable
                    | Code::NotCoordinator
            );
            let stops = self.stopping.load(Ordering::Relaxed);
            if !may_pass || left.is_zero() || stops {
                return Err(self.not_read_back(&failure));
            }
            self.signal.wait(RETRY_STEP);
        }
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        if !self.options.exactly_once {
            return Ok(0);
        }
        journal::read(&self.options, &self.stopping, from, visit)
    }

    fn start_positions(&mut self) -> Result<Vec<i64>, LogError> {
        self.consumer()?.start_positions()
    }

    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError> {
        let fresh = match self.consumer.take() {
            Some(consumer) if !consumer.is_assigned() => consumer,
            Some(_) | None => LaneConsumer::new(&self.options, &self.signal)?,
        };
        self.consumer.insert(fresh).assign(positions, &self.signal)
    }

    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        if let Some(producer) = &self.producer {
            producer.look_between_commits()?;
            if producer.is_suspect() {
                return Err(LogError::Doubt(
                    "a connection was lost while an epoch was committed".to_owned(),
                ));
            }
        }
        self.consumer()?.fetch(wanted, take)
    }

    fn wait(&mut self, at_most: Duration) {
        let at_most = match &self.consumer {
            Some(consumer) if consumer.has_more() => Duration::ZERO,
            Some(consumer) if consumer.wants_attention() => at_most.min(RETRY_STEP),
            Some(_) | None => at_most,
        };
        self.signal.wait(at_most);
    }

    fn waker(&self) -> Waker {
        let signal = Arc::clone(&self.signal);
        Arc::new(move || signal.raise())
    }

    fn trimmer(&self) -> Option<Trimmer> {
        if !self.options.exactly_once {
            return None;
        }
        let (connection, topic) =
            (self.options.connection.clone(), self.options.journal_topic.clone());
        let partition = i32::from(self.options.lane.0);
        Some(Arc::new(move |before| admin::trim(&connection, &topic, partition, before)))
    }

    fn heed(&mut self, stopping: &Arc<AtomicBool>) {
        self.stopping = Arc::clone(stopping);
    }

    fn statistics(&self) -> LogStatistics {
        let mut all = LogStatistics::default();
        if let Some(consumer) = &self.consumer {
            let (client, ends) = consumer.statistics();
            all.clients.push(client);
            all.ends = ends;
        }
        all.clients.extend(self.producer.as_ref().map(LaneProducer::statistics));
        all
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        let now = self.clock.read();
        let producer = self.producer.as_mut().ok_or_else(not_acquired)?;
        let result = producer.commit(transaction, now);
        let has_refused_dead_letter = producer.has_refused_dead_letter();
        result.map_err(|error| {
            self.drop_clients();
            if has_refused_dead_letter { self.shorten_dead_letters(error) } else { error }
        })
    }
}
