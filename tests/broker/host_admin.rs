//! Goal: an operator sees why nothing comes out, and changes the plugin without a stop. Method:
//! the commands of the binary against a running host, their JSON parsed.

use std::process::Output;

use serde_json::Value;

use crate::host_process::{
    LIMIT, Pipeline, dovetail, get, marked, metric, order_payment, wait_for_answer, wait_for_status,
};
use crate::host_stream::{BASE, key_in, order, payment, value};

/// What a command prints as JSON.
fn json(arguments: &[&str]) -> Value {
    let output = dovetail(&[arguments, &["--output", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn status_names_who_holds_the_watermark_and_probes_answer() {
    let pipeline = Pipeline::create(2);
    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    let (held, other) = (key_in("o", 0, 2), key_in("o", 1, 2));
    let client = &pipeline.client;
    client.produce(&pipeline.topic("orders"), &[order(&held, BASE, 2)]).unwrap();
    client.produce(&pipeline.topic("orders"), &[order(&other, BASE, 2)]).unwrap();
    client.produce(&pipeline.topic("payments"), &[payment(&other, BASE, 7, 2)]).unwrap();
    let results = client.wait_for(&pipeline.topic("results"), 1, LIMIT).unwrap();
    assert_eq!(value(&results[0])["paid"], 7);

    let url = format!("http://{admin}");
    wait_for_status(&admin, |status| status["outputs"]["main"] == 1);
    let status = json(&["status", "--url", &url]);
    assert_eq!(status["pipeline"], pipeline.name.as_str());
    let lane = &status["lanes"][0];
    let held_by = lane["held_by"].as_str().unwrap();
    assert!(held_by.contains("payments[0]: no record seen yet"), "{held_by}");
    let sources = lane["sources"].as_array().unwrap();
    let payments = sources.iter().find(|source| source["input"] == "payments").unwrap();
    assert_eq!(payments["holds_watermark"], true);
    assert_eq!(payments["at_end"], true);
    assert_eq!(lane["watermark_ms"], Value::Null);
    assert_eq!(status["lanes"][1]["watermark_ms"], BASE - 2_001);
    assert_eq!(status["inputs"][0]["records"], 2);

    let timers = json(&["timers", "next", "--url", &url]);
    let timer = timers.as_array().unwrap().iter().find(|timer| timer["key"] == held.as_str());
    assert_eq!(timer.unwrap()["time_ms"], BASE + 10_000);
    assert!(timer.unwrap()["waits_for"].as_str().unwrap().contains("payments[0]"));

    assert_eq!(get(&admin, "/livez").0, 200);
    let (code, ready) = get(&admin, "/readyz");
    assert_eq!(code, 200, "{ready}");
    let (code, metrics) = get(&admin, "/metrics");
    assert_eq!(code, 200);
    for name in ["dovetail_input_records_total", "dovetail_epoch", "dovetail_watermark"] {
        assert!(metrics.contains(name), "no {name} in\n{metrics}");
    }
    // The plugin counts what it decided; names and kinds are those that it described.
    let by_plugin = |name: &str| metric(&metrics, &format!("dovetail_join_{name}_total"), &[]);
    assert_eq!(by_plugin("paid"), Some(1.0), "{metrics}");
    assert_eq!(by_plugin("unpaid"), None, "{metrics}");
    // What is measured aside comes within a second, what the clients say within five.
    let is_complete = |(_, metrics): &(u16, String)| {
        let has = |name: &str, labels: &[&str]| metric(metrics, name, labels).is_some();
        let orders = &["input=\"orders\"", "partition=\"0\""];
        metric(metrics, "dovetail_input_lag_records", orders) == Some(0.0)
            && has("dovetail_client_round_trip_seconds", &["client=\"producer\""])
            && has("dovetail_client_queued_bytes", &["client=\"consumer\""])
            && has("dovetail_state_reads_total", &["result=\"miss\""])
            && has("dovetail_state_memory_bytes", &["kind=\"memtables\""])
    };
    let (_, metrics) = wait_for_answer(&admin, "/metrics", is_complete);
    let count = |name: &str, labels: &[&str]| metric(&metrics, name, labels).unwrap_or_default();
    let written = results[0].value.as_ref().unwrap().len() + results[0].key.as_ref().unwrap().len();
    let bytes = count("dovetail_output_bytes_total", &["output=\"main\""]);
    assert_eq!(bytes, f64::from(u32::try_from(written).unwrap()));
    let called = ["fn=\"process_element\"", "le=\"+Inf\""];
    assert!(count("dovetail_plugin_call_seconds_bucket", &called) >= 1.0, "{metrics}");
    assert_eq!(count("dovetail_join_match_delay_seconds_count", &[]), 1.0);
    host.stop();
}

#[test]
fn timers_that_no_record_will_fire_are_shown_with_all_inputs_idle() {
    let pipeline = Pipeline::create(1);
    let text = pipeline.text().replace("idle_after: never", "idle_after: 500ms");
    let host = pipeline.run_text("pipeline.yaml", &text);
    let admin = host.wait_for_lanes();
    pipeline.client.produce(&pipeline.topic("orders"), &[order("o7", BASE, 1)]).unwrap();
    let is_idle = |status: &Value| {
        let lane = &status["lanes"][0];
        lane["all_idle"] == true && lane["timers_pending"] == 1
    };
    wait_for_status(&admin, is_idle);

    let url = format!("http://{admin}");
    let timers = json(&["timers", "next", "--url", &url]);
    let [timer] = timers.as_array().unwrap().as_slice() else { panic!("{timers}") };
    assert_eq!(timer["key"], "o7");
    assert_eq!(timer["time_ms"], BASE + 10_000);
    assert_eq!(timer["watermark_ms"], BASE - 2_001);
    assert_eq!(timer["waits_for"], "all inputs idle");
    let shown = dovetail(&["timers", "next", "--url", &url]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    for text in ["2026-01-01T00:00:10Z", "o7", "2025-12-31T23:59:57.999Z", "all inputs idle"] {
        assert!(shown.contains(text), "no {text} in {shown}");
    }
    host.stop();
    assert_eq!(pipeline.client.read_committed(&pipeline.topic("results")).unwrap(), []);
}

#[test]
fn refused_push_changes_nothing_and_a_good_one_takes_over() {
    let pipeline = Pipeline::create(2);
    let host = pipeline.run();
    let url = format!("http://{}", host.wait_for_lanes());
    let file = pipeline.path("pipeline.yaml");
    let push = |bytes: &[u8]| {
        let pushed = pipeline.path("pushed.wasm");
        std::fs::write(&pushed, bytes).unwrap();
        let (pushed, file) = (pushed.to_str().unwrap(), file.to_str().unwrap());
        dovetail(&["plugin", "push", pushed, file, "--url", &url])
    };
    let mut paid = 0;
    let mut pay = |status: &str| {
        paid += 1;
        let (key, time) = (format!("o{paid}"), BASE + i64::from(paid));
        let client = &pipeline.client;
        client.produce(&pipeline.topic("orders"), &[order(&key, time, 2)]).unwrap();
        client.produce(&pipeline.topic("payments"), &[payment(&key, time, 1, 2)]).unwrap();
        let count = usize::try_from(paid).unwrap();
        let results = client.wait_for(&pipeline.topic("results"), count, LIMIT).unwrap();
        let result = results.iter().map(value).find(|value| value["order_id"] == key).unwrap();
        assert_eq!(result["status"], status);
    };
    pay("PAID");
    let before = json(&["plugin", "list", "--url", &url]);

    let cut = &order_payment()[..order_payment().len() / 2];
    for bad in [b"no component".as_slice(), cut] {
        let refused = push(bad);
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("refused"), "{said}");
    }
    pay("PAID");
    let revisions = json(&["plugin", "list", "--url", &url]);
    assert_eq!(revisions[0], before[0]);
    for refused in &revisions.as_array().unwrap()[1..] {
        assert_eq!(refused["state"], "refused");
        assert!(!refused["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(std::fs::read(pipeline.path("plugin.wasm")).unwrap(), order_payment());

    let second = marked(2);
    let pushed = push(&second);
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    pay("PAI2");
    let revisions = json(&["plugin", "list", "--url", &url]);
    let active: Vec<&Value> =
        revisions.as_array().unwrap().iter().filter(|entry| entry["state"] == "active").collect();
    let said = |output: Output| String::from_utf8(output.stdout).unwrap();
    let digest = &active[0]["digest"].as_str().unwrap()[..12];
    assert_eq!(said(pushed), format!("every lane runs {digest}\n"));
    assert_eq!(said(push(&second)), format!("already running {digest}\n"));
    assert_eq!(active.len(), 1);
    // The file is the pushed one, so that a restart goes on with it.
    assert_eq!(std::fs::read(pipeline.path("plugin.wasm")).unwrap(), second);
    host.stop();
    let host = pipeline.run();
    host.wait_for_lanes();
    pay("PAI2");
    host.stop();
}

#[test]
fn push_without_the_token_is_refused() {
    let pipeline = Pipeline::create(1);
    let host = pipeline.run();
    let url = format!("http://{}", host.wait_for_lanes());
    let plugin = pipeline.path("plugin.wasm");
    let refused = std::process::Command::new(crate::host_process::binary())
        .args(["plugin", "push", plugin.to_str().unwrap(), "--url", &url])
        .env("DOVETAIL_TOKEN", "guessed")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("401"));
    host.stop();
}
