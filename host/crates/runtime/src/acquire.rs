//! The one entry to running, and the one answer to any doubt.
//!
//! Opens and fills the lane's store, becomes the lane's only writer, reads back what was committed,
//! lets [`dovetail_core::recovery::decide`] say how to go on, and does that. Decides nothing itself.
//!
//! Nobody is fenced before the store is open and filled: a process whose disk is full would else end
//! one that works, again and again.
//!
//! Invariant: a lane that comes out of [`acquire`] stands exactly behind the last committed epoch:
//! its store has applied it, and its log reads on from there.

use dovetail_core::lane::Start;
use dovetail_core::{
    epoch::{Attempt, Epoch, LaneId, StoredHead, codec},
    identity::{Difference, Identity},
    lane::{Lane, LaneParts, PluginSwitch},
    log::{CommittedOffset, LogError},
    recovery::{CheckpointFact, Halt, Plan, decide, position_mismatch},
    state::{ExpiryTable, StateId, StateStore, StoreError},
    time::ProcessingTime,
};

use crate::{
    candidates::Candidates,
    checkpoint::RestoreError,
    journal::{self, Beginning, ReplayError},
    observe::{Known, Observed, observe},
    revisions::table,
    setup::{LaneSetup, OpenStore, PipelineSetup, expiry_of},
    status::CheckpointShown,
};

/// Why a lane could not be acquired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The log did not do its part.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Keyed state could not be opened or filled.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operator must decide.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// The pipeline that was committed is another one.
    #[error(
        "this pipeline was started before with other settings that may not change: {}; go back to \
         the committed ones, or start under another name", table(.0)
    )]
    Identity(Vec<Difference>),
    /// The plugin could not be opened.
    #[error("the plugin could not be opened: {0}")]
    Open(String),
}

/// A lane that was acquired.
pub struct Acquired {
    /// The lane, standing behind the last committed epoch.
    pub lane: Lane,
    /// The committed identity.
    pub identity: Identity,
    /// The journal offset behind the last committed epoch.
    pub journal_next: i64,
    /// Epochs that were replayed into the store.
    pub replayed: u64,
    /// The newest checkpoint that was there and can be read.
    pub checkpoint: Option<CheckpointShown>,
}

/// What a lane that was acquired before in this process keeps.
#[derive(Default)]
pub struct Predecessor {
    /// Its store, where it is still good.
    pub store: Option<Box<dyn StateStore>>,
    /// The committed identity: a checkpoint store that fails does not keep a lane from recovering.
    pub identity: Option<Identity>,
}

