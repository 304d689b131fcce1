//! Goal: a pipeline runs, stops and goes on as promised. Method: the binary as a process, a few
//! hundred records, results read by a client that is not ours.

use crate::host_process::{LIMIT, Pipeline};
use crate::host_stream::{Random, Stream};

#[test]
fn results_are_complete_after_sigterm_and_after_a_kill() {
    let stream = Stream::generate(&mut Random::new(), 300, 100, 4);
    let pipeline = Pipeline::create(4);
    let (client, results) = (&pipeline.client, pipeline.topic("results"));
    let half = |records: &[_]| records.len() / 2;
    let (early_orders, late_orders) = stream.orders.split_at(half(&stream.orders));
    let (early_payments, late_payments) = stream.payments.split_at(half(&stream.payments));

    client.produce(&pipeline.topic("orders"), early_orders).unwrap();
    client.produce(&pipeline.topic("payments"), early_payments).unwrap();
    let host = pipeline.run();
    client.wait_for(&results, 50, LIMIT).unwrap();
    host.stop();

    let host = pipeline.run();
    host.admin();
    host.kill();

    client.produce(&pipeline.topic("orders"), late_orders).unwrap();
    client.produce(&pipeline.topic("payments"), late_payments).unwrap();
    let host = pipeline.run();
    client.wait_for(&results, stream.results.len(), LIMIT).unwrap();
    client.wait_for(&pipeline.topic("late"), stream.late.len(), LIMIT).unwrap();
    host.stop();
    let late = client.read_committed(&pipeline.topic("late")).unwrap();
    stream.check(&client.read_committed(&results).unwrap(), &late);
}
