//! What goes wrong, and when: everything that a seed decides before the run.
//!
//! A run is a function of its [`Plan`]: knobs, inputs, faults and the seed that draws the rest. So a
//! failing one is shrunk by leaving faults and inputs out, and kept as a case ([`crate::case`]).

pub mod knobs;
mod plan;

use serde::{Deserialize, Serialize};

pub use self::{
    knobs::Knobs,
    plan::{Fault, Plan},
};

/// A place inside a commit where a host can die or stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Partitions are added, nothing is produced.
    Begun,
    /// The outputs are acknowledged.
    Produced,
    /// The epoch record is acknowledged.
    Journaled,
    /// The offsets are acknowledged.
    OffsetsSent,
    /// The commit is acknowledged, nothing is applied.
    Committed,
    /// Older writers are fenced, nothing is read.
    Fenced,
    /// The epoch is applied.
    Applied,
}

/// What a crash leaves of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskFate {
    /// What was synced, and the first part of what followed.
    Kept,
    /// As before, and blocks of what is lost are there in part: their checksums are wrong.
    Torn,
    /// Nothing.
    Lost,
    /// The copy that was made before the process started.
    Older,
}

/// An operator, or a broken cluster, changes what was committed while everything is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meddling {
    /// The group's offsets are deleted, or have expired.
    GroupDeleted,
    /// The offsets are set back by that many epochs.
    OffsetsSetBack(u64),
    /// Offsets are committed by another program.
    ForeignMetadata,
    /// Offsets of one partition are set back.
    OnePartitionSetBack,
    /// The offsets carry the right epoch of another attempt.
    OtherAttempt,
    /// An unclean election loses that many entries of the journal.
    JournalTruncated(i64),
    /// The first records of the journal are deleted.
    JournalTrimmed,
    /// The journal topic is deleted and made anew.
    JournalDeleted,
    /// Journal and offsets are gone.
    EverythingDeleted,
    /// A record of the journal is missing in the middle.
    JournalHole,
    /// Retention passes the committed positions of an input.
    InputTrimmed,
    /// The topic of an input is deleted and made anew.
    InputRecreated,
    /// The lanes' state directories are exchanged.
    DisksSwapped,
    /// The state directory comes from the same pipeline with another history.
    DiskOfOtherHistory,
    /// The state directory is ahead of everything that was committed.
    DiskAhead,
    /// Journal and offsets are set back to that many epochs before the newest checkpoint; the disks
    /// are gone.
    Regressed(u64),
    /// Every input gets another partition.
    PartitionAdded,
    /// The newest checkpoints come from another history; the disks are gone.
    CheckpointForeign,
}

/// What happens to the checkpoint store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreFault {
    /// It answers nothing, ms.
    Away(i64),
    /// It refuses to write, ms.
    Refuses(i64),
    /// It does what it is asked to write and answers with an error, ms.
    Ambiguous(i64),
    /// Each call takes about that long (ms), for a time, ms.
    Slow(i64, i64),
    /// The manifest of every lane that comes after so many newer ones is lost.
    ManifestLost(usize),
    /// A file of every lane's newest checkpoint rots.
    FileRotten,
    /// It becomes the copy that was made when a process last started.
    Older,
}

impl StoreFault {
    /// Returns whether it passes and leaves everything as it was.
    #[must_use]
    pub fn passes(self) -> bool {
        !matches!(self, Self::ManifestLost(_) | Self::FileRotten | Self::Older)
    }
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A machine's process dies at once.
    Crash(usize, DiskFate),
    /// It dies the next time it reaches a point.
    CrashAt(usize, Point, DiskFate),
    /// It stands still for that long, ms.
    Pause(usize, i64),
    /// It stands still for that long, ms, the next time it reaches a point.
    PauseAt(usize, Point, i64),
    /// It stops as asked and starts again.
    Stop(usize),
    /// A process starts on the other machine although one runs.
    SecondOwner(usize),
    /// The coordinators are away, ms.
    Coordinator(i64),
    /// A partition has no leader, ms; the number chooses among all.
    Leader(u64, i64),
    /// A machine's network loses (percent) and delays (up to ms) messages for a time, ms.
    Network(usize, u32, i64, i64),
    /// A machine reaches no broker, ms.
    Outage(usize, i64),
    /// A machine's next request to end a transaction is lost, however often it is sent.
    EndLost(usize),
    /// A machine's next request to end a transaction is executed, and every answer is lost.
    EndUnanswered(usize),
    /// A machine's next request to end a transaction stays in the network until the lane has
    /// journaled in a later one; the copies that are sent meanwhile arrive.
    EndHeld(usize),
    /// A machine's clock jumps, ms.
    Clock(usize, i64),
    /// A machine's disk takes nothing, ms.
    DiskFull(usize, i64),
    /// A machine's disk cannot be read, that many times.
    DiskUnreadable(usize, u32),
    /// Rows of a machine's disks rot, one in that many.
    Rot(usize, u32),
    /// The group coordinator does not see the next committed offsets until it loads again.
    StaleOffsets,
    /// Another program's transaction holds offsets of the group pending, ms.
    OffsetsPending(i64),
    /// The plugin file is replaced by the next revision; the first machine dies at that point of
    /// the first commit then, if one is given.
    Swap(Option<Point>),
    /// Something happens to the checkpoint store.
    Store(StoreFault),
    /// Everything is stopped, something is changed, everything is started.
    Meddle(Meddling),
}

impl FaultKind {
    /// Returns what kind of fault it is, for counting.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash(..) => "crash",
            Self::CrashAt(..) => "crash at a point",
            Self::Pause(..) => "pause",
            Self::PauseAt(..) => "pause at a point",
            Self::Stop(_) => "stop",
            Self::SecondOwner(_) => "second owner",
            Self::Coordinator(_) => "coordinators away",
            Self::Leader(..) => "leader away",
            Self::Network(..) => "bad network",
            Self::Outage(..) => "outage",
            Self::EndLost(_) => "end of transaction lost",
            Self::EndUnanswered(_) => "end of transaction unanswered",
            Self::EndHeld(_) => "end of transaction held",
            Self::Clock(..) => "clock jump",
            Self::DiskFull(..) => "disk full",
            Self::DiskUnreadable(..) => "disk unreadable",
            Self::Rot(..) => "bit rot",
            Self::StaleOffsets => "stale offsets",
            Self::OffsetsPending(_) => "offsets pending",
            Self::Swap(None) => "swap",
            Self::Swap(Some(_)) => "swap and crash",
            Self::Store(StoreFault::Away(_)) => "checkpoint store away",
            Self::Store(StoreFault::Refuses(_)) => "checkpoint store refuses to write",
            Self::Store(StoreFault::Ambiguous(_)) => "checkpoint store ambiguous",
            Self::Store(StoreFault::Slow(..)) => "checkpoint store slow",
            Self::Store(StoreFault::ManifestLost(_)) => "manifest lost",
            Self::Store(StoreFault::FileRotten) => "checkpoint file rotten",
            Self::Store(StoreFault::Older) => "checkpoint store an older copy",
            Self::Meddle(_) => "meddling",
        }
    }
}
