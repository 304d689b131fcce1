//! Looks at a lane from outside: what offsets, journal and checkpoint store say of it.
//!
//! Acquires nothing, so it fences nobody and may be called while another process runs the lane.
//! Knows nothing of the local state, which is that process' alone.

use dovetail_core::{
    checkpoint::{CheckpointError, Manifest},
    epoch::{EpochRecord, LaneId},
    log::{Log, LogError},
    recovery::{Facts, Halt, JournalFacts, contradiction},
};
use std::ops::ControlFlow;

use crate::{candidates::Candidates, journal, setup::CheckpointSetup};

/// What a lane looks like from outside.
#[derive(Debug)]
pub struct Sighting {
    /// The last epoch of the journal; `None` = it is empty.
    pub last: Option<EpochRecord>,
    /// Epoch records behind the newest checkpoint, or all where there is none: what a start without
    /// the local state replays.
    pub records_behind: u64,
    /// Their size in bytes.
    pub bytes_behind: u64,
    /// The newest checkpoint that can be read.
    pub checkpoint: Option<Manifest>,
    /// Why the checkpoint store could not be asked.
    pub checkpoint_error: Option<CheckpointError>,
    /// Why no process can go on with it, whatever its local state.
    pub contradiction: Option<Halt>,
}

/// Looks at a lane. Where its journal is not there at all, `has_journal` says so.
///
/// # Errors
///
/// When the log does not answer, or the journal holds something else.
pub fn look(
    log: &mut dyn Log,
    lane: LaneId,
    checkpoints: Option<&CheckpointSetup>,
    has_journal: bool,
) -> Result<Sighting, LogError> {
    let committed = log.committed()?;
    let candidates = Candidates::look(checkpoints, lane);
    let from = candidates.journal_next().unwrap_or(0);
    let mut facts = Facts { lane, committed, checkpoints: candidates.facts(), ..Facts::default() };
    let (mut last, mut bytes_behind) = (None, 0);
    if has_journal {
        let mut journal = JournalFacts::default();
        journal::visit(log, lane, from, &mut |epoch, _, size| {
            journal.add(journal::fact(&epoch));
            bytes_behind += size as u64;
            last = Some(epoch.record);
            ControlFlow::Continue(())
        })?;
        facts.journal = journal;
        if facts.journal.is_empty() && from > 0 {
            let found = journal::last(log, lane, from, &mut |_| {})?;
            facts.last = found.as_ref().map(journal::fact);
            last = found.map(|epoch| epoch.record);
        }
    }
    Ok(Sighting {
        last,
        records_behind: facts.journal.count,
        bytes_behind,
        contradiction: contradiction(&facts),
        checkpoint_error: candidates.unknown.clone(),
        checkpoint: candidates.into_current(),
    })
}
