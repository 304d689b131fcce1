//! Goal: whatever step of a commit, a checkpoint or a restore a process dies after, no result is lost
//! or repeated. Method: the host with a second subscriber that kills the process when a step is
//! reported (`dovetail-at-step`); a stream whose results are known.

use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::host_process::{AtStep, Host, LIMIT, Pipeline};
use crate::host_stream::{Feed, Random, Stream, size};

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
    let each = stream.orders.len().div_ceil(deaths.len());
    let mut feed = Feed::new(&pipeline, &stream);
    for death in deaths {
        feed.piece(each);
        println!("{death:?}");
        let file = pipeline.file("pipeline.yaml", &text);
        let mut host = Host::start_at_step(&file, &death);
        assert_eq!(host.wait_exit(LIMIT), None, "{death:?} did not come:\n{}", host.text());
    }

    let host = pipeline.run_text("pipeline.yaml", &text);
    check(&pipeline, &stream, host);
}

/// Reads what must come, with the process that goes on, and stops that.
fn check(pipeline: &Pipeline, stream: &Stream, host: Host) {
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

/// Steps of checkpoints and restores, and after which of so many reports at most a process dies.
const CHECKPOINT_STEPS: [(&str, u64); 5] =
    [("kept", 10), ("published", 3), ("unlisted", 1), ("trimmed", 2), ("fetched", 4)];
/// Records of each topic that come at once.
const PIECE: usize = 50;

#[test]
fn a_process_that_dies_between_two_steps_of_a_checkpoint_or_restore_loses_and_repeats_nothing() {
    let mut random = Random::new();
    let rounds = usize::try_from(size(ROUNDS)).unwrap();
    let stream = Stream::generate(&mut random, 50_000 * size(ROUNDS), 5, 2);
    let pipeline = Pipeline::create(2);
    // On another device than the state directory: only then the journal is trimmed.
    let store = TempDir::new_in("/dev/shm").unwrap();
    let store = store.path().display();
    let last_text = format!(
        "{}checkpoint: {{ every: 200ms, keep: 2, store: \"file://{store}\" }}\n",
        pipeline.text()
    );
    let text = format!("{last_text}commit: {{ max_records: 100 }}\n");
    let mut feed = Feed::new(&pipeline, &stream);
    for (step, most) in CHECKPOINT_STEPS.into_iter().cycle().take(CHECKPOINT_STEPS.len() * rounds) {
        let count = 1 + random.below(most);
        let death = AtStep { step, count, signal: "KILL", after: Duration::ZERO };
        println!("{death:?}");
        let file = pipeline.file("pipeline.yaml", &text);
        let mut host = Host::start_at_step(&file, &death);
        let begin = Instant::now();
        // A checkpoint is taken when something was committed since the last one.
        while !host.ends_within(Duration::from_millis(200)) {
            assert!(begin.elapsed() < LIMIT, "{death:?} did not come:\n{}", host.text());
            feed.piece(PIECE);
        }
        assert_eq!(host.wait_exit(LIMIT), None, "{}", host.text());
        // Most starts have to restore: the journal begins behind what the process has kept.
        if step != "kept" {
            pipeline.delete_state();
        }
    }
    feed.rest();
    let host = pipeline.run_text("pipeline.yaml", &last_text);
    check(&pipeline, &stream, host);
}
