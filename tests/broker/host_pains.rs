//! Goal: what users of other systems reported as lost, stuck or growing (pains P05, P28, P31 and
//! P39) does not happen here. Method: each report's input, through the binary and a broker.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use dovetail_tests::broker::{Client, Record};
use serde_json::Value;

use crate::host_process::{AtStep, Host, LIMIT, Pipeline, dovetail, wait_for_status, wait_until};
use crate::host_stream::{BASE, Feed, Random, Stream, key_in, order, payment, value};

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600_000;

fn read_of(status: &Value, input: &str) -> u64 {
    let inputs = status["inputs"].as_array().unwrap();
    inputs.iter().find(|it| it["input"] == input).unwrap()["records"].as_u64().unwrap()
}

/// Pain P05.
#[test]
fn after_a_restart_an_input_at_its_end_does_not_hold_the_other_back() {
    let pipeline = Pipeline::create(1);
    let client = &pipeline.client;
    // Nothing is taken because time has passed: the end must be known.
    let text = format!("{}wait_for_input: 1h\n", pipeline.text());
    let orders = |numbers: std::ops::Range<i64>| -> Vec<Record> {
        numbers.map(|number| order(&format!("o{number}"), BASE + number, 1)).collect()
    };
    let payments = [0_u64, 1, 2].map(|paid| payment(&format!("o{paid}"), BASE, paid, 1));
    client.produce(&pipeline.topic("payments"), &payments).unwrap();
    client.produce(&pipeline.topic("orders"), &orders(0..462)).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    let has_read = |status: &Value, counts: [u64; 2]| {
        ["orders", "payments"].map(|input| read_of(status, input)) == counts
    };
    wait_for_status(&host.admin(), |status| has_read(status, [462, 3]));
    host.stop();

    client.produce(&pipeline.topic("orders"), &orders(462..909)).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    wait_for_status(&host.admin(), |status| {
        let sources = status["lanes"][0]["sources"].as_array().unwrap();
        let is_at_end = |source: &Value| source["input"] == "payments" && source["at_end"] == true;
        has_read(status, [447, 0]) && sources.iter().any(is_at_end)
    });
    host.stop();
}

fn with_store(pipeline: &Pipeline, rest: &str) -> String {
    let store = pipeline.path("checkpoints");
    let store = store.display();
    format!("{}checkpoint: {{ every: 1h, store: \"file://{store}\" }}\n{rest}", pipeline.text())
}

