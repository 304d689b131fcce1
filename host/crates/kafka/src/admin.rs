//! What a start-up asks a cluster and makes in it: reachability, topics with their settings, the
//! journal, the longest transaction.
//!
//! Changes nothing but what [`Cluster::create_topic`] and [`Cluster::ensure_journal`] say. Every
//! call ends within its time; a refused connection says what the broker refused.

mod connect;
mod sample;
mod topic;

use std::time::{Duration, Instant};

use dovetail_core::log::LogError;
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    consumer::{BaseConsumer, Consumer as _},
    topic_partition_list::{Offset, TopicPartitionList},
    types::RDKafkaErrorCode as Code,
};

use crate::{
    failure::transaction_timeout_too_long,
    options::{Connection, LaneLogOptions, OutputTopic},
};
use connect::{Listener, block_on};
pub use topic::{TimestampType, TopicDescription};

/// How long a cluster may take to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A journal must take a chunk, its header and Kafka's own bytes around it.
const JOURNAL_MESSAGE_BYTES_MIN: usize = 768 * 1024;

/// What a journal takes that we create: Kafka's own default.
const JOURNAL_MESSAGE_BYTES: usize = 1024 * 1024 + 12;

/// How often a new topic is looked for.
const LOOK_STEP: Duration = Duration::from_millis(20);

const JOURNAL_SETTINGS: [(&str, &str); 3] =
    [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")];

/// Why a cluster cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The settings cannot make a client.
    #[error("these Kafka settings cannot be used: {0}")]
    Settings(String),
    /// No broker answered.
    #[error("no broker at {brokers} answered within {seconds} s: {cause}")]
    Unreachable {
        /// The addresses.
        brokers: String,
        /// The limit.
        seconds: u64,
        /// The last thing librdkafka said.
        cause: String,
    },
    /// A broker answered and does not let us in.
    #[error("{brokers} refused the connection ({protocol}): {cause}")]
    LoginRefused {
        /// The addresses.
        brokers: String,
        /// The security protocol tried.
        protocol: &'static str,
        /// What the broker said.
        cause: String,
    },
    /// The cluster answered a request with an error.
    #[error("{doing}: {cause}")]
    Request {
        /// What was asked.
        doing: String,
        /// The answer.
        cause: String,
    },
    /// A topic exists and is not as it must be.
    #[error("the topic `{topic}` exists with other settings: {}", differences.join("; "))]
    TopicDiffers {
        /// The topic.
        topic: String,
        /// One text for each differing setting.
        differences: Vec<String>,
    },
    /// A transaction may not last as long as configured.
    #[error("{0}")]
    TransactionTimeout(LogError),
}

