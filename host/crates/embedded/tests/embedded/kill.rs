//! A process killed at any moment leaves whole transactions.
//!
//! The child is this test binary, told by an environment variable to write without end; it says
//! each commit on its standard output and is killed somewhere in a later one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use dovetail_core::log::Log as _;

use crate::rig::{
    RESULTS, commit, follow_spec, journal, log, open, results, temporary, topic_values,
};

const DIR: &str = "DOVETAIL_TEST_WRITE_WITHOUT_END";
const RECORDS_PER_COMMIT: usize = 300;

/// Writes commits until `is_enough`; every commit has records in all partitions.
fn write(dir: &Path, mut is_enough: impl FnMut(u64) -> bool) {
    let cluster = open(dir);
    let mut lane = log(&cluster, follow_spec(dir.join("out.ndjson")));
    let mut next = committed_epochs(&mut lane);
    loop {
        let value = format!("{{\"epoch\":{next},\"filler\":\"{}\"}}", "x".repeat(4_000));
        let keys: Vec<String> = (0..RECORDS_PER_COMMIT).map(|key| key.to_string()).collect();
        let records: Vec<(&str, &str)> =
            keys.iter().map(|key| (key.as_str(), value.as_str())).collect();
        let position = [i64::try_from(next + 1).expect("small")];
        commit(&mut lane, 0, next, &results(&records, 5), &position).expect("a commit");
        next += 1;
        if is_enough(next) {
            return;
        }
    }
}

fn committed_epochs(lane: &mut dovetail_embedded::EmbeddedLog) -> u64 {
    let committed = lane.committed().expect("positions")[0].clone();
    committed.map_or(0, |offset| u64::try_from(offset.position).expect("not negative"))
}

/// Asserts that everything there is comes from whole commits; returns how many.
fn assert_whole(dir: &Path) -> u64 {
    let cluster = open(dir);
    let mut lane = log(&cluster, follow_spec(dir.join("out.ndjson")));
    let epochs = committed_epochs(&mut lane);
    let count = usize::try_from(epochs).expect("small");
    assert_eq!(journal(&mut lane, 0).1.len(), count, "a journal record per commit");
    let expected: Vec<usize> = vec![RECORDS_PER_COMMIT; count];
    let per_epoch = |values: &mut dyn Iterator<Item = String>| {
        let mut found = vec![0; count];
        for value in values {
            let (_, rest) = value.split_once("\"epoch\":").expect("an epoch");
            let (epoch, _) = rest.split_once(',').expect("a number");
            found[epoch.parse::<usize>().expect("a number")] += 1;
        }
        found
    };
    assert_eq!(per_epoch(&mut topic_values(&cluster, RESULTS).into_iter()), expected);
    let follow = fs::read_to_string(dir.join("out.ndjson")).unwrap_or_default();
    assert!(follow.is_empty() || follow.ends_with('\n'));
    assert_eq!(per_epoch(&mut follow.lines().map(str::to_owned)), expected);
    epochs
}

#[test]
fn writer_leaves_whole_commits() {
    if let Some(dir) = std::env::var_os(DIR) {
        let mut out = std::io::stdout();
        write(&PathBuf::from(dir), |epochs| {
            writeln!(out, "committed {epochs}").and_then(|()| out.flush()).is_err()
        });
    } else {
        let dir = temporary();
        write(dir.path(), |epochs| epochs == 3);
        assert_eq!(assert_whole(dir.path()), 3);
    }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_whole_commits() {
    let dir = temporary();
    let mut before = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::writer_leaves_whole_commits", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Kept open until the child is dead: it would end by itself without a reader.
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let said = out
            .by_ref()
            .lines()
            .map(|line| line.unwrap())
            .filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok())
            .nth(1 + round % 5)
            .expect("the writer goes on until it is killed");
        // How far into its next commits the writer is now is up to the scheduler.
        for _ in 0..round * 150_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "it was still writing");
        drop(out);
        let epochs = assert_whole(dir.path());
        assert!(epochs >= said, "{epochs} are left of {said} that were committed");
        assert!(epochs > before, "the writer went on");
        before = epochs;
    }
}
