//! Our transport alone: what the host could do if a join cost nothing.
//!
//! `transport BOOTSTRAP DIM BEH OUT MARK [follow [MS [LANES]]]` reads two topics in LANES (2 per core)
//! lanes, writes one 170-byte record and 100 bytes of journal per record and commits every MS (100)
//! ms, exactly once. MARK is written at the first record: "epoch-ms cpu-seconds". Without `follow`
//! it ends when every partition is at its end and prints one JSON line; with it, it runs until it
//! is ended.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "standard output is the result")]
#![expect(
    clippy::cast_precision_loss,
    reason = "counts and milliseconds of a benchmark stay far below 2^53"
)]

use std::{
    process::ExitCode,
    sync::OnceLock,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use dovetail_core::{
    clock::Clock,
    epoch::{Attempt, Epoch, LaneId, chunk::PAYLOAD_BYTES_MAX, metadata::CommitMetadata},
    log::{Fetched, Log as _, Transaction},
    output::{OutputBuffer, OutputRecord, Target},
    record::{Headers, Record},
    time::ProcessingTime,
};
use dovetail_kafka::{
    Cluster, KafkaLog,
    options::{
        Connection, LaneLogOptions, OutputTopic, SourceOptions, Start, TimestampBounds,
        journal_topic,
    },
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const COMMIT_EVERY_MS: u64 = 100;
const RECORDS_PER_EPOCH_MAX: usize = 50_000;
const OUTPUT_BYTES: usize = 170;
const JOURNAL_BYTES_PER_RECORD: usize = 100;
/// A quarter of `memory: 256MiB`.
const PREFETCH_BYTES: usize = 64 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, dim, beh, out, mark, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: transport BOOTSTRAP DIM BEH OUT MARK [follow [MS [LANES]]]");
        return ExitCode::from(2);
    };
    let follow = rest.first().is_some_and(|word| word == "follow");
    let every = rest.get(1).map_or(Ok(COMMIT_EVERY_MS), |text| text.parse());
    let Ok(every) = every.map(Duration::from_millis) else {
        eprintln!("MS should be a number of milliseconds");
        return ExitCode::from(2);
    };
    let lanes = rest.get(2).map(|text| text.parse()).transpose();
    let Ok(lanes) = lanes else {
        eprintln!("LANES should be a number");
        return ExitCode::from(2);
    };
    match run(brokers, [dim, beh], out, mark, (follow, every), lanes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}

fn run(
    brokers: &str,
    inputs: [&str; 2],
    output: &str,
    mark: &str,
    (follow, every): (bool, Duration),
    lanes: Option<u16>,
) -> Result<(), Failure> {
    let connection = Connection { brokers: brokers.to_owned(), ..Connection::default() };
    let cluster = Cluster::connect(&connection)?;
    let partitions = cluster.topic(inputs[0])?.ok_or("the first topic does not exist")?.partitions;
    let cores = u16::try_from(thread::available_parallelism()?.get())?;
    let lanes = partitions.min(lanes.unwrap_or(2 * cores)).max(1);
    let pipeline = format!("transport-{}", SystemClock.read());
    cluster.ensure_journal(&journal_topic(&pipeline), lanes)?;
    let written = |topic: &str| OutputTopic {
        topic: topic.to_owned(),
        timestamps: TimestampBounds::default(),
        max_batch_bytes: 1 << 20,
    };
    let options = |lane: u16| LaneLogOptions {
        connection: connection.clone(),
        pipeline: pipeline.clone(),
        lane: LaneId(lane),
        transaction_timeout: Duration::from_secs(20),
        sources: sources(inputs, (lane..partitions).step_by(lanes.into())),
        outputs: vec![written(output)],
        dead_letters: written(output),
        journal_topic: journal_topic(&pipeline),
        max_record_bytes: 1 << 20,
        prefetch_bytes: PREFETCH_BYTES / usize::from(lanes),
        producer_queue_bytes: 32 << 20,
        fetch_wait: Duration::from_millis(20),
        exactly_once: std::env::var_os("TRANSPORT_PLAIN").is_none(),
    };
    let first = First { mark, begin: OnceLock::new() };
    let results: Result<Vec<Totals>, Failure> = thread::scope(|scope| {
        let run_lane = |lane| {
            let (first, options) = (&first, options(lane));
            scope.spawn(move || Lane::new(options)?.run(first, follow, every))
        };
        let threads: Vec<_> = (0..lanes).map(run_lane).collect();
        threads.into_iter().map(|lane| lane.join().map_err(|_panic| "a lane panicked")?).collect()
    });
    report(&results?, &first);
    Ok(())
}

fn sources(inputs: [&str; 2], partitions: impl Iterator<Item = u16> + Clone) -> Vec<SourceOptions> {
    let source = |(topic, partition): (&str, u16)| SourceOptions {
        topic: topic.to_owned(),
        partition,
        start: Start::Earliest,
        on_gap: dovetail_core::log::gap::OnGap::Fail,
        is_broadcast: false,
    };
    let of_input = |topic| partitions.clone().map(move |partition| (topic, partition));
    inputs.into_iter().flat_map(of_input).map(source).collect()
}

/// When the first record came.
struct First<'a> {
    mark: &'a str,
    begin: OnceLock<(Instant, f64)>,
}

