//! A Kafka cluster as the pipeline's log: start-up checks, and the log of each lane.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dovetail_core::{
    epoch::LaneId,
    log::Log,
    options::{OutputOptions, SkewReference},
    record::Source,
};
use dovetail_kafka::{
    Cluster, KafkaLog,
    admin::{ClusterError, TimestampType, TopicDescription},
    options::{
        BATCH_BYTES_DEFAULT, BATCH_OVERHEAD_BYTES, Connection, LaneLogOptions, OutputTopic, Sasl,
        SaslMechanism, Secret, Security, SourceOptions, Start, TimestampBounds, Tls, journal_topic,
    },
};
use dovetail_runtime::{clock::SystemClock, partition_watch::CountPartitions};

use super::{
    backend::{Backend, Ground, SurveyError},
    lanes::{Beginning, BeginningReader},
    options::{InputFacts, place},
    roles::Fit,
    sample::Sampled,
};
use crate::{
    config::{
        Loaded,
        model::{self, Config, InputConfig, KafkaConfig, SecurityProtocol},
        report::Problem,
    },
    failure::Failure,
};

/// Room in a dead letter for what the host adds to the original record.
const DEAD_LETTER_ROOM_BYTES: usize = 64 * 1024;
/// How long the number of partitions is waited for: a stop has to wait as long.
const COUNT_WAIT: Duration = Duration::from_secs(1);
/// How long the broker waits for data before it answers a fetch.
const FETCH_WAIT: Duration = Duration::from_millis(20);

/// A cluster as one pipeline uses it.
pub struct KafkaBackend {
    config: Config,
    transaction_timeout: Duration,
    connection: Connection,
    cluster: Arc<Cluster>,
    /// Of the outputs in the order of the configuration, then of the dead letters.
    written: Vec<OutputTopic>,
    largest_record: usize,
    exactly_once: bool,
}

impl std::fmt::Debug for KafkaBackend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Settings may hold secrets.
        formatter
            .debug_struct("KafkaBackend")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl KafkaBackend {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When no broker answers or it refuses us.
    pub fn connect(config: &Config, kafka: &KafkaConfig) -> Result<Self, Failure> {
        let connection = connection_of(kafka);
        let cluster = Cluster::connect(&connection).map_err(|error| failure(&error))?;
        let cluster = Arc::new(cluster);
        let timeout = u64::try_from(kafka.transaction_timeout).unwrap_or(0);
        Ok(Self {
            config: config.clone(),
            transaction_timeout: Duration::from_millis(timeout),
            connection,
            cluster,
            written: Vec::new(),
            largest_record: BATCH_BYTES_DEFAULT,
            exactly_once: true,
        })
    }

    /// Leaves journal, offsets and transactions out: for benchmarks only.
    pub fn disable_exactly_once(&mut self) {
        self.exactly_once = false;
    }

    fn topics(&self, names: &[&str]) -> Result<Vec<Option<TopicDescription>>, Failure> {
        self.cluster.topics(names).map_err(|error| failure(&error))
    }

    fn lane_options(
        &self,
        lane: LaneId,
        lanes: u16,
        sources: Vec<SourceOptions>,
        fit: &Fit,
    ) -> LaneLogOptions {
        let memory = usize::try_from(self.config.memory).unwrap_or(usize::MAX);
        let lanes = usize::from(lanes.max(1));
        let dead_letters =
            self.written.last().cloned().unwrap_or_else(|| unseen(&self.config.dead_letters.topic));
        LaneLogOptions {
            connection: self.connection.clone(),
            pipeline: self.config.pipeline.clone(),
            lane,
            transaction_timeout: self.transaction_timeout,
            sources,
            outputs: fit.outputs.iter().filter_map(|at| self.written.get(*at).cloned()).collect(),
            dead_letters,
            journal_topic: journal_topic(&self.config.pipeline),
            max_record_bytes: self.largest_record,
            // A quarter of the budget each for what is fetched ahead, and for overlays with queues.
            prefetch_bytes: memory / 4 / lanes,
            producer_queue_bytes: memory / 8 / lanes,
            fetch_wait: FETCH_WAIT,
            exactly_once: self.exactly_once,
        }
    }
}

