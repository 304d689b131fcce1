//! Commits that were cut off, and damage.

use std::{fs, io::Write as _, path::Path};

use dovetail_core::log::Log as _;
use dovetail_embedded::{EmbeddedCluster, EmbeddedError};

use crate::rig::{
    RESULTS, commit, follow_spec, journal, log, open, results, spec, temporary, topic_values,
};

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).expect("the file is there");
    file.write_all(bytes).expect("written");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}

#[test]
fn a_commit_cut_off_at_any_byte_never_happened() {
    let dir = temporary();
    let (source, trial) = (dir.path().join("source"), dir.path().join("trial"));
    let commits_length = || fs::metadata(source.join("commits")).expect("commits").len();
    let cluster = open(&source);
    let mut lane = log(&cluster, spec(0));
    commit(&mut lane, 0, 0, &results(&[("a", "first")], 5), &[1]).unwrap();
    let before = commits_length();
    commit(&mut lane, 0, 1, &results(&[("a", "second"), ("b", "third")], 5), &[3]).unwrap();
    let after = commits_length();
    drop((lane, cluster));
    for length in before..=after {
        if trial.exists() {
            fs::remove_dir_all(&trial).unwrap();
        }
        copy(&source, &trial);
        let commits = fs::OpenOptions::new().write(true).open(trial.join("commits")).unwrap();
        commits.set_len(length).unwrap();
        let cluster = open(&trial);
        let mut lane = log(&cluster, spec(0));
        let (records, chunks, position) = if length == after { (3, 2, 3) } else { (1, 1, 1) };
        assert_eq!(topic_values(&cluster, RESULTS).len(), records, "cut at {length}");
        assert_eq!(journal(&mut lane, 0).1.len(), chunks, "cut at {length}");
        assert_eq!(lane.committed().unwrap()[0].as_ref().unwrap().position, position);
        // And it goes on as if nothing had been.
        commit(&mut lane, 0, 9, &results(&[("a", "next")], 5), &[9]).unwrap();
        assert_eq!(topic_values(&cluster, RESULTS).len(), records + 1);
    }
}

#[test]
fn bytes_behind_what_is_committed_are_cut_off() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut lane = log(&cluster, spec(0));
    commit(&mut lane, 0, 0, &results(&[("a", "first")], 5), &[1]).unwrap();
    let files: Vec<_> = (0..3)
        .map(|partition| dir.path().join(format!("topics/{RESULTS}/{partition}.records")))
        .collect();
    let lengths = || -> Vec<u64> {
        files.iter().map(|file| fs::metadata(file).expect("a partition").len()).collect()
    };
    let before = lengths();
    drop((lane, cluster));
    for (at, file) in files.iter().enumerate() {
        append(file, &vec![0xee; at * 7 + 1]);
    }
    append(&dir.path().join("commits"), b"\x05\0\0\0half");
    let cluster = open(dir.path());
    assert_eq!(lengths(), before);
    assert_eq!(topic_values(&cluster, RESULTS), ["first"]);
}

#[test]
fn damage_before_the_last_commit_is_refused_with_the_place() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut lane = log(&cluster, spec(0));
    for epoch in 0..3 {
        commit(&mut lane, 0, epoch, &results(&[("a", "value")], 5), &[1]).unwrap();
    }
    drop((lane, cluster));
    let commits = dir.path().join("commits");
    let good = fs::read(&commits).unwrap();
    // After the header and the empty snapshot of a new directory: the length of a commit, which
    // makes it reach behind the end, its checksum, and its body.
    for (at, bit) in [(36, 1), (38, 0x80), (39, 0x40), (40, 1), (44, 1)] {
        let mut bad = good.clone();
        bad[at] ^= bit;
        fs::write(&commits, &bad).unwrap();
        let error = EmbeddedCluster::open(dir.path(), false).unwrap_err().to_string();
        assert!(error.contains("the commit at byte 36 is damaged"), "byte {at}: {error}");
        assert!(error.contains("and another follows it at byte "), "byte {at}: {error}");
        assert_eq!(fs::read(&commits).unwrap(), bad, "nothing is cut off");
    }
    let mut zeros = good.clone();
    zeros[36..60].fill(0);
    fs::write(&commits, &zeros).unwrap();
    let error = EmbeddedCluster::open(dir.path(), false).unwrap_err().to_string();
    assert!(error.contains("the commit at byte 36 is damaged"), "{error}");

    fs::write(&commits, &good).unwrap();
    let cluster = open(dir.path());
    let partition = cluster.read_topic(RESULTS).unwrap()[0].0.0;
    let records = dir.path().join(format!("topics/{RESULTS}/{partition}.records"));
    let mut bad = fs::read(&records).unwrap();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    fs::write(&records, &bad).unwrap();
    let error = cluster.read_topic(RESULTS).unwrap_err();
    assert!(error.to_string().contains("the record of offset 2 at byte"), "{error}");
    drop(cluster);
    fs::write(&records, &bad[..last]).unwrap();
    let error = EmbeddedCluster::open(dir.path(), false).unwrap_err();
    assert!(error.to_string().contains("are committed"), "{error}");
    fs::remove_file(&commits).unwrap();
    let error = EmbeddedCluster::open(dir.path(), false).unwrap_err();
    assert!(matches!(error, EmbeddedError::Corrupt { .. }), "{error}");
}

