//! Lanes on their threads, and the supervisor.

use std::sync::atomic::Ordering;

use dovetail_runtime::{FatalKind, PipelineEnd, Supervisor};

use crate::support::{Disk, Fault, Topics, lane_setup, pipeline, revision};

#[test]
fn a_pipeline_finishes_when_all_lanes_have() {
    let topics = [Topics::new(), Topics::new()];
    let lanes = (0..2).map(|lane| lane_setup(lane, &topics[usize::from(lane)], &Disk::default()));
    let supervisor = Supervisor::start(&pipeline(revision("r1", 1)), lanes.collect()).unwrap();
    for (at, topics) in topics.iter().enumerate() {
        topics.append(&format!("a={at}"));
        topics.end();
    }
    assert_eq!(supervisor.join(), PipelineEnd::Finished);
    assert_eq!(topics[0].outputs(), ["r1:0#1"]);
    assert_eq!(topics[1].outputs(), ["r1:1#1"]);
}

#[test]
fn the_first_fatal_cause_stops_every_lane_and_decides_the_exit_code() {
    let topics = [Topics::new(), Topics::new()];
    let fault = Some(Fault::Refused(0));
    topics[1].next_commits([fault, fault, fault]);
    let lanes = (0..2).map(|lane| lane_setup(lane, &topics[usize::from(lane)], &Disk::default()));
    let supervisor = Supervisor::start(&pipeline(revision("r1", 1)), lanes.collect()).unwrap();
    let handle = supervisor.handle();
    let end = supervisor.join();
    assert_eq!(end.exit_code(), 3);
    let PipelineEnd::Failed(cause) = end else { panic!("expected a failure") };
    assert_eq!(cause.kind, FatalKind::Rule);
    assert_eq!(cause.lane.map(|lane| lane.0), Some(1));
    let reasons = handle.readiness().reasons;
    let codes: Vec<_> = reasons.iter().map(|reason| reason.code.name()).collect();
    assert_eq!(codes, ["fatal", "draining", "not_running", "not_running"]);
}

#[test]
fn a_panic_in_a_lane_is_a_defect_and_stops_the_pipeline() {
    let topics = Topics::new();
    let mut lane = lane_setup(0, &topics, &Disk::default());
    lane.decoder = Box::new(|_, _| panic!("a broken decoder"));
    topics.append("a=x");
    let supervisor = Supervisor::start(&pipeline(revision("r1", 1)), vec![lane]).unwrap();
    let end = supervisor.join();
    assert_eq!(end.exit_code(), 70);
    let PipelineEnd::Failed(cause) = end else { panic!("expected a failure") };
    assert!(cause.message.contains("a broken decoder"), "{cause}");
}

#[test]
fn a_stop_is_heard_while_the_lane_waits_for_a_broker_that_is_not_there() {
    let topics = Topics::new();
    topics.go_away();
    let lanes = vec![lane_setup(0, &topics, &Disk::default())];
    let supervisor = Supervisor::start(&pipeline(revision("r1", 1)), lanes).unwrap();
    while topics.waited.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    supervisor.handle().stop();
    let end = supervisor.join();
    assert_eq!((end.exit_code(), end), (0, PipelineEnd::Stopped));
    assert_eq!(topics.gave_up.load(Ordering::SeqCst), 0, "the stop was heard too late");
}
