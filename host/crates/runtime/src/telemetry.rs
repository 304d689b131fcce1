//! The names of our metrics, and publishing them when an epoch commits.
//!
//! Metrics are counted inside the lane and published here once their epoch is committed, so that
//! they never tell of work that was undone. Names are durable: dashboards hold them.

use dovetail_core::{
    context::LogLevel,
    lane::{EpochReport, LaneStatus, Warning},
    log::LogStatistics,
    plugin::{MetricKind, PluginDescriptor},
    record::{InputIndex, Source},
    time::{END_OF_TIME, NO_WATERMARK},
};
use metrics::{Label, SharedString, Unit, counter, gauge, histogram};

use crate::{setup::Names, status::CheckpointShown};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Any value.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric, as documented.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Its labels besides `pipeline`.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($const:ident $kind:ident $unit:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $const: &str = $name;)*
        /// Every metric of the host, in the order of the documentation.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name, kind: Kind::$kind, unit: Unit::$unit, labels: &[$($label),*], help: $help,
        }),*];
    };
}

metrics_table! {
    INPUT_RECORDS Counter Count "dovetail_input_records_total" ["input"] "Records taken from an input.";
    INPUT_BYTES Counter Bytes "dovetail_input_bytes_total" ["input"] "Bytes of keys, values and headers taken from an input.";
    INPUT_LAG Gauge Count "dovetail_input_lag_records" ["input", "partition"] "Offsets between the next one to read and the end of the partition as it was last heard (every 5 s); absent where the log does not tell; of a broadcast input by `lane`, too.";
    INPUT_POSITION Gauge Count "dovetail_input_position_offset" ["input", "partition"] "The next offset to read; of a broadcast input by `lane`, too.";
    WATERMARK Gauge Seconds "dovetail_watermark_timestamp_seconds" ["input", "partition"] "The watermark of a source, as seconds since 1970; absent before its first record.";
    WATERMARK_LAG Gauge Seconds "dovetail_operator_watermark_lag_seconds" ["lane"] "How far a lane's watermark is behind its clock.";
    PARTITION_IDLE Gauge Count "dovetail_partition_idle" ["input", "partition"] "1 for a source that no longer holds the watermark back.";
    WATERMARK_HOLDER Gauge Count "dovetail_watermark_holder" ["input", "partition"] "1 for a source that holds its lane's watermark.";
    LATE_RECORDS Counter Count "dovetail_late_records_total" ["input"] "Records at or before the lane's watermark on arrival.";
    DROPPED_RECORDS Counter Count "dovetail_dropped_records_total" ["input", "reason"] "Records dropped by a rule of the configuration.";
    LOST_RECORDS Counter Count "dovetail_lost_records_total" ["input"] "Offsets jumped over because the topic had deleted the records there (`on_gap: earliest`).";
    SKEW_IGNORED Counter Count "dovetail_watermark_skew_ignored_total" ["input"] "Records too far ahead of the clock to move time.";
    DEAD_LETTERS Counter Count "dovetail_dead_letters_total" ["input", "reason"] "Records and timers that could not be processed; `input` is empty for a timer.";
    COPARTITION_VIOLATIONS Counter Count "dovetail_copartition_violations_total" ["input"] "Records whose key was seen under another partition number before.";
    STATE_ROWS Gauge Count "dovetail_state_rows" ["lane"] "Rows of keyed state and timers, estimated.";
    STATE_BYTES Gauge Bytes "dovetail_state_bytes" ["lane", "kind"] "Bytes of keyed state and timers on disk.";
    STATE_READS Counter Count "dovetail_state_reads_total" ["lane", "result"] "Reads of single rows that memory has answered (`hit`), and that went to the disk or found no row (`miss`).";
    STATE_MEMORY Gauge Bytes "dovetail_state_memory_bytes" ["kind"] "Memory that keyed state uses for all lanes: `memtables` and `block_cache`.";
    TIMERS_PENDING Gauge Count "dovetail_timers_pending" ["lane"] "Timers that wait, estimated.";
    TIMERS_FIRED Counter Count "dovetail_timers_fired_total" [] "Timers fired.";
    PLUGIN_CALLS Counter Count "dovetail_plugin_calls_total" [] "Calls of the plugin, retries and continuations included.";
    PLUGIN_CALL Histogram Seconds "dovetail_plugin_call_seconds" ["fn"] "How long calls of the plugin took; one call in 64 is measured.";
    PLUGIN_FAILURES Counter Count "dovetail_plugin_failures_total" ["reason"] "Calls that failed, before any retry.";
    PLUGIN_TRAPS Counter Count "dovetail_plugin_traps_total" [] "Calls that trapped, before any retry.";
    PLUGIN_RELOADS Counter Count "dovetail_plugin_reloads_total" ["result"] "Revisions that were taken over or refused.";
    PLUGIN_INFO Gauge Count "dovetail_plugin_info" ["digest"] "1 for the running revision.";
    OUTPUT_RECORDS Counter Count "dovetail_output_records_total" ["output"] "Records committed to an output.";
    OUTPUT_BYTES Counter Bytes "dovetail_output_bytes_total" ["output"] "Bytes of keys, values and headers committed to an output.";
    OUTPUT_TRANSACTIONS Counter Count "dovetail_output_transactions_total" ["result"] "Epochs committed, and commits that ended in doubt.";
    EPOCH_COMMIT Histogram Seconds "dovetail_epoch_commit_seconds" [] "How long the commit of an epoch took.";
    EPOCH_JOURNAL_BYTES Counter Bytes "dovetail_epoch_journal_bytes_total" [] "Bytes of epoch records written to the journal.";
    EPOCH_NUMBER Gauge Count "dovetail_epoch_number" ["lane"] "The last committed epoch.";
    CHECKPOINTS Counter Count "dovetail_checkpoints_total" ["result"] "Checkpoints that were published, and tries that failed.";
    CHECKPOINT_DURATION Histogram Seconds "dovetail_checkpoint_duration_seconds" [] "How long the upload of a checkpoint took.";
    CHECKPOINT_SIZE Gauge Bytes "dovetail_checkpoint_size_bytes" ["lane", "kind"] "Bytes of a lane's last checkpoint: all of its files, and those that were uploaded for it.";
    CHECKPOINT_AGE Gauge Seconds "dovetail_checkpoint_age_seconds" ["lane"] "How long ago a lane's last checkpoint was frozen; absent before the first.";
    EPOCH_RECOVERIES Counter Count "dovetail_epoch_recoveries_total" [] "How often a lane was acquired again after a doubt.";
    CLIENT_QUEUED_RECORDS Gauge Count "dovetail_client_queued_records" ["lane", "client"] "Records that wait in a lane's Kafka client; this and the next ones every 5 s.";
    CLIENT_QUEUED_BYTES Gauge Bytes "dovetail_client_queued_bytes" ["lane", "client"] "Their bytes.";
    CLIENT_REQUESTS Gauge Count "dovetail_client_requests_in_flight" ["lane", "client"] "Requests of a client that are not answered yet.";
    CLIENT_TIMEOUTS Gauge Count "dovetail_client_request_timeouts" ["lane", "client"] "Requests that were not answered in time, since the client was made.";
    CLIENT_CONNECTS Gauge Count "dovetail_client_connects" ["lane", "client"] "Connections that were tried, since the client was made.";
    CLIENT_ROUND_TRIP Gauge Seconds "dovetail_client_round_trip_seconds" ["lane", "client"] "Mean round trip to the client's slowest broker.";
}

