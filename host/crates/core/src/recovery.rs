//! Decides how a lane goes on, from what was observed: a pure, total function.
//!
//! M is what the offsets say was committed, J the last record of the journal, D what the local
//! store has applied, C a checkpoint. Kafka's commit is the only commit point, so neither D nor C
//! decides what was committed; they only save replaying, and stand in for a journal that was
//! trimmed. C is judged by what D is judged by: the journal must go on from it.

pub mod resolve;

use crate::epoch::{Attempt, Epoch, LaneId, SourceState, StoredHead, metadata::CommitMetadata};
use crate::log::CommittedOffset;

/// One epoch record of the journal, as far as the decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalFact {
    /// The epoch.
    pub epoch: Epoch,
    /// Who wrote it.
    pub attempt: Attempt,
    /// Its hash.
    pub hash: u64,
    /// The hash of its predecessor.
    pub previous_hash: u64,
}

/// The records of a journal, in order, from where it was read: as many as there are, they need no
/// more room than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalFacts {
    /// How many there are.
    pub count: u64,
    /// The first.
    pub first: Option<JournalFact>,
    /// The last.
    pub last: Option<JournalFact>,
    /// The first epoch that the record behind it does not continue.
    pub broken: Option<Epoch>,
}

impl JournalFacts {
    /// Takes the next record.
    pub fn add(&mut self, fact: JournalFact) {
        if let Some(last) = &self.last
            && (fact.epoch != last.epoch.next() || fact.previous_hash != last.hash)
        {
            self.broken.get_or_insert(last.epoch);
        }
        self.count += 1;
        self.first.get_or_insert(fact);
        self.last = Some(fact);
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl FromIterator<JournalFact> for JournalFacts {
    fn from_iter<T: IntoIterator<Item = JournalFact>>(facts: T) -> Self {
        let mut journal = Self::default();
        facts.into_iter().for_each(|fact| journal.add(fact));
        journal
    }
}

/// A checkpoint, as far as the decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointFact {
    /// The epoch whose end it holds.
    pub epoch: Epoch,
    /// Who wrote that epoch.
    pub attempt: Attempt,
    /// The hash of that epoch's record.
    pub hash: u64,
}

/// What is known of a lane's checkpoints; the default is a pipeline without a checkpoint store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointFacts {
    /// Whether there is a store that did not answer.
    pub is_unknown: bool,
    /// The newest epoch of any.
    pub newest: Option<Epoch>,
    /// The newest that was neither passed over nor found damaged. Where there is no local state, the
    /// journal was read from behind it.
    pub candidate: Option<CheckpointFact>,
}

/// Everything that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The lane, for the commands that a halt names.
    pub lane: LaneId,
    /// The committed offset of each source.
    pub committed: Vec<Option<CommittedOffset>>,
    /// The journal's records, in order, from where it was read.
    pub journal: JournalFacts,
    /// What the local store has applied; `None` when it is empty or was given up.
    pub stored: Option<StoredHead>,
    /// Whether the journal ends before the place where the store says its epoch ended.
    pub is_journal_short: bool,
    /// The journal's last record, looked up where [`Self::wants_last`] says so.
    pub last: Option<JournalFact>,
    /// The lane's checkpoints.
    pub checkpoints: CheckpointFacts,
}

/// Epoch, attempt and hash of a record: what makes it this one and no other.
type RecordName = (Epoch, Attempt, u64);

impl Facts {
    /// Returns whether the journal's last record must be looked up: nothing lies behind the store
    /// (or, without one, behind the checkpoint), and the offsets do not confirm it or the journal
    /// has lost something.
    #[must_use]
    pub fn wants_last(&self) -> bool {
        let Some(base) = self.base() else { return false };
        let confirms = |offset: &Option<CommittedOffset>| {
            let metadata = offset.as_ref().map(|offset| offset.metadata.parse::<CommitMetadata>());
            matches!(metadata, Some(Ok(metadata)) if name_of(&metadata) == base)
        };
        // Where the offsets were not asked for they confirm nothing.
        let is_confirmed = !self.is_journal_short
            && !self.committed.is_empty()
            && self.committed.iter().all(confirms);
        self.journal.is_empty() && !is_confirmed
    }

