//! What the plugin does, over core's own lane; and, records in any order, the table it ends with.

use std::collections::BTreeMap;

use dovetail_sdk::Harness;
use proptest::prelude::*;
use wide_row::WideRow;

type Join = Harness<WideRow>;

const CONFIG: &str = r#"{"detail_id":"id","wait":"10ms","keep":{"header":"7d","detail":"7d"},"result":{"h":"header.n","d":"detail.n"}}"#;

fn join() -> Join {
    Join::new(CONFIG).expect("the configuration is right")
}

fn header(join: &mut Join, time: i64, is_delete: bool) {
    let record = join.record("header").key("k").time(time);
    if is_delete { record.tombstone() } else { record.value(&format!(r#"{{"n":{time}}}"#)) }
}

fn detail(join: &mut Join, id: u32, time: i64) {
    join.record("detail").key("k").time(time).value(&format!(r#"{{"id":{id},"n":{time}}}"#));
}

/// The table that the results make: the last value of each key.
fn table(join: &mut Join) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for result in join.take("main") {
        let key = result.key.expect("results have a key");
        match result.value {
            Some(value) => {
                table.insert(key, value);
            }
            None => assert!(table.remove(&key).is_some(), "{key} was not there"),
        }
    }
    table
}

#[test]
fn changed_header_reaches_many_details_in_steps() {
    let mut join = join();
    for id in 0..450 {
        detail(&mut join, id, 1);
    }
    header(&mut join, 2, false);
    header(&mut join, 3, false);
    assert_eq!(join.take("main").len(), 900);
    header(&mut join, 4, true);
    let deleted = join.take("main");
    assert!(deleted.len() == 450 && deleted.iter().all(|result| result.value.is_none()));
}

#[test]
fn details_beyond_the_limit_go_to_overflow_however_large_they_are() {
    let config = CONFIG.replacen('{', r#"{"max_details_per_key":12,"#, 1);
    let mut join = Join::new(&config).unwrap();
    let large = "x".repeat(900_000);
    for id in 0..14 {
        let record = join.record("detail").key("k").time(1);
        record.value(&format!(r#"{{"id":{id},"n":"{large}"}}"#));
    }
    assert_eq!(join.take("overflow").len(), 2);
}

#[test]
fn rows_without_time_or_id_are_dead_letters() {
    let mut join = join();
    join.record("header").key("k").value("{}");
    join.record("detail").key("k").time(1).value("{}");
    join.record("detail").key("k").time(1).tombstone();
    let letters = join.dead_letters();
    assert!(letters[0].message.contains("without event time"), "{letters:?}");
    assert!(letters[1].message.contains("without its id"), "{letters:?}");
    assert_eq!((join.metric("ignored_records"), join.rows()), (1.0, 0));
}

proptest! {
    /// Each record has a time of its own, so that "the newest" does not depend on arrival.
    #[test]
    fn any_order_of_arrival_ends_with_the_same_table(
        order in Just((0i64..24).collect::<Vec<_>>()).prop_shuffle(),
        records in proptest::collection::vec((0u32..5, proptest::bool::weighted(0.2)), 24),
        restores in 0usize..24,
    ) {
        let mut join = join();
        let of = |time: i64| records[usize::try_from(time).unwrap()];
        for (turn, time) in order.iter().enumerate() {
            match of(*time) {
                (0, is_delete) => header(&mut join, *time, is_delete),
                (id, _) => detail(&mut join, id, *time),
            }
            if turn == restores {
                join.commit();
                join.crash();
            }
        }
        join.watermark(100);
        let mut newest: BTreeMap<u32, i64> = BTreeMap::new();
        newest.extend((0..24).map(|time| (of(time).0, time)));
        let header = newest.remove(&0).filter(|time| !of(*time).1);
        let mut expected = BTreeMap::new();
        if let Some(header) = header {
            for (id, time) in &newest {
                let row = format!(r#"{{"h":{header},"d":{time}}}"#);
                expected.insert(format!(r#"["k",{id}]"#), row);
            }
            if newest.is_empty() {
                let row = format!(r#"{{"h":{header},"d":null}}"#);
                expected.insert(r#"["k",null]"#.to_owned(), row);
            }
        }
        prop_assert_eq!(table(&mut join), expected);
    }
}
