//! What the plugin does, over core's own lane; and, records in any order within the
//! out-of-orderness, what a naive join of all of them says.

use as_of::AsOf;
use dovetail_sdk::Harness;
use proptest::prelude::*;

type Join = Harness<AsOf>;

fn join(config: &str) -> Join {
    let result = r#""result":{"n":"behaviour.n","v":"dimension.v","e":"emission"}"#;
    Join::new(&format!("{{{config}{result}}}")).expect("the configuration is right")
}

fn dimension(join: &mut Join, time: i64, version: Option<i64>) {
    let record = join.record("dimension").key("k").time(time);
    match version {
        Some(version) => record.value(&format!(r#"{{"v":{version}}}"#)),
        None => record.tombstone(),
    }
}

fn behaviour(join: &mut Join, time: i64) {
    join.record("behaviour").key("k").time(time).value(&format!(r#"{{"n":{time}}}"#));
}

fn result(behaviour: i64, version: Option<i64>, emission: u32) -> String {
    let version = version.map_or("null".to_owned(), |version| version.to_string());
    format!(r#"{{"n":{behaviour},"v":{version},"e":{emission}}}"#)
}

#[test]
fn eager_result_is_corrected_while_a_better_version_can_come() {
    let mut join = join(r#""mode":"eager","#);
    behaviour(&mut join, 10);
    dimension(&mut join, 5, Some(5));
    dimension(&mut join, 8, Some(8));
    dimension(&mut join, 6, Some(6));
    dimension(&mut join, 11, Some(11));
    dimension(&mut join, 9, None);
    let expected =
        [result(10, None, 1), result(10, Some(5), 2), result(10, Some(8), 3), result(10, None, 4)];
    assert_eq!(join.values("main"), expected);
    join.watermark(10);
    dimension(&mut join, 9, Some(9));
    assert!(join.take("main").is_empty(), "the watermark has reached its time");
    assert_eq!(join.metric("corrected"), 3.0);
}

#[test]
fn correction_reaches_many_behaviours_in_steps() {
    let mut join = join(r#""mode":"eager","unmatched":"drop","#);
    for _ in 0..200 {
        behaviour(&mut join, 10);
    }
    dimension(&mut join, 20, Some(20));
    dimension(&mut join, 10, Some(1));
    assert_eq!(join.values("main"), vec![result(10, Some(1), 2); 200]);
    join.watermark(10);
    join.watermark(20);
    assert_eq!(join.rows(), 2, "the latest version is kept: a row and where they begin");
}

#[test]
fn what_was_valid_at_the_watermark_is_kept_and_nothing_older() {
    let mut join = join("");
    for time in [10, 20, 30] {
        dimension(&mut join, time, Some(time));
    }
    behaviour(&mut join, 15);
    join.watermark(25);
    behaviour(&mut join, 15);
    behaviour(&mut join, 22);
    join.watermark(26);
    let expected = [result(15, Some(10), 1), result(15, None, 1), result(22, Some(20), 1)];
    assert_eq!(join.values("main"), expected);
    join.watermark(30);
    assert_eq!(join.rows(), 2);
}

#[test]
fn large_behaviours_meet_the_versions_of_their_times_when_they_are_due_together() {
    let mut join = Join::new(r#"{"result":{"n":"behaviour.n","v":"dimension.v"}}"#).unwrap();
    for time in [5, 15, 25] {
        dimension(&mut join, time, Some(time));
    }
    let large = "x".repeat(900_000);
    for time in 10..22 {
        join.record("behaviour").key("k").time(time).value(&format!(r#"{{"n":"{large}"}}"#));
    }
    join.watermark(30);
    let version = |text: &String| text.rsplit(':').next().map(str::to_owned).unwrap();
    let versions: Vec<String> = join.values("main").iter().map(version).collect();
    let expected = ["5}"; 5].into_iter().chain(["15}"; 7]);
    assert_eq!(versions, expected.collect::<Vec<_>>());
    assert_eq!(join.rows(), 2, "the latest version is kept: a row and where they begin");
}

#[test]
fn behaviour_whose_result_is_refused_holds_up_nothing() {
    let config = r#"{"result":{"n":"behaviour.n","m":"behaviour.n","v":"dimension.v"}}"#;
    let mut join = Join::new(config).unwrap();
    dimension(&mut join, 5, Some(5));
    let large = "x".repeat(600_000);
    join.record("behaviour").key("k").time(10).value(&format!(r#"{{"n":"{large}"}}"#));
    behaviour(&mut join, 11);
    join.watermark(20);
    assert_eq!(join.dead_letters().len(), 1);
    assert_eq!(join.values("main"), [r#"{"n":11,"m":11,"v":5}"#]);
    dimension(&mut join, 25, Some(25));
    let rows = join.rows();
    join.watermark(30);
    assert_eq!(join.rows(), rows - 2, "the older version and a timer");
}

#[test]
fn delete_is_forgotten_after_its_time() {
    let mut join = join(r#""forget_deletes_after":"100ms","#);
    dimension(&mut join, 10, Some(1));
    dimension(&mut join, 20, None);
    join.watermark(119);
    assert_eq!(join.rows(), 3, "the delete, where versions begin, a timer");
    join.watermark(120);
    assert_eq!(join.rows(), 0);
}

#[test]
fn behaviours_beyond_the_limit_go_to_overflow() {
    let mut join = join(r#""max_waiting_per_key":2,"#);
    for time in [1, 2, 3] {
        behaviour(&mut join, time);
    }
    assert_eq!(join.values("overflow"), [r#"{"n":3}"#]);
    join.end();
    assert_eq!(join.take("main").len(), 2);
}

#[test]
fn null_keys_meet_nothing_and_missing_times_are_dead_letters() {
    let mut join = join(r#""null_keys":true,"#);
    join.record("behaviour").time(3).value(r#"{"n":3}"#);
    join.record("dimension").time(3).value("{}");
    assert_eq!(join.values("main"), [result(3, None, 1)]);
    join.record("behaviour").key("k").value("{}");
    assert!(join.dead_letters()[0].message.contains("without event time"));
}

const OUT_OF_ORDERNESS: i64 = 8;

/// The version valid at a time: of versions by time, the last up to it.
fn offline(versions: &[(i64, Option<i64>)], time: i64) -> Option<i64> {
    let valid = versions.iter().filter(|(from, _)| *from <= time).max_by_key(|(from, _)| *from);
    valid.and_then(|(_, version)| *version)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_arrival_gives_each_behaviour_the_version_of_its_time(
        versions in proptest::collection::btree_map(0i64..60, any::<bool>(), 0..12),
        behaviours in proptest::collection::vec(0i64..60, 0..30),
        delays in proptest::collection::vec(0..=OUT_OF_ORDERNESS, 42),
        restores in 0usize..42,
        is_eager in any::<bool>(),
    ) {
        let versions: Vec<(i64, Option<i64>)> =
            versions.into_iter().map(|(time, is_delete)| (time, (!is_delete).then_some(time))).collect();
        let mut records: Vec<(i64, Option<Option<i64>>)> =
            versions.iter().map(|(time, version)| (*time, Some(*version))).collect();
        records.extend(behaviours.iter().map(|time| (*time, None)));
        let mut order: Vec<(i64, usize)> =
            records.iter().zip(&delays).enumerate().map(|(at, ((time, _), delay))| (time + delay, at)).collect();
        order.sort_unstable();
        let mut join = join(if is_eager { r#""mode":"eager","# } else { "" });
        let mut newest = i64::MIN;
        for (turn, (_, at)) in order.into_iter().enumerate() {
            let (time, version) = records[at];
            match version {
                Some(version) => dimension(&mut join, time, version),
                None => behaviour(&mut join, time),
            }
            newest = newest.max(time);
            join.watermark(newest - OUT_OF_ORDERNESS - 1);
            if turn == restores {
                join.commit();
                join.crash();
            }
        }
        join.end();
        let mut results: Vec<(i64, Option<i64>)> = Vec::new();
        let mut expected: Vec<(i64, Option<i64>)> =
            behaviours.iter().map(|time| (*time, offline(&versions, *time))).collect();
        let told: Vec<serde_json::Value> =
            join.values("main").iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        if is_eager {
            // Behaviours of one time are told apart by how often they were emitted only.
            for time in &behaviours {
                let of = told.iter().rfind(|result| result["n"].as_i64() == Some(*time));
                results.push((*time, of.and_then(|result| result["v"].as_i64())));
            }
        } else {
            results.extend(told.iter().map(|it| (it["n"].as_i64().unwrap(), it["v"].as_i64())));
        }
        results.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(results, expected);
    }
}

#[test]
fn result_that_is_refused_costs_no_other_whether_decided_or_corrected() {
    for (mode, emission) in [("wait_for_watermark", 1), ("eager", 2)] {
        let mut join = join(&format!(r#""mode":"{mode}","#));
        for at in 0..250 {
            let n = "x".repeat(if at == 222 { 1 << 20 } else { 1 });
            // With its text it is larger than a record may be only together with a version.
            let n = if at == 222 { &n[..n.len() - 40] } else { &n };
            join.record("behaviour").key("k").time(10).value(&format!(r#"{{"n":"{n}"}}"#));
        }
        join.take("main");
        let version = "y".repeat(20);
        join.record("dimension").key("k").time(5).value(&format!(r#"{{"v":"{version}"}}"#));
        join.watermark(10);
        let results = join.values("main");
        let expected = format!(r#"{{"n":"x","v":"{version}","e":{emission}}}"#);
        assert_eq!(results, vec![expected; 249], "{mode}");
        let refused = join.dead_letters();
        assert_eq!((refused.len(), refused[0].reason.as_str()), (1, "output_refused"), "{mode}");
        assert!(refused[0].value.as_ref().is_some_and(|value| value.contains(&version)), "{mode}");
    }
}

#[test]
fn large_version_decides_and_corrects_in_smaller_steps() {
    for mode in ["wait_for_watermark", "eager"] {
        let mut join = join(&format!(r#""mode":"{mode}","#));
        for _ in 0..30 {
            behaviour(&mut join, 10);
        }
        join.take("main");
        let version = "y".repeat(900_000);
        join.record("dimension").key("k").time(5).value(&format!(r#"{{"v":"{version}"}}"#));
        join.watermark(10);
        assert_eq!(join.take("main").len(), 30, "{mode}: one call may emit 8 MiB");
        assert!(join.dead_letters().is_empty(), "{mode}");
    }
}
