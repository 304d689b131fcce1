//! Goal: the loss of the local disk costs a restore, never data, and a checkpoint store that fails
//! disturbs nothing but itself. Method: a real store on another device than the state directory, a
//! kill, the state directory deleted, a journal that was trimmed; results compared with the stream.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::host_process::{Host, LIMIT, Pipeline, dovetail, get, wait_until};
use crate::host_stream::{BASE, Random, Stream, order};

const PARTITIONS: u16 = 2;

/// A folder in memory: another device than the state directory.
fn other_device() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap()
}

fn text(pipeline: &Pipeline, store: &Path, every: &str) -> String {
    let store = store.display();
    format!(
        "{}checkpoint: {{ every: {every}, keep: 2, store: \"file://{store}\" }}\n",
        pipeline.text()
    )
}

/// What a command prints as JSON, and whether it succeeded.
fn json(arguments: &[&str]) -> (bool, Value) {
    let output = dovetail(&[arguments, &["--output", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::String(said));
    (output.status.success(), value)
}

/// The first kept offset of each journal partition.
fn journal_starts(pipeline: &Pipeline) -> Vec<i64> {
    let records = pipeline.client.read_committed(&pipeline.topic("journal")).unwrap();
    let of = |partition| {
        let mut offsets = records.iter().filter(|record| record.partition == partition);
        offsets.next().map_or(0, |record| record.offset)
    };
    (0..i32::from(PARTITIONS)).map(of).collect()
}

fn trigger(host: &Host, file: &str) -> Value {
    let url = format!("http://{}", host.admin());
    let (is_ok, taken) = json(&["checkpoint", "trigger", file, "--url", &url]);
    assert!(is_ok, "{taken}\n{}", host.text());
    taken
}

#[test]
fn a_lost_state_directory_is_restored_and_results_come_exactly_once() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let store = other_device();
    let text = text(&pipeline, store.path(), "1h");
    let file = pipeline.file("pipeline.yaml", &text);
    let file = file.to_str().unwrap();
    let stream = Stream::generate(&mut Random::new(), 12_000, 5, PARTITIONS);
    let produce = |part: usize| {
        let size = stream.orders.len().div_ceil(4);
        for (topic, records) in [("orders", &stream.orders), ("payments", &stream.payments)] {
            let part = records.chunks(size).nth(part).unwrap();
            pipeline.client.produce(&pipeline.topic(topic), part).unwrap();
        }
    };
    let results = pipeline.topic("results");
    let host = pipeline.run_text("pipeline.yaml", &text);
    let mut followed = pipeline.client.follow(&results).unwrap();
    host.wait_for_lanes();
    for part in 0..2 {
        produce(part);
        let more = followed.records.len() + 1_000;
        assert!(followed.read(more, LIMIT).unwrap(), "{}", host.text());
        let taken = trigger(&host, file);
        assert_eq!(taken.as_array().unwrap().len(), usize::from(PARTITIONS));
    }
    wait_until("trimming", || journal_starts(&pipeline).iter().all(|start| *start > 0));
    produce(2);
    let more = followed.records.len() + 1_000;
    assert!(followed.read(more, LIMIT).unwrap(), "{}", host.text());
    host.kill();
    pipeline.delete_state();

    // The process is gone: the store itself is read.
    let (_, listed) = json(&["checkpoint", "list", file]);
    assert_eq!(listed.as_array().unwrap().len(), 2 * usize::from(PARTITIONS), "{listed}");
    let (is_ok, verified) = json(&["checkpoint", "verify", file]);
    assert!(is_ok && verified[0]["ok"] == true, "{verified}");
    let (is_ok, inspected) = json(&["checkpoint", "inspect", file]);
    assert!(is_ok, "{inspected}");
    assert!(inspected[0]["entries"]["event timers"].as_u64().unwrap() > 0, "{inspected}");

    let host = pipeline.run_text("pipeline.yaml", &text);
    host.wait_for("restoring from the checkpoint store");
    produce(3);
    assert!(followed.read(stream.results.len(), LIMIT).unwrap(), "{}", host.text());
    pipeline.client.wait_for(&pipeline.topic("late"), stream.late.len(), LIMIT).unwrap();
    host.stop();
    let read = |name| pipeline.client.read_committed(&pipeline.topic(name)).unwrap();
    stream.check(&read("results"), &read("late"));

    // Without the store the lost beginning is told, with the way out.
    pipeline.delete_state();
    let plain = pipeline.file("plain.yaml", &pipeline.text());
    let mut host = Host::start(&plain);
    assert_eq!(host.wait_exit(LIMIT), Some(78), "{}", host.text());
    assert!(host.text().contains("checkpoint.store"), "{}", host.text());
}

#[test]
fn a_store_of_another_pipeline_is_refused_with_both_names() {
    let store = other_device();
    let first = Pipeline::create(i32::from(PARTITIONS));
    let host = first.run_text("pipeline.yaml", &text(&first, store.path(), "1h"));
    host.wait_for_lanes();
    let second = Pipeline::create(i32::from(PARTITIONS));
    let file = second.file("pipeline.yaml", &text(&second, store.path(), "1h"));
    let mut refused = Host::start(&file);
    assert_eq!(refused.wait_exit(LIMIT), Some(78), "{}", refused.text());
    let told = refused.text();
    assert!(
        told.contains("belongs to pipeline") && told.contains("set `checkpoint.store`"),
        "{told}"
    );
    host.stop();
}

#[test]
fn a_damaged_file_is_found_by_verify() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let store = other_device();
    let text = text(&pipeline, store.path(), "1h");
    let host = pipeline.run_text("pipeline.yaml", &text);
    host.wait_for_lanes();
    let file = pipeline.path("pipeline.yaml");
    let file = file.to_str().unwrap();
    trigger(&host, file);
    host.stop();
    let files = fs::read_dir(store.path().join("files/0")).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let harmed = files.find(|path| fs::metadata(path).unwrap().len() > 0).unwrap();
    let mut bytes = fs::read(&harmed).unwrap();
    bytes[0] ^= 1;
    fs::write(&harmed, bytes).unwrap();
    let output = dovetail(&["checkpoint", "verify", file]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("expected") && text.contains("found"), "{text}");
}

