//! Goal: an outage of the broker makes ends unknown, loses nothing and passes. Method: a broker of
//! the test's own is killed and started again under a lane.

use std::time::Duration;

use dovetail_core::log::{Log as _, LogError};
use dovetail_core::output::OutputBuffer;
use dovetail_kafka::KafkaLog;
use dovetail_tests::broker::{Broker, Options, Record};

use crate::kafka_lane::{Heard, Lane, commit, emit, plain, read_until};

#[test]
fn ends_are_unknown_during_an_outage_and_told_again_after_it() {
    let mut broker = Broker::start(&Options::killed()).unwrap();
    let lane = Lane::create(&broker.client(), plain(broker.bootstrap()));
    broker.client().produce(&lane.input, &[Record::new("k", "before")]).unwrap();
    let mut log = lane.started();
    let mut heard = [Heard::default(), Heard::default()];
    let all_at_end = |heard: &[Heard]| heard.iter().all(|heard| heard.end.is_some());
    read_until(&mut log, &mut heard, all_at_end).unwrap();
    broker.kill().unwrap();
    read_until(&mut log, &mut heard, |heard| heard.iter().all(|h| h.unknowns > 0)).unwrap();
    assert!(heard.iter().all(|heard| heard.end.is_none()));
    broker.start_again().unwrap();
    read_until(&mut log, &mut heard, all_at_end).unwrap();
    assert_eq!(heard[0].values(), ["before"], "nothing came twice");
    broker.client().produce(&lane.input, &[Record::new("k", "after")]).unwrap();
    read_until(&mut log, &mut heard, |heard| heard[0].records.len() == 2).unwrap();
    assert_eq!(heard[0].values(), ["before", "after"]);
}

#[test]
fn a_lane_that_resumes_after_a_consumer_error_reads_from_where_it_is_told() {
    const BEFORE: usize = 500;
    const COMMITTED: usize = 200;
    let mut broker = Broker::start(&Options::killed()).unwrap();
    let lane = Lane::create(&broker.client(), plain(broker.bootstrap()));
    let record = |number: usize| Record::new("k", &format!("v{number}"));
    let before: Vec<Record> = (0..BEFORE).map(record).collect();
    broker.client().produce(&lane.input, &before).unwrap();
    let mut log = lane.started();
    let mut heard = [Heard::default(), Heard::default()];
    read_until(&mut log, &mut heard, |heard| heard[0].records.len() == BEFORE).unwrap();
    read_until(&mut log, &mut heard, |heard| heard.iter().all(|each| each.end.is_some())).unwrap();
    broker.kill().unwrap();
    read_until(&mut log, &mut heard, |heard| heard.iter().all(|h| h.unknowns > 0)).unwrap();
    broker.start_again().unwrap();
    broker.client().produce(&lane.input, &[record(BEFORE)]).unwrap();

    // What was read and not committed comes again, then what is new: in order, each once.
    log.resume(&[i64::try_from(COMMITTED).unwrap(), 0]).unwrap();
    let mut heard = [Heard::default(), Heard::default()];
    let all = BEFORE + 1 - COMMITTED;
    read_until(&mut log, &mut heard, |heard| heard[0].records.len() >= all).unwrap();
    read_until(&mut log, &mut heard, |heard| heard.iter().all(|each| each.end.is_some())).unwrap();
    let expected: Vec<String> = (COMMITTED..=BEFORE).map(|number| format!("v{number}")).collect();
    assert_eq!(heard[0].values(), expected);
}

#[test]
fn a_commit_during_an_outage_is_a_doubt_and_the_lane_recovers() {
    let mut broker = Broker::start(&Options::killed()).unwrap();
    let lane = Lane::create(&broker.client(), plain(broker.bootstrap()));
    let mut log = lane.started();
    commit(&mut log, 0, &[0, 0], &OutputBuffer::default(), &["zero"]).unwrap();
    wait_for_markers(&mut log, &broker, &lane);
    broker.kill().unwrap();
    let mut outputs = OutputBuffer::default();
    emit(&mut outputs, "k", b"v", None);
    let error = commit(&mut log, 1, &[0, 0], &outputs, &["one"]).unwrap_err();
    assert!(matches!(error, LogError::Doubt(_)), "{error}");
    broker.start_again().unwrap();
    log.acquire().unwrap();
    let committed = log.committed().unwrap()[0].clone().unwrap();
    assert!(committed.metadata.contains(";e=0;"), "{committed:?}");
    commit(&mut log, 1, &[0, 0], &outputs, &["one"]).unwrap();
    assert_eq!(broker.client().read_committed(&lane.output).unwrap().len(), 1);
}

/// A commit is answered before its markers are written. A broker of Kafka 4 that is killed in
/// between may forget them at its next start (KAFKA-20734: a partition without a leader counts as
/// deleted), and the transaction stays open for ever.
fn wait_for_markers(log: &mut KafkaLog, broker: &Broker, lane: &Lane) {
    assert!(log.committed().unwrap().iter().all(Option::is_some));
    broker.client().wait_for(&lane.options.journal_topic, 1, Duration::from_secs(30)).unwrap();
}
