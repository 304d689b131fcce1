//! A process that is killed while it applies epochs leaves one applied epoch, entirely.
//!
//! Goal: no half epoch, and never rows of one epoch with the head of another. Method: this test
//! starts itself as a child process that applies epochs made from their numbers and tells each one;
//! it kills the child in the midst (SIGKILL), opens what is left and compares it with the same
//! epochs applied to the reference store. The child goes on from what was left, several times, and
//! what it has flushed must still be there.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use dovetail_core::state::{MemoryStore, StateStore};

use crate::fixture::{Changes, all, apply, at, open};

const CHILD_DIR: &str = "DOVETAIL_TEST_KILLED_STATE_DIR";
const THIS_TEST: &str = "kill::a_killed_process_leaves_exactly_one_applied_epoch";
const ROWS: u64 = 400;
/// After so many epochs the child waits until they are in files.
const FLUSHED_EVERY: u64 = 64;

/// A sequence of numbers that depends on its seed alone (splitmix64).
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }
}

/// The changes of an epoch, from its number alone; every one changes a part of all rows.
fn changes(epoch: u64) -> Changes {
    let numbers = Numbers(epoch).take(100);
    let change = |number: u64| {
        let row = [&[2, 0], &(number % ROWS).to_be_bytes()[..]].concat();
        let is_removal = (number >> 32).is_multiple_of(4);
        let value = (!is_removal).then(|| [&epoch.to_be_bytes()[..], &[7; 300]].concat());
        (row, value)
    };
    numbers.map(change).collect()
}

fn head_epoch(store: &mut dyn StateStore) -> u64 {
    let head = store.head().unwrap();
    head.map_or(0, |head| u64::from_be_bytes(head[..].try_into().unwrap()))
}

/// How many epochs the child has told before each kill, and a variable that asks for more kills.
const EPOCHS: [usize; 5] = [3, 70, 131, 400, 41];
const KILLS: &str = "DOVETAIL_TEST_STATE_KILLS";

/// Applies epochs until it is killed.
fn child(dir: &Path) -> ! {
    let mut store = open(dir);
    let mut epoch = head_epoch(&mut store);
    loop {
        epoch += 1;
        // 30 s of processing time pass every 40 epochs: files are written while epochs go on.
        let clocks = at(i64::try_from(epoch).unwrap() * 750);
        apply(&mut store, &changes(epoch), &epoch.to_be_bytes(), clocks);
        println!("applied {epoch}");
        if epoch.is_multiple_of(FLUSHED_EVERY) {
            store.flush().unwrap();
            println!("flushed {epoch}");
        }
    }
}

/// What a child told.
#[derive(Debug, Default)]
struct Told {
    applied: u64,
    flushed: u64,
}

impl Told {
    /// Takes note of a line; returns whether it tells an applied epoch.
    fn hear(&mut self, line: &str) -> bool {
        // The first line stands behind what the test harness prints.
        let number = |word: &str| line.split_once(word).map(|(_, epoch)| epoch.parse().unwrap());
        if let Some(epoch) = number("flushed ") {
            self.flushed = epoch;
        }
        let applied = number("applied ");
        self.applied = applied.unwrap_or(self.applied);
        applied.is_some()
    }
}

/// Starts a child, kills it once it has told so many epochs, and returns what it told.
fn run_and_kill(dir: &Path, epochs: usize) -> Told {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", THIS_TEST, "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told = Told::default();
    let mut count = 0;
    while count < epochs {
        let line = lines.next().expect("the child applies epochs until it is killed");
        count += usize::from(told.hear(&line));
    }
    child.kill().unwrap();
    // What it told between our decision and its end.
    lines.for_each(|line| _ = told.hear(&line));
    let end = child.wait().unwrap();
    assert!(end.code().is_none(), "the child ended by itself: {end}");
    told
}

#[test]
fn a_killed_process_leaves_exactly_one_applied_epoch() {
    if let Some(dir) = env::var_os(CHILD_DIR) {
        child(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut memory = MemoryStore::default();
    let mut before = 0;
    let kills = env::var(KILLS).map_or(EPOCHS.len(), |kills| kills.parse().unwrap());
    for epochs in EPOCHS.into_iter().cycle().take(kills) {
        let told = run_and_kill(dir.path(), epochs);
        let mut store = open(dir.path());
        let left = head_epoch(&mut store);
        let least = before.max(told.flushed);
        // One epoch may have been applied and not told.
        assert!((least..=told.applied + 1).contains(&left), "epoch {left} is left: {told:?}");
        for epoch in before + 1..=left {
            apply(&mut memory, &changes(epoch), &epoch.to_be_bytes(), at(0));
        }
        assert_eq!(all(&mut store), all(&mut memory), "at epoch {left}");
        println!("killed behind epoch {}, epoch {left} is left", told.applied);
        before = left;
    }
    assert!(before > 100, "files were written behind the epochs: {before}");
}