/// Tells the recorder what every metric means. Call once after it is installed.
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Publishes what a committed epoch counted; `commit_ms` is how long its commit took.
pub fn publish_report(
    names: &Names,
    descriptor: &PluginDescriptor,
    report: &EpochReport,
    commit_ms: i64,
) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    for (counts, input) in report.inputs.iter().zip(&names.inputs) {
        let input = || SharedString::from(input.clone());
        let count = |name: &'static str, value: u64| {
            if value > 0 {
                counter!(name, "pipeline" => pipeline(), "input" => input()).increment(value);
            }
        };
        count(INPUT_RECORDS, counts.records);
        count(INPUT_BYTES, counts.bytes);
        count(LATE_RECORDS, counts.late);
        count(SKEW_IGNORED, counts.skew_ignored);
        count(LOST_RECORDS, counts.lost);
        for (reason, value) in
            [("null_key", counts.dropped_null_key), ("late", counts.dropped_late)]
        {
            if value > 0 {
                counter!(DROPPED_RECORDS, "pipeline" => pipeline(), "input" => input(), "reason" => reason)
                    .increment(value);
            }
        }
        for (reason, value) in &counts.dead_letters {
            counter!(DEAD_LETTERS, "pipeline" => pipeline(), "input" => input(), "reason" => reason.name())
                .increment(*value);
        }
    }
    for (reason, value) in &report.timer_dead_letters {
        counter!(DEAD_LETTERS, "pipeline" => pipeline(), "input" => "", "reason" => reason.name())
            .increment(*value);
    }
    for (value, output) in report.outputs.iter().zip(&names.outputs) {
        counter!(OUTPUT_RECORDS, "pipeline" => pipeline(), "output" => output.clone())
            .increment(*value);
    }
    for (value, output) in report.output_bytes.iter().zip(&names.outputs) {
        counter!(OUTPUT_BYTES, "pipeline" => pipeline(), "output" => output.clone())
            .increment(*value);
    }
    for (reason, value) in &report.failures {
        counter!(PLUGIN_FAILURES, "pipeline" => pipeline(), "reason" => reason.name())
            .increment(*value);
        if reason.name() == "plugin_trap" {
            counter!(PLUGIN_TRAPS, "pipeline" => pipeline()).increment(*value);
        }
    }
    counter!(TIMERS_FIRED, "pipeline" => pipeline()).increment(report.timers_fired);
    counter!(PLUGIN_CALLS, "pipeline" => pipeline()).increment(report.calls);
    counter!(EPOCH_JOURNAL_BYTES, "pipeline" => pipeline()).increment(report.journal_bytes);
    counter!(OUTPUT_TRANSACTIONS, "pipeline" => pipeline(), "result" => "committed").increment(1);
    histogram!(EPOCH_COMMIT, "pipeline" => pipeline()).record(seconds(commit_ms));
    publish_plugin_metrics(names, descriptor, report);
}

