//! `load` and `pace`: the stream into the two input topics, at full speed or at a fixed rate.

use crate::broker::{create_topics, drain, pause, producer, send, wall_clock_ms};
use crate::expectation::Expectation;
use crate::stream::{Event, Stream, Workload};
use anyhow::Result;
use rdkafka::producer::BaseProducer;
use std::time::{Duration, Instant};

/// What latency is measured against where nobody measures it: no real time, but as many digits.
const NO_PRODUCE_TIME_MS: u64 = 1_000_000_000_000;
/// Between the first dimensions and the mix, so that a reader can get ready.
const BEFORE_MIX: Duration = Duration::from_secs(3);

/// Where the stream goes.
pub(crate) struct Inputs<'a> {
    pub(crate) workload: Workload,
    pub(crate) brokers: &'a str,
    pub(crate) dimensions: &'a str,
    pub(crate) behaviours: &'a str,
}

/// Sends events and remembers what must come out.
struct Sender<'a> {
    inputs: &'a Inputs<'a>,
    producer: BaseProducer,
    expectation: Expectation,
    buffer: String,
    bytes: usize,
}

impl<'a> Sender<'a> {
    fn new(inputs: &'a Inputs<'a>, linger_ms: &str) -> Result<Self> {
        Ok(Sender {
            inputs,
            producer: producer(inputs.brokers, linger_ms)?,
            expectation: Expectation::default(),
            buffer: String::new(),
            bytes: 0,
        })
    }

    fn send(&mut self, event: &Event, produced_at_ms: u64) {
        let workload = &self.inputs.workload;
        self.expectation.add(workload, event);
        let address = event.encode(workload, produced_at_ms, &mut self.buffer);
        self.bytes += self.buffer.len();
        let topic =
            if address.is_dimension { self.inputs.dimensions } else { self.inputs.behaviours };
        send(
            &self.producer,
            (topic, address.partition),
            &format!("u{:08}", address.key),
            &self.buffer,
            event.time(),
        );
    }
}

/// All of the stream, as fast as the broker takes it.
pub(crate) fn load(inputs: &Inputs<'_>, count: u64, seed: u64, span_s: u64) -> Result<()> {
    let topics = [inputs.dimensions, inputs.behaviours];
    create_topics(inputs.brokers, &topics, inputs.workload.partitions)?;
    let mut sender = Sender::new(inputs, "20")?;
    let start = Instant::now();
    let mut sent = 0_u64;
    for event in Stream::new(inputs.workload, seed, count, span_s * 1000) {
        sender.send(&event, NO_PRODUCE_TIME_MS);
        sent += 1;
        if sent.is_multiple_of(1000) {
            sender.producer.poll(Duration::ZERO);
        }
    }
    drain(&sender.producer);
    println!(
        "{{\"loaded\":{sent},{},\"mean_bytes\":{:.0},\"seconds\":{:.1}}}",
        sender.expectation.json_members(),
        sender.bytes as f64 / sent as f64,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// All first dimensions at full speed, then the mix at a fixed rate; the expectation at the end.
///
/// Event time runs at wall speed in the mix; no timer fires before the flush.
pub(crate) fn pace(inputs: &Inputs<'_>, rate: u64, seconds: u64, seed: u64) -> Result<()> {
    let count = inputs.workload.preload_count() + rate * seconds;
    let mut stream = Stream::new(inputs.workload, seed, count, count * 1000 / rate);
    let mut sender = Sender::new(inputs, "5")?;
    let mut sent = 0_u64;
    let mut start = None;
    let mut worst_lag = Duration::ZERO;
    loop {
        let is_preloading = stream.is_preloading();
        let Some(event) = stream.next() else { break };
        if !is_preloading {
            let start = *start.get_or_insert_with(|| begin_mix(&sender.producer));
            let nanos = u128::from(sent) * 1_000_000_000 / u128::from(rate);
            let due = Duration::from_nanos(nanos as u64);
            worst_lag = worst_lag.max(wait_until(&sender.producer, start, due));
            sent += 1;
        }
        sender.send(&event, wall_clock_ms());
        if sent.is_multiple_of(200) {
            sender.producer.poll(Duration::ZERO);
        }
    }
    drain(&sender.producer);
    println!(
        "{{\"paced\":{sent},\"rate\":{rate},{},\"worst_lag_ms\":{:.0},\"mix_end_ms\":{}}}",
        sender.expectation.json_members(),
        worst_lag.as_secs_f64() * 1e3,
        wall_clock_ms()
    );
    Ok(())
}

fn begin_mix(producer: &BaseProducer) -> Instant {
    drain(producer);
    eprintln!("mix starts");
    println!("{{\"mix_start_ms\":{}}}", wall_clock_ms() + BEFORE_MIX.as_millis() as u64);
    pause(BEFORE_MIX);
    Instant::now()
}

/// Serves the producer until `due` has passed since `start`; how late we are then.
fn wait_until(producer: &BaseProducer, start: Instant, due: Duration) -> Duration {
    loop {
        let elapsed = start.elapsed();
        if elapsed >= due {
            return elapsed - due;
        }
        producer.poll((due - elapsed).min(Duration::from_millis(1)));
    }
}