/// Acquires a lane: from its local state plus the journal, from a checkpoint plus the journal, or
/// from the journal alone.
///
/// # Errors
///
/// Anything that keeps the lane from running; what to do about each is the caller's.
pub fn acquire(
    parts: &mut LaneSetup,
    pipeline: &PipelineSetup,
    before: Predecessor,
    attempt: Attempt,
    now: ProcessingTime,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Acquired, AcquireError> {
    let Predecessor { store, identity: known } = before;
    let known = known.or_else(|| pipeline.committed.clone());
    let prepared = match store {
        Some(store) => Prepared { store, expiry: None, replayed: 0 },
        None => prepare(parts, pipeline, known.clone(), progress)?,
    };
    parts.log.acquire()?;
    let committed = parts.log.committed()?;
    // Behind the fence: whatever is published later is of an epoch that is committed now.
    let candidates = Candidates::look(pipeline.checkpoints.as_ref(), parts.lane);
    let checkpoint = candidates.current().map(CheckpointShown::found);
    let beginning = journal::beginning(parts.log.as_mut(), parts.lane)?;
    let Ground { identity, state_ids, expiry } =
        ground(beginning, known, &candidates, pipeline, parts.lane)?;
    let Prepared { store, expiry: opened_with, replayed: before } = prepared;
    if opened_with.is_some_and(|opened_with| opened_with != expiry) {
        let what = "another process has begun the pipeline meanwhile, with other states";
        return Err(LogError::Doubt(what.to_owned()).into());
    }
    let found = find_start(parts, &identity, (committed, candidates), (store, &expiry), progress)?;
    let (start, replayed, store) = found;
    let (positions, journal_next) = match &start {
        Start::Genesis { positions, .. } => (positions.clone(), 0),
        Start::Resume(head) => {
            let positions = head.record.sources.iter().map(|source| source.position).collect();
            (positions, head.journal_next)
        }
    };
    parts.log.resume(&positions)?;
    let switch =
        pipeline.revision.instantiate(parts.lane, state_ids).map_err(AcquireError::Open)?;
    let lane = make_lane(parts, pipeline, switch, store, attempt, start, now);
    let replayed = before + replayed;
    Ok(Acquired { lane, identity, journal_next, replayed, checkpoint })
}

/// A store that was filled before anybody was fenced.
struct Prepared {
    store: Box<dyn StateStore>,
    /// What it was opened with, where it was opened now.
    expiry: Option<ExpiryTable>,
    /// Epochs that were replayed into it.
    replayed: u64,
}

/// Opens the lane's store and brings it as far as journal and checkpoints reach, without fencing
/// anybody: a disk or a checkpoint store that fails here stops no process that works. What is in the
/// journal is committed and stays so; whatever contradicts itself is left to who owns the lane.
fn prepare(
    parts: &mut LaneSetup,
    pipeline: &PipelineSetup,
    known: Option<Identity>,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Prepared, AcquireError> {
    let (lane, log) = (parts.lane, parts.log.as_mut());
    let mut candidates = Candidates::look(pipeline.checkpoints.as_ref(), lane);
    let beginning = journal::beginning(log, lane)?;
    let Ground { expiry, .. } = ground(beginning, known, &candidates, pipeline, lane)?;
    let mut store = parts.stores.open(&expiry)?;
    let mut is_restored = false;
    loop {
        // Without the offsets, which an open transaction of a dead process may keep unknown.
        let stored = stored_head(store.as_mut())?;
        let known = Known { committed: &[], candidates: &candidates, stored };
        let Observed { facts, scan, from } = observe(log, lane, known, progress)?;
        let plan = decide(&facts);
        if matches!(plan, Plan::Restore | Plan::PassOver { .. } | Plan::AwaitCheckpoints { .. }) {
            parts.stores.decided(&facts, &plan);
        }
        match plan {
            Plan::Resume { .. } => {
                let replayed = scan.facts.count;
                scan.replay(log, lane, from, store.as_mut(), progress)?;
                return Ok(Prepared { store, expiry: Some(expiry), replayed });
            }
            Plan::Restore => {
                drop(store);
                let (stores, expiry) = (parts.stores.as_mut(), &expiry);
                store = restore(stores, expiry, &mut candidates, &mut || progress(Epoch::GENESIS))?;
                is_restored = true;
            }
            Plan::PassOver { found } => candidates.pass_over(&found),
            Plan::AwaitCheckpoints { found } => return Err(await_checkpoints(&found, &candidates)),
            // Whoever owns the lane has gone on meanwhile, and trimmed the journal behind newer
            // checkpoints than the one that was restored.
            Plan::RebuildStore { .. } if is_restored => {
                store.clear()?;
                candidates = Candidates::look(pipeline.checkpoints.as_ref(), lane);
                is_restored = false;
            }
            Plan::Genesis | Plan::RebuildStore { .. } | Plan::Halt(_) => {
                return Ok(Prepared { store, expiry: Some(expiry), replayed: 0 });
            }
        }
    }
}

fn await_checkpoints(found: &str, candidates: &Candidates) -> AcquireError {
    let why = candidates.unknown.as_ref().map_or(String::new(), ToString::to_string);
    LogError::Doubt(format!("found {found}; {why}")).into()
}

/// What follows from the committed identity.
struct Ground {
    identity: Identity,
    state_ids: Vec<StateId>,
    expiry: ExpiryTable,
}

fn ground(
    beginning: Beginning,
    known: Option<Identity>,
    candidates: &Candidates,
    pipeline: &PipelineSetup,
    lane: LaneId,
) -> Result<Ground, AcquireError> {
    let identity = identity(beginning, known, candidates, pipeline, lane)?;
    let descriptor = pipeline.revision.descriptor();
    let state_ids = identity.state_ids(descriptor).map_err(AcquireError::Identity)?;
    let expiry = expiry_of(descriptor, &state_ids);
    Ok(Ground { identity, state_ids, expiry })
}

/// Returns the committed identity, which that of this start must equal.
fn identity(
    beginning: Beginning,
    known: Option<Identity>,
    candidates: &Candidates,
    pipeline: &PipelineSetup,
    lane: LaneId,
) -> Result<Identity, AcquireError> {
    let committed = match beginning {
        Beginning::Nothing => return Ok(pipeline.identity.clone()),
        Beginning::Genesis(identity) => identity,
        Beginning::Trimmed(epoch) => {
            let Some(identity) = known.or_else(|| candidates.identity().cloned()) else {
                return Err(no_identity(lane, epoch, candidates));
            };
            identity
        }
    };
    let differences = committed.differences(&pipeline.identity);
    if differences.is_empty() { Ok(committed) } else { Err(AcquireError::Identity(differences)) }
}

fn no_identity(lane: LaneId, epoch: Epoch, candidates: &Candidates) -> AcquireError {
    let found = format!(
        "the journal of lane {} begins at epoch {} and not with the genesis record, which holds the \
         pipeline's identity",
        lane.0, epoch.0
    );
    if let Some(error) = &candidates.unknown {
        return LogError::Doubt(format!("{found}; {error}")).into();
    }
    AcquireError::Halt(Halt {
        found,
        meaning: "it was trimmed behind checkpoints that are not there any more, or its retention \
                  was not unlimited"
            .to_owned(),
        ways_out:
            "name the `checkpoint.store` that this pipeline ran with; or restore the journal \
                   topic, or start under another name"
                .to_owned(),
    })
}

/// Looks, decides and replays; a store of another history is moved aside, and an empty one filled,
/// from a checkpoint where the journal goes on from one. Returns the store with the start and how
/// many epochs were replayed. Halts only for what it finds twice, with every older writer fenced and
/// its transaction ended in between.
fn find_start(
    parts: &mut LaneSetup,
    identity: &Identity,
    (mut committed, mut candidates): (Vec<Option<CommittedOffset>>, Candidates),
    (mut store, expiry): (Box<dyn StateStore>, &ExpiryTable),
    progress: &mut dyn FnMut(Epoch),
) -> Result<(Start, u64, Box<dyn StateStore>), AcquireError> {
    let lane = parts.lane;
    let log = parts.log.as_mut();
    let mut halted = None;
    loop {
        let stored = stored_head(store.as_mut())?;
        let known = Known { committed: &committed, candidates: &candidates, stored };
        let Observed { facts, scan, from } = observe(log, lane, known, progress)?;
        let plan = decide(&facts);
        parts.stores.decided(&facts, &plan);
        match plan {
            Plan::Genesis => {
                let positions = log.start_positions()?;
                return Ok((Start::Genesis { identity: identity.clone(), positions }, 0, store));
            }
            Plan::Resume { target, repairs_offsets } => {
                if repairs_offsets {
                    tracing::warn!(
                        lane = lane.0,
                        epoch = target.0,
                        "the committed offsets lag behind the journal; the next epoch repairs them"
                    );
                }
                let replayed = scan.facts.count;
                let head = scan
                    .replay(log, lane, from, store.as_mut(), progress)
                    .map_err(AcquireError::from)?
                    .or(facts.stored);
                let head = head.filter(|head| head.record.epoch == target).ok_or_else(|| {
                    LogError::Doubt(format!("epoch {} was not reached by replaying", target.0))
                })?;
                let sources = &head.record.sources;
                if !repairs_offsets
                    && let Some(halt) = position_mismatch(lane, target, sources, &committed)
                {
                    return Err(halt.into());
                }
                return Ok((Start::Resume(Box::new(head)), replayed, store));
            }
            Plan::RebuildStore { found } => {
                tracing::warn!(lane = lane.0, "rebuilding keyed state from the journal: {found}");
                if facts.stored.is_none() {
                    return Err(LogError::Corrupt(found).into());
                }
                // It is never deleted: something may be in it that is nowhere else.
                drop(store);
                parts.stores.set_aside(&found)?;
                store = parts.stores.open(expiry)?;
                store.clear()?;
            }
            Plan::Restore => {
                drop(store);
                let stores = parts.stores.as_mut();
                store = restore(stores, expiry, &mut candidates, &mut || progress(Epoch::GENESIS))?;
            }
            Plan::PassOver { found } => candidates.pass_over(&found),
            Plan::AwaitCheckpoints { found } => return Err(await_checkpoints(&found, &candidates)),
            // Offsets and journal are read one after the other: a process that acquires the lane
            // and commits meanwhile makes them disagree, and nothing is wrong with them.
            Plan::Halt(halt) => match halted.replace(facts.clone()) {
                Some(before) if before == facts => return Err(halt.into()),
                Some(_) => {
                    let what = "another process commits while the lane is read back";
                    return Err(LogError::Doubt(what.to_owned()).into());
                }
                None => {
                    log.acquire()?;
                    committed = log.committed()?;
                }
            },
        }
    }
}

/// Brings the candidate back and opens it; where it is damaged, an empty store is opened and the
/// candidate passed over.
fn restore(
    stores: &mut dyn OpenStore,
    expiry: &ExpiryTable,
    candidates: &mut Candidates,
    progress: &mut dyn FnMut(),
) -> Result<Box<dyn StateStore>, AcquireError> {
    let damage = match candidates.restore(stores, progress) {
        Ok(damage) => damage,
        Err(RestoreError::Store(error)) => return Err(LogError::Doubt(error.to_string()).into()),
        Err(RestoreError::Local(error)) => return Err(error.into()),
    };
    let mut store = stores.open(expiry)?;
    let damage = match damage {
        Some(damage) => Some(damage),
        None => {
            let fact = stored_head(store.as_mut())?.map(|head| CheckpointFact {
                epoch: head.record.epoch,
                attempt: head.record.attempt,
                hash: head.hash,
            });
            (fact != candidates.facts().candidate)
                .then(|| "its files are of another epoch than its manifest says".to_owned())
        }
    };
    if let Some(damage) = damage {
        candidates.pass_over(&damage);
        store.clear()?;
    }
    Ok(store)
}

fn stored_head(store: &mut dyn StateStore) -> Result<Option<StoredHead>, StoreError> {
    let Some(bytes) = store.head()? else {
        return Ok(None);
    };
    codec::decode_stored(&bytes)
        .map(Some)
        .map_err(|error| StoreError::Corrupt(format!("its head: {error}")))
}

fn make_lane(
    parts: &LaneSetup,
    pipeline: &PipelineSetup,
    switch: PluginSwitch,
    store: Box<dyn StateStore>,
    attempt: Attempt,
    start: Start,
    now: ProcessingTime,
) -> Lane {
    let mut options = pipeline.options.clone();
    options.roles = switch.roles;
    options.outputs = switch.outputs;
    options.late_output = switch.late_output;
    Lane::new(LaneParts {
        lane: parts.lane,
        sources: parts.sources.clone(),
        options,
        store,
        function: switch.function,
        descriptor: switch.descriptor,
        state_ids: switch.state_ids,
        revision: switch.revision,
        attempt,
        owner: pipeline.owner.clone(),
        start,
        now,
    })
}

impl From<ReplayError> for AcquireError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Log(error) => Self::Log(error),
            ReplayError::Store(error) => Self::Store(error),
        }
    }
}