    /// Returns what the journal was read from behind: the local state, else a checkpoint.
    fn base(&self) -> Option<RecordName> {
        let candidate = self.checkpoints.candidate.map(|it| (it.epoch, it.attempt, it.hash));
        let stored = self.stored.as_ref();
        stored.map(|head| (head.record.epoch, head.record.attempt, head.hash)).or(candidate)
    }

    /// Returns the last record that is known.
    fn last_known(&self) -> Option<RecordName> {
        self.journal.last.or(self.last).as_ref().map(identity_of)
    }
}

fn name_of(metadata: &CommitMetadata) -> RecordName {
    (metadata.epoch, metadata.attempt, metadata.hash)
}

/// How the lane goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It has never run.
    Genesis,
    /// Replay what the store lacks (its journal records were all observed), then run.
    Resume {
        /// The committed epoch.
        target: Epoch,
        /// Whether the offsets lag behind the journal: the ownership epoch repairs them.
        repairs_offsets: bool,
    },
    /// The store is of another history: move it aside, read the journal from its start into an empty
    /// one, decide again.
    RebuildStore {
        /// What was found.
        found: String,
    },
    /// There is no local state: restore the candidate, decide again.
    Restore,
    /// The candidate is not of this history, or the journal does not reach back to it: take the
    /// checkpoint before it, decide again.
    PassOver {
        /// What was found.
        found: String,
    },
    /// Nothing can be decided before the checkpoint store has answered.
    AwaitCheckpoints {
        /// Why not.
        found: String,
    },
    /// An operator must decide.
    Halt(Halt),
}

/// Why a lane must not go on by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found}; {meaning}; {ways_out}")]
pub struct Halt {
    /// What was found.
    pub found: String,
    /// What it means.
    pub meaning: String,
    /// What an operator can do.
    pub ways_out: String,
}

fn halt(found: impl Into<String>, meaning: &str, ways_out: &str) -> Plan {
    Plan::Halt(Halt { found: found.into(), meaning: meaning.into(), ways_out: ways_out.into() })
}

/// Returns how the lane goes on; a halt names the commands that make it go on.
#[must_use]
pub fn decide(facts: &Facts) -> Plan {
    let plan = judge(facts);
    if let Plan::Halt(halt) = plan {
        return Plan::Halt(resolve::with_commands(halt, facts));
    }
    plan
}

fn judge(facts: &Facts) -> Plan {
    let committed = match committed(&facts.committed) {
        Ok(committed) => committed,
        Err(plan) => return plan,
    };
    let exception = broken_chain(&facts.journal)
        .or_else(|| nothing_else(facts, committed.as_ref()))
        .or_else(|| checkpoint_ahead(facts, committed.as_ref()))
        .or_else(|| foreign_base(facts, committed.as_ref()));
    if let Some(plan) = exception {
        return plan;
    }
    let last = facts.last_known().or(facts.base());
    let plan = match (committed, last) {
        (None, None) if facts.checkpoints.is_unknown => Plan::AwaitCheckpoints {
            found: "no trace of an earlier run but what the checkpoint store may hold".to_owned(),
        },
        (None, None) => Plan::Genesis,
        (None, Some((target, ..))) => Plan::Resume { target, repairs_offsets: true },
        (Some(committed), None) => no_journal(&committed),
        (Some(committed), Some(last)) => compare(&committed, last),
    };
    let is_restored_first = facts.stored.is_none() && facts.base().is_some();
    let has_lost_offsets = facts.committed.iter().any(Option::is_none);
    if let Plan::Resume { target, repairs_offsets } = plan {
        let repairs_offsets = repairs_offsets || has_lost_offsets;
        return match is_restored_first {
            true => Plan::Restore,
            false => Plan::Resume { target, repairs_offsets },
        };
    }
    plan
}

