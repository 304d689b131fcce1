//! Goal: a broker that is killed costs time and nothing else: the host waits, goes on by itself and
//! neither loses nor repeats a result. Method: a broker of this test's own, killed while records
//! pass.

use std::time::Duration;

use dovetail_tests::broker::{Broker, ENDS_TRANSACTIONS, Options};

use crate::host_process::{LIMIT, Pipeline, get, wait_for_answer, wait_for_status};
use crate::host_stream::{BASE, Random, Stream, order, payment, size, value};

const KILLS: (&str, u64) = ("DOVETAIL_TEST_BROKER_KILLS", 2);
/// Of each topic, after each start of the broker.
const ORDERS_EACH: u64 = 20_000;

#[test]
fn an_idle_host_says_that_the_broker_is_away_and_is_ready_again_when_it_is_back() {
    let options = Options { version: Some(ENDS_TRANSACTIONS), ..Options::killed() };
    let mut broker = Broker::start(&options).unwrap();
    let pipeline = Pipeline::on(broker.bootstrap());
    pipeline.create_topics(1);
    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    wait_for_answer(&admin, "/readyz", |(code, _)| *code == 200);
    // No record has come, so no epoch is open and nothing is under way that could fail.
    broker.kill().unwrap();
    let said = "nothing was heard of orders[0], payments[0]";
    wait_for_answer(&admin, "/readyz", |(code, body)| *code == 503 && body.contains(said));
    assert_eq!(get(&admin, "/livez").0, 200);
    broker.start_again().unwrap();
    wait_for_answer(&admin, "/readyz", |(code, _)| *code == 200);
    pipeline.client.produce(&pipeline.topic("orders"), &[order("o1", BASE, 1)]).unwrap();
    pipeline.client.produce(&pipeline.topic("payments"), &[payment("o1", BASE, 7, 1)]).unwrap();
    let results = pipeline.client.wait_for(&pipeline.topic("results"), 1, LIMIT).unwrap();
    assert_eq!(value(&results[0])["paid"], 7);
    host.stop();
}

#[test]
fn killed_broker_loses_and_repeats_nothing_and_the_host_goes_on() {
    let kills = size(KILLS);
    let mut random = Random::new();
    let stream = Stream::generate(&mut random, ORDERS_EACH * (kills + 1), 5, 4);
    // Killed at any moment, also between the answer to a commit and its markers.
    let options = Options { version: Some(ENDS_TRANSACTIONS), ..Options::killed() };
    let mut broker = Broker::start(&options).unwrap();
    let pipeline = Pipeline::on(broker.bootstrap());
    pipeline.create_topics(4);
    let client = pipeline.client.clone();
    let each = stream.orders.len().div_ceil(usize::try_from(kills).unwrap() + 1);
    let mut parts = stream.orders.chunks(each).zip(stream.payments.chunks(each));
    let mut produce = || {
        let (orders, payments) = parts.next().unwrap();
        client.produce(&pipeline.topic("orders"), orders).unwrap();
        client.produce(&pipeline.topic("payments"), payments).unwrap();
    };

    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    produce();
    for kill in 1..=kills {
        println!("kill {kill} of {kills} of the broker");
        produce();
        // Some moment of the host's work, which goes on meanwhile.
        let moment = Duration::from_millis(random.below(1_000));
        let mut results = client.follow(&pipeline.topic("results")).unwrap();
        results.read(usize::MAX, moment).unwrap();
        drop(results);
        broker.kill().unwrap();
        assert_eq!(get(&admin, "/livez").0, 200);
        broker.start_again().unwrap();
    }
    let (results, late) = (pipeline.topic("results"), pipeline.topic("late"));
    client.wait_for(&results, stream.results.len(), LIMIT).unwrap();
    client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    let running = |status: &serde_json::Value| {
        status["lanes"].as_array().unwrap().iter().all(|lane| lane["phase"] == "running")
    };
    wait_for_status(&admin, running);
    host.stop();
    let late = client.read_committed(&late).unwrap();
    stream.check(&client.read_committed(&results).unwrap(), &late);
}