impl First<'_> {
    fn note(&self) {
        self.begin.get_or_init(|| {
            let cpu = cpu_seconds();
            let text = format!("{} {cpu}", SystemClock.read());
            if let Err(error) = std::fs::write(self.mark, text) {
                eprintln!("{}: {error}", self.mark);
            }
            (Instant::now(), cpu)
        });
    }
}

#[derive(Default)]
struct Totals {
    records: u64,
    commits: u64,
    committing: Duration,
    commit_max: Duration,
}

struct Lane {
    log: KafkaLog,
    positions: Vec<i64>,
    is_at_end: Vec<bool>,
    outputs: OutputBuffer,
    epoch: u64,
    totals: Totals,
}

impl Lane {
    fn new(options: LaneLogOptions) -> Result<Self, Failure> {
        let is_at_end = vec![false; options.sources.len()];
        let mut log = KafkaLog::new(options, Box::new(SystemClock))?;
        log.acquire()?;
        let positions = log.start_positions()?;
        log.resume(&positions)?;
        let (outputs, totals) = (OutputBuffer::default(), Totals::default());
        Ok(Self { log, positions, is_at_end, outputs, epoch: 0, totals })
    }

    fn run(mut self, first: &First<'_>, follow: bool, every: Duration) -> Result<Totals, Failure> {
        let wanted = vec![true; self.positions.len()];
        let mut due = Instant::now() + every;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            self.log.wait(left);
            let Self { log, positions, is_at_end, outputs, .. } = &mut self;
            log.fetch(&wanted, &mut |fetched| take(positions, is_at_end, outputs, fetched))?;
            if !self.outputs.is_empty() {
                first.note();
            }
            let is_finished = !follow && self.is_at_end.iter().all(|end| *end);
            let is_due = Instant::now() >= due || self.outputs.len() >= RECORDS_PER_EPOCH_MAX;
            if (is_due || is_finished) && !self.outputs.is_empty() {
                self.commit()?;
            }
            if is_due {
                due = Instant::now() + every;
            }
            if is_finished {
                return Ok(self.totals);
            }
        }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let journal = vec![b'j'; self.outputs.len() * JOURNAL_BYTES_PER_RECORD];
        let chunks: Vec<Vec<u8>> = journal.chunks(PAYLOAD_BYTES_MAX).map(<[u8]>::to_vec).collect();
        let metadata = CommitMetadata {
            lane: LaneId(0),
            epoch: Epoch(self.epoch),
            attempt: Attempt(0),
            journal_offset: 0,
            hash: 0,
        };
        let begin = Instant::now();
        self.log.commit(&Transaction {
            outputs: &self.outputs,
            chunks: &chunks,
            positions: &self.positions,
            metadata,
        })?;
        let took = begin.elapsed();
        self.totals.committing += took;
        self.totals.commit_max = self.totals.commit_max.max(took);
        self.totals.commits += 1;
        self.totals.records += u64::try_from(self.outputs.len())?;
        self.epoch += 1;
        self.outputs.clear();
        Ok(())
    }
}

fn take(
    positions: &mut [i64],
    is_at_end: &mut [bool],
    outputs: &mut OutputBuffer,
    fetched: Fetched,
) {
    match fetched {
        Fetched::Records { source, records } => {
            is_at_end[usize::from(source.0)] = false;
            for record in &records {
                emit(outputs, record);
                positions[usize::from(source.0)] = record.offset + 1;
            }
        }
        Fetched::AtEnd { source, position } => {
            is_at_end[usize::from(source.0)] = true;
            positions[usize::from(source.0)] = position;
        }
        Fetched::Gap { source, position, .. } => positions[usize::from(source.0)] = position,
        Fetched::Unknown { source } | Fetched::Ended { source } => {
            is_at_end[usize::from(source.0)] = false;
        }
    }
}

/// The record, padded with blanks: JSON stays JSON.
fn emit(outputs: &mut OutputBuffer, record: &Record) {
    let mut value = [b' '; OUTPUT_BYTES];
    let own = record.value.as_deref().unwrap_or_default();
    let length = own.len().min(OUTPUT_BYTES);
    value[..length].copy_from_slice(&own[..length]);
    outputs.push(OutputRecord {
        target: Target::Output(0),
        key: record.key.as_deref(),
        value: Some(&value),
        headers: &Headers::default(),
        time: record.timestamp,
    });
}

fn report(lanes: &[Totals], first: &First<'_>) {
    let Some((begin, cpu_before)) = first.begin.get() else {
        println!("{{\"records\":0}}");
        return;
    };
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let records = lanes.iter().map(|lane| lane.records).sum::<u64>() as f64;
    let commits = lanes.iter().map(|lane| lane.commits).sum::<u64>();
    let committing: f64 = lanes.iter().map(|lane| lane.committing.as_secs_f64()).sum();
    let longest = lanes.iter().map(|lane| lane.commit_max).max().unwrap_or_default();
    println!(
        "{{\"lanes\":{},\"records\":{records},\"seconds\":{seconds:.3},\
         \"records_per_s\":{:.0},\"cpu_s_per_million\":{:.3},\"commits\":{commits},\
         \"commit_ms_mean\":{:.1},\"commit_ms_max\":{},\"rss_mb_peak\":{}}}",
        lanes.len(),
        records / seconds,
        cpu / records * 1e6,
        committing * 1e3 / commits as f64,
        longest.as_millis(),
        peak_mb(),
    );
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may contain blanks.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1024
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "a benchmark has no runtime to bring the time")]
    fn read(&mut self) -> ProcessingTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
