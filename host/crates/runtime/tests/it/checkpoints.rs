//! One lane's checkpoints, driven by hand: what is uploaded, restored, trimmed and collected, and
//! that a store that fails disturbs nothing but itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crossbeam_channel::{Receiver, bounded};
use dovetail_core::{
    checkpoint::{CheckpointStore as _, MemoryCheckpoints, memory::WriteFault},
    epoch::LaneId,
};
use dovetail_runtime::{
    CheckpointSetup, FatalKind, PipelineSetup,
    checkpointer::{Job, Worker},
    driver::LaneEnd,
    setup::BeforeTrim,
};

use crate::support::{Disk, Driven, Fault, Topics, pipeline, revision};

const LANE: LaneId = LaneId(0);
const EVERY: i64 = 1_000;

fn setup(store: &MemoryCheckpoints, untrimmed: Option<&str>) -> PipelineSetup {
    let checkpoints = CheckpointSetup {
        store: Arc::new(store.clone()),
        every: EVERY,
        keep: 2,
        timeout: 10_000,
        grace: CheckpointSetup::GRACE_DEFAULT,
        before_trim: None,
    };
    let untrimmed = untrimmed.map(str::to_owned);
    PipelineSetup { checkpoints: Some(checkpoints), untrimmed, ..pipeline(revision("r1", 1)) }
}

/// A lane with its checkpointer, whose jobs are done when the test says so.
struct Rig {
    topics: Topics,
    disk: Disk,
    store: MemoryCheckpoints,
    driven: Driven,
    jobs: Receiver<Job>,
    worker: Worker,
}

impl Rig {
    fn start(topics: &Topics, disk: &Disk, store: &MemoryCheckpoints, attempt: u128) -> Self {
        Self::start_as(topics, disk, store, attempt, &setup(store, None))
    }

    fn start_as(
        topics: &Topics,
        disk: &Disk,
        store: &MemoryCheckpoints,
        attempt: u128,
        setup: &PipelineSetup,
    ) -> Self {
        let (sender, jobs) = bounded(1);
        let mut driven = Driven::new(topics, disk, setup, attempt);
        driven.driver = driven.driver.with_checkpointer(sender);
        let (topics, disk, store) = (topics.clone(), disk.clone(), store.clone());
        Self { topics, disk, store, driven, jobs, worker: Worker::default() }
    }

    fn new() -> Self {
        Self::start(&Topics::new(), &Disk::default(), &MemoryCheckpoints::default(), 100)
    }

    fn work(&mut self) {
        let now = self.driven.clock.0;
        self.store.set_time(now);
        while let Ok(job) = self.jobs.try_recv() {
            self.worker.work(job, &|| now, &|| false);
        }
    }

    /// Commits a record, waits until a checkpoint is due, takes it and tidies.
    fn checkpoint(&mut self, record: &str) -> Option<LaneEnd> {
        self.topics.append(record);
        let end = self.driven.run_for(EVERY + 200);
        for _ in 0..3 {
            self.work();
            self.driven.settle();
        }
        end
    }

    fn epochs(&self) -> Vec<u64> {
        self.store.list(LANE).unwrap().iter().map(|id| id.epoch.0).collect()
    }
}

#[test]
fn a_lost_disk_is_restored_from_the_newest_checkpoint_behind_which_the_journal_is_trimmed() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        assert_eq!(rig.checkpoint(record), None);
    }
    assert_eq!(rig.epochs().len(), 2, "{:?}", rig.epochs());
    let second = rig.store.list(LANE).unwrap()[1];
    let second = rig.store.manifest(second).unwrap();
    assert_eq!(rig.topics.cluster.journal_start(), second.journal_next);
    rig.topics.append("a=4");
    rig.driven.run_for(300);
    let Rig { topics, disk, store, driven, .. } = rig;
    drop(driven);
    disk.lose();
    let mut again = Rig::start(&topics, &disk, &store, 200);
    assert_eq!(again.checkpoint("a=5"), None);
    assert_eq!(disk.restored.load(Ordering::SeqCst), 1);
    assert_eq!(topics.outputs(), ["r1:1#1", "r1:2#2", "r1:3#3", "r1:4#4", "r1:5#5"]);
    // What goes on publishes again.
    assert_eq!(again.driven.handle.lanes()[0].checkpoints.as_ref().unwrap().failures, 0);
    assert!(again.epochs()[0] > second.id.epoch.0 + 1);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    let Rig { topics, disk, store, driven, .. } = rig;
    drop(driven);
    let newest = store.manifest(store.list(LANE).unwrap()[0]).unwrap();
    store.damage(LANE, newest.files[0].hash);
    disk.lose();
    let mut again = Rig::start(&topics, &disk, &store, 200);
    assert_eq!(again.checkpoint("a=4"), None);
    assert_eq!(disk.restored.load(Ordering::SeqCst), 2);
    assert_eq!(topics.outputs(), ["r1:1#1", "r1:2#2", "r1:3#3", "r1:4#4"]);
}

