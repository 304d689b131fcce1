//! Writes a lane's epochs: one transactional producer, used until the first doubt.
//!
//! Invariants: outputs are acknowledged before the epoch record is sent, so a committed epoch
//! record implies its outputs; offsets are absolute and complete; a producer that has reported any
//! error is never used again.

use std::{
    ffi::CString,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use dovetail_core::{
    log::{ClientStatistics, LogError, Transaction},
    output::Target,
    record::{EVENT_TIME_HEADER, Headers},
};
use rdkafka_sys::types::RDKafkaErrorCode as Code;
use tracing::{debug, error, info, trace, warn};

use crate::{
    failure::{self, is_outage, is_too_large, of_call, of_record},
    ffi::{Client, ClientEvent, Failure, Kind, Offsets, Outgoing, OutgoingHeaders, Topic, c_text},
    offsets,
    options::{BATCH_BYTES_DEFAULT, LaneLogOptions, OutputTopic, TimestampBounds},
    settings::{self, REQUEST_TIMEOUT},
    shorten::shorten,
};

/// How often a drain looks for errors.
const DRAIN_STEP: Duration = Duration::from_millis(100);

/// A clock of the broker may differ from ours by this much, in ms.
const CLOCK_DIFFERENCE_MS: i64 = 60_000;

const STEP_DONE: &str = "a step of a commit is done";

/// The partition that the key decides.
const BY_KEY: i32 = -1;

/// What a broker takes beside an offset by default; far more makes it drop the connection.
const OFFSET_METADATA_BYTES_MAX: usize = 4096;

#[derive(Debug)]
struct Destination {
    topic: Topic,
    name: String,
    timestamps: TimestampBounds,
}

/// The producer of a lane.
#[derive(Debug)]
pub(crate) struct LaneProducer {
    outputs: Vec<Destination>,
    dead_letters: Destination,
    journal: Destination,
    partition: i32,
    /// Those of keyed inputs: the positions of others are no offsets of the group.
    sources: Vec<(CString, i32)>,
    /// How many sources the lane has, those of broadcast inputs included.
    source_count: usize,
    group: CString,
    timeout: Duration,
    journal_next: i64,
    is_exactly_once: bool,
    /// A connection was lost during the last commit: a request of it may still be under way and
    /// would hit the next transaction.
    is_suspect: bool,
    /// Dead letters larger than this are shortened.
    dead_letter_bytes_max: usize,
    /// The dead-letter topic did not take a record because of its size.
    has_refused_dead_letter: bool,
    // Last: outlives the topics.
    client: Client,
}

impl Drop for LaneProducer {
    fn drop(&mut self) {
        self.client.purge();
    }
}

impl LaneProducer {
    /// Makes the client; it connects in the background.
    pub(crate) fn new(
        options: &LaneLogOptions,
        dead_letter_bytes_max: usize,
    ) -> Result<Self, LogError> {
        let client =
            Client::new(Kind::Producer, &settings::producer(options)).map_err(LogError::Config)?;
        let destination = |topic: &OutputTopic| {
            let name = c_text(&topic.topic).map_err(LogError::Config)?;
            let raw = client.topic(&name).map_err(|f| of_call("opening a topic", &f))?;
            Ok(Destination { topic: raw, name: topic.topic.clone(), timestamps: topic.timestamps })
        };
        let journal = OutputTopic {
            topic: options.journal_topic.clone(),
            timestamps: TimestampBounds::NONE,
            max_batch_bytes: BATCH_BYTES_DEFAULT,
        };
        let keyed = options.sources.iter().filter(|source| !source.is_broadcast);
        let sources = keyed.map(|source| {
            let topic = c_text(&source.topic).map_err(LogError::Config)?;
            Ok((topic, i32::from(source.partition)))
        });
        Ok(Self {
            outputs: options.outputs.iter().map(destination).collect::<Result<_, LogError>>()?,
            dead_letters: destination(&options.dead_letters)?,
            journal: destination(&journal)?,
            partition: options.lane.0.into(),
            sources: sources.collect::<Result<_, LogError>>()?,
            source_count: options.sources.len(),
            group: c_text(&options.group()).map_err(LogError::Config)?,
            timeout: options.transaction_timeout,
            journal_next: 0,
            is_exactly_once: options.exactly_once,
            is_suspect: false,
            dead_letter_bytes_max,
            has_refused_dead_letter: false,
            client,
        })
    }

    /// Becomes the lane's only writer; gives up when the lane is to stop.
    pub(crate) fn acquire(&mut self, stopping: &AtomicBool) -> Result<(), LogError> {
        if !self.is_exactly_once {
            return Ok(());
        }
        let deadline = Instant::now() + 2 * self.timeout;
        // An attempt that is over goes on in the background; between two of them a stop is heard.
        let attempt = REQUEST_TIMEOUT / 5;
        // With a connection at hand the next call does not wait for one in steps of half a second.
        if let Err(failure) = self.client.fetch_metadata(attempt) {
            debug!(%failure, "no metadata yet");
        }
        let mut reports = Reports::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let result = self.client.init_transactions(left.min(attempt));
            reports.collect(&self.client);
            let Err(failure) = result else { break };
            if failure.code == Code::InvalidTransactionTimeout {
                let ours = self.timeout.as_millis();
                return Err(failure::transaction_timeout_too_long(ours, None));
            }
            let may_retry = failure.is_retriable && !failure.is_fatal;
            let stops = stopping.load(Ordering::Relaxed);
            if !may_retry || left.is_zero() || stops {
                return Err(self.acquire_error(&failure, &reports));
            }
        }
        let name = c_text(&self.journal.name).map_err(LogError::Config)?;
        let (_, end) = offsets::watermarks(&self.client, &name, self.partition)
            .map_err(|f| of_call("asking for the end of the journal", &f))?;
        self.journal_next = end;
        trace!(lane = self.partition, step = "fenced", "every older writer of the lane is fenced");
        Ok(())
    }

    fn acquire_error(&self, failure: &Failure, reports: &Reports) -> LogError {
        let doing = match &reports.outage {
            Some(outage) => format!("becoming the writer of lane {} ({outage})", self.partition),
            None => format!("becoming the writer of lane {}", self.partition),
        };
        of_call(&doing, failure)
    }

    /// Whether a request of the last commit may still be under way.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Whether the last commit failed because a dead letter was too large for its topic.
    pub(crate) fn has_refused_dead_letter(&self) -> bool {
        self.has_refused_dead_letter
    }

    /// Takes note of what happened while nothing was under way: a lost connection does no harm
    /// then.
    pub(crate) fn look_between_commits(&self) -> Result<(), LogError> {
        self.look(&mut Reports::default())
    }

    /// Returns what the client has said last.
    pub(crate) fn statistics(&self) -> ClientStatistics {
        self.client.statistics().of_client("producer")
    }

    /// Commits an epoch; returns the journal offset behind it. `now` is the clock in ms.
    pub(crate) fn commit(
        &mut self,
        transaction: &Transaction<'_>,
        now: i64,
    ) -> Result<i64, LogError> {
        let mut reports = Reports::default();
        let result = self.try_commit(transaction, now, &mut reports);
        self.has_refused_dead_letter = match &result {
            Err(LogError::Refused { topic, .. }) => {
                reports.is_too_large && *topic == self.dead_letters.name
            }
            Ok(_) | Err(_) => false,
        };
        result
    }

    fn try_commit(
        &mut self,
        transaction: &Transaction<'_>,
        now: i64,
        reports: &mut Reports,
    ) -> Result<i64, LogError> {
        let deadline = Instant::now() + self.timeout;
        self.look_between_commits()?;
        if !self.is_exactly_once {
            self.send_outputs(transaction, now, deadline, reports)?;
            self.drain(deadline, reports)?;
            return Ok(self.journal_next);
        }
        let offsets = self.offsets(transaction)?;
        let epoch = transaction.metadata.epoch.0;
        self.call("beginning a transaction", Client::begin_transaction)?;
        self.trace(epoch, "begun");
        self.send_outputs(transaction, now, deadline, reports)?;
        self.drain(deadline, reports)?;
        self.trace(epoch, "outputs");
        for chunk in transaction.chunks {
            let record =
                Outgoing { partition: self.partition, key: None, value: Some(chunk), timestamp: 0 };
            self.send(&self.journal, record, None, deadline, reports)?;
        }
        self.drain(deadline, reports)?;
        let bytes: usize = transaction.chunks.iter().map(Vec::len).sum();
        trace!(lane = self.partition, epoch, step = "journal", bytes, "{STEP_DONE}");
        let left = deadline.saturating_duration_since(Instant::now());
        self.call("adding the offsets", |c| c.send_offsets(&offsets, &self.group, left))?;
        self.trace(epoch, "offsets");
        self.call("committing", Client::commit_transaction)?;
        self.trace(epoch, "committed");
        reports.collect(&self.client);
        self.is_suspect = reports.outage.is_some();
        let chunks = i64::try_from(transaction.chunks.len()).unwrap_or(i64::MAX);
        // Behind the chunks comes the transaction's marker.
        self.journal_next += chunks + 1;
        Ok(self.journal_next)
    }

    /// Says which step of an epoch's commit the broker has acknowledged.
    fn trace(&self, epoch: u64, step: &str) {
        trace!(lane = self.partition, epoch, step, "{STEP_DONE}");
    }

    fn offsets(&self, transaction: &Transaction<'_>) -> Result<Offsets, LogError> {
        let mut metadata = transaction.metadata;
        metadata.journal_offset = self.journal_next;
        let metadata = metadata.to_string();
        let positions = transaction.positions;
        // librdkafka leaves out what is not a position and reports success.
        if positions.len() != self.source_count || positions.iter().any(|offset| *offset < 0) {
            return Err(LogError::Corrupt(format!(
                "an epoch of lane {} says where {} sources stand, and the lane has {}: {positions:?}",
                self.partition,
                positions.len(),
                self.source_count
            )));
        }
        if metadata.len() > OFFSET_METADATA_BYTES_MAX {
            return Err(LogError::Corrupt(format!(
                "offset metadata of {} bytes; at most {OFFSET_METADATA_BYTES_MAX} fit",
                metadata.len()
            )));
        }
        let mut list = Offsets::with_room(self.sources.len()).map_err(LogError::Doubt)?;
        for ((topic, partition), offset) in self.sources.iter().zip(positions) {
            list.add(topic, *partition, *offset, &metadata);
        }
        Ok(list)
    }

    /// Makes a call; an error is that of the first cause, where one is known.
    fn call(
        &self,
        doing: &str,
        call: impl FnOnce(&Client) -> Result<(), Failure>,
    ) -> Result<(), LogError> {
        let Err(failure) = call(&self.client) else {
            return Ok(());
        };
        let mut reports = Reports::default();
        reports.collect(&self.client);
        Err(match reports.cause {
            Some(cause) => cause,
            None => of_call(doing, &self.client.fatal_error().unwrap_or(failure)),
        })
    }

    fn send_outputs(
        &self,
        transaction: &Transaction<'_>,
        now: i64,
        deadline: Instant,
        reports: &mut Reports,
    ) -> Result<(), LogError> {
        for output in transaction.outputs.iter() {
            let destination = self.destination(output.target)?;
            let (timestamp, in_header) = timestamp(output.time, now, destination.timestamps);
            let short = match output.target {
                Target::DeadLetters => shorten(&output, self.dead_letter_bytes_max),
                Target::Output(_) => None,
            };
            let (key, value, own) = match &short {
                Some(short) => (short.key, short.value, &short.headers),
                None => (output.key, output.value, output.headers),
            };
            let record = Outgoing { partition: BY_KEY, key, value, timestamp };
            self.send(destination, record, headers(own, in_header), deadline, reports)?;
        }
        Ok(())
    }

    fn destination(&self, target: Target) -> Result<&Destination, LogError> {
        let Target::Output(index) = target else {
            return Ok(&self.dead_letters);
        };
        self.outputs.get(usize::from(index)).ok_or_else(|| {
            let known = self.outputs.len();
            LogError::Corrupt(format!("an epoch writes to output {index}, and there are {known}"))
        })
    }

    fn send(
        &self,
        destination: &Destination,
        record: Outgoing<'_>,
        mut headers: Option<OutgoingHeaders>,
        deadline: Instant,
        reports: &mut Reports,
    ) -> Result<(), LogError> {
        loop {
            let Err((failure, back)) = destination.topic.produce(record, headers) else {
                return Ok(());
            };
            if failure.code != Code::QueueFull {
                self.look(reports)?;
                let (partition, code) = (record.partition, failure.code);
                reports.is_too_large = is_too_large(code);
                return Err(of_record(&destination.name, partition, code, &failure.text));
            }
            if Instant::now() >= deadline {
                return Err(LogError::Doubt("the producer's queue stays full".to_owned()));
            }
            headers = back;
            self.client.flush(DRAIN_STEP);
            self.look(reports)?;
        }
    }

    /// Sends everything and waits until it is acknowledged.
    fn drain(&self, deadline: Instant, reports: &mut Reports) -> Result<(), LogError> {
        loop {
            let is_drained = self.client.flush(DRAIN_STEP);
            self.look(reports)?;
            if is_drained {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(LogError::Doubt(format!(
                    "records are not acknowledged after {} ms",
                    self.timeout.as_millis()
                )));
            }
        }
    }

    fn look(&self, reports: &mut Reports) -> Result<(), LogError> {
        reports.collect(&self.client);
        match reports.cause.take() {
            Some(cause) => Err(cause),
            None => Ok(()),
        }
    }
}

