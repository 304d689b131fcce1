//! `latency`: reads the output as it becomes visible and says how old it is then.

use crate::broker::{assign_from_beginning, consumer, member, wall_clock_ms};
use crate::process::load_average;
use crate::stream::Workload;
use anyhow::{Context, Result};
use rdkafka::message::Message;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// Width of one line of the series.
const SLOT_MS: u64 = 250;

/// The arguments of `latency`.
pub(crate) struct Latency<'a> {
    pub(crate) workload: Workload,
    pub(crate) brokers: &'a str,
    pub(crate) output: &'a str,
    pub(crate) seconds: u64,
    /// Records produced before this moment do not count.
    pub(crate) skip_before_ms: u64,
    pub(crate) isolation: &'a str,
    /// File for one line `EPOCH_MS COUNT MAX_LATENCY_MS` per slot (for recovery times).
    pub(crate) series: &'a str,
    pub(crate) label: &'a str,
}

/// What became visible within one slot.
struct Slot {
    number: u64,
    count: u64,
    max_ms: u64,
}

impl Slot {
    fn new(number: u64) -> Self {
        Slot { number, count: 0, max_ms: 0 }
    }

    fn write_to(&self, series: &mut File) -> std::io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let end_ms = self.number * SLOT_MS + SLOT_MS;
        writeln!(series, "{end_ms} {} {}", self.count, self.max_ms)
    }
}

/// Latency = moment of visibility − produce time, of ordinary keys only.
pub(crate) fn latency(arguments: &Latency<'_>) -> Result<()> {
    let consumer = consumer(arguments.brokers, arguments.isolation)?;
    assign_from_beginning(&consumer, arguments.output, arguments.workload.partitions)?;
    let mut series = File::create(arguments.series)
        .with_context(|| format!("create the series file {}", arguments.series))?;
    let mut samples: Vec<u32> = Vec::new();
    let mut slot = Slot::new(wall_clock_ms() / SLOT_MS);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        let message = consumer.poll(Duration::from_millis(20));
        let now = wall_clock_ms();
        if now / SLOT_MS != slot.number {
            slot.write_to(&mut series)?;
            slot = Slot::new(now / SLOT_MS);
        }
        let Some(Ok(message)) = message else { continue };
        let json = std::str::from_utf8(message.payload().unwrap_or_default()).unwrap_or("");
        let Some(produced_at_ms) = produce_time_of_ordinary_key(&arguments.workload, json) else {
            continue;
        };
        let age = now.saturating_sub(produced_at_ms);
        slot.count += 1;
        slot.max_ms = slot.max_ms.max(age);
        if produced_at_ms >= arguments.skip_before_ms {
            samples.push(age as u32);
        }
    }
    samples.sort_unstable();
    let quantile = |q: f64| -> u32 {
        let last = samples.len().saturating_sub(1);
        let index = (last as f64 * q).round() as usize;
        samples.get(index).copied().unwrap_or(0)
    };
    println!(
        "{{\"label\":\"{}\",\"samples\":{},\"p50_ms\":{},\"p95_ms\":{},\"p99_ms\":{},\
         \"max_ms\":{},\"load1\":\"{}\"}}",
        arguments.label,
        samples.len(),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99),
        quantile(1.0),
        load_average()
    );
    Ok(())
}

/// When the record was produced that led to this result, ms; `None` where that says nothing.
fn produce_time_of_ordinary_key(workload: &Workload, json: &str) -> Option<u64> {
    let key: u64 =
        member(json, "\"user_id\"").get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    workload.is_ordinary(key).then(|| member(json, "\"pt\"").parse().unwrap_or(0))
}