/// Takes a checkpoint of the only lane; returns how many live entries of each kind it holds.
fn entries_in_a_checkpoint(host: &Host, file: &Path) -> Value {
    let (url, file) = (format!("http://{}", host.admin()), file.to_str().unwrap());
    let taken = dovetail(&["checkpoint", "trigger", "--url", &url, file]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let shown = dovetail(&["checkpoint", "inspect", file, "--output", "json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    shown[0]["entries"].clone()
}

/// Pain P28.
#[test]
fn two_hundred_thousand_keys_that_appear_once_leave_nothing_behind() {
    const KEYS: i64 = 200_000;
    let pipeline = Pipeline::create(1);
    let client = &pipeline.client;
    let text = with_store(&pipeline, "");
    let (mut orders, mut payments) = (Vec::new(), Vec::new());
    for number in 0..KEYS {
        let (key, time) = (format!("o{number}"), BASE + number / 2);
        orders.push(order(&key, time, 1));
        payments.push(payment(&key, time + SECOND, number.unsigned_abs(), 1));
    }
    // One order moves time behind all others and waits itself, with its timer.
    orders.push(order("last", BASE + HOUR, 1));
    payments.push(payment("none", BASE + HOUR, 0, 1));
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    client.produce(&pipeline.topic("payments"), &payments).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    wait_for_status(&host.admin(), |status| {
        let all = u64::try_from(KEYS).unwrap() + 1;
        [read_of(status, "orders"), read_of(status, "payments")] == [all, all]
            && status["outputs"]["main"] == KEYS
    });
    let entries = entries_in_a_checkpoint(&host, &pipeline.path("pipeline.yaml"));
    let counts = entries.as_object().unwrap().values().map(|count| count.as_u64().unwrap());
    let live: u64 = counts.sum();
    // Those of the two last records: an order, a payment with its key's count, two timers.
    assert!((1..=5).contains(&live), "{entries}");
    host.stop();
}

/// Pain P31.
#[test]
fn a_burst_of_timers_is_cut_by_epochs_a_checkpoint_and_a_kill_and_fires_each_once() {
    const TIMERS: i64 = 100_000;
    let pipeline = Pipeline::create(1);
    let client = &pipeline.client;
    // Fifty epochs or more for the burst, however fast or slow the machine is.
    let text = with_store(&pipeline, "commit: { every: 25ms, max_records: 2000 }\n");
    let file = pipeline.file("pipeline.yaml", &text);
    let orders: Vec<Record> = (0..TIMERS)
        .map(|number| order(&format!("o{number}"), BASE + number * HOUR / TIMERS, 1))
        .collect();
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    let host = Host::start(&file);
    let all = u64::try_from(TIMERS).unwrap();
    wait_for_status(&host.admin(), |status| read_of(status, "orders") == all);
    host.stop();

    // Moves time behind every timer at once.
    client.produce(&pipeline.topic("orders"), &[order("last", BASE + 2 * HOUR, 1)]).unwrap();
    let none = payment("none", BASE + 2 * HOUR, 0, 1);
    client.produce(&pipeline.topic("payments"), &[none]).unwrap();
    // In the midst of the burst: before it come the epochs that show ownership, at the start and
    // one, two, four ... seconds later.
    let at = AtStep { step: "begun", count: 15, signal: "KILL", after: Duration::ZERO };
    let mut killed = Host::start_at_step(&file, &at);
    assert_eq!(killed.wait_exit(LIMIT), None, "{}", killed.text());
    let results = pipeline.topic("results");
    let before = client.read_committed(&results).unwrap().len();
    assert!(0 < before && before < orders.len(), "{before} of {TIMERS} before the kill");

    let host = Host::start(&file);
    entries_in_a_checkpoint(&host, &file);
    let read = client.wait_for(&results, orders.len(), LIMIT).unwrap();
    host.stop();
    // In the order of time, although the burst was cut.
    let fired: Vec<Value> = read.iter().map(|record| value(record)["order_id"].clone()).collect();
    let expected: Vec<String> = (0..TIMERS).map(|number| format!("o{number}")).collect();
    assert!(fired == expected, "{} results, not each once in the order of time", fired.len());
}

/// Does what its records say; `deadline` is longer than a transaction may last.
fn misbehaving(pipeline: &Pipeline) -> String {
    let (name, brokers) = (&pipeline.name, pipeline.brokers());
    format!(
        "pipeline: {name}\n\
         kafka: {{ brokers: \"{brokers}\", transaction_timeout: 8s }}\n\
         inputs:\n\
         \x20 records:\n\
         \x20   topic: {name}.orders\n\
         \x20   key:  {{ from: key }}\n\
         \x20   time: {{ from: timestamp, out_of_orderness: 0s, idle_after: never }}\n\
         \x20   start: earliest\n\
         plugin:\n\
         \x20 file: plugin.wasm\n\
         \x20 limits: {{ deadline: 12s }}\n\
         outputs:\n\
         \x20 main: {{ topic: {name}.results }}\n\
         \x20 late: {{ topic: {name}.late }}\n\
         state: {{ dir: state }}\n\
         admin: {{ listen: \"127.0.0.1:0\" }}\n"
    )
}

/// Pain P39.
#[test]
fn a_call_longer_than_a_transaction_may_last_costs_its_lane_nothing_else() {
    let pipeline = Pipeline::create(2);
    pipeline.replace_plugin(&crate::host_process::component("tests/guests/misbehaving"));
    let (slow, quick) = (key_in("slow", 0, 2), key_in("quick", 1, 2));
    let client = &pipeline.client;
    let tell = |key: &str, partition: i32, words: &str| {
        let record = Record::new(key, words).in_partition(partition);
        client.produce(&pipeline.topic("orders"), &[record]).unwrap();
    };
    let count =
        |client: &Client, topic: &str| client.read_committed(&pipeline.topic(topic)).unwrap().len();
    let host = pipeline.run_text("pipeline.yaml", &misbehaving(&pipeline));
    let admin = host.wait_for_lanes();
    for words in ["put 1", "loop", "emit-value"] {
        tell(&slow, 0, words);
    }
    // The other lane commits while the call goes on.
    tell(&quick, 1, "put 7");
    let mut meanwhile = 0;
    wait_until("the dead letter", || {
        tell(&quick, 1, "emit-value");
        meanwhile += 1;
        wait_until("a result of the other lane", || count(client, "results") >= meanwhile);
        count(client, "dead-letters") == 1
    });
    assert!(meanwhile > 1, "no result of the other lane before the dead letter");
    let results = client.wait_for(&pipeline.topic("results"), meanwhile + 1, LIMIT).unwrap();
    let status = wait_for_status(&admin, |status| status["outputs"]["main"] == meanwhile + 1);
    assert_eq!(status["lanes"][0]["recoveries"], 0, "{status:#}");
    assert!(!host.text().contains("in doubt"), "{}", host.text());
    host.stop();
    let of = |text: &str| results.iter().filter(|record| record.value_text() == text).count();
    assert_eq!((of("1"), of("7")), (1, meanwhile));
    let dead = client.read_committed(&pipeline.topic("dead-letters")).unwrap();
    assert_eq!((dead.len(), dead[0].value_text().as_str()), (1, "loop"));
}

/// Pain P39.
#[test]
fn a_restore_longer_than_a_transaction_may_last_costs_its_lane_nothing_else() {
    const RESTORE: Duration = Duration::from_secs(20);
    /// Records of each topic that come at once.
    const PIECE: usize = 20;
    let pipeline = Pipeline::create(2);
    let text = with_store(&pipeline, "").replace("_timeout: 10s", "_timeout: 8s");
    let file = pipeline.file("pipeline.yaml", &text);
    let stream = Stream::generate(&mut Random::new(), 12_000, 5, 2);
    let mut feed = Feed::new(&pipeline, &stream);
    let mut followed = pipeline.client.follow(&pipeline.topic("results")).unwrap();
    let host = Host::start(&file);
    feed.piece(1_000);
    assert!(followed.read(500, LIMIT).unwrap(), "{}", host.text());
    entries_in_a_checkpoint(&host, &file);
    host.kill();

    fs::remove_dir_all(pipeline.path("state/lane-000")).unwrap();
    let slow = AtStep { step: "fetched", count: 1, signal: "WAIT", after: RESTORE };
    let host = Host::start_at_step(&file, &slow);
    host.wait_for("restoring from the checkpoint store");
    let (begin, admin) = (Instant::now(), host.admin());
    let mut rounds = 0;
    let mut of_other = 0;
    loop {
        feed.piece(PIECE);
        // The other lane goes on meanwhile.
        wait_until("a result of the other lane", || {
            followed.read(followed.records.len() + 1, Duration::from_millis(50)).unwrap();
            let count = followed.records.iter().filter(|record| record.partition == 1).count();
            std::mem::replace(&mut of_other, count) < count
        });
        rounds += 1;
        if wait_for_status(&admin, |_| true)["lanes"][0]["phase"] == "running" {
            break;
        }
    }
    assert!(begin.elapsed() > RESTORE - Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(rounds > 20, "{rounds} rounds");
    feed.rest();
    assert!(followed.read(stream.results.len(), LIMIT).unwrap(), "{}", host.text());
    pipeline.client.wait_for(&pipeline.topic("late"), stream.late.len(), LIMIT).unwrap();
    let status = wait_for_status(&admin, |_| true);
    for lane in status["lanes"].as_array().unwrap() {
        assert_eq!(lane["recoveries"], 0, "{status:#}");
    }
    assert!(!host.text().contains("in doubt"), "{}", host.text());
    host.stop();
    let read = |name| pipeline.client.read_committed(&pipeline.topic(name)).unwrap();
    stream.check(&read("results"), &read("late"));
}
