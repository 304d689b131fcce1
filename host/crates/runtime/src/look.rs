//! Looks at a lane from outside: what offsets, journal and checkpoint store say of it.
//!
//! Acquires nothing, so it fences nobody and may be called while another process runs the lane.
//! Knows nothing of the local state, which is that process' alone.

use dovetail_core::{
    checkpoint::{CheckpointError, Manifest},
    epoch::{EpochRecord, LaneId},
    log::{Log, LogError},
    recovery::{Facts, Halt, contradiction},
};

use crate::{
    candidates::Candidates,
    observe::{Known, observe},
    setup::CheckpointSetup,
};

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
    let known = Known { committed: &committed, candidates: &candidates, stored: None };
    let observed = match has_journal {
        true => Some(observe(log, lane, known, &mut |_| {})?),
        false => None,
    };
    let last = observed.as_ref().map(|it| it.last_record(log)).transpose()?.flatten();
    let bytes_behind = observed.as_ref().map_or(0, |it| it.scan.bytes as u64);
    let facts = observed.map_or_else(
        || Facts { lane, checkpoints: candidates.facts(), ..Facts::default() },
        |observed| observed.facts,
    );
    let facts = Facts { committed, ..facts };
    Ok(Sighting {
        last,
        records_behind: facts.journal.count,
        bytes_behind,
        contradiction: contradiction(&facts),
        checkpoint_error: candidates.unknown.clone(),
        checkpoint: candidates.into_current(),
    })
}
