//! Arrows point only toward `core`, and a heavy dependency has one owner.
//!
//! Goal: what ARCHITECTURE.md draws is what cargo builds. Method: the table below against
//! `cargo metadata`; a new arrow is a change of the table, and of ARCHITECTURE.md before it.

use dovetail_tests::workspace::root;
use serde_json::Value;
use std::process::Command;

/// What a package may use of the workspace.
enum Arrows {
    /// Nothing but these.
    Only(&'static [&'static str]),
    /// Whatever it wires together or tests.
    All,
}

/// A package and its arrows; development dependencies are free, except those of core.
const ARROWS: [(&str, Arrows); 15] = [
    ("dovetail-core", Arrows::Only(&[])),
    ("dovetail-state", Arrows::Only(&["dovetail-core"])),
    ("dovetail-kafka", Arrows::Only(&["dovetail-core"])),
    ("dovetail-embedded", Arrows::Only(&["dovetail-core"])),
    ("dovetail-codec", Arrows::Only(&["dovetail-core"])),
    ("dovetail-plugin", Arrows::Only(&["dovetail-core"])),
    ("dovetail-runtime", Arrows::Only(&["dovetail-codec", "dovetail-core", "dovetail-plugin"])),
    ("dovetail-admin", Arrows::Only(&["dovetail-core", "dovetail-runtime"])),
    ("dovetail-sdk", Arrows::Only(&["dovetail-core"])),
    ("dovetail", Arrows::All),
    ("dovetail-tests", Arrows::All),
    ("dovetail-bench-gen", Arrows::Only(&["dovetail-kafka"])),
    ("dovetail-conformance", Arrows::All),
    ("dovetail-sim", Arrows::Only(&["dovetail-core", "dovetail-runtime", "dovetail-sdk"])),
    // Every member below plugins/, examples/ and tests/guests/.
    (GUEST, Arrows::Only(&["dovetail-sdk"])),
];
const GUEST: &str = "a guest";
const GUEST_FOLDERS: [&str; 3] = ["plugins/", "examples/", "tests/guests/"];

/// All that core may use of others: data structures, hashes, error types.
const CORE_MAY_USE: [&str; 5] = ["bytes", "foldhash", "hashbrown", "thiserror", "xxhash-rust"];

/// Dependencies that shape what they touch, and the only packages that may name them.
const OWNERS: [(&str, &[&str]); 10] = [
    ("rdkafka", &["dovetail-kafka", "dovetail-tests", "dovetail-bench-gen"]),
    ("rdkafka-sys", &["dovetail-kafka", "dovetail-bench-gen"]),
    ("rocksdb", &["dovetail-state"]),
    ("wasmtime", &["dovetail-plugin"]),
    ("axum", &["dovetail-admin"]),
    ("tokio", &["dovetail-admin", "dovetail-state"]),
    ("object_store", &["dovetail-state"]),
    ("notify", &["dovetail-runtime"]),
    ("clap", &["dovetail"]),
    ("anyhow", &["dovetail", "dovetail-tests", "dovetail-bench-gen", "dovetail-conformance"]),
];

/// A member of the workspace with what it needs to run and to be built.
#[derive(Debug, Clone)]
struct Package {
    name: String,
    /// Folder, relative to the top.
    folder: String,
    dependencies: Vec<String>,
    development: Vec<String>,
}

#[test]
fn arrows_point_only_toward_core() {
    assert_none(&complaints(&packages(), forbidden_arrows));
}

#[test]
fn core_uses_data_structures_only() {
    assert_none(&complaints(&packages(), impure_core));
}

#[test]
fn heavy_dependencies_have_one_owner() {
    assert_none(&complaints(&packages(), foreign_dependencies));
}

#[test]
fn forbidden_arrow_is_named_with_what_is_allowed() {
    let bad = package("dovetail-state", &["dovetail-core", "dovetail-plugin"]);
    let found = forbidden_arrows(&bad);
    assert_eq!(
        found,
        ["dovetail-state -> dovetail-plugin: only dovetail-core is allowed; put what both need \
             into core, or pass it in from host/src"]
    );
}

#[test]
fn unknown_member_is_to_be_put_into_the_table() {
    let found = forbidden_arrows(&package("dovetail-extra", &[]));
    assert!(found[0].contains("add it to ARROWS"), "{found:?}");
}

