//! What a few of an input's records say about its configuration, for `validate --sample`.
//!
//! Decodes exactly as a run would and judges by the input's own rules, so that a configuration
//! under which nothing could be used is no longer called ok. Changes nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use dovetail_codec::{Decoder, TimeSamples};
use dovetail_core::{
    dead_letter::Reason,
    key::murmur2_partition,
    options::NullKeyPolicy,
    record::{Decoding, Partition, Record},
};
use serde_json::{Value, json};

use crate::config::model::InputConfig;

/// Records of an input, by partition and offset.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// The records.
    pub records: Vec<(Partition, Record)>,
    /// Over how many partitions a producer has spread them; none for files, which people split.
    pub hashed_over: Option<u16>,
}

/// What a sample says about an input.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The input.
    pub input: String,
    /// How many records were read.
    pub sampled: usize,
    /// How many a plugin would see.
    pub usable: usize,
    /// How many `null_key: drop` would drop.
    pub dropped: usize,
    /// How many would be dead letters, by reason.
    pub dead_letters: BTreeMap<&'static str, usize>,
    /// The first of them: reason, message, and where it lies.
    pub first_dead_letter: Option<String>,
    /// What looks wrong.
    pub notes: Vec<String>,
    /// For each sampled key the first partition number that it was seen under.
    keys: BTreeMap<Bytes, u16>,
}

impl Findings {
    /// Judges a sample.
    #[must_use]
    pub fn new(input: &InputConfig, sampled: &Sampled) -> Self {
        let decoder = Decoder::new(input.format.clone());
        let mut times = TimeSamples::new(&decoder);
        let mut findings = Self {
            input: input.name.clone(),
            sampled: sampled.records.len(),
            usable: 0,
            dropped: 0,
            dead_letters: BTreeMap::new(),
            first_dead_letter: None,
            notes: Vec::new(),
            keys: BTreeMap::new(),
        };
        let mut places = Places::new(sampled.hashed_over);
        for (partition, record) in &sampled.records {
            times.add(record);
            let hashed = record.key.clone();
            let decoding = decoder.decode(record.clone()).decoding;
            // A key of a broadcast input meets no other and may lie anywhere.
            if let Decoding::Ready { key: Some(key), .. } = &decoding
                && !input.is_broadcast
            {
                places.add(hashed.as_ref().unwrap_or(&key.0), *partition);
                findings.keys.entry(key.0.clone()).or_insert(partition.0);
            }
            findings.count(input, *partition, record.offset, decoding);
        }
        findings.notes.extend(times.hint().map(|hint| format!("{}: {hint}", input.name)));
        findings.notes.extend(places.note(&input.name));
        findings
    }

    fn count(
        &mut self,
        input: &InputConfig,
        partition: Partition,
        offset: i64,
        decoding: Decoding,
    ) {
        let (reason, message) = match decoding {
            Decoding::Rejected { reason, message } => (reason, message),
            Decoding::Ready { key: None, .. } => match input.null_key {
                NullKeyPolicy::DeadLetter => (Reason::NullKey, "the key is null".to_owned()),
                NullKeyPolicy::Drop => {
                    self.dropped += 1;
                    return;
                }
                NullKeyPolicy::Process => {
                    self.usable += 1;
                    return;
                }
            },
            Decoding::Ready { key: Some(_), .. } => {
                self.usable += 1;
                return;
            }
        };
        *self.dead_letters.entry(reason.name()).or_default() += 1;
        self.first_dead_letter.get_or_insert_with(|| {
            format!("{}: {message} at {}[{}]@{offset}", reason.name(), input.name, partition.0)
        });
    }

    /// Returns how many records would be dead letters.
    #[must_use]
    pub fn dead(&self) -> usize {
        self.dead_letters.values().sum()
    }

    /// Returns whether more of them would be dead letters than so many percent. A single one among
    /// usable records is no rate yet.
    #[must_use]
    pub fn exceeds(&self, percent_max: u32) -> bool {
        let percent_max = usize::try_from(percent_max).unwrap_or(usize::MAX);
        let is_rate = self.dead() > 1 || self.usable == 0;
        is_rate && self.dead().saturating_mul(100) > self.sampled.saturating_mul(percent_max)
    }

    /// Returns the findings as one line for a person.
    #[must_use]
    pub fn line(&self) -> String {
        if self.sampled == 0 {
            return format!("{}: no records to sample", self.input);
        }
        let mut line = format!("{}: {} sampled, {} usable", self.input, self.sampled, self.usable);
        if self.dropped > 0 {
            line.push_str(&format!(", {} would be dropped (null_key)", self.dropped));
        }
        if let Some(first) = &self.first_dead_letter {
            let dead = self.dead();
            let noun = if dead == 1 { "a dead letter" } else { "dead letters" };
            line.push_str(&format!(", {dead} would be {noun} ({first})"));
        }
        line
    }