impl Backend for KafkaBackend {
    fn survey(&mut self, loaded: &Loaded) -> Result<Ground, SurveyError> {
        let config = &loaded.config;
        let inputs: Vec<String> = config.inputs.iter().map(place).collect();
        let mut names: Vec<&str> = inputs.iter().map(String::as_str).collect();
        names.extend(config.outputs.iter().map(|output| output.topic.as_str()));
        names.push(&config.dead_letters.topic);
        let found = self.topics(&names)?;
        let (read, written) = found.split_at(inputs.len());
        let mut problems = missing_topics(loaded, read, written);
        problems.extend(partition_problem(loaded, read));
        let read: Vec<&TopicDescription> = read.iter().flatten().collect();
        if let Some(Some(dead_letters)) = written.last() {
            problems.extend(compacted_problem(loaded, dead_letters));
            problems.extend(dead_letter_problem(loaded, &read, dead_letters));
        }
        match self.cluster.check_transaction_timeout(self.transaction_timeout) {
            Err(error @ ClusterError::TransactionTimeout(_)) => problems.push(loaded.problem(
                "kafka.transaction_timeout",
                error.to_string(),
                "the broker's transaction.max.timeout.ms is the limit",
            )),
            Err(error) => return Err(failure(&error).into()),
            Ok(()) => {}
        }
        let journal = journal_topic(&config.pipeline);
        if let Some(found) = self.topics(&[&journal])?.into_iter().flatten().next() {
            // It exists, so this only compares.
            self.cluster
                .ensure_journal(&journal, found.partitions)
                .map_err(|error| failure(&error))?;
        }
        if !problems.is_empty() {
            return Err(SurveyError::Problems(problems));
        }
        Ok(self.ground(config, &read, written))
    }

    fn beginning(&mut self) -> Result<Beginning, Failure> {
        let journal = journal_topic(&self.config.pipeline);
        if self.topics(&[&journal])?.iter().all(Option::is_none) {
            return Ok(Beginning::Nothing);
        }
        let fit = Fit { roles: Vec::new(), outputs: Vec::new(), late_output: None };
        let mut log = self.lane_log(LaneId(0), 1, &[], &fit)?;
        let mut genesis = BeginningReader::default();
        log.read_journal(0, &mut |offset, chunk| genesis.take(offset, &chunk))
            .and_then(|_end| genesis.finish())
            .map_err(|error| super::log_failure(&error))
    }

    fn journal_lanes(&mut self) -> Result<Option<u16>, Failure> {
        let found = self.topics(&[&journal_topic(&self.config.pipeline)])?;
        Ok(found.into_iter().flatten().next().map(|topic| topic.partitions))
    }

    fn prepare(&mut self, loaded: &Loaded, ground: &Ground, lanes: u16) -> Result<(), Failure> {
        let config = &loaded.config;
        let creatable =
            config.outputs.iter().map(|output| (output.topic.as_str(), output.create, None)).chain(
                [(
                    config.dead_letters.topic.as_str(),
                    config.dead_letters.create,
                    Some(
                        (self.largest_record + DEAD_LETTER_ROOM_BYTES + BATCH_OVERHEAD_BYTES)
                            .to_string(),
                    ),
                )],
            );
        for (topic, create, size) in creatable {
            let exists = self.topics(&[topic])?.iter().any(Option::is_some);
            if exists || !create {
                continue;
            }
            let settings: Vec<(&str, &str)> =
                size.iter().map(|size| ("max.message.bytes", size.as_str())).collect();
            self.cluster
                .create_topic(topic, ground.partitions, &settings)
                .map_err(|error| failure(&error))?;
            tracing::info!(topic, partitions = ground.partitions, "created the topic");
        }
        self.cluster
            .ensure_journal(&journal_topic(&config.pipeline), lanes)
            .map_err(|error| failure(&error))
    }

    fn lane_log(
        &mut self,
        lane: LaneId,
        lanes: u16,
        sources: &[Source],
        fit: &Fit,
    ) -> Result<Box<dyn Log>, Failure> {
        let sources = sources
            .iter()
            .map(|source| {
                let input = &self.config.inputs[usize::from(source.input.0)];
                SourceOptions {
                    topic: place(input),
                    partition: source.partition.0,
                    start: match input.start {
                        model::Start::Earliest => Start::Earliest,
                        model::Start::Latest => Start::Latest,
                    },
                    on_gap: input.on_gap,
                    is_broadcast: input.is_broadcast,
                }
            })
            .collect();
        let options = self.lane_options(lane, lanes, sources, fit);
        let log = KafkaLog::new(options, Box::new(SystemClock))
            .map_err(|error| super::log_failure(&error))?;
        Ok(Box::new(log))
    }