/// Returns what offsets, journal and checkpoints contradict each other in, whatever the local state
/// may be: for who looks at a lane from outside. The journal is read from behind the candidate, or
/// from its start.
#[must_use]
pub fn contradiction(facts: &Facts) -> Option<Halt> {
    let committed = match committed(&facts.committed) {
        Ok(committed) => committed,
        Err(plan) => return halted(plan).map(|halt| resolve::with_commands(halt, facts)),
    };
    let found =
        broken_chain(&facts.journal).or_else(|| checkpoint_ahead(facts, committed.as_ref()));
    let plan = found.or_else(|| match (committed, facts.last_known().or(facts.base())) {
        (Some(committed), Some(last)) => Some(compare(&committed, last)),
        (Some(committed), None) => Some(no_journal(&committed)),
        (None, _) => None,
    });
    plan.and_then(halted).map(|halt| resolve::with_commands(halt, facts))
}

/// Returns what is wrong where the offsets are not at the positions of the epoch that they name.
#[must_use]
pub fn position_mismatch(
    lane: LaneId,
    epoch: Epoch,
    sources: &[SourceState],
    committed: &[Option<CommittedOffset>],
) -> Option<Halt> {
    let differs = |(source, offset): (&SourceState, &Option<CommittedOffset>)| {
        let offset = offset.as_ref().map(|offset| offset.position)?;
        (offset != source.position).then_some((source.source, source.position, offset))
    };
    let (source, position, offset) = sources.iter().zip(committed).find_map(differs)?;
    let lane = lane.0;
    Some(Halt {
        found: format!(
            "epoch {} ended input {} at offset {position} of partition {}, but the committed offset \
             is {offset}",
            epoch.0, source.input.0, source.partition.0
        ),
        meaning: "it was changed from outside".to_owned(),
        ways_out: format!(
            "`dovetail lanes resolve {lane} --from journal` goes on behind the journal's last epoch; \
             or `dovetail lanes resolve {lane} --from offsets` goes on at the committed offsets, \
             with the state there is"
        ),
    })
}

fn halted(plan: Plan) -> Option<Halt> {
    if let Plan::Halt(halt) = plan { Some(halt) } else { None }
}

fn identity_of(fact: &JournalFact) -> (Epoch, Attempt, u64) {
    (fact.epoch, fact.attempt, fact.hash)
}

fn no_journal(committed: &CommitMetadata) -> Plan {
    halt(
        format!("committed epoch {} but an empty journal", committed.epoch.0),
        "the journal topic was deleted or emptied: keyed state cannot be rebuilt",
        "restore the journal topic, or start under another name",
    )
}

/// State that neither the offsets nor the journal confirm is kept, and not trusted.
fn nothing_else(facts: &Facts, committed: Option<&CommitMetadata>) -> Option<Plan> {
    if !facts.wants_last() || facts.last.is_some() {
        return None;
    }
    let found = match &facts.stored {
        Some(_) => "applied state but neither committed offsets nor a journal",
        None => "a checkpoint but neither committed offsets nor a journal",
    };
    Some(match committed {
        Some(committed) => no_journal(committed),
        None => halt(
            found,
            "the pipeline's topics or group were deleted, or this is another cluster",
            "restore them, or start under another name or with an empty state directory and \
             checkpoint store",
        ),
    })
}

/// Only committed epochs are frozen: a checkpoint ahead of all that is committed tells of a loss.
fn checkpoint_ahead(facts: &Facts, committed: Option<&CommitMetadata>) -> Option<Plan> {
    let newest = facts.checkpoints.newest?;
    let known = committed.map(|committed| committed.epoch);
    let known = known.max(facts.last_known().map(|(epoch, ..)| epoch));
    if known.is_some_and(|known| newest <= known) {
        return None;
    }
    let known = known.map_or("nothing".to_owned(), |known| format!("epoch {}", known.0));
    Some(halt(
        format!("a checkpoint of epoch {} but {known} in journal and offsets", newest.0),
        "both lost records: an unclean leader election, or topics restored from a copy; or the \
         checkpoint store is another pipeline's",
        "restore the topics; or give this pipeline its own `checkpoint.store`",
    ))
}

