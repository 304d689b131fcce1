//! Makes a lane go on that has halted, as an operator says: over the ports, in two steps.
//!
//! [`propose`] looks and changes nothing; [`execute`] acquires the lane, looks again and commits one
//! epoch, if that is still what was proposed. What may be done is
//! [`dovetail_core::recovery::resolve`]'s.
//!
//! Invariant: keyed state is moved aside, never deleted, and only when its replacement is there.

use dovetail_core::{
    checkpoint::{CheckpointError, Manifest},
    epoch::{
        Attempt, Epoch, EpochRecord, LaneId, Owner, SourceState, StoredHead, TimerFloors, chunk,
        codec, metadata::CommitMetadata,
    },
    identity::Identity,
    log::{CommittedOffset, Log, LogError, Transaction},
    output::OutputBuffer,
    record::Source,
    recovery::{
        Facts, Halt, Plan, decide, position_mismatch,
        resolve::{Outcome, Resolution, StateFate, Trusted, resolve},
    },
    state::{ExpiryTable, StateStore, StoreError},
    time::{NO_WATERMARK, ProcessingTime},
};

use crate::{
    candidates::Candidates,
    checkpoint::{HashCache, RestoreError, UploadContext, UploadError, restore, upload, verify},
    observe::{Known, observe},
    setup::{CheckpointSetup, OpenStore},
};

/// How long the store may take to write what it holds in memory.
const FREEZE_TRIES: u32 = 3_000;

/// What an operator asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which witness to trust.
    pub trusted: Trusted,
    /// The name of the checkpoint; the newest when not said.
    pub checkpoint: Option<String>,
}

/// A lane, and who works on it.
pub struct Patient<'a> {
    /// The lane.
    pub lane: LaneId,
    /// Its sources, in lane order.
    pub sources: &'a [Source],
    /// Its log.
    pub log: &'a mut dyn Log,
    /// What the local store has applied; `None` = it is empty or cannot be read.
    pub stored: Option<StoredHead>,
    /// The checkpoint store.
    pub checkpoints: Option<&'a CheckpointSetup>,
}

/// Where one source goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The source.
    pub source: Source,
    /// The committed offset.
    pub committed: Option<i64>,
    /// The journal's last position.
    pub journaled: Option<i64>,
    /// Where it goes on.
    pub position: i64,
}

/// What would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Why the lane does not go on by itself.
    pub halt: Halt,
    /// The epoch that makes it go on.
    pub resolution: Resolution,
    /// Where its sources go on.
    pub moves: Vec<Move>,
    /// The checkpoint that it goes back to.
    pub checkpoint: Option<Manifest>,
    /// What the new record goes on from, where the journal or the checkpoint has it.
    last: Option<EpochRecord>,
}

impl Proposal {
    /// Returns who committed last, and when, ms.
    #[must_use]
    pub fn last_owner(&self) -> Option<(&Owner, ProcessingTime)> {
        self.last.as_ref().map(|record| (&record.owner, record.processing_time))
    }
}

/// Why a lane is not resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is nothing to resolve.
    #[error("the lane needs no operator: {0}")]
    NotHalted(String),
    /// It would not help.
    #[error("--from {} does not make the lane go on: {why}", trusted.name())]
    Refused {
        /// What was asked for.
        trusted: Trusted,
        /// Why not.
        why: String,
    },
    /// It changed between looking and doing.
    #[error("the lane has changed since it was looked at: look again")]
    Changed,
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The local store.
    #[error(transparent)]
    Local(#[from] StoreError),
    /// The checkpoint store.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A checkpoint could not be taken.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

impl From<RestoreError> for ResolveError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Store(error) => Self::Checkpoint(error),
            RestoreError::Local(error) => Self::Local(error),
        }
    }
}

/// What is seen of a lane.
struct Seen {
    facts: Facts,
    last: Option<EpochRecord>,
}