#[test]
fn guest_uses_the_sdk_only() {
    let mut guest = package("latest-dimension", &["dovetail-sdk", "serde", "dovetail-core"]);
    guest.folder = "plugins/latest-dimension".to_owned();
    let found = forbidden_arrows(&guest);
    assert!(found[0].contains("only dovetail-sdk is allowed"), "{found:?}");
}

#[test]
fn dependency_that_core_may_not_have_is_refused_in_its_tests_too() {
    let mut core = package("dovetail-core", &["bytes", "tokio"]);
    core.development = vec!["dovetail-state".to_owned(), "proptest".to_owned()];
    let found = impure_core(&core);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("dovetail-core -> tokio"), "{found:?}");
    assert!(found[1].contains("dovetail-state"), "{found:?}");
}

#[test]
fn dependency_outside_its_owner_is_refused() {
    let found = foreign_dependencies(&package("dovetail-runtime", &["rocksdb"]));
    assert!(found[0].contains("only dovetail-state"), "{found:?}");
}

fn forbidden_arrows(package: &Package) -> Vec<String> {
    let is_guest = GUEST_FOLDERS.iter().any(|folder| package.folder.starts_with(folder));
    let row = if is_guest { GUEST } else { &package.name };
    let Some((_, arrows)) = ARROWS.iter().find(|(name, _)| *name == row) else {
        let name = &package.name;
        return vec![format!("{name}: add it to ARROWS, and to ARCHITECTURE.md first")];
    };
    let Arrows::Only(allowed) = arrows else {
        return Vec::new();
    };
    let ours = |name: &&String| *name == "dovetail" || name.starts_with("dovetail-");
    let used = package.dependencies.iter().filter(ours);
    let complaint = |name: &String| {
        let allowed = match allowed {
            [] => "nothing".to_owned(),
            allowed => allowed.join(", "),
        };
        format!(
            "{} -> {name}: only {allowed} is allowed; put what both need into core, or pass it in \
             from host/src",
            package.name
        )
    };
    let forbidden = used.filter(|name| !allowed.contains(&name.as_str()));
    forbidden.map(complaint).collect()
}

fn impure_core(package: &Package) -> Vec<String> {
    if package.name != "dovetail-core" {
        return Vec::new();
    }
    let foreign = package.dependencies.iter().filter(|name| !CORE_MAY_USE.contains(&name.as_str()));
    let mut complaints: Vec<String> = foreign
        .map(|name| {
            format!(
                "dovetail-core -> {name}: core decides and does no I/O; define a port and let an \
                 edge crate implement it"
            )
        })
        .collect();
    let edges = package.development.iter().filter(|name| name.starts_with("dovetail"));
    complaints.extend(edges.map(|name| {
        format!("dovetail-core's tests use {name}: test with core's own ports in memory")
    }));
    complaints
}

fn foreign_dependencies(package: &Package) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, owners) in OWNERS {
        let uses = package.dependencies.iter().any(|used| used == name);
        if uses && !owners.contains(&package.name.as_str()) {
            complaints.push(format!(
                "{} -> {name}: only {} may name it; go through its port",
                package.name,
                owners.join(", ")
            ));
        }
    }
    complaints
}

fn complaints(packages: &[Package], rule: fn(&Package) -> Vec<String>) -> Vec<String> {
    packages.iter().flat_map(rule).collect()
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn package(name: &str, dependencies: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        folder: "host/crates/sample".to_owned(),
        dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        development: Vec::new(),
    }
}

/// The members of the workspace, as cargo sees them.
fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(root())
        .output()
        .expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{output:?}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let root = text(&metadata["workspace_root"]);
    let packages = metadata["packages"].as_array().expect("a list of packages");
    packages.iter().map(|value| member(value, &root)).collect()
}

fn member(package: &Value, root: &str) -> Package {
    let manifest = text(&package["manifest_path"]);
    let folder =
        manifest.trim_start_matches(root).trim_start_matches('/').trim_end_matches("/Cargo.toml");
    let of_kind = |is_development: bool| -> Vec<String> {
        let all = package["dependencies"].as_array().expect("a list");
        let wanted =
            all.iter().filter(|dependency| (dependency["kind"] == "dev") == is_development);
        wanted.map(|dependency| text(&dependency["name"])).collect()
    };
    Package {
        name: text(&package["name"]),
        folder: folder.to_owned(),
        dependencies: of_kind(false),
        development: of_kind(true),
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("cargo writes a text here").to_owned()
}