fn compare(committed: &CommitMetadata, last: (Epoch, Attempt, u64)) -> Plan {
    let (epoch, attempt, hash) = last;
    let (journal, offsets) = (epoch.0, committed.epoch.0);
    if journal == offsets && (attempt, hash) == (committed.attempt, committed.hash) {
        return Plan::Resume { target: epoch, repairs_offsets: false };
    }
    if journal == offsets {
        return halt(
            format!("epoch {journal} in the journal and in the offsets, of different attempts"),
            "they cannot come from one transaction: topics were restored or written by others",
            "restore both from the same moment, or start under another name",
        );
    }
    if journal == offsets + 1 {
        return Plan::Resume { target: epoch, repairs_offsets: true };
    }
    if journal > offsets {
        return halt(
            format!("epoch {journal} in the journal but {offsets} in the offsets"),
            "the group's offsets were set back from outside",
            "restore the offsets",
        );
    }
    halt(
        format!("epoch {offsets} in the offsets but {journal} in the journal"),
        "the journal lost records: an unclean leader election, or a topic restored from a copy",
        "restore the journal topic, or start under another name",
    )
}

/// Returns the metadata that the sources' offsets carry; `None` when nothing is committed. Sources
/// without an offset say nothing: a broker forgets those of a topic that is deleted.
fn committed(sources: &[Option<CommittedOffset>]) -> Result<Option<CommitMetadata>, Plan> {
    let mut common: Option<CommitMetadata> = None;
    for offset in sources.iter().flatten() {
        let metadata = match offset.metadata.parse::<CommitMetadata>() {
            Ok(metadata) => metadata,
            Err(error) => {
                return Err(halt(
                    error.to_string(),
                    "the group's offsets were committed by another program",
                    "restore the offsets that were there before",
                ));
            }
        };
        if *common.get_or_insert(metadata) != metadata {
            return Err(halt(
                "sources of one lane committed by different transactions",
                "offsets of single partitions were set from outside",
                "restore the offsets that were there before",
            ));
        }
    }
    Ok(common)
}

fn broken_chain(journal: &JournalFacts) -> Option<Plan> {
    let broken = journal.broken?;
    Some(halt(
        format!("epoch {} followed by a record that does not continue it", broken.0),
        "the journal topic was written by another pipeline or restored from a copy",
        "restore the journal topic, or start under another name",
    ))
}

/// What state is built from must be continued by what the journal holds behind it, or end where the
/// journal ends; without any the journal must begin at genesis.
///
/// A store is given up only for a journal that ends where the offsets say: it may be the last copy.
fn foreign_base(facts: &Facts, committed: Option<&CommitMetadata>) -> Option<Plan> {
    let first = &facts.journal.first;
    let Some((epoch, attempt, hash)) = facts.base() else {
        let first = first.filter(|first| first.epoch != Epoch::GENESIS)?;
        return Some(no_base(facts, first.epoch));
    };
    let is_ours = match (first, &facts.last) {
        (Some(first), _) => first.epoch == epoch.next() && first.previous_hash == hash,
        (None, Some(last)) => identity_of(last) == (epoch, attempt, hash),
        (None, None) => true,
    };
    if is_ours {
        return None;
    }
    if let (Some(committed), Some(last)) = (committed, facts.last_known())
        && let Plan::Halt(halt) = compare(committed, last)
    {
        return Some(Plan::Halt(halt));
    }
    if facts.stored.is_none() {
        return Some(Plan::PassOver {
            found: format!("a checkpoint of epoch {} that the journal does not continue", epoch.0),
        });
    }
    if facts.is_journal_short && committed.is_none() {
        return Some(halt(
            format!("local state at epoch {}, behind which the journal has been cut off", epoch.0),
            "the journal lost records: an unclean leader election, or a topic restored from a copy; \
             the local state is the last copy of what they held",
            "restore the journal topic; or start under another name; or, to go on from what is left \
             and have the results behind it again, move the lane's state directory away",
        ));
    }
    Some(Plan::RebuildStore {
        found: format!("local state at epoch {} that the journal does not continue", epoch.0),
    })
}

/// A trimmed journal needs a checkpoint to begin from.
fn no_base(facts: &Facts, first: Epoch) -> Plan {
    let found = format!("no local state, and a journal that begins at epoch {}", first.0);
    if facts.checkpoints.is_unknown {
        return Plan::AwaitCheckpoints { found };
    }
    halt(
        format!("{found}, and no checkpoint that it continues"),
        "keyed state cannot be rebuilt from it",
        "bring back the state directory or the checkpoint store, or start under another name",
    )
}

#[cfg(test)]
mod tests;