    fn partition_counter(&self) -> Option<CountPartitions> {
        let topics: Vec<String> = self.config.inputs.iter().map(place).collect();
        let cluster = Arc::clone(&self.cluster);
        let count = move |topic: &String| match cluster.partitions_within(topic, COUNT_WAIT) {
            Ok(count) => count,
            Err(error) => {
                tracing::debug!("not known whether partitions have changed: {error}");
                None
            }
        };
        Some(Box::new(move || topics.iter().map(&count).collect()))
    }

    fn sample(&mut self, input: &InputConfig, count: u32) -> Result<Sampled, Failure> {
        let topic = place(input);
        let records = self.cluster.sample(&topic, count).map_err(|error| failure(&error))?;
        let described = self.topics(&[&topic])?.into_iter().flatten().next();
        let partitions = described.map_or(1, |topic| topic.partitions);
        Ok(Sampled { records, hashed_over: Some(partitions) })
    }
}

impl KafkaBackend {
    fn ground(
        &mut self,
        config: &Config,
        read: &[&TopicDescription],
        written: &[Option<TopicDescription>],
    ) -> Ground {
        let largest_input = read.iter().map(|topic| topic.max_message_bytes).max();
        let largest_output = written.iter().flatten().map(|topic| topic.max_message_bytes).max();
        let largest = largest_input.into_iter().chain(largest_output).max();
        self.largest_record = largest.unwrap_or(BATCH_BYTES_DEFAULT);
        // Behind the outputs `written` has the dead-letter topic, which no plugin writes to.
        let outputs = config.outputs.iter().zip(written);
        let accepted = outputs
            .map(|(output, found)| accepted_by(&output.name, &output.topic, found.as_ref()))
            .collect();
        let topics = config.outputs.iter().map(|output| output.topic.as_str());
        self.written = topics
            .chain([config.dead_letters.topic.as_str()])
            .zip(written)
            .map(|(topic, found)| {
                found.as_ref().map_or_else(|| unseen(topic), TopicDescription::as_output)
            })
            .collect();
        let facts = read.iter().map(|topic| InputFacts {
            partitions: topic.partitions,
            skew_reference: match topic.timestamp_type {
                TimestampType::LogAppendTime => SkewReference::RecordTimestamp,
                TimestampType::CreateTime => SkewReference::Clock,
            },
        });
        let mut keyed = config.inputs.iter().zip(read).filter(|(input, _)| !input.is_broadcast);
        Ground {
            cluster_id: self.cluster.id().to_owned(),
            partitions: keyed.next().map_or(1, |(_, topic)| topic.partitions),
            inputs: facts.collect(),
            outputs: accepted,
            warnings: super::checkpoints::untrimmed(config).into_iter().collect(),
        }
    }
}

/// A topic that is not there yet.
fn unseen(topic: &str) -> OutputTopic {
    OutputTopic {
        topic: topic.to_owned(),
        timestamps: TimestampBounds::default(),
        max_batch_bytes: BATCH_BYTES_DEFAULT,
    }
}

fn accepted_by(name: &str, topic: &str, found: Option<&TopicDescription>) -> OutputOptions {
    let bytes = found.map_or(BATCH_BYTES_DEFAULT, |topic| topic.max_message_bytes);
    OutputOptions {
        name: name.to_owned(),
        topic: topic.to_owned(),
        max_record_bytes: bytes.saturating_sub(BATCH_OVERHEAD_BYTES),
        requires_key: found.is_some_and(TopicDescription::is_compacted),
    }
}

fn missing_topics(
    loaded: &Loaded,
    read: &[Option<TopicDescription>],
    written: &[Option<TopicDescription>],
) -> Vec<Problem> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    for (input, found) in config.inputs.iter().zip(read) {
        if found.is_none() {
            problems.push(loaded.problem(
                &format!("inputs.{}.topic", input.name),
                format!("the topic `{}` does not exist", place(input)),
                "create it, or correct the name or the user's rights",
            ));
        }
    }
    let outputs = config
        .outputs
        .iter()
        .map(|output| (format!("outputs.{}.topic", output.name), &output.topic, output.create));
    let dead_letters = &config.dead_letters;
    let all = outputs.chain([(
        "dead_letters.topic".to_owned(),
        &dead_letters.topic,
        dead_letters.create,
    )]);
    for ((path, topic, create), found) in all.zip(written) {
        if found.is_none() && !create {
            problems.push(loaded.problem(
                &path,
                format!("the topic `{topic}` does not exist"),
                "create it, or say `create: true` beside it",
            ));
        }
    }
    problems
}

