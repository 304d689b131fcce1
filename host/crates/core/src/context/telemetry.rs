//! Logs and metrics of the plugin, gathered per call and published when the epoch commits.

use super::{Context, ContextError};

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

/// What the calls of the open epoch logged and measured.
#[derive(Debug, Default)]
pub struct Telemetry {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) lines_dropped: u64,
    pub(crate) updates: Vec<MetricUpdate>,
    updates_before_call: usize,
}

impl Telemetry {
    /// Returns the lines that the open epoch's calls logged so far.
    #[must_use]
    pub fn lines(&self) -> &[LogLine] {
        &self.lines
    }

    /// Returns the changes of metrics that the open epoch's calls made so far.
    #[must_use]
    pub fn updates(&self) -> &[MetricUpdate] {
        &self.updates
    }

    pub(crate) fn begin_call(&mut self) {
        self.updates_before_call = self.updates.len();
    }

    /// Metrics of a failed call are undone; its log lines stay: they say why it failed.
    pub(crate) fn undo_call(&mut self) {
        self.updates.truncate(self.updates_before_call);
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
        let text = text[..text.floor_char_boundary(LOG_LINE_BYTES_MAX)].to_owned();
        self.telemetry.lines.push(LogLine { level, text });
    }

    /// Adds to a counter, sets a gauge or records into a histogram, by the metric's kind.
    ///
    /// # Errors
    ///
    /// When the metric is unknown.
    pub fn metric(&mut self, metric: u32, value: f64) -> Result<(), ContextError> {
        let metrics = self.descriptor.metrics.len();
        if metric as usize >= metrics {
            return Err(ContextError::limit(format!(
                "metric number {metric} is unknown: `describe` names {metrics} metrics"
            )));
        }
        self.telemetry.updates.push(MetricUpdate { metric, value });
        Ok(())
    }
}
