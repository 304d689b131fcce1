//! Whether the inputs' keys meet, watched over all lanes.
//!
//! Core compares the sampled keys; this keeps what it says to be shown, and is the one thing that
//! lanes share.

use std::{collections::VecDeque, sync::Mutex};

use dovetail_core::{
    copartition::CopartitionWatch,
    lane::{EpochReport, Warning},
    time::ProcessingTime,
};

use crate::{
    handle::lock,
    setup::Names,
    telemetry::{self, RateLimit},
};

/// How many violations are kept to show.
const VIOLATIONS_SHOWN: usize = 10;
/// How often violations are logged, ms.
const LOG_EVERY: i64 = 10_000;

/// What the watch has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFindings {
    /// The newest co-partition violations, in words.
    pub violations: VecDeque<String>,
    /// How many there were.
    pub violation_count: u64,
    /// That nothing has matched, in words.
    pub nothing_matched: Option<String>,
}

/// The watch of one pipeline.
#[derive(Debug)]
pub struct KeyWatch {
    names: Names,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    watch: CopartitionWatch,
    findings: KeyFindings,
    limit: RateLimit,
}

impl KeyWatch {
    /// Returns a watch over a pipeline's inputs.
    #[must_use]
    pub fn new(names: Names) -> Self {
        let is_keyed = names.inputs.iter().map(|input| !names.is_broadcast(input));
        let watch = CopartitionWatch::new(is_keyed.collect());
        let inner = Inner { watch, findings: KeyFindings::default(), limit: RateLimit::default() };
        Self { names, inner: Mutex::new(inner) }
    }

    /// Takes the samples of a committed epoch.
    pub fn observe(&self, report: &EpochReport, now: ProcessingTime) {
        let records: Vec<u64> = report.inputs.iter().map(|counts| counts.records).collect();
        let mut inner = lock(&self.inner);
        let warnings = inner.watch.observe(&records, &report.key_samples);
        for warning in warnings {
            inner.note(&self.names, &warning, now);
        }
    }

    /// Returns what was found.
    #[must_use]
    pub fn findings(&self) -> KeyFindings {
        lock(&self.inner).findings.clone()
    }
}

impl Inner {
    fn note(&mut self, names: &Names, warning: &Warning, now: ProcessingTime) {
        let text = telemetry::warning_text(names, warning);
        let pipeline = &names.pipeline;
        match warning {
            Warning::Copartition { input, .. } => {
                telemetry::publish_violation(names, *input);
                if let Some(others) = self.limit.pass(now, LOG_EVERY) {
                    tracing::warn!(pipeline, others, "{text}");
                }
                self.findings.violation_count += 1;
                if self.findings.violations.len() == VIOLATIONS_SHOWN {
                    self.findings.violations.pop_front();
                }
                self.findings.violations.push_back(text);
            }
            Warning::NothingMatched { .. } => {
                tracing::warn!(pipeline, "{text}");
                self.findings.nothing_matched = Some(text);
            }
        }
    }
}
