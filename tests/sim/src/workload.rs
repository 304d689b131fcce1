//! What is written to the inputs, and when: drawn before the run.

use std::collections::BTreeSet;

use dovetail_core::{key::murmur2_partition, record::Record};
use serde::{Deserialize, Serialize};

use crate::{
    faults::Knobs,
    job::{Job, payment, payment::Given},
    rng::Rng,
};

/// The wall clock at virtual time 0, ms since the Unix epoch.
pub const BASE: i64 = 1_767_225_600_000;
/// How far the last records lie behind all others, ms: everything before them is decided.
pub const AFTERWARDS: i64 = 600_000;

/// The broadcast input, where there is one.
pub const RULES: u16 = 2;
/// For so many records of the others one is written to it.
const RECORDS_PER_RULE: u64 = 12;

/// A record that is written to an input, and when (virtual ms).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Writing {
    /// When it is written; of one in a transaction, when that ends.
    pub at: i64,
    /// The input.
    pub input: u16,
    /// The partition.
    pub partition: u16,
    /// The key.
    pub key: String,
    /// The event time, ms behind [`BASE`].
    pub time: i64,
    /// The value.
    pub value: String,
    /// The transaction that it is written in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Transaction>,
}

/// A transaction of another program, around one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Transaction {
    /// When the record is written; nobody may see it before the transaction ends.
    pub opened_at: i64,
    /// Whether it is aborted.
    pub is_aborted: bool,
}

impl Writing {
    /// Returns the record.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            timestamp: Some(BASE + self.time),
            key: Some(self.key.clone().into()),
            value: Some(self.value.clone().into()),
            ..Record::default()
        }
    }

    /// Returns whether a reader sees it sooner or later.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.transaction.is_none_or(|transaction| !transaction.is_aborted)
    }
}

/// Draws what is written, in order of time.
#[must_use]
pub fn draw(knobs: &Knobs, rng: &mut Rng) -> Vec<Writing> {
    let mut writings = Vec::new();
    let mut newest = 0;
    let mut sides = BTreeSet::new();
    let mut at = 0;
    for number in 0..knobs.records {
        let planned = knobs.span * number.cast_signed() / knobs.records.cast_signed();
        at = (planned + rng.range(0, 50)).max(at);
        let input = u16::try_from(rng.below(2)).unwrap_or(0);
        let key = match knobs.job == Job::Payment && knobs.is_tidy {
            true => {
                let key = format!("k{}", rng.draw() % (knobs.records / 2 + 1));
                if !sides.insert((input, key.clone())) {
                    continue;
                }
                key
            }
            false => format!("k{}", rng.draw() % knobs.keys),
        };
        newest = newest.max(at);
        let behind = match rng.percent(knobs.late_percent) {
            true => knobs.out_of_orderness + rng.range(1, 6_000),
            false => rng.range(0, knobs.out_of_orderness),
        };
        let value = value(knobs.job, input, &key, number, rng);
        let partition = murmur2_partition(key.as_bytes(), knobs.partitions);
        let time = newest - behind;
        let writing = Writing { at, input, partition, key, time, value, transaction: None };
        write(&mut writings, knobs, rng, writing);
    }
    writings.extend(rules(knobs));
    writings.sort_by_key(|writing| writing.at);
    writings
}

/// Records of the broadcast input, evenly over the span; one in five is of the kind that fails.
fn rules(knobs: &Knobs) -> impl Iterator<Item = Writing> + use<> {
    let count = if knobs.rule_partitions == 0 { 0 } else { knobs.records / RECORDS_PER_RULE + 1 };
    let (span, partitions) = (knobs.span, u64::from(knobs.rule_partitions.max(1)));
    (0..count).map(move |number| {
        let at = span * number.cast_signed() / count.cast_signed();
        let operation = if number % 5 == 4 { 'x' } else { 'n' };
        let partition = u16::try_from(number % partitions).unwrap_or(0);
        let (key, value) = ("rule".to_owned(), format!("{operation}:0:r{number}"));
        Writing { at, input: RULES, partition, key, time: at, value, transaction: None }
    })
}

/// One record for every source, `nth` times [`AFTERWARDS`] behind all others.
#[must_use]
pub fn last(knobs: &Knobs, at: i64, nth: i64) -> Vec<Writing> {
    let write = |(input, partition): (u16, u16)| {
        let number = knobs.records + nth.unsigned_abs() * 1_000 + u64::from(input) * 100;
        // A key of this partition alone: what it starts, it ends.
        let key = format!("last-{nth}-{partition}");
        let value = match (knobs.job, input) {
            (Job::Ledger, _) => format!("n:0:{number}"),
            (Job::Payment, 0) => payment::order_value(&key, number),
            (Job::Payment, _) => payment::payment_value(number),
        };
        let time = knobs.span + AFTERWARDS * nth;
        Writing { at, input, partition, key, time, value, transaction: None }
    };
    sources(knobs).map(write).collect()
}

/// Returns every input and partition.
pub fn sources(knobs: &Knobs) -> impl Iterator<Item = (u16, u16)> + use<> {
    let partitions = knobs.partitions;
    let keyed = (0..RULES).flat_map(move |input| (0..partitions).map(move |at| (input, at)));
    keyed.chain((0..knobs.rule_partitions).map(|partition| (RULES, partition)))
}

fn value(job: Job, input: u16, key: &str, number: u64, rng: &mut Rng) -> String {
    match (job, input) {
        (Job::Payment, 0) => payment::order_value(key, number),
        (Job::Payment, _) => payment::payment_value(number),
        (Job::Ledger, _) => {
            let operation = rng.pick(b"eeeddpbbcmmsrrxfnn");
            let argument = match operation {
                b'd' | b'e' => rng.pick(&[0, 100, 1_000, 2_000]),
                b'c' => rng.range(1, 6),
                b'm' => rng.range(0, 5),
                _ => rng.range(-200, 3_000),
            };
            format!("{}:{argument}:{number}", char::from(operation))
        }
    }
}

fn write(writings: &mut Vec<Writing>, knobs: &Knobs, rng: &mut Rng, writing: Writing) {
    if !rng.percent(knobs.transactional_percent) {
        writings.push(writing);
        return;
    }
    let opened_at = writing.at;
    let at = (opened_at + rng.range(1, 800)).min(knobs.span + 50).max(opened_at);
    let is_aborted = rng.percent(33);
    if is_aborted {
        writings.push(writing.clone());
    }
    // What is aborted was a lie.
    let key = if is_aborted { "aborted".to_owned() } else { writing.key.clone() };
    let transaction = Some(Transaction { opened_at, is_aborted });
    writings.push(Writing { at, key, transaction, ..writing });
}

/// Returns what is committed of all that is written.
#[must_use]
pub fn given(writings: &[Writing]) -> Vec<Given> {
    let committed = writings.iter().filter(|writing| writing.is_committed());
    let given = |writing: &Writing| {
        let (key, value) = (writing.key.clone().into(), writing.value.clone().into());
        (writing.input, key, BASE + writing.time, value)
    };
    committed.map(given).collect()
}