#[test]
fn without_any_usable_checkpoint_a_trimmed_journal_halts_the_lane() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    let Rig { topics, disk, store, driven, .. } = rig;
    drop(driven);
    for id in store.list(LANE).unwrap() {
        let manifest = store.manifest(id).unwrap();
        manifest.files.iter().for_each(|file| store.damage(LANE, file.hash));
    }
    disk.lose();
    let mut again = Rig::start(&topics, &disk, &store, 200);
    let Some(LaneEnd::Fatal(cause)) = again.driven.run_for(60_000) else { panic!("it must halt") };
    assert_eq!(cause.kind, FatalKind::Rule);
    assert!(cause.message.contains("no checkpoint that it continues"), "{}", cause.message);
    assert_eq!(topics.outputs(), ["r1:1#1", "r1:2#2", "r1:3#3"]);
}

/// Pain P40.
#[test]
fn a_failing_store_stops_no_commit_shows_after_three_failures_and_heals() {
    let mut rig = Rig::new();
    rig.checkpoint("a=0");
    rig.checkpoint("a=1");
    let trimmed = rig.topics.cluster.journal_start();
    rig.store.fail_writes(WriteFault::Refused);
    for failures in 1..=4 {
        rig.checkpoint("a=x");
        let checkpoints = rig.driven.handle.lanes()[0].checkpoints.clone().unwrap();
        assert_eq!(checkpoints.failures, failures);
        let readiness = rig.driven.handle.readiness();
        let reason =
            readiness.reasons.iter().find(|reason| reason.code.name() == "checkpoint_store");
        assert_eq!(reason.is_some(), failures >= 3, "{readiness:?}");
        if let Some(reason) = reason {
            assert!(reason.message.contains("memory:"), "{}", reason.message);
            assert!(reason.message.contains("refuses to write"), "{}", reason.message);
        }
    }
    assert_eq!(rig.topics.outputs().len(), 6);
    assert_eq!(rig.topics.cluster.journal_start(), trimmed);
    rig.store.fail_writes(WriteFault::None);
    rig.checkpoint("a=y");
    assert!(rig.driven.handle.readiness().is_ready(), "{:?}", rig.driven.handle.readiness());
    assert!(rig.topics.cluster.journal_start() > trimmed);
}

#[test]
fn a_freeze_that_fails_on_a_lane_without_work_is_counted_and_the_store_is_opened_again() {
    let mut rig = Rig::new();
    rig.checkpoint("a=0");
    rig.topics.append("a=1");
    rig.driven.run_for(300);
    rig.disk.stop();
    let shown = |rig: &Rig| rig.driven.handle.lanes()[0].checkpoints.clone().unwrap();
    rig.driven.run_for(EVERY + 200);
    assert_eq!(shown(&rig).failures, 1);
    let told = shown(&rig).last_error.unwrap();
    assert!(told.contains("too many open files"), "{told}");
    rig.driven.settle();
    assert_eq!(rig.disk.opened.load(Ordering::SeqCst), 2);
    rig.checkpoint("a=2");
    assert_eq!(shown(&rig).failures, 0);
    assert_eq!(rig.topics.outputs(), ["r1:0#1", "r1:1#2", "r1:2#3"]);
}

