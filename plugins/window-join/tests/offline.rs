//! Goal: the results follow from the records alone. Method: records in any order within the
//! out-of-orderness, with restores in between, against a naive join of all of them.

use std::collections::BTreeMap;

use dovetail_sdk::Harness;
use proptest::prelude::*;
use window_join::WindowJoin;

const OUT_OF_ORDERNESS: i64 = 8;

#[derive(Debug, Clone, Copy)]
struct Given {
    is_left: bool,
    key: u8,
    time: i64,
    /// How much later than its time it comes.
    delay: i64,
    restores: bool,
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    Grid { size: i64, slide: i64, offset: i64 },
    Session { gap: i64 },
    Given,
}

fn given(delay_max: i64) -> impl Strategy<Value = Given> {
    (any::<bool>(), 0u8..2, 0i64..60, 0..=delay_max, proptest::bool::weighted(0.1)).prop_map(
        |(is_left, key, time, delay, restores)| Given { is_left, key, time, delay, restores },
    )
}

fn cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        (1i64..12, 1i64..12, -5i64..5).prop_map(|(size, slide, offset)| Cut::Grid {
            size,
            slide,
            offset
        }),
        (1i64..8).prop_map(|gap| Cut::Session { gap }),
        Just(Cut::Given),
    ]
}

