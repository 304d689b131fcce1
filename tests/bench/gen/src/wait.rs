//! `wait`: until a join has committed all that is expected of it; throughput and CPU time.

use crate::broker::{consumer, end_offsets, pause, wall_clock_ms};
use crate::process::{cpu_seconds, is_running, load_average, peak_rss_mb};
use anyhow::Result;
use rdkafka::consumer::BaseConsumer;
use std::time::{Duration, Instant};

/// Nothing more is expected once the end has stood still for this long.
const QUIET_MS: u64 = 2500;

/// The arguments of `wait`.
pub(crate) struct Wait<'a> {
    pub(crate) partitions: u16,
    pub(crate) brokers: &'a str,
    pub(crate) output: &'a str,
    pub(crate) expected: i64,
    pub(crate) events: f64,
    /// A file that the peer writes at its first record: `EPOCH_MS CPU_SECONDS_SO_FAR`.
    pub(crate) mark: &'a str,
    /// Process id of the join.
    pub(crate) peer: &'a str,
    /// Process id of the broker.
    pub(crate) broker: &'a str,
    pub(crate) limit_s: u64,
}

/// A moment, with the CPU seconds that peer and broker had used by then.
#[derive(Clone, Copy, Default)]
struct Sample {
    at_ms: u64,
    peer_cpu: f64,
    broker_cpu: f64,
}

/// Waits until the committed end of `output` covers `expected` and stands still; prints the figures.
pub(crate) fn wait(arguments: &Wait<'_>) -> Result<()> {
    let committed = consumer(arguments.brokers, "read_committed")?;
    let uncommitted = consumer(arguments.brokers, "read_uncommitted")?;
    let begin = Instant::now();
    let Some(first) = first_record(arguments, begin) else {
        println!("{{\"error\":\"peer ended\"}}");
        return Ok(());
    };
    match last_record(arguments, begin, &committed, &uncommitted) {
        Ok(last) => report(arguments, first, last),
        Err(end) => {
            println!("{{\"error\":\"time limit or peer ended\",\"end_offsets\":{end}}}");
        }
    }
    Ok(())
}

/// What the mark says, or zeros when it did not come in time; `None` when the peer is gone.
fn first_record(arguments: &Wait<'_>, begin: Instant) -> Option<Sample> {
    while begin.elapsed() < Duration::from_secs(arguments.limit_s) {
        if let Some(sample) = read_mark(arguments) {
            return Some(sample);
        }
        if !is_running(arguments.peer) {
            return None;
        }
        pause(Duration::from_millis(20));
    }
    Some(Sample::default())
}

fn read_mark(arguments: &Wait<'_>) -> Option<Sample> {
    let text = std::fs::read_to_string(arguments.mark).ok()?;
    let mut fields = text.split_whitespace();
    Some(Sample {
        at_ms: fields.next()?.parse().ok()?,
        peer_cpu: fields.next()?.parse().ok()?,
        broker_cpu: cpu_seconds(arguments.broker),
    })
}

/// The moment of the last commit, or the end offset reached when time or peer ran out.
fn last_record(
    arguments: &Wait<'_>,
    begin: Instant,
    committed: &BaseConsumer,
    uncommitted: &BaseConsumer,
) -> Result<Sample, i64> {
    let limit = Duration::from_secs(arguments.limit_s);
    let mut end = -1_i64;
    let mut sample = Sample { at_ms: wall_clock_ms(), ..Sample::default() };
    loop {
        let now = end_offsets(committed, arguments.output, arguments.partitions);
        if now != end {
            end = now;
            sample = Sample {
                at_ms: wall_clock_ms(),
                peer_cpu: cpu_seconds(arguments.peer),
                broker_cpu: cpu_seconds(arguments.broker),
            };
        }
        let is_quiet = wall_clock_ms() - sample.at_ms > QUIET_MS;
        if end >= arguments.expected
            && is_quiet
            && end_offsets(uncommitted, arguments.output, arguments.partitions) == end
        {
            return Ok(sample);
        }
        if begin.elapsed() > limit || !is_running(arguments.peer) {
            return Err(end);
        }
        pause(Duration::from_millis(50));
    }
}

fn report(arguments: &Wait<'_>, first: Sample, last: Sample) {
    let seconds = (last.at_ms - first.at_ms) as f64 / 1e3;
    let millions = arguments.events / 1e6;
    println!(
        "{{\"seconds\":{seconds:.2},\"events_per_s\":{:.0},\"peer_cpu_s_per_M\":{:.2},\
         \"broker_cpu_s_per_M\":{:.2},\"peer_peak_rss_mb\":{},\"load1\":\"{}\"}}",
        arguments.events / seconds,
        (last.peer_cpu - first.peer_cpu) / millions,
        (last.broker_cpu - first.broker_cpu) / millions,
        peak_rss_mb(arguments.peer),
        load_average()
    );
}
