//! Goal: records that are gone before they were read, a topic that was made anew and one that got
//! more partitions stop a pipeline, or are jumped over where the input says so, counted and
//! committed. Method: what an operator or the broker's retention does, between two runs and during
//! one.

use serde_json::Value;

use crate::host_process::{Host, LIMIT, Pipeline, wait_for_status};
use crate::host_stream::{BASE, order};

/// Orders of one key each, from a number on.
fn orders(pipeline: &Pipeline, from: i64, count: i64) {
    let orders: Vec<_> =
        (from..from + count).map(|at| order(&format!("o{at}"), BASE + at, 1)).collect();
    pipeline.client.produce(&pipeline.topic("orders"), &orders).unwrap();
}

fn source(status: &Value) -> &Value {
    &status["lanes"][0]["sources"][0]
}

/// Waits until the first input stands there; returns the status.
fn wait_for_position(host: &Host, position: i64) -> Value {
    wait_for_status(&host.admin(), |status| source(status)["position"] == position)
}

fn lost(status: &Value) -> u64 {
    let input = status["inputs"].as_array().unwrap().iter().find(|it| it["input"] == "orders");
    input.unwrap()["lost"].as_u64().unwrap()
}

fn with_earliest(pipeline: &Pipeline) -> String {
    pipeline.text().replacen("start: earliest\n", "start: earliest\n    on_gap: earliest\n", 1)
}

/// A pipeline of one partition that has read ten orders and was stopped.
fn stopped_at_ten() -> Pipeline {
    let pipeline = Pipeline::create(1);
    let host = pipeline.run();
    host.wait_for_lanes();
    orders(&pipeline, 0, 10);
    wait_for_position(&host, 10);
    host.stop();
    pipeline
}

#[test]
fn records_deleted_before_they_were_read_stop_a_pipeline_or_are_jumped_over_and_counted() {
    let pipeline = stopped_at_ten();
    let topic = pipeline.topic("orders");
    orders(&pipeline, 10, 20);
    pipeline.client.delete_records(&topic, 0, 30).unwrap();
    let mut refused = pipeline.run();
    assert_eq!(refused.wait_exit(LIMIT), Some(3), "{}", refused.text());
    assert!(refused.text().contains("offsets 10–29 (20 records) are gone"), "{}", refused.text());
    assert!(refused.text().contains("on_gap: earliest"), "{}", refused.text());

    // No record follows: the jump is committed all the same, so the next start finds no gap.
    let host = pipeline.run_text("pipeline.yaml", &with_earliest(&pipeline));
    let status = wait_for_status(&host.admin(), |status| {
        source(status)["position"] == 30 && lost(status) == 20
    });
    let ready = &status["readiness"];
    assert_eq!(ready["ready"], true, "{status:#}");
    host.stop();
    let host = pipeline.run();
    host.wait_for_lanes();
    orders(&pipeline, 30, 5);
    assert_eq!(lost(&wait_for_position(&host, 35)), 0);
    host.stop();
}

#[test]
fn a_topic_made_anew_stops_a_pipeline_or_is_read_from_its_beginning() {
    // The broker forgets the committed offsets of a topic that is deleted; the journal has them.
    let pipeline = stopped_at_ten();
    let topic = pipeline.topic("orders");
    pipeline.client.delete_topic(&topic).unwrap();
    pipeline.client.create_topic_again(&topic, 1).unwrap();
    orders(&pipeline, 100, 3);
    let mut refused = pipeline.run();
    assert_eq!(refused.wait_exit(LIMIT), Some(3), "{}", refused.text());
    let said = refused.text();
    assert!(said.contains("position is 10, and the partition ends at 3"), "{said}");
    assert!(said.contains("made anew") && said.contains("on_gap: earliest"), "{said}");

    let host = pipeline.run_text("pipeline.yaml", &with_earliest(&pipeline));
    host.wait_for("reading from its beginning");
    let status = wait_for_status(&host.admin(), |status| {
        source(status)["position"] == 3 && status["inputs"][0]["records"] == 3
    });
    assert_eq!(lost(&status), 0, "{status:#}");
    host.stop();
    // What it stands at now is what the next start reads on from.
    let host = pipeline.run();
    host.wait_for_lanes();
    orders(&pipeline, 103, 1);
    wait_for_position(&host, 4);
    host.stop();
}

#[test]
fn records_deleted_while_a_pipeline_reads_are_jumped_over_and_counted() {
    let pipeline = stopped_at_ten();
    let topic = pipeline.topic("orders");
    orders(&pipeline, 10, 10);
    pipeline.client.delete_records(&topic, 0, 15).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &with_earliest(&pipeline));
    let status = wait_for_position(&host, 20);
    assert_eq!(lost(&status), 5, "{status:#}");
    orders(&pipeline, 20, 1);
    wait_for_position(&host, 21);
    pipeline.client.delete_records(&topic, 0, 21).unwrap();
    orders(&pipeline, 21, 1);
    assert_eq!(lost(&wait_for_position(&host, 22)), 5);
    host.stop();
}

#[test]
fn partitions_added_while_a_pipeline_runs_stop_it_with_both_numbers_and_the_ways_out() {
    let pipeline = Pipeline::create(2);
    let mut host = pipeline.run();
    host.wait_for_lanes();
    pipeline.client.grow_topic(&pipeline.topic("payments"), 5).unwrap();
    assert_eq!(host.wait_exit(LIMIT), Some(3), "{}", host.text());
    let said = host.text();
    assert!(said.contains("has 5 partitions now and had 2"), "{said}");
    assert!(said.contains("Ways out"), "{said}");
    let mut again = pipeline.run();
    assert_eq!(again.wait_exit(LIMIT), Some(78), "{}", again.text());
}