fn see(
    patient: &mut Patient<'_>,
    committed: &[Option<CommittedOffset>],
    candidates: &Candidates,
    stored: Option<&StoredHead>,
) -> Result<Seen, LogError> {
    let known = Known { committed, candidates, stored: stored.cloned() };
    let observed = observe(patient.log, patient.lane, known, &mut |_| {})?;
    let last = observed.last_record(patient.log)?;
    Ok(Seen { facts: observed.facts, last })
}

/// Looks at a lane and returns what would be done; changes nothing.
///
/// # Errors
///
/// When the lane needs nothing, when it would not help, or when something cannot be read.
pub fn propose(patient: &mut Patient<'_>, request: &Request) -> Result<Proposal, ResolveError> {
    let committed = patient.log.committed()?;
    let mut candidates = Candidates::look(patient.checkpoints, patient.lane);
    if let Some(error) = &candidates.unknown {
        return Err(error.clone().into());
    }
    let mut stored = patient.stored.clone();
    let (halt, mut seen) = halted(patient, &committed, &mut candidates, &mut stored)?;
    if let (Trusted::Checkpoint, Some(name)) = (request.trusted, &request.checkpoint) {
        let why = format!("there is no checkpoint {name} that can be read");
        // From the newest on: some may have been passed over.
        candidates = Candidates::look(patient.checkpoints, patient.lane);
        if !candidates.choose(name) {
            return Err(ResolveError::Refused { trusted: request.trusted, why });
        }
        seen = see(patient, &committed, &candidates, stored.as_ref())?;
    }
    let resolution = loop {
        match resolve(&seen.facts, request.trusted) {
            Outcome::Accepted(resolution) => break resolution,
            Outcome::WithoutStore if stored.is_some() => stored = None,
            Outcome::WithoutCandidate => candidates.pass_over("the journal does not go on from it"),
            Outcome::WithoutStore => {
                let why = "the local state is of another history".to_owned();
                return Err(ResolveError::Refused { trusted: request.trusted, why });
            }
            Outcome::Refused(why) => {
                return Err(ResolveError::Refused { trusted: request.trusted, why });
            }
        }
        seen = see(patient, &committed, &candidates, stored.as_ref())?;
    };
    let checkpoint = candidates.into_current().filter(|_| resolution.state == StateFate::Restored);
    if let (Some(manifest), Some(setup)) = (&checkpoint, patient.checkpoints) {
        verify(setup.store.as_ref(), manifest)?;
    }
    let is_new = resolution.state == StateFate::Emptied;
    let beginnings = if is_new { patient.log.start_positions()? } else { Vec::new() };
    let known = (&committed[..], &beginnings[..]);
    let moves = moves(patient.sources, &resolution, known, &seen, checkpoint.as_ref())?;
    Ok(Proposal { halt, resolution, moves, checkpoint, last: seen.last })
}

/// Returns why the lane halts, and what was seen then.
fn halted(
    patient: &mut Patient<'_>,
    committed: &[Option<CommittedOffset>],
    candidates: &mut Candidates,
    stored: &mut Option<StoredHead>,
) -> Result<(Halt, Seen), ResolveError> {
    loop {
        let seen = see(patient, committed, candidates, stored.as_ref())?;
        match decide(&seen.facts) {
            Plan::Halt(halt) => return Ok((halt, seen)),
            Plan::RebuildStore { .. } if stored.is_some() => *stored = None,
            Plan::PassOver { found } => candidates.pass_over(&found),
            Plan::Resume { target, repairs_offsets } => {
                let sources = seen.last.as_ref().map_or(&[][..], |record| &record.sources);
                match position_mismatch(patient.lane, target, sources, committed) {
                    Some(halt) if !repairs_offsets => return Ok((halt, seen)),
                    Some(_) | None => {
                        let what = format!("a start goes on behind epoch {}", target.0);
                        return Err(ResolveError::NotHalted(what));
                    }
                }
            }
            Plan::Restore => {
                let what = "a start restores its newest checkpoint".to_owned();
                return Err(ResolveError::NotHalted(what));
            }
            Plan::Genesis => {
                return Err(ResolveError::NotHalted("it has never run".to_owned()));
            }
            Plan::RebuildStore { found } | Plan::AwaitCheckpoints { found } => {
                return Err(LogError::Doubt(found).into());
            }
        }
    }
}