/// Moves time past the record before in every partition, whose result comes out.
fn feed(pipeline: &Pipeline, number: &mut i64) {
    for partition in 0..PARTITIONS {
        let key = crate::host_stream::key_in(&format!("k{number}"), partition, PARTITIONS);
        let at = BASE + 20_000 * *number;
        let records = [order(&key, at, PARTITIONS)];
        pipeline.client.produce(&pipeline.topic("orders"), &records).unwrap();
        let paid = [crate::host_stream::payment(&key, at, number.unsigned_abs(), PARTITIONS)];
        pipeline.client.produce(&pipeline.topic("payments"), &paid).unwrap();
    }
    *number += 1;
}

#[test]
fn behind_a_trimmed_journal_the_store_is_needed_only_without_local_state_and_is_waited_for() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let disk = other_device();
    let store = disk.path().join("store");
    let text_every = |every| text(&pipeline, &store, every);
    let text = text_every("200ms");
    let host = pipeline.run_text("pipeline.yaml", &text);
    host.wait_for_lanes();
    let mut number = 0;
    wait_until("trimming", || {
        feed(&pipeline, &mut number);
        journal_starts(&pipeline).iter().all(|start| *start > 0)
    });
    host.stop();

    // From here on no checkpoint is due, so that nothing more is trimmed.
    let text = text_every("1h");
    // It does not answer: what it leads to is not there.
    let away = disk.path().join("away");
    fs::rename(&store, &away).unwrap();
    symlink("nowhere", &store).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    host.wait_for_lanes();
    host.stop();
    // It is lost.
    fs::remove_file(&store).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    host.wait_for_lanes();
    host.stop();

    // The local state is lost, too: what is kept elsewhere comes back in a while.
    fs::remove_dir_all(&store).unwrap();
    symlink("nowhere", &store).unwrap();
    pipeline.delete_state();
    let host = pipeline.run_text("pipeline.yaml", &text);
    let admin = host.admin();
    wait_until("readiness 503", || {
        let (code, body) = get(&admin, "/readyz");
        code == 503 && body.contains("the checkpoint store file://")
    });
    fs::remove_file(&store).unwrap();
    fs::rename(&away, &store).unwrap();
    host.wait_for("restoring from the checkpoint store");
    host.wait_for_lanes();
    host.stop();
}

