//! What the plugin does, over core's own lane.

use dedupe::Dedupe;
use dovetail_sdk::Harness;

type Join = Harness<Dedupe>;

fn join(config: &str) -> Join {
    Join::new(config).expect("the configuration is right")
}

fn feed(join: &mut Join, id: u32, time: i64, n: u32) {
    let record = join.record("records").key("k").time(time).header("n", &n.to_string());
    record.value(&format!(r#"{{"id":{id},"n":{n}}}"#));
}

#[test]
fn last_of_a_window_is_the_latest_by_event_time_and_comes_when_the_window_is_over() {
    let mut join = join(r#"{"keep":"last","id":"id","size":"100ms","duplicates":"side_output"}"#);
    feed(&mut join, 1, 10, 1);
    feed(&mut join, 1, 30, 2);
    feed(&mut join, 1, 20, 3);
    feed(&mut join, 2, 5, 4);
    feed(&mut join, 1, 100, 5);
    join.commit();
    join.crash();
    join.watermark(98);
    assert!(join.take("main").is_empty());
    join.watermark(99);
    let kept = join.take("main");
    let told: Vec<_> = kept.iter().map(|it| (it.value.as_deref().unwrap(), it.time)).collect();
    let expected = [(r#"{"id":1,"n":2}"#, Some(30)), (r#"{"id":2,"n":4}"#, Some(5))];
    assert_eq!(told, expected);
    assert_eq!(kept[0].headers[0].value.as_deref(), Some(&b"2"[..]), "unchanged, with its headers");
    let others: Vec<_> = join.take("duplicates").iter().map(|it| it.time).collect();
    assert_eq!(others, [Some(10), Some(20)]);
    feed(&mut join, 3, 50, 6);
    assert_eq!(join.values("late"), [r#"{"id":3,"n":6}"#]);
    join.end();
    assert_eq!((join.take("main").len(), join.rows()), (1, 0));
}

#[test]
fn first_of_a_window_passes_at_once_and_the_next_window_has_its_own() {
    let mut join = join(r#"{"size":"100ms"}"#);
    for (time, n) in [(10, 1), (5, 2), (99, 3), (100, 4)] {
        feed(&mut join, n, time, n);
    }
    assert_eq!(join.values("main"), [r#"{"id":1,"n":1}"#, r#"{"id":4,"n":4}"#]);
    join.watermark(199);
    assert_eq!((join.metric("duplicates"), join.rows()), (2.0, 0));
}

#[test]
fn record_beyond_the_length_of_the_first_is_new_wherever_the_watermark_is() {
    let mut join = join(r#"{"within":"10s"}"#);
    for (time, n) in [(0, 1), (10_000, 2), (12_000, 3), (21_000, 4), (22_001, 5)] {
        feed(&mut join, n, time, n);
    }
    let passed: Vec<_> = join.take("main").iter().map(|it| it.time).collect();
    assert_eq!(passed, [Some(0), Some(12_000), Some(22_001)]);
    join.record("records").key("k").value("{}");
    assert!(join.dead_letters()[0].message.contains("give the input a `time`"));
}

#[test]
fn many_ids_of_one_window_come_in_steps() {
    let mut join = join(r#"{"keep":"last","id":"id","size":"100ms"}"#);
    for id in 0..1_050 {
        feed(&mut join, id, 7, id);
    }
    join.watermark(99);
    assert_eq!((join.take("main").len(), join.rows()), (1_050, 0));
}

#[test]
fn spans_without_an_end_are_refused() {
    let refused = [
        ("{}", "say either `within`"),
        (r#"{"within":"1h","size":"1h"}"#, "say either `within`"),
        (r#"{"within":"1h","keep":"last"}"#, "say `size` instead"),
        (r#"{"size":"0ms"}"#, "`size` is at least 1 ms"),
    ];
    for (config, part) in refused {
        let error = Join::new(config).unwrap_err();
        assert!(error.message().contains(part), "{config}: {error}");
    }
}

#[test]
fn last_record_that_is_refused_costs_no_other_of_its_window() {
    let mut join = join(r#"{"keep":"last","id":"id","size":"100ms"}"#);
    for (id, size) in [(1, 5), (2, 1 << 20), (3, 5)] {
        let value = format!(r#"{{"id":{id},"n":"{}"}}"#, "x".repeat(size));
        join.record("records").key("k").time(10).value(&value);
    }
    join.watermark(99);
    assert_eq!(join.values("main"), [r#"{"id":1,"n":"xxxxx"}"#, r#"{"id":3,"n":"xxxxx"}"#]);
    let refused = join.dead_letters();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].value.as_ref().is_some_and(|value| value.starts_with(r#"{"id":2"#)));
    assert_eq!(join.rows(), 0);
}
