//! Undo, retry, dead letters, continuations, null keys.

use super::harness::{Harness, MAP, VALUE, tag, value};
use crate::{
    context::{Context, ContextError, emit::OutputKey},
    dead_letter::Reason,
    lane::StopCause,
    options::NullKeyPolicy,
    record::{Decoding, Headers},
    timers::TimerDomain,
};

/// Appends the value to the state and emits what stands there; also registers a timer.
fn append(context: &mut Context) -> Result<(), ContextError> {
    if context.key().is_none() {
        let text = Some(&b"no key"[..]);
        return context.emit(0, OutputKey::Current, text, &Headers::default(), None);
    }
    let before = context.state_get(VALUE, b"")?.unwrap_or_default();
    let text = format!("{}{}", String::from_utf8_lossy(&before), value(context));
    context.state_put(VALUE, b"", text.as_bytes())?;
    context.timer_register(TimerDomain::Processing, 1, text.len() as u64)?;
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

#[test]
fn a_failed_call_is_undone_and_its_record_kept() {
    let mut harness = Harness::new(append);
    harness.left("k", 1, "a");
    harness.left("k", 2, "trap");
    harness.left("k", 3, "b");
    let outputs = harness.outputs();
    let expected = [("main", "a"), ("plugin_trap", "trap"), ("main", "ab")];
    assert_eq!(outputs, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let failures: Vec<_> = harness.reports.iter().flat_map(|r| r.failures.clone()).collect();
    assert_eq!(failures, [(Reason::PluginTrap, 2)], "a trap is retried once");
}

#[test]
fn a_trap_that_a_fresh_instance_does_not_repeat_costs_nothing() {
    let mut harness = Harness::new(append);
    harness.left("k", 1, "trap once");
    assert_eq!(harness.outputs(), [("main".to_owned(), "trap once".to_owned())]);
}

#[test]
fn a_deadline_is_not_retried() {
    let mut harness = Harness::new(append);
    harness.left("k", 1, "deadline");
    harness.commit();
    let failures: Vec<_> = harness.reports.iter().flat_map(|r| r.failures.clone()).collect();
    assert_eq!(failures, [(Reason::PluginDeadline, 1)]);
}

#[test]
fn a_null_key_is_kept_dropped_or_processed_without_state() {
    let cases = [
        (NullKeyPolicy::DeadLetter, Some("null_key")),
        (NullKeyPolicy::Drop, None),
        (NullKeyPolicy::Process, Some("main")),
    ];
    for (policy, expected) in cases {
        let mut harness =
            Harness::with_options(append, |options| options.inputs[0].null_key = policy);
        harness.add(0, None, Some(1), "x");
        harness.settle();
        let outputs = harness.outputs();
        let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected.into_iter().collect::<Vec<_>>(), "{policy:?}");
    }
}

#[test]
fn an_undecodable_record_is_kept_and_the_next_goes_on() {
    let mut harness = Harness::new(append);
    let message = "expected JSON".to_owned();
    harness.fetched(0, Decoding::Rejected { reason: Reason::Decode, message }, "{");
    harness.left("k", 1, "a");
    let expected = [("decode", "{"), ("main", "a")];
    assert_eq!(harness.outputs(), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn a_flood_of_dead_letters_stops_the_pipeline() {
    let mut harness =
        Harness::with_options(append, |options| options.dead_letter_rate.percent_max = 10);
    for _ in 0..100 {
        harness.left("k", 1, "deadline");
    }
    assert!(matches!(harness.stopped, Some(StopCause::DeadLetterFlood { .. })));
}

/// Works through three steps, one call each.
fn steps(context: &mut Context) -> Result<(), ContextError> {
    let step = tag(context).unwrap_or(0);
    let text = format!("step {step}");
    context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)?;
    if step < 2 && value(context) != "next" {
        context.continue_with(step + 1)?;
    }
    Ok(())
}

#[test]
fn a_lane_says_how_many_of_the_allowed_calls_it_made() {
    let mut harness = Harness::new(steps);
    harness.add(0, Some("k"), Some(1), "first");
    harness.at_end(0);
    harness.at_end(1);
    for (calls_max, made) in [(2, 2), (0, 0), (10, 1), (10, 0)] {
        harness.step(crate::lane::Event::Proceed { calls_max });
        assert_eq!(harness.lane().calls_made(), made, "of {calls_max}");
    }
}

#[test]
fn a_continuation_runs_before_the_next_record_and_across_an_epoch_and_a_crash() {
    for max_records in [u32::MAX, 1] {
        let mut harness = Harness::with_options(steps, |options| {
            options.commit.max_records = max_records;
        });
        harness.add(0, Some("k"), Some(1), "first");
        harness.at_end(0);
        harness.at_end(1);
        harness.step(crate::lane::Event::Proceed { calls_max: 1 });
        if max_records == 1 {
            harness.step(crate::lane::Event::Proceed { calls_max: 1 });
            harness.crash();
        }
        harness.add(0, Some("k"), Some(2), "next");
        harness.settle();
        let texts: Vec<String> = harness.outputs().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["step 0", "step 1", "step 2", "step 0"], "epochs of {max_records}");
    }
}

#[test]
fn misuse_of_an_import_ends_the_call_with_what_was_wrong() {
    fn misuse(context: &mut Context) -> Result<(), ContextError> {
        match value(context).as_str() {
            "state" => context.state_get(9, b"").map(drop),
            "entry" => context.state_get(VALUE, b"x").map(drop),
            "scan" => context.state_scan(VALUE, b"", None, None, 1).map(drop),
            "output" => context.emit(7, OutputKey::Current, None, &Headers::default(), None),
            "size" => {
                let big = vec![0; 2_000];
                context.emit(0, OutputKey::Current, Some(&big), &Headers::default(), None)
            }
            _ => context.metric(1, 1.0),
        }
    }
    let mut harness = Harness::new(misuse);
    for text in ["state", "entry", "scan", "output", "size", "metric"] {
        harness.left("k", 1, text);
    }
    let reasons: Vec<String> = harness.outputs().into_iter().map(|(reason, _)| reason).collect();
    let limit = "plugin_limit";
    assert_eq!(reasons, [limit, limit, limit, limit, "output_refused", limit]);
}

#[test]
fn a_result_of_a_timer_that_is_refused_is_kept_itself_and_the_call_goes_on() {
    fn results(context: &mut Context) -> Result<(), ContextError> {
        let emit = |context: &mut Context, size: usize| {
            let text = "x".repeat(size);
            context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), Some(7))
        };
        match tag(context) {
            None => context.timer_register(TimerDomain::Event, 5, 0),
            // Undone, and so are the results that it could not emit.
            Some(1) => {
                emit(context, 2_000)?;
                context.state_get(9, b"").map(drop)
            }
            Some(tag) => {
                emit(context, 1)?;
                emit(context, 2_000)?;
                emit(context, 2)?;
                context.timer_register(TimerDomain::Event, 5, tag + 1)
            }
        }
    }
    let mut harness =
        Harness::with_options(results, |options| options.limits.firings_per_timer_max = 2);
    harness.step(crate::lane::Event::Ended { source: crate::record::SourceIndex(1) });
    harness.left("k", 1, "start");
    harness.left("k", 10, "move");
    let outputs = harness.outputs();
    let told: Vec<_> = outputs.iter().map(|(name, text)| (name.as_str(), text.len())).collect();
    let expected = [("main", 1), ("main", 2), ("output_refused", 2_000), ("plugin_limit", 0)];
    assert_eq!(told, expected);
    let failures: Vec<_> = harness.reports.iter().flat_map(|r| r.failures.clone()).collect();
    assert_eq!(failures, [(Reason::PluginLimit, 1)], "no call failed for what was refused");
}

