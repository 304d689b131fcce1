//! Goal: a replay gives what a live run would have given. Method: a day of event time that lies in
//! the topics before the host starts, with partitions that hold different hours.

use std::collections::BTreeMap;

use dovetail_tests::broker::Record;

use crate::host_process::{LIMIT, Pipeline, get};
use crate::host_stream::{BASE, order, payment, value};
use dovetail_core::key::murmur2_partition;

const HOUR: i64 = 3_600_000;
const ORDERS: i64 = 10_000;
/// One order in so many is paid.
const PAID_ONE_IN: i64 = 10;

/// A key that lies in that partition of two.
fn key(number: i64, partition: u16) -> String {
    let mut keys = (0..).map(|attempt| format!("o{number}-{attempt}"));
    keys.find(|key| murmur2_partition(key.as_bytes(), 2) == partition).unwrap()
}

#[test]
fn p13_partitions_that_hold_different_hours_are_read_in_step() {
    let pipeline = Pipeline::create(2);
    let (mut orders, mut payments) = (Vec::new(), Vec::new());
    let mut expected = BTreeMap::new();
    for number in 0..ORDERS {
        // orders-0 holds hours 0 to 12, orders-1 hours 12 to 24.
        let partition = u16::from(number >= ORDERS / 2);
        let (key, time) = (key(number, partition), BASE + number * 24 * HOUR / ORDERS);
        orders.push(order(&key, time, 2));
        let paid = (number % PAID_ONE_IN == 0).then(|| number.unsigned_abs());
        if let Some(paid) = paid {
            payments.push(payment(&key, time + 9_000, paid, 2));
        }
        expected.insert(key, paid);
    }
    // Moves time behind everything; never decided itself.
    orders.push(order(&key(ORDERS, 1), BASE + 36 * HOUR, 2));
    let client = &pipeline.client;
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    client.produce(&pipeline.topic("payments"), &payments).unwrap();

    // One lane reads all four partitions.
    let text = pipeline.text().replace("idle_after: never", "idle_after: 1s") + "lanes: 1\n";
    let host = pipeline.run_text("pipeline.yaml", &text);
    let admin = host.admin();
    let results = client.wait_for(&pipeline.topic("results"), expected.len(), LIMIT).unwrap();
    let status: serde_json::Value = serde_json::from_str(&get(&admin, "/api/v1/status").1).unwrap();
    let late: Vec<_> = status["inputs"].as_array().unwrap().iter().map(|i| &i["late"]).collect();
    assert_eq!(late, [0, 0]);
    host.stop();
    assert_eq!(client.read_committed(&pipeline.topic("late")).unwrap(), []);
    let paid = |record: &Record| {
        let value = value(record);
        (value["order_id"].as_str().unwrap().to_owned(), value["paid"].as_u64())
    };
    assert_eq!(results.len(), expected.len());
    let found: BTreeMap<String, Option<u64>> = results.iter().map(paid).collect();
    assert!(found == expected);
}
