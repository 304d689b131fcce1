//! Goal: of two processes of one pipeline that start at the same moment exactly one goes on, and no
//! result is lost or repeated. Method: both are started at once, several times, while records come
//! in.

use std::time::{Duration, Instant};

use crate::host_process::{Host, LIMIT, Pipeline};
use crate::host_stream::{Random, Stream};

/// Times that two processes start.
const ROUNDS: usize = 6;

#[test]
fn of_two_processes_that_start_at_once_exactly_one_goes_on() {
    let stream = Stream::generate(&mut Random::new(), 24_000, 5, 4);
    let pipeline = Pipeline::create(4);
    let mut results = pipeline.client.follow(&pipeline.topic("results")).unwrap();
    let elsewhere = pipeline.text().replace("state: { dir: state }", "state: { dir: elsewhere }");
    let files =
        [pipeline.file("one.yaml", &pipeline.text()), pipeline.file("two.yaml", &elsewhere)];
    let size = stream.orders.len().div_ceil(2 * ROUNDS);
    let mut parts = stream.orders.chunks(size).zip(stream.payments.chunks(size));
    let mut produce = || {
        let Some((orders, payments)) = parts.next() else { return };
        pipeline.client.produce(&pipeline.topic("orders"), orders).unwrap();
        pipeline.client.produce(&pipeline.topic("payments"), payments).unwrap();
    };
    for round in 0..ROUNDS {
        let hosts = files.each_ref().map(|file| Host::start(file));
        produce();
        let ended = first_end(&hosts);
        let [one, two] = hosts;
        let (mut loser, winner) = if ended == 0 { (one, two) } else { (two, one) };
        assert_eq!(loser.wait_exit(LIMIT), Some(3), "{}", loser.text());
        let owner = format!("process {} on ", winner.pid());
        assert!(loser.text().contains(&owner), "round {round}:\n{}", loser.text());
        produce();
        winner.wait_for_lanes();
        let more = results.records.len() + 1;
        assert!(results.read(more, LIMIT).unwrap(), "round {round}:\n{}", winner.text());
        winner.stop();
    }
    let host = pipeline.run();
    host.wait_for_lanes();
    let count = stream.results.len();
    assert!(results.read(count, LIMIT).unwrap(), "{results:?} of {count}\n{}", host.text());
    let late = pipeline.topic("late");
    pipeline.client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    host.stop();
    let results = pipeline.client.read_committed(&pipeline.topic("results")).unwrap();
    stream.check(&results, &pipeline.client.read_committed(&late).unwrap());
}

/// Waits until one of them ends; returns which.
fn first_end(hosts: &[Host; 2]) -> usize {
    let begin = Instant::now();
    loop {
        if let Some(ended) = hosts.iter().position(Host::has_ended) {
            return ended;
        }
        let said = || hosts.iter().map(Host::text).collect::<Vec<_>>().join("\n---\n");
        assert!(begin.elapsed() < LIMIT, "both go on:\n{}", said());
        std::thread::park_timeout(Duration::from_millis(50));
    }
}
