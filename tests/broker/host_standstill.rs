//! Goal: a process that stands still for longer than its transaction may last loses and repeats
//! nothing: alone it goes on by itself, with a successor it stops and names it. Method: the host
//! stops itself (SIGSTOP) between the offsets and the commit of an epoch, until the broker has
//! ended that transaction.

use std::time::Duration;

use crate::host_process::{AtStep, Host, LIMIT, Pipeline, wait_until};
use crate::host_stream::{Random, Stream};
use crate::host_takeover::assert_named;

/// Of each topic.
const ORDERS: u64 = 4_000;

/// A pipeline of one partition whose host stands still with a transaction open.
struct Standstill {
    pipeline: Pipeline,
    stream: Stream,
    text: String,
    host: Host,
}

impl Standstill {
    fn begin() -> Self {
        let stream = Stream::generate(&mut Random::new(), ORDERS, 5, 1);
        let pipeline = Pipeline::create(1);
        pipeline.client.produce(&pipeline.topic("orders"), &stream.orders).unwrap();
        pipeline.client.produce(&pipeline.topic("payments"), &stream.payments).unwrap();
        // Many epochs, however slow the machine is.
        let text = format!("{}commit: {{ max_records: 100 }}\n", pipeline.text());
        let at = AtStep { step: "offsets", count: 20, signal: "STOP", after: Duration::ZERO };
        let host = Host::start_at_step(&pipeline.file("pipeline.yaml", &text), &at);
        host.wait_for_standstill();
        Self { pipeline, stream, text, host }
    }

    fn is_open(&self) -> bool {
        let journal = self.pipeline.topic("journal");
        self.pipeline.client.has_open_transaction(&journal, 0).unwrap()
    }

    /// Reads what must come, with the process that goes on, and stops that.
    fn check(pipeline: &Pipeline, stream: &Stream, host: Host) {
        let [results, late] = ["results", "late"].map(|name| pipeline.topic(name));
        pipeline.client.wait_for(&results, stream.results.len(), LIMIT).unwrap();
        pipeline.client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
        host.stop();
        let read = |topic| pipeline.client.read_committed(topic).unwrap();
        stream.check(&read(&results), &read(&late));
    }
}

/// Pain P37.
#[test]
fn alone_it_goes_on_by_itself_after_its_transaction_was_ended() {
    let still = Standstill::begin();
    wait_until("the end of the transaction", || !still.is_open());
    still.host.go_on();
    still.host.wait_for("nobody has taken the lane over");
    Standstill::check(&still.pipeline, &still.stream, still.host);
}

#[test]
fn with_a_successor_it_stops_and_names_it() {
    let mut still = Standstill::begin();
    let elsewhere = still.text.replace("state: { dir: state }", "state: { dir: elsewhere }");
    let successor = still.pipeline.run_text("elsewhere.yaml", &elsewhere);
    successor.wait_for_lanes();
    still.host.go_on();
    assert_eq!(still.host.wait_exit(LIMIT), Some(3), "{}", still.host.text());
    assert_named(&still.host, &successor);
    Standstill::check(&still.pipeline, &still.stream, successor);
}
