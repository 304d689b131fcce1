//! `dovetail new`: a crate with a small rule, a pipeline, a test and sample data.
//!
//! Keeps: what is written builds without this repository (the SDK's sources come along), and
//! nothing that exists is overwritten.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// The SDK's files by their place in the repository.
static SDK_FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk_files.rs"));
/// The manifest over the SDK's crates.
const SDK_WORKSPACE: &str = include_str!(concat!(env!("OUT_DIR"), "/sdk_workspace.toml"));
const SDK_FOLDER: &str = ".dovetail/sdk";

const FILES: [(&str, &str); 8] = [
    ("Cargo.toml", include_str!("../templates/new/Cargo.toml.in")),
    ("README.md", include_str!("../templates/new/README.md.in")),
    (".gitignore", include_str!("../templates/new/gitignore.in")),
    ("pipeline.yaml", include_str!("../templates/new/pipeline.yaml.in")),
    ("src/lib.rs", include_str!("../templates/new/lib.rs.in")),
    ("tests/paid_or_unpaid.yaml", include_str!("../templates/new/case.yaml.in")),
    ("data/orders.ndjson", include_str!("../templates/new/orders.ndjson.in")),
    ("data/payments.ndjson", include_str!("../templates/new/payments.ndjson.in")),
];

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    path: PathBuf,
}

impl Written {
    /// Returns what to do next, for a person.
    #[must_use]
    pub fn summary(&self) -> String {
        let path = self.path.display();
        let files: Vec<String> =
            FILES.iter().map(|(file, _)| format!("  {path}/{file}\n")).collect();
        format!(
            "wrote\n{}  {path}/{SDK_FOLDER}/ (the SDK)\n\nnext\n  cd {path}\n  dovetail build\n  \
             dovetail test\n  dovetail run\n",
            files.concat()
        )
    }
}

/// Writes a new plugin crate.
///
/// # Errors
///
/// When the name is no crate name, something is there already, or a file cannot be written.
pub fn write(path: &Path) -> Result<Written, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_name = name.starts_with(|letter: char| letter.is_ascii_lowercase())
        && name.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter)
        });
    if !is_name {
        return Err(Failure::usage(format!(
            "`{name}` is no name for a crate: expected small letters, digits, `-` and `_`, a letter \
             first"
        )));
    }
    if is_taken(name) {
        return Err(Failure::usage(format!(
            "`{name}` is the name of a crate that the new one uses; choose another"
        )));
    }
    if path.exists() {
        return Err(Failure::usage(format!(
            "{} exists already; choose another name, or remove it",
            path.display()
        )));
    }
    let module = name.replace('-', "_");
    for (file, template) in FILES {
        let text = template.replace("{{name}}", name).replace("{{module}}", &module);
        write_file(&path.join(file), &text)?;
    }
    let sdk = path.join(SDK_FOLDER);
    write_file(&sdk.join("Cargo.toml"), SDK_WORKSPACE)?;
    for (file, text) in SDK_FILES {
        write_file(&sdk.join(file), text)?;
    }
    Ok(Written { path: path.to_owned() })
}

/// Whether a crate of this name is among those that the new one uses.
fn is_taken(name: &str) -> bool {
    const OF_RUST: [&str; 5] = ["alloc", "core", "proc_macro", "std", "test"];
    let (_, manifest) = FILES[0];
    let mut used = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(used, _)| used.replace('-', "_"));
    let module = name.replace('-', "_");
    OF_RUST.contains(&module.as_str()) || used.any(|used| used == module)
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let written =
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written
        .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_the_new_one_uses_lends_it_no_name() {
        for name in ["serde", "serde_json", "serde-json", "dovetail-sdk", "std", "proc-macro"] {
            assert!(is_taken(name), "{name}");
        }
        assert!(!is_taken("my-join"));
    }
}
