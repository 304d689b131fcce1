//! What an operator may do with a lane that has halted: trust one of the witnesses.
//!
//! Pure, like the decision itself. Invariant: what is accepted makes [`super::decide`] go on; so
//! the commands that a halt names are those that help.

use super::{CheckpointFact, Facts, Halt, JournalFact, JournalFacts, Plan, judge};
use crate::{
    epoch::{Attempt, Epoch, metadata::CommitMetadata},
    log::CommittedOffset,
};

/// Which witness is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// The journal's last epoch: the inputs go on behind it.
    Journal,
    /// The committed offsets: the inputs go on there.
    Offsets,
    /// A checkpoint: state and inputs go back to it.
    Checkpoint,
}

impl Trusted {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Offsets, Self::Checkpoint];

    /// Returns the name in the command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Offsets => "offsets",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// What becomes of a lane's keyed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFate {
    /// It stays what the journal says.
    Kept,
    /// Nothing is left to build it from: it begins empty, and local state is moved aside.
    Emptied,
    /// It is the checkpoint's, and local state is moved aside.
    Restored,
}

/// The epoch that makes a lane go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolution {
    /// The epoch to commit.
    pub epoch: Epoch,
    /// The hash of the record that it continues; 0 for a new beginning.
    pub previous_hash: u64,
    /// Whose positions it commits.
    pub positions: Trusted,
    /// What becomes of the state.
    pub state: StateFate,
}

/// What trusting a witness would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It helps.
    Accepted(Resolution),
    /// It depends on what is seen without the local state, which is of another history.
    WithoutStore,
    /// It depends on what is seen from the checkpoint before this one.
    WithoutCandidate,
    /// It does not help, and why.
    Refused(String),
}

/// Returns what trusting one witness would do to a lane.
#[must_use]
pub fn resolve(facts: &Facts, trusted: Trusted) -> Outcome {
    match trusted {
        Trusted::Journal => match last(facts) {
            Some((epoch, _, hash)) => {
                continued(facts, resolution(epoch.next(), hash, trusted, StateFate::Kept))
            }
            None => Outcome::Refused("the journal holds nothing".to_owned()),
        },
        Trusted::Offsets => by_offsets(facts),
        Trusted::Checkpoint => by_checkpoint(facts),
    }
}

/// Returns the journal's last record: that of the local state or checkpoint, where nothing lies
/// behind it.
fn last(facts: &Facts) -> Option<(Epoch, Attempt, u64)> {
    facts.last_known().or_else(|| facts.base().filter(|_| !facts.wants_last()))
}

fn resolution(
    epoch: Epoch,
    previous_hash: u64,
    positions: Trusted,
    state: StateFate,
) -> Resolution {
    Resolution { epoch, previous_hash, positions, state }
}

fn by_offsets(facts: &Facts) -> Outcome {
    let trusted = Trusted::Offsets;
    if facts.committed.is_empty() || facts.committed.iter().any(Option::is_none) {
        return Outcome::Refused("not every source has a committed offset".to_owned());
    }
    match last(facts) {
        Some((epoch, _, hash)) => {
            continued(facts, resolution(epoch.next(), hash, trusted, StateFate::Kept))
        }
        None => {
            let facts = Facts { stored: None, is_journal_short: false, ..facts.clone() };
            continued(&facts, resolution(Epoch::GENESIS, 0, trusted, StateFate::Emptied))
        }
    }
}

fn by_checkpoint(facts: &Facts) -> Outcome {
    let Some(candidate) = facts.checkpoints.candidate else {
        return Outcome::Refused("there is no checkpoint that can be read".to_owned());
    };
    let offsets = facts.committed.iter().flatten();
    let committed = offsets.filter_map(|offset| offset.metadata.parse::<CommitMetadata>().ok());
    let known = committed.map(|metadata| metadata.epoch);
    let known = known.chain(last(facts).map(|(epoch, ..)| epoch));
    let newest = known.chain(facts.checkpoints.newest).max().unwrap_or(candidate.epoch);
    let epoch = newest.max(candidate.epoch).next();
    let found = resolution(epoch, candidate.hash, Trusted::Checkpoint, StateFate::Restored);
    let record = record_of(&found);
    // It is restored, the epoch applied to it, and a checkpoint taken of that.
    let mut after = Facts { stored: None, is_journal_short: false, last: None, ..facts.clone() };
    after.journal = JournalFacts::default();
    after.committed = vec![Some(offset_of(&after, &record)); facts.committed.len().max(1)];
    after.checkpoints.newest = Some(epoch);
    after.checkpoints.candidate =
        Some(CheckpointFact { epoch, attempt: record.attempt, hash: record.hash });
    judged(&after, found)
}

