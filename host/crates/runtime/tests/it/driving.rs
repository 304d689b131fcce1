//! One lane, driven by hand: committing, recovering, being fenced, stopping.

use std::{sync::atomic::Ordering, time::Duration};

use dovetail_core::state::StateStore;
use dovetail_runtime::{
    FatalKind, Handle,
    driver::{Advance, LaneEnd},
    revisions::{RevisionOrigin, RevisionState, SwapError},
};

use crate::support::{Disk, Driven, Fault, Topics, pipeline, revision};

fn started() -> (Topics, Disk, Driven) {
    let (topics, disk) = (Topics::new(), Disk::default());
    let driven = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 100);
    (topics, disk, driven)
}

fn fatal(end: Option<LaneEnd>) -> (FatalKind, String) {
    match end {
        Some(LaneEnd::Fatal(cause)) => (cause.kind, cause.message),
        other => panic!("expected a fatal cause, found {other:?}"),
    }
}

#[test]
fn a_lane_commits_what_it_took_and_shows_it() {
    let (topics, _, mut driven) = started();
    topics.append("a=x");
    topics.append("a=y");
    assert_eq!(driven.run_for(500), None);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"]);
    let views = driven.handle.lanes();
    assert_eq!(views[0].totals.inputs[0].records, 2);
    assert_eq!(views[0].totals.outputs, [2]);
    let status = views[0].status.as_ref().unwrap();
    assert_eq!(status.sources[0].position, 2);
    assert!(driven.handle.readiness().is_ready(), "{:?}", driven.handle.readiness());
}

#[test]
fn a_restart_goes_on_from_local_state_or_from_the_journal_alone() {
    for loses_disk in [false, true] {
        let (topics, disk, mut driven) = started();
        topics.append("a=x");
        driven.run_for(500);
        drop(driven);
        if loses_disk {
            disk.lose();
        }
        topics.append("a=y");
        let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
        again.run_for(500);
        assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"], "disk lost: {loses_disk}");
    }
}

#[test]
fn a_commit_in_doubt_counts_once_whether_it_happened_or_not() {
    for fault in [Fault::AnswerLost, Fault::RequestLost] {
        for disturbed in 0..3 {
            let (topics, _, mut driven) = started();
            let faults = (0..3).map(|at| (at == disturbed).then_some(fault));
            topics.next_commits(faults);
            topics.append("a=x");
            driven.run_for(1_000);
            topics.append("a=y");
            driven.run_for(1_000);
            assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"], "{fault:?} at commit {disturbed}");
            assert_eq!(driven.handle.lanes()[0].recoveries, 1);
        }
    }
}

#[test]
fn a_fenced_lane_stops_when_another_process_has_taken_over() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    let mut setup = pipeline(revision("r1", 1));
    setup.owner.host = "elsewhere".to_owned();
    let mut successor = Driven::new(&topics, &Disk::default(), &setup, 200);
    successor.run_for(500);
    topics.append("a=y");
    let (kind, message) = fatal(driven.run_for(5_000));
    assert_eq!(kind, FatalKind::Rule);
    assert!(message.contains("process 1 on elsewhere"), "{message}");
    successor.run_for(500);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"]);
    drop(disk);
}

#[test]
fn a_fenced_lane_without_a_successor_recovers_after_two_transaction_timeouts() {
    let (topics, _, mut driven) = started();
    topics.next_commits([None, Some(Fault::Fenced)]);
    topics.append("a=x");
    assert_eq!(driven.run_for(1_900), None);
    assert_eq!(topics.outputs(), Vec::<String>::new());
    assert!(!driven.handle.readiness().is_ready());
    assert_eq!(driven.run_for(1_000), None);
    assert_eq!(topics.outputs(), ["r1:x#1"]);
}

#[test]
fn a_clock_that_is_set_back_makes_no_recovery_longer() {
    for fault in [Fault::Fenced, Fault::RequestLost] {
        let (topics, _, mut driven) = started();
        driven.clock.0 = 10_000_000;
        let lost = Some(Fault::RequestLost);
        topics.next_commits([None, Some(fault), lost, lost, lost]);
        topics.append("a=x");
        assert_eq!(driven.run_for(500), None);
        assert_eq!(topics.outputs(), Vec::<String>::new());
        driven.clock.0 = 1_000;
        assert_eq!(driven.run_for(5_000), None);
        assert_eq!(topics.outputs(), ["r1:x#1"], "{fault:?}");
    }
}

#[test]
fn an_epoch_that_is_refused_three_times_stops_the_pipeline() {
    let (topics, _, mut driven) = started();
    // The same refusal, although records go to another partition each time.
    let fault = |partition| Some(Fault::Refused(partition));
    topics.next_commits([None, fault(7), None, fault(3), None, fault(0)]);
    topics.append("a=x");
    let (kind, message) = fatal(driven.run_for(10_000));
    assert_eq!(kind, FatalKind::Rule);
    assert!(message.contains("main[0]") && message.contains("too large"), "{message}");
    assert_eq!(topics.outputs(), Vec::<String>::new());
}