    /// Returns the findings for a program.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "input": self.input,
            "sampled": self.sampled,
            "usable": self.usable,
            "dropped": self.dropped,
            "dead_letters": self.dead_letters,
            "first_dead_letter": self.first_dead_letter,
            "notes": self.notes,
        })
    }
}

/// Returns a key that two inputs have under two partition numbers, in words.
#[must_use]
pub fn key_apart(all: &[Findings]) -> Option<String> {
    let (first, others) = all.split_first()?;
    others.iter().find_map(|other| {
        let (key, here, there) = first.keys.iter().find_map(|(key, here)| {
            let there = other.keys.get(key).filter(|there| *there != here)?;
            Some((key, here, there))
        })?;
        Some(format!(
            "the key {} lies in partition {here} of {} and in partition {there} of {}: such keys \
             never meet; split all inputs by the same key in the same way",
            String::from_utf8_lossy(key),
            first.input,
            other.input
        ))
    })
}

/// Counts keys that do not lie where Kafka's Java clients put them.
struct Places {
    partitions: Option<u16>,
    keyed: usize,
    misplaced: usize,
}

impl Places {
    fn new(partitions: Option<u16>) -> Self {
        // In one partition every key is in its place.
        Self { partitions: partitions.filter(|count| *count > 1), keyed: 0, misplaced: 0 }
    }

    fn add(&mut self, key: &[u8], partition: Partition) {
        let Some(partitions) = self.partitions else { return };
        self.keyed += 1;
        self.misplaced += usize::from(murmur2_partition(key, partitions) != partition.0);
    }

    fn note(&self, input: &str) -> Option<String> {
        let percent = (self.misplaced * 100 + self.keyed / 2).checked_div(self.keyed)?;
        (self.misplaced > 0).then(|| {
            format!(
                "{percent}% of {input} keys are not where murmur2 puts them; if another input's \
                 producer uses murmur2 (Java clients do), equal keys lie in different lanes and \
                 never meet"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Environment, load_text};

    fn input(null_key: &str) -> InputConfig {
        let text = format!(
            "pipeline: p\ninputs:\n  payments:\n    topic: payments\n    null_key: {null_key}\n    \
             key: {{ from: key }}\n    start: earliest\nplugin: {{ file: p.wasm }}\noutputs: {{ main: \
             {{ topic: results }} }}\n"
        );
        let loaded = load_text("pipeline.yaml", text, Path::new("/"), &Environment::default());
        loaded.unwrap().config.inputs.remove(0)
    }

    fn record(partition: u16, key: Option<&'static str>) -> (Partition, Record) {
        let key = key.map(Bytes::from);
        (Partition(partition), Record { key, value: Some("{}".into()), ..Record::default() })
    }

    #[test]
    fn a_topic_without_keys_would_be_dead_letters_alone() {
        let records = vec![record(0, None), record(1, None)];
        let sampled = Sampled { records, hashed_over: Some(2) };
        let findings = Findings::new(&input("dead_letter"), &sampled);
        assert_eq!(
            findings.line(),
            "payments: 2 sampled, 0 usable, 2 would be dead letters (null_key: the key is null at \
             payments[0]@0)"
        );
        assert!(findings.exceeds(10));
        assert!(!findings.exceeds(100));
        let dropped = Findings::new(&input("drop"), &sampled);
        assert_eq!(dropped.line(), "payments: 2 sampled, 0 usable, 2 would be dropped (null_key)");
        assert!(!dropped.exceeds(10));
    }

    #[test]
    fn an_empty_topic_says_so() {
        let findings = Findings::new(&input("drop"), &Sampled::default());
        assert_eq!(findings.line(), "payments: no records to sample");
        assert!(!findings.exceeds(0));
    }

    /// Pain P18: 1000 keys where librdkafka's crc32 puts them, of which 162 are where murmur2 does.
    #[test]
    fn keys_that_another_partitioner_placed_are_counted() {
        let crc32 = |bytes: &[u8]| {
            let step = |crc: u32, byte: &u8| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
            };
            !bytes.iter().fold(u32::MAX, step)
        };
        let record = |number: u32| {
            let key = format!("o-{number}");
            let partition = u16::try_from(crc32(key.as_bytes()) % 6).unwrap();
            let value = Some("{}".into());
            (Partition(partition), Record { key: Some(key.into()), value, ..Record::default() })
        };
        let records = (1_000..2_000).map(record).collect();
        let findings = Findings::new(&input("drop"), &Sampled { records, hashed_over: Some(6) });
        let note = findings.notes.join("");
        assert!(note.starts_with("84% of payments keys are not where murmur2 puts them"), "{note}");
    }

    #[test]
    fn a_key_under_two_partition_numbers_is_named() {
        let one = Findings::new(
            &input("drop"),
            &Sampled { records: vec![record(0, Some("k"))], hashed_over: None },
        );
        let other = Findings::new(
            &input("drop"),
            &Sampled { records: vec![record(1, Some("k"))], hashed_over: None },
        );
        let said = key_apart(&[one, other]).unwrap();
        assert!(said.contains("the key k lies in partition 0 of payments and in partition 1"));
    }
}