/// The epoch is added to the journal and to the offsets, and the rest stays.
fn continued(facts: &Facts, found: Resolution) -> Outcome {
    let record = record_of(&found);
    let mut after = facts.clone();
    match facts.is_journal_short {
        true => after.last = Some(record),
        false => after.journal.add(record),
    }
    after.committed = vec![Some(offset_of(facts, &record)); facts.committed.len()];
    judged(&after, found)
}

fn judged(after: &Facts, found: Resolution) -> Outcome {
    match judge(after) {
        Plan::Resume { .. } | Plan::Restore => Outcome::Accepted(found),
        Plan::RebuildStore { .. } => Outcome::WithoutStore,
        Plan::PassOver { .. } => Outcome::WithoutCandidate,
        Plan::Genesis => Outcome::Refused("there would be nothing to go on from".to_owned()),
        Plan::AwaitCheckpoints { found } => Outcome::Refused(found),
        Plan::Halt(Halt { found, meaning, .. }) => {
            Outcome::Refused(format!("there would still be {found}: {meaning}"))
        }
    }
}

/// The record as the decision will see it; what it is called does not matter to it.
fn record_of(found: &Resolution) -> JournalFact {
    let previous_hash = found.previous_hash;
    JournalFact { epoch: found.epoch, attempt: Attempt(0), hash: !previous_hash, previous_hash }
}

fn offset_of(facts: &Facts, record: &JournalFact) -> CommittedOffset {
    let metadata = CommitMetadata {
        lane: facts.lane,
        epoch: record.epoch,
        attempt: record.attempt,
        journal_offset: 0,
        hash: record.hash,
    };
    CommittedOffset { position: 0, metadata: metadata.to_string() }
}

