//! Goal: every limit of `plugin.limits` is the one that calls meet. Method: for each a pipeline
//! file that sets it and a guest that exceeds it, played by the engine of `dovetail test`, which
//! takes its limits from the file as `run` does. With the defaults the same records pass, or fail
//! for the default's number.

use std::fs;

use dovetail::sandbox::{Engine, Options, Outcome, run};

/// Plays one case on the guest that does what its records say.
fn try_play(limits: &str, steps: &[String]) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let guest =
        concat!(env!("CARGO_MANIFEST_DIR"), "/guests/misbehaving/dovetail_guest_misbehaving.wasm");
    let pipeline = format!(
        "pipeline: limited\n\
         inputs:\n\
         \x20 records:\n\
         \x20   topic: records\n\
         \x20   key: {{ from: key }}\n\
         \x20   time: {{ from: timestamp, out_of_orderness: 0s, idle_after: never }}\n\
         \x20   start: earliest\n\
         plugin: {{ file: {guest}, limits: {{ {limits} }} }}\n\
         embedded: {{ dir: data }}\n\
         outputs: {{ main: {{ topic: results }}, late: {{ topic: late }} }}\n"
    );
    fs::write(folder.path().join("pipeline.yaml"), pipeline)?;
    let mut case = "name: a case\npipeline: pipeline.yaml\nsteps:\n".to_owned();
    steps.iter().for_each(|step| case.push_str(&format!("  - {step}\n")));
    let file = folder.path().join("case.yaml");
    fs::write(&file, case)?;
    let engine = Engine::default();
    run(&Options { paths: vec![file], update: false, engine, foreign_keys: &[] })
}

fn play(limits: &str, steps: &[String]) -> Vec<String> {
    let outcome = try_play(limits, steps).unwrap_or_else(|error| panic!("{limits}: {error:#}"));
    outcome.cases[0].failures.iter().map(|(_, message)| message.clone()).collect()
}

fn record(value: &str) -> String {
    format!("{{ in: records, raw: {{ key: k, timestamp: +1s, value: \"{value}\" }} }}")
}

/// Lets a record exceed a limit and looks for what its dead letter says.
fn exceeds(limits: &str, value: &str, said: &str) {
    let failures = play(limits, &[record(value)]);
    let found = failures.first().unwrap_or_else(|| panic!("{limits}: {value} passes"));
    assert!(found.contains(said), "{limits}: expected {said:?} in {found}");
}

/// The same record, with the defaults.
fn passes_by_default(value: &str) {
    assert_eq!(play("", &[record(value)]), [""; 0], "{value}");
}

#[test]
fn memory_and_time_are_as_configured() {
    exceeds("memory: 4MiB, deadline: 30s", "allocate", "4194304");
    exceeds("memory: 8MiB, deadline: 30s", "allocate", "8388608");
    exceeds("deadline: 200ms", "loop", "200ms");
    exceeds("deadline: 300ms", "loop", "300ms");
}

#[test]
fn what_a_call_may_emit_is_as_configured() {
    exceeds("outputs: 3", "emit-without-end", "3 records");
    exceeds("outputs: 4", "emit-without-end", "4 records");
    exceeds("output_bytes: 100KiB", "emit-many-bytes", "102400 bytes");
    exceeds("output_bytes: 200KiB", "emit-many-bytes", "204800 bytes");
    let smaller = "import_bytes: 1MiB, state_row_bytes: 1MiB, output_bytes: 4MiB";
    exceeds(smaller, "emit-huge", "1048576 bytes");
    passes_by_default("emit-huge");
}

#[test]
fn what_a_call_may_change_is_as_configured() {
    exceeds("state_row_bytes: 1MiB", "put-huge", "1048576 bytes");
    exceeds("state_row_bytes: 2MiB", "put-huge", "2097152 bytes");
    let entries = ["a", "b", "c", "d", "e", "f"].map(|name| name.repeat(1_000)).join(" ");
    let map = format!("map {entries}");
    exceeds("state_row_bytes: 4KiB, state_bytes: 8KiB", &map, "8192 bytes");
    passes_by_default(&map);
    exceeds("timers: 2", "timers", "2 timers");
    passes_by_default("timers");
}

#[test]
fn pages_of_a_scan_are_as_configured() {
    // The guest asks for pages of two entries.
    let pages = |limits: &str, expected: &str| {
        let expect = format!("expect: {{ main: [ {{ key: k, value: \"{expected}\" }} ] }}");
        assert_eq!(play(limits, &[record("map a b c"), record("emit-map a"), expect]), [""; 0]);
    };
    pages("", "aAbB|cC");
    pages("scan_entries: 1", "aA|bB|cC");
    pages("scan_bytes: 1B", "aA|bB|cC");
}

#[test]
fn timers_that_never_end_are_cut_off_as_configured() {
    let steps = [record("timer-loop"), "watermark: { records: +10s }".to_owned()];
    for firings in ["7", "8"] {
        let failures = play(&format!("firings_per_timer: {firings}"), &steps);
        let found = failures.first().expect("a timer that fires for ever is a dead letter");
        let said = format!("{firings} ");
        assert!(found.contains("timer_loop") && found.contains(&said), "{found}");
    }
}

#[test]
fn a_component_larger_than_configured_is_not_loaded() {
    let said =
        format!("{:#}", try_play("component_bytes: 2KiB", &[record("nothing")]).unwrap_err());
    assert!(said.contains("2048"), "{said}");
}
