//! Reads the sources of a lane: one consumer, assigned by hand, one queue per partition.
//!
//! Back-pressure is a queue that is not read: nothing is paused. Invariants: a source's `position`
//! is behind everything handed over and nothing else; an end is reported only when the broker said
//! so after the last sign of an outage.

mod records;

use std::{
    ffi::CString,
    sync::Arc,
    time::{Duration, Instant},
};

use dovetail_core::{
    log::{
        ClientStatistics, CommittedOffset, Fetched, LogError,
        gap::{self, Gap},
    },
    record::SourceIndex,
};
use rdkafka_sys::types::RDKafkaErrorCode as Code;
use tracing::{debug, warn};

use self::records::Records;
use crate::{
    failure::{self, is_outage},
    ffi::{Batch, Client, ClientEvent, Failure, Kind, Offsets, Queue, Signal, c_text},
    offsets,
    options::{LaneLogOptions, SourceOptions, Start},
    producer::log_line,
    settings::{self, REQUEST_TIMEOUT},
};

/// Records taken from one partition at a time.
const BATCH_RECORDS: usize = 500;

/// How long a partition may end before the wanted offset.
const END_PATIENCE: Duration = Duration::from_secs(3);
const END_STEP: Duration = Duration::from_millis(50);

/// How long librdkafka's own thread may take to answer.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Source {
    options: SourceOptions,
    topic: CString,
    queue: Option<Queue>,
    position: i64,
    /// The end was reported and nothing came since.
    is_at_end: bool,
    /// An end that comes next may be from before an outage.
    is_end_stale: bool,
    /// To be read again from `position`, to hear of the end once more.
    needs_seek: bool,
    /// What was jumped over before `position`, to be told.
    gap: Option<Gap>,
}

impl Source {
    fn partition(&self) -> i32 {
        self.options.partition.into()
    }
}

/// The consumer of a lane.
#[derive(Debug)]
pub(crate) struct LaneConsumer {
    sources: Vec<Source>,
    /// What librdkafka does not put into a partition's queue.
    common: Option<Queue>,
    batch: Batch,
    /// Something is left that no signal will tell of.
    has_more: bool,
    is_assigned: bool,
    // Last: outlives the queues.
    client: Client,
}

impl LaneConsumer {
    /// Makes the client; it connects in the background.
    pub(crate) fn new(options: &LaneLogOptions, signal: &Arc<Signal>) -> Result<Self, LogError> {
        let mut client =
            Client::new(Kind::Consumer, &settings::inputs(options)).map_err(LogError::Config)?;
        client.signal_to(signal);
        let sources = options.sources.iter().map(|source| {
            Ok(Source {
                topic: c_text(&source.topic).map_err(LogError::Config)?,
                options: source.clone(),
                queue: None,
                position: 0,
                is_at_end: false,
                is_end_stale: false,
                needs_seek: false,
                gap: None,
            })
        });
        Ok(Self {
            sources: sources.collect::<Result<_, LogError>>()?,
            common: None,
            batch: Batch::with_room(BATCH_RECORDS),
            has_more: false,
            is_assigned: false,
            client,
        })
    }

    /// Whether it reads already: then it cannot start anew.
    pub(crate) fn is_assigned(&self) -> bool {
        self.is_assigned
    }

    /// Whether a wait would miss something.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Asks what the group has committed for each source of the keyed inputs; one attempt.
    pub(crate) fn committed(
        &self,
        wait: Duration,
    ) -> Result<Vec<Option<CommittedOffset>>, Failure> {
        let keyed = || self.sources.iter().filter(|source| !source.options.is_broadcast);
        let mut list = list(keyed(), |_| 0).map_err(local_failure)?;
        self.client.committed(&mut list, wait)?;
        keyed()
            .map(|source| {
                let entry = list
                    .get(&source.topic, source.partition())
                    .ok_or_else(|| local_failure("the answer lacks a partition".to_owned()))?;
                if let Some(failure) = entry.failure {
                    return Err(failure);
                }
                let metadata = String::from_utf8_lossy(&entry.metadata).into_owned();
                let committed = CommittedOffset { position: entry.offset, metadata };
                Ok((entry.offset >= 0).then_some(committed))
            })
            .collect()
    }

