//! What the plugin does, over core's own lane.

use dovetail_sdk::{Harness, Header};
use order_payment::OrderPayment;

type Join = Harness<OrderPayment>;

/// |payment.ts − order.ts| ≤ 10 s, one row per order.
const PAY_MATCH: &str = r#"{"within":"10s","result":{"order_id":"order.order_id","amount":"order.amount","paid":"payment.paid"}}"#;

fn join() -> Join {
    Join::new(PAY_MATCH).expect("the configuration is right")
}

fn order(join: &mut Join, id: &str, time: i64) {
    let value = format!(r#"{{"order_id":"{id}","amount":5.00,"ts":{time}}}"#);
    join.record("order").key(id).time(time).value(&value);
}

fn payment(join: &mut Join, id: &str, time: i64) {
    let value = format!(r#"{{"order_id":"{id}","paid":{time},"ts":{time}}}"#);
    join.record("payment").key(id).time(time).value(&value);
}

fn result(id: &str, paid: &str) -> String {
    format!(r#"{{"order_id":"{id}","amount":5.00,"paid":{paid}}}"#)
}

#[test]
fn an_order_is_paid_whichever_comes_first_and_the_result_has_the_later_time() {
    let mut join = join();
    order(&mut join, "o1", 1_000);
    payment(&mut join, "o1", 5_000);
    payment(&mut join, "o2", 2_000);
    join.commit();
    join.crash();
    order(&mut join, "o2", 3_000);
    let results = join.take("main");
    let values: Vec<_> = results.iter().filter_map(|record| record.value.clone()).collect();
    assert_eq!(values, [result("o1", "5000"), result("o2", "2000")]);
    assert_eq!(
        results.iter().map(|record| record.time).collect::<Vec<_>>(),
        [Some(5_000), Some(3_000)]
    );
    join.watermark(100_000);
    assert!(join.take("main").is_empty() && join.take("late").is_empty());
    assert_eq!(join.rows(), 0);
}

#[test]
fn both_bounds_are_inclusive_and_one_millisecond_beyond_is_not_in_range() {
    let mut join = join();
    for (id, paid) in [("a", 10_000), ("b", 30_000), ("c", 9_999), ("d", 30_001)] {
        order(&mut join, id, 20_000);
        payment(&mut join, id, paid);
    }
    assert_eq!(join.values("main"), [result("a", "10000"), result("b", "30000")]);
    assert_eq!(join.values("late").len(), 2);
    join.watermark(30_000);
    assert_eq!(join.values("main"), [result("c", "null"), result("d", "null")]);
}

#[test]
fn an_order_is_unpaid_exactly_when_the_watermark_reaches_its_deadline() {
    let mut join = join();
    order(&mut join, "o1", 1_000);
    join.watermark(10_999);
    assert!(join.take("main").is_empty());
    join.crash();
    join.watermark(11_000);
    let results = join.take("main");
    assert_eq!(results[0].value.as_deref(), Some(result("o1", "null").as_str()));
    assert_eq!(results[0].time, Some(11_000));
}

#[test]
fn a_payment_for_a_decided_order_goes_to_late_and_never_makes_a_second_result() {
    let mut join = join();
    order(&mut join, "unpaid", 1_000);
    order(&mut join, "paid", 1_000);
    payment(&mut join, "paid", 2_000);
    payment(&mut join, "paid", 3_000);
    join.watermark(11_000);
    payment(&mut join, "unpaid", 6_000);
    assert_eq!(join.values("main").len(), 2);
    let late = join.take("late");
    assert_eq!(late.len(), 2);
    let names: Vec<_> = late[1].headers.iter().map(|header| header.name.as_str()).collect();
    assert!(names.contains(&"__dovetail.late.lateness_ms"), "{names:?}");
    assert_eq!(late[1].time, Some(6_000));
    join.watermark(21_000);
    assert_eq!(join.rows(), 0);
    assert_eq!(join.metric("late_payments"), 2.0);
}

#[test]
fn a_payment_whose_order_never_comes_goes_to_late_when_none_can_come() {
    let mut join = join();
    join.record("payment").key("x").time(5_000).header("h", "1").value(r#"{"paid":1}"#);
    join.watermark(14_999);
    assert!(join.take("late").is_empty());
    join.watermark(15_000);
    let late = join.take("late");
    assert_eq!(late[0].value.as_deref(), Some(r#"{"paid":1}"#));
    assert_eq!((late[0].headers.len(), late[0].time), (1, Some(5_000)));
    payment(&mut join, "y", 5_000);
    assert_eq!(join.take("late").len(), 1, "no order for it can come: at once");
    assert_eq!(join.rows(), 0);
}

#[test]
fn of_several_early_payments_the_earliest_in_range_pays_and_the_others_are_late() {
    let mut join = join();
    for time in [1_000, 12_000, 11_000, 11_000] {
        payment(&mut join, "o1", time);
    }
    order(&mut join, "o1", 12_000);
    assert_eq!(join.values("main"), [result("o1", "11000")]);
    assert_eq!(join.values("late").len(), 3);
    join.watermark(100_000);
    assert_eq!(join.rows(), 0);
    assert!(join.take("late").is_empty());
}

#[test]
fn a_late_order_is_decided_at_once_when_its_deadline_has_passed() {
    let mut join = join();
    join.watermark(20_000);
    order(&mut join, "gone", 5_000);
    order(&mut join, "open", 15_000);
    assert_eq!(join.values("main"), [result("gone", "null")]);
    payment(&mut join, "gone", 20_500);
    payment(&mut join, "open", 16_000);
    assert_eq!(join.values("main"), [result("open", "16000")]);
    assert_eq!(join.values("late").len(), 1, "its order is remembered as decided");
    join.watermark(100_000);
    assert_eq!(join.rows(), 0);
}

#[test]
fn a_repeated_order_gives_no_second_result() {
    let mut join = join();
    order(&mut join, "o1", 1_000);
    order(&mut join, "o1", 2_000);
    join.end();
    assert_eq!(join.values("main"), [result("o1", "null")]);
    assert_eq!(join.metric("repeated_orders"), 1.0);
    assert_eq!(join.rows(), 0);
}

#[test]
fn null_keys_equal_nothing_and_the_empty_key_is_a_key() {
    let mut join = join();
    join.record("order").time(1).value(r#"{"order_id":null,"amount":1}"#);
    join.record("payment").time(1).value(r#"{"paid":1}"#);
    assert_eq!(join.values("main"), [r#"{"order_id":null,"amount":1,"paid":null}"#]);
    assert_eq!(join.values("late"), [r#"{"paid":1}"#]);
    order(&mut join, "", 1);
    payment(&mut join, "", 2);
    assert_eq!(join.values("main"), [result("", "2")]);
}

#[test]
fn records_without_event_time_are_dead_letters_and_tombstones_are_counted() {
    let mut join = join();
    join.record("order").key("o1").value("{}");
    join.record("order").key("o1").time(1).tombstone();
    assert!(join.dead_letters()[0].message.contains("without event time"));
    assert_eq!(join.metric("ignored_records"), 1.0);
    assert_eq!(join.rows(), 0);
}

#[test]
fn headers_are_kept_through_waiting_and_a_restart_with_their_order() {
    let mut join = Join::new(r#"{"headers":{"order":["t"],"payment":["p"]}}"#).unwrap();
    let record = join.record("order").key("o1").time(1).header("t", "1").header("x", "2");
    record.header("t", "3").value("{}");
    join.record("payment").key("o2").time(1).header("p", "4").header("x", "5").value("{}");
    join.commit();
    join.crash();
    join.record("order").key("o2").time(1).value("{}");
    join.watermark(1_800_001);
    let header = |name: &str, value: &str| Header {
        name: name.to_owned(),
        value: Some(value.as_bytes().to_vec()),
    };
    let results = join.take("main");
    assert_eq!(results[0].headers, [header("p", "4")]);
    assert_eq!(results[1].headers, [header("t", "1"), header("t", "3")]);
    assert_eq!(
        results[1].value.as_deref(),
        Some(r#"{"order":{},"payment":null,"status":"UNPAID"}"#)
    );
}

#[test]
fn many_payments_without_an_order_are_given_up_in_steps() {
    let mut join = Join::new(r#"{"within":"1s","before":"0ms","without_order":"drop"}"#).unwrap();
    for _ in 0..1_200 {
        payment(&mut join, "x", 5);
    }
    join.watermark(5);
    assert_eq!(join.metric("dropped_payments"), 1_200.0);
    assert_eq!(join.rows(), 0);
}

#[test]
fn unpaid_result_that_is_refused_is_kept_whole_and_the_order_is_decided() {
    let mut join = join();
    let id = "x".repeat(1 << 20);
    let value = format!(r#"{{"order_id":"{id}","amount":1}}"#);
    join.record("order").key("k").time(1_000).value(&value);
    join.watermark(11_000);
    assert!(join.take("main").is_empty());
    let refused = join.dead_letters();
    assert_eq!((refused.len(), refused[0].reason.as_str()), (1, "output_refused"));
    assert!(refused[0].value.as_ref().is_some_and(|value| value.ends_with(r#""paid":null}"#)));
    payment(&mut join, "k", 12_000);
    assert_eq!(join.take("late").len(), 1, "the order has had its result");
    join.end();
    assert_eq!(join.rows(), 0);
}

#[test]
fn large_payments_whose_order_never_comes_are_given_up_in_steps() {
    let mut join = join();
    let large = "x".repeat(1_000_000);
    for _ in 0..20 {
        join.record("payment").key("k").time(5_000).value(&format!(r#"{{"paid":"{large}"}}"#));
    }
    join.watermark(15_000);
    assert_eq!(join.take("late").len(), 20, "one call may emit 8 MiB");
    assert!(join.dead_letters().is_empty());
    assert_eq!(join.rows(), 0);
}

#[test]
fn payments_that_a_large_result_leaves_over_are_late_at_once() {
    // As large as a topic takes, which fills a step.
    let id = "x".repeat((1 << 20) - result("", "5000").len());
    // The order is decided for a while longer, or over already.
    for watermark in [0, 14_000] {
        let mut join = join();
        for paid in 5_000..5_004 {
            payment(&mut join, "", paid);
        }
        join.watermark(watermark);
        let order = format!(r#"{{"order_id":"{id}","amount":5.00}}"#);
        join.record("order").key("").time(3_000).value(&order);
        assert!(join.dead_letters().is_empty(), "{watermark}");
        assert_eq!(join.values("main"), [result(&id, "5000")], "{watermark}");
        assert_eq!(join.take("late").len(), 3, "{watermark}");
        join.end();
        assert_eq!(join.rows(), 0, "{watermark}");
    }
}
