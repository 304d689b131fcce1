//! Runs seeds of the simulator, fresh ones for as long as asked.
//!
//! `sim [--seed N] [--iterations N] [--seconds N] [--trace] [--faults 0,2,5]`: without a seed they
//! begin at the wall clock's. A failing seed is shrunk, and the run ends with exit code 1.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use dovetail_core::clock::Clock;
use dovetail_runtime::clock::SystemClock;
use dovetail_sim::{
    faults::{Fault, Plan},
    rows::Row,
    run::{Outcome, run, shrink},
};

#[derive(Default)]
struct Arguments {
    seed: Option<u64>,
    iterations: Option<u64>,
    seconds: Option<u64>,
    keeps_lines: bool,
    faults: Option<Vec<usize>>,
}

fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => arguments.seed = Some(words.next()?.parse().ok()?),
            "--iterations" => arguments.iterations = Some(words.next()?.parse().ok()?),
            "--seconds" => arguments.seconds = Some(words.next()?.parse().ok()?),
            "--trace" => arguments.keeps_lines = true,
            "--faults" => {
                let list = words.next()?;
                let places = list.split(',').filter(|place| !place.is_empty());
                arguments.faults = Some(places.map(str::parse).collect::<Result<_, _>>().ok()?);
            }
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
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let counts = &outcome.counts;
        self.runs += 1;
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
        ] {
            *self.counts.entry(name).or_default() += count;
        }
        for (fault, count) in &counts.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (row, count) in &counts.rows {
            *self.rows.entry(*row).or_default() += count;
        }
    }

    fn print(&self, took: Duration) {
        println!(
            "{} seeds in {:.1} s ({:.0}/s), {} halted as they had to; {} records, {} timers, {} \
             events, {:.1} h of virtual time",
            self.runs,
            took.as_secs_f64(),
            self.runs as f64 / took.as_secs_f64(),
            self.halted,
            self.records,
            self.timers,
            self.events,
            self.virtual_ms as f64 / 3_600_000.0
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
    }
}

fn report(plan: &Plan, outcome: &Outcome) {
    println!("seed {} fails: {}", plan.seed, outcome.violation.as_deref().unwrap_or(""));
    println!("{:#?}", plan.knobs);
    let left = shrink(plan, None);
    println!("{} of {} faults are needed:", left.len(), plan.faults.len());
    let mut places = Vec::new();
    for (place, fault) in plan.faults.iter().enumerate() {
        if left.contains(fault) {
            println!("  {place}: {} ms {:?}", fault.at, fault.kind);
            places.push(place.to_string());
        }
    }
    println!("replay: make sim SEED={} FAULTS={} TRACE=1", plan.seed, places.join(","));
}

fn plan_of(seed: u64, faults: Option<&Vec<usize>>) -> Plan {
    let mut plan = Plan::draw(seed);
    if let Some(places) = faults {
        let kept: Vec<Fault> =
            places.iter().filter_map(|place| plan.faults.get(*place).copied()).collect();
        plan.faults = kept;
    }
    plan
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        println!("sim [--seed N] [--iterations N] [--seconds N] [--trace] [--faults 0,2,5]");
        return ExitCode::from(64);
    };
    let first = arguments.seed.unwrap_or_else(|| SystemClock.read().unsigned_abs());
    let one = u64::from(arguments.seed.is_some());
    let seconds = arguments.seconds.unwrap_or(if one == 1 { 0 } else { 30 });
    let iterations = arguments.iterations.or((seconds == 0).then_some(1)).unwrap_or(u64::MAX);
    println!("seeds from {first}");
    let (mut sum, begun) = (Sum::default(), Instant::now());
    for seed in first..first.saturating_add(iterations) {
        if arguments.iterations.is_none() && seconds > 0 && begun.elapsed().as_secs() >= seconds {
            break;
        }
        let plan = plan_of(seed, arguments.faults.as_ref());
        let outcome = run(plan.clone(), None, arguments.keeps_lines);
        for line in &outcome.lines {
            println!("{line}");
        }
        sum.add(&outcome);
        if outcome.violation.is_some() {
            report(&plan, &outcome);
            sum.print(begun.elapsed());
            return ExitCode::FAILURE;
        }
    }
    sum.print(begun.elapsed());
    ExitCode::SUCCESS
}