fn publish_plugin_metrics(names: &Names, descriptor: &PluginDescriptor, report: &EpochReport) {
    for update in &report.metrics {
        let Some(metric) = descriptor.metrics.get(update.metric as usize) else {
            continue;
        };
        let name = format!("dovetail_join_{}", metric.name);
        let pipeline = names.pipeline.clone();
        match metric.kind {
            MetricKind::Counter => {
                counter!(format!("{name}_total"), "pipeline" => pipeline)
                    .increment(whole(update.value));
            }
            MetricKind::Gauge => gauge!(name, "pipeline" => pipeline).set(update.value),
            MetricKind::Histogram => histogram!(name, "pipeline" => pipeline).record(update.value),
        }
    }
}

/// Returns the labels of a source: in a broadcast input every lane stands somewhere else.
fn source_labels(names: &Names, lane: u16, source: Source) -> Vec<Label> {
    let input = names.input(source.input);
    let mut labels = vec![
        Label::new("pipeline", names.pipeline.clone()),
        Label::new("input", input.to_owned()),
        Label::new("partition", source.partition.0.to_string()),
    ];
    if names.is_broadcast(input) {
        labels.push(Label::new("lane", lane.to_string()));
    }
    labels
}

/// Publishes where a lane stands.
pub fn publish_status(names: &Names, lane: u16, status: &LaneStatus) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    for source in &status.sources {
        let set = |name: &'static str, value: f64| {
            gauge!(name, source_labels(names, lane, source.source)).set(value);
        };
        set(INPUT_POSITION, float(source.position));
        if names.is_broadcast(names.input(source.source.input)) {
            continue;
        }
        set(PARTITION_IDLE, f64::from(u8::from(source.is_idle)));
        set(WATERMARK_HOLDER, f64::from(u8::from(source.is_holder)));
        if is_time(source.watermark) {
            set(WATERMARK, seconds(source.watermark));
        }
    }
    let set = |name: &'static str, value: f64| {
        gauge!(name, "pipeline" => pipeline(), "lane" => lane.to_string()).set(value);
    };
    if is_time(status.watermark) {
        set(WATERMARK_LAG, seconds(status.processing_time.saturating_sub(status.watermark)));
    }
    set(TIMERS_PENDING, unsigned(status.timers_pending));
    set(STATE_ROWS, unsigned(status.state.rows));
    gauge!(STATE_BYTES, "pipeline" => pipeline(), "lane" => lane.to_string(), "kind" => "total")
        .set(unsigned(status.state.bytes));
    for (result, count) in [("hit", status.reads.hits), ("miss", status.reads.misses)] {
        counter!(STATE_READS, "pipeline" => pipeline(), "lane" => lane.to_string(), "result" => result)
            .absolute(count);
    }
    if let Some(epoch) = status.epoch {
        set(EPOCH_NUMBER, unsigned(epoch.0));
    }
}

