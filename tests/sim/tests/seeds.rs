//! A few hundred seeds, determinism, the seeds that once failed, and the teeth.
//!
//! Fresh seeds run for as long as asked with `make sim`.
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use dovetail_sim::{
    bugs::Bug,
    faults::Plan,
    rows::Row,
    run::{Outcome, run, run_seed, shrink},
};

/// Fails with everything that is needed to replay.
fn expect_sound(seed: u64, outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let faults = shrink(&Plan::draw(seed), None);
    panic!("seed {seed}: {violation}\nfaults needed: {faults:#?}\nreplay: make sim SEED={seed}");
}

#[test]
fn every_seed_keeps_every_rule_and_reaches_the_table_of_recovery() {
    let mut rows: BTreeMap<Row, u64> = BTreeMap::new();
    let (mut commits, mut unknown, mut takeovers, mut timeouts) = (0, 0, 0, 0);
    for seed in 1..=2_000 {
        let outcome = run_seed(seed, None);
        expect_sound(seed, &outcome);
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

/// Seeds that have found something, in the product or in the simulator itself.
#[test]
fn seeds_that_once_failed_pass() {
    for seed in [2, 17, 38, 230, 773, 961, 1_015, 1_320, 3_894, 5_032, 6_470, 8_591, 9_193] {
        expect_sound(seed, &run_seed(seed, None));
    }
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