fn partition_problem(loaded: &Loaded, read: &[Option<TopicDescription>]) -> Option<Problem> {
    let inputs = loaded.config.inputs.iter().zip(read).filter(|(input, _)| !input.is_broadcast);
    let mut found = inputs.filter_map(|(input, topic)| Some((input, topic.as_ref()?)));
    let (_, first) = found.next()?;
    let (input, other) = found.find(|(_, topic)| topic.partitions != first.partitions)?;
    Some(loaded.problem(
        &format!("inputs.{}.topic", input.name),
        format!(
            "{} has {} partitions, {} {}; records of one key would lie in different lanes",
            first.name, first.partitions, other.name, other.partitions
        ),
        format!(
            "give both the same number: copy `{}` or `{}` into a new topic with as many partitions \
             as the other, keyed by the join key",
            first.name, other.name
        ),
    ))
}

/// A compacted topic takes no record without key, and of those with the same key keeps one.
fn compacted_problem(loaded: &Loaded, dead_letters: &TopicDescription) -> Option<Problem> {
    dead_letters.is_compacted().then(|| {
        let name = &dead_letters.name;
        loaded.problem(
            "dead_letters.topic",
            format!(
                "`{name}` is compacted (cleanup.policy={}): it refuses dead letters without key and \
                 deletes others with an equal one",
                dead_letters.cleanup_policy
            ),
            format!(
                "set cleanup.policy=delete on `{name}`, or name another topic: one that does not \
                 exist is created"
            ),
        )
    })
}

fn dead_letter_problem(
    loaded: &Loaded,
    read: &[&TopicDescription],
    dead_letters: &TopicDescription,
) -> Option<Problem> {
    let largest = read.iter().max_by_key(|topic| topic.max_message_bytes)?;
    let needed = largest.max_message_bytes + DEAD_LETTER_ROOM_BYTES;
    (dead_letters.max_message_bytes < needed).then(|| {
        loaded.problem(
            "dead_letters.topic",
            format!(
                "`{}` takes records of {} bytes; those of `{}` may have {} and need {needed} as \
                 dead letters",
                dead_letters.name,
                dead_letters.max_message_bytes,
                largest.name,
                largest.max_message_bytes
            ),
            format!("set max.message.bytes of `{}` to {needed} or more", dead_letters.name),
        )
    })
}

fn connection_of(kafka: &KafkaConfig) -> Connection {
    let security = &kafka.security;
    let is_tls = matches!(security.protocol, SecurityProtocol::Tls | SecurityProtocol::SaslTls);
    let is_sasl =
        matches!(security.protocol, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslTls);
    let mechanism = SaslMechanism::ALL
        .into_iter()
        .find(|mechanism| Some(mechanism.name()) == security.mechanism)
        .unwrap_or(SaslMechanism::Plain);
    let sasl = is_sasl.then(|| Sasl {
        mechanism,
        username: Secret::new(security.username.clone().unwrap_or_default()),
        password: security.password.clone().unwrap_or_default(),
    });
    let passed = kafka.librdkafka.iter();
    let mut librdkafka: BTreeMap<String, String> =
        passed.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
    let files = [
        ("ssl.certificate.location", &security.certificate_file),
        ("ssl.key.location", &security.key_file),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            librdkafka.insert(name.to_owned(), path.display().to_string());
        }
    }
    if let Some(password) = &security.key_password {
        librdkafka.insert("ssl.key.password".to_owned(), password.reveal().to_owned());
    }
    Connection {
        brokers: kafka.brokers.clone(),
        security: Security { tls: is_tls.then(|| Tls { ca_file: security.ca_file.clone() }), sasl },
        librdkafka,
    }
}

fn failure(error: &ClusterError) -> Failure {
    match error {
        ClusterError::Settings(_)
        | ClusterError::LoginRefused { .. }
        | ClusterError::TopicDiffers { .. }
        | ClusterError::TransactionTimeout(_) => Failure::configuration(error.to_string()),
        // What it needs is not there: the next start may find it.
        ClusterError::Unreachable { .. } | ClusterError::Request { .. } => {
            Failure::usage(error.to_string())
        }
    }
}
