//! What the plugin does, over core's own lane.

use dovetail_sdk::Harness;
use interval_join::IntervalJoin;

type Join = Harness<IntervalJoin>;

fn join(kind: &str, more: &str) -> Join {
    let config = format!(
        r#"{{"kind":"{kind}","lower":"-5ms","upper":"10ms","result":{{"l":"left.v","r":"right.v"}}{more}}}"#
    );
    Join::new(&config).expect("the configuration is right")
}

fn feed(join: &mut Join, side: &str, time: i64) {
    join.record(side).key("k").time(time).value(&format!(r#"{{"v":{time}}}"#));
}

fn row(left: &str, right: &str) -> String {
    format!(r#"{{"l":{left},"r":{right}}}"#)
}

#[test]
fn record_with_many_partners_is_worked_through_in_steps_and_emits_each_pair_once() {
    let mut join = join("full", "");
    for _ in 0..1_234 {
        feed(&mut join, "left", 20);
    }
    feed(&mut join, "right", 25);
    assert_eq!(join.values("main"), vec![row("20", "25"); 1_234]);
    join.end();
    assert_eq!(join.values("main"), Vec::<String>::new());
    assert_eq!(join.rows(), 0);
}

#[test]
fn large_partners_are_worked_through_in_smaller_steps() {
    let mut join = join("inner", "");
    let large = "x".repeat(300_000);
    for _ in 0..40 {
        join.record("left").key("k").time(20).value(&format!(r#"{{"v":"{large}"}}"#));
    }
    feed(&mut join, "right", 20);
    assert_eq!(join.take("main").len(), 40, "one call may emit 8 MiB");
    assert!(join.dead_letters().is_empty());
}

#[test]
fn many_left_records_are_decided_by_one_right_record() {
    for (kind, decided) in [("semi", 450), ("anti", 0)] {
        let mut join = join(kind, "");
        for at in 0..450 {
            feed(&mut join, "left", 20 + at % 3);
        }
        feed(&mut join, "right", 22);
        assert_eq!(join.take("main").len(), decided, "{kind}");
        feed(&mut join, "right", 22);
        join.end();
        assert!(join.take("main").is_empty(), "{kind}");
        assert_eq!(join.rows(), 0);
    }
}

#[test]
fn what_expires_at_once_is_decided_in_order_of_both_sides() {
    let mut join = join("full", "");
    for (side, time) in [("left", 0), ("right", 11), ("left", 30), ("left", 4)] {
        feed(&mut join, side, time + 100);
    }
    feed(&mut join, "right", 200);
    join.watermark(1_000);
    let expected = [row("104", "111"), row("100", "null"), row("130", "null"), row("null", "200")];
    assert_eq!(join.values("main"), expected);
    assert_eq!(join.rows(), 0);
}

#[test]
fn many_rows_that_expire_at_once_are_all_decided() {
    let mut join = join("left", "");
    for time in 0..12_000 {
        feed(&mut join, "left", time);
    }
    join.commit();
    join.crash();
    join.end();
    assert_eq!(join.take("main").len(), 12_000);
    assert_eq!(join.rows(), 0);
}

#[test]
fn a_hundred_thousand_rows_of_one_key_and_millisecond_that_expire_at_once_are_all_decided() {
    let mut join = join("left", "");
    for _ in 0..100_000 {
        feed(&mut join, "left", 20);
    }
    join.watermark(30);
    assert_eq!(join.take("main").len(), 100_000);
    assert!(join.dead_letters().is_empty());
    assert_eq!(join.rows(), 0);
}

#[test]
fn record_is_decided_a_millisecond_earlier_where_the_upper_bound_does_not_belong_to_the_range() {
    let mut join = join("left", r#","lower_inclusive":false,"upper_inclusive":false"#);
    feed(&mut join, "left", 0);
    join.watermark(8);
    assert!(join.take("main").is_empty());
    join.watermark(9);
    assert_eq!(join.take("main")[0].time, Some(9));
}

#[test]
fn null_keys_meet_nothing_and_are_decided_at_once() {
    let mut join = join("left", r#","null_keys":true,"unmatched":"side_output""#);
    join.record("left").time(1).value(r#"{"v":1}"#);
    join.record("right").time(1).value(r#"{"v":1}"#);
    assert_eq!(join.values("unmatched"), [row("1", "null")]);
    assert!(join.take("main").is_empty());
    assert_eq!((join.rows(), join.metric("unmatched")), (0, 1.0));
}

#[test]
fn records_without_event_time_are_dead_letters_and_deletes_are_counted() {
    let mut join = join("inner", "");
    join.record("left").key("k").value("{}");
    join.record("left").key("k").time(1).tombstone();
    assert!(join.dead_letters()[0].message.contains("without event time"));
    assert_eq!((join.metric("ignored_records"), join.rows()), (1.0, 0));
}

#[test]
fn bounds_that_leave_nothing_between_them_are_refused() {
    let config = r#"{"lower":"5s","upper":"5s","upper_inclusive":false}"#;
    let error = Join::new(config).unwrap_err();
    assert!(error.message().contains("`lower` and `upper`: the bounds leave nothing"), "{error}");
}

#[test]
fn result_that_is_refused_costs_its_own_rows_and_no_others() {
    let result = r#","result":{"a":"left.v","b":"left.v"}}"#;
    let config =
        |upper: u32| format!(r#"{{"kind":"left","lower":"0ms","upper":"{upper}ms"{result}"#);
    let mut join = Join::new(&config(10)).unwrap();
    let large = "x".repeat(600_000);
    join.record("left").key("k").time(20).value(&format!(r#"{{"v":"{large}"}}"#));
    for time in [21, 22, 40] {
        feed(&mut join, "left", time);
    }
    // Of the same time as the one that is refused.
    feed(&mut join, "left", 20);
    join.watermark(32);
    assert_eq!(join.dead_letters().len(), 1);
    assert_eq!(
        join.values("main"),
        [r#"{"a":20,"b":20}"#, r#"{"a":21,"b":21}"#, r#"{"a":22,"b":22}"#]
    );
    feed(&mut join, "left", 45);
    join.watermark(100);
    assert_eq!(join.values("main"), [r#"{"a":40,"b":40}"#, r#"{"a":45,"b":45}"#]);
    assert!(join.dead_letters().is_empty());
}

#[test]
fn pair_that_is_refused_in_a_later_step_costs_that_pair_alone() {
    let mut join = join("left", "");
    for at in 0..350 {
        let large = "x".repeat(if at == 222 { 800_000 } else { 1 });
        let value = format!(r#"{{"v":"{at}{large}"}}"#);
        join.record("left").key("k").time(20).value(&value);
    }
    let large = format!(r#"{{"v":"{}"}}"#, "y".repeat(300_000));
    join.record("right").key("k").time(25).value(&large);
    let pairs = join.values("main");
    assert_eq!(pairs.len(), 349);
    assert!(!pairs.iter().any(|pair| pair.starts_with(r#"{"l":"222x"#)));
    let dead = join.dead_letters();
    assert_eq!((dead.len(), dead[0].reason.as_str()), (1, "output_refused"));
    let refused = dead[0].value.as_deref().unwrap_or_default();
    assert!(refused.starts_with(r#"{"l":"222x"#), "the pair itself is kept, whole");
    join.end();
    assert!(join.take("main").is_empty(), "all have had a partner");
    assert_eq!(join.rows(), 0);
}

#[test]
fn rows_that_are_kept_outlast_another_range() {
    let config = |upper: u32| {
        format!(r#"{{"kind":"left","lower":"0ms","upper":"{upper}ms","result":{{"l":"left.v"}}}}"#)
    };
    for (upper, due) in [(5, 30), (50, 70)] {
        let mut join = Join::new(&config(10)).unwrap();
        feed(&mut join, "left", 20);
        join.reconfigure(&config(upper)).unwrap();
        join.watermark(due - 1);
        assert!(join.take("main").is_empty(), "{upper}");
        join.watermark(due);
        assert_eq!((join.take("main").len(), join.rows()), (1, 0), "{upper}");
    }
}