/// A connection for start-up checks.
pub struct Cluster {
    id: String,
    brokers: String,
    admin: AdminClient<Listener>,
    consumer: BaseConsumer<Listener>,
    connection: Connection,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("id", &self.id)
            .field("brokers", &self.brokers)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects, within [`ANSWER_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// [`ClusterError::Settings`], [`ClusterError::Unreachable`] or
    /// [`ClusterError::LoginRefused`], the latter as soon as a broker says so.
    pub fn connect(connection: &Connection) -> Result<Self, ClusterError> {
        let (consumer, id) = connect::connect(connection)?;
        let admin = connect::admin(connection)?;
        let (brokers, connection) = (connection.brokers.clone(), connection.clone());
        Ok(Self { id, brokers, admin, consumer, connection })
    }

    /// Returns the cluster's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Describes topics, in the order asked for; `None` = does not exist.
    ///
    /// # Errors
    ///
    /// When the cluster does not answer or does not let us see a topic.
    pub fn topics(&self, names: &[&str]) -> Result<Vec<Option<TopicDescription>>, ClusterError> {
        let mut partitions = Vec::with_capacity(names.len());
        for name in names {
            partitions.push(self.partitions(name)?);
        }
        let existing: Vec<ResourceSpecifier<'_>> = names
            .iter()
            .zip(&partitions)
            .filter(|(_, partitions)| partitions.is_some())
            .map(|(name, _)| ResourceSpecifier::Topic(name))
            .collect();
        if existing.is_empty() {
            return Ok(vec![None; names.len()]);
        }
        let doing = "reading the settings of topics";
        let answer = block_on(self.admin.describe_configs(&existing, &options()))
            .map_err(|error| request(doing, error))?;
        let mut described = Vec::new();
        for resource in answer {
            let resource = resource.map_err(|code| {
                request(doing, format!("{code}; the user needs DESCRIBE_CONFIGS on the topics"))
            })?;
            described.push(resource);
        }
        let describe = |(name, partitions): (&&str, &Option<u16>)| {
            let partitions = (*partitions)?;
            let resource = described.iter().find(|resource| topic::is_of(resource, name))?;
            Some(TopicDescription::read(name, partitions, resource))
        };
        Ok(names.iter().zip(&partitions).map(describe).collect())
    }

    /// Describes one topic; `None` = does not exist.
    ///
    /// # Errors
    ///
    /// As [`Cluster::topics`].
    pub fn topic(&self, name: &str) -> Result<Option<TopicDescription>, ClusterError> {
        Ok(self.topics(&[name])?.into_iter().next().flatten())
    }

    fn partitions(&self, name: &str) -> Result<Option<u16>, ClusterError> {
        self.partitions_within(name, ANSWER_TIMEOUT)
    }

    /// Returns how many partitions a topic has; `None` = it does not exist.
    ///
    /// # Errors
    ///
    /// When the cluster does not answer in that time or does not let us see it.
    pub fn partitions_within(
        &self,
        name: &str,
        at_most: Duration,
    ) -> Result<Option<u16>, ClusterError> {
        let doing = || format!("looking for the topic `{name}`");
        let metadata = self
            .consumer
            .fetch_metadata(Some(name), at_most)
            .map_err(|error| request(&doing(), error))?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(None);
        };
        match topic.error().map(Code::from) {
            None => {}
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => return Ok(None),
            Some(code) => return Err(request(&doing(), code)),
        }
        let count = topic.partitions().len();
        u16::try_from(count).map(Some).map_err(|_too_many| {
            request(&doing(), format!("{count} partitions; at most 65535 are supported"))
        })
    }

    /// Returns how long a transaction may last at most; `None` where we may not know.
    ///
    /// # Errors
    ///
    /// When the cluster does not answer.
    pub fn transaction_timeout_max(&self) -> Result<Option<i64>, ClusterError> {
        let doing = "reading the settings of a broker";
        let metadata = self
            .consumer
            .fetch_metadata(Some("__transaction_state"), ANSWER_TIMEOUT)
            .map_err(|error| request(doing, error))?;
        let Some(broker) = metadata.brokers().first() else {
            return Ok(None);
        };
        let broker = [ResourceSpecifier::Broker(broker.id())];
        let answer = block_on(self.admin.describe_configs(&broker, &options()))
            .map_err(|error| request(doing, error))?;
        // Without the right to see it the producer finds out by itself.
        let Some(Ok(resource)) = answer.into_iter().next() else {
            return Ok(None);
        };
        Ok(topic::number(&resource, "transaction.max.timeout.ms"))
    }

    /// Checks that transactions may last this long.
    ///
    /// # Errors
    ///
    /// [`ClusterError::TransactionTimeout`] names both settings and a value that works.
    pub fn check_transaction_timeout(&self, ours: Duration) -> Result<(), ClusterError> {
        let broker_ms = self.transaction_timeout_max()?;
        let ours_ms = ours.as_millis();
        match broker_ms {
            Some(max) if ours_ms > u128::try_from(max).unwrap_or(0) => {
                let error = transaction_timeout_too_long(ours_ms, broker_ms);
                Err(ClusterError::TransactionTimeout(error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Creates a topic with the cluster's replication and waits until it can be used; one that
    /// exists is left as it is. Returns whether it was created.
    ///
    /// # Errors
    ///
    /// When the cluster refuses.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: u16,
        settings: &[(&str, &str)],
    ) -> Result<bool, ClusterError> {
        let doing = format!("creating the topic `{name}`");
        let mut topic = NewTopic::new(name, partitions.into(), TopicReplication::Fixed(-1));
        for (setting, value) in settings {
            topic = topic.set(setting, value);
        }
        let answer = block_on(self.admin.create_topics([&topic], &options()))
            .map_err(|error| request(&doing, error))?;
        let mut is_created = true;
        for result in answer {
            match result {
                Ok(_) => {}
                Err((_, Code::TopicAlreadyExists)) => is_created = false,
                Err((_, code)) => return Err(request(&doing, code)),
            }
        }
        // Brokers hear of it one after the other.
        let needed = if is_created { partitions } else { 1 };
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while self.partitions(name)?.is_none_or(|found| found < needed) {
            if Instant::now() >= deadline {
                return Err(request(&doing, "it exists and is not seen"));
            }
            // Serves reports meanwhile.
            drop(self.consumer.poll(LOOK_STEP));
        }
        Ok(is_created)
    }

    /// Creates the journal, one partition per lane and kept for ever, or checks that an existing
    /// one is so.
    ///
    /// # Errors
    ///
    /// [`ClusterError::TopicDiffers`] names each differing setting.
    pub fn ensure_journal(&self, name: &str, lanes: u16) -> Result<(), ClusterError> {
        if self.partitions(name)?.is_none() {
            let size = JOURNAL_MESSAGE_BYTES.to_string();
            let mut settings = JOURNAL_SETTINGS.to_vec();
            settings.push(("max.message.bytes", &size));
            settings.push(("compression.type", "producer"));
            self.create_topic(name, lanes, &settings)?;
        }
        let Some(found) = self.topic(name)? else {
            return Err(request(&format!("looking for the topic `{name}`"), "it has vanished"));
        };
        let differences = journal_differences(&found, lanes);
        if differences.is_empty() {
            return Ok(());
        }
        Err(ClusterError::TopicDiffers { topic: name.to_owned(), differences })
    }
}

/// Removes a journal partition's records before an offset.
pub(crate) fn trim(
    connection: &Connection,
    topic: &str,
    partition: i32,
    before: i64,
) -> Result<(), LogError> {
    let doubt = |cause: String| {
        LogError::Doubt(format!("{topic}[{partition}], removing what is before {before}: {cause}"))
    };
    let admin = connect::admin(connection).map_err(|error| doubt(error.to_string()))?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(before))
        .map_err(|error| doubt(error.to_string()))?;
    let answer = block_on(admin.delete_records(&list, &options()));
    let answer = answer.map_err(|error| doubt(error.to_string()))?;
    for element in answer.elements() {
        element.error().map_err(|error| doubt(error.to_string()))?;
    }
    Ok(())
}

fn journal_differences(found: &TopicDescription, lanes: u16) -> Vec<String> {
    let mut differences = Vec::new();
    if found.partitions != lanes {
        differences.push(format!(
            "it has {} partitions and needs {lanes}, one per lane",
            found.partitions
        ));
    }
    for (setting, needed) in JOURNAL_SETTINGS {
        let value = match setting {
            "cleanup.policy" => found.cleanup_policy.clone(),
            "retention.ms" => found.retention_ms.to_string(),
            _ => found.retention_bytes.to_string(),
        };
        if value != needed {
            differences.push(format!("`{setting}` is {value} and must be {needed}"));
        }
    }
    if found.max_message_bytes < JOURNAL_MESSAGE_BYTES_MIN {
        differences.push(format!(
            "`max.message.bytes` is {} and must be at least {JOURNAL_MESSAGE_BYTES_MIN}",
            found.max_message_bytes
        ));
    }
    differences
}

impl TopicDescription {
    /// Returns the topic as one to write to.
    #[must_use]
    pub fn as_output(&self) -> OutputTopic {
        OutputTopic {
            topic: self.name.clone(),
            timestamps: self.timestamps,
            max_batch_bytes: self.max_message_bytes,
        }
    }
}

impl LaneLogOptions {
    /// Returns the largest record that any of these topics takes, in bytes.
    #[must_use]
    pub fn largest_record(topics: &[TopicDescription]) -> usize {
        topics.iter().map(|topic| topic.max_message_bytes).max().unwrap_or(0)
    }
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(ANSWER_TIMEOUT))
        .operation_timeout(Some(ANSWER_TIMEOUT))
}

fn request(doing: &str, cause: impl ToString) -> ClusterError {
    ClusterError::Request { doing: doing.to_owned(), cause: cause.to_string() }
}
