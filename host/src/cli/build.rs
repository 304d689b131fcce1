//! `dovetail build`.

use std::{fs, path::PathBuf};

use clap::Args;

use super::terminal;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// The plugin crate.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Also copy the component here [default: beside the crate's Cargo.toml].
    #[arg(long, value_name = "WASM")]
    out: Option<PathBuf>,
}

pub(super) fn build(args: &BuildArgs) -> Result<(), Failure> {
    let component = dovetail_plugin::build_guest(&args.path, &mut terminal::note)
        .map_err(|error| Failure::check(error.to_string()))?;
    let out = match (&args.out, component.file_name()) {
        (Some(out), _) => out.clone(),
        (None, Some(name)) => args.path.join(name),
        (None, None) => return Err(Failure::internal("the component has no name")),
    };
    // Beside it first and renamed over it, because a running pipeline may watch the file.
    let partial = out.with_extension("wasm.partial");
    fs::copy(&component, &partial)
        .and_then(|_bytes| fs::rename(&partial, &out))
        .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", out.display())))?;
    terminal::print(&format!("{}\n", out.display()))
}
