//! Orders and payments by a seed, and what a correct join makes of them, computed here without any
//! of the host's code.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use dovetail_core::key::murmur2_partition;
use dovetail_tests::broker::Record;
use serde_json::{Value, json};

use crate::host_process::Pipeline;

/// 2026-01-01T00:00:00Z.
pub(crate) const BASE: i64 = 1_767_225_600_000;
/// How far from its order a payment may be, ms.
const WITHIN: i64 = 10_000;
/// Records of a topic are out of order by less than that, ms.
const DISORDER: u64 = 1_500;
/// The seed to repeat a run with.
const SEED_VARIABLE: &str = "DOVETAIL_TEST_SEED";

/// A size for `make test`, or the one that a variable sets for `make soak`.
pub(crate) fn size((variable, small): (&str, u64)) -> u64 {
    std::env::var(variable).map_or(small, |size| size.parse().unwrap())
}

/// Numbers that look random (`SplitMix64`).
pub(crate) struct Random(u64);

impl Random {
    /// A seed that is printed: from `DOVETAIL_TEST_SEED`, else a new one.
    pub(crate) fn new() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().map(|seed| seed.parse().unwrap());
        let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("{SEED_VARIABLE}={seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn millis(&mut self, bound: u64) -> i64 {
        i64::try_from(self.below(bound)).unwrap()
    }
}

/// A stream with as many orders as payments.
pub(crate) struct Stream {
    /// In the order of arrival; the last of each partition lies an hour behind all others.
    pub(crate) orders: Vec<Record>,
    pub(crate) payments: Vec<Record>,
    /// For each order that gets a result, what was paid.
    pub(crate) results: BTreeMap<String, Option<u64>>,
    /// What was paid without an order.
    pub(crate) late: BTreeSet<u64>,
}

impl Stream {
    /// Makes `count` orders, one every `every` ms, and as many payments.
    pub(crate) fn generate(random: &mut Random, count: u64, every: i64, partitions: u16) -> Self {
        let (mut orders, mut payments) = (Vec::new(), Vec::new());
        let (mut results, mut late) = (BTreeMap::new(), BTreeSet::new());
        for number in 0..count {
            let ordered = BASE + WITHIN * 3 + i64::try_from(number).unwrap() * every;
            let key = format!("o{number}");
            orders.push((ordered + random.millis(DISORDER), order(&key, ordered, partitions)));
            let (paid_at, has_order) = match random.below(100) {
                0..80 => (ordered + random.millis(10_001), true),
                80..85 => (ordered - random.millis(10_001), true),
                85..90 => (ordered + WITHIN + 1 + random.millis(9_000), true),
                90..92 => (ordered - WITHIN - 1 - random.millis(9_000), true),
                _ => (ordered, false),
            };
            let is_paid = has_order && (paid_at - ordered).abs() <= WITHIN;
            let of = if has_order { key.clone() } else { format!("x{number}") };
            let payment = payment(&of, paid_at, number, partitions);
            payments.push((paid_at + random.millis(DISORDER), payment));
            results.insert(key, is_paid.then_some(number));
            if !is_paid {
                late.insert(number);
            }
        }
        let end = BASE + i64::try_from(count).unwrap() * every + 3_600_000;
        let in_order = |mut records: Vec<(i64, Record)>| {
            records.sort_by_key(|(arrival, _)| *arrival);
            records.into_iter().map(|(_, record)| record).collect::<Vec<_>>()
        };
        let (mut orders, mut payments) = (in_order(orders), in_order(payments));
        for partition in 0..partitions {
            orders.push(order(&key_in("end-order", partition, partitions), end, partitions));
            let key = key_in("end-payment", partition, partitions);
            payments.push(payment(&key, end, u64::MAX, partitions));
        }
        Self { orders, payments, results, late }
    }

