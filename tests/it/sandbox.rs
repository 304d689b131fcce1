//! Goal: `dovetail test` finds what it promises to find. Method: cases that must fail, played on a
//! guest that does what its records say.

use std::{fs, path::PathBuf};

use dovetail::sandbox::{Engine, Options, Outcome, run};
use dovetail_sdk::{Context, Output, Plugin, Record, Setup, Timer};

use crate::scenarios::native;

/// A case file of the test's own.
struct Cases {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Cases {
    /// Writes one case with these steps; the first is in line 4.
    fn new(steps: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("case.yaml");
        let pipeline = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/pipelines/misbehaving.yaml");
        let mut text = format!("name: a case\npipeline: {pipeline}\nsteps:\n");
        for step in steps {
            text.push_str(&format!("  - {step}\n"));
        }
        fs::write(&file, text).unwrap();
        Self { _folder: folder, file }
    }

    fn play(&self, update: bool) -> Outcome {
        self.play_on(Engine::default(), update)
    }

    fn play_on(&self, engine: Engine, update: bool) -> Outcome {
        let paths = vec![self.file.clone()];
        run(&Options { paths, update, engine, foreign_keys: &[] }).unwrap()
    }

    /// The failures of the case, each with its line.
    fn failures(&self) -> Vec<(usize, String)> {
        self.play(false).cases.remove(0).failures
    }
}

const COLD: &str = "with a fresh instance for every call, the plugin keeps something in memory";

#[test]
fn plugin_whose_results_depend_on_its_memory_fails_the_case() {
    let failures = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "calls" } }"#,
        r#"{ in: records, raw: { key: k, timestamp: +2s, value: "calls" } }"#,
        "expect: { main: [ { key: k, value: 1 }, { key: k, value: 2 } ] }",
    ])
    .failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (line, message) = &failures[0];
    assert_eq!(*line, 1);
    assert!(message.contains(COLD) && message.contains("output `main` differs"), "{message}");
}

#[test]
fn plugin_whose_state_depends_on_its_memory_fails_the_case() {
    let failures = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "put-calls" } }"#,
        r#"{ in: records, raw: { key: k, timestamp: +2s, value: "put-calls" } }"#,
    ])
    .failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let message = &failures[0].1;
    let state = "keyed state has key k, value [] = 1 instead of key k, value [] = 2";
    assert!(message.contains(COLD) && message.contains(state), "{message}");
}

/// Says how many records it has seen since it was made.
struct Forgetful {
    main: Output,
    seen: u32,
}

#[derive(serde::Deserialize)]
struct Nothing {}

impl Plugin for Forgetful {
    type Config = Nothing;

    fn open(_: Nothing, setup: &mut Setup) -> dovetail_sdk::Result<Self> {
        setup.input("records");
        setup.output("late");
        Ok(Self { main: setup.output("main"), seen: 0 })
    }

    fn process_element(
        &mut self,
        _: Record<'_>,
        context: &mut Context<'_>,
    ) -> dovetail_sdk::Result {
        self.seen += 1;
        self.main.emit(context, self.seen.to_string());
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, _: &mut Context<'_>) -> dovetail_sdk::Result {
        Ok(())
    }
}

#[test]
fn native_plugin_is_played_cold_too() {
    let outcome = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "x" } }"#,
        r#"{ in: records, raw: { key: k, timestamp: +2s, value: "x" } }"#,
        "expect: { main: [ { key: k, value: 1 }, { key: k, value: 2 } ] }",
    ])
    .play_on(Engine { native: Some(native::<Forgetful>()), on_disk: false }, false);
    let failures = &outcome.cases[0].failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].1.contains(COLD), "{failures:?}");
}

#[test]
fn crash_loses_the_open_epoch_and_what_it_held_happens_again() {
    let outcome = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "put kept" } }"#,
        "crash: {}",
        r#"{ in: records, raw: { key: k, timestamp: +2s, value: "emit-value" } }"#,
        "crash: {}",
        "expect: { main: [ { key: k, value: kept } ] }",
    ])
    .play(false);
    assert_eq!(outcome.passed_and_failed(), (1, 0), "{}", outcome.to_text());
    // Twice in each play with an epoch for every call; in one epoch each call is lost once.
    assert_eq!(outcome.calls, 2 + 4 + 2);
}

#[test]
fn wrong_expectation_is_shown_by_line_and_an_update_writes_what_came() {
    let cases = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "put 5" } }"#,
        r#"{ in: records, raw: { key: k, timestamp: +2s, value: "emit-value" } }"#,
        "expect: { main: [ { key: k, value: 6 } ] }",
    ]);
    let failures = cases.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (line, message) = &failures[0];
    assert_eq!(*line, 6);
    for part in ["- expected, + got", r#"- {"key":"k","value":6}"#, r#"+ {"key":"k","value":5}"#] {
        assert!(message.contains(part), "expected `{part}` in {message}");
    }
    let text = cases.play(false).to_text();
    assert!(text.contains("case.yaml:6: output `main` differs"), "{text}");

    assert_eq!(cases.play(true).updated, std::slice::from_ref(&cases.file));
    assert_eq!(cases.play(false).passed_and_failed(), (1, 0));
    assert!(fs::read_to_string(&cases.file).unwrap().contains("value: 5"));
}

#[test]
fn outcome_tells_calls_time_and_memory() {
    let outcome = Cases::new(&[
        r#"{ in: records, raw: { key: k, timestamp: +1s, value: "nothing" } }"#,
        "expect_late: { records: 0 }",
    ])
    .play(false);
    assert_eq!(outcome.passed_and_failed(), (1, 0), "{}", outcome.to_text());
    assert_eq!(outcome.calls, 3, "one call in each of three plays");
    assert!(outcome.memory_bytes_peak >= 64 << 10, "{} bytes", outcome.memory_bytes_peak);
    let text = outcome.to_text();
    for part in ["3 calls in ", "peak guest memory ", "1 passed, 0 failed"] {
        assert!(text.contains(part), "expected `{part}` in {text}");
    }
}
