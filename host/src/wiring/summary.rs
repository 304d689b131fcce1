//! What a run has done, in one line for a person.

use dovetail_runtime::status::LaneView;

use crate::cli::terminal;

/// Counts of a run, of committed epochs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records read.
    pub records: u64,
    /// Records written, by output.
    pub outputs: Vec<(String, u64)>,
    /// Records dropped by a rule of the configuration.
    pub dropped: u64,
    /// Dead letters, those of timers too.
    pub dead_letters: u64,
}

impl Summary {
    /// Adds up lanes; `outputs` are the names of a lane's outputs.
    #[must_use]
    pub fn new(outputs: Vec<String>, lanes: &[LaneView]) -> Self {
        let mut summary = Self {
            outputs: outputs.into_iter().map(|name| (name, 0)).collect(),
            ..Self::default()
        };
        for lane in lanes {
            for counts in &lane.totals.inputs {
                summary.records += counts.records;
                summary.dropped += counts.dropped_late + counts.dropped_null_key;
            }
            for ((_, sum), count) in summary.outputs.iter_mut().zip(&lane.totals.outputs) {
                *sum += count;
            }
            summary.dead_letters += lane.dead_letters();
        }
        summary
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let written = self.outputs.iter().filter(|(_, count)| *count > 0);
        let written = written.map(|(name, count)| format!("{count} to {name}"));
        let mut parts: Vec<String> = written.collect();
        if self.dropped > 0 {
            parts.push(format!("{} dropped", self.dropped));
        }
        if self.dead_letters > 0 {
            parts.push(terminal::count(self.dead_letters, "dead letter"));
        }
        if self.records == 0 && parts.is_empty() {
            return f.write_str("nothing new to read");
        }
        parts.insert(0, format!("{} read", terminal::count(self.records, "record")));
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_left_out() {
        let outputs = vec![("main".to_owned(), 2), ("unpaid".to_owned(), 0)];
        let summary = Summary { records: 7, outputs, dropped: 0, dead_letters: 1 };
        assert_eq!(summary.to_string(), "7 records read, 2 to main, 1 dead letter");
        assert_eq!(Summary::default().to_string(), "nothing new to read");
    }
}
