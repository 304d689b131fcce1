//! Goal: one bad record costs itself and nothing else, and can be found again; many stop the
//! pipeline instead of emptying the topic. Method: bytes that are no record among good ones, and
//! nothing but bad ones, on a running host.

use std::collections::BTreeSet;

use dovetail_tests::broker::Record;

use crate::host_process::{LIMIT, Pipeline, get, metric, wait_for_status};
use crate::host_stream::{BASE, order, payment, value};

/// A header's value as text.
fn header<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let of_name = |(known, value): &'a (String, Option<Vec<u8>>)| {
        (known == name).then(|| std::str::from_utf8(value.as_deref().unwrap()).unwrap())
    };
    record.headers.iter().find_map(of_name)
}

#[test]
fn p44_bad_records_are_kept_with_their_bytes_and_place_and_the_others_go_on() {
    let pipeline = Pipeline::create(1);
    let bad: [&[u8]; 4] = [
        br#"{"order_id":"o2","ts":1772359201000iiii}"#,
        br#"{"order_id":"o3","ts":17723"#,
        b"\xff\xfe\x00",
        br#"{"order_id":004}"#,
    ];
    let mut orders = vec![order("o1", BASE, 1)];
    for (number, bytes) in (1_i64..).zip(bad) {
        let record =
            Record { key: Some(vec![0xff, 0]), value: Some(bytes.into()), ..<_>::default() };
        orders.push(record.at_ms(BASE + number).with_header("trace", "t7"));
    }
    orders.push(order("o6", BASE + 6, 1));
    let (client, letters) = (&pipeline.client, pipeline.topic("dead-letters"));
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    let payments = ["o1", "o6"].map(|key| payment(key, BASE + 6, 7, 1));
    client.produce(&pipeline.topic("payments"), &payments).unwrap();

    let host = pipeline.run();
    let results = client.wait_for(&pipeline.topic("results"), 2, LIMIT).unwrap();
    let ids: Vec<String> =
        results.iter().map(|result| value(result)["order_id"].to_string()).collect();
    assert_eq!(ids, ["\"o1\"", "\"o6\""]);
    let dead = client.wait_for(&letters, bad.len(), LIMIT).unwrap();
    host.stop();
    for ((number, bytes), dead) in (1_i64..).zip(bad).zip(&dead) {
        assert_eq!(dead.key.as_deref(), Some(&[0xff, 0][..]));
        assert_eq!(dead.value.as_deref(), Some(bytes));
        assert_eq!(dead.headers[0], ("trace".to_owned(), Some(b"t7".to_vec())), "its own first");
        let (topic, offset) = (pipeline.topic("orders"), number.to_string());
        let timestamp = (BASE + number).to_string();
        for (name, expected) in [
            ("__streams.errors.topic", topic.as_str()),
            ("__streams.errors.partition", "0"),
            ("__streams.errors.offset", &offset),
            ("__dovetail.errors.timestamp", &timestamp),
            ("__dovetail.errors.input", "orders"),
            ("__dovetail.errors.reason", "decode"),
        ] {
            assert_eq!(header(dead, name), Some(expected), "{name} of {dead:?}");
        }
    }
    assert_eq!(client.read_committed(&letters).unwrap().len(), bad.len());
}

#[test]
fn a_flood_of_dead_letters_stops_the_process_instead_of_emptying_the_topic() {
    const RECORDS: usize = 2_000;
    let pipeline = Pipeline::create(1);
    let (client, letters) = (&pipeline.client, pipeline.topic("dead-letters"));
    let bad = vec![Record::new("k", "no json"); RECORDS];
    client.produce(&pipeline.topic("orders"), &bad).unwrap();
    // The second start finds the same flood.
    for _ in 0..2 {
        let mut host = pipeline.run();
        assert_eq!(host.wait_exit(LIMIT), Some(3), "{}", host.text());
        let said = host.text();
        for part in ["dead letters, more than the 10 % of `dead_letters.max_rate`", "decode"] {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
    }
    let so_far = client.read_committed(&letters).unwrap();
    assert!(so_far.len() < RECORDS / 2, "{} dead letters", so_far.len());

    // Whoever wants them all says so, and finds each once.
    let text = pipeline.text() + "dead_letters: { max_rate: 100% }\n";
    let host = pipeline.run_text("pipeline.yaml", &text);
    let dead = client.wait_for(&letters, RECORDS, LIMIT).unwrap();
    host.stop();
    let offsets: BTreeSet<&str> =
        dead.iter().map(|dead| header(dead, "__streams.errors.offset").unwrap()).collect();
    assert_eq!((offsets.len(), dead.len()), (RECORDS, RECORDS));
}

#[test]
fn p15_null_keys_are_dead_letters_or_dropped_and_counted_and_an_empty_key_is_a_key() {
    let pipeline = Pipeline::create(1);
    let client = &pipeline.client;
    let keyless = |value: String| Record { key: None, value: Some(value.into()), ..<_>::default() };
    let null = |_: usize| keyless(format!(r#"{{"order_id":null,"ts":{BASE},"paid":1}}"#));
    let orders: Vec<Record> = (0..2).map(null).chain([order("", BASE, 1)]).collect();
    let payments: Vec<Record> = (0..3).map(null).chain([payment("", BASE, 5, 1)]).collect();
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    client.produce(&pipeline.topic("payments"), &payments).unwrap();
    let topic = format!("topic: {}\n", pipeline.topic("payments"));
    let dropping = pipeline.text().replacen(&topic, &format!("{topic}    null_key: drop\n"), 1);
    let host = pipeline.run_text("pipeline.yaml", &dropping);
    let admin = host.wait_for_lanes();
    let results = client.wait_for(&pipeline.topic("results"), 1, LIMIT).unwrap();
    assert_eq!(value(&results[0])["paid"], 5);
    let status = wait_for_status(&admin, |status| status["inputs"][1]["records"] == 4);
    assert_eq!(status["inputs"][1]["dropped"], 3);
    let metrics = get(&admin, "/metrics").1;
    let (dropped, dead) = ("dovetail_dropped_records_total", "dovetail_dead_letters_total");
    assert_eq!(
        metric(&metrics, dropped, &["input=\"payments\"", "reason=\"null_key\""]),
        Some(3.0)
    );
    assert_eq!(metric(&metrics, dropped, &["input=\"orders\""]), None);
    assert_eq!(metric(&metrics, dead, &["input=\"orders\"", "reason=\"null_key\""]), Some(2.0));
    // No line per record.
    let said = host.text();
    assert!(said.lines().filter(|line| line.contains("null_key")).count() <= 2, "{said}");
    host.stop();
    assert_eq!(client.read_committed(&pipeline.topic("dead-letters")).unwrap().len(), 2);
}
