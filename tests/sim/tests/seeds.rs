//! Some thousand seeds, determinism, the cases that once failed, and the teeth.
//!
//! Fresh seeds run for as long as asked with `make sim`.
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use dovetail_sim::{
    bugs::Bug,
    case,
    faults::Plan,
    rows::Row,
    rules::{RULES, broken_by},
    run::{Outcome, run, run_seed},
    shrink,
};

/// Fails with everything that is needed to replay.
fn expect_sound(plan: &Plan, outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let report = shrink::report(plan, None).unwrap_or_else(|error| error.to_string());
    panic!("seed {}: {violation}\n{report}", plan.seed);
}

/// Runs seeds on all cores.
fn run_all(seeds: RangeInclusive<u64>) -> Vec<Outcome> {
    let next = AtomicU64::new(*seeds.start());
    let one = || {
        let mut outcomes = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > *seeds.end() {
                return outcomes;
            }
            let outcome = run_seed(seed, None);
            expect_sound(&Plan::draw(seed), &outcome);
            outcomes.push(outcome);
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(one), scope.spawn(one)];
        threads.into_iter().flat_map(|thread| thread.join().expect("a seed has failed")).collect()
    })
}

#[test]
fn every_seed_keeps_every_rule_and_reaches_the_table_of_recovery() {
    let mut rows: BTreeMap<Row, u64> = BTreeMap::new();
    let (mut commits, mut unknown, mut takeovers, mut timeouts) = (0, 0, 0, 0);
    for outcome in run_all(1..=2_000) {
        let counts = outcome.counts;
        commits += counts.commits;
        unknown += counts.unknown_commits;
        takeovers += counts.takeovers;
        timeouts += counts.timeouts;
        for (row, count) in counts.rows {
            *rows.entry(row).or_default() += count;
        }
    }
    println!("{rows:#?}");
    let missing: Vec<_> = Row::ALL.iter().filter(|row| !rows.contains_key(row)).collect();
    assert!(missing.is_empty(), "rows of the decision that no seed has reached: {missing:?}");
    // Sometimes-assertions: the hard cases did happen.
    assert!(commits > 1_000 && unknown > 0 && takeovers > 20 && timeouts > 20);
}

#[test]
fn one_seed_is_one_trace() {
    for seed in 1..=40 {
        let (first, second) = (run_seed(seed, None), run_seed(seed, None));
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn a_trace_that_is_kept_is_the_trace_that_is_hashed() {
    let (plan, kept) = (Plan::draw(7), run(Plan::draw(7), None, true));
    assert_eq!(kept.hash, run(plan, None, false).hash);
    assert_eq!(kept.lines.len() as u64, kept.events);
}

/// The cases that were kept.
fn kept() -> Vec<(PathBuf, Plan)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/regressions");
    let folders = ["ledger", "payment"].map(|job| Path::new(folder).join(job));
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the folder is there"));
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a case");
        let plan = case::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file, plan)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn cases_that_once_failed_pass() {
    let kept = kept();
    assert!(kept.len() >= 10);
    for (file, plan) in kept {
        let violation = run(plan, None, false).violation;
        assert_eq!(violation, None, "{}", file.display());
    }
}

#[test]
fn a_plan_is_the_same_when_its_case_is_read() {
    for seed in 1..=200 {
        let plan = Plan::draw(seed);
        let text = case::write(&plan, "why");
        let mut read = case::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        // Of what is written in the same millisecond the order is that of visibility.
        read.writings.sort();
        let mut plan = plan;
        plan.writings.sort();
        assert_eq!(read, plan, "{text}");
    }
}

#[test]
fn a_case_that_fails_is_small_and_says_how_to_replay_it() {
    let bug = Some(Bug::SuspectUsedAgain);
    let seed = (1..=100).find(|seed| run_seed(*seed, bug).violation.is_some()).unwrap();
    let plan = Plan::draw(seed);
    let small = shrink::shrink(&plan, bug);
    assert!(run(small.clone(), bug, false).violation.is_some());
    assert!(small.faults.len() <= 3 && small.writings.len() <= 10, "{small:#?}");
    let report = shrink::report(&plan, bug).unwrap();
    assert!(report.contains("make sim CASE="), "{report}");
}

#[test]
fn every_deliberate_bug_is_caught() {
    let mut missed = Vec::new();
    for (bug, seeds) in Bug::ALL {
        let caught = (1..=seeds).find_map(|seed| {
            let violation = run_seed(seed, Some(bug)).violation?;
            Some((seed, violation))
        });
        match caught {
            Some((seed, violation)) => {
                let short: String = violation.chars().take(90).collect();
                println!("{bug:?}: seed {seed} of {seeds}: {short}");
            }
            None => missed.push((bug, seeds)),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn every_rule_is_broken_by_the_bug_that_it_names() {
    let mut missed = Vec::new();
    for rule in &RULES {
        let (bug, seeds) = rule.tooth;
        let caught = (1..=seeds).find(|seed| {
            let violation = run_seed(*seed, Some(bug)).violation;
            violation.is_some_and(|violation| broken_by(&violation) == rule.name)
        });
        match caught {
            Some(seed) => println!("{}: {bug:?}, seed {seed} of {seeds}", rule.name),
            None => missed.push((rule.name, bug, seeds)),
        }
    }
    assert!(missed.is_empty(), "rules without teeth: {missed:?}");
}
