//! Every row of the decision, and that it is total.
use super::*;
use crate::{
    epoch::{EpochRecord, LaneId, Owner, TimerFloors},
    time::NO_WATERMARK,
};

const LANE: LaneId = LaneId(0);

fn fact(epoch: u64) -> JournalFact {
    JournalFact {
        epoch: Epoch(epoch),
        attempt: Attempt(1),
        hash: epoch + 100,
        previous_hash: if epoch == 0 { 0 } else { epoch + 99 },
    }
}

fn journal(epochs: std::ops::RangeInclusive<u64>) -> JournalFacts {
    epochs.map(fact).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "facts hold what may be absent")]
fn offset(epoch: u64, hash: u64) -> Option<CommittedOffset> {
    let metadata = CommitMetadata {
        lane: LANE,
        epoch: Epoch(epoch),
        attempt: Attempt(1),
        journal_offset: 0,
        hash,
    };
    Some(CommittedOffset { position: 7, metadata: metadata.to_string() })
}

#[expect(clippy::unnecessary_wraps, reason = "facts hold what may be absent")]
fn stored(epoch: u64) -> Option<StoredHead> {
    let record = EpochRecord {
        lane: LANE,
        epoch: Epoch(epoch),
        attempt: Attempt(1),
        owner: Owner { host: String::new(), pid: 0, started_at: 0 },
        previous_hash: 0,
        identity: None,
        sources: Vec::new(),
        watermark: NO_WATERMARK,
        processing_time: 0,
        firing: None,
        continuation: None,
        timer_floors: TimerFloors::default(),
        revision: String::new(),
        outputs: 0,
        timers_fired: 0,
    };
    Some(StoredHead { record, hash: epoch + 100, journal_next: 0 })
}

fn decided(
    committed: Option<CommittedOffset>,
    journal: JournalFacts,
    stored: Option<StoredHead>,
) -> Plan {
    let committed = vec![committed.clone(), committed];
    decide(&Facts { committed, journal, stored, ..Facts::default() })
}

/// Nothing lies behind the store, and the offsets do not confirm it: the journal's last record is
/// looked up.
fn decided_by_last(
    committed: Option<CommittedOffset>,
    stored: Option<StoredHead>,
    last: Option<JournalFact>,
) -> Plan {
    let committed = vec![committed];
    let facts = Facts { committed, stored, last, ..Facts::default() };
    assert!(facts.wants_last());
    decide(&facts)
}

fn resume(target: u64, repairs_offsets: bool) -> Plan {
    Plan::Resume { target: Epoch(target), repairs_offsets }
}

#[test]
fn nothing_anywhere_is_genesis() {
    assert_eq!(decided(None, JournalFacts::default(), None), Plan::Genesis);
}

#[test]
fn state_at_the_committed_epoch_runs_and_behind_it_replays() {
    assert_eq!(decided(offset(5, 105), JournalFacts::default(), stored(5)), resume(5, false));
    assert_eq!(decided(offset(5, 105), journal(4..=5), stored(3)), resume(5, false));
}

#[test]
fn without_local_state_the_whole_journal_rebuilds_it() {
    assert_eq!(decided(offset(2, 102), journal(0..=2), None), resume(2, false));
    assert!(matches!(decided(offset(5, 105), journal(3..=5), None), Plan::Halt(_)));
}

#[test]
fn a_journal_one_ahead_of_the_offsets_is_trusted_and_more_is_not() {
    assert_eq!(decided(offset(4, 104), journal(0..=5), None), resume(5, true));
    assert!(matches!(decided(offset(3, 103), journal(0..=5), None), Plan::Halt(_)));
}

#[test]
fn lost_offsets_are_repaired_from_the_journal() {
    assert_eq!(decided(None, journal(0..=5), None), resume(5, true));
}

#[test]
fn a_journal_behind_the_offsets_halts() {
    assert!(matches!(decided(offset(6, 106), journal(0..=5), None), Plan::Halt(_)));
    assert!(matches!(decided(offset(6, 106), JournalFacts::default(), None), Plan::Halt(_)));
}

#[test]
fn the_same_epoch_of_two_attempts_halts() {
    assert!(matches!(decided(offset(5, 999), journal(0..=5), None), Plan::Halt(_)));
}

