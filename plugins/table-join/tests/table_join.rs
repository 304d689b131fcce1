//! What the plugin does, over core's own lane.

use std::collections::BTreeMap;

use dovetail_sdk::Harness;
use proptest::prelude::*;
use table_join::TableJoin;

type Join = Harness<TableJoin>;

fn join(kind: &str, more: &str) -> Join {
    let config = format!(r#"{{"kind":"{kind}","result":{{"l":"left.v","r":"right.v"}}{more}}}"#);
    Join::new(&config).expect("the configuration is right")
}

fn feed(join: &mut Join, side: &str, time: i64, value: Option<u32>) {
    let record = join.record(side).key("k").time(time);
    match value {
        Some(value) => record.value(&format!(r#"{{"v":{value}}}"#)),
        None => record.tombstone(),
    }
}

#[test]
fn each_kind_says_when_there_is_a_result() {
    let steps = [("left", Some(1)), ("right", Some(2)), ("right", Some(3)), ("left", None)];
    let expected = [
        ("inner", r#"[{"l":1,"r":2}, {"l":1,"r":3}, ]"#),
        ("left", r#"[{"l":1,"r":null}, {"l":1,"r":2}, {"l":1,"r":3}, ]"#),
        ("right", r#"[{"l":1,"r":2}, {"l":1,"r":3}, {"l":null,"r":3}]"#),
        ("full", r#"[{"l":1,"r":null}, {"l":1,"r":2}, {"l":1,"r":3}, {"l":null,"r":3}]"#),
        ("semi", r#"[{"l":1,"r":null}, ]"#),
        ("anti", r#"[{"l":1,"r":null}, ]"#),
    ];
    for (kind, results) in expected {
        let mut join = join(kind, "");
        for (time, (side, value)) in steps.into_iter().enumerate() {
            feed(&mut join, side, i64::try_from(time).unwrap(), value);
        }
        assert_eq!(format!("[{}]", join.values("main").join(", ")), results, "{kind}");
    }
}

#[test]
fn deleting_what_is_not_there_emits_nothing_and_keeps_nothing() {
    let mut join = join("full", "");
    feed(&mut join, "left", 1, None);
    feed(&mut join, "right", 2, Some(1));
    feed(&mut join, "left", 3, None);
    assert_eq!(join.values("main"), [r#"{"l":null,"r":1}"#]);
    feed(&mut join, "right", 4, None);
    assert_eq!(join.take("main")[0].value, None);
    assert_eq!(join.rows(), 0);
}

#[test]
fn one_versioned_side_does_not_order_the_other() {
    let mut join = join("inner", r#","versioned":["left"]"#);
    feed(&mut join, "left", 5, Some(1));
    feed(&mut join, "right", 5, Some(1));
    feed(&mut join, "left", 4, Some(2));
    feed(&mut join, "right", 4, Some(2));
    assert_eq!(join.values("main"), [r#"{"l":1,"r":1}"#, r#"{"l":1,"r":2}"#]);
    assert_eq!(join.metric("ignored_records"), 1.0);
}

#[test]
fn row_without_a_time_has_no_version() {
    let mut join = join("inner", r#","versioned":true"#);
    join.record("left").key("k").value("{}");
    assert!(join.dead_letters()[0].message.contains("without event time has no version"));
}

fn result_of(kind: &str, left: Option<u32>, right: Option<u32>) -> Option<String> {
    let is_result = match kind {
        "inner" => left.is_some() && right.is_some(),
        "left" => left.is_some(),
        _ => left.is_some() || right.is_some(),
    };
    let text = |value: Option<u32>| value.map_or("null".to_owned(), |value| value.to_string());
    is_result.then(|| format!(r#"{{"l":{},"r":{}}}"#, text(left), text(right)))
}

proptest! {
    /// Each record has a time of its own, so that "the newest" does not depend on arrival.
    #[test]
    fn versioned_tables_end_with_the_same_results_in_any_order_of_arrival(
        order in Just((0i64..30).collect::<Vec<_>>()).prop_shuffle(),
        sides in proptest::collection::vec(any::<(bool, bool)>(), 30),
        kind in prop::sample::select(vec!["inner", "left", "full"]),
        restores in 0usize..30,
    ) {
        let mut join = join(kind, r#","versioned":true"#);
        let given = |time: i64| {
            let at = usize::try_from(time).unwrap();
            let (is_left, is_delete) = sides[at];
            let value = u32::try_from(time).unwrap();
            (if is_left { "left" } else { "right" }, (!is_delete).then_some(value))
        };
        for (at, time) in order.iter().enumerate() {
            let (side, value) = given(*time);
            feed(&mut join, side, *time, value);
            if at == restores {
                join.commit();
                join.crash();
            }
        }
        let mut newest = BTreeMap::new();
        for time in 0..30 {
            let (side, value) = given(time);
            newest.insert(side, value);
        }
        let of = |side: &str| newest.get(side).copied().flatten();
        let last = join.take("main").pop().and_then(|result| result.value);
        prop_assert_eq!(last, result_of(kind, of("left"), of("right")));
    }
}
