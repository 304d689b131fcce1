//! Goal: the examples do what their pages say. Method: they are run as a reader runs them; the one
//! that needs a broker is validated with its plugin.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs a program that finds `dovetail` on its `PATH`.
#[track_caller]
fn run(command: &mut Command) -> String {
    let test = env::current_exe().unwrap();
    let binaries = test.parent().and_then(Path::parent).unwrap().to_owned();
    let rest = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([binaries].into_iter().chain(env::split_paths(&rest))).unwrap();
    let Output { status, stdout, stderr } = command.env("PATH", path).output().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The values in a followed output, in order.
fn values(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(top().join("examples/quickstart/out").join(file)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|mut record| record["value"].take()).collect()
}

#[test]
fn quickstart_shows_results_a_timeout_a_late_record_and_a_dead_letter() {
    let said = run(&mut Command::new(top().join("examples/quickstart/run")));
    let summary = "finished: 11 records read, 4 to main, 1 to timeouts, 1 to late, 1 dead letter";
    for part in [summary, "ms behind it", "no event time in $.ts", "no row of the product came"] {
        assert!(said.contains(part), "expected `{part}` in:\n{said}");
    }
    let texts = |field: &str, file: &str| -> Vec<String> {
        values(file).iter().map(|value| value[field].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts("click", "main.ndjson"), ["c1", "c2", "c3", "c6"]);
    let prices: Vec<String> =
        values("main.ndjson").iter().map(|value| value["price"].to_string()).collect();
    assert_eq!(prices, ["89.90", "15.50", "79.90", "20.00"], "the price of the click's own time");
    assert_eq!(texts("why", "timeouts.ndjson"), ["no dimension within 30m"]);
    assert_eq!(texts("click_id", "late.ndjson"), ["c7"]);
    assert_eq!(texts("click_id", "dead-letters.ndjson"), ["c5"]);
}

#[test]
fn a_log_that_cannot_be_written_ends_no_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    for file in ["dedupe.yaml", "data/payments.ndjson"] {
        fs::copy(top().join("examples/joins").join(file), folder.path().join(file)).unwrap();
    }
    let mut build = Command::new("dovetail");
    build.arg("build").arg(top().join("plugins/dedupe")).args(["--out", "dedupe.wasm"]);
    run(build.current_dir(folder.path()));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut host = Command::new("dovetail");
    let said = run(host.args(["run", "dedupe.yaml"]).current_dir(folder.path()).stderr(full));
    assert!(said.contains("finished: 4 records read, 3 to main, 1 to duplicates"), "{said}");
}

#[test]
fn every_join_runs_on_the_same_few_records() {
    let said = run(&mut Command::new(top().join("examples/joins/run")));
    let expected = [
        ("interval-join", "8 records read, 5 to main"),
        ("window-join", "8 records read, 6 to main"),
        ("as-of", "7 records read, 4 to main"),
        ("table-join", "6 records read, 6 to main"),
        ("wide-row", "7 records read, 6 to main"),
        ("all-of", "10 records read, 4 to main, 2 to unused"),
        ("dedupe", "4 records read, 3 to main, 1 to duplicates"),
        ("dynamic-rules", "11 records read, 3 to main, 2 to unmatched"),
        ("order-payment", "8 records read, 4 to main, 3 to late"),
        ("hot-keys", "7 records read, 4 to main"),
        ("capped-keys", "7 records read, 1 to main, 1 to late, 3 to overflow"),
    ];
    for (name, summary) in expected {
        let part = said.split(&format!("\n{name}: ")).nth(1).unwrap_or_default();
        let found = part.lines().nth(1).unwrap_or_default();
        assert_eq!(found.trim(), format!("finished: {summary}"), "{name} in:\n{said}");
    }
}

#[test]
fn pipeline_against_kafka_fits_its_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| fs::copy(top().join(from), folder.path().join(to)).unwrap();
    copy("examples/kafka/pipeline.yaml", "pipeline.yaml");
    copy("plugins/latest-dimension/latest_dimension.wasm", "latest_dimension.wasm");
    run(Command::new("dovetail").arg("validate").current_dir(folder.path()));
}