#[test]
fn a_followed_file_shows_what_is_committed_and_is_repaired_at_the_next_start() {
    let dir = temporary();
    let folder = dir.path().join("out");
    let follow = folder.join("out.ndjson");
    let line = |epoch: u64| format!("{{\"key\":\"a\",\"value\":{{\"n\":{epoch}}},\"time\":5}}\n");
    let lines = |epochs: std::ops::Range<u64>| epochs.map(line).collect::<String>();
    let shown = || fs::read_to_string(&follow).expect("the followed file");
    let add = |from: u64, to: u64| {
        let cluster = open(dir.path());
        let mut lane = log(&cluster, follow_spec(follow.clone()));
        for epoch in from..to {
            let value = format!("{{\"n\":{epoch}}}");
            commit(&mut lane, 0, epoch, &results(&[("a", &value)], 5), &[1]).expect("a commit");
        }
    };
    add(0, 3);
    assert_eq!(shown(), lines(0..3));
    append(&follow, b"{\"key\":\"half");
    add(3, 3);
    assert_eq!(shown(), lines(0..3), "what was not committed is cut off");
    add(3, 5);
    // The process died after commits and before all of their lines were there.
    let mut next = 5;
    for missing in [1, line(next).len(), line(next).len() + 3, 2 * line(next).len()] {
        add(next, next + 2);
        next += 2;
        let file = fs::OpenOptions::new().write(true).open(&follow).unwrap();
        file.set_len(u64::try_from(shown().len() - missing).unwrap()).unwrap();
        add(next, next);
        assert_eq!(shown(), lines(0..next), "{missing} bytes were missing");
    }
    fs::remove_dir_all(&folder).unwrap();
    add(next, next);
    assert_eq!(shown(), lines(0..next), "all that the commit file still has");
    {
        let cluster = open(dir.path());
        let mut lane = log(&cluster, follow_spec(follow.clone()));
        let large = "x".repeat(100_000);
        commit(&mut lane, 0, next, &results(&[("a", &large)], 5), &[1]).unwrap();
    }
    // The commit file becomes a snapshot, without lines.
    add(next, next);
    fs::remove_dir_all(&folder).unwrap();
    add(next, next + 1);
    assert_eq!(shown(), lines(next..next + 1), "a removed file goes on with what is new");
}

#[test]
fn a_followed_file_begins_with_its_topic_and_goes_on_after_a_start() {
    let dir = temporary();
    let follow = dir.path().join("out.ndjson");
    fs::write(&follow, "of an earlier directory\n").unwrap();
    let cluster = open(&dir.path().join("log"));
    let mut lane = log(&cluster, follow_spec(follow.clone()));
    assert_eq!(fs::read_to_string(&follow).unwrap(), "");
    commit(&mut lane, 0, 0, &results(&[("a", "1")], 5), &[1]).unwrap();
    drop((lane, cluster));
    let cluster = open(&dir.path().join("log"));
    drop((log(&cluster, follow_spec(follow.clone())), cluster));
    let expected = "{\"key\":\"a\",\"value\":1,\"time\":5}\n";
    assert_eq!(fs::read_to_string(&follow).unwrap(), expected);
}

#[test]
fn a_file_that_follows_a_topic_with_records_is_added_to() {
    let dir = temporary();
    let (first, second) = (dir.path().join("first.ndjson"), dir.path().join("second.ndjson"));
    fs::write(&second, "mine\n").unwrap();
    let cluster = open(&dir.path().join("log"));
    let mut lane = log(&cluster, follow_spec(first));
    commit(&mut lane, 0, 0, &results(&[("a", "1")], 5), &[1]).unwrap();
    drop(lane);
    drop(log(&cluster, follow_spec(second.clone())));
    assert_eq!(fs::read_to_string(&second).unwrap(), "mine\n");
}

#[test]
fn the_commit_file_stays_small_however_many_commits() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut lane = log(&cluster, follow_spec(dir.path().join("out.ndjson")));
    let large = "x".repeat(1 << 20);
    for epoch in 0..40 {
        commit(&mut lane, 0, epoch, &results(&[("a", &large)], 5), &[1]).unwrap();
    }
    drop((lane, cluster));
    assert!(fs::metadata(dir.path().join("commits")).unwrap().len() < 18 << 20);
    let cluster = open(dir.path());
    assert_eq!(topic_values(&cluster, RESULTS).len(), 40);
    assert!(fs::metadata(dir.path().join("commits")).unwrap().len() < 2_000);
    let follow = fs::read_to_string(dir.path().join("out.ndjson")).unwrap();
    assert_eq!(follow.lines().count(), 40);
    let mut lane = log(&cluster, spec(0));
    assert_eq!(lane.committed().unwrap()[0].as_ref().unwrap().position, 1);
    assert_eq!(journal(&mut lane, 0).1.len(), 40);
}
