//! Goal: a lane that has halted goes on by a command that its message names; nothing happens
//! without `--execute`, nor while a process runs the pipeline. Method: offsets, journal and topics
//! damaged from outside, the binary as an operator uses it.

use std::fs;

use dovetail_tests::broker::Record;
use serde_json::Value;
use tempfile::TempDir;

use crate::host_process::{Host, LIMIT, Pipeline, dovetail, wait_for_status};
use crate::host_stream::{BASE, order, payment};

/// Exit code, standard output as JSON, standard error.
fn resolve(arguments: &[&str]) -> (Option<i32>, Value, String) {
    let output = dovetail(&[&["lanes", "resolve", "0", "--output", "json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), said)
}

fn produce(pipeline: &Pipeline, topic: &str, record: Record) {
    pipeline.client.produce(&pipeline.topic(topic), &[record]).unwrap();
}

fn wait_for_orders(host: &Host, position: i64) {
    wait_for_status(&host.admin(), |status| {
        status["lanes"][0]["sources"][0]["position"] == position
    });
}

/// Starts a pipeline that halts; returns what it says.
fn halts(pipeline: &Pipeline, text: &str) -> String {
    let mut host = pipeline.run_text("pipeline.yaml", text);
    assert_eq!(host.wait_exit(LIMIT), Some(3), "{}", host.text());
    host.text()
}

/// The keys of all results, sorted.
fn results(pipeline: &Pipeline, count: usize) -> Vec<String> {
    pipeline.client.wait_for(&pipeline.topic("results"), count, LIMIT).unwrap();
    let records = pipeline.client.read_committed(&pipeline.topic("results")).unwrap();
    let key = |record: &Record| {
        let value: Value = serde_json::from_str(&record.value_text()).unwrap();
        value["order_id"].as_str().unwrap().to_owned()
    };
    let mut keys: Vec<_> = records.iter().map(key).collect();
    keys.sort();
    keys
}

#[test]
fn offsets_set_from_outside_are_overruled_by_the_journal_or_trusted_as_the_operator_says() {
    for (from, again) in [("journal", 0), ("offsets", 1)] {
        let pipeline = Pipeline::create(1);
        let text = pipeline.text();
        let file = pipeline.file("pipeline.yaml", &text);
        let file = file.to_str().unwrap();
        let host = pipeline.run();
        host.wait_for_lanes();
        produce(&pipeline, "orders", order("a", BASE, 1));
        produce(&pipeline, "orders", order("b", BASE + 1, 1));
        wait_for_orders(&host, 2);
        let (code, _, said) = resolve(&[file, "--from", from]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("stop the pipeline first"), "{said}");
        host.stop();
        let (code, _, said) = resolve(&[file, "--from", from]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("needs no operator"), "{said}");

        let group = format!("{}.state", pipeline.name);
        pipeline.client.set_offset(&group, &pipeline.topic("orders"), 0, 1).unwrap();
        let said = halts(&pipeline, &text);
        assert!(said.contains(&format!("dovetail lanes resolve 0 --from {from}")), "{said}");
        assert!(!said.contains("--from checkpoint"), "{said}");
        let (code, _, said) = resolve(&[file, "--from", "checkpoint"]);
        assert_eq!(code, Some(1), "{said}");

        // Looking changes nothing.
        for executed in [false, true] {
            halts(&pipeline, &text);
            let end = if executed { &["--execute"][..] } else { &[] };
            let (code, told, said) = resolve(&[&[file, "--from", from], end].concat());
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(told["executed"], executed, "{told}");
            let source = &told["sources"][0];
            assert_eq!((&source["committed"], &source["journal"]), (&1.into(), &2.into()));
            assert_eq!(source["records_again"], again, "{told}");
            assert_eq!(source["position"], 2 - again, "{told}");
        }
        let host = pipeline.run();
        host.wait_for_lanes();
        wait_for_orders(&host, 2);
        produce(&pipeline, "payments", payment("a", BASE + 2, 5, 1));
        assert_eq!(results(&pipeline, 1), ["a"]);
        let status = wait_for_status(&host.admin(), |_| true);
        assert_eq!(status["inputs"][0]["records"], again, "{status:#}");
        host.stop();
    }
}

#[test]
fn a_lost_journal_begins_anew_at_the_offsets_and_the_state_is_moved_aside() {
    let pipeline = Pipeline::create(1);
    let text = pipeline.text();
    let file = pipeline.file("pipeline.yaml", &text);
    let file = file.to_str().unwrap();
    let host = pipeline.run();
    host.wait_for_lanes();
    produce(&pipeline, "orders", order("a", BASE, 1));
    wait_for_orders(&host, 1);
    host.stop();
    pipeline.client.delete_topic(&pipeline.topic("journal")).unwrap();
    pipeline.client.wait_for_deletion(&pipeline.topic("journal")).unwrap();
    let said = halts(&pipeline, &text);
    assert!(said.contains("an empty journal"), "{said}");
    assert!(said.contains("resolve 0 --from offsets` goes on at the committed offsets, without"));
    let (code, _, said) = resolve(&[file, "--from", "journal"]);
    assert_eq!(code, Some(1), "{said}");
    let (code, told, said) = resolve(&[file, "--from", "offsets", "--execute"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((&told["epoch"], &told["sources"][0]["position"]), (&0.into(), &1.into()), "{told}");
    let aside = fs::read_dir(pipeline.path("state")).unwrap().flatten();
    let names: Vec<_> =
        aside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.contains(&"lane-000.broken-1".to_owned()), "{names:?}");
    let host = pipeline.run();
    host.wait_for_lanes();
    produce(&pipeline, "orders", order("b", BASE + 1, 1));
    produce(&pipeline, "payments", payment("b", BASE + 2, 5, 1));
    assert_eq!(results(&pipeline, 1), ["b"]);
    host.stop();
}

#[test]
fn where_journal_and_offsets_are_lost_a_checkpoint_is_gone_back_to_and_a_new_one_taken() {
    let pipeline = Pipeline::create(1);
    let store = TempDir::new_in("/dev/shm").unwrap();
    let place = store.path().display();
    let text = format!(
        "{}checkpoint: {{ every: 1h, keep: 2, store: \"file://{place}\" }}\n",
        pipeline.text()
    );
    let file = pipeline.file("pipeline.yaml", &text);
    let file = file.to_str().unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    let admin = host.wait_for_lanes();
    produce(&pipeline, "orders", order("a", BASE, 1));
    wait_for_orders(&host, 1);
    let url = format!("http://{admin}");
    let taken = dovetail(&["checkpoint", "trigger", "--url", &url, file]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    produce(&pipeline, "orders", order("b", BASE + 1, 1));
    wait_for_orders(&host, 2);
    host.stop();
    pipeline.client.delete_group(&format!("{}.state", pipeline.name)).unwrap();
    pipeline.client.delete_topic(&pipeline.topic("journal")).unwrap();
    pipeline.client.wait_for_deletion(&pipeline.topic("journal")).unwrap();

    let said = halts(&pipeline, &text);
    assert!(said.contains("dovetail lanes resolve 0 --from checkpoint"), "{said}");
    let (code, told, said) = resolve(&[file, "--from", "checkpoint"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["sources"][0]["position"], 1, "{told}");
    halts(&pipeline, &text);
    let (code, _, said) = resolve(&[file, "--from", "checkpoint", "--execute"]);
    assert_eq!(code, Some(0), "{said}");

    // Once more without the local disk: the checkpoint that was taken then is on the journal.
    for is_lost in [false, true] {
        if is_lost {
            pipeline.delete_state();
        }
        let host = pipeline.run_text("pipeline.yaml", &text);
        host.wait_for_lanes();
        wait_for_orders(&host, 2);
        let key = if is_lost { "b" } else { "a" };
        produce(&pipeline, "payments", payment(key, BASE + 3, 5, 1));
        let count = if is_lost { 2 } else { 1 };
        assert_eq!(results(&pipeline, count), ["a", "b"][..count]);
        host.stop();
    }
}