/// Publishes what a lane's log knows of itself, and how far the lane is behind it.
pub fn publish_log(names: &Names, lane: u16, status: &LaneStatus, log: &LogStatistics) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    for (source, end) in status.sources.iter().zip(&log.ends) {
        let Some(end) = end else { continue };
        // The end is older than the position.
        let lag = end.saturating_sub(source.position).max(0);
        gauge!(INPUT_LAG, source_labels(names, lane, source.source)).set(float(lag));
    }
    for client in &log.clients {
        let set = |name: &'static str, value: f64| {
            gauge!(
                name, "pipeline" => pipeline(), "lane" => lane.to_string(),
                "client" => client.client
            )
            .set(value);
        };
        set(CLIENT_QUEUED_RECORDS, unsigned(client.queued_records));
        set(CLIENT_QUEUED_BYTES, unsigned(client.queued_bytes));
        set(CLIENT_REQUESTS, unsigned(client.requests_in_flight));
        set(CLIENT_TIMEOUTS, unsigned(client.request_timeouts));
        set(CLIENT_CONNECTS, unsigned(client.connects));
        if let Some(us) = client.round_trip_us {
            set(CLIENT_ROUND_TRIP, float(us) / 1e6);
        }
    }
}

/// Publishes how much memory keyed state uses, by kind.
pub fn publish_state_memory(names: &Names, kinds: &[(&'static str, u64)]) {
    for (kind, bytes) in kinds {
        gauge!(STATE_MEMORY, "pipeline" => names.pipeline.clone(), "kind" => *kind)
            .set(unsigned(*bytes));
    }
}

/// Publishes a checkpoint of a lane.
pub fn publish_checkpoint(names: &Names, lane: u16, shown: &CheckpointShown) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    counter!(CHECKPOINTS, "pipeline" => pipeline(), "result" => "published").increment(1);
    histogram!(CHECKPOINT_DURATION, "pipeline" => pipeline()).record(seconds(shown.ms));
    for (kind, bytes) in [("total", shown.bytes), ("uploaded", shown.new_bytes)] {
        gauge!(CHECKPOINT_SIZE, "pipeline" => pipeline(), "lane" => lane.to_string(), "kind" => kind)
            .set(unsigned(bytes));
    }
}

/// Counts a checkpoint that could not be taken.
pub fn publish_checkpoint_failure(names: &Names) {
    let pipeline = SharedString::from(names.pipeline.clone());
    counter!(CHECKPOINTS, "pipeline" => pipeline, "result" => "failed").increment(1);
}

/// Publishes how old a lane's last checkpoint is, ms.
pub fn publish_checkpoint_age(names: &Names, lane: u16, age: i64) {
    let pipeline = SharedString::from(names.pipeline.clone());
    gauge!(CHECKPOINT_AGE, "pipeline" => pipeline, "lane" => lane.to_string()).set(seconds(age));
}

/// Counts a revision that was taken over or refused, and names the running one.
pub fn publish_reload(names: &Names, result: &'static str, running: &str, previous: &str) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    counter!(PLUGIN_RELOADS, "pipeline" => pipeline(), "result" => result).increment(1);
    publish_revision(names, running, previous);
}

/// Names the running revision.
pub fn publish_revision(names: &Names, running: &str, previous: &str) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    if previous != running {
        gauge!(PLUGIN_INFO, "pipeline" => pipeline(), "digest" => previous.to_owned()).set(0.0);
    }
    gauge!(PLUGIN_INFO, "pipeline" => pipeline(), "digest" => running.to_owned()).set(1.0);
}

/// Counts a record whose key was seen under another partition number before.
pub fn publish_violation(names: &Names, input: InputIndex) {
    let (pipeline, input) = (names.pipeline.clone(), names.input(input).to_owned());
    counter!(COPARTITION_VIOLATIONS, "pipeline" => pipeline, "input" => input).increment(1);
}

/// Counts a doubt and the recovery that it asks for.
pub fn publish_recovery(names: &Names) {
    let pipeline = || SharedString::from(names.pipeline.clone());
    counter!(EPOCH_RECOVERIES, "pipeline" => pipeline()).increment(1);
    counter!(OUTPUT_TRANSACTIONS, "pipeline" => pipeline(), "result" => "doubt").increment(1);
}

