//! What a run has done, in one line for a person.

use dovetail_runtime::status::{LaneView, Phase};

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
    /// Lanes.
    pub lanes: usize,
    /// Those of which this process never became the owner.
    pub unacquired: usize,
    /// Whether every input has ended and everything is committed.
    pub is_finished: bool,
}

impl Summary {
    /// Adds up lanes; `outputs` are the names of a lane's outputs.
    #[must_use]
    pub fn new(outputs: Vec<String>, lanes: &[LaneView]) -> Self {
        let mut summary = Self {
            outputs: outputs.into_iter().map(|name| (name, 0)).collect(),
            lanes: lanes.len(),
            unacquired: lanes.iter().filter(|lane| lane.owner.is_none()).count(),
            is_finished: lanes.iter().all(|lane| lane.phase == Phase::Finished),
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
        if self.records == 0 && parts.is_empty() && self.is_finished {
            return f.write_str("nothing new to read");
        }
        parts.insert(0, format!("{} read", terminal::count(self.records, "record")));
        f.write_str(&parts.join(", "))?;
        match self.unacquired {
            0 => Ok(()),
            all if all == self.lanes => f.write_str("; no lane had been acquired yet"),
            some => write!(f, "; {some} of {} lanes had not been acquired yet", self.lanes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_left_out() {
        let outputs = vec![("main".to_owned(), 2), ("unpaid".to_owned(), 0)];
        let summary = Summary { records: 7, outputs, dead_letters: 1, ..Summary::default() };
        assert_eq!(summary.to_string(), "7 records read, 2 to main, 1 dead letter");
        let finished = Summary { is_finished: true, lanes: 2, ..Summary::default() };
        assert_eq!(finished.to_string(), "nothing new to read");
    }

    #[test]
    fn a_stop_before_lanes_were_acquired_says_so() {
        let stopped = Summary { lanes: 3, ..Summary::default() };
        assert_eq!(stopped.to_string(), "0 records read");
        let before = Summary { unacquired: 3, ..stopped.clone() };
        assert_eq!(before.to_string(), "0 records read; no lane had been acquired yet");
        let some = Summary { unacquired: 1, records: 5, ..stopped };
        assert_eq!(some.to_string(), "5 records read; 1 of 3 lanes had not been acquired yet");
    }
}
