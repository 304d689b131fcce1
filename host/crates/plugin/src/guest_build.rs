//! Builds a plugin crate into a component, on machines with and without rustup's Wasm target.
//!
//! Two routes: (A) the toolchain at hand has the target `wasm32-unknown-unknown`; (B) Debian's
//! `rustc-web`, `cargo-web` and `rust-web-src` build the standard library along. Where neither is
//! possible the error says what is missing and how to get it.
//!
//! Keeps true: guests have a target directory of their own (`guests` below the crate's), so a build
//! may run inside another cargo's, and a second build is warm.

mod route;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde::Deserialize;

use self::route::Route;
use crate::component::{EncodeError, encode_component};

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Why a plugin crate is not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no crate.
    #[error("no plugin crate in {}: expected a Cargo.toml; `dovetail new` writes one", .0.display())]
    NoCrate(PathBuf),
    /// The crate is not a library that becomes a module.
    #[error(
        "crate `{0}` builds no module: add `[lib]` with `crate-type = [\"cdylib\", \"rlib\"]` to \
         its Cargo.toml"
    )]
    NotCdylib(String),
    /// No way to build for Wasm on this machine.
    #[error("no way to build for {TARGET} was found:\n{}", missing.join("\n"))]
    NoToolchain {
        /// For each route, what is missing and how to get it.
        missing: Vec<String>,
    },
    /// A program could not be started.
    #[error("`{program}` cannot be run: {source}; is it installed and in PATH?")]
    NotRun {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// cargo failed; what it said is the rest of the message.
    #[error("cargo failed for the plugin crate:\n{0}")]
    Cargo(String),
    /// cargo answered what this version does not understand.
    #[error("cargo's description of the crate cannot be read: {0}")]
    Metadata(#[from] serde_json::Error),
    /// The module is no plugin.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A file could not be read or written.
    #[error("{} cannot be read or written: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Builds the plugin crate in `crate_dir` and returns the component it wrote:
/// `<target directory>/guests/<crate>.wasm`, with underscores for hyphens.
///
/// `progress` is told what is done before it is done, and what cargo printed.
///
/// # Errors
///
/// When there is no plugin crate, no way to build it (with what to install), or when it does not
/// compile (with cargo's words).
pub fn build_guest(
    crate_dir: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, BuildError> {
    let guest = describe_crate(crate_dir)?;
    let route = Route::find(crate_dir)?;
    progress(&format!("building {} with {route}", guest.package));
    let guests = guest.target_dir.join("guests");
    let target_dir = guests.join(route.subfolder());
    let mut command = route.cargo();
    // A guest runs once per record for as long as a pipeline lives: the slower build pays (about a
    // tenth of a call's time), whatever the profile of the workspace around the crate says.
    command
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "false");
    command
        .current_dir(crate_dir)
        .args(["build", "--release", "--lib", "--target", TARGET, "--package", &guest.package])
        .arg("--target-dir")
        .arg(&target_dir);
    let output = run(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(BuildError::Cargo(said));
    }
    said.lines().for_each(&mut *progress);
    let file = format!("{}.wasm", guest.library);
    let module_file = target_dir.join(TARGET).join("release").join(&file);
    let module = fs::read(&module_file).map_err(file_error(&module_file))?;
    let component = encode_component(&module)?;
    let component_file = guests.join(&file);
    write_whole(&component_file, &component)?;
    progress(&format!("wrote {} ({} bytes)", component_file.display(), component.len()));
    Ok(component_file)
}

/// What cargo knows of a plugin crate.
struct GuestCrate {
    package: String,
    library: String,
    target_dir: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

fn describe_crate(crate_dir: &Path) -> Result<GuestCrate, BuildError> {
    let manifest = crate_dir.join("Cargo.toml");
    let manifest =
        manifest.canonicalize().map_err(|_absent| BuildError::NoCrate(crate_dir.to_owned()))?;
    let mut command = Command::new(cargo_program());
    command
        .current_dir(crate_dir)
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(&manifest);
    let output = run(&mut command)?;
    if !output.status.success() {
        return Err(BuildError::Cargo(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let package = metadata.packages.into_iter().find(|package| package.manifest_path == manifest);
    let Some(package) = package else {
        return Err(BuildError::NoCrate(crate_dir.to_owned()));
    };
    let is_module = |target: &&Target| target.crate_types.iter().any(|kind| kind == "cdylib");
    let Some(library) = package.targets.iter().find(is_module) else {
        return Err(BuildError::NotCdylib(package.name));
    };
    Ok(GuestCrate {
        library: library.name.replace('-', "_"),
        target_dir: metadata.target_directory,
        package: package.name,
    })
}

/// Returns the cargo that runs us, else the one in PATH, else Debian's.
fn cargo_program() -> PathBuf {
    if let Some(cargo) = env::var_os("CARGO") {
        return cargo.into();
    }
    let paths = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&paths).any(|folder| folder.join("cargo").exists());
    if in_path { "cargo".into() } else { route::DEBIAN_CARGO.into() }
}

fn run(command: &mut Command) -> Result<Output, BuildError> {
    // What the caller's build is told must not reach a guest's.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_MAKEFLAGS"] {
        command.env_remove(name);
    }
    command.output().map_err(|source| BuildError::NotRun {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })
}

/// Writes a file so that readers see the old or the new one, never a part.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    fs::write(&partial, bytes).map_err(file_error(&partial))?;
    fs::rename(&partial, path).map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::File { path: path.to_owned(), source }
}
