//! What the gate lets in, and what it says to the rest.

use std::fs;

use dovetail_core::plugin::FailureKind;
use dovetail_plugin::{Artifact, GateError, HOST_INTERFACE};

use crate::guest::{component, component_with, gate, impatient_gate, load};

fn refused(bytes: Vec<u8>) -> GateError {
    gate().load_bytes(bytes, "\"\"").map(|revision| revision.digest().to_owned()).unwrap_err()
}

fn says(error: &GateError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn good_plugin_becomes_a_revision_with_digest_version_and_description() {
    let revision = load("").unwrap();
    assert_eq!(revision.digest().len(), 64);
    assert_eq!(revision.digest(), load("open-log").unwrap().digest(), "of the file alone");
    assert_eq!(revision.interface(), HOST_INTERFACE);
    assert_eq!(revision.config(), "\"\"");
    assert_eq!(revision.size_bytes(), component().len());
    assert_eq!(revision.descriptor().outputs, ["main", "late"]);
    assert_eq!(revision.descriptor().states.len(), 3);
}

#[test]
fn artifact_is_read_without_running_it() {
    let artifact = Artifact::parse(component().to_vec(), u64::MAX).unwrap();
    assert_eq!(artifact.interface(), Some(HOST_INTERFACE));
    assert_eq!(artifact.exports(), ["describe", "open", "process-element", "on-timer"]);
    assert!(artifact.imports().contains(&"dovetail:plugin/state@1.0.0".to_owned()));
}

#[test]
fn file_is_loaded_from_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.wasm");
    fs::write(&path, component()).unwrap();
    assert!(gate().load(&path, "{}").is_ok());
    let error = gate().load(&folder.path().join("absent.wasm"), "{}").unwrap_err();
    says(&error, &["absent.wasm", "cannot be read"]);
}

#[test]
fn too_large_file_is_refused_with_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.wasm");
    fs::write(&path, component()).unwrap();
    let error = Artifact::read(&path, 1000).unwrap_err();
    says(&error, &[&component().len().to_string(), "1000"]);
}

#[test]
fn text_file_is_not_wasm() {
    says(&refused(b"#!/bin/sh\n".to_vec()), &["not WebAssembly", "23212f62"]);
    says(&refused(Vec::new()), &["an empty file"]);
}

#[test]
fn core_module_is_told_from_a_component() {
    let module = b"\0asm\x01\0\0\0".to_vec();
    says(&refused(module), &["core WebAssembly module", "dovetail build"]);
}

#[test]
fn truncated_file_is_damaged_wherever_it_is_cut() {
    let whole = component();
    for length in [8, 9, 100, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let error = refused(whole[..length].to_vec());
        let is_told = matches!(
            error,
            GateError::Damaged(_) | GateError::NoInterface | GateError::MissingExports { .. }
        );
        assert!(is_told, "cut to {length}: {error}");
    }
}

#[test]
fn bytes_changed_at_random_never_panic_the_gate() {
    let gate = gate();
    let whole = component();
    for turn in 0..40_usize {
        let mut bytes = whole.to_vec();
        // The first part holds types, names and code alike; the rest is mostly debug sections.
        let at = (turn * 7919) % (bytes.len().min(60_000) - 8) + 8;
        bytes[at] ^= 1 << (turn % 8);
        if let Ok(revision) = gate.load_bytes(bytes, "\"\"") {
            assert_eq!(revision.digest().len(), 64);
        }
    }
}

#[test]
fn another_major_version_is_refused_with_both_versions() {
    let error = refused(component_with(&[("@1.0.0", "@2.0.0")]));
    assert!(matches!(error, GateError::VersionMismatch { .. }), "{error}");
    says(&error, &["dovetail:plugin@2.0.0", "this host speaks 1.0", "speaks 2.0"]);
}

#[test]
fn newer_minor_version_is_refused_with_the_host_it_needs() {
    let error = refused(component_with(&[("@1.0.0", "@1.3.0")]));
    says(&error, &["dovetail:plugin@1.3.0", "host that speaks 1.3"]);
}

#[test]
fn newer_patch_version_is_let_in() {
    let bytes = component_with(&[("@1.0.0", "@1.0.7")]);
    assert_eq!(gate().load_bytes(bytes, "\"\"").unwrap().interface().patch, 7);
}

