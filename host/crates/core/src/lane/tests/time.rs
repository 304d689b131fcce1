//! Order, lateness, idleness and timers.

use super::harness::{Harness, tag, value};
use crate::{
    context::{Context, ContextError, emit::OutputKey},
    lane::Event,
    options::{LatePolicy, WhenAllIdle},
    record::{Headers, SourceIndex},
    time::NO_WATERMARK,
    timers::TimerDomain,
};

/// Emits `value@time late` for a record; registers an event timer at `timer N`; emits fired ones.
fn echo(context: &mut Context) -> Result<(), ContextError> {
    let text = match tag(context) {
        Some(tag) => format!("timer {tag} at {}", context.watermark()),
        None => value(context),
    };
    if let Some(time) = text.strip_prefix("register ") {
        let time = time.parse().unwrap_or(0);
        return context.timer_register(TimerDomain::Event, time, time.unsigned_abs());
    }
    if let Some(time) = text.strip_prefix("process ") {
        let time = time.parse().unwrap_or(0);
        return context.timer_register(TimerDomain::Processing, time, time.unsigned_abs());
    }
    let late = if context.is_late() { " late" } else { "" };
    let text = format!("{text}{late}");
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

fn texts(harness: &mut Harness) -> Vec<String> {
    harness.outputs().into_iter().map(|(output, text)| format!("{output}: {text}")).collect()
}

#[test]
fn the_smallest_event_time_among_the_heads_is_next() {
    let mut harness = Harness::new(echo);
    harness.add(0, Some("k"), Some(5), "a");
    harness.add(1, Some("k"), Some(3), "b");
    harness.add(0, Some("k"), Some(4), "c");
    harness.settle();
    assert_eq!(texts(&mut harness), ["main: b", "main: a", "main: c"]);
}

#[test]
fn nothing_is_taken_while_a_partition_is_unknown_until_the_wait_is_over() {
    let mut harness = Harness::new(echo);
    harness.add(0, Some("k"), Some(5), "a");
    harness.work();
    assert_eq!(texts(&mut harness), [""; 0]);
    harness.clock(10_000);
    assert_eq!(texts(&mut harness), ["main: a"]);
}

#[test]
fn late_is_at_or_before_the_watermark_of_that_moment() {
    let mut harness = Harness::new(echo);
    harness.step(Event::Ended { source: SourceIndex(1) });
    for (time, name) in [(1_000, "o1"), (1_000, "o2"), (999, "o3")] {
        harness.left("k", time, name);
    }
    assert_eq!(texts(&mut harness), ["main: o1", "main: o2", "main: o3 late"]);
}

#[test]
fn the_verdict_is_the_same_however_records_arrive() {
    for batch in [1, 2, 3] {
        let mut harness = Harness::new(echo);
        harness.step(Event::Ended { source: SourceIndex(1) });
        let records = [(1_000, "o1"), (1_000, "o2"), (999, "o3")];
        for records in records.chunks(batch) {
            for (time, name) in records {
                harness.add(0, Some("k"), Some(*time), name);
            }
            harness.settle();
        }
        let expected = ["main: o1", "main: o2", "main: o3 late"];
        assert_eq!(texts(&mut harness), expected, "in batches of {batch}");
    }
}

#[test]
fn a_late_record_goes_to_the_late_output_or_is_dropped_where_the_input_says_so() {
    for (policy, expected) in
        [(LatePolicy::SideOutput, vec!["late: b"]), (LatePolicy::Drop, Vec::new())]
    {
        let mut harness = Harness::with_options(echo, |options| options.inputs[0].late = policy);
        harness.step(Event::Ended { source: SourceIndex(1) });
        harness.left("k", 100, "a");
        assert_eq!(texts(&mut harness), ["main: a"]);
        harness.left("k", 50, "b");
        assert_eq!(texts(&mut harness), expected);
        assert_eq!(harness.reports.iter().map(|report| report.inputs[0].late).sum::<u64>(), 1);
    }
}

#[test]
fn a_source_at_its_end_holds_the_watermark_until_it_is_idle() {
    let mut harness = Harness::new(echo);
    harness.left("k", 100, "a");
    assert_eq!(harness.watermark(), NO_WATERMARK);
    harness.clock(100);
    assert_eq!(harness.watermark(), NO_WATERMARK, "idle needs more than idle_after");
    harness.left("k", 100, "b");
    harness.clock(101);
    assert_eq!(harness.watermark(), 99);
    assert!(harness.lane().status().sources[1].is_idle);
}

#[test]
fn a_source_that_comes_back_never_takes_the_watermark_back() {
    let mut harness = Harness::new(echo);
    harness.left("k", 100, "a");
    harness.clock(101);
    assert_eq!(harness.watermark(), 99);
    harness.right("k", 50, "b");
    assert_eq!(harness.watermark(), 99);
    assert!(harness.lane().status().sources[1].is_holder);
    assert_eq!(texts(&mut harness), ["main: a", "main: b late"]);
}

#[test]
fn when_all_is_idle_time_holds_or_follows_the_clock() {
    for (rule, expected) in [(WhenAllIdle::Hold, 99), (WhenAllIdle::FollowClock, 149)] {
        let mut harness = Harness::with_options(echo, |options| options.when_all_idle = rule);
        harness.left("k", 100, "a");
        harness.clock(101);
        harness.clock(151);
        assert_eq!(harness.watermark(), expected, "{rule:?}");
    }
}

#[test]
fn a_record_too_far_in_the_future_is_processed_and_moves_nothing() {
    let mut harness = Harness::with_options(echo, |options| {
        options.inputs[0].max_future_skew = Some(1_000);
    });
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("k", 1_001, "far");
    assert_eq!(harness.watermark(), NO_WATERMARK);
    harness.left("k", 10, "near");
    assert_eq!(harness.watermark(), 9);
    assert_eq!(texts(&mut harness), ["main: far", "main: near"]);
    assert_eq!(harness.reports.iter().map(|report| report.inputs[0].skew_ignored).sum::<u64>(), 1);
}

#[test]
fn timers_fire_in_order_before_the_record_that_moved_time() {
    let mut harness = Harness::new(echo);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("b", 1, "register 10");
    harness.left("a", 2, "register 10");
    harness.left("a", 3, "register 7");
    harness.left("c", 11, "after");
    let expected =
        ["main: timer 7 at 10", "main: timer 10 at 10", "main: timer 10 at 10", "main: after"];
    assert_eq!(texts(&mut harness), expected);
}

#[test]
fn a_timer_in_the_past_waits_for_the_next_move() {
    let mut harness = Harness::new(echo);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("a", 100, "register 5");
    harness.left("a", 100, "same time");
    assert_eq!(texts(&mut harness), ["main: same time"]);
    harness.left("a", 101, "later");
    assert_eq!(texts(&mut harness), ["main: timer 5 at 100", "main: later"]);
}

#[test]
fn the_end_of_the_inputs_fires_event_time_timers_and_no_others() {
    let mut harness = Harness::new(echo);
    harness.left("a", 1, "register 1000");
    harness.left("a", 1, "process 1000");
    harness.step(Event::Ended { source: SourceIndex(0) });
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.work();
    harness.clock(2_000);
    assert_eq!(texts(&mut harness), [format!("main: timer 1000 at {}", i64::MAX)]);
    assert!(harness.lane().is_finished());
}

#[test]
fn a_timer_that_registers_itself_for_ever_is_cut() {
    fn loops(context: &mut Context) -> Result<(), ContextError> {
        context.timer_register(TimerDomain::Event, 5, 1)
    }
    let mut harness =
        Harness::with_options(loops, |options| options.limits.firings_per_timer_max = 20);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("a", 1, "start");
    harness.left("a", 10, "move");
    assert_eq!(harness.outputs()[0].0, "timer_loop");
}

#[test]
fn timers_that_register_each_other_in_rotation_are_cut() {
    fn rotates(context: &mut Context) -> Result<(), ContextError> {
        let next = tag(context).map_or(0, |tag| (tag + 1) % 100);
        context.timer_register(TimerDomain::Event, 5, next)
    }
    let mut harness =
        Harness::with_options(rotates, |options| options.limits.firings_per_timer_max = 500);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("a", 1, "start");
    harness.left("a", 10, "move");
    assert_eq!(harness.outputs()[0].0, "timer_loop");
}

#[test]
fn a_late_record_that_the_late_output_would_refuse_is_a_dead_letter() {
    let mut harness = Harness::with_options(echo, |options| {
        options.inputs[0].late = LatePolicy::SideOutput;
        options.outputs[1].max_record_bytes = 200;
    });
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("k", 100, "a");
    harness.left("k", 50, &"x".repeat(300));
    let names: Vec<String> = harness.outputs().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["main", "output_refused"]);
}
