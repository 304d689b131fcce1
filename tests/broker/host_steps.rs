//! Goal: whatever step of a commit a process dies after, no result is lost or repeated. Method: the
//! host with a second subscriber that kills the process when a step is reported
//! (`dovetail-at-step`); a stream whose results are known.

use std::time::Duration;

use dovetail_tests::broker::Record;

use crate::host_process::{AtStep, Host, LIMIT, Pipeline};
use crate::host_stream::{Random, Stream, size};

const PARTITIONS: u16 = 4;
/// Of each topic, for each process that dies.
const ORDERS_EACH: usize = 2_000;
/// Every step that the host reports, in order: of an acquisition, then of a commit.
const STEPS: [&str; 7] =
    ["fenced", "begun", "outputs", "journal", "offsets", "committed", "applied"];
/// How often each step is died after.
const ROUNDS: (&str, u64) = ("DOVETAIL_TEST_ROUNDS", 1);
/// Processes of a round that die while the commit itself is under way, and how long after it was asked for at
/// most, µs.
const COMMITTING: (usize, u64) = (3, 2_000);

/// Pain P36.
#[test]
fn a_process_that_dies_between_any_two_steps_of_a_commit_loses_and_repeats_nothing() {
    let mut random = Random::new();
    let rounds = 0..size(ROUNDS);
    let deaths: Vec<AtStep> = rounds.flat_map(|_| deaths(&mut random)).collect();
    let orders = u64::try_from(deaths.len() * ORDERS_EACH).unwrap();
    let stream = Stream::generate(&mut random, orders, 5, PARTITIONS);
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    // Many epochs, however slow the machine is.
    let text = format!("{}commit: {{ max_records: 100 }}\n", pipeline.text());
    let size = stream.orders.len().div_ceil(deaths.len());
    let mut parts = stream.orders.chunks(size).zip(stream.payments.chunks(size));
    for death in deaths {
        let (orders, payments) = parts.next().unwrap();
        produce(&pipeline, orders, payments);
        println!("{death:?}");
        let file = pipeline.file("pipeline.yaml", &text);
        let mut host = Host::start_at_step(&file, &death);
        assert_eq!(host.wait_exit(LIMIT), None, "{death:?} did not come:\n{}", host.text());
    }
    assert!(parts.next().is_none());

    let host = pipeline.run_text("pipeline.yaml", &text);
    let [results, late] = ["results", "late"].map(|name| pipeline.topic(name));
    pipeline.client.wait_for(&results, stream.results.len(), LIMIT).unwrap();
    pipeline.client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    host.stop();
    let read = |topic| pipeline.client.read_committed(topic).unwrap();
    stream.check(&read(&results), &read(&late));
    assert_eq!(read(&pipeline.topic("dead-letters")), []);
}

/// One death after each step, in an epoch that the seed gives, and some while a commit is under way.
fn deaths(random: &mut Random) -> Vec<AtStep> {
    let after_each = STEPS.map(|step| {
        // Each lane is acquired once, and has far more epochs than are waited for.
        let count = 1 + random.below(if step == "fenced" { 4 } else { 30 });
        AtStep { step, count, signal: "KILL", after: Duration::ZERO }
    });
    let committing = std::iter::repeat_with(|| AtStep {
        step: "offsets",
        count: 5 + random.below(20),
        signal: "KILL",
        after: Duration::from_micros(1 + random.below(COMMITTING.1)),
    });
    after_each.into_iter().chain(committing.take(COMMITTING.0)).collect()
}

fn produce(pipeline: &Pipeline, orders: &[Record], payments: &[Record]) {
    pipeline.client.produce(&pipeline.topic("orders"), orders).unwrap();
    pipeline.client.produce(&pipeline.topic("payments"), payments).unwrap();
}
