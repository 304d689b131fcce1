//! Why a pipeline stops, and with which exit code.

use std::fmt;

use dovetail_core::epoch::LaneId;

/// What kind of cause it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FatalKind {
    /// A rule about data or ownership: a gap, too many dead letters, a takeover.
    Rule,
    /// The configuration, or what it names, must change.
    Configuration,
    /// A defect, or a machine that does not do its part.
    Internal,
}

/// The first cause that stopped a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatalCause {
    /// The lane it arose in.
    pub lane: Option<LaneId>,
    /// What kind it is.
    pub kind: FatalKind,
    /// What happened, and what to do.
    pub message: String,
}

impl FatalCause {
    /// Returns the exit code of a process that stops for this.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FatalKind::Rule => 3,
            FatalKind::Configuration => 78,
            FatalKind::Internal => 70,
        }
    }
}

impl fmt::Display for FatalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lane) = self.lane {
            write!(f, "lane {}: ", lane.0)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for FatalCause {}
