//! What offsets, journal, checkpoints and local state say of a lane: all that is decided from.
//!
//! Acquires nothing, so it fences nobody, and decides nothing: who acquires a lane, who resolves a
//! halt and who looks from outside see it alike.

use dovetail_core::{
    epoch::{Epoch, EpochRecord, LaneId, StoredHead},
    log::{CommittedOffset, Log, LogError},
    recovery::Facts,
};

use crate::{
    candidates::Candidates,
    journal::{self, Scan},
};

/// What is known before the journal is read.
pub(crate) struct Known<'a> {
    /// The committed offset of each source; none where they were not asked for.
    pub(crate) committed: &'a [Option<CommittedOffset>],
    /// The checkpoints.
    pub(crate) candidates: &'a Candidates,
    /// What the local store has applied.
    pub(crate) stored: Option<StoredHead>,
}

/// What was observed.
pub(crate) struct Observed {
    /// What is decided from.
    pub(crate) facts: Facts,
    /// The journal as it was read.
    pub(crate) scan: Scan,
    /// From where: behind the local state, else behind the current checkpoint, else its start.
    pub(crate) from: i64,
}

/// Reads the journal as far as it decides; `progress` hears of every record.
pub(crate) fn observe(
    log: &mut dyn Log,
    lane: LaneId,
    known: Known<'_>,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Observed, LogError> {
    let Known { committed, candidates, stored } = known;
    let behind = stored.as_ref().map(|head| head.journal_next);
    let from = behind.or(candidates.journal_next()).unwrap_or(0);
    let scan = journal::scan(log, lane, from, progress)?;
    let mut facts = Facts {
        lane,
        committed: committed.to_vec(),
        journal: scan.facts,
        stored,
        is_journal_short: scan.end < from,
        last: None,
        checkpoints: candidates.facts(),
    };
    if facts.wants_last() {
        facts.last = journal::last(log, lane, from, progress)?.as_ref().map(journal::fact);
    }
    Ok(Observed { facts, scan, from })
}

impl Observed {
    /// Returns the journal's last record, also where nothing lies behind what was known.
    pub(crate) fn last_record(&self, log: &mut dyn Log) -> Result<Option<EpochRecord>, LogError> {
        if let Some(last) = self.scan.last() {
            return Ok(Some(last.clone()));
        }
        if self.from == 0 {
            return Ok(None);
        }
        let last = journal::last(log, self.facts.lane, self.from, &mut |_| {})?;
        Ok(last.map(|epoch| epoch.record))
    }
}
