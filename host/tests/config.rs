//! The pipeline file: what is taken, what is refused, and how that is said.
//!
//! Pains P08 (time units are spelled out), P35 (the state directory is said, never in /tmp by
//! default) and P48 (secrets are never shown) have their configuration half here.

use std::path::Path;

use dovetail::config::{
    Environment, Loaded, load_text,
    model::{LogConfig, PluginLimits},
    report::Problems,
};

const KAFKA: &str = "\
pipeline: ad-attribution
kafka: { brokers: \"localhost:9092\" }
inputs:
  impressions:
    topic: impressions
    key: { from: value, path: $.user_id, type: string }
    time: { from: value, path: $.ts, unit: ms, out_of_orderness: 5s, idle_after: 10s }
    start: earliest
  clicks:
    topic: clicks
    late: side_output
    key: { from: value, path: $.user_id, type: string }
    time: { from: value, path: $.ts, unit: ms, out_of_orderness: 5s, idle_after: 10s }
    start: earliest
plugin:
  file: latest_dimension.wasm
  inputs: { dimension: impressions, behaviour: clicks }
  config: { wait: 30m, ratio: 1.50, flag: true, text: \"1\" }
outputs:
  main: { topic: attributed }
  timeouts: { topic: unattributed }
  late: { topic: late-clicks }
state: { dir: /var/lib/dovetail/ad-attribution }
";

const FILES: &str = "\
pipeline: quick
inputs:
  orders:
    file: [orders-0.ndjson, orders-1.ndjson]
    key: { from: value, path: $.id }
    time: { from: value, path: $.ts, out_of_orderness: 1s }
plugin: { file: p.wasm }
outputs: { main: { topic: results, follow: results.ndjson } }
";

fn environment(variables: &[(&str, &str)], options: &[&str]) -> Environment {
    Environment {
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    }
}

fn load_in(text: &str, environment: &Environment) -> Result<Loaded, Problems> {
    load_text("pipeline.yaml", text.to_owned(), Path::new("/etc/dovetail"), environment)
}

fn load(text: &str) -> Result<Loaded, Problems> {
    load_in(text, &Environment::default())
}

fn refusal(text: &str) -> String {
    load(text).expect_err("this file is wrong").render()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in:\n{text}");
    }
}

#[test]
fn a_kafka_pipeline_is_read_with_its_defaults() {
    let loaded = load(KAFKA).unwrap();
    let config = &loaded.config;
    assert_eq!(config.pipeline, "ad-attribution");
    assert_eq!(config.commit.every, 100);
    assert_eq!(config.memory, 256 << 20);
    assert_eq!(config.wait_for_input, 10_000);
    assert_eq!(config.dead_letters.topic, "ad-attribution.dead-letters");
    assert!(config.dead_letters.create);
    assert!(!config.outputs[0].create);
    assert_eq!(config.plugin.file, Path::new("/etc/dovetail/latest_dimension.wasm"));
    let time = config.inputs[1].time.unwrap();
    assert_eq!((time.out_of_orderness, time.idle_after), (5_000, Some(10_000)));
    let LogConfig::Kafka(kafka) = &config.log else { panic!("a Kafka pipeline") };
    assert_eq!(kafka.transaction_timeout, 20_000);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_plugins_configuration_keeps_types_and_digits() {
    let loaded = load(KAFKA).unwrap();
    assert_eq!(
        loaded.config.plugin.config,
        r#"{"wait":"30m","ratio":1.50,"flag":true,"text":"1"}"#
    );
}

#[test]
fn files_without_kafka_need_neither_start_nor_state_dir() {
    let config = load(FILES).unwrap().config;
    assert_eq!(config.state_dir, Path::new("/etc/dovetail/data/state"));
    assert_eq!(
        config.outputs[0].follow.as_deref(),
        Some(Path::new("/etc/dovetail/results.ndjson"))
    );
}

#[test]
fn all_errors_are_reported_at_once_with_place_and_nearest_word() {
    let text = KAFKA
        .replace("idle_after: 10s }\n    start: earliest\n  clicks", "idle_aftr: 10s }\n  clicks")
        .replace("late: side_output", "late: sideoutput")
        .replace("pipeline: ad-attribution", "pipline: ad-attribution")
        .replace(
            "out_of_orderness: 5s, idle_after: 10s }\n    start",
            "out_of_orderness: 5, idle_after: 0s }\n    start",
        );
    let said = refusal(&text);
    assert_says(
        &said,
        &[
            "unknown key `pipline`; did you mean `pipeline`?",
            "`pipeline` must be said",
            "unknown key `idle_aftr`; did you mean `idle_after`?",
            "inputs.impressions: `start` must be said",
            "expected process, side_output or drop (perhaps `side_output`), found `sideoutput`",
            "expected a duration with a unit, such as 500ms, 5s, 30m, 12h or 7d, found `5`",
            "expected a duration longer than 0, or never, found `0s`",
            "--> pipeline.yaml:1:1",
            "1 | pipline: ad-attribution\n  | ^^^^^^^",
        ],
    );
}

#[test]
fn a_syntax_error_stands_alone_with_its_place() {
    let problems = load("pipeline: [a\nkafka: {").expect_err("not YAML");
    assert_eq!(problems.problems.len(), 1);
    assert_says(&problems.render(), &["this is not YAML", "pipeline.yaml:"]);
}

#[test]
fn a_misspelt_input_or_output_of_an_option_gives_one_error_with_the_nearest_name() {
    let said = |option: &str| {
        let problems = load_in(KAFKA, &environment(&[], &[option])).expect_err("misspelt");
        assert_eq!(problems.problems.len(), 1, "{}", problems.render());
        problems.render()
    };
    assert_says(
        &said("inputs.clikcs.start=latest"),
        &["there is no input `clikcs`; did you mean `clicks`?", "--set inputs.clikcs.start"],
    );
    assert_says(&said("inputs.clikcs.topic=other"), &["did you mean `clicks`?"]);
    assert_says(&said("outputs.mian.create=true"), &["there is no output `mian`; did you mean"]);
    assert_says(&said("inputs.clicks.tiem.unit=s"), &["unknown key `tiem`; did you mean `time`?"]);
    // A new one is given by what it cannot do without.
    let loaded = load_in(KAFKA, &environment(&[], &["outputs.more.topic=more"])).unwrap();
    assert_eq!(loaded.config.outputs.last().unwrap().name, "more");
}

#[test]
fn a_key_that_is_indented_too_little_is_told_as_such() {
    let text = KAFKA.replacen("    late: side_output", "  late: side_output", 1);
    // The map above it ends there, and the rest follows no key.
    assert_says(&refusal(&text), &["this is not YAML", "indented further than line 11"]);
    let text = KAFKA.replacen("    start: earliest\n  clicks", "  start: earliest\n  clicks", 1);
    let problems = load(&text).expect_err("an input is named `start`");
    let said = problems.render();
    assert_says(
        &said,
        &["`start` stands where the name of an input is expected", "indent it", ":8:3"],
    );
    assert_eq!(problems.problems.len(), 2, "{said}");
}

#[test]
fn one_topic_for_two_outputs_is_refused_with_both_places() {
    let said = refusal(&KAFKA.replace("topic: unattributed", "topic: attributed"));
    assert_says(
        &said,
        &["outputs.timeouts.topic: `attributed` is the topic of `outputs.main` already (line 20)"],
    );
    let said = refusal(&KAFKA.replace("topic: unattributed", "topic: ad-attribution.journal"));
    assert_says(&said, &["is the pipeline's journal already (line 1)"]);
    let said = refusal(&KAFKA.replace("topic: unattributed", "topic: ad-attribution.dead-letters"));
    assert_says(&said, &["is where dead letters go already (by default)"]);
    let said = refusal(&KAFKA.replace("topic: unattributed", "topic: clicks"));
    assert_says(&said, &["`clicks` is read by the input `clicks` (line 10)"]);
}

#[test]
fn a_key_given_twice_is_refused() {
    assert_says(&refusal("pipeline: a\npipeline: b\n"), &["already given in line 1", ":2:1"]);
}

#[test]
fn checkpoints_need_a_store_and_have_defaults() {
    let text = format!("{KAFKA}checkpoint: {{ store: \"file:///mnt/c\" }}\n");
    let config = load(&text).unwrap().config;
    let checkpoint = config.checkpoint.unwrap();
    assert_eq!(checkpoint.store, Path::new("/mnt/c"));
    assert_eq!((checkpoint.every, checkpoint.keep, checkpoint.timeout), (30_000, 3, 600_000));
    assert!(load(KAFKA).unwrap().config.checkpoint.is_none());
    let text = format!("{KAFKA}checkpoint: {{ every: 30s }}\n");
    assert_says(&refusal(&text), &["checkpoint: `store` must be said", "file:///"]);
    let text = format!("{KAFKA}checkpoint: {{ store: \"s3://bucket/c\", keep: 1 }}\n");
    assert_says(&refusal(&text), &["checkpoint.store", "file:///", "from 2 to"]);
}

#[test]
fn state_dir_must_be_said_with_kafka_and_tmp_is_warned_about() {
    let said = refusal(&KAFKA.replace("state: { dir: /var/lib/dovetail/ad-attribution }\n", ""));
    assert_says(&said, &["state: `dir` must be said"]);
    let loaded = load(&KAFKA.replace("/var/lib/dovetail", "/tmp")).unwrap();
    assert_says(
        &loaded.render_warnings().concat(),
        &["state.dir: /tmp/ad-attribution may be emptied"],
    );
}

#[test]
fn keys_of_the_other_kind_of_log_are_refused() {
    let said = refusal(&FILES.replace("follow: results.ndjson", "create: true"));
    assert_says(&said, &["`create` is for pipelines with `kafka`"]);
    let said = refusal(&KAFKA.replace("{ topic: attributed }", "{ topic: attributed, follow: x }"));
    assert_says(&said, &["`follow` is for pipelines without `kafka`"]);
    let said = refusal(&KAFKA.replace("    topic: clicks", "    file: clicks.ndjson"));
    assert_says(&said, &["`file` is for pipelines without `kafka`", "`topic` must be said"]);
    let said = refusal(&format!("{KAFKA}embedded: {{ dir: x }}\n"));
    assert_says(&said, &["`embedded` is for pipelines without `kafka`"]);
}

#[test]
fn an_input_that_is_loaded_first_needs_records_and_another_that_waits() {
    let first = |text: &str| {
        text.replacen("start: earliest", "start: earliest\n    bootstrap: until_end_offset", 1)
    };
    let loaded = load(&first(KAFKA)).unwrap();
    assert_eq!(
        loaded.config.inputs.iter().map(|it| it.bootstrap).collect::<Vec<_>>(),
        [true, false]
    );
    let said = refusal(&first(KAFKA).replace("until_end_offset", "always"));
    assert_says(&said, &["inputs.impressions.bootstrap: expected until_end_offset"]);
    let said = refusal(&first(KAFKA).replacen("start: earliest", "start: latest", 1));
    assert_says(&said, &["nothing that could be loaded first", "`start: earliest`"]);
    let both = KAFKA.replace("start: earliest", "start: earliest\n    bootstrap: until_end_offset");
    assert_says(&refusal(&both), &["every input is loaded first"]);
}

#[test]
fn inputs_that_could_never_meet_are_refused() {
    let text = KAFKA.replacen("type: string", "type: integer", 1);
    assert_says(&refusal(&text), &["inputs.clicks.key.type", "compared as string", "as integer"]);
    let text = KAFKA.replace("topic: clicks", "topic: impressions");
    assert_says(&refusal(&text), &["`impressions` is already read by the input `impressions`"]);
    let text = KAFKA.replace("topic: attributed", "topic: clicks");
    assert_says(&refusal(&text), &["`clicks` is read by the input `clicks`"]);
}

#[test]
fn a_broadcast_input_needs_neither_key_nor_time() {
    let rules = "  rules: { topic: rules, broadcast: true, start: earliest, on_gap: earliest }\n";
    let text = KAFKA.replace("  clicks:\n", &format!("{rules}  clicks:\n"));
    let text = text.replace("behaviour: clicks }", "behaviour: clicks, rules: rules }");
    let loaded = load(&text).unwrap();
    let input = &loaded.config.inputs[1];
    assert!(input.is_broadcast && input.time.is_none() && input.format.time.is_none());
    assert!(!loaded.config.inputs[0].is_broadcast);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let keyed = "rules, key: { from: value, path: $.n, type: integer }, time: { from: timestamp }";
    let input = &load(&text.replace("{ topic: rules", &format!("{{ topic: {keyed}"))).unwrap();
    assert!(input.config.inputs[1].format.time.is_some() && input.config.inputs[1].time.is_none());
}

#[test]
fn options_that_mean_nothing_for_a_broadcast_input_are_refused_by_name() {
    let text = FILES.replace(
        "plugin:",
        "  rules:
    file: rules.ndjson
    broadcast: true
    late: drop
    null_key: drop
    time: { from: value, path: $.ts, out_of_orderness: 1s, idle_after: 5s, max_future_skew: 1h }
plugin:",
    );
    let said = refusal(&text);
    for option in ["late", "null_key", "out_of_orderness", "idle_after", "max_future_skew"] {
        assert_says(&said, &[&format!("`{option}` is for keyed inputs")]);
    }
    let rules = "  rules: { topic: rules, broadcast: true, start: latest }\nplugin:";
    let said = refusal(&KAFKA.replacen("plugin:", rules, 1));
    assert_says(&said, &["inputs.rules.start: lanes begin at different moments"]);
    let said = refusal(&FILES.replace("    key:", "    broadcast: true\n    key:"));
    assert_says(&said, &["every input is `broadcast: true`", "at least one input without it"]);
}

#[test]
fn late_side_output_needs_an_output_late() {
    let text = KAFKA.replace("  late: { topic: late-clicks }\n", "");
    assert_says(&refusal(&text), &["`late: side_output` needs an output `late`"]);
}

#[test]
fn roles_name_inputs_that_exist() {
    let text = KAFKA.replace("behaviour: clicks", "behaviour: click");
    assert_says(
        &refusal(&text),
        &["there is no input `click`; did you mean `clicks`?", "the input `clicks` has no role"],
    );
}

#[test]
fn references_are_replaced_after_parsing_and_bring_no_structure() {
    let text = FILES
        .replace("pipeline: quick", "pipeline: \"${NAME}\"")
        .replace("topic: results,", "topic: \"${T:-from-default}\",")
        .replace(
            "p.wasm }",
            "p.wasm, config: { a: \"${EVIL}\", b: \"$${NAME}\", c: \"x${N}y\" } }",
        );
    let evil = "\"}]: y\n$y";
    let environment = environment(&[("NAME", "named"), ("EVIL", evil), ("N", "5")], &[]);
    let config = load_in(&text, &environment).unwrap().config;
    assert_eq!(config.pipeline, "named");
    assert_eq!(config.outputs[0].topic, "from-default");
    let json: serde_json::Value = serde_json::from_str(&config.plugin.config).unwrap();
    assert_eq!(json, serde_json::json!({ "a": evil, "b": "${NAME}", "c": "x5y" }));
}

#[test]
fn a_reference_that_is_not_set_says_so_where_it_stands() {
    let text = FILES
        .replace("pipeline: quick", "pipeline: ${NAME:?give the pipeline a name}")
        .replace("topic: results", "topic: \"${TOPIC}\"");
    assert_says(
        &refusal(&text),
        &[
            "the environment variable NAME is not set: give the pipeline a name",
            "outputs.main.topic: the environment variable TOPIC is not set",
            "--> pipeline.yaml:1:11",
        ],
    );
}

#[test]
fn variables_lie_over_the_file_and_options_over_both() {
    let variables = [
        ("DOVETAIL__INPUTS__ORDERS__TIME__IDLE_AFTER", "7s"),
        ("DOVETAIL__COMMIT__EVERY", "50ms"),
        ("DOVETAIL_URL", "http://127.0.0.1:1"),
    ];
    let environment = environment(&variables, &["commit.every=25ms", "plugin.config={a: [1, x]}"]);
    let loaded = load_in(FILES, &environment).unwrap();
    assert_eq!(loaded.config.inputs[0].time.unwrap().idle_after, Some(7_000));
    assert_eq!(loaded.config.commit.every, 25);
    assert_eq!(loaded.config.plugin.config, r#"{"a":[1,"x"]}"#);
    assert_says(
        &loaded.print(),
        &[
            "# environment DOVETAIL__INPUTS__ORDERS__TIME__IDLE_AFTER",
            "# --set commit.every",
            "# pipeline.yaml:1",
            "# default",
        ],
    );
}

#[test]
fn references_mean_the_same_wherever_a_value_is_written() {
    let text = FILES.replace("pipeline: quick", "pipeline: \"${NOT_SET_ANYWHERE}\"");
    let variables = [
        ("DOVETAIL__OUTPUTS__MAIN__TOPIC", "${T:-results}-1"),
        ("EVERY", "25ms"),
        ("NAME", "orders"),
    ];
    let options = ["pipeline=${NAME}", "commit.every=${EVERY}", "plugin.config={a: \"$${T}\"}"];
    let loaded = load_in(&text, &environment(&variables, &options)).unwrap();
    assert_eq!(loaded.config.pipeline, "orders", "what is overridden need not be set");
    assert_eq!(loaded.config.outputs[0].topic, "results-1");
    assert_eq!(loaded.config.commit.every, 25);
    assert_eq!(loaded.config.plugin.config, r#"{"a":"${T}"}"#);
    let missing = environment(&[], &["pipeline=${NAME}"]);
    let said = load_in(FILES, &missing).expect_err("NAME is not set").render();
    assert_says(&said, &["the environment variable NAME is not set", "--> --set pipeline"]);
}

#[test]
fn what_a_variable_sets_wrong_is_reported_by_the_variables_name() {
    let environment = environment(&[("DOVETAIL__COMIT__EVERY", "5s")], &["memory=lots"]);
    let said = load_in(FILES, &environment).expect_err("wrong").render();
    assert_says(
        &said,
        &[
            "unknown key `comit`; did you mean `commit`?",
            "--> environment variable DOVETAIL__COMIT__EVERY",
            "expected a size with a unit",
            "--> --set memory",
        ],
    );
}

#[test]
fn a_password_arrives_unchanged_and_is_shown_nowhere() {
    const PASSWORD: &str = "c8@i9$Cw{x}: \"#\\";
    let security = "kafka:\n  brokers: b:9093\n  security: { protocol: SASL_TLS, mechanism: SCRAM-SHA-512, username: u, password: { env: PW } }\n  librdkafka: { ssl.keystore.password: hidden-one }";
    let text = KAFKA.replace("kafka: { brokers: \"localhost:9092\" }", security);
    let environment = environment(&[("PW", PASSWORD)], &[]);
    let loaded = load_in(&text, &environment).unwrap();
    let LogConfig::Kafka(kafka) = &loaded.config.log else { panic!("a Kafka pipeline") };
    assert_eq!(kafka.security.password.as_ref().unwrap().reveal(), PASSWORD);
    let shown = format!("{:?}{}", loaded.config.log, loaded.print());
    assert!(!shown.contains("c8@i9"), "{shown}");
    assert!(!shown.contains("hidden-one"), "{shown}");
    assert_says(&loaded.print(), &["*** (env PW)"]);

    let wrong = text.replace("{ env: PW }", "in-the-open");
    assert_says(&refusal(&wrong), &["a secret is given by reference", "write { env: NAME }"]);
}

#[test]
fn passed_through_values_are_shown_only_where_they_cannot_be_secret() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    std::fs::write(&path, "hidden-in-a-file\n").unwrap();
    let kafka = format!(
        "kafka: {{ brokers: b, librdkafka: {{ client.rack: rack-7, ssl.key.pem: hidden-pem, \
         ssl.ca.pem: {{ env: CA }}, ssl.certificate.pem: {{ file: {} }}, made.up: hidden-too }} }}",
        path.display()
    );
    let text = KAFKA.replace("kafka: { brokers: \"localhost:9092\" }", &kafka);
    let loaded = load_in(&text, &environment(&[("CA", "hidden-in-env")], &[])).unwrap();
    let LogConfig::Kafka(kafka) = &loaded.config.log else { panic!("a Kafka pipeline") };
    let passed: Vec<(&str, &str)> =
        kafka.librdkafka.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(
        passed,
        [
            ("client.rack", "rack-7"),
            ("ssl.key.pem", "hidden-pem"),
            ("ssl.ca.pem", "hidden-in-env"),
            ("ssl.certificate.pem", "hidden-in-a-file"),
            ("made.up", "hidden-too"),
        ]
    );
    let shown = format!("{:?}{}", loaded.config.log, loaded.print());
    assert!(!shown.contains("hidden"), "{shown}");
    assert_says(&loaded.print(), &["rack-7", "*** (env CA)"]);

    let missing = text.replace("{ env: CA }", "{ env: NOT_SET_ANYWHERE }");
    assert_says(&refusal(&missing), &["the environment variable NOT_SET_ANYWHERE is not set"]);
}

#[test]
fn every_limit_of_a_plugin_can_be_said() {
    let limits = "\
limits: { memory: 1MiB, deadline: 2s, outputs: 3, output_bytes: 4KiB, scan_entries: 5, \
scan_bytes: 6KiB, state_row_bytes: 7KiB, state_bytes: 8KiB, timers: 9, firings_per_timer: 10, \
import_bytes: 11KiB, component_bytes: 12KiB }";
    let with = |limits: &str| {
        KAFKA.replace("  config: { wait: 30m", &format!("  {limits}\n  config: {{ wait: 30m"))
    };
    let read = load(&with(limits)).unwrap().config.plugin.limits;
    assert_eq!((read.memory, read.deadline), (1 << 20, 2_000));
    assert_eq!((read.outputs, read.output_bytes, read.scan_entries), (3, 4 << 10, 5));
    assert_eq!((read.scan_bytes, read.state_row_bytes), (6 << 10, 7 << 10));
    assert_eq!((read.state_bytes, read.timers, read.firings_per_timer), (8 << 10, 9, 10));
    assert_eq!((read.import_bytes, read.component_bytes), (11 << 10, 12 << 10));
    assert_eq!(load(KAFKA).unwrap().config.plugin.limits, PluginLimits::default());
    let said = refusal(&with("limits: { import_bytes: 1MiB, component_bytes: 0B }"));
    assert_says(&said, &["a row cannot be larger than `import_bytes`", "a size above 0"]);
}

#[test]
fn a_secret_from_a_file_loses_one_line_break() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pw");
    std::fs::write(&path, "p w \n").unwrap();
    let security = format!(
        "kafka: {{ brokers: b, security: {{ protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u, password: {{ file: {} }} }} }}",
        path.display()
    );
    let text = KAFKA.replace("kafka: { brokers: \"localhost:9092\" }", &security);
    let LogConfig::Kafka(kafka) = load(&text).unwrap().config.log else { panic!("Kafka") };
    assert_eq!(kafka.security.password.unwrap().reveal(), "p w ");
}

#[test]
fn client_settings_that_the_host_decides_are_refused_by_name() {
    let text = KAFKA.replace(
        "{ brokers: \"localhost:9092\" }",
        "{ brokers: b, librdkafka: { group.id: x, socket.keepalive.enable: true } }",
    );
    assert_says(&refusal(&text), &["`group.id` cannot be set here"]);
}

#[test]
fn warnings_name_what_may_hurt() {
    let text = KAFKA
        .replace(
            "idle_after: 10s }\n    start: earliest\n  clicks",
            "idle_after: never }\n    start: earliest\n  clicks",
        )
        .replace("state:", "commit: { every: 10s }\nstate:");
    let warnings = load(&text).unwrap().render_warnings().concat();
    assert_says(
        &warnings,
        &["idle_after: never", "is half of kafka.transaction_timeout (20s) or more"],
    );
}

#[test]
fn checkpoints_do_not_lie_in_the_folders_that_they_are_there_to_replace_nor_around_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::create_dir(folder.path().join("state")).unwrap();
    std::os::unix::fs::symlink("state", folder.path().join("link")).unwrap();
    let load = |base: &str, store: &str| {
        let text = format!(
            "{base}state: {{ dir: {root}/state }}\n\
             checkpoint: {{ store: \"file://{root}/{store}\" }}\n"
        );
        load_text("pipeline.yaml", text, folder.path(), &Environment::default())
    };
    let files = format!("{FILES}embedded: {{ dir: {root}/data }}\n");
    let kafka = KAFKA.replace("state: { dir: /var/lib/dovetail/ad-attribution }\n", "");
    let state_line = |base: &str| format!("state ({})", at_line(base));
    let data_line = format!("data ({})", at_line(FILES));
    for (base, store, told) in [
        (&kafka, "state/checkpoints", ["lies in `state.dir`", &state_line(&kafka)]),
        (&kafka, "state", ["lies in `state.dir`", &state_line(&kafka)]),
        (&kafka, "link/checkpoints", ["lies in `state.dir`", &state_line(&kafka)]),
        (&kafka, "./other/..", ["`state.dir`", "lies in"]),
        (&files, "state/checkpoints", ["lies in `state.dir`", &state_line(&files)]),
        (&files, "data/checkpoints", ["lies in `embedded.dir`", &data_line]),
    ] {
        let problems = load(base, store).expect_err(store);
        assert_says(&problems.render(), &told);
        let places: Vec<_> = problems.problems.iter().map(|problem| &problem.path).collect();
        assert_eq!(places, ["checkpoint.store"], "{}", problems.render());
    }
    load(&kafka, "state-checkpoints").unwrap();
    load(&files, "checkpoints").unwrap();
}

/// What comes behind a text is at that line.
fn at_line(text: &str) -> String {
    format!("line {}", text.lines().count() + 1)
}

#[test]
fn a_followed_file_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for file in ["orders-0.ndjson", "p.wasm", "pipeline.yaml"] {
        std::fs::write(at(file), "").unwrap();
    }
    std::fs::create_dir(at("folder")).unwrap();
    std::os::unix::fs::symlink("orders-0.ndjson", at("link")).unwrap();
    std::os::unix::fs::symlink("twice.ndjson", at("dangling")).unwrap();
    std::fs::hard_link(at("p.wasm"), at("hard")).unwrap();
    let load = |follow: &str| {
        let text = FILES.replace("follow: results.ndjson", &format!("follow: {follow}"));
        let text = format!("{text}dead_letters: {{ follow: ./folder/../twice.ndjson }}\n");
        load_text("pipeline.yaml", text, folder.path(), &Environment::default())
    };
    for (follow, said) in [
        ("orders-0.ndjson", "is a file of the input `orders`"),
        ("folder/../orders-1.ndjson", "is a file of the input `orders`"),
        ("link", "is a file of the input `orders`"),
        ("p.wasm", "is the plugin's file"),
        ("hard", "is the plugin's file"),
        ("pipeline.yaml", "is the pipeline file"),
        ("data/lock", "lies in `embedded.dir`"),
        ("folder", "is not a regular file"),
        ("/dev/null", "is not a regular file"),
        ("twice.ndjson", "is the file of `outputs.main.follow` already"),
        ("dangling", "is the file of `outputs.main.follow` already"),
    ] {
        let problems = load(follow).expect_err(follow);
        assert_says(&problems.render(), &[said]);
        assert_eq!(problems.problems.len(), 1, "{}", problems.render());
    }
    load("data.ndjson").unwrap();
}
