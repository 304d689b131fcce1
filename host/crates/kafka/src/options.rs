//! What the configuration says about a cluster and a lane, in this crate's terms.
//!
//! Secrets arrive resolved and leave this module only on their way to librdkafka: no `Debug` or
//! error shows them.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use dovetail_core::{epoch::LaneId, log::gap::OnGap};

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, to hand it to the client that needs it and to nothing else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// How a user proves who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself; only sensible inside TLS.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// Every mechanism.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Returns the name that Kafka and the configuration use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A user of SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: SaslMechanism,
    /// The user's name.
    pub username: Secret,
    /// The password.
    pub password: Secret,
}

/// TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The certificates that are trusted, in PEM; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
}

/// How a connection is secured; what is absent is not used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// Encryption.
    pub tls: Option<Tls>,
    /// The user.
    pub sasl: Option<Sasl>,
}

impl Security {
    /// Returns the name that the configuration uses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "TLS",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_TLS",
        }
    }

    /// Returns the name that Kafka uses.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }
}

/// How to reach a cluster.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// `HOST:PORT[,HOST:PORT…]`.
    pub brokers: String,
    /// How the connection is secured.
    pub security: Security,
    /// Other settings of librdkafka, by its names; checked by [`refused_settings`].
    pub librdkafka: BTreeMap<String, String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value may be a secret: `ssl.key.password` is such a setting.
        let names: Vec<&String> = self.librdkafka.keys().collect();
        f.debug_struct("Connection")
            .field("brokers", &self.brokers)
            .field("security", &self.security)
            .field("librdkafka", &names)
            .finish()
    }
}

/// A setting of librdkafka that is ours to make.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be set here: {reason}")]
pub struct RefusedSetting {
    /// Its name.
    pub name: String,
    /// Why, and what to use instead.
    pub reason: &'static str,
}

const PROTOCOL: &str = "the exactly-once protocol decides it";
const SECURITY: &str = "use `kafka.security`";
const TRANSPORT: &str = "the host reads without callbacks and decides it";
const MEMORY: &str = "it follows from `memory`";

const OWNED: &[(&str, &str)] = &[
    ("acks", PROTOCOL),
    ("auto.commit.enable", PROTOCOL),
    ("auto.commit.interval.ms", PROTOCOL),
    ("auto.offset.reset", "use `start` and `on_gap` of the input"),
    ("batch.num.messages", TRANSPORT),
    ("batch.size", TRANSPORT),
    ("bootstrap.servers", "use `kafka.brokers`"),
    ("check.crcs", TRANSPORT),
    ("consume.callback.max.messages", TRANSPORT),
    ("delivery.report.only.error", TRANSPORT),
    ("delivery.timeout.ms", "it follows from `kafka.transaction_timeout`"),
    ("enable.auto.commit", PROTOCOL),
    ("enable.auto.offset.store", PROTOCOL),
    ("enable.gapless.guarantee", PROTOCOL),
    ("enable.idempotence", PROTOCOL),
    ("enable.partition.eof", "the host needs to hear that a partition is at its end"),
    ("fetch.message.max.bytes", MEMORY),
    ("fetch.queue.backoff.ms", TRANSPORT),
    ("fetch.wait.max.ms", TRANSPORT),
    ("group.id", "it is `<pipeline>.state`: change `pipeline`"),
    ("group.instance.id", PROTOCOL),
    ("group.protocol", PROTOCOL),
    ("isolation.level", "records of aborted transactions must never match"),
    ("linger.ms", "results are sent when the epoch closes: use `commit.every`"),
    ("log.queue", TRANSPORT),
    ("max.in.flight", PROTOCOL),
    ("max.in.flight.requests.per.connection", PROTOCOL),
    ("max.partition.fetch.bytes", MEMORY),
    ("message.max.bytes", "it follows from the topics' `max.message.bytes`"),
    ("message.send.max.retries", PROTOCOL),
    ("message.timeout.ms", "it follows from `kafka.transaction_timeout`"),
    ("metadata.broker.list", "use `kafka.brokers`"),
    ("msg_order_cmp", PROTOCOL),
    ("offset.store.method", PROTOCOL),
    ("partition.assignment.strategy", "partitions are assigned by lane"),
    ("partitioner", "every output is partitioned as Kafka's Java clients do: murmur2_random"),
    ("queue.buffering.max.kbytes", MEMORY),
    ("queue.buffering.max.messages", MEMORY),
    ("queue.buffering.max.ms", "results are sent when the epoch closes: use `commit.every`"),
    ("queued.max.messages.kbytes", MEMORY),
    ("queued.min.messages", MEMORY),
    ("request.required.acks", PROTOCOL),
    ("retries", PROTOCOL),
    ("sasl.jaas.config", SECURITY),
    ("sasl.mechanism", SECURITY),
    ("sasl.mechanisms", SECURITY),
    ("sasl.password", SECURITY),
    ("sasl.username", SECURITY),
    ("security.protocol", SECURITY),
    ("ssl.ca.location", SECURITY),
    ("transaction.timeout.ms", "use `kafka.transaction_timeout`"),
    ("transactional.id", "it is `<pipeline>.<lane>`: change `pipeline`"),
    ("value.deserializer", "inputs have `key` and `time` instead"),
    ("key.deserializer", "inputs have `key` and `time` instead"),
    ("value.serializer", "the plugin makes the bytes of a result"),
    ("key.serializer", "the plugin makes the bytes of a result"),
];

