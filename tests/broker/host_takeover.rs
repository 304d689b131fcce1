//! Goal: one process owns a pipeline; whoever starts later takes it over, and no result is lost or
//! repeated. Method: further processes, with a state directory of their own or with the one that
//! an earlier owner left behind, while records come in.

use crate::host_process::{Host, LIMIT, Pipeline};
use crate::host_stream::{Random, Stream};

/// Records of each topic come in four parts.
const PARTS: usize = 4;

#[test]
fn successor_takes_over_and_the_first_process_names_it() {
    let stream = Stream::generate(&mut Random::new(), 20_000, 5, 4);
    let pipeline = Pipeline::create(4);
    let mut results = pipeline.client.follow(&pipeline.topic("results")).unwrap();
    let mut produce = producer(&pipeline, &stream);
    let elsewhere = pipeline.text().replace("state: { dir: state }", "state: { dir: elsewhere }");

    // One that still acquires its lanes would take some of them back.
    let mut first = pipeline.run();
    first.wait_for_lanes();
    produce();
    assert!(results.read(100, LIMIT).unwrap(), "{}", first.text());
    let second = pipeline.run_text("elsewhere.yaml", &elsewhere);
    second.wait_for_lanes();
    produce();
    assert_eq!(first.wait_exit(LIMIT), Some(3), "{}", first.text());
    assert_named(&first, &second);

    // The first directory knows nothing of what the second process did.
    let so_far = results.records.len();
    assert!(results.read(so_far + 100, LIMIT).unwrap(), "{}", second.text());
    second.kill();
    let third = pipeline.run();
    produce();
    produce();
    let count = stream.results.len();
    assert!(results.read(count, LIMIT).unwrap(), "{results:?} of {count}\n{}", third.text());
    let late = pipeline.topic("late");
    pipeline.client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    third.stop();
    let results = pipeline.client.read_committed(&pipeline.topic("results")).unwrap();
    stream.check(&results, &pipeline.client.read_committed(&late).unwrap());
}

/// Pain P35.
#[test]
fn state_directory_has_one_process_at_a_time() {
    let pipeline = Pipeline::create(1);
    let first = pipeline.run();
    first.admin();
    let mut second = pipeline.run();
    assert_eq!(second.wait_exit(LIMIT), Some(78), "{}", second.text());
    assert!(second.text().contains("state"), "{}", second.text());
    first.stop();
}

/// Returns what produces the next part.
fn producer<'a>(pipeline: &'a Pipeline, stream: &'a Stream) -> impl FnMut() + 'a {
    let size = stream.orders.len().div_ceil(PARTS);
    let mut parts = stream.orders.chunks(size).zip(stream.payments.chunks(size));
    move || {
        let (orders, payments) = parts.next().unwrap();
        pipeline.client.produce(&pipeline.topic("orders"), orders).unwrap();
        pipeline.client.produce(&pipeline.topic("payments"), payments).unwrap();
    }
}

/// The message of a process that lost its lanes names the one that has them.
pub(crate) fn assert_named(first: &Host, second: &Host) {
    let said = first.text();
    let owner = format!("process {} on ", second.pid());
    assert!(said.contains(&owner) && said.contains("has taken this lane over"), "{said}");
}
