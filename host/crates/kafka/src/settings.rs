//! librdkafka's settings for each of our clients, with the reason beside each.
//!
//! Invariant: what we set wins over what the configuration passes through.

use std::time::Duration;

use crate::options::{BATCH_OVERHEAD_BYTES, Connection, LaneLogOptions};

/// Settings by librdkafka's names.
pub(crate) type Settings = Vec<(String, String)>;

/// How long one request may take; the default of a minute hides a dead coordinator.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a lane's clients say how they are, ms.
const STATISTICS_EVERY: u64 = 5_000;

/// Room in a request beside the largest record.
const REQUEST_OVERHEAD_BYTES: usize = 64 * 1024;

/// librdkafka's own maximum of `message.max.bytes`.
const MESSAGE_BYTES_MAX: usize = 1_000_000_000;

/// Most of what goes into one batch.
const BATCH_BYTES_MAX: usize = 500_000;

/// The largest record of a compressed batch may be this many times as large as the batch.
const UNPACKED_TIMES: usize = 8;

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
        put(s, "sasl.username", sasl.username.reveal());
        put(s, "sasl.password", sasl.password.reveal());
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
    put(s, "statistics.interval.ms", STATISTICS_EVERY);
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
        // A request must not outlast its transaction: librdkafka refuses such settings.
        put(s, "socket.timeout.ms", REQUEST_TIMEOUT.as_millis().min(timeout));
    }
    put(s, "statistics.interval.ms", STATISTICS_EVERY);
    put(s, "enable.idempotence", true);
    put(s, "message.timeout.ms", timeout);
    // Sent when a batch is full or at the drain, which does not linger: fewest requests.
    put(s, "linger.ms", 1000);
    put(s, "batch.size", batch_bytes(options));
    put(s, "batch.num.messages", 100_000);
    put(s, "delivery.report.only.error", true);
    put(s, "partitioner", "murmur2_random");
    // It is compared before compression, and a topic's bound after: the broker judges.
    put(s, "message.max.bytes", MESSAGE_BYTES_MAX);
    put(s, "queue.buffering.max.kbytes", queue_kbytes(options));
    put(s, "queue.buffering.max.messages", 1_000_000);
    settings
}

/// A batch is taken by every topic that is written to, compressed or not.
fn batch_bytes(options: &LaneLogOptions) -> usize {
    let written = options.outputs.iter().chain([&options.dead_letters]);
    let smallest = written.map(|topic| topic.max_batch_bytes).min().unwrap_or(BATCH_BYTES_MAX);
    smallest.saturating_sub(BATCH_OVERHEAD_BYTES).clamp(1, BATCH_BYTES_MAX)
}

/// A record larger than the queue would never be taken.
fn queue_kbytes(options: &LaneLogOptions) -> usize {
    let largest = options.max_record_bytes.max(dovetail_core::epoch::chunk::PAYLOAD_BYTES_MAX);
    let needed = largest.saturating_mul(UNPACKED_TIMES).saturating_add(REQUEST_OVERHEAD_BYTES);
    (options.producer_queue_bytes.max(needed) / 1024).clamp(1024, 2_097_151)
}

/// Returns the largest record that the producer's queue takes, in bytes.
pub(crate) fn queued_record_bytes_max(options: &LaneLogOptions) -> usize {
    queue_kbytes(options) * 1024 - REQUEST_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dovetail_core::epoch::LaneId;

    use super::*;
    use crate::options::{BATCH_BYTES_DEFAULT, OutputTopic, TimestampBounds};

    fn options(largest: usize, smallest: usize) -> LaneLogOptions {
        let written = |topic: &str, max_batch_bytes| OutputTopic {
            topic: topic.to_owned(),
            timestamps: TimestampBounds::default(),
            max_batch_bytes,
        };
        LaneLogOptions {
            connection: Connection::default(),
            pipeline: "p".to_owned(),
            lane: LaneId(0),
            transaction_timeout: Duration::from_secs(20),
            sources: Vec::new(),
            outputs: vec![written("small", smallest), written("out", BATCH_BYTES_DEFAULT)],
            dead_letters: written("dead", largest),
            journal_topic: "p.journal".to_owned(),
            max_record_bytes: largest,
            prefetch_bytes: 1 << 20,
            producer_queue_bytes: 2 << 20,
            fetch_wait: Duration::from_millis(10),
            exactly_once: true,
        }
    }

    fn number(settings: &Settings, name: &str) -> usize {
        let (_, value) = settings.iter().rev().find(|(known, _)| known == name).unwrap();
        value.parse().unwrap()
    }

    #[test]
    fn the_broker_judges_the_size_of_a_record_and_the_queue_holds_the_largest() {
        let largest = 20 << 20;
        let settings = producer(&options(largest, BATCH_BYTES_DEFAULT));
        assert_eq!(number(&settings, "message.max.bytes"), 1_000_000_000);
        assert!(number(&settings, "queue.buffering.max.kbytes") * 1024 > largest);
        assert_eq!(number(&settings, "batch.size"), 500_000);
    }

    #[test]
    fn a_batch_fits_the_smallest_topic_written() {
        let settings = producer(&options(BATCH_BYTES_DEFAULT, 100_000));
        assert_eq!(number(&settings, "batch.size"), 100_000 - BATCH_OVERHEAD_BYTES);
    }
}
