//! A directory with an input topic, an output topic and dead letters, and lanes on it.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use dovetail_core::{
    epoch::{Attempt, Epoch, LaneId, metadata::CommitMetadata},
    log::{Fetched, Log as _, LogError, Transaction},
    output::{OutputBuffer, OutputRecord, Target},
    record::{Headers, Partition, Record},
};
use dovetail_embedded::{
    EmbeddedCluster, EmbeddedLog, LaneSpec, NewRecord, OutputSpec, Place, SourceSpec, Start,
};

pub(crate) const ORDERS: &str = "orders";
pub(crate) const RESULTS: &str = "results";
pub(crate) const DEAD: &str = "p.dead-letters";
pub(crate) const OUTPUT_PARTITIONS: u16 = 3;

pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Opens the directory with its topics: two partitions of orders, three of results.
pub(crate) fn open(dir: &Path) -> Arc<EmbeddedCluster> {
    let cluster = EmbeddedCluster::open(dir, false).expect("the directory opens");
    for (topic, partitions) in [(ORDERS, 2), (RESULTS, OUTPUT_PARTITIONS), (DEAD, 1)] {
        assert_eq!(cluster.ensure_topic(topic, partitions).expect("a topic"), partitions);
    }
    cluster
}

pub(crate) fn spec(lane: u16) -> LaneSpec {
    LaneSpec {
        pipeline: "p".to_owned(),
        lane: LaneId(lane),
        lanes: 2,
        sources: vec![SourceSpec {
            place: Place::Topic(ORDERS.to_owned()),
            partition: Partition(lane),
            start: Start::Earliest,
            is_broadcast: false,
        }],
        outputs: vec![OutputSpec { topic: RESULTS.to_owned(), follow: None }],
        dead_letters: OutputSpec { topic: DEAD.to_owned(), follow: None },
    }
}

/// A lane that reads one file and nothing else.
pub(crate) fn file_spec(path: &Path) -> LaneSpec {
    LaneSpec {
        lanes: 1,
        sources: vec![SourceSpec {
            place: Place::File(path.to_owned()),
            partition: Partition(0),
            start: Start::Earliest,
            is_broadcast: false,
        }],
        ..spec(0)
    }
}

pub(crate) fn follow_spec(path: PathBuf) -> LaneSpec {
    let mut spec = spec(0);
    spec.outputs[0].follow = Some(path);
    spec
}

pub(crate) fn log(cluster: &Arc<EmbeddedCluster>, spec: LaneSpec) -> EmbeddedLog {
    let mut log = EmbeddedLog::new(cluster, spec).expect("a lane's log");
    log.acquire().expect("the lane is acquired");
    log
}

pub(crate) fn order(partition: u16, value: &str) -> NewRecord {
    NewRecord {
        partition: Some(Partition(partition)),
        key: Some("k".into()),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..NewRecord::default()
    }
}

/// Output records of key and value, each with this event time.
pub(crate) fn results(records: &[(&str, &str)], time: i64) -> OutputBuffer {
    let mut buffer = OutputBuffer::default();
    for (key, value) in records {
        buffer.push(OutputRecord {
            target: Target::Output(0),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &Headers::default(),
            time: Some(time),
        });
    }
    buffer
}

/// Commits an epoch with one chunk that says its number.
pub(crate) fn commit(
    log: &mut EmbeddedLog,
    lane: u16,
    epoch: u64,
    outputs: &OutputBuffer,
    positions: &[i64],
) -> Result<i64, LogError> {
    let metadata = CommitMetadata {
        lane: LaneId(lane),
        epoch: Epoch(epoch),
        attempt: Attempt(7),
        journal_offset: -1,
        hash: 0xabc,
    };
    let chunks = [format!("epoch {epoch}").into_bytes()];
    log.commit(&Transaction { outputs, chunks: &chunks, positions, metadata })
}

/// Fetches until nothing more comes.
pub(crate) fn fetch_all(log: &mut EmbeddedLog) -> Vec<Fetched> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        log.fetch(&[true; 8], &mut |fetched| all.push(fetched)).expect("a fetch");
        if all.len() == before {
            return all;
        }
    }
}

/// The records of one source, as (offset, value).
pub(crate) fn fetched_values(fetched: &[Fetched]) -> Vec<(i64, String)> {
    let records = fetched.iter().filter_map(|fetched| match fetched {
        Fetched::Records { records, .. } => Some(records),
        _ => None,
    });
    records.flatten().map(|record| (record.offset, text(record))).collect()
}

pub(crate) fn text(record: &Record) -> String {
    String::from_utf8_lossy(record.value.as_deref().unwrap_or(b"(tombstone)")).into_owned()
}

pub(crate) fn topic_values(cluster: &EmbeddedCluster, topic: &str) -> Vec<String> {
    let records = cluster.read_topic(topic).expect("the topic is read");
    records.iter().map(|(_, record)| text(record)).collect()
}

pub(crate) fn journal(log: &mut EmbeddedLog, from: i64) -> (i64, Vec<(i64, Bytes)>) {
    let mut records = Vec::new();
    let end = log
        .read_journal(from, &mut |offset, chunk| {
            records.push((offset, chunk));
            ControlFlow::Continue(())
        })
        .expect("the journal is read");
    (end, records)
}
