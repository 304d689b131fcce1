//! Topics, producers and consumers, set up the same way for every command.

use anyhow::{Context as _, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limit of one request to the broker.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(20);

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

#[expect(
    clippy::disallowed_methods,
    reason = "latency is measured against the wall clock that the producer wrote down"
)]
pub(crate) fn wall_clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[expect(
    clippy::disallowed_methods,
    reason = "offsets and processes are sampled; nothing tells when they change"
)]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Drives a future that a thread of librdkafka completes: looking now and then will do.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        pause(Duration::from_millis(5));
    }
}

pub(crate) fn create_topics(brokers: &str, names: &[&str], partitions: u16) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let topics: Vec<_> = names
        .iter()
        .map(|name| {
            NewTopic::new(name, partitions.into(), TopicReplication::Fixed(1))
                .set("message.timestamp.type", "CreateTime")
        })
        .collect();
    let results = block_on(admin.create_topics(&topics, &AdminOptions::new()))?;
    for (name, error) in results.into_iter().filter_map(Result::err) {
        eprintln!("topic {name}: {error:?}");
    }
    pause(Duration::from_millis(300));
    Ok(())
}

/// Topics that do not exist are no reason to fail.
pub(crate) fn delete_topics(brokers: &str, names: &[&str]) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(brokers).create()?;
    let results = block_on(admin.delete_topics(names, &AdminOptions::new()))?;
    drop(results);
    Ok(())
}

pub(crate) fn producer(brokers: &str, linger_ms: &str) -> Result<BaseProducer> {
    client(brokers)
        .set("linger.ms", linger_ms)
        .set("batch.size", "262144")
        .set("compression.codec", "lz4")
        .set("enable.idempotence", "true")
        .set("queue.buffering.max.messages", "500000")
        .set("delivery.report.only.error", "true")
        .create()
        .context("create the producer")
}

pub(crate) fn consumer(brokers: &str, isolation: &str) -> Result<BaseConsumer> {
    client(brokers)
        .set("group.id", "dovetail-bench-check")
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation)
        .set("fetch.wait.max.ms", "10")
        .set("auto.offset.reset", "earliest")
        .create()
        .context("create the consumer")
}

/// Reads every partition of `topic` from its beginning.
pub(crate) fn assign_from_beginning(
    consumer: &BaseConsumer,
    topic: &str,
    partitions: u16,
) -> Result<()> {
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition.into(), Offset::Beginning)?;
    }
    consumer.assign(&list).context("assign the partitions")
}

/// Queues one record, waiting while the queue is full.
pub(crate) fn send(
    producer: &BaseProducer,
    (topic, partition): (&str, i32),
    key: &str,
    value: &str,
    time: i64,
) {
    let mut record =
        BaseRecord::to(topic).partition(partition).key(key).payload(value).timestamp(time);
    while let Err((_, refused)) = producer.send(record) {
        producer.poll(Duration::from_millis(2));
        record = refused;
    }
}

pub(crate) fn drain(producer: &BaseProducer) {
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
}

/// The sum of the end offsets that a consumer of this isolation level sees.
pub(crate) fn end_offsets(consumer: &BaseConsumer, topic: &str, partitions: u16) -> i64 {
    (0..i32::from(partitions))
        .map(|partition| {
            consumer.fetch_watermarks(topic, partition, REQUEST_LIMIT).map_or(0, |(_, end)| end)
        })
        .sum()
}

/// The value of a member of a flat JSON object; `name` with its quotes.
pub(crate) fn member<'a>(json: &'a str, name: &str) -> &'a str {
    let Some(at) = json.find(name) else { return "" };
    let rest = json[at + name.len()..].trim_start_matches([':', ' ']);
    if let Some(quoted) = rest.strip_prefix('"') {
        &quoted[..quoted.find('"').unwrap_or(0)]
    } else {
        &rest[..rest.find([',', '}']).unwrap_or(rest.len())]
    }
}
