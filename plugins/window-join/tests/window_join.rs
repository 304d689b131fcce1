//! What the plugin does, over core's own lane.

use dovetail_sdk::Harness;
use window_join::WindowJoin;

type Join = Harness<WindowJoin>;

fn join(config: &str) -> Join {
    Join::new(config).expect("the configuration is right")
}

const PAIRS: &str =
    r#"{"window":{"kind":"tumbling","size":"100ms"},"result":{"l":"left.v","r":"right.v"}}"#;

fn feed(join: &mut Join, side: &str, time: i64) {
    join.record(side).key("k").time(time).value(&format!(r#"{{"v":{time}}}"#));
}

#[test]
fn window_with_many_pairs_is_worked_through_in_steps_and_emits_each_pair_once() {
    let mut join = join(PAIRS);
    for at in 0..70 {
        feed(&mut join, "left", at);
    }
    for at in 0..330 {
        feed(&mut join, "right", at % 100);
    }
    join.watermark(99);
    let mut pairs = join.values("main");
    assert_eq!(pairs.len(), 70 * 330);
    pairs.sort();
    pairs.dedup();
    assert_eq!(pairs.len(), 70 * 100);
    assert_eq!(join.rows(), 0);
}

#[test]
fn sliding_window_keeps_a_record_once_and_the_timers_of_one_window() {
    let rows = |slide: i64| {
        let config =
            format!(r#"{{"window":{{"kind":"sliding","size":"100ms","slide":"{slide}ms"}}}}"#);
        let mut join = join(&config);
        for time in 1_000..1_050 {
            feed(&mut join, "left", time);
        }
        join.rows()
    };
    // 50 records, what counts them, and timers: two per start of a record's first window.
    assert_eq!(rows(100), 53);
    assert!(rows(10) <= 51 + 12, "{}", rows(10));
}

#[test]
fn groups_hold_lists_of_both_sides_in_time_order() {
    let config = r#"{"window":{"kind":"tumbling","size":"100ms"},"emit":"groups","kind":"full","result":{"l":"left.v","r":"right.v","end":"window_end"}}"#;
    let mut join = join(config);
    for time in [7, 3] {
        feed(&mut join, "left", time);
    }
    join.record("left").key("k").time(5).value("{}");
    join.watermark(99);
    assert_eq!(join.values("main"), [r#"{"l":[3,null,7],"r":[],"end":100}"#]);
    assert_eq!(join.rows(), 0);
}

#[test]
fn records_beyond_the_limit_go_to_overflow() {
    let config = r#"{"window":{"kind":"tumbling","size":"100ms"},"max_rows_per_key":2,"kind":"left","result":{"l":"left.v"}}"#;
    let mut join = join(config);
    for time in [1, 2, 3] {
        feed(&mut join, "left", time);
    }
    feed(&mut join, "right", 4);
    assert_eq!(join.values("overflow"), [r#"{"v":3}"#]);
    join.watermark(99);
    assert_eq!(join.values("main"), [r#"{"l":1}"#, r#"{"l":2}"#]);
}

#[test]
fn sessions_that_fired_apart_and_become_one_tell_the_pairs_between_them() {
    let config = r#"{"window":{"kind":"session","gap":"10ms"},"allowed_lateness":"100ms","result":{"l":"left.v","r":"right.v"}}"#;
    let mut join = join(config);
    feed(&mut join, "left", 0);
    feed(&mut join, "right", 1);
    feed(&mut join, "right", 20);
    join.watermark(50);
    assert_eq!(join.values("main"), [r#"{"l":0,"r":1}"#]);
    feed(&mut join, "left", 11);
    let mut new = join.values("main");
    new.sort();
    assert_eq!(new, [r#"{"l":0,"r":20}"#, r#"{"l":11,"r":1}"#, r#"{"l":11,"r":20}"#]);
    join.watermark(1_000);
    assert_eq!(join.rows(), 0);
}

#[test]
fn window_whose_result_is_refused_holds_up_no_other() {
    for lateness in [0, 30] {
        let config = format!(
            r#"{{"window":{{"kind":"sliding","size":"100ms","slide":"10ms"}},"allowed_lateness":"{lateness}ms","result":{{"l":"left.v","r":"right.v"}}}}"#
        );
        let mut join = join(&config);
        let large = "x".repeat(600_000);
        for side in ["left", "right"] {
            join.record(side).key("k").time(5).value(&format!(r#"{{"v":"{large}"}}"#));
            feed(&mut join, side, 50);
        }
        join.watermark(1_000);
        // Of ten windows each that hold what lies at 5 and at 50, five hold both.
        let pairs = join.values("main");
        let small = pairs.iter().filter(|pair| *pair == r#"{"l":50,"r":50}"#).count();
        assert_eq!((small, pairs.len()), (10, 5 * 3 + 5), "lateness {lateness}");
        let refused = join.dead_letters();
        assert_eq!(refused.len(), 10, "lateness {lateness}");
        assert!(refused.iter().all(|letter| letter.value.is_some()), "the pairs, whole");
        assert_eq!(join.rows(), 0);
    }
}

#[test]
fn session_whose_result_is_refused_is_closed() {
    let config =
        r#"{"window":{"kind":"session","gap":"10ms"},"result":{"l":"left.v","r":"right.v"}}"#;
    let mut join = join(config);
    let large = "x".repeat(600_000);
    for side in ["left", "right"] {
        join.record(side).key("k").time(5).value(&format!(r#"{{"v":"{large}"}}"#));
    }
    join.watermark(14);
    assert_eq!((join.dead_letters().len(), join.rows()), (1, 0));
}

#[test]
fn session_of_large_records_is_noted_as_told_in_steps() {
    let config = r#"{"window":{"kind":"session","gap":"10ms"},"allowed_lateness":"100ms","result":{"l":"left.v"}}"#;
    let mut join = join(config);
    let large = "x".repeat(900_000);
    for at in 0..45 {
        join.record("left").key("k").time(at / 5).value(&format!(r#"{{"v":"{large}"}}"#));
    }
    join.watermark(50);
    assert!(join.dead_letters().is_empty());
    feed(&mut join, "right", 7);
    assert_eq!(join.take("main").len(), 45, "each left record with the right one that is new");
    join.watermark(1_000);
    assert_eq!(join.rows(), 0);
}

#[test]
fn total_of_what_is_no_number_is_a_dead_letter_that_changes_nothing() {
    let config = r#"{"window":{"kind":"tumbling","size":"100ms"},"emit":"totals","kind":"left","totals":{"sum":{"sum":"left.v"}},"result":{"sum":"sum"}}"#;
    let mut join = join(config);
    feed(&mut join, "left", 1);
    join.record("left").key("k").time(2).value(r#"{"v":"many"}"#);
    join.record("left").key("k").time(2).value(r#"{"v":null}"#);
    join.watermark(99);
    assert_eq!(join.values("main"), [r#"{"sum":1}"#]);
    assert!(join.dead_letters()[0].message.contains("total `sum`: expected a number"));
}

#[test]
fn configurations_that_contradict_themselves_are_refused_with_the_way_out() {
    let refused = [
        (r#"{"window":{"kind":"tumbling","size":"0ms"}}"#, "`size` is at least 1 ms"),
        (r#"{"window":{"kind":"given"},"emit":"totals"}"#, "go together"),
        (
            r#"{"window":{"kind":"given"},"emit":"totals","totals":{"n":{"sum":"left"}}}"#,
            "name a field",
        ),
        (
            r#"{"window":{"kind":"given"},"emit":"totals","totals":{"n":{"sum":"lft.v"}}}"#,
            "`lft.v` is no field",
        ),
    ];
    for (config, part) in refused {
        let error = Join::new(config).unwrap_err();
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn records_without_event_time_are_dead_letters_and_deletes_are_counted() {
    let mut join = join(PAIRS);
    join.record("left").key("k").value("{}");
    join.record("left").key("k").time(1).tombstone();
    assert!(join.dead_letters()[0].message.contains("without event time"));
    assert_eq!((join.metric("ignored_records"), join.rows()), (1.0, 0));
}

#[test]
fn large_records_are_paired_in_smaller_steps() {
    let mut join = join(
        r#"{"kind":"full","window":{"kind":"tumbling","size":"10ms"},"result":{"l":"left.v","r":"right.v"}}"#,
    );
    let large = "x".repeat(900_000);
    for side in ["left", "right"] {
        join.record(side).key("alone").time(3).value(&format!(r#"{{"v":"{large}"}}"#));
    }
    join.record("left").key("k").time(3).value(&format!(r#"{{"v":"{large}"}}"#));
    for _ in 0..30 {
        feed(&mut join, "right", 3);
        join.record("left").key("l").time(3).value(&format!(r#"{{"v":"{large}"}}"#));
    }
    join.watermark(9);
    assert_eq!(join.take("main").len(), 30 + 30, "one call may emit 8 MiB");
    assert_eq!(join.dead_letters().len(), 1, "only the pair of two large ones is refused");
    assert_eq!(join.rows(), 0);
}
