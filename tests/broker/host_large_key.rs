//! Goal: one key with a hundred thousand rows that all match one record is worked through in steps:
//! results stream, no epoch waits for the end of the work, the process can die in the middle of it,
//! and other lanes go on. Method: the host with the interval join on a real broker; how many results
//! lie between two commits is read from the offsets, where a commit leaves a marker.

use std::collections::BTreeSet;

use dovetail_tests::broker::Record;

use crate::host_process::{Host, LIMIT, Pipeline, component, wait_for_status};
use crate::host_stream::{BASE, key_in};

/// Rows that wait under one key.
const ROWS: usize = 100_000;
/// Pairs of other keys, in the other lane.
const OTHERS: usize = 50;
/// An epoch ends as soon as it holds so many bytes.
const EPOCH_BYTES: usize = 128 << 10;
/// What a result of this test has at least.
const RESULT_BYTES: usize = 20;
/// Pairs of one step: the last one of an epoch may begin just before it is full.
const STEP: usize = 100;

fn pipeline_text(pipeline: &Pipeline) -> String {
    let text = pipeline.text();
    let (inputs, _) = text.split_once("plugin:\n").unwrap();
    let name = &pipeline.name;
    format!(
        "{inputs}plugin:\n\
         \x20 file: plugin.wasm\n\
         \x20 inputs: {{ left: orders, right: payments }}\n\
         \x20 config: {{ kind: left, lower: 0s, upper: 10s, result: {{ l: left.n, r: right.n }} }}\n\
         outputs:\n\
         \x20 main: {{ topic: {name}.results }}\n\
         \x20 late: {{ topic: {name}.late }}\n\
         lanes: 2\n\
         commit: {{ max_bytes: {EPOCH_BYTES}B }}\n\
         state: {{ dir: state }}\n\
         admin: {{ listen: \"127.0.0.1:0\" }}\n"
    )
}

fn record(key: &str, partition: i32, n: usize) -> Record {
    let value = format!(r#"{{"order_id":"{key}","ts":{BASE},"n":{n}}}"#);
    Record::new(key, &value).in_partition(partition)
}

fn wait_until_read(host: &Host, count: usize) {
    let admin = host.admin();
    wait_for_status(&admin, |status| {
        let inputs = status["inputs"].as_array().unwrap().iter();
        let read: u64 = inputs.map(|input| input["records"].as_u64().unwrap()).sum();
        read >= u64::try_from(count).unwrap()
    });
}

/// The longest run of results without a commit between them.
fn longest_run(results: &[&Record]) -> usize {
    let mut longest = 0;
    let mut run = 0;
    let mut before = None;
    for result in results {
        let follows = before == Some(result.offset - 1);
        run = if follows { run + 1 } else { 1 };
        longest = longest.max(run);
        before = Some(result.offset);
    }
    longest
}

#[test]
fn a_key_with_a_hundred_thousand_rows_for_one_record_is_worked_through_in_steps_across_a_kill() {
    let pipeline = Pipeline::create(2);
    pipeline.replace_plugin(&component("plugins/interval-join"));
    let text = pipeline_text(&pipeline);
    let [orders, payments, results] =
        ["orders", "payments", "results"].map(|name| pipeline.topic(name));
    let large = key_in("large", 0, 2);
    let rows: Vec<_> = (0..ROWS).map(|n| record(&large, 0, n)).collect();
    pipeline.client.produce(&orders, &rows).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    wait_until_read(&host, ROWS);

    let mut follower = pipeline.client.follow(&results).unwrap();
    let others: Vec<_> = (0..OTHERS).map(|at| key_in(&format!("other{at}"), 1, 2)).collect();
    let lefts: Vec<_> = others.iter().map(|key| record(key, 1, ROWS)).collect();
    let rights: Vec<_> = others.iter().map(|key| record(key, 1, ROWS)).collect();
    pipeline.client.produce(&payments, &[record(&large, 0, ROWS)]).unwrap();
    pipeline.client.produce(&orders, &lefts).unwrap();
    pipeline.client.produce(&payments, &rights).unwrap();

    // Killed while most is still to do: the others have come by then.
    let is_other = |result: &Record| result.value_text() == format!(r#"{{"l":{ROWS},"r":{ROWS}}}"#);
    let mut of_others = 0;
    while of_others < OTHERS || of_others == follower.records.len() {
        assert!(follower.read(follower.records.len() + 1, LIMIT).unwrap(), "nothing more comes");
        of_others += usize::from(follower.records.last().is_some_and(is_other));
    }
    let of_large = follower.records.len() - of_others;
    assert!(of_large < ROWS, "the other lane waited for the large key");
    host.kill();
    let host = pipeline.run_text("pipeline.yaml", &text);
    pipeline.client.wait_for(&results, ROWS + OTHERS, LIMIT).unwrap();
    host.stop();

    let all = pipeline.client.read_committed(&results).unwrap();
    let (of_others, of_large): (Vec<&Record>, Vec<&Record>) =
        all.iter().partition(|result| is_other(result));
    let distinct: BTreeSet<_> = of_large.iter().map(|result| result.value_text()).collect();
    assert_eq!((of_others.len(), of_large.len(), distinct.len()), (OTHERS, ROWS, ROWS));
    let longest = longest_run(&of_large);
    assert!(longest <= EPOCH_BYTES / RESULT_BYTES + STEP, "{longest} results in one epoch");
    for topic in ["late", "dead-letters"] {
        assert_eq!(pipeline.client.read_committed(&pipeline.topic(topic)).unwrap(), []);
    }
}
