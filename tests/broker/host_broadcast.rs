//! Goal: a rule that every lane reads is in force on each of them soon after it was written, and a
//! crash neither reads it again nor forgets it. Method: pairs of records flow while rules change and
//! processes are killed; every result says how many rules its lane had read.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use dovetail_tests::broker::{Client, Follower, Record};
use serde_json::{Value, json};

use crate::host_process::{Host, LIMIT, Pipeline, component, wait_for_status};
use crate::host_stream::{BASE, key_in};

/// Of the keyed topics, and so lanes.
const PARTITIONS: u16 = 2;
/// Of the topic of rules: any number.
const RULE_PARTITIONS: i32 = 3;
/// Rules that are written; without versions of their own they are counted by each lane.
const RULES: u64 = 12;
/// Before these the process is killed; the second time its disk is lost, too.
const KILLED_BEFORE: [u64; 3] = [4, 7, 10];
/// How long a rule may take to be in force; it takes far less where nothing else is busy.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(5);

fn text(pipeline: &Pipeline) -> String {
    let Pipeline { name, .. } = pipeline;
    let brokers = pipeline.brokers();
    let keyed = |input: &str| {
        format!(
            "\x20 {input}:\n\
             \x20   topic: {name}.{input}\n\
             \x20   key:  {{ from: value, path: $.id }}\n\
             \x20   time: {{ from: value, path: $.ts, unit: ms, out_of_orderness: 0s, idle_after: never }}\n\
             \x20   start: earliest\n"
        )
    };
    let (orders, payments) = (keyed("orders"), keyed("payments"));
    format!(
        "pipeline: {name}\n\
         kafka: {{ brokers: \"{brokers}\", transaction_timeout: 10s }}\n\
         inputs:\n{orders}{payments}\
         \x20 rules: {{ topic: {name}.rules, broadcast: true, start: earliest }}\n\
         plugin:\n\
         \x20 file: plugin.wasm\n\
         \x20 inputs: {{ left: orders, right: payments, rules: rules }}\n\
         \x20 config:\n\
         \x20   class: class\n\
         \x20   apply_to_waiting: true\n\
         \x20   result: {{ id: left.id, paid: right.id, version: version }}\n\
         outputs:\n\
         \x20 main: {{ topic: {name}.results }}\n\
         \x20 unmatched: {{ topic: {name}.late }}\n\
         \x20 unruled: {{ topic: {name}.unruled, create: true }}\n\
         lanes: {PARTITIONS}\n\
         state: {{ dir: state }}\n\
         admin: {{ listen: \"127.0.0.1:0\" }}\n"
    )
}

fn rule(number: u64) -> Record {
    let partition = i32::try_from(number).unwrap() % RULE_PARTITIONS;
    let value = json!({ "class": "all", "wait": "1h", "agree": ["amount"] }).to_string();
    Record::new("all", &value).in_partition(partition)
}

/// A pair of records, both in one partition.
fn pair(number: u64) -> [Record; 2] {
    let partition = u16::try_from(number % u64::from(PARTITIONS)).unwrap();
    let key = key_in(&format!("k{number}-"), partition, PARTITIONS);
    [0, 1].map(|later| {
        let ts = BASE + 2 * i64::try_from(number).unwrap() + later;
        let value = json!({ "id": key, "class": "all", "amount": number, "ts": ts }).to_string();
        Record::new(&key, &value).in_partition(partition.into())
    })
}

