//! What is written to the inputs, and when: drawn before the run.

use std::collections::BTreeSet;

use bytes::Bytes;
use dovetail_core::{key::murmur2_partition, record::Record};

use crate::{
    faults::Knobs,
    job::{Job, payment, payment::Given},
    rng::Rng,
};

/// The wall clock at virtual time 0, ms since the Unix epoch.
pub const BASE: i64 = 1_767_225_600_000;
/// How far the last records lie behind all others, ms: everything before them is decided.
pub const AFTERWARDS: i64 = 600_000;

/// One write to a partition of an input.
#[derive(Debug, Clone)]
pub enum Write {
    /// Records without a transaction.
    Plain(Vec<Record>),
    /// Records of a transaction that stays open.
    Open(u64, Vec<Record>),
    /// The end of a transaction.
    End(u64, bool),
}

/// A write, where and when (virtual ms).
#[derive(Debug, Clone)]
pub struct Writing {
    /// When.
    pub at: i64,
    /// The input.
    pub input: u16,
    /// The partition.
    pub partition: u16,
    /// What.
    pub write: Write,
}

/// Everything that is written, in order of time; the last records are written at `last_at`.
#[must_use]
pub fn draw(knobs: &Knobs, last_at: i64, rng: &mut Rng) -> Vec<Writing> {
    let mut writings = Vec::new();
    let mut newest = BASE;
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
        newest = newest.max(BASE + at);
        let behind = match rng.percent(knobs.late_percent) {
            true => knobs.out_of_orderness + rng.range(1, 6_000),
            false => rng.range(0, knobs.out_of_orderness),
        };
        let value = value(knobs.job, input, &key, number, rng);
        let partition = murmur2_partition(key.as_bytes(), knobs.partitions);
        let record = record(&key, value, newest - behind);
        write(&mut writings, knobs, rng, (at, input, partition), record, number);
    }
    writings.extend(last(knobs, last_at, 1));
    writings.sort_by_key(|writing| writing.at);
    writings
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
        let record = record(&key, value, BASE + knobs.span + AFTERWARDS * nth);
        Writing { at, input, partition, write: Write::Plain(vec![record]) }
    };
    sources(knobs).map(write).collect()
}

/// Returns every input and partition.
pub fn sources(knobs: &Knobs) -> impl Iterator<Item = (u16, u16)> + use<> {
    let partitions = knobs.partitions;
    (0..2).flat_map(move |input| (0..partitions).map(move |partition| (input, partition)))
}

fn record(key: &str, value: String, time: i64) -> Record {
    Record {
        timestamp: Some(time),
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(value.into()),
        ..Record::default()
    }
}

fn value(job: Job, input: u16, key: &str, number: u64, rng: &mut Rng) -> String {
    match (job, input) {
        (Job::Payment, 0) => payment::order_value(key, number),
        (Job::Payment, _) => payment::payment_value(number),
        (Job::Ledger, _) => {
            let operation = rng.pick(b"eeeddpbbcmmsxfnn");
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

fn write(
    writings: &mut Vec<Writing>,
    knobs: &Knobs,
    rng: &mut Rng,
    (at, input, partition): (i64, u16, u16),
    record: Record,
    number: u64,
) {
    let mut push = |at, write| writings.push(Writing { at, input, partition, write });
    if !rng.percent(knobs.transactional_percent) {
        push(at, Write::Plain(vec![record]));
        return;
    }
    let producer = 50_000 + number;
    let end = (at + rng.range(1, 800)).min(knobs.span + 50);
    if rng.percent(33) {
        // What is aborted was a lie.
        let mut lie = record.clone();
        lie.key = Some(Bytes::from_static(b"aborted"));
        push(at.min(end), Write::Open(producer, vec![lie]));
        push(end, Write::End(producer, false));
        push(at, Write::Plain(vec![record]));
    } else {
        push(at.min(end), Write::Open(producer, vec![record]));
        push(end, Write::End(producer, true));
    }
}

/// Returns what is committed of all that is written.
#[must_use]
pub fn given(writings: &[Writing]) -> Vec<Given> {
    let is_committed = |producer: u64| {
        let end = |writing: &Writing| matches!(writing.write, Write::End(other, true) if other == producer);
        writings.iter().any(end)
    };
    let mut given = Vec::new();
    for writing in writings {
        let records = match &writing.write {
            Write::Plain(records) => records,
            Write::Open(producer, records) if is_committed(*producer) => records,
            Write::Open(..) | Write::End(..) => continue,
        };
        given.extend(records.iter().map(|record| {
            let (key, value) = (record.key.clone(), record.value.clone());
            let time = record.timestamp.unwrap_or(0);
            (writing.input, key.unwrap_or_default(), time, value.unwrap_or_default())
        }));
    }
    given
}