#[test]
fn a_refusal_that_passes_is_forgotten() {
    let (topics, _, mut driven) = started();
    let fault = Some(Fault::Refused(0));
    for value in ["a=x", "a=y"] {
        topics.next_commits([None, fault, None, fault, None]);
        topics.append(value);
        assert_eq!(driven.run_for(10_000), None);
        topics.next_commits([]);
    }
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"]);
}

#[test]
fn a_log_whose_machine_fails_three_times_stops_the_pipeline() {
    let (topics, _, mut driven) = started();
    let fault = Some(Fault::Failed);
    topics.next_commits([None, fault, None, fault, None, fault]);
    topics.append("a=x");
    let (kind, message) = fatal(driven.run_for(10_000));
    assert_eq!(kind, FatalKind::Internal);
    assert!(message.contains("no space left"), "{message}");
}

#[test]
fn a_store_that_shows_damage_is_moved_aside_and_rebuilt_from_the_journal() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    drop(driven);
    // Found by the plugin's read, when the lane is acquired again.
    disk.damage();
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    topics.append("a=y");
    assert_eq!(again.run_for(1_000), None);
    assert_eq!(disk.set_aside.load(Ordering::SeqCst), 1);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"]);
    // And while it runs.
    disk.damage();
    topics.append("b=z");
    assert_eq!(again.run_for(1_000), None);
    assert_eq!(disk.set_aside.load(Ordering::SeqCst), 2);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#1"]);
    assert!(again.handle.readiness().is_ready(), "{:?}", again.handle.readiness());
}

#[test]
fn a_store_that_cannot_apply_is_reopened_and_filled_from_the_journal() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    disk.fail(1);
    topics.append("a=y");
    assert_eq!(driven.run_for(1_000), None);
    assert_eq!(disk.opened.load(Ordering::SeqCst), 2);
    topics.append("a=z");
    driven.run_for(1_000);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#3"]);
}

#[test]
fn a_disk_that_stays_full_is_waited_for() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    disk.fail(8);
    topics.append("a=y");
    assert_eq!(driven.run_for(1_000), None);
    let readiness = driven.handle.readiness();
    let mut reasons = readiness.reasons.iter().map(|reason| &reason.message);
    assert!(reasons.any(|why| why.contains("the disk is full")), "{readiness:?}");
    assert_eq!(driven.run_for(60_000), None);
    assert!(driven.handle.readiness().is_ready(), "{:?}", driven.handle.readiness());
    topics.append("a=z");
    driven.run_for(1_000);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#3"]);
}

#[test]
fn a_starting_process_whose_disk_is_full_disturbs_nobody_who_works() {
    let (topics, _, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    let full = Disk::default();
    full.fail(u32::MAX);
    let mut starting = Driven::new(&topics, &full, &pipeline(revision("r1", 1)), 200);
    for record in ["a=y", "a=z"] {
        assert_eq!(starting.run_for(20_000), None);
        topics.append(record);
        driven.run_for(1_000);
    }
    let readiness = starting.handle.readiness();
    let mut reasons = readiness.reasons.iter().map(|reason| &reason.message);
    assert!(reasons.any(|why| why.contains("the disk is full")), "{readiness:?}");
    assert_eq!(driven.handle.lanes()[0].recoveries, 0);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#3"]);
    // Once there is room it takes the lane over, where the other left it.
    full.fail(0);
    starting.run_for(20_000);
    topics.append("a=w");
    fatal(driven.run_for(5_000));
    starting.run_for(1_000);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#3", "r1:w#4"]);
}

#[test]
fn local_state_of_another_history_is_rebuilt() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    // The same disk under topics of another history.
    let (other, other_disk) = (Topics::new(), Disk::default());
    let mut elsewhere = Driven::new(&other, &other_disk, &pipeline(revision("r1", 1)), 300);
    for value in ["a=p", "a=q"] {
        other.append(value);
        elsewhere.run_for(500);
    }
    drop(elsewhere);
    let mut mixed = Driven::new(&other, &disk, &pipeline(revision("r1", 1)), 400);
    other.append("a=r");
    assert_eq!(mixed.run_for(500), None);
    assert_eq!(other.outputs(), ["r1:p#1", "r1:q#2", "r1:r#3"]);
    assert_eq!(disk.set_aside.load(Ordering::SeqCst), 1, "it is moved aside, not deleted");
}

#[test]
fn offsets_that_are_lost_are_repaired_by_a_store_that_is_up_to_date() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    drop(driven);
    topics.cluster.forget_offsets();
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    topics.append("a=y");
    assert_eq!(again.run_for(500), None);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2"]);
}