    fn watermarks(&self, source: &Source) -> Result<(i64, i64), LogError> {
        offsets::watermarks(&self.client, &source.topic, source.partition())
            .map_err(|failure| of_source("asking for its offsets", source, &failure))
    }

    /// Returns the first offset kept and the one behind the last; a new leader learns of the latter
    /// late, so that one before the position is asked for again.
    fn extent(&self, source: &Source, position: i64) -> Result<(i64, i64), LogError> {
        let deadline = Instant::now() + END_PATIENCE;
        let pause = Signal::new().map_err(|error| LogError::Doubt(error.to_string()))?;
        loop {
            let (low, high) = self.watermarks(source)?;
            if position <= high || Instant::now() >= deadline {
                return Ok((low, high));
            }
            pause.wait(END_STEP);
        }
    }

    /// Returns where each source starts by its own option.
    pub(crate) fn start_positions(&self) -> Result<Vec<i64>, LogError> {
        self.sources.iter().map(|source| self.start_position(source)).collect()
    }

    fn start_position(&self, source: &Source) -> Result<i64, LogError> {
        let (low, high) = self.watermarks(source)?;
        match source.options.start {
            Start::Earliest => Ok(low),
            Start::Latest => Ok(high),
        }
    }

    /// Starts reading at these positions.
    pub(crate) fn assign(
        &mut self,
        positions: &[i64],
        signal: &Arc<Signal>,
    ) -> Result<(), LogError> {
        for index in 0..self.sources.len() {
            let source = &self.sources[index];
            let position = positions.get(index).copied().unwrap_or(-1);
            if position < 0 {
                return Err(LogError::Corrupt(format!(
                    "{}[{}] has no position to go on at",
                    source.options.topic, source.options.partition
                )));
            }
            let SourceOptions { topic, partition, on_gap, .. } = &source.options;
            let extent = self.extent(source, position)?;
            let found = gap::find((topic, *partition), *on_gap, position, extent)?;
            if let Some(Gap { position: to, lost }) = found {
                let what = match to > position {
                    true => "records are gone",
                    false => {
                        "the topic is another one than was read before: reading from its beginning"
                    }
                };
                let end = extent.1;
                warn!(topic, partition, from = position, to, end, lost, "{what}");
            }
            let source = &mut self.sources[index];
            source.position = found.map_or(position, |gap| gap.position);
            source.gap = found;
        }
        // Before the assignment, so that nothing arrives in the common queue.
        for source in &mut self.sources {
            let queue = self.client.partition_queue(&source.topic, source.options.partition.into());
            let mut queue = queue.ok_or_else(|| {
                LogError::Doubt("librdkafka gave no queue for a partition".to_owned())
            })?;
            queue.signal_to(signal);
            source.queue = Some(queue);
        }
        // Who leads each partition: librdkafka would ask within a second, a restart has less time.
        if let Err(failure) = self.client.fetch_metadata(REQUEST_TIMEOUT) {
            debug!(%failure, "no metadata yet");
        }
        self.common = self.client.consumer_queue();
        if let Some(common) = &mut self.common {
            common.signal_to(signal);
        }
        let list = list(self.sources.iter(), |source| source.position).map_err(LogError::Doubt)?;
        self.client.assign(&list).map_err(|f| failure::of_call("assigning partitions", &f))?;
        self.is_assigned = true;
        Ok(())
    }

