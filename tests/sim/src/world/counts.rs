//! What happened how often in one run.

use std::collections::BTreeMap;

use crate::rows::Row;

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits whose transaction was decided, by lane.
    pub commits: u64,
    /// Crashes.
    pub crashes: u64,
    /// Takeovers that a fenced process has found.
    pub takeovers: u64,
    /// Requests, and those that were lost on either way.
    pub requests: u64,
    /// Lost messages.
    pub lost: u64,
    /// Answers that said "fenced".
    pub fenced: u64,
    /// Transactions that the coordinator ended after their timeout.
    pub timeouts: u64,
    /// Commits that happened although their answer never arrived.
    pub unknown_commits: u64,
    /// Requests to end a transaction that were lost in every copy.
    pub lost_ends: u64,
    /// Ends of transactions that arrived in a later one.
    pub held_ends: u64,
    /// Rows that rotted.
    pub rotten: u64,
    /// Epochs that another revision decided than the one before.
    pub switches: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Epochs that a store has applied.
    pub applies: u64,
    /// Turns, acquisitions and swaps of lanes.
    pub turns: u64,
    /// Commits that came while nothing failed but the checkpoint store.
    pub paces: u64,
    /// Transactional ids that expired while a producer had them.
    pub expired_ids: u64,
    /// Runs that were judged at their end.
    pub ends: u64,
    /// Checkpoints that were published.
    pub checkpoints: u64,
    /// Directories that were restored from one.
    pub restores: u64,
    /// Times that a journal was trimmed.
    pub trims: u64,
    /// Files that were collected.
    pub collected: u64,
    /// Calls of the checkpoint store that failed, or seemed to.
    pub store_errors: u64,
    /// Writes to the checkpoint store that were done and answered with an error.
    pub unknown_puts: u64,
    /// Decisions of acquisitions by row.
    pub rows: BTreeMap<Row, u64>,
}
