//! Two processes of one pipeline, their lanes driven by hand: lane 0 decides which goes on.

use std::sync::Arc;

use dovetail_runtime::{FatalKind, claim::Claim, driver::LaneEnd};

use crate::support::{Disk, Driven, Fault, Topics, pipeline, revision};

/// The two lanes of a process.
fn process(topics: &[Topics; 2], host: &str, attempt: u128) -> [Driven; 2] {
    let mut setup = pipeline(revision("r1", 1));
    setup.owner.host = host.to_owned();
    let claim = Arc::new(Claim::default());
    [0_u16, 1].map(|lane| {
        let of_lane = &topics[usize::from(lane)];
        let attempt = attempt + u128::from(lane) * 1_000;
        let mut driven = Driven::of_lane(lane, of_lane, &Disk::default(), &setup, attempt);
        driven.driver = driven.driver.with_claim(Arc::clone(&claim));
        driven
    })
}

#[test]
fn of_two_processes_that_took_lanes_from_each_other_the_owner_of_lane_0_goes_on() {
    let topics = [Topics::new(), Topics::new()];
    let [mut first_0, mut first_1] = process(&topics, "first", 100);
    let [mut second_0, mut second_1] = process(&topics, "second", 200);
    for lane in [&mut first_0, &mut second_0, &mut second_1, &mut first_1] {
        assert_eq!(lane.run_for(500), None);
    }
    // Each has one lane of the other: the owner of lane 0 takes back what is its own.
    topics[1].append("a=x");
    assert_eq!(second_1.run_for(500), None);
    assert_eq!(second_1.handle.lanes()[0].phase.name(), "fenced");
    assert_eq!(second_0.run_for(500), None);
    assert_eq!(second_1.run_for(500), None);
    assert_eq!(second_1.handle.lanes()[0].phase.name(), "running");
    assert_eq!(topics[1].outputs(), ["r1:x#1"]);

    // The other hears from its lane 0 whose the pipeline is; its lane 1 takes nothing back.
    topics[1].append("a=y");
    assert_eq!(first_1.run_for(500), None);
    let Some(LaneEnd::Fatal(cause)) = first_0.run_for(500) else { panic!("lane 0 goes on") };
    assert_eq!(cause.kind, FatalKind::Rule);
    assert!(cause.message.contains("process 1 on second"), "{cause}");
    assert_eq!(second_1.run_for(500), None);
    // Fenced once, acquired again once.
    assert_eq!(second_1.handle.lanes()[0].recoveries, 2);
    assert_eq!(topics[1].outputs(), ["r1:x#1", "r1:y#2"]);
}

#[test]
fn a_lane_whose_transaction_the_broker_has_ended_goes_on_when_lane_0_commits() {
    let topics = [Topics::new(), Topics::new()];
    let [mut leader, mut lane] = process(&topics, "here", 100);
    assert_eq!(leader.run_for(500), None);
    topics[1].next_commits([None, Some(Fault::Fenced)]);
    topics[1].append("a=x");
    assert_eq!(lane.run_for(500), None);
    // Until then it waits, however long that takes.
    assert_eq!(lane.run_for(10_000), None);
    assert_eq!(topics[1].outputs(), Vec::<String>::new());
    assert_eq!(leader.run_for(500), None);
    assert_eq!(lane.run_for(500), None);
    assert_eq!(topics[1].outputs(), ["r1:x#1"]);
}
