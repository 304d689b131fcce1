//! `dovetail run`.

use clap::Args;

use super::{FileArgs, terminal};
use crate::{
    failure::Failure,
    telemetry,
    wiring::{self, Ended},
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print every value in force with its origin, secrets masked, and exit.
    #[arg(long)]
    print_config: bool,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let loaded = args.file.load()?;
    if args.print_config {
        return terminal::print(&loaded.print());
    }
    telemetry::start();
    let fitted = wiring::fit(loaded)?;
    for warning in fitted.loaded.render_warnings() {
        tracing::warn!("{}", warning.trim_start_matches("warning: ").trim_end());
    }
    let surveyed = wiring::survey(fitted)?;
    for warning in &surveyed.ground.warnings {
        tracing::warn!("{warning}");
    }
    match wiring::run(surveyed)? {
        Ended::Finished => terminal::print("finished\n"),
        Ended::Stopped => terminal::print("stopped\n"),
    }
}
