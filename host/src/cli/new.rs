//! `dovetail new`.

use std::path::PathBuf;

use clap::Args;

use super::terminal;
use crate::{failure::Failure, scaffold};

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Where to write it; the last part is the plugin's name.
    path: PathBuf,
}

pub(super) fn new(args: &NewArgs) -> Result<(), Failure> {
    let written = scaffold::write(&args.path)?;
    terminal::print(&written.summary())
}
