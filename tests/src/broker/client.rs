//! Topics and records through librdkafka alone, so that a test does not judge our code by our code.

use super::{Follower, Secure};
use anyhow::{Context as _, Result, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Limit of one request to the broker.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How long one look for a record may block.
const POLL: Duration = Duration::from_millis(50);

/// One record, to be produced or as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The Kafka partition; 0 unless said.
    pub partition: i32,
    /// Where it stands in the partition; ignored when produced.
    pub offset: i64,
    /// The Kafka key; `None` is the null key.
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// In order; a header may have no value.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Record timestamp in ms; `None` when produced is the client's clock.
    pub timestamp_ms: Option<i64>,
}

impl Record {
    /// A record of partition 0 without headers.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        Record { key: Some(key.into()), value: Some(value.into()), ..Record::default() }
    }

    /// The same record in another partition.
    #[must_use]
    pub fn in_partition(self, partition: i32) -> Self {
        Record { partition, ..self }
    }

    /// The same record with a timestamp.
    #[must_use]
    pub fn at_ms(self, timestamp_ms: i64) -> Self {
        Record { timestamp_ms: Some(timestamp_ms), ..self }
    }

    /// The same record with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }

    /// The value as text; empty for a tombstone.
    #[must_use]
    pub fn value_text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    pub(super) fn from_message(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            let owned = |header: Header<'_, &[u8]>| {
                (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
            };
            headers.iter().map(owned).collect()
        });
        Record {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
            timestamp_ms: message.timestamp().to_millis(),
        }
    }
}

/// A way to a cluster.
#[derive(Debug, Clone)]
pub struct Client {
    config: ClientConfig,
}

impl Client {
    /// Through a listener without security.
    #[must_use]
    pub fn new(bootstrap: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        Client { config }
    }

    /// Through TLS, with SCRAM-SHA-512.
    #[must_use]
    pub fn secure(secure: &Secure) -> Self {
        Client::new(&secure.bootstrap)
            .with("security.protocol", "SASL_SSL")
            .with("sasl.mechanism", "SCRAM-SHA-512")
            .with("sasl.username", secure.user)
            .with("sasl.password", secure.password)
            .with("ssl.ca.location", &secure.ca_file.to_string_lossy())
    }