#[test]
fn a_timer_whose_results_are_refused_is_no_flood() {
    fn results(context: &mut Context) -> Result<(), ContextError> {
        if tag(context).is_none() {
            return context.timer_register(TimerDomain::Event, 5, 0);
        }
        let text = "x".repeat(2_000);
        for _ in 0..200 {
            let time = Some(7);
            context.emit(
                0,
                OutputKey::Current,
                Some(text.as_bytes()),
                &Headers::default(),
                time,
            )?;
        }
        Ok(())
    }
    let mut harness =
        Harness::with_options(results, |options| options.dead_letter_rate.percent_max = 10);
    harness.step(crate::lane::Event::Ended { source: crate::record::SourceIndex(1) });
    harness.left("k", 1, "start");
    harness.left("k", 10, "move");
    assert!(harness.stopped.is_none(), "{:?}", harness.stopped);
    assert_eq!(harness.outputs().len(), 200);
}

#[test]
fn a_scan_comes_in_pages_and_a_range_is_removed() {
    fn pages(context: &mut Context) -> Result<(), ContextError> {
        if value(context) == "fill" {
            for entry in [b"a", b"b", b"c", b"d"] {
                context.state_put(MAP, entry, b"v")?;
            }
            return Ok(());
        }
        context.state_remove_range(MAP, b"b", Some(b"c"))?;
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = context.state_scan(MAP, b"", None, after.as_deref(), 2)?;
            seen.extend(page.entries.iter().flat_map(|(entry, _)| entry.to_vec()));
            after = page.entries.last().map(|(entry, _)| entry.to_vec());
            if !page.has_more {
                break;
            }
        }
        context.emit(0, OutputKey::Current, Some(&seen), &Headers::default(), None)
    }
    let mut harness = Harness::new(pages);
    harness.left("k", 1, "fill");
    harness.commit();
    harness.left("k", 2, "look");
    assert_eq!(harness.outputs(), [("main".to_owned(), "acd".to_owned())]);
}

