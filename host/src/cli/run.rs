//! `dovetail run`.

use clap::Args;

use super::{FileArgs, terminal};
use crate::{
    failure::Failure,
    telemetry,
    wiring::{self, Delivery, Ended, Termination},
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Print every value in force with its origin, secrets masked, and exit.
    #[arg(long)]
    print_config: bool,
    /// Turn journal, offsets and transactions off, to measure what they cost. Results may be lost
    /// or repeated, and nothing can be resumed.
    #[arg(long, hide = true)]
    benchmark_without_exactly_once: bool,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    if args.print_config {
        return terminal::print(&args.file.load()?.print());
    }
    telemetry::start();
    // Before anything that takes time: unhandled, a signal kills.
    let termination = Termination::listen()?;
    let fitted = args.file.fit()?;
    for warning in fitted.loaded.render_warnings() {
        tracing::warn!("{}", warning.trim_start_matches("warning: ").trim_end());
    }
    if let Some(warning) = wiring::freshness::warning(&fitted.loaded.config.plugin.file) {
        tracing::warn!("{warning}");
    }
    let delivery = if args.benchmark_without_exactly_once {
        Delivery::Unguarded
    } else {
        Delivery::ExactlyOnce
    };
    let surveyed = wiring::survey_to_run(fitted, delivery)?;
    for warning in &surveyed.ground.warnings {
        tracing::warn!("{warning}");
    }
    match wiring::run(surveyed, &termination)? {
        Ended::Finished(summary) => terminal::print(&format!("finished: {summary}\n")),
        Ended::Stopped(summary) => terminal::print(&format!("stopped: {summary}\n")),
    }
}