    /// Hands over what has arrived for the wanted sources.
    pub(crate) fn fetch(
        &mut self,
        wanted: &[bool],
        take: &mut dyn FnMut(Fetched),
    ) -> Result<(), LogError> {
        self.has_more = false;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if let Some(Gap { position, lost }) = source.gap.take() {
                take(Fetched::Gap { source: source_index(index), position, lost });
            }
        }
        if self.background_events()? {
            self.forget_ends(take);
        }
        self.seek();
        if let Some(common) = &self.common {
            common.take_batch(&mut self.batch);
            self.common_errors(take)?;
        }
        for index in 0..self.sources.len() {
            if wanted.get(index).copied().unwrap_or(false) {
                self.fetch_source(index, take)?;
            }
        }
        Ok(())
    }

    /// Returns what the client has said last, and the end of every source that it knows.
    pub(crate) fn statistics(&self) -> (ClientStatistics, Vec<Option<i64>>) {
        let statistics = self.client.statistics();
        let end = |source: &Source| statistics.end_of(&source.options.topic, source.partition());
        (statistics.of_client("consumer"), self.sources.iter().map(end).collect())
    }

    /// Returns whether a connection was lost.
    fn background_events(&mut self) -> Result<bool, LogError> {
        let mut is_lost = false;
        let mut result = Ok(());
        self.client.events(Duration::ZERO, &mut |event| match event {
            ClientEvent::Log { level, facility, text } => log_line(level, &facility, &text),
            ClientEvent::Error { code, text, is_fatal } => {
                if is_fatal {
                    result = Err(LogError::Doubt(text));
                } else if is_outage(code) {
                    is_lost = true;
                } else {
                    warn!(%code, %text, "the consumer reports an error");
                }
            }
            ClientEvent::Undelivered { .. } => {}
        });
        result.map(|()| is_lost)
    }

    /// After an outage no end is known: those reported are taken back and asked for again.
    fn forget_ends(&mut self, take: &mut dyn FnMut(Fetched)) {
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.is_at_end {
                source.is_at_end = false;
                source.needs_seek = true;
                take(Fetched::Unknown { source: source_index(index) });
            } else {
                source.is_end_stale = true;
            }
        }
    }

    /// librdkafka reports an end offset once only: reading again from the same position makes it
    /// report once more.
    fn seek(&mut self) {
        if !self.sources.iter().any(|source| source.needs_seek) {
            return;
        }
        let Ok(mut list) = Offsets::with_room(self.sources.len()) else {
            return;
        };
        for source in self.sources.iter().filter(|source| source.needs_seek) {
            list.add(&source.topic, source.partition(), source.position, "");
        }
        if let Err(failure) = self.client.seek(&mut list, LOCAL_TIMEOUT) {
            warn!(%failure, "a seek failed and is tried again");
        }
        for source in self.sources.iter_mut().filter(|source| source.needs_seek) {
            let entry = list.get(&source.topic, source.options.partition.into());
            // One that has not been started yet is tried again.
            source.needs_seek = entry.is_none_or(|entry| entry.failure.is_some());
        }
    }

    /// Whether an end is still to be asked for.
    pub(crate) fn wants_attention(&self) -> bool {
        self.sources.iter().any(|source| source.needs_seek)
    }

    fn common_errors(&mut self, take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        let mut is_lost = false;
        for message in self.batch.iter() {
            match message.error() {
                Some(code) if is_outage(code) => is_lost = true,
                Some(code) => {
                    let text = message.error_text();
                    warn!(%code, %text, "the consumer reports an error");
                }
                // Records go to their partition's queue: one here would be lost to its source.
                None => {
                    return Err(LogError::Doubt(format!(
                        "a record of {}[{}] came by the wrong queue",
                        message.topic(),
                        message.partition()
                    )));
                }
            }
        }
        self.batch.clear();
        if is_lost {
            self.forget_ends(take);
        }
        Ok(())
    }

    fn fetch_source(
        &mut self,
        index: usize,
        take: &mut dyn FnMut(Fetched),
    ) -> Result<(), LogError> {
        // What waits behind a gap would be taken for what comes next.
        if self.sources[index].needs_seek {
            return Ok(());
        }
        let Some(queue) = &self.sources[index].queue else {
            return Ok(());
        };
        let count = queue.take_batch(&mut self.batch);
        if count == 0 {
            return Ok(());
        }
        self.has_more |= count == self.batch.room();
        let (has_more, error) = self.sources[index].hand_over(&self.batch, index, take);
        self.has_more |= has_more;
        self.batch.clear();
        match error {
            Some((code, text)) => self.partition_error(index, code, &text, take),
            None => Ok(()),
        }
    }

    fn partition_error(
        &mut self,
        index: usize,
        code: Code,
        text: &str,
        take: &mut dyn FnMut(Fetched),
    ) -> Result<(), LogError> {
        let source = &self.sources[index];
        match code {
            // What that means is found out where the lane goes on from what it has committed.
            Code::AutoOffsetReset | Code::OffsetOutOfRange => Err(LogError::Doubt(format!(
                "{}[{}]: nothing is at position {} any more",
                source.options.topic, source.options.partition, source.position
            ))),
            code if is_outage(code) => {
                self.forget_ends(take);
                self.has_more = true;
                Ok(())
            }
            Code::TopicAuthorizationFailed => Err(LogError::Config(format!(
                "{}: {text}; the user needs READ on the topic",
                source.options.topic
            ))),
            code => Err(LogError::Doubt(format!(
                "{}[{}]: {text} ({code:?})",
                source.options.topic, source.options.partition
            ))),
        }
    }
}

