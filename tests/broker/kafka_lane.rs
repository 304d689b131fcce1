//! A lane's log on the real broker, driven step by step.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use dovetail_core::clock::{Clock, ManualClock};
use dovetail_core::epoch::{Attempt, Epoch, LaneId, metadata::CommitMetadata};
use dovetail_core::log::{Fetched, Log as _, LogError, Transaction};
use dovetail_core::output::{OutputBuffer, OutputRecord, Target};
use dovetail_core::record::{Headers, Record};
use dovetail_kafka::KafkaLog;
use dovetail_kafka::options::{
    Connection, LaneLogOptions, OutputTopic, SourceOptions, Start, TimestampBounds, journal_topic,
};
use dovetail_tests::broker::{Client, unique_name};

/// Limit for everything that must come.
const LIMIT: Duration = Duration::from_secs(30);

/// The lane's clock: a time that every broker takes.
pub(crate) const NOW: i64 = 1_750_000_000_000;

/// The topics of one pipeline with one lane: `in`, `out`, dead letters and journal.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) options: LaneLogOptions,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) dead_letters: String,
}

impl Lane {
    /// Makes the topics: the input with two partitions, the output with six.
    pub(crate) fn create(client: &Client, connection: Connection) -> Self {
        let pipeline = unique_name("lane");
        let topic = |name: &str| format!("{pipeline}.{name}");
        let (input, output, dead_letters) = (topic("in"), topic("out"), topic("dead-letters"));
        client.create_topic(&input, 2, &[]).unwrap();
        client.create_topic(&output, 6, &[]).unwrap();
        client.create_topic(&dead_letters, 1, &[]).unwrap();
        client.create_topic(&journal_topic(&pipeline), 1, &[]).unwrap();
        let source = |partition| SourceOptions {
            topic: input.clone(),
            partition,
            start: Start::Earliest,
            on_gap: dovetail_core::log::gap::OnGap::Fail,
            is_broadcast: false,
        };
        let written = |topic: &String| OutputTopic {
            topic: topic.clone(),
            timestamps: TimestampBounds::default(),
            max_batch_bytes: 1 << 20,
        };
        let options = LaneLogOptions {
            connection,
            lane: LaneId(0),
            transaction_timeout: Duration::from_secs(10),
            sources: vec![source(0), source(1)],
            outputs: vec![written(&output)],
            dead_letters: written(&dead_letters),
            journal_topic: journal_topic(&pipeline),
            pipeline,
            max_record_bytes: 1 << 20,
            prefetch_bytes: 1 << 20,
            producer_queue_bytes: 64 << 20,
            fetch_wait: Duration::from_millis(10),
            exactly_once: true,
        };
        Self { options, input, output, dead_letters }
    }

    pub(crate) fn log(&self) -> KafkaLog {
        KafkaLog::new(self.options.clone(), clock()).unwrap()
    }

    /// A log that owns the lane and reads from the start.
    pub(crate) fn started(&self) -> KafkaLog {
        let mut log = self.log();
        log.acquire().unwrap();
        let positions = log.start_positions().unwrap();
        log.resume(&positions).unwrap();
        log
    }
}

fn clock() -> Box<dyn Clock> {
    Box::new(ManualClock(NOW))
}

/// How to reach a plain broker.
pub(crate) fn plain(brokers: &str) -> Connection {
    Connection { brokers: brokers.to_owned(), ..Connection::default() }
}

/// What a lane has heard of one source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    pub(crate) records: Vec<Record>,
    pub(crate) end: Option<i64>,
    pub(crate) unknowns: usize,
    pub(crate) gap: Option<(i64, u64)>,
}

impl Heard {
    pub(crate) fn values(&self) -> Vec<String> {
        let value = |record: &Record| record.value.clone().unwrap_or_default().to_vec();
        self.records.iter().map(|r| String::from_utf8(value(r)).unwrap()).collect()
    }
}

/// Reads all sources of a lane until `done`.
pub(crate) fn read_until(
    log: &mut KafkaLog,
    heard: &mut [Heard],
    done: impl Fn(&[Heard]) -> bool,
) -> Result<(), LogError> {
    let deadline = Instant::now() + LIMIT;
    let wanted = vec![true; heard.len()];
    while !done(heard) {
        assert!(Instant::now() < deadline, "only this came within {LIMIT:?}: {heard:?}");
        log.wait(Duration::from_millis(100));
        log.fetch(&wanted, &mut |fetched| take(heard, fetched))?;
    }
    Ok(())
}

fn take(heard: &mut [Heard], fetched: Fetched) {
    match fetched {
        Fetched::Records { source, records } => {
            let heard = &mut heard[usize::from(source.0)];
            heard.end = None;
            heard.records.extend(records);
        }
        Fetched::AtEnd { source, position } => heard[usize::from(source.0)].end = Some(position),
        Fetched::Unknown { source } => {
            let heard = &mut heard[usize::from(source.0)];
            heard.end = None;
            heard.unknowns += 1;
        }
        Fetched::Gap { source, position, lost } => {
            heard[usize::from(source.0)].gap = Some((position, lost));
        }
        Fetched::Ended { .. } => panic!("a topic never ends"),
    }
}

/// Reads until both sources are at their end; returns what came.
pub(crate) fn read_to_end(log: &mut KafkaLog) -> [Heard; 2] {
    let mut heard = [Heard::default(), Heard::default()];
    let is_done = |heard: &[Heard]| heard.iter().all(|heard| heard.end.is_some());
    read_until(log, &mut heard, is_done).unwrap();
    heard
}

/// Metadata of an epoch; the hash tells it from others.
pub(crate) fn metadata(epoch: u64) -> CommitMetadata {
    CommitMetadata {
        lane: LaneId(0),
        epoch: Epoch(epoch),
        attempt: Attempt(7),
        journal_offset: 0,
        hash: epoch + 100,
    }
}

/// Commits an epoch with these outputs and chunks.
pub(crate) fn commit(
    log: &mut KafkaLog,
    epoch: u64,
    positions: &[i64],
    outputs: &OutputBuffer,
    chunks: &[&str],
) -> Result<i64, LogError> {
    let chunks: Vec<Vec<u8>> = chunks.iter().map(|chunk| chunk.as_bytes().to_vec()).collect();
    let metadata = metadata(epoch);
    log.commit(&Transaction { outputs, chunks: &chunks, positions, metadata })
}

/// Adds a result without headers.
pub(crate) fn emit(outputs: &mut OutputBuffer, key: &str, value: &[u8], time: Option<i64>) {
    outputs.push(OutputRecord {
        target: Target::Output(0),
        key: Some(key.as_bytes()),
        value: Some(value),
        headers: &Headers::default(),
        time,
    });
}

/// Reads the journal from an offset on; returns offsets and texts, and the end.
pub(crate) fn journal(log: &mut KafkaLog, from: i64) -> (Vec<(i64, String)>, i64) {
    let mut chunks = Vec::new();
    let end = log.read_journal(from, &mut |offset, chunk| {
        chunks.push((offset, String::from_utf8(chunk.to_vec()).unwrap()));
        ControlFlow::Continue(())
    });
    (chunks, end.unwrap())
}
