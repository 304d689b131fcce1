//! The binary as a person uses it: what it prints, writes and exits with.
//!
//! Pain P17 (different partition counts) for the embedded log is here; for a broker it is among the
//! broker tests.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

const FREE_PORT: &str = "admin.listen=127.0.0.1:0";

fn dovetail(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .args(arguments)
        .current_dir(folder)
        // One place for what a new crate is built into, so that only the first run is slow.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("new"))
        .env_remove("DOVETAIL_URL")
        .env("NO_COLOR", "1")
        .output()
        .expect("the binary runs")
}

#[track_caller]
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = dovetail(folder, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Runs what must fail; returns standard error.
#[track_caller]
fn fail(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = dovetail(folder, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    stderr
}

fn lines(path: impl AsRef<Path>) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in:\n{text}");
    }
}

/// A folder of the test's own with a crate that `dovetail new` wrote, built. It is built once: the
/// SDK takes a while.
fn new_crate() -> (tempfile::TempDir, PathBuf) {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-crate");
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        let said = succeed(&folder, &["new", "my-join"]);
        assert_says(&said, &["my-join/src/lib.rs", "dovetail build"]);
        let path = folder.join("my-join");
        assert_eq!(succeed(&path, &["build"]), "./my_join.wasm\n");
        path
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my-join");
    for part in ["pipeline.yaml", "my_join.wasm", "data", "tests"] {
        copy(&built.join(part), &path.join(part));
    }
    (folder, path)
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        return;
    }
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

