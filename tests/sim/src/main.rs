//! Runs seeds of the simulator, fresh ones for as long as asked.
//!
//! `sim [--seed N] [--seeds N] [--seconds N] [--case FILE] [--bug NAME] [--trace]`: without a seed
//! they begin at the wall clock's. A failing seed is shrunk, printed as a case, and the run ends
//! with exit code 1. A case is played as it stands. `--bug` plays with a deliberate bug.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    collections::BTreeMap,
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use dovetail_core::clock::Clock;
use dovetail_runtime::clock::SystemClock;
use dovetail_sim::{
    bugs::Bug,
    case,
    faults::Plan,
    rows::Row,
    rules::{RULES, Rule},
    run::{Outcome, run},
    shrink,
};

const USAGE: &str = "sim [--seed N] [--seeds N] [--seconds N] [--case FILE] [--bug NAME] [--trace]";

#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    seeds: Option<u64>,
    seconds: Option<u64>,
    case: Option<PathBuf>,
    bug: Option<Bug>,
    keeps_lines: bool,
}

fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => arguments.seed = Some(words.next()?.parse().ok()?),
            "--seeds" => arguments.seeds = Some(words.next()?.parse().ok()?),
            "--seconds" => arguments.seconds = Some(words.next()?.parse().ok()?),
            "--case" => arguments.case = Some(words.next()?.into()),
            "--bug" => arguments.bug = Some(case::bug(&words.next()?)?),
            "--trace" => arguments.keeps_lines = true,
            _ => return None,
        }
    }
    Some(arguments)
}

/// What all runs together have done.
#[derive(Default)]
struct Sum {
    runs: u64,
    halted: u64,
    events: u64,
    virtual_ms: i64,
    records: u64,
    timers: u64,
    counts: BTreeMap<&'static str, u64>,
    faults: BTreeMap<&'static str, u64>,
    rows: BTreeMap<Row, u64>,
    looked: BTreeMap<&'static str, u64>,
    /// Of all traces together.
    hash: u64,
    failed: Option<(Plan, String)>,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let counts = &outcome.counts;
        self.runs += 1;
        self.hash ^= outcome.hash;
        self.halted += u64::from(outcome.halted.is_some());
        self.events += outcome.events;
        self.virtual_ms += outcome.took;
        self.records += outcome.work.0;
        self.timers += outcome.work.1;
        for (name, count) in [
            ("commits", counts.commits),
            ("commits whose answer was lost", counts.unknown_commits),
            ("processes that ended", counts.crashes),
            ("takeovers found by a fenced process", counts.takeovers),
            ("requests fenced", counts.fenced),
            ("transactions timed out", counts.timeouts),
            ("requests", counts.requests),
            ("messages lost", counts.lost),
            ("ends of transactions lost in every copy", counts.lost_ends),
            ("ends of transactions that came in a later one", counts.held_ends),
            ("rows that rotted", counts.rotten),
            ("switches to another revision", counts.switches),
            ("transactional ids expired in use", counts.expired_ids),
            ("checkpoints published", counts.checkpoints),
            ("directories restored from a checkpoint", counts.restores),
            ("journals trimmed", counts.trims),
            ("checkpoint files collected", counts.collected),
            ("calls of the checkpoint store that failed, or seemed to", counts.store_errors),
            ("of these, writes that were done", counts.unknown_puts),
        ] {
            *self.counts.entry(name).or_default() += count;
        }
        for (fault, count) in &counts.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (row, count) in &counts.rows {
            *self.rows.entry(*row).or_default() += count;
        }
        for rule in &RULES {
            *self.looked.entry(rule.name).or_default() += (rule.looked)(counts);
        }
    }

    fn with(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.hash ^= other.hash;
        self.halted += other.halted;
        self.events += other.events;
        self.virtual_ms += other.virtual_ms;
        self.records += other.records;
        self.timers += other.timers;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (row, count) in other.rows {
            *self.rows.entry(row).or_default() += count;
        }
        for (rule, count) in other.looked {
            *self.looked.entry(rule).or_default() += count;
        }
        self.failed = self.failed.or(other.failed);
        self
    }

    fn print(&self, took: Duration) {
        println!(
            "{} seeds in {:.1} s ({:.0}/s), {} halted as they had to; {} records, {} timers, {} \
             events, {:.1} h of virtual time; traces {:016x}",
            self.runs,
            took.as_secs_f64(),
            self.runs as f64 / took.as_secs_f64(),
            self.halted,
            self.records,
            self.timers,
            self.events,
            self.virtual_ms as f64 / 3_600_000.0,
            self.hash
        );
        for (name, count) in &self.counts {
            println!("  {count:>10} {name}");
        }
        println!("faults injected:");
        for (fault, count) in &self.faults {
            println!("  {count:>10} {fault}");
        }
        println!("rows of the recovery decision:");
        for row in Row::ALL {
            println!("  {:>10} {row:?}", self.rows.get(&row).copied().unwrap_or(0));
        }
        println!("rules, how often they were looked at, and the deliberate bug that shows each:");
        for Rule { name, says, tooth: (bug, seeds), .. } in &RULES {
            let looked = self.looked.get(name).copied().unwrap_or(0);
            println!("  {looked:>10} {name}: {says} ({bug:?}, within {seeds} seeds)");
        }
    }
}

