//! Goal: every record has exactly one outcome, and each pair is one that the rule it names allows.
//! Method: records, rules, times and crashes in many random orders, checked against what was given.

use std::collections::BTreeMap;

use dovetail_sdk::Harness;
use dynamic_rules::DynamicRules;
use serde_json::Value;

/// Numbers without a pattern, always the same for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % end).cast_signed()
    }
}

/// What was given: records by id, and rules by version.
#[derive(Default)]
struct Given {
    /// Event time and amount.
    records: BTreeMap<u64, (i64, i64)>,
    /// How long to wait, and whether the amount must agree.
    rules: BTreeMap<u64, (i64, bool)>,
    time: i64,
}

impl Given {
    fn act(&mut self, harness: &mut Harness<DynamicRules>, numbers: &mut Numbers) {
        match numbers.below(10) {
            0 => {
                let (version, wait) = (self.rules.len() as u64 + 1, numbers.below(60));
                let (class, agrees) = (numbers.below(2), numbers.below(2) == 0);
                let agree = if agrees { r#"["amount"]"# } else { "[]" };
                let rule = format!(
                    r#"{{"class":"c{class}","version":{version},"wait":"{wait}ms","agree":{agree}}}"#
                );
                harness.record("rules").value(&rule);
                self.rules.insert(version, (wait, agrees));
            }
            1 => {
                self.time += numbers.below(40);
                harness.watermark(self.time);
            }
            2 => {
                harness.commit();
                harness.crash();
            }
            _ => {
                let id = self.records.len() as u64;
                let (class, amount) = (numbers.below(3), numbers.below(2));
                let time = self.time + numbers.below(60) - 15;
                let value = format!(r#"{{"id":{id},"class":"c{class}","amount":{amount}}}"#);
                let input = ["left", "right"][usize::from(numbers.below(2) == 0)];
                let key = format!("k{}", numbers.below(3));
                harness.record(input).key(&key).time(time).value(&value);
                self.records.insert(id, (time, amount));
            }
        }
    }
}

fn check(config: &str, seed: u64) {
    let mut harness = Harness::<DynamicRules>::new(config).expect("it opens");
    let (mut given, mut numbers) = (Given::default(), Numbers(seed));
    for _ in 0..150 {
        given.act(&mut harness, &mut numbers);
    }
    harness.end();
    let mut outcomes: BTreeMap<u64, u32> = BTreeMap::new();
    for output in ["main", "unmatched", "unruled"] {
        for text in harness.values(output) {
            let value: Value = serde_json::from_str(&text).expect("results are JSON");
            for side in ["left", "right", "id"] {
                if let Some(id) = value[side].as_u64() {
                    *outcomes.entry(id).or_default() += 1;
                }
            }
            if let (Some(left), Some(right)) = (value["left"].as_u64(), value["right"].as_u64()) {
                let (wait, agrees) = given.rules[&value["version"].as_u64().expect("a version")];
                let (left, right) = (given.records[&left], given.records[&right]);
                assert!((left.0 - right.0).abs() <= wait, "seed {seed}: {text}");
                assert!(!agrees || left.1 == right.1, "seed {seed}: {text}");
            }
        }
    }
    let once: BTreeMap<u64, u32> = given.records.keys().map(|id| (*id, 1)).collect();
    assert_eq!(outcomes, once, "seed {seed}");
    assert!(harness.dead_letters().is_empty(), "seed {seed}");
}

const RESULT: &str =
    r#""class":"class","result":{"left":"left.id","right":"right.id","version":"version"}"#;

#[test]
fn every_record_has_one_outcome_that_its_rule_allows_whatever_comes_when() {
    for seed in 0..150 {
        check(&format!("{{{RESULT}}}"), seed);
        check(&format!(r#"{{{RESULT},"apply_to_waiting":true}}"#), seed);
        check(&format!(r#"{{{RESULT},"apply_to_waiting":true,"recheck":"7ms"}}"#), seed);
    }
}

#[test]
fn nothing_but_rules_is_left_behind_once_everything_is_decided() {
    let mut harness = Harness::<DynamicRules>::new(&format!("{{{RESULT}}}")).unwrap();
    harness.record("rules").value(r#"{"class":"c","wait":"1s"}"#);
    for id in 0..4 {
        let value = format!(r#"{{"id":{id},"class":"c"}}"#);
        harness.record("left").key("k").time(id).value(&value);
    }
    harness.record("right").key("k").time(5).value(r#"{"id":5,"class":"c"}"#);
    harness.watermark(10_000);
    assert_eq!(harness.values("unmatched").len(), 3);
    assert_eq!(harness.rows(), 2, "the rule, and how many there were");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let refused = Harness::<DynamicRules>::new(r#"{"class":"c","recheck":"5s"}"#).unwrap_err();
    assert!(refused.message().contains("`recheck` goes with `apply_to_waiting: true`"));
}

/// Lets `each` records of both sides wait under one key and time, and one rule.
fn waiting(config: &str, each: usize, value: &str) -> Harness<DynamicRules> {
    let mut harness = Harness::<DynamicRules>::new(config).expect("it opens");
    harness.record("rules").value(r#"{"class":"c","version":1,"wait":"1s","agree":["id"]}"#);
    for side in ["left", "right"] {
        for id in 0..each {
            let value = format!(r#"{{"id":"{side}{id}","class":"c","v":"{value}"}}"#);
            harness.record(side).key("k").time(5).value(&value);
        }
    }
    harness
}

#[test]
fn large_records_of_one_key_and_time_that_wait_in_vain_are_told_in_steps() {
    let large = "x".repeat(900_000);
    let mut harness = waiting(r#"{"class":"class"}"#, 12, &large);
    harness.commit();
    harness.crash();
    harness.watermark(1_005);
    assert!(harness.dead_letters().is_empty());
    assert_eq!(harness.take("unmatched").len(), 24, "one call may emit 8 MiB");
    assert_eq!(harness.rows(), 2, "the rule, and how many there were");
}

#[test]
fn many_records_of_one_key_and_time_that_wait_in_vain_are_told_in_steps() {
    let mut harness = Harness::<DynamicRules>::new(r#"{"class":"class"}"#).expect("it opens");
    harness.record("rules").value(r#"{"class":"c","wait":"1s"}"#);
    for _ in 0..10_001 {
        harness.record("left").key("k").time(5).value(r#"{"class":"c"}"#);
    }
    harness.watermark(1_005);
    assert!(harness.dead_letters().is_empty(), "one call may emit 10,000 results");
    assert_eq!(harness.take("unmatched").len(), 10_001);
    assert_eq!(harness.rows(), 2, "the rule, and how many there were");
}

#[test]
fn large_records_that_wait_take_a_longer_rule_and_then_a_shorter_one_in_steps() {
    let config = r#"{"class":"class","apply_to_waiting":true,"recheck":"400ms"}"#;
    let large = "x".repeat(900_000);
    let mut harness = waiting(config, 24, &large);
    harness.record("rules").value(r#"{"class":"c","version":2,"wait":"1m"}"#);
    harness.watermark(1_005);
    assert!(harness.dead_letters().is_empty(), "one call may write 32 MiB");
    assert!(harness.take("unmatched").is_empty(), "the longer rule holds for what waits");
    harness.record("rules").value(r#"{"class":"c","version":3,"wait":"1100ms"}"#);
    harness.watermark(1_405);
    assert!(harness.dead_letters().is_empty());
    assert_eq!(harness.take("unmatched").len(), 48);
    assert_eq!(harness.rows(), 2, "the rule, and how many there were");
}