/// Returns which of these settings are ours to make, each with the reason.
#[must_use]
pub fn refused_settings(librdkafka: &BTreeMap<String, String>) -> Vec<RefusedSetting> {
    librdkafka
        .keys()
        .filter_map(|name| {
            let (_, reason) = OWNED.iter().find(|(owned, _)| owned == name)?;
            Some(RefusedSetting { name: name.clone(), reason })
        })
        .collect()
}

/// Where a source starts when the pipeline has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first record kept.
    Earliest,
    /// Behind the last one.
    Latest,
}

/// One source of the lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u16,
    /// Where it starts.
    pub start: Start,
    /// What happens when records are gone.
    pub on_gap: OnGap,
    /// Whether every lane reads it: its position is no offset of the group. Such sources are the
    /// last ones of a lane.
    pub is_broadcast: bool,
}

/// Which timestamps a topic takes, relative to the broker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampBounds {
    /// `message.timestamp.before.max.ms`: how far behind.
    pub before_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead.
    pub after_ms: i64,
}

impl TimestampBounds {
    /// A topic that takes every timestamp.
    pub const NONE: Self = Self { before_ms: i64::MAX, after_ms: i64::MAX };
}

impl Default for TimestampBounds {
    /// A broker of Kafka 4 takes no more than one hour ahead.
    fn default() -> Self {
        Self { before_ms: i64::MAX, after_ms: 3_600_000 }
    }
}

/// A topic that is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTopic {
    /// Its name.
    pub topic: String,
    /// Which timestamps it takes.
    pub timestamps: TimestampBounds,
    /// `max.message.bytes`: the largest batch it takes, compressed.
    pub max_batch_bytes: usize,
}

/// The broker's default for `max.message.bytes`.
pub const BATCH_BYTES_DEFAULT: usize = 1_048_588;

/// Room in a topic's largest batch for what Kafka puts around one record.
pub const BATCH_OVERHEAD_BYTES: usize = 1024;

/// Everything that one lane's log needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLogOptions {
    /// How to reach the cluster.
    pub connection: Connection,
    /// The pipeline: the first half of the transactional id, and the group's name.
    pub pipeline: String,
    /// The lane: its number is the journal's partition.
    pub lane: LaneId,
    /// How long the broker leaves a transaction open before it ends it.
    pub transaction_timeout: Duration,
    /// The sources in lane order: by input, then partition.
    pub sources: Vec<SourceOptions>,
    /// The topic of each output, in the order of the plugin's `describe`.
    pub outputs: Vec<OutputTopic>,
    /// The dead-letter topic.
    pub dead_letters: OutputTopic,
    /// The journal topic.
    pub journal_topic: String,
    /// The largest batch that any of the topics takes, read or written, in bytes.
    pub max_record_bytes: usize,
    /// How much the lane may fetch ahead, in bytes, over all its sources.
    pub prefetch_bytes: usize,
    /// How much may wait to be sent, in bytes.
    pub producer_queue_bytes: usize,
    /// How long the broker may wait for data before it answers a fetch; also how much later the
    /// end of a partition is heard.
    pub fetch_wait: Duration,
    /// For benchmarks only: false leaves journal, offsets and transactions out.
    pub exactly_once: bool,
}

impl LaneLogOptions {
    /// Returns the name of the producer that owns the lane.
    #[must_use]
    pub fn transactional_id(&self) -> String {
        format!("{}.{}", self.pipeline, self.lane.0)
    }

    /// Returns the group that keeps the lane's positions; it never has members.
    #[must_use]
    pub fn group(&self) -> String {
        state_group(&self.pipeline)
    }
}

/// Returns the group that keeps a pipeline's positions.
#[must_use]
pub fn state_group(pipeline: &str) -> String {
    format!("{pipeline}.state")
}

/// Returns the journal topic of a pipeline.
#[must_use]
pub fn journal_topic(pipeline: &str) -> String {
    format!("{pipeline}.journal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let sasl = Sasl {
            mechanism: SaslMechanism::Plain,
            username: Secret::new("me".to_owned()),
            password: Secret::new("c8@i9$Cw{x}: \"#\\".to_owned()),
        };
        let mut connection = Connection::default();
        connection.security.sasl = Some(sasl);
        connection.librdkafka.insert("ssl.key.password".to_owned(), "c8@".to_owned());
        assert!(!format!("{connection:?}").contains("c8@"), "{connection:?}");
    }

    #[test]
    fn settings_of_ours_are_refused_by_name_with_the_reason() {
        let settings = [("transactional.id", "x"), ("client.rack", "a"), ("group.id", "y")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let refused: Vec<String> =
            refused_settings(&settings).iter().map(ToString::to_string).collect();
        assert_eq!(
            refused,
            [
                "`group.id` cannot be set here: it is `<pipeline>.state`: change `pipeline`",
                "`transactional.id` cannot be set here: it is `<pipeline>.<lane>`: change `pipeline`",
            ]
        );
    }

    #[test]
    fn protocol_follows_from_what_is_given() {
        let tls = Some(Tls::default());
        assert_eq!(Security::default().protocol(), "PLAINTEXT");
        let encrypted = Security { tls, sasl: None };
        assert_eq!((encrypted.protocol(), encrypted.name()), ("SSL", "TLS"));
    }
}
