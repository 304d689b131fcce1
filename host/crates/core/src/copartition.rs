//! Watches whether the inputs' keys lie where they can meet.
//!
//! Lanes sample keys by their hash, so the same keys are sampled on every input; this watch, over
//! all lanes, compares under which partition numbers they were seen. A key under two numbers is a
//! violation: its records never meet. No sampled key on two inputs, after many records of each,
//! means that nothing matches.

use std::collections::BTreeMap;

use crate::{
    key::Key,
    lane::Warning,
    record::{InputIndex, Partition},
};

/// One key in this many is sampled.
pub const SAMPLE_ONE_IN: u64 = 16;
/// Sampled keys kept.
const KEYS_MAX: usize = 10_000;
/// Records per input after which a match is expected.
pub const RECORDS_WITHOUT_MATCH: u64 = 10_000;
const SAMPLES_SHOWN: usize = 3;

/// A sampled key of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySample {
    /// The input.
    pub input: InputIndex,
    /// The partition.
    pub partition: Partition,
    /// The key.
    pub key: Key,
}

/// Compares sampled keys over all lanes.
#[derive(Debug, Default)]
pub struct CopartitionWatch {
    seen: BTreeMap<Key, (Partition, u64)>,
    records: Vec<u64>,
    samples: Vec<Vec<String>>,
    violations: Vec<u64>,
    last_violation: Option<Warning>,
    /// Whether an input's keys are compared.
    is_keyed: Vec<bool>,
    has_matched: bool,
    has_warned: bool,
}

impl CopartitionWatch {
    /// Returns a watch over inputs; of each, whether its keys are compared with those of others
    /// (broadcast inputs' are not).
    #[must_use]
    pub fn new(is_keyed: Vec<bool>) -> Self {
        let inputs = is_keyed.len();
        Self {
            records: vec![0; inputs],
            samples: vec![Vec::new(); inputs],
            violations: vec![0; inputs],
            has_matched: is_keyed.iter().filter(|is_keyed| **is_keyed).count() < 2,
            is_keyed,
            ..Self::default()
        }
    }

    /// Takes a committed epoch's counts and samples; returns what the operator should know.
    pub fn observe(&mut self, records: &[u64], samples: &[KeySample]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (total, records) in self.records.iter_mut().zip(records) {
            *total += records;
        }
        for sample in samples {
            warnings.extend(self.observe_sample(sample));
        }
        let mut keyed = self.records.iter().zip(&self.is_keyed).filter(|(_, is_keyed)| **is_keyed);
        let is_due = keyed.all(|(records, _)| *records >= RECORDS_WITHOUT_MATCH);
        if is_due && !self.has_matched && !self.has_warned {
            self.has_warned = true;
            warnings.push(Warning::NothingMatched { samples: self.samples.clone() });
        }
        warnings
    }

    fn observe_sample(&mut self, sample: &KeySample) -> Option<Warning> {
        let input = usize::from(sample.input.0);
        let text = String::from_utf8_lossy(sample.key.as_bytes()).into_owned();
        if self.samples[input].len() < SAMPLES_SHOWN && !self.samples[input].contains(&text) {
            self.samples[input].push(text.clone());
        }
        if self.seen.len() >= KEYS_MAX && !self.seen.contains_key(&sample.key) {
            self.seen.pop_first();
        }
        let mask = 1_u64 << (input % 64);
        let (first, inputs) =
            self.seen.entry(sample.key.clone()).or_insert((sample.partition, mask));
        *inputs |= mask;
        let first = *first;
        if first == sample.partition {
            self.has_matched |= inputs.count_ones() > 1;
            return None;
        }
        self.violations[input] += 1;
        let warning = Warning::Copartition {
            input: sample.input,
            key: text,
            first,
            second: sample.partition,
        };
        self.last_violation = Some(warning.clone());
        Some(warning)
    }

    /// Returns how many violations were seen, per input.
    #[must_use]
    pub fn violations(&self) -> &[u64] {
        &self.violations
    }

    /// Returns the last violation, for readiness.
    #[must_use]
    pub fn last_violation(&self) -> Option<&Warning> {
        self.last_violation.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(input: u16, partition: u16, key: &str) -> KeySample {
        KeySample {
            input: InputIndex(input),
            partition: Partition(partition),
            key: Key::new(key.as_bytes().to_vec()),
        }
    }

    #[test]
    fn a_key_under_two_partition_numbers_is_a_violation() {
        let mut watch = CopartitionWatch::new(vec![true; 2]);
        assert_eq!(watch.observe(&[1, 0], &[sample(0, 1, "o-1002")]), []);
        let warnings = watch.observe(&[0, 1], &[sample(1, 4, "o-1002")]);
        assert!(matches!(&warnings[..], [Warning::Copartition { key, .. }] if key == "o-1002"));
        assert_eq!(watch.violations(), [0, 1]);
    }

    #[test]
    fn nothing_matched_is_said_once_with_keys_of_each_input() {
        let mut watch = CopartitionWatch::new(vec![true; 2]);
        let samples = [sample(0, 0, "a"), sample(1, 0, "b")];
        let warnings = watch.observe(&[RECORDS_WITHOUT_MATCH; 2], &samples);
        let expected = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
        assert_eq!(warnings, [Warning::NothingMatched { samples: expected }]);
        assert_eq!(watch.observe(&[1, 1], &samples), []);
    }

    #[test]
    fn a_broadcast_input_is_matched_with_nothing() {
        let mut watch = CopartitionWatch::new(vec![true, false]);
        assert_eq!(watch.observe(&[RECORDS_WITHOUT_MATCH; 2], &[sample(0, 0, "a")]), []);
        let mut watch = CopartitionWatch::new(vec![true, false, true]);
        let records = [RECORDS_WITHOUT_MATCH, 0, RECORDS_WITHOUT_MATCH];
        let warnings = watch.observe(&records, &[sample(0, 0, "a"), sample(2, 0, "b")]);
        let expected = vec![vec!["a".to_owned()], Vec::new(), vec!["b".to_owned()]];
        assert_eq!(warnings, [Warning::NothingMatched { samples: expected }]);
    }
}
