//! What the plugin does, over core's own lane.

use dovetail_sdk::{Harness, Header};
use latest_dimension::LatestDimension;

type Join = Harness<LatestDimension>;

const RESULT: &str = r#""result":{"id":"behaviour.id","name":{"from":"dimension.name","absent":""},"status":"status"}"#;

fn join(more: &str) -> Join {
    Join::new(&format!("{{{RESULT},{more}}}")).expect("the configuration is right")
}

fn dimension(join: &mut Join, time: i64, value: &str) {
    join.record("dimension").key("p1").time(time).value(value);
}

fn behaviour(join: &mut Join, time: i64, id: &str) {
    join.record("behaviour").key("p1").time(time).value(&format!(r#"{{"id":{id},"more":[1]}}"#));
}

fn ok(id: &str, name: &str) -> String {
    format!(r#"{{"id":{id},"name":"{name}","status":"OK"}}"#)
}

fn timeout(id: &str) -> String {
    format!(r#"{{"id":{id},"name":"","status":"TIMEOUT"}}"#)
}

#[test]
fn a_behaviour_meets_the_dimension_valid_now_at_once() {
    let mut join = join(r#""wait":"10s""#);
    dimension(&mut join, 500, r#"{"name":"a"}"#);
    behaviour(&mut join, 100, "1.50");
    dimension(&mut join, 600, r#"{"name":"b"}"#);
    behaviour(&mut join, 50, "2");
    let results = join.take("main");
    assert_eq!(results[0].value.as_deref(), Some(ok("1.50", "a").as_str()));
    assert_eq!(results[1].value.as_deref(), Some(ok("2", "b").as_str()));
    assert_eq!((results[0].time, results[0].key.as_deref()), (Some(100), Some("p1")));
}

#[test]
fn what_waits_is_emitted_in_time_order_when_the_dimension_comes() {
    let mut join = join(r#""wait":"10s""#);
    for (time, id) in [(300, "3"), (100, "1"), (300, "4"), (200, "2")] {
        behaviour(&mut join, time, id);
    }
    join.commit();
    join.crash();
    dimension(&mut join, 400, r#"{"name":"a"}"#);
    assert_eq!(join.values("main"), ["1", "2", "3", "4"].map(|id| ok(id, "a")));
    join.watermark(1_000_000);
    assert!(join.take("main").is_empty() && join.take("timeouts").is_empty());
    assert_eq!(join.rows(), 1, "only the dimension is left");
}

#[test]
fn what_waits_too_long_goes_to_timeouts_at_max_of_time_and_watermark_plus_wait() {
    let mut join = join(r#""wait":"100ms""#);
    behaviour(&mut join, 50, "1");
    join.watermark(80);
    behaviour(&mut join, 60, "2");
    behaviour(&mut join, 50, "3");
    join.watermark(149);
    assert!(join.take("timeouts").is_empty());
    join.watermark(150);
    assert_eq!(join.values("timeouts"), [timeout("1")]);
    join.watermark(179);
    assert!(join.take("timeouts").is_empty());
    join.watermark(180);
    let timeouts = join.take("timeouts");
    assert_eq!(timeouts.iter().map(|record| record.time).collect::<Vec<_>>(), [Some(50), Some(60)]);
    assert_eq!(join.rows(), 0);
    assert_eq!(join.metric("timed_out"), 3.0);
}

#[test]
fn without_a_result_both_records_come_out_whole_with_status_and_reason() {
    let mut join = Join::new(r#"{"wait":"90s","on_timeout":"emit_without"}"#).unwrap();
    join.record("dimension").key("p2").time(1).value(r#"{"n":1}"#);
    join.record("behaviour").key("p2").time(1).value(r#"{"b":2}"#);
    join.record("behaviour").key("p1").time(1).value(r#"{"b":3}"#);
    join.watermark(90_001);
    assert_eq!(
        join.values("main"),
        [
            r#"{"behaviour":{"b":2},"dimension":{"n":1},"status":"OK","reason":null}"#,
            r#"{"behaviour":{"b":3},"dimension":null,"status":"TIMEOUT","reason":"no dimension within 90s"}"#,
        ]
    );
}

#[test]
fn without_waiting_a_behaviour_is_decided_at_once() {
    let mut join = join(r#""wait":"0ms","on_timeout":"emit_without""#);
    behaviour(&mut join, 5, "1");
    assert_eq!(join.values("main"), [timeout("1")]);
    assert_eq!(join.rows(), 0);
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut join = join(r#""wait":"10s","version":"v""#);
    dimension(&mut join, 1, r#"{"name":"second","v":2}"#);
    dimension(&mut join, 9, r#"{"name":"first","v":1}"#);
    dimension(&mut join, 9, r#"{"name":"again","v":2}"#);
    behaviour(&mut join, 10, "1");
    dimension(&mut join, 2, r#"{"name":"third","v":"3"}"#);
    behaviour(&mut join, 10, "2");
    assert_eq!(join.values("main"), [ok("1", "second"), ok("2", "third")]);
    assert_eq!(join.metric("stale_dimensions"), 2.0);
    dimension(&mut join, 9, r#"{"name":"x","v":1.5}"#);
    let dead = join.dead_letters();
    assert_eq!(dead[0].reason, "plugin_error");
    assert!(dead[0].message.contains("`v` should be an integer, found 1.5"), "{dead:?}");
}

#[test]
fn without_versions_event_time_decides_which_dimension_is_newer() {
    let mut join = join(r#""wait":"10s""#);
    dimension(&mut join, 20, r#"{"name":"new"}"#);
    dimension(&mut join, 10, r#"{"name":"old"}"#);
    behaviour(&mut join, 5, "1");
    dimension(&mut join, 20, r#"{"name":"same time"}"#);
    behaviour(&mut join, 5, "2");
    assert_eq!(join.values("main"), [ok("1", "new"), ok("2", "same time")]);
}

#[test]
fn after_a_delete_behaviours_wait_and_older_rows_stay_deleted() {
    let mut join = join(r#""wait":"10s","version":"v""#);
    dimension(&mut join, 10, r#"{"name":"a","v":7}"#);
    join.record("dimension").key("p1").time(5).tombstone();
    behaviour(&mut join, 11, "1");
    join.record("dimension").key("p1").time(20).tombstone();
    dimension(&mut join, 15, r#"{"name":"older","v":8}"#);
    behaviour(&mut join, 21, "2");
    assert_eq!(join.values("main"), [ok("1", "a")]);
    dimension(&mut join, 30, r#"{"name":"back","v":1}"#);
    assert_eq!(join.values("main"), [ok("2", "back")]);
}

#[test]
fn more_than_may_wait_overflows_as_it_came() {
    let mut join = join(r#""wait":"10s","max_waiting_per_key":2"#);
    for id in ["1", "2", "3"] {
        behaviour(&mut join, 5, id);
    }
    assert_eq!(join.values("overflow"), [r#"{"id":3,"more":[1]}"#]);
    dimension(&mut join, 6, r#"{"name":"a"}"#);
    assert_eq!(join.values("main"), [ok("1", "a"), ok("2", "a")]);
    behaviour(&mut join, 5, "4");
    assert_eq!(join.values("main"), [ok("4", "a")]);
}

#[test]
fn a_behaviour_is_emitted_again_when_the_dimension_changes_and_then_forgotten() {
    let config = r#"{"wait":"1s","reemit_on_update":"5s","result":["behaviour.id","dimension.name","emission"]}"#;
    let mut join = Join::new(config).unwrap();
    behaviour(&mut join, 100, "1");
    dimension(&mut join, 100, r#"{"name":"a"}"#);
    behaviour(&mut join, 200, "2");
    join.commit();
    join.crash();
    dimension(&mut join, 300, r#"{"name":"b"}"#);
    join.watermark(5_100);
    dimension(&mut join, 5_100, r#"{"name":"c"}"#);
    let result = |id: u32, name: &str, emission: u32| {
        format!(r#"{{"id":{id},"name":"{name}","emission":{emission}}}"#)
    };
    assert_eq!(
        join.values("main"),
        [
            result(1, "a", 1),
            result(2, "a", 1),
            result(1, "b", 2),
            result(2, "b", 2),
            result(2, "c", 3)
        ]
    );
    join.watermark(5_200);
    assert_eq!(join.rows(), 1, "only the dimension is left");
}

#[test]
fn much_that_waits_is_worked_through_in_steps() {
    let mut join = join(r#""wait":"10s""#);
    for id in 0..1_700 {
        behaviour(&mut join, 5 + i64::from(id % 3), &id.to_string());
    }
    dimension(&mut join, 6, r#"{"name":"a"}"#);
    let results = join.take("main");
    assert_eq!(results.len(), 1_700);
    assert!(results.is_sorted_by_key(|record| record.time));
    assert_eq!(join.rows(), 1);
}

#[test]
fn much_that_times_out_at_once_is_worked_through_in_steps() {
    let mut join = join(r#""wait":"10s""#);
    for id in 0..1_700 {
        behaviour(&mut join, 5, &id.to_string());
    }
    join.watermark(10_005);
    assert_eq!(join.take("timeouts").len(), 1_700);
    assert_eq!(join.rows(), 0);
}

#[test]
fn headers_are_kept_where_configured_through_waiting_and_a_restart() {
    let mut join = join(r#""wait":"10s","headers":{"behaviour":["trace"],"dimension":["tenant"]}"#);
    let record = join.record("behaviour").key("p1").time(1);
    record.header("trace", "A").header("other", "x").header("trace", "B").value(r#"{"id":1}"#);
    join.commit();
    join.crash();
    join.record("dimension").key("p1").time(1).header("tenant", "t").value(r#"{"name":"a"}"#);
    let header = |name: &str, value: &str| Header {
        name: name.to_owned(),
        value: Some(value.as_bytes().to_vec()),
    };
    let expected = [header("trace", "A"), header("trace", "B"), header("tenant", "t")];
    assert_eq!(join.take("main")[0].headers, expected);
}

#[test]
fn a_null_key_meets_nothing_and_is_decided_at_once() {
    let mut join = join(r#""wait":"10s","on_timeout":"emit_without","null_keys":true"#);
    join.record("dimension").time(1).value(r#"{"name":"a"}"#);
    join.record("behaviour").time(1).value(r#"{"id":1}"#);
    assert_eq!(join.values("main"), [timeout("1")]);
    assert_eq!(join.metric("ignored_records"), 1.0);
}

#[test]
fn a_behaviour_without_event_time_cannot_wait_but_can_match() {
    let mut join = join(r#""wait":"10s""#);
    join.record("behaviour").key("p1").value(r#"{"id":1}"#);
    assert!(join.dead_letters()[0].message.contains("without event time"));
    dimension(&mut join, 1, r#"{"name":"a"}"#);
    join.record("behaviour").key("p1").value(r#"{"id":2}"#);
    assert_eq!(join.take("main")[0].time, None);
}

#[test]
fn what_is_not_json_is_a_dead_letter_that_says_where() {
    let mut join = join(r#""wait":"10s""#);
    join.record("behaviour").key("p1").time(1).value(r#"{"id":1"#);
    let dead = join.dead_letters();
    assert!(dead[0].message.contains("expected `,` or `}` at byte 7"), "{dead:?}");
    assert_eq!(dead[0].value.as_deref(), Some(r#"{"id":1"#));
    assert_eq!(join.rows(), 0);
}

#[test]
fn a_wrong_configuration_is_refused_with_what_is_known() {
    let error = |config: &str| Join::new(config).unwrap_err().message().to_owned();
    assert!(error("{}").contains("missing field `wait`"));
    assert!(error(r#"{"wait":"1x"}"#).contains("such as `30m`"));
    assert!(error(r#"{"wait":"1s","headers":{"clicks":["a"]}}"#).contains("no input `clicks`"));
    assert!(error(r#"{"wait":"1s","result":["click.id"]}"#).contains("`behaviour.<field>`"));
}

#[test]
fn the_benchmarks_configuration_gives_its_output_format() {
    let mut join = Join::new(include_str!("../bench-config.json")).unwrap();
    let key = "u00012345";
    let beh = |id: &str| {
        format!(
            r#"{{"user_id":"u00012345","event_id":"{id}","ts":1700000000123,"amount":12345,"pt":1000000000000}}"#
        )
    };
    let dim =
        r#"{"user_id":"u00012345","campaign":"c0042","tag":"t17","version":3,"ts":1700000000123}"#;
    join.record("dimension").key(key).time(1_700_000_000_123).value(dim);
    join.record("behaviour").key(key).time(1_700_000_000_123).value(&beh("e0000001234"));
    join.record("behaviour").key("u2").time(1_700_000_000_123).value(&beh("e2"));
    join.watermark(1_700_000_000_123 + 1_800_000);
    assert_eq!(
        join.values("main"),
        [
            r#"{"user_id":"u00012345","event_id":"e0000001234","ts":1700000000123,"amount":12345,"pt":1000000000000,"campaign":"c0042","tag":"t17","version":3,"status":"OK"}"#,
            r#"{"user_id":"u00012345","event_id":"e2","ts":1700000000123,"amount":12345,"pt":1000000000000,"campaign":"","tag":"","version":0,"status":"TIMEOUT"}"#,
        ]
    );
}

#[test]
fn large_dimension_settles_what_waits_in_smaller_steps() {
    let config = r#"{"wait":"100ms","reemit_on_update":"1s","result":{"b":"behaviour.b","d":"dimension.d"}}"#;
    let mut join = Harness::<LatestDimension>::new(config).unwrap();
    for _ in 0..30 {
        join.record("behaviour").key("k").time(10).value(r#"{"b":1}"#);
    }
    let large = "y".repeat(900_000);
    for time in [11, 12] {
        join.record("dimension").key("k").time(time).value(&format!(r#"{{"d":"{large}"}}"#));
        assert_eq!(join.take("main").len(), 30, "one call may emit 8 MiB");
        assert!(join.dead_letters().is_empty());
    }
    join.watermark(110);
    assert!(join.take("main").is_empty());
}