#[test]
fn state_of_another_history_is_rebuilt() {
    let mut foreign = stored(3);
    foreign.as_mut().unwrap().hash = 1;
    assert!(matches!(decided(offset(5, 105), journal(4..=5), foreign), Plan::RebuildStore { .. }));
    let ahead = decided_by_last(offset(4, 104), stored(5), Some(fact(4)));
    assert!(matches!(ahead, Plan::RebuildStore { .. }));
}

#[test]
fn a_store_at_the_journals_end_goes_on_although_the_offsets_are_lost_or_lag_behind() {
    assert_eq!(decided_by_last(None, stored(5), Some(fact(5))), resume(5, true));
    assert_eq!(decided_by_last(offset(4, 104), stored(5), Some(fact(5))), resume(5, true));
    assert_eq!(decided_by_last(None, stored(0), Some(fact(0))), resume(0, true));
}

#[test]
fn a_store_is_not_given_up_for_a_journal_that_cannot_replace_it() {
    // The journal lost its end, or everything: the store may be the last copy.
    let halts = |plan| matches!(plan, Plan::Halt(_));
    assert!(halts(decided_by_last(offset(6, 106), stored(5), Some(fact(4)))));
    assert!(halts(decided_by_last(offset(6, 106), stored(5), None)));
    assert!(halts(decided_by_last(offset(3, 103), stored(5), Some(fact(5)))));
    let mut foreign = stored(3);
    foreign.as_mut().unwrap().hash = 1;
    assert!(halts(decided(offset(7, 107), journal(4..=5), foreign)));
}

#[test]
fn state_without_any_trace_in_the_log_halts() {
    assert!(matches!(decided(None, JournalFacts::default(), stored(5)), Plan::Halt(_)));
}

#[test]
fn a_journal_that_has_lost_what_the_store_has_applied_halts() {
    // Unless offsets and journal agree on an earlier epoch, the store is the last copy.
    for committed in [offset(5, 105), None] {
        for last in [None, Some(fact(4))] {
            let (committed, stored) = (vec![committed.clone()], stored(5));
            let facts =
                Facts { committed, stored, last, is_journal_short: true, ..Facts::default() };
            assert!(facts.wants_last());
            assert!(matches!(decide(&facts), Plan::Halt(_)), "{facts:?}");
        }
    }
}

#[test]
fn foreign_or_differing_metadata_halts() {
    let foreign = Some(CommittedOffset { position: 1, metadata: "x".into() });
    assert!(matches!(decided(foreign, journal(0..=1), None), Plan::Halt(_)));
    let facts = Facts {
        committed: vec![offset(1, 101), offset(0, 100)],
        journal: journal(0..=1),
        ..Facts::default()
    };
    assert!(matches!(decide(&facts), Plan::Halt(_)));
}

#[test]
fn offsets_that_a_broker_forgot_with_a_deleted_topic_are_repaired() {
    let facts = Facts {
        committed: vec![None, offset(1, 101)],
        journal: journal(0..=1),
        ..Facts::default()
    };
    assert_eq!(decide(&facts), resume(1, true));
    let facts = Facts { journal: JournalFacts::default(), stored: stored(1), ..facts };
    assert!(facts.wants_last());
    assert_eq!(decide(&Facts { last: Some(fact(1)), ..facts }), resume(1, true));
}

#[test]
fn a_chain_with_a_gap_halts() {
    let broken = [fact(0), fact(2)].into_iter().collect();
    assert!(matches!(decided(offset(2, 102), broken, None), Plan::Halt(_)));
}

#[test]
fn facts_of_a_journal_keep_its_ends_and_its_first_break() {
    let facts: JournalFacts = [fact(3), fact(4), fact(6), fact(8)].into_iter().collect();
    assert_eq!(facts.count, 4);
    assert_eq!((facts.first, facts.last), (Some(fact(3)), Some(fact(8))));
    assert_eq!(facts.broken, Some(Epoch(4)));
    let mut other = fact(5);
    other.previous_hash = 7;
    assert_eq!([fact(4), other].into_iter().collect::<JournalFacts>().broken, Some(Epoch(4)));
    assert_eq!(journal(0..=9).broken, None);
}

