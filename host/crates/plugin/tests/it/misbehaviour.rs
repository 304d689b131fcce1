//! Each way of going wrong has its typed failure, costs one call, and the next call works.

use dovetail_core::{
    options::CallLimits,
    plugin::FailureKind::{self, Deadline, Error, Limit, Memory, OutputRefused, Trap},
};
use dovetail_plugin::Limits;

use crate::guest::{Lane, impatient, limits, load};

/// Lets the guest misbehave after it wrote state, and checks that this costs one call only.
fn fails(behaviour: &str) -> (FailureKind, String) {
    fails_within(behaviour, limits())
}

fn fails_within(behaviour: &str, limits: Limits) -> (FailureKind, String) {
    let mut lane = Lane::new();
    lane.instance = lane.instance.revision().instantiate(limits);
    lane.handle("put before").unwrap();
    lane.handle("calls").unwrap();
    let failure = lane.handle(behaviour).unwrap_err();
    assert_eq!(lane.stored().as_deref(), Some(&b"before"[..]), "state of before the call");
    lane.handle("calls").unwrap();
    assert_eq!(lane.emitted(), ["2", "1"], "the call's outputs are undone, its instance is gone");
    (failure.kind, failure.message)
}

/// As [`fails`], with the kind and a part of the message.
fn fails_as(behaviour: &str, kind: FailureKind, part: &str) {
    let (found, message) = fails(behaviour);
    assert_eq!(found, kind, "{message}");
    assert!(message.contains(part), "{message}");
}

#[test]
fn panic_is_a_trap_with_its_message_and_place() {
    let (kind, message) = fails("panic");
    assert_eq!(kind, Trap);
    assert!(message.contains("the plugin lost its way"), "{message}");
    assert!(message.contains("misbehaving/src/lib.rs:"), "{message}");
    assert!(message.contains("behave"), "{message}");
}

#[test]
fn unreachable_instruction_is_a_trap_with_its_place() {
    let (kind, message) = fails("trap");
    assert_eq!(kind, Trap);
    assert!(message.contains("unreachable"), "{message}");
    let (_, place) = message.split_once(" at ").unwrap();
    assert!(place.contains("behave (") && place.contains("misbehaving/src/lib.rs:"), "{place}");
    assert_eq!(place.matches(" < ").count(), 2, "three places: {place}");
}

#[test]
fn error_of_the_handler_keeps_its_words() {
    assert_eq!(fails("error XXX"), (Error, "XXX is not a currency".to_owned()));
}

#[test]
fn error_of_the_handler_is_cut() {
    assert_eq!(fails("huge-error"), (Error, "e".repeat(4096)));
}

#[test]
fn loop_without_end_is_ended_by_its_deadline() {
    let (kind, message) = fails_within("loop", impatient());
    assert_eq!(kind, Deadline);
    assert!(message.contains("300ms"), "{message}");
}

#[test]
fn loop_through_imports_is_ended_by_its_deadline() {
    let (kind, message) = fails_within("loop-in-imports", impatient());
    assert_eq!(kind, Deadline);
    assert!(message.contains("300ms"), "{message}");
}

#[test]
fn allocating_without_end_is_a_memory_failure() {
    fails_as("allocate", Memory, "67108864");
}

#[test]
fn recursion_without_end_is_a_trap() {
    fails_as("recurse", Trap, "ran out of stack");
    fails_as("recurse-large", Trap, "out of bounds memory access");
}

#[test]
fn emitting_without_end_exceeds_the_limit() {
    fails_as("emit-without-end", Limit, "10000 records");
}

#[test]
fn emitting_too_many_bytes_exceeds_the_limit() {
    fails_as("emit-many-bytes", Limit, "8388608 bytes");
}

#[test]
fn record_that_its_topic_would_refuse_fails_the_call() {
    fails_as("emit-huge", OutputRefused, "topic-main");
}

#[test]
fn value_too_large_for_state_exceeds_the_limit() {
    fails_as("put-huge", Limit, "9437184 bytes");
}

#[test]
fn more_bytes_than_an_import_takes_exceed_the_limit() {
    fails_as("emit-gigantic", Limit, "33554432 bytes");
}

#[test]
fn headers_without_end_are_refused_before_they_are_copied() {
    let mut lane = Lane::new();
    let failure = lane.handle("many-headers").unwrap_err();
    assert!(matches!(failure.kind, Limit | OutputRefused), "{failure:?}");
    lane.handle("nothing").unwrap();
}

#[test]
fn unknown_state_output_and_metric_are_named() {
    fails_as("unknown-state", Limit, "state number 77");
    fails_as("unknown-state", Limit, "misbehaving/src/lib.rs:");
    fails_as("unknown-output", Limit, "output number 77");
    fails_as("unknown-metric", Limit, "metric number 77");
}

#[test]
fn value_state_is_neither_scanned_nor_given_entries() {
    fails_as("scan-value", Limit, "cannot be scanned");
    fails_as("entry-in-value", Limit, "has no entries");
}

#[test]
fn long_log_line_is_cut_and_stays_when_the_call_ends_well() {
    let mut lane = Lane::new();
    lane.handle("log-huge").unwrap();
    let lines = lane.context().telemetry().lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].text.len(), 1024);
}

#[test]
fn failing_again_and_again_costs_no_more_than_failing_once() {
    let mut lane = Lane::new();
    for _ in 0..200 {
        assert_eq!(lane.handle("panic").unwrap_err().kind, Trap);
    }
    lane.handle("put after").unwrap();
    assert_eq!(lane.stored().as_deref(), Some(&b"after"[..]));
}

#[test]
fn limits_are_those_that_were_given() {
    let revision = load("").unwrap();
    let mut lane = Lane::with(&revision, CallLimits { outputs_max: 3, ..CallLimits::default() });
    let failure = lane.handle("emit-without-end").unwrap_err();
    assert!(failure.message.contains("3 records"), "{}", failure.message);

    lane.instance = revision.instantiate(Limits { memory_bytes: 4 << 20, ..limits() });
    let failure = lane.handle("allocate").unwrap_err();
    assert!(failure.message.contains("4194304"), "{}", failure.message);

    lane.instance = revision.instantiate(Limits { import_bytes: 1 << 20, ..limits() });
    let failure = lane.handle("put-huge").unwrap_err();
    assert_eq!(failure.kind, Limit, "{}", failure.message);
    assert!(failure.message.contains("1048576 bytes"), "{}", failure.message);

    lane.instance = revision.instantiate(impatient());
    let failure = lane.handle("loop").unwrap_err();
    assert!(failure.message.contains("300ms"), "{}", failure.message);
}

#[test]
fn memory_too_small_for_the_plugin_itself_is_a_memory_failure() {
    let revision = load("").unwrap();
    let mut lane = Lane::with(&revision, CallLimits::default());
    lane.instance = revision.instantiate(Limits { memory_bytes: 1 << 16, ..limits() });
    assert_eq!(lane.handle("nothing").unwrap_err().kind, Memory);
    // And it is found before the first call, where one asks.
    lane.instance = revision.instantiate(Limits { memory_bytes: 1 << 16, ..limits() });
    assert_eq!(lane.instance.prepare().unwrap_err().kind, Memory);
    lane.instance = revision.instantiate(limits());
    lane.instance.prepare().unwrap();
    assert!(lane.instance.peak_memory_bytes() > 0 && lane.instance.calls() == 0);
}