    /// The same client with another setting of librdkafka.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.config.set(name, value);
        self
    }

    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Creates a topic; `settings` as the broker names them.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new()
            .request_timeout(Some(REQUEST_LIMIT))
            .operation_timeout(Some(REQUEST_LIMIT));
        for result in block_on(admin.create_topics([&topic], &options))? {
            if let Err((name, code)) = result {
                bail!("create topic {name}: {code}");
            }
        }
        Ok(())
    }

    /// Gives a topic more partitions: so many in all.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn add_partitions(&self, topic: &str, count: usize) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = self.config.create()?;
        let options = AdminOptions::new().request_timeout(Some(REQUEST_LIMIT));
        for result in
            block_on(admin.create_partitions([&NewPartitions::new(topic, count)], &options))?
        {
            if let Err((name, code)) = result {
                bail!("add partitions to {name}: {code}");
            }
        }
        Ok(())
    }

    /// Produces all records and waits until the broker has them.
    ///
    /// # Errors
    /// The first record that the broker refused.
    pub fn produce(&self, topic: &str, records: &[Record]) -> Result<()> {
        let refusal = FirstRefusal::default();
        let producer: BaseProducer<FirstRefusal> =
            self.config.create_with_context(refusal.clone())?;
        for record in records {
            queue(&producer, base_record(topic, record))?;
        }
        producer.flush(REQUEST_LIMIT).context("wait for the broker")?;
        match refusal.take() {
            Some(error) => Err(error).context("produce a record"),
            None => Ok(()),
        }
    }

    /// Everything that is committed in `topic` now, partition by partition.
    ///
    /// # Errors
    /// The topic does not exist, or the broker does not answer.
    pub fn read_committed(&self, topic: &str) -> Result<Vec<Record>> {
        let (consumer, mut unfinished) = self.reader(topic)?;
        let mut records = Vec::new();
        let mut came_at = Instant::now();
        while !unfinished.is_empty() {
            match consumer.poll(POLL) {
                None => {}
                Some(Ok(message)) => {
                    came_at = Instant::now();
                    records.push(Record::from_message(&message));
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    unfinished.remove(&partition);
                }
                Some(Err(error)) => return Err(error).context("read the topic"),
            }
            if came_at.elapsed() > REQUEST_LIMIT {
                bail!("partitions {unfinished:?} of {topic} did not come to their end");
            }
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        Ok(records)
    }

    /// Whether a transaction that is still open keeps committed readers from the end of a partition.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn has_open_transaction(&self, topic: &str, partition: i32) -> Result<bool> {
        let end = |isolation: &str| -> Result<i64> {
            let config = self.config.clone().set("isolation.level", isolation).to_owned();
            let consumer: BaseConsumer = config.create()?;
            Ok(consumer.fetch_watermarks(topic, partition, REQUEST_LIMIT)?.1)
        };
        // The stable end first: what is committed between the two questions looks open, not ended.
        Ok(end("read_committed")? < end("read_uncommitted")?)
    }

    /// A consumer that begins at the topic's first record and goes on.
    ///
    /// # Errors
    /// The topic does not exist, or the broker does not answer.
    pub fn follow(&self, topic: &str) -> Result<Follower> {
        Ok(Follower::new(self.reader(topic)?.0))
    }

    /// Waits until at least `count` records are committed in `topic`; all of them that are there.
    ///
    /// # Errors
    /// Fewer came within `limit`; the message says how many.
    pub fn wait_for(&self, topic: &str, count: usize, limit: Duration) -> Result<Vec<Record>> {
        let (consumer, _) = self.reader(topic)?;
        let mut records = Vec::new();
        let begin = Instant::now();
        while records.len() < count {
            if let Some(Ok(message)) = consumer.poll(POLL) {
                records.push(Record::from_message(&message));
            }
            if begin.elapsed() > limit {
                bail!(
                    "expected {count} records in {topic} within {limit:?}, found {}",
                    records.len()
                );
            }
        }
        drop(consumer);
        self.read_committed(topic)
    }

    /// A consumer at the beginning of every partition, and the partitions.
    fn reader(&self, topic: &str) -> Result<(BaseConsumer, BTreeSet<i32>)> {
        let consumer: BaseConsumer = self
            .config
            .clone()
            .set("group.id", "dovetail-tests")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "10")
            .create()?;
        let metadata = consumer
            .fetch_metadata(Some(topic), REQUEST_LIMIT)
            .context("fetch the topic's metadata")?;
        let partitions: BTreeSet<i32> = metadata
            .topics()
            .iter()
            .flat_map(rdkafka::metadata::MetadataTopic::partitions)
            .map(rdkafka::metadata::MetadataPartition::id)
            .collect();
        if partitions.is_empty() {
            bail!("topic {topic} does not exist");
        }
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            list.add_partition_offset(topic, *partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        Ok((consumer, partitions))
    }
}

/// Queues one record, waiting while the queue is full.
fn queue(
    producer: &BaseProducer<FirstRefusal>,
    mut record: BaseRecord<'_, [u8], [u8]>,
) -> Result<()> {
    while let Err((error, refused)) = producer.send(record) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
            return Err(error).context("queue a record");
        }
        producer.poll(POLL);
        record = refused;
    }
    Ok(())
}

fn base_record<'a>(topic: &'a str, record: &'a Record) -> BaseRecord<'a, [u8], [u8]> {
    let mut base = BaseRecord::to(topic).partition(record.partition);
    if let Some(key) = &record.key {
        base = base.key(key.as_slice());
    }
    if let Some(value) = &record.value {
        base = base.payload(value.as_slice());
    }
    if let Some(timestamp_ms) = record.timestamp_ms {
        base = base.timestamp(timestamp_ms);
    }
    if record.headers.is_empty() {
        return base;
    }
    let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: value.as_deref() })
    });
    base.headers(headers)
}

/// Remembers the first record that the broker refused.
#[derive(Debug, Clone, Default)]
struct FirstRefusal(Arc<Mutex<Option<KafkaError>>>);

impl FirstRefusal {
    fn take(&self) -> Option<KafkaError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for FirstRefusal {}

impl ProducerContext for FirstRefusal {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        if let Err((error, _)) = result {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| error.clone());
        }
    }
}

/// A name that no other test and no earlier run has used, for clusters that keep their topics.
#[must_use]
pub fn unique_name(stem: &str) -> String {
    // Every RandomState has keys of its own.
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{stem}-{random:016x}")
}

/// Waits for a future that a thread of librdkafka completes.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}
