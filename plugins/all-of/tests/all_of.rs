//! What the plugin does, over core's own lane; and, records in any order within the
//! out-of-orderness, what a naive join of all of them says.

use all_of::AllOf;
use dovetail_sdk::Harness;
use proptest::prelude::*;

type Join = Harness<AllOf>;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn join(count: usize, more: &str) -> Join {
    let names = NAMES[..count].iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>();
    let result =
        NAMES[..count].iter().map(|name| format!("\"{name}\":\"{name}.n\",")).collect::<String>();
    let config = format!(
        r#"{{"inputs":[{}],"wait":"20ms",{more}"result":{{{result}"missing":"missing"}}}}"#,
        names.join(",")
    );
    Join::new(&config).expect("the configuration is right")
}

fn feed(join: &mut Join, name: &str, time: i64) {
    join.record(name).key("k").time(time).value(&format!(r#"{{"n":{time}}}"#));
}

#[test]
fn record_too_far_behind_the_earliest_is_in_no_result_whichever_comes_first() {
    for times in [[(0, 25), (1, 3)], [(1, 3), (0, 25)]] {
        let mut join = join(2, "");
        for (at, time) in times {
            feed(&mut join, NAMES[at], time);
        }
        assert_eq!(join.values("unused"), [r#"{"n":25}"#]);
        join.watermark(23);
        assert_eq!(join.values("main"), [r#"{"a":null,"b":3,"missing":["a"]}"#]);
        join.watermark(43);
        assert_eq!(join.rows(), 0);
    }
}

#[test]
fn newer_record_of_an_input_replaces_the_older_while_the_group_waits() {
    let mut join = join(2, r#""unused":"drop","partial":"side_output","#);
    for time in [5, 9, 7] {
        feed(&mut join, "a", time);
    }
    join.watermark(29);
    assert_eq!(join.values("partial"), [r#"{"a":9,"b":null,"missing":["b"]}"#]);
    assert_eq!(join.metric("unused"), 2.0);
}

#[test]
fn one_input_or_nine_or_the_same_twice_are_refused() {
    for inputs in ["[\"a\"]", "[\"a\",\"a\"]", "[1,2]"] {
        assert!(Join::new(&format!(r#"{{"inputs":{inputs},"wait":"1ms"}}"#)).is_err(), "{inputs}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_arrival_gives_what_a_join_of_all_records_gives(
        count in 2usize..=8,
        times in proptest::collection::vec(proptest::option::weighted(0.8, (0i64..30, 0i64..8)), 8),
        restores in 0usize..8,
    ) {
        let mut join = join(count, "");
        let mut records: Vec<(i64, usize, i64)> = (0..count)
            .filter_map(|at| times[at].map(|(time, delay)| (time + delay, at, time)))
            .collect();
        records.sort_unstable();
        let mut newest = i64::MIN;
        for (turn, (_, at, time)) in records.iter().enumerate() {
            feed(&mut join, NAMES[*at], *time);
            newest = newest.max(*time);
            join.watermark(newest - 9);
            if turn == restores {
                join.commit();
                join.crash();
            }
        }
        join.end();
        let earliest = records.iter().map(|(_, _, time)| *time).min();
        let part = |at: usize| {
            let time = times[at].map(|(time, _)| time);
            time.filter(|time| earliest.is_some_and(|earliest| *time <= earliest + 20))
        };
        let text = (0..count).map(|at| {
            let number = part(at).map_or("null".to_owned(), |time| time.to_string());
            format!("\"{}\":{number},", NAMES[at])
        });
        let missing: Vec<String> =
            (0..count).filter(|at| part(*at).is_none()).map(|at| format!("\"{}\"", NAMES[at])).collect();
        let expected =
            format!("{{{}\"missing\":[{}]}}", text.collect::<String>(), missing.join(","));
        let results = join.values("main");
        prop_assert_eq!(&results, &if earliest.is_some() { vec![expected] } else { vec![] });
        let used = (0..count).filter(|at| part(*at).is_some()).count();
        prop_assert_eq!(join.values("unused").len(), records.len() - used);
        prop_assert_eq!(join.rows(), 0);
    }
}

#[test]
fn partial_result_that_is_refused_is_kept_whole_and_the_group_is_decided() {
    let mut join = join(3, "");
    let large = "x".repeat(600_000);
    for name in ["a", "b"] {
        join.record(name).key("k").time(5).value(&format!(r#"{{"n":"{large}"}}"#));
    }
    join.watermark(25);
    let refused = join.dead_letters();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].value.as_ref().is_some_and(|value| value.len() > 1_200_000));
    assert!(join.take("main").is_empty() && join.take("unused").is_empty());
    feed(&mut join, "c", 26);
    assert_eq!(join.take("unused").len(), 1, "the group has had its result");
    join.watermark(45);
    assert_eq!(join.rows(), 0);
}

#[test]
fn open_group_keeps_its_records_under_the_names_of_their_inputs() {
    let config = |inputs: &str| {
        let result = r#"{"b":"b.n","missing":"missing"}"#;
        format!(r#"{{"inputs":[{inputs}],"wait":"20ms","result":{result}}}"#)
    };
    let mut join = Join::new(&config(r#""a","b""#)).unwrap();
    feed(&mut join, "a", 5);
    feed(&mut join, "b", 50);
    assert_eq!(join.values("unused").len(), 1);
    join.reconfigure(&config(r#""b","a""#)).unwrap();
    feed(&mut join, "b", 6);
    assert_eq!(join.values("main"), [r#"{"b":6,"missing":[]}"#]);

    let mut join = Join::new(&config(r#""a","b""#)).unwrap();
    feed(&mut join, "a", 5);
    join.reconfigure(&config(r#""b","c""#)).unwrap();
    feed(&mut join, "b", 6);
    assert_eq!(join.values("unused"), [r#"{"n":5}"#], "of an input that is no more");
    join.watermark(26);
    assert_eq!(join.values("main"), [r#"{"b":6,"missing":["c"]}"#]);
}
