//! Goal: SIGTERM at load ends an epoch and nothing else: exit code 0 in time, and the next process
//! goes on exactly there. Method: positions committed at the end, against what the next process
//! says it has read.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::host_process::{LIMIT, Pipeline, wait_for_status};
use crate::host_stream::{Random, Stream};
use dovetail_tests::broker::shared;

/// Of each topic.
const ORDERS: u64 = 50_000;
/// What orchestrators grant a process for its end.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Pain P42.
#[test]
fn sigterm_at_load_ends_in_time_and_nothing_is_read_twice() {
    let stream = Stream::generate(&mut Random::new(), ORDERS, 5, 4);
    let pipeline = Pipeline::create(4);
    let client = &pipeline.client;
    let mut results = client.follow(&pipeline.topic("results")).unwrap();
    client.produce(&pipeline.topic("orders"), &stream.orders).unwrap();
    client.produce(&pipeline.topic("payments"), &stream.payments).unwrap();
    let mut host = pipeline.run();
    assert!(results.read(1_000, LIMIT).unwrap(), "{}", host.text());
    host.terminate();
    assert_eq!(host.wait_exit(STOP_LIMIT), Some(0), "{}", host.text());
    let read = committed(&pipeline);
    let all = stream.orders.len() + stream.payments.len();
    assert!(read < all, "all {all} records were read before the stop");

    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    assert!(results.read(stream.results.len(), LIMIT).unwrap(), "{}", host.text());
    wait_for_status(&admin, |status| {
        let inputs = status["inputs"].as_array().unwrap();
        let records: u64 = inputs.iter().map(|input| input["records"].as_u64().unwrap()).sum();
        let rest = u64::try_from(all - read).unwrap();
        assert!(records <= rest, "{records} records were read, there were {rest}");
        records == rest
    });
    let late = pipeline.topic("late");
    client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    host.stop();
    let results = client.read_committed(&pipeline.topic("results")).unwrap();
    stream.check(&results, &client.read_committed(&late).unwrap());
}

/// Pain P42.
#[test]
fn second_sigterm_ends_at_once_and_loses_nothing() {
    let stream = Stream::generate(&mut Random::new(), 5_000, 5, 4);
    let pipeline = Pipeline::create(4);
    let client = &pipeline.client;
    client.produce(&pipeline.topic("orders"), &stream.orders).unwrap();
    client.produce(&pipeline.topic("payments"), &stream.payments).unwrap();
    let mut host = pipeline.run();
    host.wait_for("the lane is acquired");
    host.terminate();
    host.terminate();
    // The first may have done its work before the second comes.
    let code = host.wait_exit(STOP_LIMIT);
    assert!(matches!(code, Some(0 | 143)), "{code:?}: {}", host.text());
    let host = pipeline.run();
    client.wait_for(&pipeline.topic("results"), stream.results.len(), LIMIT).unwrap();
    let late = pipeline.topic("late");
    client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    host.stop();
    let results = client.read_committed(&pipeline.topic("results")).unwrap();
    stream.check(&results, &client.read_committed(&late).unwrap());
}

#[test]
fn sigterm_before_there_is_a_broker_ends_the_process_in_order() {
    // Nobody listens there: the host looks for the cluster until it gives up.
    let pipeline = Pipeline::on("127.0.0.1:1");
    let mut host = pipeline.run();
    host.wait_for_handler();
    host.terminate();
    assert_eq!(host.wait_exit(STOP_LIMIT), Some(0), "{}", host.text());
    assert!(host.text().contains("stopped before anything was read"), "{}", host.text());
}

/// How many records of the inputs lie before the committed positions.
fn committed(pipeline: &Pipeline) -> usize {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", shared().unwrap())
        .set("group.id", format!("{}.state", pipeline.name))
        .create()
        .unwrap();
    let mut partitions = TopicPartitionList::new();
    for topic in ["orders", "payments"] {
        partitions.add_partition_range(&pipeline.topic(topic), 0, 3);
    }
    let committed = consumer.committed_offsets(partitions, LIMIT).unwrap();
    let offsets = committed.elements().into_iter().map(|element| element.offset().to_raw());
    usize::try_from(offsets.map(|offset| offset.unwrap().max(0)).sum::<i64>()).unwrap()
}
