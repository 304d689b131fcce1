//! Decides how a lane goes on, from what was observed: a pure, total function.
//!
//! M is what the offsets say was committed, J the last record of the journal, D what the local
//! store has applied. Kafka's commit is the only commit point, so D never decides what was
//! committed; it only saves replaying.

use crate::epoch::{Attempt, Epoch, StoredHead, metadata::CommitMetadata};
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

/// Everything that was observed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
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
}

impl Facts {
    /// Returns whether the journal's last record must be looked up: nothing lies behind the store,
    /// and the offsets do not confirm it or the journal has lost something.
    #[must_use]
    pub fn wants_last(&self) -> bool {
        let Some(stored) = &self.stored else { return false };
        let confirms = |offset: &Option<CommittedOffset>| {
            let metadata = offset.as_ref().map(|offset| offset.metadata.parse::<CommitMetadata>());
            matches!(metadata, Some(Ok(metadata)) if is_at(stored, &metadata))
        };
        let is_confirmed = !self.is_journal_short && self.committed.iter().all(confirms);
        self.journal.is_empty() && !is_confirmed
    }
}

fn is_at(stored: &StoredHead, metadata: &CommitMetadata) -> bool {
    let record = &stored.record;
    (record.epoch, record.attempt, stored.hash) == (metadata.epoch, metadata.attempt, metadata.hash)
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

/// Returns how the lane goes on.
#[must_use]
pub fn decide(facts: &Facts) -> Plan {
    let committed = match committed(&facts.committed) {
        Ok(committed) => committed,
        Err(plan) => return plan,
    };
    if let Some(plan) = broken_chain(&facts.journal) {
        return plan;
    }
    if let Some(plan) = store_alone(facts, committed.as_ref()) {
        return plan;
    }
    if let Some(plan) = foreign_store(facts, committed.as_ref()) {
        return plan;
    }
    let stored =
        facts.stored.as_ref().map(|head| (head.record.epoch, head.record.attempt, head.hash));
    let last = facts.journal.last.or(facts.last).as_ref().map(identity_of).or(stored);
    match (committed, last) {
        (None, None) => Plan::Genesis,
        (None, Some((target, ..))) => Plan::Resume { target, repairs_offsets: true },
        (Some(committed), None) => no_journal(&committed),
        (Some(committed), Some(last)) => compare(&committed, last),
    }
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

/// A store that neither the offsets nor the journal confirm is kept, and not trusted.
fn store_alone(facts: &Facts, committed: Option<&CommitMetadata>) -> Option<Plan> {
    if !facts.wants_last() || facts.last.is_some() {
        return None;
    }
    Some(match committed {
        Some(committed) => no_journal(committed),
        None => halt(
            "applied state but neither committed offsets nor a journal",
            "the pipeline's topics or group were deleted, or this is another cluster",
            "restore them, or start under another name or with an empty state directory",
        ),
    })
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
            "restore the offsets; results after them would otherwise come again",
        );
    }
    halt(
        format!("epoch {offsets} in the offsets but {journal} in the journal"),
        "the journal lost records: an unclean leader election, or a topic restored from a copy",
        "restore the journal topic, or start under another name",
    )
}

/// Returns the metadata that every source's offset carries; `None` when nothing is committed.
fn committed(sources: &[Option<CommittedOffset>]) -> Result<Option<CommitMetadata>, Plan> {
    let mut common: Option<Option<CommitMetadata>> = None;
    for source in sources {
        let metadata = match source {
            None => None,
            Some(offset) => match offset.metadata.parse::<CommitMetadata>() {
                Ok(metadata) => Some(metadata),
                Err(error) => {
                    return Err(halt(
                        error.to_string(),
                        "the group's offsets were committed by another program",
                        "delete the group's offsets if the journal is intact, and start again",
                    ));
                }
            },
        };
        if *common.get_or_insert(metadata) != metadata {
            return Err(halt(
                "sources of one lane committed by different transactions",
                "offsets of single partitions were set from outside",
                "delete the group's offsets if the journal is intact, and start again",
            ));
        }
    }
    Ok(common.flatten())
}

fn broken_chain(journal: &JournalFacts) -> Option<Plan> {
    let broken = journal.broken?;
    Some(halt(
        format!("epoch {} followed by a record that does not continue it", broken.0),
        "the journal topic was written by another pipeline or restored from a copy",
        "restore the journal topic, or start under another name",
    ))
}

/// The store must be continued by what the journal holds behind it, or end where the journal ends;
/// without a store the journal must begin at genesis.
///
/// A store is given up only for a journal that ends where the offsets say: it may be the last copy.
fn foreign_store(facts: &Facts, committed: Option<&CommitMetadata>) -> Option<Plan> {
    let first = &facts.journal.first;
    let Some(stored) = &facts.stored else {
        return first.filter(|first| first.epoch != Epoch::GENESIS).map(|first| {
            halt(
                format!("no local state, and a journal that begins at epoch {}", first.epoch.0),
                "keyed state cannot be rebuilt from it",
                "bring back the state directory, or start under another name",
            )
        });
    };
    let epoch = stored.record.epoch;
    let is_ours = match (first, &facts.last) {
        (Some(first), _) => first.epoch == epoch.next() && first.previous_hash == stored.hash,
        (None, Some(last)) => identity_of(last) == (epoch, stored.record.attempt, stored.hash),
        (None, None) => true,
    };
    if is_ours {
        return None;
    }
    let last = facts.journal.last.or(facts.last).as_ref().map(identity_of);
    if let (Some(committed), Some(last)) = (committed, last)
        && let Plan::Halt(halt) = compare(committed, last)
    {
        return Some(Plan::Halt(halt));
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

#[cfg(test)]
mod tests;
