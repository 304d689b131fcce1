//! The revisions of a plugin that were seen while the pipeline runs, and what became of each.

use dovetail_core::{epoch::LaneId, identity::Difference, time::ProcessingTime};

/// Where a revision came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionOrigin {
    /// The pipeline started with it.
    Start,
    /// The plugin file changed.
    File,
    /// It was pushed.
    Push,
}

impl RevisionOrigin {
    /// Returns the name in status and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::File => "file",
            Self::Push => "push",
        }
    }
}

/// What became of a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionState {
    /// Every lane runs it.
    Active,
    /// Lanes are taking it over.
    Switching,
    /// Another one has taken over.
    Replaced,
    /// It was not taken over, and why.
    Refused(String),
}

/// One revision that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionEntry {
    /// Its digest.
    pub digest: String,
    /// When, ms.
    pub at: ProcessingTime,
    /// From where.
    pub origin: RevisionOrigin,
    /// What became of it.
    pub state: RevisionState,
}

/// Why a revision could not take over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// It declares other states than what is stored.
    #[error(
        "revision {} declares other states than those that are stored: {}; a state keeps its name, \
         kind and schema version for as long as the pipeline lives. To start anew, give the \
         pipeline another name and another `state.dir`", short(.digest), table(.differences)
    )]
    States {
        /// The revision.
        digest: String,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// No instance could be made.
    #[error("revision {} could not be opened for lane {}: {reason}", short(.digest), lane.0)]
    Open {
        /// The revision.
        digest: String,
        /// The lane.
        lane: LaneId,
        /// The plugin's reason.
        reason: String,
    },
    /// What had to be done before the switch failed.
    #[error("revision {} was not taken over: {reason}", short(.digest))]
    Prevented {
        /// The revision.
        digest: String,
        /// Why.
        reason: String,
    },
    /// Lanes did not answer in time; they switch as soon as they can.
    #[error("revision {}: lanes {} have not switched yet", short(.digest), numbers(.lanes))]
    Slow {
        /// The revision.
        digest: String,
        /// The lanes.
        lanes: Vec<LaneId>,
    },
    /// The pipeline is stopping.
    #[error("the pipeline is stopping: revision {} was not taken over", short(.digest))]
    Stopping {
        /// The revision.
        digest: String,
    },
}

/// Returns as much of a digest as people compare.
#[must_use]
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Says differences in one line.
#[must_use]
pub fn table(differences: &[Difference]) -> String {
    let line = |difference: &Difference| {
        format!(
            "{}: committed {}, configured {}",
            difference.what, difference.committed, difference.configured
        )
    };
    differences.iter().map(line).collect::<Vec<_>>().join("; ")
}

pub(crate) fn numbers(lanes: &[LaneId]) -> String {
    lanes.iter().map(|lane| lane.0.to_string()).collect::<Vec<_>>().join(", ")
}