/// Runs seeds from `next` on, until there are no more, time is over, or one has failed.
fn run_seeds(arguments: &Arguments, next: &AtomicU64, end: u64, until: Option<Instant>) -> Sum {
    let mut sum = Sum::default();
    while until.is_none_or(|until| Instant::now() < until) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            break;
        }
        let plan = Plan::draw(seed);
        let outcome = run(plan.clone(), arguments.bug, arguments.keeps_lines);
        for line in &outcome.lines {
            println!("{line}");
        }
        sum.add(&outcome);
        if let Some(violation) = outcome.violation {
            next.store(end, Ordering::Relaxed);
            sum.failed = Some((plan, violation));
            break;
        }
    }
    sum
}

/// Plays one case; returns whether it keeps every rule.
fn play(path: &Path, arguments: &Arguments) -> Result<bool, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let outcome = run(case::parse(&text)?, arguments.bug, arguments.keeps_lines);
    for line in &outcome.lines {
        println!("{line}");
    }
    match (&outcome.violation, &outcome.halted) {
        (Some(violation), _) => println!("it fails: {violation}"),
        (None, Some(halted)) => println!("it stops as it must: {halted}"),
        (None, None) => println!("it keeps every rule"),
    }
    Ok(outcome.violation.is_none())
}

fn fresh(arguments: &Arguments) -> Result<bool, String> {
    let first = arguments.seed.unwrap_or_else(|| SystemClock.read().unsigned_abs());
    let seconds = arguments.seconds.or(match (arguments.seed, arguments.seeds) {
        (None, None) => Some(60),
        _ => None,
    });
    let seeds = arguments.seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { 1 });
    println!("seeds from {first}");
    let (begun, next) = (Instant::now(), AtomicU64::new(first));
    let until = seconds.map(|seconds| begun + Duration::from_secs(seconds));
    let end = first.saturating_add(seeds);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let sums: Vec<Sum> = thread::scope(|scope| {
        let started: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| run_seeds(arguments, &next, end, until))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if sums.len() < threads {
        return Err("a thread has panicked".to_owned());
    }
    let sum = sums.into_iter().fold(Sum::default(), Sum::with);
    sum.print(begun.elapsed());
    let Some((plan, violation)) = sum.failed else { return Ok(true) };
    println!("seed {} fails: {violation}", plan.seed);
    println!("{}", shrink::report(&plan, arguments.bug).map_err(|error| error.to_string())?);
    Ok(false)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        println!("{USAGE}");
        return ExitCode::from(64);
    };
    let is_sound = match &arguments.case {
        Some(path) => play(path, &arguments),
        None => fresh(&arguments),
    };
    match is_sound {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::from(2)
        }
    }
}
