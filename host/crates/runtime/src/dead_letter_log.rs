//! Says in the log why records become dead letters.
//!
//! Keeps: one warning per reason and interval, with how many there were since the last one, so that
//! a plugin that fails on everything is seen at once and does not fill the disk.

use std::collections::BTreeMap;

use dovetail_core::{dead_letter::Reason, lane::EpochReport, time::ProcessingTime};

use crate::setup::Names;

/// Between two warnings for the same reason, ms.
const WARN_EVERY: i64 = 10_000;

/// The dead letters of a lane as far as they were told.
#[derive(Debug, Default)]
pub(crate) struct DeadLetterLog {
    /// When each reason was last told, and how many came since.
    reasons: BTreeMap<Reason, (Option<ProcessingTime>, u64)>,
}

impl DeadLetterLog {
    /// Warns of what a committed epoch has made dead letters.
    pub(crate) fn warn(
        &mut self,
        names: &Names,
        lane: u16,
        report: &EpochReport,
        at: ProcessingTime,
    ) {
        for (reason, count, message) in self.due(report, at) {
            let noun = if count == 1 { "dead letter" } else { "dead letters" };
            tracing::warn!(
                pipeline = names.pipeline,
                lane,
                reason = reason.name(),
                "{count} {noun} ({}), the last with: {message}",
                reason.name()
            );
        }
    }

    fn due<'r>(
        &mut self,
        report: &'r EpochReport,
        at: ProcessingTime,
    ) -> Vec<(Reason, u64, &'r str)> {
        let of_records = report.inputs.iter().flat_map(|counts| &counts.dead_letters);
        for (reason, count) in of_records.chain(&report.timer_dead_letters) {
            self.reasons.entry(*reason).or_default().1 += count;
        }
        let mut due = Vec::new();
        for (reason, message) in &report.dead_letter_messages {
            let (told, count) = self.reasons.entry(*reason).or_default();
            if told.is_some_and(|told| at >= told && at.saturating_sub(told) < WARN_EVERY) {
                continue;
            }
            *told = Some(at);
            due.push((*reason, std::mem::take(count), message.as_str()));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_per_interval_with_its_count_and_last_message() {
        let report = |message: &str| EpochReport {
            timer_dead_letters: vec![(Reason::PluginError, 5)],
            dead_letter_messages: vec![(Reason::PluginError, message.to_owned())],
            ..EpochReport::default()
        };
        let mut log = DeadLetterLog::default();
        assert_eq!(log.due(&report("a"), 0), [(Reason::PluginError, 5, "a")]);
        assert_eq!(log.due(&report("b"), 9_999), []);
        assert_eq!(log.due(&report("c"), 10_000), [(Reason::PluginError, 10, "c")]);
    }
}
