//! Format 1 as it was written once and must be readable for ever.
//!
//! `DOVETAIL_WRITE_FIXTURES=1` writes the fixture anew, for a new format in a new folder only.

use std::{
    fs,
    path::{Path, PathBuf},
};

use dovetail_core::{
    log::Log as _,
    output::{OutputBuffer, OutputRecord, Target},
    record::{Header, Headers, Partition},
};
use dovetail_embedded::NewRecord;

use crate::rig::{
    DEAD, ORDERS, RESULTS, commit, journal, log, open, order, spec, temporary, topic_values,
};

/// In the order of their names.
const FILES: [&str; 9] = [
    "commits",
    "topics/orders/0.records",
    "topics/orders/1.records",
    "topics/p.dead-letters/0.records",
    "topics/p.journal/0.records",
    "topics/p.journal/1.records",
    "topics/results/0.records",
    "topics/results/1.records",
    "topics/results/2.records",
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embedded/format-1")
}

/// What the fixture was made by.
fn write(dir: &Path) {
    let cluster = open(dir);
    let tombstone =
        NewRecord { key: Some("k".into()), timestamp: Some(-1), ..NewRecord::default() };
    cluster.append(ORDERS, &[order(0, "{\"n\":1}"), order(1, ""), tombstone]).expect("appended");
    let mut lane = log(&cluster, spec(1));
    let headers = Headers::new(vec![
        Header { name: "h".to_owned(), value: Some("v".into()) },
        Header { name: "h".to_owned(), value: None },
    ]);
    let mut outputs = OutputBuffer::default();
    for (target, key) in [(Target::Output(0), "a"), (Target::DeadLetters, "b")] {
        outputs.push(OutputRecord {
            target,
            key: Some(key.as_bytes()),
            value: Some(b"result"),
            headers: &headers,
            time: Some(1_772_359_200_000),
        });
    }
    commit(&mut lane, 1, 0, &OutputBuffer::default(), &[0]).expect("a commit");
    commit(&mut lane, 1, 1, &outputs, &[1]).expect("a commit");
}

fn copy(from: &Path, to: &Path) {
    for file in FILES {
        let (from, to) = (from.join(file), to.join(file));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(&from, &to).expect("copied");
    }
}

#[test]
fn a_directory_of_format_1_opens_with_all_that_is_in_it() {
    if std::env::var_os("DOVETAIL_WRITE_FIXTURES").is_some() {
        let dir = temporary();
        write(dir.path());
        copy(dir.path(), &fixture());
    }
    let dir = temporary();
    copy(&fixture(), dir.path());
    let cluster = open(dir.path());
    assert_eq!(cluster.cluster_id().len(), 32);
    let topics: Vec<(String, u16)> = cluster.topics().into_iter().collect();
    let expected = [(ORDERS, 2), (DEAD, 1), ("p.journal", 2), (RESULTS, 3)];
    assert!(topics.iter().map(|(name, count)| (name.as_str(), *count)).eq(expected));
    assert_eq!(topic_values(&cluster, ORDERS), ["{\"n\":1}", "(tombstone)", ""]);
    let (partition, tombstone) = cluster.read_topic(ORDERS).unwrap().swap_remove(1);
    assert_eq!((partition, tombstone.offset, tombstone.timestamp), (Partition(0), 1, Some(-1)));
    let (_, result) = cluster.read_topic(RESULTS).unwrap().pop().unwrap();
    assert_eq!(result.timestamp, Some(1_772_359_200_000));
    assert_eq!(result.headers.as_slice().len(), 2);
    assert_eq!(topic_values(&cluster, DEAD), ["result"]);
    let mut lane = log(&cluster, spec(1));
    assert_eq!(journal(&mut lane, 0).1, [(0, "epoch 0".into()), (1, "epoch 1".into())]);
    let committed = lane.committed().unwrap()[0].clone().unwrap();
    assert_eq!(committed.position, 1);
    assert!(committed.metadata.starts_with("D1;l=1;e=1;"));
}

#[test]
fn this_version_writes_format_1_byte_for_byte() {
    let dir = temporary();
    write(dir.path());
    for file in FILES {
        let mut expected = fs::read(fixture().join(file)).unwrap();
        let mut found = fs::read(dir.path().join(file)).unwrap();
        if file == "commits" {
            // Two directories never have the same id.
            assert_ne!(expected[8..24], found[8..24]);
            expected[8..24].fill(0);
            found[8..24].fill(0);
        }
        assert!(expected == found, "{file}");
    }
}

#[test]
fn a_newer_format_is_refused() {
    let dir = temporary();
    copy(&fixture(), dir.path());
    for file in ["topics/orders/0.records", "commits"] {
        let path = dir.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[4] = 2;
        fs::write(&path, bytes).unwrap();
        let opened = dovetail_embedded::EmbeddedCluster::open(dir.path(), false);
        let error = match opened.and_then(|cluster| cluster.read_topic(ORDERS)) {
            Ok(records) => panic!("{records:?}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("of format 1"), "{error}");
    }
}