fn checkpoint(epoch: u64) -> CheckpointFact {
    CheckpointFact { epoch: Epoch(epoch), attempt: Attempt(1), hash: epoch + 100 }
}

/// Without local state, the journal read from behind the newest checkpoint.
fn decided_without_state(
    committed: Option<CommittedOffset>,
    journal: JournalFacts,
    last: Option<JournalFact>,
    candidate: Option<CheckpointFact>,
) -> Plan {
    let newest = candidate.map(|candidate| candidate.epoch);
    let checkpoints = CheckpointFacts { newest, candidate, ..CheckpointFacts::default() };
    let committed = vec![committed];
    decide(&Facts { committed, journal, last, checkpoints, ..Facts::default() })
}

#[test]
fn without_local_state_a_checkpoint_on_the_chain_is_restored() {
    // Row 2c: the journal goes on from it, however far it was trimmed before.
    assert_eq!(
        decided_without_state(offset(9, 109), journal(6..=9), None, Some(checkpoint(5))),
        Plan::Restore
    );
    // It is the committed epoch itself.
    assert_eq!(
        decided_without_state(offset(5, 105), JournalFacts::default(), None, Some(checkpoint(5))),
        Plan::Restore
    );
    // The offsets are lost or lag behind: repaired as ever, once it is restored.
    for committed in [None, offset(8, 108)] {
        let plan = decided_without_state(committed, journal(6..=9), None, Some(checkpoint(5)));
        assert_eq!(plan, Plan::Restore);
    }
    let last = Some(fact(5));
    assert_eq!(
        decided_without_state(None, JournalFacts::default(), last, Some(checkpoint(5))),
        Plan::Restore
    );
}

#[test]
fn before_the_offsets_are_asked_for_the_journals_last_record_confirms_a_checkpoint() {
    let candidate = Some(checkpoint(5));
    let checkpoints = CheckpointFacts { is_unknown: false, newest: Some(Epoch(5)), candidate };
    let mut facts = Facts { checkpoints, ..Facts::default() };
    assert!(
        facts.wants_last(),
        "an idle lane's journal holds nothing behind its newest checkpoint"
    );
    facts.last = Some(fact(5));
    assert_eq!(decide(&facts), Plan::Restore);
}

#[test]
fn a_checkpoint_off_the_chain_is_passed_over_and_the_last_one_ends_in_a_halt() {
    let mut foreign = checkpoint(5);
    foreign.hash = 1;
    let plan = decided_without_state(offset(9, 109), journal(6..=9), None, Some(foreign));
    assert!(matches!(plan, Plan::PassOver { .. }), "{plan:?}");
    // Trimmed further than it reaches.
    let plan = decided_without_state(offset(9, 109), journal(8..=9), None, Some(checkpoint(5)));
    assert!(matches!(plan, Plan::PassOver { .. }), "{plan:?}");
    // Row 2e.
    let Plan::Halt(halt) = decided_without_state(offset(9, 109), journal(8..=9), None, None) else {
        panic!("nothing to begin from");
    };
    assert!(halt.to_string().contains("begins at epoch 8"), "{halt}");
    assert!(halt.to_string().contains("checkpoint store"), "{halt}");
}

#[test]
fn state_of_another_history_is_moved_aside_before_a_checkpoint_is_looked_at() {
    let checkpoints = CheckpointFacts {
        newest: Some(Epoch(5)),
        candidate: Some(checkpoint(5)),
        ..CheckpointFacts::default()
    };
    let committed = vec![offset(9, 109)];
    // Row 2d and a state older than what the journal was trimmed to.
    for (state, journal, last) in
        [(11, JournalFacts::default(), Some(fact(9))), (2, journal(6..=9), None)]
    {
        let (committed, stored) = (committed.clone(), stored(state));
        let plan =
            decide(&Facts { committed, journal, stored, last, checkpoints, ..Facts::default() });
        assert!(matches!(plan, Plan::RebuildStore { .. }), "{plan:?}");
    }
    // Good state is used, whatever checkpoints there are.
    let stored = stored(9);
    let plan = decide(&Facts { committed, stored, checkpoints, ..Facts::default() });
    assert_eq!(plan, resume(9, false));
}