/// Adds to a halt the commands that make the lane go on.
pub(super) fn with_commands(mut halt: Halt, facts: &Facts) -> Halt {
    let mut commands = Vec::new();
    for trusted in Trusted::ALL {
        let does = match resolve(facts, trusted) {
            Outcome::Refused(_) => continue,
            Outcome::Accepted(Resolution { state: StateFate::Emptied, .. }) => {
                "goes on at the committed offsets, without keyed state"
            }
            Outcome::Accepted(_) | Outcome::WithoutStore | Outcome::WithoutCandidate => {
                match trusted {
                    Trusted::Journal => "goes on behind the journal's last epoch",
                    Trusted::Offsets => "goes on at the committed offsets, with the state there is",
                    Trusted::Checkpoint => {
                        "goes back to the newest checkpoint; results behind it come again"
                    }
                }
            }
        };
        let (lane, name) = (facts.lane.0, trusted.name());
        commands.push(format!("`dovetail lanes resolve {lane} --from {name}` {does}"));
    }
    commands.push(halt.ways_out);
    halt.ways_out = commands.join("; or ");
    halt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        epoch::LaneId,
        recovery::{CheckpointFacts, decide},
    };

    fn fact(epoch: u64) -> JournalFact {
        JournalFact {
            epoch: Epoch(epoch),
            attempt: Attempt(1),
            hash: epoch + 100,
            previous_hash: if epoch == 0 { 0 } else { epoch + 99 },
        }
    }

    fn offset(epoch: u64) -> CommittedOffset {
        let facts = Facts { lane: LaneId(3), ..Facts::default() };
        offset_of(&facts, &fact(epoch))
    }

    fn checkpoints(epoch: u64) -> CheckpointFacts {
        let candidate =
            CheckpointFact { epoch: Epoch(epoch), attempt: Attempt(1), hash: epoch + 100 };
        CheckpointFacts {
            is_unknown: false,
            newest: Some(Epoch(epoch)),
            candidate: Some(candidate),
        }
    }

    /// Offsets at an epoch, a journal from its beginning.
    fn facts(committed: Option<u64>, last: Option<u64>) -> Facts {
        Facts {
            lane: LaneId(3),
            committed: vec![committed.map(offset)],
            journal: last.map_or_else(JournalFacts::default, |last| (0..=last).map(fact).collect()),
            ..Facts::default()
        }
    }

    fn accepted(facts: &Facts, trusted: Trusted) -> Resolution {
        let outcome = resolve(facts, trusted);
        let Outcome::Accepted(found) = outcome else { panic!("{outcome:?}") };
        found
    }

    fn ways_out(facts: &Facts) -> String {
        let plan = decide(facts);
        let Plan::Halt(halt) = plan else { panic!("{plan:?}") };
        halt.ways_out
    }

    #[test]
    fn offsets_that_were_set_back_are_overruled_by_the_journal_or_trusted() {
        let facts = facts(Some(2), Some(9));
        for trusted in [Trusted::Journal, Trusted::Offsets] {
            let found = accepted(&facts, trusted);
            assert_eq!((found.epoch, found.previous_hash), (Epoch(10), 109));
            assert_eq!((found.positions, found.state), (trusted, StateFate::Kept));
        }
        let told = ways_out(&facts);
        for command in ["resolve 3 --from journal`", "resolve 3 --from offsets`"] {
            assert!(told.contains(command), "{told}");
        }
        assert!(!told.contains("--from checkpoint"), "{told}");
    }

    #[test]
    fn offsets_of_another_program_are_trusted_only_where_every_source_has_one() {
        let mut facts = facts(None, Some(4));
        let foreign = CommittedOffset { position: 7, metadata: String::new() };
        facts.committed = vec![Some(foreign.clone()), Some(foreign)];
        assert_eq!(accepted(&facts, Trusted::Offsets).epoch, Epoch(5));
        facts.committed[1] = None;
        assert!(matches!(resolve(&facts, Trusted::Offsets), Outcome::Refused(_)));
        assert_eq!(accepted(&facts, Trusted::Journal).epoch, Epoch(5));
    }

    #[test]
    fn without_a_journal_the_offsets_begin_anew_unless_a_checkpoint_is_there() {
        let mut facts = facts(Some(5), None);
        let found = accepted(&facts, Trusted::Offsets);
        assert_eq!((found.epoch, found.state), (Epoch::GENESIS, StateFate::Emptied));
        assert!(matches!(resolve(&facts, Trusted::Journal), Outcome::Refused(_)));
        facts.checkpoints = checkpoints(4);
        assert!(!matches!(resolve(&facts, Trusted::Offsets), Outcome::Accepted(_)));
        let found = accepted(&facts, Trusted::Checkpoint);
        assert_eq!((found.epoch, found.previous_hash), (Epoch(6), 104));
        assert!(ways_out(&facts).contains("resolve 3 --from checkpoint`"));
    }

    #[test]
    fn a_checkpoint_ahead_of_journal_and_offsets_is_gone_back_to() {
        let facts = Facts { checkpoints: checkpoints(8), ..facts(Some(4), Some(4)) };
        let found = accepted(&facts, Trusted::Checkpoint);
        assert_eq!((found.epoch, found.previous_hash), (Epoch(9), 108));
        for trusted in [Trusted::Journal, Trusted::Offsets] {
            assert!(matches!(resolve(&facts, trusted), Outcome::Refused(_)), "{trusted:?}");
        }
    }

    #[test]
    fn what_no_command_helps_names_none() {
        // A journal that was trimmed behind checkpoints that are gone, without local state.
        let mut facts = facts(Some(9), None);
        facts.journal = (6..=9).map(fact).collect();
        let told = ways_out(&facts);
        assert!(!told.contains("lanes resolve"), "{told}");
    }
}