#[test]
fn every_foreign_import_is_named() {
    let error = refused(component_with(
        &[
            ("dovetail:plugin/timers@1.0.0", "wasi:clocks/wall-clock@0.2.0"),
            ("dovetail:plugin/output@1.0.0", "wasi:sockets/network0@0.2.0-"),
        ]
        .map(|(old, new)| (old, &new[..old.len()])),
    ));
    says(&error, &["wasi:clocks/wall-clock@0.2.0", "wasi:sockets", "no clock"]);
}

#[test]
fn function_that_the_interface_does_not_have_is_named() {
    let error = refused(component_with(&[("remove-range", "remove-ranks")]));
    says(&error, &["dovetail:plugin/state@1.0.0 (remove-ranks)"]);
}

#[test]
fn missing_export_is_named() {
    let error = refused(component_with(&[("on-timer", "on-ticks")]));
    assert!(matches!(error, GateError::MissingExports { .. }), "{error}");
    says(&error, &["`on-timer`"]);
}

#[test]
fn export_of_another_type_is_named() {
    let swap = [("on-timer", "swapping"), ("describe", "on-timer"), ("swapping", "describe")];
    let error = refused(component_with(&swap));
    assert!(matches!(error, GateError::WrongType(_)), "{error}");
    says(&error, &["`describe`"]);
}

#[test]
fn error_of_describe_is_the_users() {
    let error = load("describe-error").unwrap_err();
    assert!(matches!(error, GateError::ConfigRefused(_)), "{error}");
    says(&error, &["`wait` must be longer than 0"]);
}

#[test]
fn describe_that_misbehaves_is_a_typed_failure() {
    let cases = [
        ("describe-trap", FailureKind::Trap, "unreachable"),
        ("describe-panic", FailureKind::Trap, "describe has no idea"),
        ("describe-memory", FailureKind::Memory, "67108864"),
        ("describe-state", FailureKind::Limit, "in `describe`"),
        ("describe-huge", FailureKind::Limit, "33554432"),
    ];
    for (config, kind, part) in cases {
        let Err(GateError::DescribeFailed(failure)) = load(config) else { panic!("{config}") };
        assert_eq!(failure.kind, kind, "{config}: {}", failure.message);
        assert!(failure.message.contains(part), "{config}: {}", failure.message);
    }
}

#[test]
fn description_that_cannot_be_used_is_refused_with_the_reason() {
    says(&load("describe-no-json").unwrap_err(), &["description that cannot be used", "JSON"]);
    let error = load(r#"describe-literal {"version":9}"#).unwrap_err();
    says(&error, &["version 9", "reads version 1"]);
}

#[test]
fn broadcast_input_without_a_handler_for_it_is_refused() {
    let error = load(
        r#"describe-literal {"version":1,"inputs":["records","rules"],"broadcast":["rules"],"outputs":[]}"#,
    );
    let error = error.unwrap_err();
    assert!(matches!(error, GateError::NoBroadcastHandler { .. }), "{error}");
    says(&error, &["`rules` is broadcast", "`process-broadcast`", "broadcast-plugin"]);
}

#[test]
fn error_of_open_is_the_users() {
    says(&load("open-error").unwrap_err(), &["cannot be opened", "no such currency: XXX"]);
}

#[test]
fn open_that_misbehaves_is_a_typed_failure() {
    let cases = [
        ("open-trap", FailureKind::Trap, "unreachable"),
        ("open-emit", FailureKind::Limit, "in `open`"),
    ];
    for (config, kind, part) in cases {
        let Err(GateError::OpenFailed(failure)) = load(config) else { panic!("{config}") };
        assert_eq!(failure.kind, kind, "{config}: {}", failure.message);
        assert!(failure.message.contains(part), "{config}: {}", failure.message);
    }
}

#[test]
fn describe_and_open_that_loop_are_ended_by_their_deadline() {
    let gate = impatient_gate();
    let load = |config: &str| gate.load_bytes(component().to_vec(), config).unwrap_err();
    let GateError::DescribeFailed(failure) = load("\"describe-loop\"") else { panic!() };
    assert_eq!(failure.kind, FailureKind::Deadline, "{}", failure.message);
    let GateError::OpenFailed(failure) = load("\"open-loop\"") else { panic!() };
    assert_eq!(failure.kind, FailureKind::Deadline, "{}", failure.message);
}