#[test]
fn a_journal_that_lost_its_end_halts_while_local_state_still_holds_it() {
    for forgets_offsets in [false, true] {
        let (topics, disk, mut driven) = started();
        for value in ["a=x", "a=y"] {
            topics.append(value);
            driven.run_for(500);
        }
        drop(driven);
        topics.cluster.lose_journal_end(1);
        if forgets_offsets {
            topics.cluster.forget_offsets();
        }
        let rows = disk.size().rows;
        let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
        let (kind, message) = fatal(again.run_for(500));
        assert_eq!(kind, FatalKind::Rule);
        assert!(message.contains("restore the journal topic"), "{message}");
        assert_eq!(disk.size().rows, rows, "the last copy is kept");
    }
}

#[test]
fn lost_offsets_are_repaired_without_reading_the_journal_from_its_start() {
    let (topics, disk, mut driven) = started();
    for round in 0..20 {
        topics.append(&format!("a={round}"));
        driven.run_for(500);
    }
    drop(driven);
    topics.cluster.forget_offsets();
    let before = topics.journal_reads.load(Ordering::SeqCst);
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    again.settle();
    let read = topics.journal_reads.load(Ordering::SeqCst) - before;
    // The last is looked up before the fence and behind it; all of them are more than twenty.
    assert!(read <= 10, "{read} records of the journal were read");
    topics.append("a=z");
    again.run_for(500);
    assert_eq!(topics.outputs()[20..], ["r1:z#21"]);
}

#[test]
fn a_takeover_while_a_lane_is_read_back_is_not_taken_for_damage() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    driven.run_for(500);
    drop(driven);
    let (others, setup) = (topics.clone(), pipeline(revision("r1", 1)));
    topics.after_committed(move || {
        let mut other = Driven::new(&others, &Disk::default(), &setup, 300);
        for value in ["a=y", "a=z"] {
            others.append(value);
            assert_eq!(other.run_for(500), None);
        }
    });
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    assert_eq!(again.run_for(1_000), None);
    topics.append("a=last");
    assert_eq!(again.run_for(1_000), None);
    assert_eq!(topics.outputs(), ["r1:x#1", "r1:y#2", "r1:z#3", "r1:last#4"]);
}

#[test]
fn another_identity_is_refused_with_both_sides() {
    let (topics, disk, mut driven) = started();
    driven.run_for(500);
    drop(driven);
    let mut setup = pipeline(revision("r1", 1));
    setup.identity.inputs[0].partitions = 4;
    let (kind, message) = fatal(Driven::new(&topics, &disk, &setup, 200).run_for(500));
    assert_eq!(kind, FatalKind::Configuration);
    assert!(message.contains("1 partitions") && message.contains("4 partitions"), "{message}");
}

#[test]
fn a_stop_commits_what_was_taken() {
    let (topics, _, mut driven) = started();
    assert_eq!(driven.settle(), None);
    topics.append("a=x");
    assert_eq!(driven.settle(), None);
    assert_eq!(topics.outputs(), Vec::<String>::new());
    driven.handle.stop();
    assert_eq!(driven.settle(), Some(LaneEnd::Stopped));
    assert_eq!(topics.outputs(), ["r1:x#1"]);
}

#[test]
fn a_lane_whose_inputs_have_ended_finishes_at_once() {
    let (topics, disk, mut driven) = started();
    topics.append("a=x");
    topics.end();
    assert_eq!(driven.settle(), Some(LaneEnd::Finished));
    assert_eq!(topics.outputs(), ["r1:x#1"]);
    // Started again it has nothing to do.
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    assert_eq!(again.settle(), Some(LaneEnd::Finished));
    assert_eq!(topics.outputs(), ["r1:x#1"]);
}

#[test]
fn a_revision_takes_over_between_two_epochs_with_the_state() {
    let (topics, _, mut driven) = started();
    topics.append("a=x");
    assert_eq!(driven.settle(), None);
    let handle = driven.handle.clone();
    let swap = std::thread::spawn(move || {
        handle.swap(&revision("r2", 1), RevisionOrigin::File, || Ok(()))
    });
    while !swap.is_finished() {
        assert_eq!(driven.settle(), None);
        std::thread::yield_now();
    }
    assert_eq!(swap.join().unwrap(), Ok(()));
    topics.append("a=y");
    driven.run_for(500);
    assert_eq!(topics.outputs(), ["r1:x#1", "r2:y#2"]);
    assert_eq!(driven.handle.running_revision(), "r2");
    // A recovery goes on with the revision that has taken over.
    topics.next_commits([Some(Fault::RequestLost)]);
    topics.append("a=z");
    driven.run_for(1_000);
    assert_eq!(topics.outputs(), ["r1:x#1", "r2:y#2", "r2:z#3"]);
}