/// Writes pairs, some at a time, until it is told to stop; returns how many.
fn flow(client: &Client, topics: &[String; 2], stops: &AtomicBool, written: &AtomicU64) {
    let mut number = 0;
    while !stops.load(Ordering::Relaxed) {
        let pairs: Vec<[Record; 2]> = (number..number + 20).map(pair).collect();
        for (at, topic) in topics.iter().enumerate() {
            let records: Vec<Record> = pairs.iter().map(|pair| pair[at].clone()).collect();
            client.produce(topic, &records).unwrap();
        }
        number += 20;
        written.store(number, Ordering::Relaxed);
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Ends the flow, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn version(record: &Record) -> u64 {
    let value: Value = serde_json::from_str(&record.value_text()).unwrap();
    value["version"].as_u64().unwrap()
}

/// Reads until every lane has decided something by that many rules; returns how long it took.
fn read_decided_by(rules: u64, results: &mut Follower, host: &Host) -> Duration {
    let begin = Instant::now();
    let mut last = BTreeMap::new();
    let mut seen = 0;
    loop {
        for record in &results.records[seen..] {
            last.insert(record.partition, version(record));
        }
        seen = results.records.len();
        if last.len() == usize::from(PARTITIONS) && last.values().all(|found| *found == rules) {
            return begin.elapsed();
        }
        assert!(last.values().all(|found| *found <= rules), "{last:?} of {rules} rules");
        assert!(begin.elapsed() < LIMIT, "{last:?} of {rules} rules\n{}", host.text());
        results.read(seen + 1, Duration::from_millis(100)).unwrap();
    }
}

/// Conditions of J8: no restart for a change, no loss, and each lane's rules never go back.
#[test]
fn a_changed_rule_is_in_force_on_every_lane_within_moments_and_survives_kills() {
    let pipeline = Pipeline::create(PARTITIONS.into());
    let (client, rules) = (&pipeline.client, pipeline.topic("rules"));
    client.create_topic(&rules, RULE_PARTITIONS, &[]).unwrap();
    client.produce(&rules, &[rule(1)]).unwrap();
    pipeline.replace_plugin(&component("plugins/dynamic-rules"));
    let start = || pipeline.run_text("rules.yaml", &text(&pipeline));
    let topics = ["orders", "payments"].map(|topic| pipeline.topic(topic));
    let (stops, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut results = client.follow(&pipeline.topic("results")).unwrap();

    let host = std::thread::scope(|scope| {
        scope.spawn(|| flow(client, &topics, &stops, &written));
        let stop = Stop(&stops);
        let mut host = start();
        // The rule that was there before the first start is in force before the first record.
        read_decided_by(1, &mut results, &host);
        let mut took = Vec::new();
        for number in 2..=RULES {
            if KILLED_BEFORE.contains(&number) {
                host.kill();
                if number == KILLED_BEFORE[1] {
                    pipeline.delete_state();
                }
                host = start();
                host.wait_for_lanes();
            }
            client.produce(&rules, &[rule(number)]).unwrap();
            took.push(read_decided_by(number, &mut results, &host));
        }
        drop(stop);
        took.sort();
        println!("rules were in force on every lane after {took:?}");
        assert!(took.iter().all(|took| *took < IN_FORCE_WITHIN), "{took:?}");
        host
    });

    let count = usize::try_from(written.load(Ordering::Relaxed)).unwrap();
    assert!(results.read(count, LIMIT).unwrap(), "{results:?} of {count}\n{}", host.text());
    let status = wait_for_status(&host.admin(), |_| true);
    for lane in status["lanes"].as_array().unwrap() {
        let sources = lane["sources"].as_array().unwrap().iter();
        let broadcast = sources.filter(|source| source["broadcast"] == true);
        let read: u64 = broadcast.map(|source| source["position"].as_u64().unwrap()).sum();
        assert_eq!(read, RULES, "{lane}");
    }
    host.stop();
    let group = format!("{}.state", pipeline.name);
    for partition in 0..RULE_PARTITIONS {
        assert_eq!(client.committed_offset(&group, &rules, partition).unwrap(), None);
    }
    assert!(client.committed_offset(&group, &topics[0], 0).unwrap().is_some());

    let mut found = BTreeMap::new();
    let mut versions: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for record in client.read_committed(&pipeline.topic("results")).unwrap() {
        let value: Value = serde_json::from_str(&record.value_text()).unwrap();
        assert_eq!(value["id"], value["paid"], "{value}");
        *found.entry(value["id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        versions.entry(record.partition).or_default().push(version(&record));
    }
    assert_eq!((found.len(), found.values().max()), (count, Some(&1)), "each pair once");
    assert!(versions.values().all(|versions| versions.is_sorted()), "a lane went back to a rule");
    for topic in ["late", "unruled", "dead-letters"] {
        assert_eq!(client.read_committed(&pipeline.topic(topic)).unwrap(), [], "{topic}");
    }
}