/// Returns the record's timestamp, and the event time when it has to travel in a header.
fn timestamp(time: Option<i64>, now: i64, bounds: TimestampBounds) -> (i64, Option<i64>) {
    let Some(time) = time else { return (0, None) };
    let margin = |bound: i64| bound.saturating_sub(CLOCK_DIFFERENCE_MS.min(bound / 2));
    let earliest = now.saturating_sub(margin(bounds.before_ms));
    let latest = now.saturating_add(margin(bounds.after_ms));
    // 0 would become the clock.
    if time > 0 && (earliest..=latest).contains(&time) { (time, None) } else { (0, Some(time)) }
}

fn headers(own: &Headers, event_time: Option<i64>) -> Option<OutgoingHeaders> {
    let own = own.as_slice();
    if own.is_empty() && event_time.is_none() {
        return None;
    }
    let mut headers = OutgoingHeaders::with_room(own.len() + 1)?;
    for header in own {
        headers.add(&header.name, header.value.as_deref());
    }
    if let Some(time) = event_time {
        headers.add(EVENT_TIME_HEADER, Some(time.to_string().as_bytes()));
    }
    Some(headers)
}

/// What a producer reported in the background.
#[derive(Debug, Default)]
struct Reports {
    /// Why the transaction cannot go on; the weightiest of several.
    cause: Option<LogError>,
    /// Whether `cause` is a record's size.
    is_too_large: bool,
    /// The last sign of a lost connection.
    outage: Option<String>,
}