#[test]
fn a_freeze_that_does_not_end_is_a_failure_after_each_timeout_and_stops_no_commit() {
    let mut rig = Rig::new();
    rig.disk.stick(true);
    for failures in 1..=3 {
        rig.topics.append("a=1");
        rig.driven.run_for(10_000 + EVERY);
        let shown = rig.driven.handle.lanes()[0].checkpoints.clone().unwrap();
        assert_eq!(shown.failures, failures);
        let told = shown.last_error.unwrap();
        assert!(told.contains("not written to files within 10000 ms"), "{told}");
        let readiness = rig.driven.handle.readiness();
        let is_shown = readiness.reasons.iter().any(|it| it.code.name() == "checkpoint_store");
        assert_eq!(is_shown, failures == 3, "{readiness:?}");
    }
    rig.disk.stick(false);
    rig.checkpoint("a=2");
    assert!(rig.driven.handle.readiness().is_ready(), "{:?}", rig.driven.handle.readiness());
    assert_eq!(rig.topics.outputs().len(), 4);
}

#[test]
fn a_store_that_does_not_answer_is_waited_for_only_by_a_start_that_needs_it() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    rig.store.set_away(true);
    // A recovery in the same process needs it not, although the journal is trimmed.
    rig.topics.next_commits([Some(Fault::RequestLost)]);
    rig.topics.append("a=4");
    rig.driven.run_for(2_000);
    assert_eq!(rig.topics.outputs().len(), 4);
    let Rig { topics, disk, store, driven, .. } = rig;
    drop(driven);
    disk.lose();
    let mut again = Rig::start(&topics, &disk, &store, 200);
    assert_eq!(again.driven.run_for(5_000), None);
    let readiness = again.driven.handle.readiness();
    assert!(readiness.reasons[0].message.contains("memory:: it does not answer"), "{readiness:?}");
    store.set_away(false);
    assert_eq!(again.checkpoint("a=5"), None);
    again.driven.run_for(20_000);
    assert_eq!(topics.outputs(), ["r1:1#1", "r1:2#2", "r1:3#3", "r1:4#4", "r1:5#5"]);
}

#[test]
fn a_start_that_waits_for_the_checkpoint_store_disturbs_nobody_who_works() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    rig.store.set_away(true);
    let mut starting = Rig::start(&rig.topics, &Disk::default(), &rig.store, 200);
    assert_eq!(starting.driven.run_for(20_000), None);
    rig.topics.append("a=4");
    rig.driven.run_for(2_000);
    assert_eq!(rig.driven.handle.lanes()[0].recoveries, 0);
    assert_eq!(rig.topics.outputs().len(), 4);
}

#[test]
fn a_lost_checkpoint_store_is_no_obstacle_where_local_state_and_identity_are_there() {
    let mut rig = Rig::new();
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    let Rig { topics, disk, driven, .. } = rig;
    assert!(topics.cluster.journal_start() > 0);
    drop(driven);
    let empty = MemoryCheckpoints::default();
    let mut setup = setup(&empty, None);
    setup.committed = Some(setup.identity.clone());
    let mut again = Rig::start_as(&topics, &disk, &empty, 200, &setup);
    assert_eq!(again.checkpoint("a=4"), None);
    assert_eq!(topics.outputs(), ["r1:1#1", "r1:2#2", "r1:3#3", "r1:4#4"]);
    assert_eq!(again.epochs().len(), 1);
}

#[test]
fn an_answer_that_is_lost_costs_a_second_try_and_no_second_manifest() {
    let mut rig = Rig::new();
    rig.store.fail_writes(WriteFault::Ambiguous);
    rig.checkpoint("a=1");
    rig.store.fail_writes(WriteFault::None);
    let before = rig.epochs();
    rig.checkpoint("a=2");
    let checkpoints = rig.driven.handle.lanes()[0].checkpoints.clone().unwrap();
    assert_eq!(checkpoints.failures, 0);
    assert!(before.len() <= 1 && rig.epochs().len() == before.len() + 1);
}