fn moves(
    sources: &[Source],
    resolution: &Resolution,
    (committed, beginnings): (&[Option<CommittedOffset>], &[i64]),
    seen: &Seen,
    checkpoint: Option<&Manifest>,
) -> Result<Vec<Move>, ResolveError> {
    let of = |states: &[SourceState], source: Source| {
        states.iter().find(|state| state.source == source).map(|state| state.position)
    };
    let journal = seen.last.as_ref().map_or(&[][..], |record| &record.sources);
    let restored = checkpoint.map_or(&[][..], |manifest| &manifest.sources);
    let mut moves = Vec::with_capacity(sources.len());
    for (at, source) in sources.iter().enumerate() {
        let offset = committed.get(at).and_then(Option::as_ref).map(|offset| offset.position);
        let journaled = of(journal, *source);
        let position = match resolution.positions {
            Trusted::Journal => journaled,
            // Broadcast inputs have no offsets: only the journal knows, and with emptied state they
            // are read anew.
            Trusted::Offsets if at >= committed.len() => journaled.or(beginnings.get(at).copied()),
            Trusted::Offsets => offset,
            Trusted::Checkpoint => of(restored, *source),
        };
        let position = position.ok_or_else(|| ResolveError::Refused {
            trusted: resolution.positions,
            why: format!(
                "it does not say where partition {} of input {} goes on",
                source.partition.0, source.input.0
            ),
        })?;
        moves.push(Move { source: *source, committed: offset, journaled, position });
    }
    Ok(moves)
}

/// What the new epoch is written by.
pub struct Writer<'a> {
    /// The process.
    pub owner: Owner,
    /// Its attempt.
    pub attempt: Attempt,
    /// What a new beginning commits.
    pub identity: &'a Identity,
    /// The revision that a new beginning names.
    pub revision: String,
    /// The clock.
    pub now: ProcessingTime,
    /// Opens and replaces keyed state.
    pub stores: &'a mut dyn OpenStore,
}

/// Acquires the lane and does what was proposed.
///
/// # Errors
///
/// [`ResolveError::Changed`] when it is not what was looked at any more; or what failed: doing it
/// again is always right.
pub fn execute(
    patient: &mut Patient<'_>,
    request: &Request,
    proposal: &Proposal,
    writer: &mut Writer<'_>,
) -> Result<(), ResolveError> {
    patient.log.acquire()?;
    if propose(patient, request)? != *proposal {
        return Err(ResolveError::Changed);
    }
    let expiry = ExpiryTable::new([]);
    let mut store = None;
    if proposal.resolution.state != StateFate::Kept {
        writer.stores.set_aside("an operator has resolved its lane")?;
    }
    if let (Some(manifest), Some(setup)) = (&proposal.checkpoint, patient.checkpoints) {
        restore(setup.store.as_ref(), manifest, writer.stores.restore()?, &mut || {})?;
        store = Some(writer.stores.open(&expiry)?);
    }
    let before = match &mut store {
        Some(store) => Some(head(store.as_mut())?),
        None => proposal.last.clone(),
    };
    let record = record(patient, proposal, before, writer);
    let head = commit(patient.log, record)?;
    if let (Some(mut store), Some(setup)) = (store, patient.checkpoints) {
        store.apply(&mut std::iter::empty(), &codec::encode_stored(&head), head.record.clocks())?;
        store.flush()?;
        let identity = proposal.checkpoint.as_ref().map(|manifest| &manifest.identity);
        let identity = identity.unwrap_or(writer.identity);
        let place = (patient.lane, head.record.epoch);
        publish(place, setup, store.as_mut(), identity, writer.now)?;
    }
    Ok(())
}