#[test]
fn a_cut_continuation_sees_the_time_that_its_first_step_saw() {
    fn steps_with_time(context: &mut Context) -> Result<(), ContextError> {
        let step = tag(context).unwrap_or(0);
        let text = format!("{} at {}", value(context), context.watermark());
        context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)?;
        if step < 2 && value(context) != "next" {
            context.continue_with(step + 1)?;
        }
        Ok(())
    }
    let run = |max_records| {
        let mut harness = Harness::with_options(steps_with_time, |options| {
            options.commit.max_records = max_records;
        });
        harness.step(crate::lane::Event::Ended { source: crate::record::SourceIndex(1) });
        harness.add(0, Some("k"), Some(1), "first");
        harness.add(0, Some("k"), Some(900), "next");
        harness.settle();
        harness.outputs()
    };
    assert_eq!(run(1), run(u32::MAX));
}

#[test]
fn a_call_may_not_flood_state_timers_or_histograms() {
    fn floods(context: &mut Context) -> Result<(), ContextError> {
        for at in 0..u32::MAX {
            match value(context).as_str() {
                "state" => context.state_put(MAP, &at.to_be_bytes(), &[0; 1 << 20])?,
                "timers" => context.timer_register(TimerDomain::Event, at.into(), 0)?,
                "remove" => context.state_remove(MAP, &at.to_be_bytes())?,
                _ => context.metric(0, 1.0)?,
            }
        }
        Ok(())
    }
    let mut harness =
        Harness::with_options(floods, |options| options.limits.state_bytes_max = 4 << 20);
    for text in ["state", "timers", "remove", "metric"] {
        harness.left("k", 1, text);
    }
    let reasons: Vec<String> = harness.outputs().into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["plugin_limit"; 4]);
}

#[test]
fn a_page_of_large_rows_ends_before_its_count() {
    fn large(context: &mut Context) -> Result<(), ContextError> {
        if value(context) != "look" {
            for entry in [b"a", b"b", b"c"] {
                context.state_put(MAP, entry, &[0; 600])?;
            }
            return Ok(());
        }
        let page = context.state_scan(MAP, b"", None, None, 10)?;
        let text = format!("{} {}", page.entries.len(), page.has_more);
        context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
    }
    let mut harness = Harness::with_options(large, |options| options.limits.scan_bytes_max = 1_000);
    harness.left("k", 1, "fill");
    harness.left("k", 2, "look");
    assert_eq!(harness.outputs(), [("main".to_owned(), "1 true".to_owned())]);
}

#[test]
fn a_continuation_that_never_ends_is_cut() {
    fn for_ever(context: &mut Context) -> Result<(), ContextError> {
        if value(context) == "next" { Ok(()) } else { context.continue_with(1) }
    }
    let mut harness =
        Harness::with_options(for_ever, |options| options.limits.firings_per_timer_max = 20);
    harness.left("k", 1, "start");
    harness.left("k", 2, "next");
    let reasons: Vec<String> = harness.outputs().into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons, ["timer_loop"]);
}