#[test]
fn a_store_that_can_never_take_a_checkpoint_is_refused_at_its_place_in_the_file() {
    let pipeline = Pipeline::create(1);
    let disk = other_device();
    fs::write(disk.path().join("file"), "").unwrap();
    for (store, found) in [
        (disk.path().join("file"), "is there and is not a folder"),
        (disk.path().join("file/store"), "is there and is not a folder"),
        (PathBuf::from("/proc/store"), "nothing can be written to /proc"),
    ] {
        let file = pipeline.file("pipeline.yaml", &text(&pipeline, &store, "1h"));
        let file = file.to_str().unwrap();
        for (command, exit) in [(&["validate", "--connect", file][..], 1), (&["run", file], 78)] {
            let output = dovetail(command);
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(exit), "{told}");
            let place = told.contains("pipeline.yaml:") && told.contains("^");
            assert!(told.contains("error: checkpoint.store: ") && place, "{told}");
            assert!(told.contains(found) && !told.contains("the log did not answer"), "{told}");
        }
    }
}

/// Pain P40.
#[test]
fn a_failing_store_stops_no_commit_makes_readyz_503_and_heals() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let disk = other_device();
    let store = disk.path().join("store");
    let host = pipeline.run_text("pipeline.yaml", &text(&pipeline, &store, "200ms"));
    let admin = host.wait_for_lanes();
    let mut followed = pipeline.client.follow(&pipeline.topic("results")).unwrap();
    let mut number = 0;
    let mut feed = || feed(&pipeline, &mut number);
    wait_until("the first checkpoints", || {
        feed();
        journal_starts(&pipeline).iter().all(|start| *start > 0)
    });
    // A file in its place: what even the superuser cannot write into.
    fs::rename(&store, disk.path().join("away")).unwrap();
    fs::write(&store, "").unwrap();
    wait_until("readiness 503", || {
        feed();
        let (code, body) = get(&admin, "/readyz");
        code == 503 && body.contains("checkpoint_store") && body.contains("store")
    });
    let trimmed = journal_starts(&pipeline);
    followed.read(usize::MAX, Duration::from_secs(1)).unwrap();
    let before = followed.records.len();
    for _ in 0..3 {
        feed();
    }
    assert!(followed.read(before + 6, LIMIT).unwrap(), "commits do not go on:\n{}", host.text());
    assert_eq!(journal_starts(&pipeline), trimmed);
    fs::remove_file(&store).unwrap();
    fs::rename(disk.path().join("away"), &store).unwrap();
    wait_until("readiness 200", || {
        feed();
        get(&admin, "/readyz").0 == 200
    });
    wait_until("trimming", || {
        feed();
        journal_starts(&pipeline).iter().zip(&trimmed).all(|(now, before)| now > before)
    });
    host.stop();
}

#[test]
fn a_lane_whose_folder_is_gone_says_so_and_takes_the_next_checkpoint() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let store = other_device();
    let text = text(&pipeline, store.path(), "1h");
    let file = pipeline.file("pipeline.yaml", &text);
    let file = file.to_str().unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    let admin = host.wait_for_lanes();
    let mut followed = pipeline.client.follow(&pipeline.topic("results")).unwrap();
    let mut number = 0;
    let mut feed = || feed(&pipeline, &mut number);
    feed();
    trigger(&host, file);
    // What is applied is in memory: only a flush meets that the folder is gone.
    fs::rename(pipeline.path("state/lane-001"), pipeline.path("gone")).unwrap();
    let url = format!("http://{admin}");
    let taken = || json(&["checkpoint", "trigger", file, "--url", &url]);
    // A checkpoint fails by it or, where an epoch meets it first, the lane recovers.
    wait_until("the lane meets that its folder is gone", || {
        feed();
        taken();
        host.text().contains("No such file")
    });
    let met = host.wait_for("No such file");
    assert!(met.contains("lane-001"), "{met}");
    wait_until("the next checkpoint", || taken().0);
    followed.read(usize::MAX, Duration::from_secs(1)).unwrap();
    let before = followed.records.len();
    for _ in 0..3 {
        feed();
    }
    assert!(followed.read(before + 6, LIMIT).unwrap(), "{}", host.text());
    host.stop();
}