#[test]
fn files_can_be_loaded_first_and_cases_of_such_a_pipeline_are_played() {
    let (_folder, path) = new_crate();
    let file = path.join("pipeline.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let given = "file: data/payments.ndjson\n";
    let first = format!("{given}    bootstrap: until_end_offset\n");
    fs::write(&file, text.replace(given, &first)).unwrap();
    assert_says(&succeed(&path, &["run", "--set", FREE_PORT]), &["finished: 7 records read"]);
    assert_says(&succeed(&path, &["test"]), &["1 passed, 0 failed"]);
}

#[test]
fn what_the_plugin_says_of_its_configuration_is_shown_at_its_key() {
    let (_folder, path) = new_crate();
    let said = fail(&path, &["validate", "--set", "plugin.config.wiat=30s"], 1);
    assert_says(
        &said,
        &["error: plugin.config.wiat: unknown field `wiat`", "--set plugin.config.wiat"],
    );
    assert!(!said.contains("dovetail build"), "{said}");
    let file = path.join("pipeline.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let line = text.lines().position(|line| line.contains("wait: ")).unwrap() + 1;
    fs::write(&file, text.replace("wait: 30m", "wait: 30")).unwrap();
    let said = fail(&path, &["validate"], 1);
    assert_says(
        &said,
        &["error: plugin.config.wait: ", "with its unit", &format!("pipeline.yaml:{line}:")],
    );
    let said = fail(&path, &["validate", "--set", "plugin.file=none.wasm"], 2);
    assert_eq!(said.matches("none.wasm").count(), 1, "{said}");
}

#[test]
fn new_crate_builds_outside_the_repository_and_everything_ends_where_its_readme_says() {
    let (_folder, path) = new_crate();
    assert_says(&succeed(&path, &["validate"]), &["pipeline.yaml: ok"]);
    assert_says(&succeed(&path, &["test"]), &["1 passed, 0 failed"]);
    let run = ["run", "--set", FREE_PORT];
    assert_eq!(
        succeed(&path, &run),
        "finished: 7 records read, 2 to main, 1 to unpaid, 1 to late, 1 dead letter\n"
    );

    let out = path.join("out");
    let values = |file: &str| -> Vec<String> {
        lines(out.join(file)).iter().map(|line| line["value"]["order_id"].to_string()).collect()
    };
    assert_eq!(values("paid.ndjson"), ["\"o1\"", "\"o4\""]);
    assert_eq!(values("unpaid.ndjson"), ["\"o2\""]);
    assert_eq!(values("late.ndjson"), ["\"o1\""]);
    let dead_letters = lines(out.join("dead-letters.ndjson"));
    assert_eq!(dead_letters.len(), 1);
    assert_eq!(dead_letters[0]["headers"]["__dovetail.errors.reason"], "plugin_error");

    // Started again there is nothing to do, from another folder too.
    assert_eq!(succeed(&path, &run), "finished: nothing new to read\n");
    let file = path.join("pipeline.yaml");
    assert_eq!(
        succeed(Path::new("/"), &["run", file.to_str().unwrap(), "--set", FREE_PORT]),
        "finished: nothing new to read\n"
    );
    assert_eq!(values("paid.ndjson").len(), 2);

    // A file that has grown is refused with the ways out.
    let payments = path.join("data/payments.ndjson");
    let grown = fs::read_to_string(&payments).unwrap() + "{\"order_id\":\"o2\"}\n";
    fs::write(&payments, grown).unwrap();
    assert_says(
        &fail(&path, &run, 78),
        &["payments.ndjson", "another name and another `state.dir`", "remove "],
    );

    // Both ways out work.
    let renamed = ["--set", "pipeline=again", "--set", "state.dir=data/again"];
    assert_says(&succeed(&path, &[&run[..], &renamed].concat()), &["8 records read"]);
    assert_eq!(values("paid.ndjson").len(), 4, "its results are added");
    fs::remove_dir_all(path.join("data/log")).unwrap();
    assert_says(&succeed(&path, &run), &["8 records read"]);
    assert_eq!(values("paid.ndjson").len(), 2, "followed files begin with their topics");
}

#[test]
fn start_that_differs_from_the_first_is_refused_with_both_sides_and_the_ways_out() {
    let (_folder, path) = new_crate();
    succeed(&path, &["run", "--set", FREE_PORT]);
    let said = fail(
        &path,
        &[
            "run",
            "--set",
            FREE_PORT,
            "--set",
            "inputs.orders.key.type=integer",
            "--set",
            "inputs.payments.key.type=integer",
        ],
        78,
    );
    assert_says(
        &said,
        &[
            "committed at the first start",
            "configured now",
            "string keys",
            "integer keys",
            "Ways out",
        ],
    );
}

#[test]
fn inputs_with_different_partition_counts_are_refused_before_anything_is_read() {
    let (_folder, path) = new_crate();
    fs::write(path.join("data/more.ndjson"), "").unwrap();
    let files = "inputs.orders.file=[data/orders.ndjson, data/more.ndjson]";
    let said = fail(&path, &["run", "--set", files, "--set", FREE_PORT], 78);
    assert_says(
        &said,
        &["orders has 2 partitions, payments 1; records of one key would lie in different lanes"],
    );
    assert!(!path.join("out").exists(), "nothing was made");
    assert_says(
        &fail(&path, &["validate", "--connect", "--set", files], 1),
        &["orders has 2 partitions"],
    );
}

#[test]
fn roles_and_outputs_that_the_plugin_does_not_have_are_named() {
    let (_folder, path) = new_crate();
    let file = path.join("pipeline.yaml");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("  unpaid: {", "  unpaied: {")
        .replace("  payments:", "  payment:");
    fs::write(&file, text).unwrap();
    assert_says(
        &fail(&path, &["validate"], 1),
        &[
            "the plugin has no role `payment`",
            "did you mean `payments`?",
            "the plugin's role `payments` has no input",
            "nothing writes to the output `unpaied`; did you mean `unpaid`?",
            "the plugin's output `unpaid` has no destination",
        ],
    );
}

#[test]
fn time_unit_that_does_not_fit_the_samples_is_named() {
    let (_folder, path) = new_crate();
    let orders = "{\"order_id\":\"o1\",\"amount\":5,\"at\":1772359200}\n";
    fs::write(path.join("data/orders.ndjson"), orders).unwrap();
    let arguments =
        ["validate", "--connect", "--sample", "100", "--set", "inputs.orders.time.unit=ms"];
    let output = dovetail(&path, &arguments);
    assert_says(
        &String::from_utf8(output.stderr).unwrap(),
        &["orders: $.at looks like seconds: set `time.unit: s`"],
    );
}

#[test]
fn sample_says_how_much_of_each_input_could_be_used_and_fails_where_too_little_could() {
    let (_folder, path) = new_crate();
    let sample = ["validate", "--connect", "--sample", "100"];
    assert_says(
        &succeed(&path, &sample),
        &["cluster new: ok (1 partition, 1 lane)", "orders: 4 sampled, 4 usable\n"],
    );
    fs::write(path.join("data/payments.ndjson"), "no json\n{\"order_id\":\"o1\"}\n").unwrap();
    fs::write(path.join("data/orders.ndjson"), "").unwrap();
    let output = dovetail(&path, &[&sample[..], &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["inputs"][1]["dead_letters"]["decode"], 1);
    assert_eq!(report["inputs"][1]["usable"], 0);
    assert_eq!(report["errors"][0]["path"], "inputs.payments");
    let output = dovetail(&path, &sample);
    assert_says(
        &String::from_utf8(output.stdout).unwrap(),
        &["orders: no records to sample", "payments: 2 sampled, 0 usable, 2 would be dead letters"],
    );
}

#[test]
fn what_the_plugin_says_is_reported_together_with_what_the_file_says() {
    let (_folder, path) = new_crate();
    let file = path.join("pipeline.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("wait: 30m", "wiat: 30m") + "comit: { every: 1s }\n").unwrap();
    assert_says(
        &fail(&path, &["validate"], 1),
        &["unknown key `comit`", "unknown field `wiat`", "2 errors"],
    );
    fs::remove_file(path.join("my_join.wasm")).unwrap();
    assert_says(
        &fail(&path, &["validate"], 1),
        &["unknown key `comit`", "my_join.wasm", "`dovetail build` makes it", "2 errors"],
    );
}

#[test]
fn taken_admin_port_is_refused_before_anything_is_made() {
    let (_folder, path) = new_crate();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("admin.listen={}", taken.local_addr().unwrap());
    assert_says(&fail(&path, &["run", "--set", &listen], 78), &["cannot listen on", "process "]);
    assert!(!path.join("out").exists() && !path.join("data/log").exists(), "nothing was made");
    let output = dovetail(&path, &["validate", "--set", &listen]);
    assert!(output.status.success());
    assert_says(&String::from_utf8(output.stderr).unwrap(), &["cannot be listened on now"]);
}

#[test]
fn a_process_that_accepts_connections_and_does_not_answer_is_said_within_seconds() {
    let folder = tempfile::tempdir().unwrap();
    // The system accepts for whoever listens, as for a process that is stopped.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let begin = std::time::Instant::now();
    let message = fail(folder.path(), &["status", "--url", &url], 2);
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_says(&message, &[&url, "accepts connections but does not answer", "stopped"]);

    drop(silent);
    assert_says(&fail(folder.path(), &["status", "--url", &url], 2), &["is it running?"]);
}

#[test]
fn a_device_is_no_pipeline_file_and_no_case() {
    let folder = tempfile::tempdir().unwrap();
    let message = fail(folder.path(), &["validate", "/dev/zero"], 2);
    assert_says(&message, &["/dev/zero", "not a regular file"]);
    let case = folder.path().join("endless.yaml");
    std::os::unix::fs::symlink("/dev/zero", &case).unwrap();
    let message = fail(folder.path(), &["test", "."], 78);
    assert_says(&message, &["endless.yaml", "not a regular file"]);
}

#[test]
fn plugin_says_what_it_is() {
    let (_folder, path) = new_crate();
    let arguments = ["plugin", "inspect", "my_join.wasm", "--config", "{\"wait\":\"1s\"}"];
    assert_says(
        &succeed(&path, &arguments),
        &["inputs     orders, payments", "state      waiting: value, schema version 1"],
    );
    let json = succeed(&path, &[&arguments[..], &["--output", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outputs"], serde_json::json!(["main", "unpaid"]));
    // What needs no configuration, and the plugin's own words about a missing one.
    let output = dovetail(&path, &["plugin", "inspect", "my_join.wasm"]);
    assert!(output.status.success());
    assert_says(&String::from_utf8(output.stdout).unwrap(), &["digest", "interface", "imports"]);
    assert_says(&String::from_utf8(output.stderr).unwrap(), &["--config", "wait"]);
    let wrong = ["plugin", "inspect", "my_join.wasm", "--config", "{}"];
    assert_says(&fail(&path, &wrong, 1), &["wait"]);
}

#[test]
fn exit_codes_tell_usage_from_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fail(folder.path(), &["walk"], 2);
    for missing in [&["run"][..], &["validate"], &["test"], &["test", "tests/no.yaml"]] {
        fail(folder.path(), missing, 2);
    }
    assert_says(&fail(folder.path(), &["run"], 2), &["pipeline.yaml cannot be read"]);
    let inspect = ["plugin", "inspect", "no.wasm"];
    assert_says(&fail(folder.path(), &inspect, 2), &["no.wasm cannot be read"]);
    fs::write(folder.path().join("pipeline.yaml"), "pipelin: x\n").unwrap();
    assert_says(
        &fail(folder.path(), &["run"], 78),
        &["unknown key `pipelin`; did you mean `pipeline`?", "--> pipeline.yaml:1:1"],
    );
    fail(folder.path(), &["validate"], 1);
    let input = "inputs: { a: { file: a.ndjson, key: { from: value, path: $.id } } }";
    let no_plugin = format!("pipeline: x\n{input}\nplugin: {{ file: no.wasm }}\n");
    fs::write(folder.path().join("pipeline.yaml"), no_plugin).unwrap();
    for command in ["run", "validate"] {
        let said = fail(folder.path(), &[command], 2);
        assert_says(&said, &["no.wasm cannot be read", "--> pipeline.yaml:3"]);
    }
    assert_says(&fail(folder.path(), &["new", "serde-json"], 2), &["choose another"]);
    let unreachable = ["status", "--url", "http://127.0.0.1:1"];
    assert_says(&fail(folder.path(), &unreachable, 2), &["no pipeline answers at"]);
    assert_says(&fail(folder.path(), &["new", "Not A Name"], 2), &["is no name for a crate"]);
}

#[test]
fn logs_are_text_on_a_terminal_and_json_lines_elsewhere() {
    let (_folder, path) = new_crate();
    let output = dovetail(&path, &["run", "--set", FREE_PORT]);
    let logged = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<serde_json::Value> =
        logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let says = |line: &serde_json::Value| line["message"].as_str().unwrap().to_owned();
    assert!(
        lines.iter().any(|line| says(line) == "running" && line["level"] == "INFO"),
        "{logged}"
    );

    // `script` gives what it runs a terminal; the lines are in what it prints.
    fs::remove_dir_all(path.join("data/log")).unwrap();
    let run = format!("{} run --set {FREE_PORT}", env!("CARGO_BIN_EXE_dovetail"));
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &run, "/dev/null"])
        .current_dir(&path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("`script` is there: every Debian and Ubuntu has it (package bsdutils)");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    let running = shown.lines().find(|line| line.contains(" INFO ") && line.contains(" running "));
    assert!(running.is_some_and(|line| line.contains("lanes=1")), "{shown}");
    assert!(!shown.contains("\"message\""), "{shown}");
}

#[test]
fn help_documents_exit_codes_and_examples() {
    let here = Path::new(".");
    assert_says(&succeed(here, &["--help"]), &["Exit codes:", "78  the configuration must change"]);
    for command in ["new", "build", "validate", "test", "run", "status"] {
        assert_says(&succeed(here, &[command, "--help"]), &["Example"]);
    }
}
