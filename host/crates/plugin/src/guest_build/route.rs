//! Finds out how this machine can compile for Wasm.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{BuildError, TARGET, cargo_program, run};

/// Debian's cargo, where `cargo-web` puts it.
pub(super) const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A way to compile for Wasm.
#[derive(Debug)]
pub(super) enum Route {
    /// The toolchain at hand has the target.
    Target,
    /// A toolchain with the standard library's source builds it along.
    BuildStd {
        /// The linker.
        lld: PathBuf,
    },
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target => write!(f, "the installed target {TARGET}"),
            Self::BuildStd { .. } => write!(
                f,
                "{DEBIAN_CARGO} and the standard library's source (the first time takes a minute)"
            ),
        }
    }
}

impl Route {
    /// Returns the first way that this machine offers to the crate in `crate_dir`.
    pub(super) fn find(crate_dir: &Path) -> Result<Self, BuildError> {
        let mut missing = Vec::new();
        match installed_target(crate_dir) {
            Ok(()) => return Ok(Self::Target),
            Err(why) => missing.push(why),
        }
        match build_std() {
            Ok(lld) => Ok(Self::BuildStd { lld }),
            Err(why) => {
                missing.push(why);
                Err(BuildError::NoToolchain { missing })
            }
        }
    }

    /// Returns the part of the guests' target directory that this route uses: another compiler's
    /// files would be thrown away with every change of route.
    pub(super) fn subfolder(&self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::BuildStd { .. } => "build-std",
        }
    }

    /// Returns cargo, ready to be given `build` and its arguments.
    pub(super) fn cargo(&self) -> Command {
        match self {
            Self::Target => Command::new(cargo_program()),
            Self::BuildStd { lld } => {
                let mut command = Command::new(DEBIAN_CARGO);
                command
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", lld)
                    .env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort")
                    .env_remove("RUSTC_WRAPPER")
                    .env_remove("RUSTUP_TOOLCHAIN")
                    .env_remove("CARGO");
                command
            }
        }
    }
}

/// Checks that the toolchain of the crate has the target installed.
fn installed_target(crate_dir: &Path) -> Result<(), String> {
    let how = format!("- with rustup: `rustup target add {TARGET}`");
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.current_dir(crate_dir).args(["--print", "target-libdir", "--target", TARGET]);
    let Some(folder) = printed_path(&mut command) else {
        return Err(format!("{how} (no `rustc` was found in PATH)"));
    };
    if folder.is_dir() {
        return Ok(());
    }
    Err(format!("{how} ({} does not exist)", folder.display()))
}

/// Returns the linker with which Debian's compiler can build the standard library along.
fn build_std() -> Result<PathBuf, String> {
    let how = "- with Debian's packages: `apt-get install rustc-web cargo-web rust-web-src`";
    for program in [DEBIAN_RUSTC, DEBIAN_CARGO] {
        if !Path::new(program).exists() {
            return Err(format!("{how} ({program} does not exist)"));
        }
    }
    let sysroot = printed_path(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]));
    let Some(sysroot) = sysroot else {
        return Err(format!("{how} ({DEBIAN_RUSTC} does not say where its libraries are)"));
    };
    let source = sysroot.join("lib/rustlib/src/rust/library");
    if !source.is_dir() {
        return Err(format!("{how} ({} does not exist)", source.display()));
    }
    find_lld(&sysroot).ok_or_else(|| {
        let package = fs::read_link("/usr/bin/rust-lld")
            .ok()
            .and_then(|link| link.file_name().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "lld".to_owned());
        format!("{how} and a linker: `apt-get install {package}` (no `rust-lld` was found)")
    })
}

/// Returns a `rust-lld` that exists when links are followed: Debian's, else one of rustup's.
fn find_lld(sysroot: &Path) -> Option<PathBuf> {
    let mut candidates = linkers_below(sysroot);
    candidates.push("/usr/bin/rust-lld".into());
    let home = env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup")));
    if let Some(toolchains) = home.map(|home| home.join("toolchains")) {
        for toolchain in folders(&toolchains) {
            candidates.extend(linkers_below(&toolchain));
        }
    }
    candidates.into_iter().find(|candidate| candidate.exists())
}

fn linkers_below(sysroot: &Path) -> Vec<PathBuf> {
    folders(&sysroot.join("lib/rustlib"))
        .into_iter()
        .map(|host| host.join("bin/rust-lld"))
        .collect()
}

/// Returns the entries of a folder, sorted so that the choice does not vary.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn printed_path(command: &mut Command) -> Option<PathBuf> {
    let output = run(command).ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim()))
}