#[test]
fn a_checkpoint_ahead_of_everything_committed_halts() {
    // Row 6, also with local state that agrees with journal and offsets.
    for stored in [None, stored(4)] {
        let checkpoints = CheckpointFacts {
            newest: Some(Epoch(5)),
            candidate: Some(checkpoint(5)),
            ..CheckpointFacts::default()
        };
        let facts = Facts {
            committed: vec![offset(4, 104)],
            last: Some(fact(4)),
            is_journal_short: true,
            stored,
            checkpoints,
            ..Facts::default()
        };
        let Plan::Halt(halt) = decide(&facts) else { panic!("{facts:?}") };
        assert!(halt.found.contains("checkpoint of epoch 5"), "{halt}");
    }
}

#[test]
fn a_checkpoint_without_any_trace_in_the_log_halts() {
    // Row 9.
    let plan = decided_without_state(None, JournalFacts::default(), None, Some(checkpoint(5)));
    assert!(matches!(plan, Plan::Halt(_)), "{plan:?}");
}

#[test]
fn a_checkpoint_store_that_does_not_answer_is_waited_for_only_where_it_is_needed() {
    let unknown = |committed, journal, stored| {
        let checkpoints = CheckpointFacts { is_unknown: true, ..CheckpointFacts::default() };
        decide(&Facts {
            committed: vec![committed],
            journal,
            stored,
            checkpoints,
            ..Facts::default()
        })
    };
    let awaits = |plan| matches!(plan, Plan::AwaitCheckpoints { .. });
    assert!(awaits(unknown(None, JournalFacts::default(), None)));
    assert!(awaits(unknown(offset(9, 109), journal(6..=9), None)));
    assert_eq!(unknown(offset(9, 109), journal(0..=9), None), resume(9, false));
    assert_eq!(unknown(offset(9, 109), journal(6..=9), stored(5)), resume(9, false));
}

#[test]
fn the_decision_is_total_and_restores_only_what_the_journal_continues() {
    let options = || std::iter::once(None).chain((0_u64..4).map(Some));
    let both = || options().flat_map(|one| options().map(move |other| (one, other)));
    let mut restored = 0;
    for (committed, state) in both() {
        let journals = [(0, 0), (0, 2), (1, 3), (2, 2), (3, 3), (4, 3)];
        for ((begin, end), candidate) in
            journals.into_iter().flat_map(|it| options().map(move |of| (it, of)))
        {
            let journal: JournalFacts = (begin..=end).map(fact).collect();
            let facts = Facts {
                committed: vec![committed.and_then(|epoch| offset(epoch, epoch + 100))],
                journal,
                stored: state.and_then(stored),
                checkpoints: CheckpointFacts {
                    is_unknown: false,
                    newest: candidate.map(Epoch),
                    candidate: candidate.map(checkpoint),
                },
                ..Facts::default()
            };
            let is_continued =
                journal.first.is_none_or(|it| Some(it.epoch.0) == candidate.map(|it| it + 1));
            let is_restored = decide(&facts) == Plan::Restore;
            assert!(!is_restored || (state.is_none() && is_continued), "{facts:?}");
            restored += u32::from(is_restored);
        }
    }
    assert!(restored > 0);
}

#[test]
fn what_contradicts_itself_does_not_depend_on_the_local_state() {
    let look = |committed, journal: JournalFacts, last| {
        let candidate = journal.first.map(|first| checkpoint(first.epoch.0 - 1));
        let checkpoints = CheckpointFacts { candidate, ..CheckpointFacts::default() };
        let committed = vec![committed];
        contradiction(&Facts { committed, journal, last, checkpoints, ..Facts::default() })
    };
    // Trimmed journals need a base, which is not looked at.
    assert_eq!(look(offset(9, 109), journal(6..=9), None), None);
    assert_eq!(look(offset(8, 108), journal(6..=9), None), None);
    assert_eq!(look(None, journal(6..=9), None), None);
    assert_eq!(look(None, JournalFacts::default(), None), None);
    for epoch in [3, 7, 12] {
        assert!(look(offset(epoch, epoch + 100), journal(6..=9), None).is_some());
    }
    assert!(look(offset(3, 103), JournalFacts::default(), None).is_some());
}
