//! Epochs: what ends them, what a crash loses, what a restore finds.

use super::harness::{Harness, VALUE, tag, value};
use crate::{
    context::{Context, ContextError, emit::OutputKey},
    epoch::Epoch,
    lane::Event,
    options::LaneOptions,
    record::{Headers, SourceIndex},
    timers::TimerDomain,
};

/// Counts records per key; a timer 10 ms of event time later emits the count.
fn count(context: &mut Context) -> Result<(), ContextError> {
    let before = context.state_get(VALUE, b"")?.map_or(0, |bytes| bytes[0]);
    if tag(context).is_some() {
        let text = format!("{before} at {}", context.watermark());
        return context.emit(
            0,
            OutputKey::Current,
            Some(text.as_bytes()),
            &Headers::default(),
            None,
        );
    }
    context.state_put(VALUE, b"", &[before + 1])?;
    let at = context.current().event_time.unwrap_or(0) + 10;
    context.timer_register(TimerDomain::Event, at, 0)?;
    let text = value(context);
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

/// So that no deadline but that of the epoch is left.
fn never_idle(options: &mut LaneOptions) {
    options.inputs.iter_mut().for_each(|input| input.idle_after = None);
}

fn texts(harness: &mut Harness) -> Vec<String> {
    harness.outputs().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn the_first_epoch_shows_ownership_and_an_empty_one_is_not_committed() {
    let mut harness = Harness::new(count);
    assert_eq!(harness.lane().epoch(), Some(Epoch::GENESIS));
    harness.settle();
    harness.commit();
    assert_eq!(harness.lane().epoch(), Some(Epoch::GENESIS));
    harness.crash();
    assert_eq!(harness.lane().epoch(), Some(Epoch(1)));
}

#[test]
fn a_jump_over_lost_records_is_committed_without_any_record_and_counted() {
    let mut harness = Harness::with_options(count, never_idle);
    harness.add(0, Some("k"), Some(1), "x");
    harness.settle();
    harness.commit();
    // Forward behind what was deleted; back to the beginning of a topic that was made anew.
    for (position, lost) in [(500, 499), (0, 0)] {
        harness.crash();
        harness.step(Event::Gap { source: SourceIndex(0), position, lost });
        harness.commit();
        harness.crash();
        assert_eq!(harness.lane().status().sources[0].position, position);
    }
    let lost: u64 = harness.reports.iter().map(|report| report.inputs[0].lost).sum();
    assert_eq!(lost, 499);
}

#[test]
fn an_epoch_ends_by_time_records_and_bytes() {
    let mut harness = Harness::with_options(count, |options| options.commit.max_records = 2);
    for time in 1..=4 {
        harness.add(0, Some("k"), Some(time), "x");
    }
    harness.settle();
    assert_eq!(harness.lane().epoch(), Some(Epoch(2)));
    let mut harness = Harness::with_options(count, |options| options.commit.every = 100);
    harness.left("k", 1, "x");
    harness.clock(99);
    assert_eq!(harness.lane().epoch(), Some(Epoch::GENESIS));
    harness.clock(100);
    assert_eq!(harness.lane().epoch(), Some(Epoch(1)));
    let mut harness = Harness::with_options(count, |options| options.commit.max_bytes = 1);
    harness.left("k", 1, "x");
    harness.left("k", 2, "x");
    assert_eq!(harness.lane().epoch(), Some(Epoch(2)));
}

#[test]
fn an_idle_lane_commits_where_it_stands_before_that_expires() {
    let mut harness = Harness::with_options(count, |options| {
        options.commit.keepalive_every = 1_000;
        never_idle(options);
    });
    harness.left("k", 1, "x");
    harness.clock(400);
    harness.commit();
    assert_eq!(harness.lane().epoch(), Some(Epoch(1)));
    assert_eq!(harness.deadline(), Some(1_400));
    harness.clock(1_399);
    assert_eq!(harness.lane().epoch(), Some(Epoch(1)));
    harness.clock(1_400);
    assert_eq!(harness.lane().epoch(), Some(Epoch(2)));
    assert_eq!(harness.positions(), [1, 0]);
    harness.clock(2_399);
    assert_eq!(harness.lane().epoch(), Some(Epoch(2)));
    harness.clock(2_400);
    assert_eq!(harness.lane().epoch(), Some(Epoch(3)));
    // A lane that has read everything there will ever be has nothing to keep.
    harness.step(Event::Ended { source: SourceIndex(0) });
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.work();
    harness.commit();
    harness.work();
    let done = harness.lane().epoch();
    assert_eq!(harness.deadline(), None);
    harness.clock(10_000);
    assert_eq!(harness.lane().epoch(), done);
}

#[test]
fn epochs_are_as_long_as_commits_are_slow_and_short_again_afterwards() {
    let mut harness = Harness::with_options(count, |options| {
        options.commit.every = 100;
        never_idle(options);
    });
    let commits =
        [(0, 100), (700, 100), (100, 100), (101, 100), (101, 101), (700, 101), (9_000, 700)];
    for (commit_ms, length) in commits.into_iter().chain([(9_000, 800)]) {
        harness.commit_ms = commit_ms;
        harness.left("k", 1, "x");
        harness.commit();
        assert_eq!(harness.lane().epoch_length(), length, "after a commit of {commit_ms} ms");
    }
    let opened_at = harness.now;
    harness.left("k", 1, "x");
    assert_eq!(harness.deadline(), Some(opened_at + 800));
    let before = harness.lane().epoch();
    harness.clock(opened_at + 799);
    assert_eq!(harness.lane().epoch(), before);
    harness.commit_ms = 3;
    harness.clock(opened_at + 800);
    assert_eq!(harness.lane().epoch(), before.map(Epoch::next));
    assert_eq!(harness.lane().epoch_length(), 100);
}

#[test]
fn a_crash_loses_the_open_epoch_and_nothing_else() {
    let mut harness = Harness::new(count);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("k", 1, "a");
    harness.commit();
    harness.left("k", 2, "lost");
    harness.crash();
    assert_eq!(harness.lane().status().sources[0].position, 1);
    harness.left("k", 2, "b");
    harness.left("k", 50, "c");
    assert_eq!(texts(&mut harness), ["a", "b", "2 at 49", "2 at 49", "c"]);
}

#[test]
fn watermark_and_ended_sources_survive_a_restore() {
    let mut harness = Harness::new(count);
    harness.step(Event::Ended { source: SourceIndex(1) });
    harness.left("k", 100, "a");
    harness.commit();
    assert_eq!(harness.watermark(), 99);
    harness.crash();
    assert_eq!(harness.watermark(), 99);
    harness.left("k", 99, "late");
    harness.commit();
    assert_eq!(harness.reports.last().map(|report| report.inputs[0].late), Some(1));
}

#[test]
fn the_same_events_give_the_same_journal_whatever_the_epochs() {
    let run = |max_records| {
        let mut harness =
            Harness::with_options(count, |options| options.commit.max_records = max_records);
        harness.step(Event::Ended { source: SourceIndex(1) });
        for time in 0..50 {
            harness.left(&format!("k{}", time % 7), time, &format!("v{time}"));
        }
        texts(&mut harness)
    };
    assert_eq!(run(u32::MAX), run(1));
    assert_eq!(run(3), run(3));
}
