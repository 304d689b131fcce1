//! NDJSON files as inputs.

use std::{fs, path::Path, sync::Arc};

use dovetail_core::{
    log::{Fetched, Log as _, LogError},
    output::OutputBuffer,
    record::SourceIndex,
};
use dovetail_embedded::EmbeddedCluster;
use proptest::{prop_assert_eq, test_runner::TestRunner};

use crate::rig::{commit, fetch_all, fetched_values, file_spec, log, open, temporary};

const ENDED: Fetched = Fetched::Ended { source: SourceIndex(0) };

/// What a lane reads of a file from a position on.
fn read_from(cluster: &Arc<EmbeddedCluster>, path: &Path, position: i64) -> Vec<(i64, String)> {
    let mut lane = log(cluster, file_spec(path));
    lane.resume(&[position]).expect("the position is there");
    let fetched = fetch_all(&mut lane);
    assert_eq!(fetched.last(), Some(&ENDED));
    fetched_values(&fetched)
}

fn owned(records: &[(i64, &str)]) -> Vec<(i64, String)> {
    records.iter().map(|(offset, value)| (*offset, (*value).to_owned())).collect()
}

#[test]
fn a_line_is_a_value_and_its_offset_is_its_first_byte() {
    let dir = temporary();
    let cluster = open(&dir.path().join("log"));
    let path = dir.path().join("a.ndjson");
    let cases: [(&str, &[(i64, &str)]); 8] = [
        ("", &[]),
        ("\u{feff}1\n2\n", &[(0, "1"), (5, "2")]),
        ("1\n\u{feff}2\n", &[(0, "1"), (2, "\u{feff}2")]),
        ("\n\n", &[]),
        ("1\n22\n", &[(0, "1"), (2, "22")]),
        ("1\n22", &[(0, "1"), (2, "22")]),
        ("1\r\n\r\n2\r\n", &[(0, "1"), (5, "2")]),
        ("\n 1 \n\n\n2\n\n", &[(1, " 1 "), (7, "2")]),
    ];
    for (content, expected) in cases {
        fs::write(&path, content).unwrap();
        assert_eq!(read_from(&cluster, &path, 0), owned(expected), "{content:?}");
    }
}

#[test]
fn a_position_in_a_line_stands_for_the_next_one() {
    let dir = temporary();
    let cluster = open(&dir.path().join("log"));
    let path = dir.path().join("a.ndjson");
    fs::write(&path, "aaa\nbb\n\nc").unwrap();
    let all = owned(&[(0, "aaa"), (4, "bb"), (8, "c")]);
    let first = [0, 1, 1, 1, 1, 2, 2, 2, 2, 3];
    for (position, first) in (0..).zip(first) {
        assert_eq!(read_from(&cluster, &path, position), all[first..], "from {position}");
    }
}

#[test]
fn a_file_larger_than_one_read_comes_whole() {
    let dir = temporary();
    let cluster = open(&dir.path().join("log"));
    let path = dir.path().join("a.ndjson");
    let long = "x".repeat(700_000);
    let lines: Vec<String> = (0..40_000)
        .map(|at| if at % 20_000 == 5 { long.clone() } else { format!("{{\"n\":{at}}}") })
        .collect();
    fs::write(&path, lines.join("\n")).unwrap();
    let values: Vec<String> =
        read_from(&cluster, &path, 0).into_iter().map(|(_, value)| value).collect();
    assert!(values == lines, "{} of {}", values.len(), lines.len());
}

#[test]
fn a_lane_goes_on_in_a_file_and_a_finished_one_may_not_grow() {
    let dir = temporary();
    let path = dir.path().join("a.ndjson");
    fs::write(&path, "1\n2\n3").unwrap();
    let none = OutputBuffer::default();
    {
        let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
        lane.resume(&[0]).unwrap();
        fetch_all(&mut lane);
        // The end is known, but not all lines are committed: not finished.
        commit(&mut lane, 0, 0, &none, &[3]).unwrap();
    }
    fs::write(&path, "1\n2\n3\n4\n").unwrap();
    {
        let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
        let position = lane.committed().unwrap()[0].as_ref().unwrap().position;
        lane.resume(&[position]).unwrap();
        assert_eq!(fetched_values(&fetch_all(&mut lane)), owned(&[(4, "3"), (6, "4")]));
        commit(&mut lane, 0, 1, &none, &[7]).unwrap();
    }
    for _ in 0..2 {
        let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
        let position = lane.committed().unwrap()[0].as_ref().unwrap().position;
        commit(&mut lane, 0, 2, &none, &[position]).unwrap();
        lane.resume(&[position]).unwrap();
        assert_eq!(fetch_all(&mut lane), [ENDED], "finished stays finished");
        commit(&mut lane, 0, 3, &none, &[position]).unwrap();
    }
    fs::write(&path, "1\n2\n3\n4\n5\n").unwrap();
    let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
    let Err(LogError::Config(message)) = lane.committed() else { panic!("it grew") };
    assert!(message.contains("had 8 bytes") && message.contains("now it has 10"), "{message}");
}

#[test]
fn a_file_that_was_cut_is_refused() {
    let dir = temporary();
    let path = dir.path().join("a.ndjson");
    fs::write(&path, "1\n").unwrap();
    let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
    let Err(LogError::Config(message)) = lane.resume(&[9]) else { panic!("it is short") };
    assert!(message.contains("has 2 bytes, but 9"), "{message}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = temporary();
    let path = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut lane = log(&open(&dir.path().join("log")), file_spec(&path));
    let Err(LogError::Config(message)) = lane.resume(&[0]) else { panic!("it is a pipe") };
    assert!(message.contains("is not a regular file"), "{message}");
}

#[test]
fn from_behind_any_record_exactly_the_rest_comes() {
    let dir = temporary();
    let cluster = open(&dir.path().join("log"));
    let path = dir.path().join("a.ndjson");
    let contents = "[ab\n]{0,40}\r?\n?";
    let result = TestRunner::default().run(&contents, |content| {
        fs::write(&path, &content).expect("written");
        let all = read_from(&cluster, &path, 0);
        for (at, (offset, _)) in all.iter().enumerate() {
            prop_assert_eq!(&read_from(&cluster, &path, offset + 1), &all[at + 1..]);
            prop_assert_eq!(&read_from(&cluster, &path, *offset), &all[at..]);
        }
        Ok(())
    });
    result.unwrap();
}