impl Reports {
    fn collect(&mut self, client: &Client) {
        client.events(Duration::ZERO, &mut |event| match event {
            ClientEvent::Log { level, facility, text } => log_line(level, &facility, &text),
            ClientEvent::Error { code, text, is_fatal } => self.error(client, code, text, is_fatal),
            ClientEvent::Undelivered { topic, partition, code, text } => {
                if self.add(of_record(&topic, partition, code, &text)) {
                    self.is_too_large = is_too_large(code);
                }
            }
        });
    }

    fn error(&mut self, client: &Client, code: Code, text: String, is_fatal: bool) {
        if is_fatal {
            let failure = client.fatal_error();
            let cause = match failure {
                Some(failure) => of_call("writing", &failure),
                None => LogError::Doubt(text),
            };
            if self.add(cause) {
                self.is_too_large = false;
            }
        } else if is_outage(code) {
            self.outage = Some(text);
        } else {
            warn!(%code, %text, "the producer reports an error");
        }
    }

    /// Takes a cause that explains more than the one known; returns whether it did.
    fn add(&mut self, cause: LogError) -> bool {
        // Once one record fails the others are purged: doubt explains less than a refusal.
        let explains_more = match self.cause {
            None => true,
            Some(LogError::Doubt(_)) => !matches!(cause, LogError::Doubt(_)),
            Some(_) => false,
        };
        if explains_more {
            self.cause = Some(cause);
        }
        explains_more
    }
}

