//! Which row of the decision table an acquisition has reached.
//!
//! All rows of the table are reached in simulation, and a test says within how many seeds. Of row 11
//! one case is not: a partition that is added while a process runs, of which only Kafka's clients
//! tell. Rows 10 and 11 are found by a log before anything is decided.
//!
//! Looks at the facts that [`dovetail_core::recovery::decide`] was given, and at what it decided.

use dovetail_core::{
    epoch::{Epoch, metadata::CommitMetadata},
    recovery::{Facts, Plan},
};

/// A row of the table in section 7.6 of the reference; where a row there has several cases, the
/// case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// 1: nothing anywhere.
    Genesis,
    /// 2a: the store is at the committed epoch.
    StoreCurrent,
    /// 2b: the store is behind, the journal covers it.
    StoreBehind,
    /// 2c: no store, the journal covers everything.
    StoreMissing,
    /// 2c: the store is damaged.
    StoreDamaged,
    /// 2c: the store is of another history.
    StoreForeign,
    /// 2d: the store is ahead of the commit.
    StoreAhead,
    /// 2c: no store; a checkpoint is restored.
    Restored,
    /// 2c: no store, and the newest checkpoint is not on the journal's chain.
    CheckpointForeign,
    /// 2c: no store, and the newest checkpoint is damaged.
    CheckpointDamaged,
    /// 2e, or 1: no store, and the checkpoint store does not answer.
    CheckpointsAwaited,
    /// 2e: no store, no checkpoint, and the journal does not begin at genesis.
    JournalTooShort,
    /// 3: the journal is one epoch ahead of the offsets.
    OffsetsStale,
    /// 4: the journal is further ahead.
    OffsetsSetBack,
    /// 5: no offsets, but a journal.
    OffsetsMissing,
    /// 6: the offsets are ahead of the journal.
    JournalBehind,
    /// 6: offsets, and no journal at all.
    JournalMissing,
    /// 6: a checkpoint ahead of journal and offsets.
    CheckpointAhead,
    /// 7: metadata of another program.
    MetadataForeign,
    /// 8: one epoch, two attempts.
    OtherAttempt,
    /// 8: the partitions of a lane differ.
    PartitionsDiffer,
    /// 8: the journal's records do not follow each other.
    ChainBroken,
    /// 9: nothing but a store.
    OnlyStore,
    /// 9: nothing but a checkpoint.
    OnlyCheckpoint,
    /// 10: committed offsets are pending although every older writer is fenced.
    OffsetsPending,
    /// 11: a committed position lies before the first record that is left.
    InputTrimmed,
    /// 11: an input has another number of partitions.
    PartitionsChanged,
    /// 11: a committed position lies behind the end: the topic was made anew.
    InputRecreated,
}

impl Row {
    /// Every row.
    pub const ALL: [Self; 28] = [
        Self::Genesis,
        Self::StoreCurrent,
        Self::StoreBehind,
        Self::StoreMissing,
        Self::StoreDamaged,
        Self::StoreForeign,
        Self::StoreAhead,
        Self::Restored,
        Self::CheckpointForeign,
        Self::CheckpointDamaged,
        Self::CheckpointsAwaited,
        Self::JournalTooShort,
        Self::OffsetsStale,
        Self::OffsetsSetBack,
        Self::OffsetsMissing,
        Self::JournalBehind,
        Self::JournalMissing,
        Self::CheckpointAhead,
        Self::MetadataForeign,
        Self::OtherAttempt,
        Self::PartitionsDiffer,
        Self::ChainBroken,
        Self::OnlyStore,
        Self::OnlyCheckpoint,
        Self::OffsetsPending,
        Self::InputTrimmed,
        Self::PartitionsChanged,
        Self::InputRecreated,
    ];
}

/// Returns the row that facts fall into for which a plan was made.
#[must_use]
pub fn row_of(facts: &Facts, plan: &Plan) -> Row {
    match plan {
        Plan::Genesis => Row::Genesis,
        Plan::Resume { repairs_offsets: true, .. }
            if facts.committed.iter().all(Option::is_none) =>
        {
            Row::OffsetsMissing
        }
        Plan::Resume { repairs_offsets: true, .. } => Row::OffsetsStale,
        Plan::Resume { .. } => match (&facts.stored, facts.journal.is_empty()) {
            (None, _) => Row::StoreMissing,
            (Some(_), true) => Row::StoreCurrent,
            (Some(_), false) => Row::StoreBehind,
        },
        Plan::RebuildStore { .. } => rebuilt(facts),
        Plan::Restore => Row::Restored,
        Plan::PassOver { .. } => Row::CheckpointForeign,
        Plan::AwaitCheckpoints { .. } => Row::CheckpointsAwaited,
        Plan::Halt(_) => halted(facts),
    }
}

fn metadata(facts: &Facts) -> Option<CommitMetadata> {
    facts.committed.iter().flatten().find_map(|offset| offset.metadata.parse().ok())
}

fn rebuilt(facts: &Facts) -> Row {
    let stored = facts.stored.as_ref().map_or(Epoch(0), |head| head.record.epoch);
    match metadata(facts) {
        Some(metadata) if stored > metadata.epoch && facts.journal.is_empty() => Row::StoreAhead,
        Some(_) | None => Row::StoreForeign,
    }
}

fn halted(facts: &Facts) -> Row {
    let parsed = |text: &str| text.parse::<CommitMetadata>().ok();
    let mut offsets = facts.committed.iter();
    if facts.committed.iter().flatten().any(|offset| parsed(&offset.metadata).is_none()) {
        return Row::MetadataForeign;
    }
    let text = |offset: &Option<dovetail_core::log::CommittedOffset>| {
        offset.as_ref().map(|offset| offset.metadata.clone())
    };
    let first = offsets.next().and_then(text);
    if offsets.any(|offset| text(offset) != first) {
        return Row::PartitionsDiffer;
    }
    if facts.journal.broken.is_some() {
        return Row::ChainBroken;
    }
    let journal = facts.journal.last.or(facts.last);
    if facts.wants_last() && journal.is_none() && metadata(facts).is_some() {
        return Row::JournalMissing;
    }
    let known = metadata(facts).map(|metadata| metadata.epoch).max(journal.map(|fact| fact.epoch));
    if facts.checkpoints.newest.is_some_and(|newest| known.is_none_or(|known| newest > known)) {
        return match (known, &facts.stored) {
            (None, None) => Row::OnlyCheckpoint,
            (None, Some(_)) => Row::OnlyStore,
            (Some(_), _) => Row::CheckpointAhead,
        };
    }
    let begins_late = facts.journal.first.is_some_and(|first| first.epoch != Epoch::GENESIS);
    if facts.stored.is_none() && begins_late {
        return Row::JournalTooShort;
    }
    let stored = facts.stored.as_ref().map(|head| head.record.epoch);
    let last = journal.map(|fact| fact.epoch).or(stored);
    match (metadata(facts).map(|metadata| metadata.epoch), last) {
        (None, _) => Row::OnlyStore,
        (Some(_), None) => Row::JournalMissing,
        (Some(committed), Some(last)) if last == committed => Row::OtherAttempt,
        (Some(committed), Some(last)) if last > committed => Row::OffsetsSetBack,
        (Some(_), Some(_)) => Row::JournalBehind,
    }
}