fn config(cut: Cut, more: &str) -> String {
    let window = match cut {
        Cut::Grid { size, slide, offset } => {
            format!(
                r#"{{"kind":"sliding","size":"{size}ms","slide":"{slide}ms","offset":"{offset}ms"}}"#
            )
        }
        Cut::Session { gap } => format!(r#"{{"kind":"session","gap":"{gap}ms"}}"#),
        Cut::Given => r#"{"kind":"given"}"#.to_owned(),
    };
    format!(r#"{{"window":{window},{more}}}"#)
}

/// Every window of a key with the numbers of its records: end, left ones, right ones.
fn windows(records: &[Given], key: u8, cut: Cut) -> Vec<(i64, Vec<usize>, Vec<usize>)> {
    let mut of_key: Vec<(i64, usize)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.key == key)
        .map(|(at, record)| (record.time, at))
        .collect();
    of_key.sort_unstable();
    let mut by_end: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    match cut {
        Cut::Grid { size, slide, offset } => {
            for (time, at) in of_key {
                let starts = (time - size + 1..=time)
                    .filter(|start| (start - offset).rem_euclid(slide) == 0);
                starts.for_each(|start| by_end.entry(start + size).or_default().push(at));
            }
        }
        Cut::Session { gap } => {
            let mut session: Vec<usize> = Vec::new();
            let mut end = i64::MIN;
            for (time, at) in of_key {
                if time > end && !session.is_empty() {
                    by_end.insert(end, std::mem::take(&mut session));
                }
                session.push(at);
                end = time + gap;
            }
            if !session.is_empty() {
                by_end.insert(end, session);
            }
        }
        Cut::Given => of_key.into_iter().for_each(|(time, at)| {
            by_end.entry(time).or_default().push(at);
        }),
    }
    let split = |(end, all): (i64, Vec<usize>)| {
        let (lefts, rights) = all.into_iter().partition(|at| records[*at].is_left);
        (end, lefts, rights)
    };
    by_end.into_iter().map(split).collect()
}

/// Every result as a text of key, left number, right number and the window's end.
fn offline(records: &[Given], kind: &str, cut: Cut) -> Vec<String> {
    let mut results = Vec::new();
    for key in 0..2 {
        for (end, lefts, rights) in windows(records, key, cut) {
            let mut tell = |l: String, r: String| results.push(format!("{key} {l} {r} {end}"));
            let null = || "null".to_owned();
            let is_pair = !lefts.is_empty() && !rights.is_empty();
            if is_pair && !matches!(kind, "semi" | "anti") {
                for l in &lefts {
                    rights.iter().for_each(|r| tell(l.to_string(), r.to_string()));
                }
            }
            let lefts_alone = match kind {
                "semi" => is_pair,
                "left" | "full" | "anti" => rights.is_empty(),
                _ => false,
            };
            if lefts_alone {
                lefts.iter().for_each(|l| tell(l.to_string(), null()));
            }
            if matches!(kind, "right" | "full") && lefts.is_empty() {
                rights.iter().for_each(|r| tell(null(), r.to_string()));
            }
        }
    }
    results.sort();
    results
}

fn online(records: &[Given], cut: Cut, more: &str) -> (Vec<(String, serde_json::Value, i64)>, u64) {
    let config = config(cut, more);
    let mut join = Harness::<WindowJoin>::new(&config).expect("the configuration is right");
    // A given window is over a millisecond before the time of its records, a session a millisecond
    // before the last record that would touch it.
    let ahead = if matches!(cut, Cut::Given | Cut::Session { .. }) { 2 } else { 1 };
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| records[*at].time + records[*at].delay);
    let mut newest = i64::MIN;
    for at in order {
        let record = records[at];
        let side = if record.is_left { "left" } else { "right" };
        let value = format!(r#"{{"n":{at},"amount":{}}}"#, record.time);
        join.record(side).key(&record.key.to_string()).time(record.time).value(&value);
        newest = newest.max(record.time);
        join.watermark(newest - OUT_OF_ORDERNESS - ahead);
        if record.restores {
            join.commit();
            join.crash();
        }
    }
    join.end();
    assert!(join.take("late").is_empty() && join.dead_letters().is_empty());
    let results = join.take("main").into_iter().map(|result| {
        let value = serde_json::from_str(&result.value.unwrap_or_default());
        let time = result.time.expect("results have a time");
        (result.key.unwrap_or_default(), value.expect("results are JSON"), time)
    });
    (results.collect(), join.rows())
}

const PAIR: &str = r#""result":{"l":"left.n","r":"right.n"}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_order_of_arrival_gives_what_a_join_of_all_records_gives(
        records in proptest::collection::vec(given(OUT_OF_ORDERNESS), 0..40),
        kind in prop::sample::select(vec!["inner", "left", "right", "full", "semi", "anti"]),
        cut in cut(),
    ) {
        let (results, rows) = online(&records, cut, &format!(r#""kind":"{kind}",{PAIR}"#));
        let mut texts: Vec<String> = results
            .iter()
            .map(|(key, value, time)| format!("{key} {} {} {}", value["l"], value["r"], time + 1))
            .collect();
        texts.sort();
        prop_assert_eq!(texts, offline(&records, kind, cut));
        prop_assert_eq!(rows, 0, "nothing stays behind");
    }

    #[test]
    fn totals_are_those_of_all_records_of_the_window(
        records in proptest::collection::vec(given(OUT_OF_ORDERNESS), 0..40),
        cut in cut(),
    ) {
        let totals = r#""kind":"full","emit":"totals","totals":{"n":{"count":"right"},"amount":{"sum":"left.amount"}}"#;
        let (results, rows) = online(&records, cut, totals);
        let mut texts: Vec<String> = results
            .iter()
            .map(|(key, it, time)| format!("{key} {} {} {}", time + 1, it["n"], it["amount"]))
            .collect();
        texts.sort();
        let mut expected: Vec<String> = (0..2)
            .flat_map(|key| windows(&records, key, cut).into_iter().map(move |it| (key, it)))
            .map(|(key, (end, lefts, rights))| {
                let amount: i64 = lefts.iter().map(|at| records[*at].time).sum();
                format!("{key} {end} {} {amount}", rights.len())
            })
            .collect();
        expected.sort();
        prop_assert_eq!(texts, expected);
        prop_assert_eq!(rows, 0, "nothing stays behind");
    }

    #[test]
    fn late_records_that_are_taken_bring_each_pair_that_is_new_and_no_other(
        records in proptest::collection::vec(given(OUT_OF_ORDERNESS + 10), 0..40),
        cut in cut(),
    ) {
        // A record comes at most 18 ms late; a window of it closes at its own time + 8 + 11 or later.
        let more = format!(r#""kind":"inner","allowed_lateness":"12ms",{PAIR}"#);
        let (results, rows) = online(&records, cut, &more);
        // A session is told by the records in it: its end may have moved meanwhile.
        let is_session = matches!(cut, Cut::Session { .. });
        let end = |end: i64| if is_session { String::new() } else { end.to_string() };
        let mut texts: Vec<String> = results
            .iter()
            .map(|(key, it, time)| format!("{key} {} {} {}", it["l"], it["r"], end(time + 1)))
            .collect();
        texts.sort();
        let mut expected = Vec::new();
        for key in 0..2 {
            for (last, lefts, rights) in windows(&records, key, cut) {
                for l in &lefts {
                    expected.extend(rights.iter().map(|r| format!("{key} {l} {r} {}", end(last))));
                }
            }
        }
        expected.sort();
        prop_assert_eq!(texts, expected);
        prop_assert_eq!(rows, 0, "nothing stays behind");
    }
}