fn head(store: &mut dyn StateStore) -> Result<EpochRecord, StoreError> {
    let bytes = store.head()?.unwrap_or_default();
    let head = codec::decode_stored(&bytes)
        .map_err(|error| StoreError::Corrupt(format!("its head: {error}")))?;
    Ok(head.record)
}

/// Returns the record that goes on from the last one, or begins anew.
fn record(
    patient: &Patient<'_>,
    proposal: &Proposal,
    before: Option<EpochRecord>,
    writer: &Writer<'_>,
) -> EpochRecord {
    let Resolution { epoch, previous_hash, state, .. } = proposal.resolution;
    let begins = state == StateFate::Emptied;
    let before = before.filter(|_| !begins);
    let sources = proposal.moves.iter().map(|it| {
        let states = before.as_ref().map_or(&[][..], |record| &record.sources);
        let known = states.iter().find(|state| state.source == it.source);
        let (watermark, is_idle) =
            known.map_or((NO_WATERMARK, false), |it| (it.watermark, it.is_idle));
        // Where it goes on elsewhere there may be something to read again.
        let is_ended = known.is_some_and(|known| known.is_ended && known.position == it.position);
        SourceState { source: it.source, position: it.position, watermark, is_idle, is_ended }
    });
    let sources = sources.collect();
    let empty = || EpochRecord {
        lane: patient.lane,
        epoch,
        attempt: writer.attempt,
        owner: writer.owner.clone(),
        previous_hash,
        identity: None,
        sources: Vec::new(),
        watermark: NO_WATERMARK,
        processing_time: writer.now,
        firing: None,
        continuation: None,
        timer_floors: TimerFloors::default(),
        revision: writer.revision.clone(),
        outputs: 0,
        timers_fired: 0,
    };
    let before = before.unwrap_or_else(empty);
    EpochRecord {
        epoch,
        attempt: writer.attempt,
        owner: writer.owner.clone(),
        previous_hash,
        identity: begins.then(|| writer.identity.clone()),
        sources,
        processing_time: before.processing_time.max(writer.now),
        outputs: 0,
        timers_fired: 0,
        ..before
    }
}

fn commit(log: &mut dyn Log, record: EpochRecord) -> Result<StoredHead, LogError> {
    let (bytes, hash) = codec::encode(&record, std::iter::empty());
    let chunks = chunk::split(record.lane, record.epoch, record.attempt, &bytes);
    let positions: Vec<i64> = record.sources.iter().map(|source| source.position).collect();
    let metadata = CommitMetadata {
        lane: record.lane,
        epoch: record.epoch,
        attempt: record.attempt,
        journal_offset: 0,
        hash,
    };
    let outputs = OutputBuffer::default();
    let transaction =
        Transaction { outputs: &outputs, chunks: &chunks, positions: &positions, metadata };
    let journal_next = log.commit(&transaction)?;
    Ok(StoredHead { record, hash, journal_next })
}

/// Takes a checkpoint of what the next start goes on from: the one that was restored is not on the
/// journal any more.
fn publish(
    (lane, epoch): (LaneId, Epoch),
    setup: &CheckpointSetup,
    store: &mut dyn StateStore,
    identity: &Identity,
    now: ProcessingTime,
) -> Result<(), ResolveError> {
    let mut tries = 0;
    let mut frozen = loop {
        if let Some(frozen) = store.freeze()? {
            break frozen;
        }
        tries += 1;
        if tries > FREEZE_TRIES {
            let what = "the database does not write what it holds in memory".to_owned();
            return Err(StoreError::Unavailable(what).into());
        }
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    };
    let context =
        UploadContext { lane, identity, published: &[], now, grace: 0, give_up: &|| None };
    let taken = upload(setup.store.as_ref(), frozen.as_mut(), &mut HashCache::default(), &context)?;
    if taken.manifest.id.epoch != epoch {
        let what = "the database froze an earlier epoch than was applied last".to_owned();
        return Err(StoreError::Unavailable(what).into());
    }
    Ok(())
}
