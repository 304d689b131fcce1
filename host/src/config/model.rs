//! A pipeline's configuration, read and checked.
//!
//! Durations are in ms, sizes in bytes, paths are resolved against the file's directory.

use std::{net::SocketAddr, path::PathBuf};

use dovetail_codec::InputFormat;
use dovetail_core::{
    log::gap::OnGap,
    options::{CommitOptions, DeadLetterRate, LatePolicy, NullKeyPolicy, WhenAllIdle},
};

pub use dovetail_kafka::options::Secret;

/// One pipeline.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its name, which is its identity.
    pub pipeline: String,
    /// Where records come from and go to.
    pub log: LogConfig,
    /// The inputs in the order written.
    pub inputs: Vec<InputConfig>,
    /// The plugin.
    pub plugin: PluginConfig,
    /// The outputs in the order written.
    pub outputs: Vec<OutputConfig>,
    /// Where dead letters go.
    pub dead_letters: DeadLettersConfig,
    /// Where checkpoints go; none: nothing is uploaded and nothing trimmed.
    pub checkpoint: Option<CheckpointConfig>,
    /// The directory of the local state.
    pub state_dir: PathBuf,
    /// How many lanes; decided at the first start when not said.
    pub lanes: Option<u16>,
    /// How long a lane waits for a partition whose end is unknown, ms.
    pub wait_for_input: i64,
    /// What happens when every source is idle.
    pub when_all_idle: WhenAllIdle,
    /// When an epoch ends.
    pub commit: CommitOptions,
    /// The memory budget.
    pub memory: u64,
    /// Where the admin server listens.
    pub admin_listen: SocketAddr,
}

/// Where checkpoints go, and when.
#[derive(Debug, Clone)]
pub struct CheckpointConfig {
    /// The folder.
    pub store: PathBuf,
    /// How often a lane takes one, ms.
    pub every: i64,
    /// How many stay.
    pub keep: usize,
    /// How long an upload may take, ms.
    pub timeout: i64,
}

/// Where records come from and go to.
#[derive(Debug, Clone)]
pub enum LogConfig {
    /// A Kafka cluster.
    Kafka(KafkaConfig),
    /// Topics in a directory.
    Embedded(EmbeddedConfig),
}

/// The embedded log.
#[derive(Debug, Clone)]
pub struct EmbeddedConfig {
    /// Its directory.
    pub dir: PathBuf,
    /// Whether a commit survives a power loss.
    pub sync: bool,
}

/// A Kafka cluster.
#[derive(Debug, Clone)]
pub struct KafkaConfig {
    /// `host:port` list.
    pub brokers: String,
    /// How to talk to it.
    pub security: SecurityConfig,
    /// How long a transaction may stay open, ms.
    pub transaction_timeout: i64,
    /// Other settings of the client library, passed on as they are; some of them are secrets.
    pub librdkafka: Vec<(String, Secret)>,
}

/// How to talk to a cluster.
#[derive(Debug, Clone, Default)]
pub struct SecurityConfig {
    /// Encryption and authentication.
    pub protocol: SecurityProtocol,
    /// `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    pub mechanism: Option<&'static str>,
    /// The SASL user.
    pub username: Option<String>,
    /// The SASL password.
    pub password: Option<Secret>,
    /// Certificates to trust; the system's when not said.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate.
    pub certificate_file: Option<PathBuf>,
    /// The client's key.
    pub key_file: Option<PathBuf>,
    /// The password of the client's key.
    pub key_password: Option<Secret>,
}

/// Encryption and authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityProtocol {
    /// Neither.
    #[default]
    Plaintext,
    /// Encrypted, perhaps with a client certificate.
    Tls,
    /// Not encrypted, SASL.
    SaslPlaintext,
    /// Encrypted, SASL.
    SaslTls,
}

/// One input.
#[derive(Debug, Clone)]
pub struct InputConfig {
    /// Its name.
    pub name: String,
    /// What it reads.
    pub from: InputFrom,
    /// Where key and event time are.
    pub format: InputFormat,
    /// How event time moves; none: records have no event time.
    pub time: Option<TimeConfig>,
    /// Where it starts when the pipeline has never run.
    pub start: Start,
    /// What happens when records between the committed position and the log's start are gone.
    pub on_gap: OnGap,
    /// Null keys.
    pub null_key: NullKeyPolicy,
    /// Late records.
    pub late: LatePolicy,
    /// Whether every lane reads all of it.
    pub is_broadcast: bool,
    /// Whether records of the others wait until it is read to its end.
    pub bootstrap: bool,
}

/// What an input reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFrom {
    /// A topic.
    Topic(String),
    /// NDJSON files; file n is partition n.
    Files(Vec<PathBuf>),
}

/// How event time moves in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeConfig {
    /// How far the watermark trails, ms.
    pub out_of_orderness: i64,
    /// How long a source must be at its end to be idle, ms; none: never.
    pub idle_after: Option<i64>,
    /// A record further ahead does not move time, ms.
    pub max_future_skew: i64,
}

/// Where an input starts when the pipeline has never run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// At the first kept record.
    #[default]
    Earliest,
    /// Behind the last record.
    Latest,
}

/// The plugin.
#[derive(Debug, Clone)]
pub struct PluginConfig {
    /// The component's file.
    pub file: PathBuf,
    /// (role, input) pairs where they differ from "same names".
    pub roles: Option<Vec<(String, String)>>,
    /// Its configuration as JSON.
    pub config: String,
    /// What a call may do.
    pub limits: PluginLimits,
}

/// What a plugin call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginLimits {
    /// Memory of an instance, bytes.
    pub memory: u64,
    /// How long a call may run, ms.
    pub deadline: i64,
    /// Records emitted in one call.
    pub outputs: u32,
    /// Bytes emitted in one call.
    pub output_bytes: u64,
    /// Entries in one page of a scan.
    pub scan_entries: u32,
    /// Bytes of entries and values in one page of a scan.
    pub scan_bytes: u64,
    /// Bytes of one key, entry or value written to state.
    pub state_row_bytes: u64,
    /// Bytes of rows changed in one call.
    pub state_bytes: u64,
    /// Timers registered or deleted in one call.
    pub timers: u32,
    /// Firings, in one move of time, of timers that one key has registered in that move.
    pub firings_per_timer: u32,
    /// Bytes handed over in one call of an import.
    pub import_bytes: u64,
    /// Bytes of the component's file.
    pub component_bytes: u64,
}

/// One output.
#[derive(Debug, Clone)]
pub struct OutputConfig {
    /// Its name.
    pub name: String,
    /// The topic.
    pub topic: String,
    /// The NDJSON file that follows it (embedded log).
    pub follow: Option<PathBuf>,
    /// Whether a missing topic is created.
    pub create: bool,
}

/// Where dead letters go.
#[derive(Debug, Clone)]
pub struct DeadLettersConfig {
    /// The topic.
    pub topic: String,
    /// The NDJSON file that follows it (embedded log).
    pub follow: Option<PathBuf>,
    /// Whether a missing topic is created.
    pub create: bool,
    /// When a flood stops the pipeline.
    pub max_rate: DeadLetterRate,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            deadline: 1_000,
            outputs: 10_000,
            output_bytes: 8 << 20,
            scan_entries: 1_000,
            scan_bytes: 8 << 20,
            state_row_bytes: 8 << 20,
            state_bytes: 32 << 20,
            timers: 10_000,
            firings_per_timer: 100_000,
            import_bytes: 32 << 20,
            component_bytes: dovetail_plugin::COMPONENT_BYTES_MAX,
        }
    }
}
