//! Broadcast inputs: first in order, without a say in time, and where their positions are.

use super::harness::{Harness, value};
use crate::{
    context::{Context, ContextError, emit::OutputKey},
    lane::Event,
    options::{LaneOptions, WatermarkRule},
    record::{Decoding, Headers, SourceIndex},
};

const RULES: u16 = 1;

fn broadcast(options: &mut LaneOptions) {
    let input = &mut options.inputs[usize::from(RULES)];
    input.is_broadcast = true;
    input.watermark = WatermarkRule::None;
    input.idle_after = None;
}

/// Emits what it is given, broadcast records in capitals.
fn echo(context: &mut Context) -> Result<(), ContextError> {
    let text = value(context);
    let text = if context.is_broadcast() { text.to_uppercase() } else { text };
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

fn harness() -> Harness {
    Harness::with_options(echo, broadcast)
}

fn values(harness: &mut Harness) -> Vec<String> {
    harness.outputs().into_iter().map(|(_, value)| value).collect()
}

#[test]
fn what_is_fetched_of_a_broadcast_input_comes_before_the_next_keyed_record() {
    let mut harness = harness();
    harness.at_end(RULES);
    harness.add(0, Some("k"), Some(1), "a");
    harness.add(0, Some("k"), Some(2), "b");
    harness.step(Event::Proceed { calls_max: 1 });
    harness.add(RULES, None, Some(900), "r");
    harness.add(RULES, None, None, "s");
    harness.settle();
    assert_eq!(values(&mut harness), ["a", "R", "S", "b"]);
}

#[test]
fn no_keyed_record_is_taken_before_it_is_known_what_the_broadcast_input_holds() {
    let mut harness = harness();
    harness.fetched(0, Decoding::Ready { key: None, time: None }, "null key, no time");
    harness.add(0, Some("k"), Some(1), "a");
    harness.at_end(0);
    harness.work();
    assert!(values(&mut harness).is_empty());
    harness.clock(9_999);
    assert!(values(&mut harness).is_empty());
    harness.clock(10_000);
    assert_eq!(values(&mut harness), ["null key, no time", "a"], "`wait_for_input` is over");
}

#[test]
fn a_broadcast_record_moves_no_time_and_is_never_late() {
    let mut harness = harness();
    harness.left("k", 1_000, "a");
    let before = harness.watermark();
    harness.add(RULES, Some("k"), Some(5_000), "early");
    harness.add(RULES, Some("k"), Some(1), "old");
    harness.settle();
    assert_eq!(harness.watermark(), before);
    harness.commit();
    let late: u64 = harness.reports.iter().map(|report| report.inputs[1].late).sum();
    assert_eq!(late, 0);
    assert!(harness.reports.iter().all(|report| report.key_samples.is_empty()));
}

#[test]
fn where_a_broadcast_input_stands_is_in_the_epoch_record_and_in_no_offset() {
    let mut harness = harness();
    harness.left("k", 1, "a");
    harness.add(RULES, None, None, "r");
    harness.add(RULES, None, None, "s");
    harness.settle();
    harness.commit();
    assert_eq!(harness.positions(), [1]);
    assert_eq!(harness.recorded_positions(), [1, 2]);
    harness.crash();
    harness.settle();
    assert_eq!(values(&mut harness), ["a", "R", "S"], "each was handled once");
}

#[test]
fn a_lane_has_finished_when_its_keyed_inputs_have_and_nothing_broadcast_is_left() {
    let mut harness = harness();
    harness.step(Event::Ended { source: SourceIndex(0) });
    harness.work();
    assert!(!harness.lane().is_finished(), "what the broadcast input holds is not known");
    harness.add(RULES, None, None, "r");
    harness.at_end(RULES);
    harness.work();
    harness.commit();
    harness.work();
    assert!(harness.lane().is_finished());
    assert_eq!(harness.watermark(), i64::MAX);
    assert_eq!(values(&mut harness), ["R"]);
}
