//! Logs and metrics of the plugin, gathered per call and published when the epoch commits.

use super::{Context, ContextError};
use crate::{plugin::MetricKind, text::cut};

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For the author.
    Debug,
    /// Worth knowing.
    Info,
    /// Unexpected but handled.
    Warn,
    /// Someone must act.
    Error,
}

/// One line a plugin logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The text, cut to [`LOG_LINE_BYTES_MAX`].
    pub text: String,
}

/// Longest log line in bytes.
pub const LOG_LINE_BYTES_MAX: usize = 1024;
/// Most log lines kept in one epoch; more are counted and dropped.
pub const LOG_LINES_MAX: usize = 1000;

/// One change of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricUpdate {
    /// The metric's place in `describe`.
    pub metric: u32,
    /// What is added, set or recorded, by the metric's kind.
    pub value: f64,
}

/// Most values recorded into histograms by one call.
const SAMPLES_PER_CALL_MAX: usize = 10_000;

/// What the calls of the open epoch logged and measured.
///
/// Counters are summed and gauges keep their last value, so that an epoch of many calls publishes
/// few changes.
#[derive(Debug, Default)]
pub struct Telemetry {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) lines_dropped: u64,
    /// The sum of each counter and the value of each gauge that was touched.
    values: Vec<Option<f64>>,
    /// What was recorded into histograms.
    samples: Vec<MetricUpdate>,
    undo: Vec<(usize, Option<f64>)>,
    samples_before_call: usize,
}

impl Telemetry {
    /// Returns the lines that the open epoch's calls logged so far.
    #[must_use]
    pub fn lines(&self) -> &[LogLine] {
        &self.lines
    }

    /// Returns the changes of metrics that the open epoch's calls made so far.
    #[must_use]
    pub fn updates(&self) -> Vec<MetricUpdate> {
        let values = self.values.iter().enumerate().filter_map(|(at, value)| {
            let metric = u32::try_from(at).ok()?;
            Some(MetricUpdate { metric, value: (*value)? })
        });
        values.chain(self.samples.iter().copied()).collect()
    }

    pub(crate) fn begin_call(&mut self) {
        self.undo.clear();
        self.samples_before_call = self.samples.len();
    }

    /// Metrics of a failed call are undone; its log lines stay: they say why it failed.
    pub(crate) fn undo_call(&mut self) {
        self.samples.truncate(self.samples_before_call);
        while let Some((at, before)) = self.undo.pop() {
            self.values[at] = before;
        }
    }

    fn set(&mut self, at: usize, value: f64) {
        if self.values.len() <= at {
            self.values.resize(at + 1, None);
        }
        let before = self.values[at].replace(value);
        self.undo.push((at, before));
    }

    fn get(&self, at: usize) -> f64 {
        self.values.get(at).copied().flatten().unwrap_or(0.0)
    }
}

impl Context {
    /// Returns what the open epoch's calls logged and measured so far (a harness looks at it).
    #[must_use]
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Logs a line.
    pub fn log(&mut self, level: LogLevel, text: &str) {
        if self.telemetry.lines.len() >= LOG_LINES_MAX {
            self.telemetry.lines_dropped += 1;
            return;
        }
        let text = cut(text, LOG_LINE_BYTES_MAX).to_owned();
        self.telemetry.lines.push(LogLine { level, text });
    }

    /// Adds to a counter, sets a gauge or records into a histogram, by the metric's kind.
    ///
    /// # Errors
    ///
    /// When the metric is unknown.
    pub fn metric(&mut self, metric: u32, value: f64) -> Result<(), ContextError> {
        let at = metric as usize;
        let Some(described) = self.descriptor.metrics.get(at) else {
            let metrics = self.descriptor.metrics.len();
            return Err(ContextError::limit(format!(
                "metric number {metric} is unknown: `describe` names {metrics} metrics"
            )));
        };
        match described.kind {
            MetricKind::Counter => {
                let sum = sum(self.telemetry.get(at), value);
                self.telemetry.set(at, sum);
            }
            MetricKind::Gauge => self.telemetry.set(at, value),
            MetricKind::Histogram => {
                let recorded = self.telemetry.samples.len() - self.telemetry.samples_before_call;
                if recorded >= SAMPLES_PER_CALL_MAX {
                    return Err(ContextError::limit(format!(
                        "a call may record {SAMPLES_PER_CALL_MAX} values into histograms"
                    )));
                }
                self.telemetry.samples.push(MetricUpdate { metric, value });
            }
        }
        Ok(())
    }
}

/// Adds to a counter, which only grows.
#[expect(clippy::float_arithmetic, reason = "metrics decide nothing")]
fn sum(before: f64, value: f64) -> f64 {
    before + value.max(0.0)
}