/// Passes a line of librdkafka's log on; `level` is that of syslog.
pub(crate) fn log_line(level: i32, facility: &str, text: &str) {
    // What librdkafka tries again by itself is for whoever looks into the client.
    let is_retry = matches!(facility, "GETPID" | "RETRY") || text.contains("retrying");
    match level {
        _ if is_retry => debug!(target: "librdkafka", facility, "{text}"),
        0..=3 => error!(target: "librdkafka", facility, "{text}"),
        4 => warn!(target: "librdkafka", facility, "{text}"),
        5 | 6 => info!(target: "librdkafka", facility, "{text}"),
        _ => debug!(target: "librdkafka", facility, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    #[test]
    fn event_time_within_the_bounds_is_the_timestamp() {
        assert_eq!(timestamp(Some(NOW - 5), NOW, TimestampBounds::default()), (NOW - 5, None));
        assert_eq!(timestamp(Some(1), NOW, TimestampBounds::NONE), (1, None));
    }

    #[test]
    fn event_time_that_the_broker_would_refuse_travels_in_a_header() {
        let far = NOW + 3_600_001;
        assert_eq!(timestamp(Some(far), NOW, TimestampBounds::default()), (0, Some(far)));
        assert_eq!(timestamp(Some(0), NOW, TimestampBounds::NONE), (0, Some(0)));
        assert_eq!(timestamp(Some(-5), NOW, TimestampBounds::NONE), (0, Some(-5)));
        let short = TimestampBounds { before_ms: 1000, after_ms: 1000 };
        assert_eq!(timestamp(Some(NOW - 2000), NOW, short), (0, Some(NOW - 2000)));
    }

    #[test]
    fn a_result_without_event_time_gets_the_clock() {
        assert_eq!(timestamp(None, NOW, TimestampBounds::default()), (0, None));
    }

    #[test]
    fn a_refusal_explains_more_than_the_records_purged_after_it() {
        let mut reports = Reports::default();
        reports.add(of_record("t", 0, Code::PurgeQueue, "purged"));
        reports.add(of_record("t", 3, Code::InvalidRecord, "no key"));
        reports.add(of_record("t", 0, Code::PurgeQueue, "purged"));
        assert!(matches!(reports.cause, Some(LogError::Refused { partition: 3, .. })));
    }
}
