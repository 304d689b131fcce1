//! `dovetail test`.

use std::path::PathBuf;

use clap::Args;

use super::{Format, terminal};
use crate::{failure::Failure, sandbox};

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Case files, or folders that hold them or a folder `tests` with them.
    #[arg(default_value = ".")]
    paths: Vec<PathBuf>,
    /// Write what came out into the `expect` steps of the cases.
    #[arg(long)]
    update: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(args: &TestArgs) -> Result<(), Failure> {
    let options = sandbox::Options {
        paths: args.paths.clone(),
        update: args.update,
        engine: sandbox::Engine::default(),
        foreign_keys: &[],
    };
    let outcome = sandbox::run(&options)?;
    for warning in &outcome.warnings {
        terminal::complain(&format!("warning: {warning}"));
    }
    match args.output {
        Format::Table => terminal::print(&outcome.to_text())?,
        Format::Json => terminal::print(&format!("{:#}\n", outcome.to_json()))?,
    }
    let (_, failed) = outcome.passed_and_failed();
    match failed {
        0 => Ok(()),
        1 => Err(Failure::check("1 case does not hold")),
        failed => Err(Failure::check(format!("{failed} cases do not hold"))),
    }
}