impl Source {
    /// Hands a batch over; returns whether the end has to be asked for again, and the error that
    /// cut the batch short.
    fn hand_over(
        &mut self,
        batch: &Batch,
        index: usize,
        take: &mut dyn FnMut(Fetched),
    ) -> (bool, Option<(Code, String)>) {
        let index = source_index(index);
        let mut records = Records::with_room(batch);
        let (mut has_more, mut failed) = (false, None);
        for message in batch.iter() {
            match message.error() {
                None => {
                    if self.advance(message.offset()) {
                        records.add(message);
                    }
                }
                Some(Code::PartitionEOF) => {
                    records.hand_over(index, take);
                    has_more |= self.reached_end(message.offset(), index, take);
                }
                Some(code) => {
                    failed = Some((code, message.error_text()));
                    // The rest of the batch is dropped: it is read again.
                    self.needs_seek = true;
                    break;
                }
            }
        }
        records.hand_over(index, take);
        (has_more, failed)
    }

    /// Takes note of a record; returns whether it is new: one from behind the position was handed
    /// over before.
    fn advance(&mut self, offset: i64) -> bool {
        if offset < self.position {
            let (topic, partition) = (&self.options.topic, self.options.partition);
            debug!(topic, partition, offset, position = self.position, "a record came twice");
            return false;
        }
        self.is_at_end = false;
        self.position = offset + 1;
        true
    }

    /// Takes note of an end; returns whether it has to be asked for again.
    fn reached_end(
        &mut self,
        offset: i64,
        source: SourceIndex,
        take: &mut dyn FnMut(Fetched),
    ) -> bool {
        // The end may lie behind control markers, which are no records.
        self.position = self.position.max(offset);
        if self.is_end_stale {
            self.is_end_stale = false;
            self.needs_seek = true;
            return true;
        }
        self.is_at_end = true;
        take(Fetched::AtEnd { source, position: self.position });
        false
    }
}

fn list<'a>(
    sources: impl Iterator<Item = &'a Source> + Clone,
    offset: impl Fn(&Source) -> i64,
) -> Result<Offsets, String> {
    let mut list = Offsets::with_room(sources.clone().count())?;
    for source in sources {
        list.add(&source.topic, source.partition(), offset(source), "");
    }
    Ok(list)
}

/// A lane has far fewer than 65,536 sources: partition numbers are 16 bits wide.
fn source_index(index: usize) -> SourceIndex {
    SourceIndex(u16::try_from(index).unwrap_or(u16::MAX))
}

fn local_failure(text: String) -> Failure {
    Failure { code: Code::Fail, text, is_fatal: false, is_retriable: false }
}

fn of_source(doing: &str, source: &Source, failure: &Failure) -> LogError {
    let doing = format!("{}[{}]: {doing}", source.options.topic, source.options.partition);
    failure::of_call(&doing, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_from_behind_the_position_is_not_handed_over_again() {
        let options = SourceOptions {
            topic: "in".to_owned(),
            partition: 0,
            start: Start::Earliest,
            on_gap: gap::OnGap::Fail,
            is_broadcast: false,
        };
        let mut source = Source {
            topic: c_text("in").unwrap(),
            options,
            queue: None,
            position: 5,
            is_at_end: true,
            is_end_stale: false,
            needs_seek: false,
            gap: None,
        };
        assert!(!source.advance(4));
        assert_eq!((source.position, source.is_at_end), (5, true));
        assert!(source.advance(5));
        // A control marker lies between.
        assert!(source.advance(7));
        assert_eq!((source.position, source.is_at_end), (8, false));
    }
}
