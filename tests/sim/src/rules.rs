//! The rules that a run is judged by: what each says, how often it was looked at, and the
//! deliberate bug that shows that it can be broken.
//!
//! A violation begins with the name of its rule, after the lane. I1 to I10 are the reference's
//! numbers; the others say what the design adds to them.

use crate::{bugs::Bug, world::Counts};

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// What violations begin with.
    pub name: &'static str,
    /// What must hold.
    pub says: &'static str,
    /// How often a run has looked at it.
    pub looked: fn(&Counts) -> u64,
    /// A bug that breaks it, and within how many seeds that is found.
    pub tooth: (Bug, u64),
}

const fn rule(
    name: &'static str,
    says: &'static str,
    looked: fn(&Counts) -> u64,
    tooth: (Bug, u64),
) -> Rule {
    Rule { name, says, looked, tooth }
}

/// Every rule.
pub const RULES: [Rule; 19] = [
    rule(
        "I1",
        "a lane's committed epochs grow by one on one chain, each by one attempt",
        |counts| counts.commits,
        (Bug::RetryOnSameProducer, 200),
    ),
    rule(
        "I2",
        "what a read-committed reader sees is what the committed calls emit, once and in order",
        |counts| counts.commits,
        (Bug::EmptyOutputs, 40),
    ),
    rule(
        "I3",
        "no store is ahead of the commit",
        |counts| counts.applies,
        (Bug::ApplyBeforeCommit, 20),
    ),
    rule(
        "I4",
        "a store, replayed or not, is row by row what the committed changes make",
        |counts| counts.applies,
        (Bug::ReplaySkipsChanges, 40),
    ),
    rule(
        "I5",
        "committed offsets are the positions of the epoch record, and every record between two \
         epochs' positions is handled once",
        |counts| counts.commits,
        (Bug::OffsetsOffByOne, 20),
    ),
    rule(
        "I6",
        "nothing is committed of an attempt that is not in the journal",
        |counts| counts.commits,
        (Bug::OutputsWithoutOffsets, 20),
    ),
    rule(
        "I7",
        "every manifest is of a committed epoch, and its files hold what was applied then",
        |counts| counts.checkpoints,
        (Bug::HeadFrozenLater, 100),
    ),
    rule(
        "I8",
        "no transaction is open while a lane is acquired, works or is swapped",
        |counts| counts.turns,
        (Bug::OpenAcrossTurns, 20),
    ),
    rule(
        "I9",
        "nothing that the two newest manifests reach is collected",
        |counts| counts.collected,
        (Bug::CollectsReachable, 100),
    ),
    rule(
        "I10",
        "once the faults are over everything is worked off, by exactly one process",
        |counts| counts.ends,
        (Bug::FencedFightsBack, 200),
    ),
    rule(
        "restore",
        "what is restored from a checkpoint is a state that was committed",
        |counts| counts.restores,
        (Bug::RestoreLeavesOut, 400),
    ),
    rule(
        "trim",
        "the journal is trimmed no further than each of the two newest checkpoints replaces",
        |counts| counts.trims,
        (Bug::TrimsToTheEnd, 100),
    ),
    rule(
        "pace",
        "a checkpoint store that fails, or is slow, delays no commit",
        |counts| counts.paces,
        (Bug::UploadOnCommitPath, 1_000),
    ),
    rule(
        "keepalive",
        "an idle lane commits before its positions could expire",
        |counts| counts.paces,
        (Bug::KeepaliveForgotten, 400),
    ),
    rule(
        "halt",
        "a pipeline stops for what nobody but an operator may decide, and for nothing else",
        |counts| counts.ends,
        (Bug::ReadBeforeFencing, 400),
    ),
    rule(
        "time",
        "watermark and clock never go back; timers that are due fire before a record is handled",
        |counts| counts.commits,
        (Bug::WatermarkResetAtRestore, 100),
    ),
    rule(
        "timers",
        "every timer fires once, when it is due and in order, and is stored until then",
        |counts| counts.commits,
        (Bug::TimersLostAtRestore, 400),
    ),
    rule(
        "calls",
        "a failed call is undone and tried again at once; a continuation comes next",
        |counts| counts.commits,
        (Bug::UndoMissing, 40),
    ),
    rule(
        "revision",
        "one revision decides an epoch, the one that the journal names",
        |counts| counts.commits,
        (Bug::SwapInsideEpoch, 100),
    ),
];

/// Returns the name of the rule that a violation breaks.
#[must_use]
pub fn broken_by(violation: &str) -> &str {
    let behind_lane = violation
        .strip_prefix("lane ")
        .and_then(|rest| rest.split_once(": "))
        .map_or(violation, |(_, rest)| rest);
    behind_lane.split_once(':').map_or(behind_lane, |(name, _)| name)
}
