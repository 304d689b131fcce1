//! Deliberate bugs: each breaks one rule of the protocol in the ports or the plugin, and must be
//! caught. They show that the simulator has teeth.

use serde::Deserialize;

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bug {
    /// State is applied before the commit.
    ApplyBeforeCommit,
    /// An acquisition does not fence.
    SkipFencing,
    /// What was committed is read before older writers are fenced.
    ReadBeforeFencing,
    /// A replay takes an epoch's head but not its changes.
    ReplaySkipsChanges,
    /// Errors while reading back are taken as "nothing there".
    ReadErrorsIgnored,
    /// Reading goes on one record too far.
    PositionsOffByOne,
    /// Offsets are committed one record too far.
    OffsetsOffByOne,
    /// A failed call is not undone.
    UndoMissing,
    /// A restored lane starts with no watermark.
    WatermarkResetAtRestore,
    /// Restored timers are looked for too late.
    TimersLostAtRestore,
    /// A cut *continue* is forgotten.
    ContinuationForgotten,
    /// A cut move of time is forgotten.
    FiringForgotten,
    /// Outputs are committed in a transaction of their own.
    OutputsWithoutOffsets,
    /// The offsets are left out of the transaction.
    OffsetsLeftOut,
    /// The journal is read without regard to transactions.
    JournalReadUncommitted,
    /// Inputs are read without regard to transactions.
    InputReadUncommitted,
    /// A commit in doubt is aborted, taken as aborted because that was answered, and tried again as
    /// a new transaction of the same producer.
    RetryOnSameProducer,
    /// A commit in doubt is taken as done.
    DoubtTakenAsCommitted,
    /// A producer whose connection was lost while it committed is used again.
    SuspectUsedAgain,
    /// A fenced lane acquires again without looking for its successor.
    FencedFightsBack,
    /// Local state of the same epoch number is taken without comparing hashes.
    EpochNumberOnly,
    /// After a crash the disk holds rows of a later epoch than its head.
    TornApply,
    /// Rows that rot are read as if nothing had happened.
    RotNotNoticed,
    /// A revision takes over inside an epoch.
    SwapInsideEpoch,
    /// A lane that recovers after a swap runs the revision from before.
    SwapForgotten,
    /// An end of the input is told while records before it are still on their way.
    EndToldTooEarly,
    /// A lane works on while its own transaction is open.
    OpenAcrossTurns,
    /// What was fetched before a recovery is handed over after it.
    StaleFetch,
    /// The head of a checkpoint is read when its files are linked, not with them.
    HeadFrozenLater,
    /// A file that changes passes for one that does not, and is hashed once.
    ChangedFileNotHashed,
    /// Files of the checkpoint store are known by name and size instead of by content.
    FileByNameAndSize,
    /// A restore leaves out a file.
    RestoreLeavesOut,
    /// Files are collected that only the second newest manifest reaches.
    CollectsReachable,
    /// The journal is trimmed up to its end.
    TrimsToTheEnd,
    /// A lane waits until its checkpoint is uploaded.
    UploadOnCommitPath,
    /// An idle lane never commits.
    KeepaliveForgotten,
    /// Outputs get lost on their way into the transaction.
    EmptyOutputs,
    /// Rows are dropped that expire by an epoch that is not committed.
    ExpiredByOpenEpoch,
    /// A commit without outputs is answered without asking the broker.
    EmptyCommitTaken,
    /// A recovered lane reads the broadcast input from its beginning.
    BroadcastReadAnew,
}

impl Bug {
    /// Every bug, with the number of seeds within which it must be caught.
    pub const ALL: [(Self, u64); 40] = [
        (Self::ApplyBeforeCommit, 20),
        (Self::SkipFencing, 100),
        (Self::ReadBeforeFencing, 200),
        (Self::ReplaySkipsChanges, 20),
        (Self::ReadErrorsIgnored, 1_000),
        (Self::PositionsOffByOne, 20),
        (Self::OffsetsOffByOne, 20),
        (Self::UndoMissing, 40),
        (Self::WatermarkResetAtRestore, 40),
        (Self::TimersLostAtRestore, 40),
        (Self::ContinuationForgotten, 400),
        (Self::FiringForgotten, 100),
        (Self::OutputsWithoutOffsets, 20),
        (Self::OffsetsLeftOut, 20),
        (Self::JournalReadUncommitted, 100),
        (Self::InputReadUncommitted, 40),
        (Self::RetryOnSameProducer, 100),
        (Self::DoubtTakenAsCommitted, 40),
        (Self::SuspectUsedAgain, 100),
        (Self::FencedFightsBack, 100),
        (Self::EpochNumberOnly, 200),
        (Self::TornApply, 200),
        (Self::RotNotNoticed, 200),
        (Self::SwapInsideEpoch, 100),
        (Self::SwapForgotten, 200),
        (Self::EndToldTooEarly, 100),
        (Self::OpenAcrossTurns, 20),
        (Self::StaleFetch, 40),
        (Self::HeadFrozenLater, 100),
        (Self::ChangedFileNotHashed, 100),
        (Self::FileByNameAndSize, 400),
        (Self::RestoreLeavesOut, 400),
        (Self::CollectsReachable, 100),
        (Self::TrimsToTheEnd, 100),
        (Self::UploadOnCommitPath, 1_000),
        (Self::KeepaliveForgotten, 400),
        (Self::EmptyOutputs, 40),
        (Self::EmptyCommitTaken, 20),
        (Self::ExpiredByOpenEpoch, 400),
        (Self::BroadcastReadAnew, 40),
    ];
}
