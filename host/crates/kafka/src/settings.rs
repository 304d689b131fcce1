//! librdkafka's settings for each of our clients, with the reason beside each.
//!
//! Invariant: what we set wins over what the configuration passes through.

use std::time::Duration;

use crate::options::{Connection, LaneLogOptions};

/// Settings by librdkafka's names.
pub(crate) type Settings = Vec<(String, String)>;

/// How long one request may take; the default of a minute hides a dead coordinator.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Room in a request beside the largest record.
const REQUEST_OVERHEAD_BYTES: usize = 64 * 1024;

fn put(settings: &mut Settings, name: &str, value: impl ToString) {
    settings.push((name.to_owned(), value.to_string()));
}

/// Settings to reach the cluster, for every kind of client.
pub(crate) fn connection(connection: &Connection) -> Settings {
    let mut settings: Settings =
        connection.librdkafka.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let s = &mut settings;
    put(s, "bootstrap.servers", &connection.brokers);
    put(s, "socket.timeout.ms", REQUEST_TIMEOUT.as_millis());
    put(s, "socket.nagle.disable", true);
    // A restarted broker is found again soon.
    put(s, "reconnect.backoff.ms", 50);
    put(s, "reconnect.backoff.max.ms", 1000);
    put(s, "security.protocol", connection.security.protocol());
    if let Some(tls) = &connection.security.tls {
        match &tls.ca_file {
            Some(file) => put(s, "ssl.ca.location", file.display()),
            // OpenSSL's own place differs between distributions: look at the known ones.
            None => put(s, "ssl.ca.location", "probe"),
        }
    }
    if let Some(sasl) = &connection.security.sasl {
        put(s, "sasl.mechanism", sasl.mechanism.name());
        put(s, "sasl.username", sasl.username.expose());
        put(s, "sasl.password", sasl.password.expose());
    }
    settings
}

/// Settings of anything that reads.
fn reader(options: &LaneLogOptions) -> Settings {
    let mut settings = connection(&options.connection);
    let s = &mut settings;
    put(s, "group.id", options.group());
    put(s, "isolation.level", "read_committed");
    put(s, "enable.auto.commit", false);
    put(s, "enable.auto.offset.store", false);
    // A position out of range is an error, never a silent jump.
    put(s, "auto.offset.reset", "error");
    put(s, "enable.partition.eof", true);
    // The default of a second stops a partition for that long.
    put(s, "fetch.queue.backoff.ms", 10);
    put(s, "fetch.error.backoff.ms", 50);
    put(s, "check.crcs", false);
    settings
}

/// Settings of the consumer of a lane's sources.
pub(crate) fn inputs(options: &LaneLogOptions) -> Settings {
    let mut settings = reader(options);
    let s = &mut settings;
    let per_source = options.prefetch_bytes / options.sources.len().max(1);
    let kbytes = (per_source / 1024).clamp(64, 1024);
    put(s, "queued.max.messages.kbytes", kbytes);
    // About 100 bytes a record.
    put(s, "queued.min.messages", (kbytes * 10).clamp(1000, 10_000));
    put(s, "fetch.message.max.bytes", kbytes * 1024);
    put(s, "fetch.wait.max.ms", options.fetch_wait.as_millis());
    settings
}

/// Settings of the consumer of the lane's journal partition.
pub(crate) fn journal(options: &LaneLogOptions) -> Settings {
    let mut settings = reader(options);
    let s = &mut settings;
    put(s, "queued.max.messages.kbytes", 4096);
    put(s, "fetch.wait.max.ms", 10);
    // The journal is what recovery believes.
    put(s, "check.crcs", true);
    settings
}

/// Settings of the lane's producer.
pub(crate) fn producer(options: &LaneLogOptions) -> Settings {
    let mut settings = Settings::new();
    let s = &mut settings;
    // May be passed through.
    put(s, "compression.type", "lz4");
    settings.extend(connection(&options.connection));
    let s = &mut settings;
    let timeout = options.transaction_timeout.as_millis();
    if options.exactly_once {
        put(s, "transactional.id", options.transactional_id());
        put(s, "transaction.timeout.ms", timeout);
    }
    put(s, "enable.idempotence", true);
    put(s, "message.timeout.ms", timeout);
    // Sent when a batch is full or at the drain, which does not linger: fewest requests.
    put(s, "linger.ms", 1000);
    put(s, "batch.size", 500_000);
    put(s, "batch.num.messages", 100_000);
    put(s, "delivery.report.only.error", true);
    put(s, "partitioner", "murmur2_random");
    let largest = options.max_record_bytes.max(dovetail_core::epoch::chunk::PAYLOAD_BYTES_MAX);
    put(s, "message.max.bytes", (largest + REQUEST_OVERHEAD_BYTES).clamp(1_000_000, 1_000_000_000));
    let kbytes = (options.producer_queue_bytes / 1024).clamp(1024, 2_097_151);
    put(s, "queue.buffering.max.kbytes", kbytes);
    put(s, "queue.buffering.max.messages", 1_000_000);
    settings
}
