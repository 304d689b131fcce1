//! Goal: the results follow from the records alone. Method: records in any order within the
//! out-of-orderness, with restores in between, against a naive join of all of them.

use dovetail_sdk::Harness;
use interval_join::IntervalJoin;
use proptest::prelude::*;

const OUT_OF_ORDERNESS: i64 = 8;

#[derive(Debug, Clone, Copy)]
struct Given {
    is_left: bool,
    key: u8,
    time: i64,
    /// How much later than its time it comes, at most [`OUT_OF_ORDERNESS`].
    delay: i64,
    restores: bool,
}

fn given() -> impl Strategy<Value = Given> {
    (any::<bool>(), 0u8..3, 0i64..60, 0..=OUT_OF_ORDERNESS, proptest::bool::weighted(0.1)).prop_map(
        |(is_left, key, time, delay, restores)| Given { is_left, key, time, delay, restores },
    )
}

/// Every result as a text of key, left number, right number and time.
fn offline(records: &[Given], kind: &str, lower: i64, upper: i64) -> Vec<String> {
    let is_pair = |left: &Given, right: &Given| {
        left.key == right.key && (lower..=upper).contains(&(right.time - left.time))
    };
    let side =
        |is_left: bool| records.iter().enumerate().filter(move |(_, it)| it.is_left == is_left);
    let tell = |key: u8, l: Option<usize>, r: Option<usize>, time: i64| {
        let number = |at: Option<usize>| at.map_or("null".to_owned(), |at| at.to_string());
        format!("{key} {} {} {time}", number(l), number(r))
    };
    let mut results = Vec::new();
    for (l, left) in side(true) {
        let partners: Vec<_> = side(false).filter(|(_, right)| is_pair(left, right)).collect();
        if matches!(kind, "inner" | "left" | "right" | "full") {
            let pair = |&(r, right): &(usize, &Given)| {
                tell(left.key, Some(l), Some(r), left.time.max(right.time))
            };
            results.extend(partners.iter().map(pair));
        }
        let is_result = match kind {
            "left" | "full" | "anti" => partners.is_empty(),
            _ => false,
        };
        if is_result {
            results.push(tell(left.key, Some(l), None, left.time + upper.max(0)));
        }
        if kind == "semi" && !partners.is_empty() {
            results.push(format!("{} {l} null", left.key));
        }
    }
    for (r, right) in side(false) {
        let is_alone = !side(true).any(|(_, left)| is_pair(left, right));
        if matches!(kind, "right" | "full") && is_alone {
            results.push(tell(right.key, None, Some(r), right.time + (-lower).max(0)));
        }
    }
    results.sort();
    results
}

fn online(records: &[Given], kind: &str, lower: i64, upper: i64) -> (Vec<String>, u64) {
    let config = format!(
        r#"{{"kind":"{kind}","lower":"{lower}ms","upper":"{upper}ms","result":{{"l":"left.n","r":"right.n"}}}}"#
    );
    let mut join = Harness::<IntervalJoin>::new(&config).expect("the configuration is right");
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| records[*at].time + records[*at].delay);
    let mut newest = i64::MIN;
    for at in order {
        let record = records[at];
        let side = if record.is_left { "left" } else { "right" };
        let key = record.key.to_string();
        join.record(side).key(&key).time(record.time).value(&format!(r#"{{"n":{at}}}"#));
        newest = newest.max(record.time);
        join.watermark(newest - OUT_OF_ORDERNESS - 1);
        if record.restores {
            join.commit();
            join.crash();
        }
    }
    join.end();
    assert!(join.take("late").is_empty() && join.dead_letters().is_empty());
    let results = join.take("main").into_iter().map(|result| {
        let value: serde_json::Value =
            serde_json::from_str(&result.value.unwrap_or_default()).expect("results are JSON");
        let time = result.time.expect("results have a time");
        // Which partner comes first, and so the time, is arrival's to say.
        let time = if kind == "semi" { String::new() } else { format!(" {time}") };
        format!("{} {} {}{time}", result.key.unwrap_or_default(), value["l"], value["r"])
    });
    let mut results: Vec<String> = results.collect();
    results.sort();
    (results, join.rows())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_order_of_arrival_gives_what_a_join_of_all_records_gives(
        records in proptest::collection::vec(given(), 0..40),
        kind in prop::sample::select(vec!["inner", "left", "right", "full", "semi", "anti"]),
        lower in -12i64..12,
        length in 0i64..12,
    ) {
        let (results, rows) = online(&records, kind, lower, lower + length);
        prop_assert_eq!(results, offline(&records, kind, lower, lower + length));
        prop_assert_eq!(rows, 0);
    }
}