/// Writes what the plugin logged in a committed epoch.
pub fn log_plugin_lines(names: &Names, lane: u16, report: &EpochReport) {
    let pipeline = &names.pipeline;
    for line in &report.log_lines {
        let text = &line.text;
        match line.level {
            LogLevel::Debug => tracing::debug!(target: "plugin", pipeline, lane, "{text}"),
            LogLevel::Info => tracing::info!(target: "plugin", pipeline, lane, "{text}"),
            LogLevel::Warn => tracing::warn!(target: "plugin", pipeline, lane, "{text}"),
            LogLevel::Error => tracing::error!(target: "plugin", pipeline, lane, "{text}"),
        }
    }
    if report.log_lines_dropped > 0 {
        let dropped = report.log_lines_dropped;
        tracing::warn!(
            pipeline,
            lane,
            "the plugin logged {dropped} more lines in one epoch; they were dropped"
        );
    }
}

/// Says a warning in words, with the names of the configuration.
#[must_use]
pub fn warning_text(names: &Names, warning: &Warning) -> String {
    match warning {
        Warning::Copartition { input, key, first, second } => format!(
            "the key {key:?} of input {} lies in partition {} and was seen in partition {} before: \
             the inputs are not partitioned alike and such keys never meet; produce all of them with \
             the same partitioner and the same number of partitions",
            names.input(*input),
            second.0,
            first.0,
        ),
        Warning::NothingMatched { samples } => {
            let mut text = "no record has found a partner yet; sample keys:".to_owned();
            let is_keyed = |(_, input): &(&Vec<String>, &String)| !names.is_broadcast(input);
            for (keys, input) in samples.iter().zip(&names.inputs).filter(is_keyed) {
                text.push_str(&format!(" {input}: {};", keys.join(", ")));
            }
            text.push_str(" do they mean the same thing, in the same spelling?");
            text
        }
    }
}

/// Lets one message through per interval and counts the rest.
#[derive(Debug, Clone, Default)]
pub struct RateLimit {
    last: Option<i64>,
    suppressed: u64,
}

impl RateLimit {
    /// Returns how many were held back since the last one, when this one may pass.
    pub fn pass(&mut self, now: i64, interval_ms: i64) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_sub(last) < interval_ms && now >= last) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

fn is_time(watermark: i64) -> bool {
    watermark != NO_WATERMARK && watermark != END_OF_TIME
}

fn seconds(ms: i64) -> f64 {
    float(ms) / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn float(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn unsigned(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a counter takes whole, positive steps; the cast saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{
            Arc, Mutex,
            atomic::{AtomicU64, Ordering},
        },
    };

    use dovetail_core::lane::InputCounts;
    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder};

    use super::*;

    /// Keeps counters, by name and label values.
    #[derive(Default)]
    struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Counters {
        fn of(&self, key: &str) -> Option<u64> {
            self.0.lock().unwrap().get(key).map(|value| value.load(Ordering::SeqCst))
        }
    }

    impl Recorder for Counters {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels = key.labels().map(|label| format!(" {}", label.value()));
            let name = key.name().to_owned() + &labels.collect::<String>();
            let value = Arc::clone(self.0.lock().unwrap().entry(name).or_default());
            Counter::from_arc(value)
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn what_the_host_writes_to_late_and_ignores_for_time_is_counted_by_name() {
        let names = Names {
            pipeline: "p".to_owned(),
            inputs: vec!["orders".to_owned()],
            outputs: vec!["main".to_owned(), "late".to_owned()],
            ..Names::default()
        };
        // The plugin itself knows of `main` only.
        let descriptor =
            PluginDescriptor { outputs: vec!["main".to_owned()], ..PluginDescriptor::default() };
        let report = EpochReport {
            inputs: vec![InputCounts { skew_ignored: 3, ..InputCounts::default() }],
            outputs: vec![1, 2],
            ..EpochReport::default()
        };
        let counters = Counters::default();
        metrics::with_local_recorder(&counters, || {
            publish_report(&names, &descriptor, &report, 1);
        });
        assert_eq!(counters.of("dovetail_output_records_total p main"), Some(1));
        assert_eq!(counters.of("dovetail_output_records_total p late"), Some(2));
        assert_eq!(counters.of("dovetail_watermark_skew_ignored_total p orders"), Some(3));
    }

    #[test]
    fn names_are_ours_and_counters_end_in_total() {
        for metric in METRICS {
            assert!(metric.name.starts_with("dovetail_"), "{}", metric.name);
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
        }
    }

    #[test]
    fn a_repeated_message_passes_once_per_interval_with_the_count_of_the_others() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.pass(0, 1_000), Some(0));
        assert_eq!(limit.pass(10, 1_000), None);
        assert_eq!(limit.pass(999, 1_000), None);
        assert_eq!(limit.pass(1_000, 1_000), Some(2));
    }
}