#[test]
fn a_slow_lane_settles_its_swap_when_it_gets_to_it() {
    let (topics, _, mut driven) = started();
    topics.append("a=x");
    assert_eq!(driven.settle(), None);
    let swap = |digest| {
        let revision = revision(digest, 1);
        driven.handle.swap_within(Duration::ZERO, &revision, RevisionOrigin::File, || Ok(()))
    };
    let states = |handle: &Handle| {
        let entries = handle.revisions().into_iter();
        entries.map(|entry| (entry.digest, entry.state)).collect::<Vec<_>>()
    };
    use RevisionState::{Active, Replaced, Switching};
    let is = |digest: &str, state| (digest.to_owned(), state);
    assert!(matches!(swap("r2"), Err(SwapError::Slow { .. })));
    assert_eq!(states(&driven.handle), [is("r1", Active), is("r2", Switching)]);
    // A later one comes before the lane has got to it.
    assert!(matches!(swap("r3"), Err(SwapError::Slow { .. })));
    let expected = [is("r1", Active), is("r2", Replaced), is("r3", Switching)];
    assert_eq!(states(&driven.handle), expected);
    assert_eq!(driven.settle(), None);
    let expected = [is("r1", Replaced), is("r2", Replaced), is("r3", Active)];
    assert_eq!(states(&driven.handle), expected);
    assert_eq!(driven.handle.running_revision(), "r3");
    topics.append("a=y");
    driven.run_for(500);
    assert_eq!(topics.outputs(), ["r1:x#1", "r3:y#2"]);
}

#[test]
fn what_a_lane_shows_is_taken_a_few_times_a_second_and_never_stays_old() {
    let (topics, disk, mut driven) = started();
    driven.run_for(1_000);
    let sized = || disk.sized.load(Ordering::SeqCst);
    let (before, epochs) = (sized(), driven.handle.lanes()[0].totals.epochs);
    for round in 0..100 {
        // Ten records end an epoch.
        (0..10).for_each(|_| topics.append(&format!("{round}=x")));
        assert_eq!(driven.settle(), None);
        driven.clock.0 += 5;
    }
    assert_eq!(driven.handle.lanes()[0].totals.epochs, epochs + 100);
    assert!(sized() - before <= 3, "the store was asked for its size {} times", sized() - before);
    driven.run_for(250);
    let position = driven.handle.lanes()[0].status.as_ref().unwrap().sources[0].position;
    assert_eq!(position, 1_000);
}

#[test]
fn a_source_that_is_wanted_again_is_fetched_before_the_lane_waits() {
    let (topics, disk) = (Topics::new(), Disk::default());
    let mut setup = pipeline(revision("r1", 1));
    setup.options.commit.max_records = 100_000;
    setup.options.commit.max_bytes = 1 << 30;
    let mut driven = Driven::new(&topics, &disk, &setup, 100);
    assert_eq!(driven.settle(), None);
    // What one turn leaves of it is too large for more to be wanted, and the next turn takes it all.
    let large = "x".repeat(3_000);
    (0..1_500).for_each(|at| topics.append(&format!("{at}={large}")));
    let mut turns = 0;
    while !matches!(driven.driver.advance(&mut driven.clock), Advance::Wait(_)) {
        turns += 1;
        if turns == 1 {
            topics.append("a=behind");
        }
    }
    driven.handle.stop();
    assert_eq!(driven.settle(), Some(LaneEnd::Stopped));
    assert_eq!(topics.outputs().len(), 1_501);
}

#[test]
fn a_revision_with_other_state_or_that_does_not_open_is_refused() {
    let (topics, _, mut driven) = started();
    assert_eq!(driven.settle(), None);
    for (digest, schema, reason) in
        [("r2", 2, "schema version 2"), ("unopenable", 1, "open says no")]
    {
        let refused =
            driven.handle.swap(&revision(digest, schema), RevisionOrigin::Push, || Ok(()));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    topics.append("a=x");
    driven.run_for(500);
    assert_eq!(topics.outputs(), ["r1:x#1"]);
    assert_eq!(driven.handle.revisions().len(), 3);
}

#[test]
fn an_epoch_ends_in_time_although_the_clock_was_set_back() {
    let (topics, disk, mut driven) = started();
    driven.clock.0 = 10_000_000;
    driven.run_for(500);
    drop(driven);
    let mut again = Driven::new(&topics, &disk, &pipeline(revision("r1", 1)), 200);
    assert_eq!(again.settle(), None);
    topics.append("a=x");
    assert_eq!(again.settle(), None);
    again.clock.0 += 99;
    assert_eq!(again.settle(), None);
    assert_eq!(topics.outputs(), Vec::<String>::new());
    again.clock.0 += 1;
    assert_eq!(again.settle(), None);
    assert_eq!(topics.outputs(), ["r1:x#1"]);
}