    /// Compares what was read with what must have come out; returns the marks that revisions leave
    /// in results, by partition in order.
    pub(crate) fn check(&self, results: &[Record], late: &[Record]) -> BTreeMap<i32, String> {
        let mut found = BTreeMap::new();
        let mut marks: BTreeMap<i32, String> = BTreeMap::new();
        for record in results {
            let value = value(record);
            let id = value["order_id"].as_str().unwrap().to_owned();
            let paid = value["paid"].as_u64();
            let status = if paid.is_some() { "PAI" } else { "UNPAI" };
            assert!(value["status"].as_str().unwrap().starts_with(status), "{value}");
            marks.entry(record.partition).or_default().push(mark_of(record));
            assert_eq!(found.insert(id, paid), None, "a second result: {value}");
        }
        compare("results", &self.results, &found);
        let found: Vec<u64> =
            late.iter().map(|record| value(record)["paid"].as_u64().unwrap()).collect();
        let set: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(found.len(), set.len(), "late payments came twice");
        let keyed = |set: &BTreeSet<u64>| set.iter().map(|paid| (*paid, ())).collect();
        compare("late payments", &keyed(&self.late), &keyed(&set));
        marks
    }
}

/// A difference is shown by its first entries: the whole is too long to read.
fn compare<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &BTreeMap<K, V>,
    found: &BTreeMap<K, V>,
) {
    let missing: Vec<_> = expected.iter().filter(|(key, _)| !found.contains_key(key)).collect();
    let wrong: Vec<_> = found.iter().filter(|(key, v)| expected.get(key) != Some(v)).collect();
    assert!(
        missing.is_empty() && wrong.is_empty(),
        "{what}: {} missing ({:?}), {} wrong or more ({:?})",
        missing.len(),
        &missing[..missing.len().min(5)],
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
}

/// Produces a stream piece by piece, both topics alike.
pub(crate) struct Feed<'a> {
    pipeline: &'a Pipeline,
    orders: &'a [Record],
    payments: &'a [Record],
}

impl<'a> Feed<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, stream: &'a Stream) -> Self {
        Self { pipeline, orders: &stream.orders, payments: &stream.payments }
    }

    /// Produces so many of each topic, or what is left.
    pub(crate) fn piece(&mut self, count: usize) {
        for (name, rest) in [("orders", &mut self.orders), ("payments", &mut self.payments)] {
            let (piece, after) = rest.split_at(count.min(rest.len()));
            self.pipeline.client.produce(&self.pipeline.topic(name), piece).unwrap();
            *rest = after;
        }
    }

    pub(crate) fn rest(mut self) {
        self.piece(usize::MAX);
    }
}

pub(crate) fn value(record: &Record) -> Value {
    serde_json::from_slice(record.value.as_deref().unwrap()).unwrap()
}

/// The number of the revision that made a result: the first says `PAID`, the second `PAI2`.
pub(crate) fn mark_of(record: &Record) -> char {
    let mark = value(record)["status"].as_str().unwrap().chars().last().unwrap();
    if mark == 'D' { '1' } else { mark }
}

/// An order, in its partition.
pub(crate) fn order(key: &str, time: i64, partitions: u16) -> Record {
    placed(key, &json!({ "order_id": key, "ts": time }), partitions)
}

/// A payment, in its partition.
pub(crate) fn payment(key: &str, time: i64, paid: u64, partitions: u16) -> Record {
    placed(key, &json!({ "order_id": key, "ts": time, "paid": paid }), partitions)
}

fn placed(key: &str, value: &Value, partitions: u16) -> Record {
    let partition = murmur2_partition(key.as_bytes(), partitions);
    Record::new(key, &value.to_string()).in_partition(i32::from(partition))
}

/// The first key of that stem that lies in a partition.
pub(crate) fn key_in(stem: &str, partition: u16, partitions: u16) -> String {
    let mut keys = (0..).map(|number| format!("{stem}-{number}"));
    keys.find(|key| murmur2_partition(key.as_bytes(), partitions) == partition).unwrap()
}