#[test]
fn a_checkpoint_that_is_asked_for_is_answered_with_its_name_or_the_failure() {
    let mut rig = Rig::new();
    rig.topics.append("a=1");
    rig.driven.run_for(10);
    let handle = rig.driven.handle.clone();
    for is_away in [false, true] {
        rig.store.set_away(is_away);
        rig.topics.append("a=2");
        rig.driven.run_for(300);
        let (asked, answer) = bounded(1);
        let handle = handle.clone();
        let asking = std::thread::spawn(move || asked.send(handle.checkpoint()).unwrap());
        let answer = loop {
            rig.driven.settle();
            rig.work();
            if let Ok(answer) = answer.try_recv() {
                break answer;
            }
            std::thread::yield_now();
        };
        asking.join().unwrap();
        assert_eq!(answer[0].0, LANE);
        assert_eq!(answer[0].1.is_err(), is_away, "{answer:?}");
    }
}

#[test]
fn a_checkpoint_that_was_frozen_before_it_was_asked_for_is_no_answer() {
    let mut rig = Rig::new();
    rig.topics.append("a=1");
    rig.driven.run_for(EVERY + 200);
    // Frozen and not yet uploaded.
    let before = rig.jobs.recv().unwrap();
    rig.topics.append("a=2");
    rig.driven.run_for(300);
    let (sender, answer) = bounded(1);
    let handle = rig.driven.handle.clone();
    let news = || *rig.topics.news.0.lock().unwrap();
    let before_asking = news();
    let asking = std::thread::spawn(move || sender.send(handle.checkpoint()).unwrap());
    // The lane is woken when the question lies before it.
    while news() == before_asking {
        std::thread::yield_now();
    }
    rig.driven.settle();
    let now = rig.driven.clock.0;
    rig.worker.work(before, &|| now, &|| false);
    let earlier = rig.epochs()[0];
    let answer = loop {
        rig.driven.settle();
        rig.work();
        if let Ok(answer) = answer.try_recv() {
            break answer;
        }
        std::thread::yield_now();
    };
    asking.join().unwrap();
    let taken = answer[0].1.as_ref().unwrap();
    assert!(taken.epoch > earlier, "{taken:?}, frozen before: {earlier}");
}

#[test]
fn nothing_is_trimmed_where_the_store_shares_the_disk_and_readiness_says_so() {
    let store = MemoryCheckpoints::default();
    let why = "the checkpoint store is on the disk of `state.dir`";
    let setup = setup(&store, Some(why));
    let mut rig = Rig::start_as(&Topics::new(), &Disk::default(), &store, 100, &setup);
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    assert_eq!(rig.epochs().len(), 2);
    assert_eq!(rig.topics.cluster.journal_start(), 0);
    let readiness = rig.driven.handle.readiness();
    assert!(readiness.is_ready() && readiness.warnings == [why], "{readiness:?}");
}

#[test]
fn a_trim_that_is_objected_to_is_left_out_and_told_until_it_may_be_done() {
    let store = MemoryCheckpoints::default();
    let mut setup = setup(&store, None);
    let objects = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&objects);
    let committed = setup.identity.clone();
    let before_trim: BeforeTrim = Arc::new(move |identity| {
        assert_eq!(*identity, committed);
        match asked.load(Ordering::SeqCst) {
            true => Err("its disk is gone".to_owned()),
            false => Ok(()),
        }
    });
    setup.checkpoints.as_mut().unwrap().before_trim = Some(before_trim);
    let mut rig = Rig::start_as(&Topics::new(), &Disk::default(), &store, 100, &setup);
    for record in ["a=1", "a=2", "a=3"] {
        rig.checkpoint(record);
    }
    let trimmed = rig.topics.cluster.journal_start();
    assert!(trimmed > 0);
    objects.store(true, Ordering::SeqCst);
    rig.checkpoint("a=4");
    assert_eq!(rig.topics.cluster.journal_start(), trimmed);
    let readiness = rig.driven.handle.readiness();
    assert_eq!(readiness.warnings, ["lane 0: its disk is gone"]);
    objects.store(false, Ordering::SeqCst);
    rig.checkpoint("a=5");
    assert!(rig.topics.cluster.journal_start() > trimmed);
    assert_eq!(rig.driven.handle.readiness().warnings, Vec::<String>::new());
}

#[test]
fn what_has_not_changed_is_not_checkpointed_again() {
    let mut rig = Rig::new();
    rig.checkpoint("a=1");
    let before = rig.epochs();
    for _ in 0..5 {
        rig.driven.run_for(EVERY);
        rig.driven.settle();
        rig.work();
    }
    assert_eq!(rig.epochs(), before);
}
