//! `dovetail validate`.

use clap::Args;

use super::{FileArgs, short, terminal};
use crate::{
    failure::{Exit, Failure},
    wiring,
};

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Ask the broker (or look at the files) too; changes nothing.
    #[arg(long)]
    connect: bool,
    /// Read this many of each input's newest records and say what looks wrong.
    #[arg(long, value_name = "N", requires = "connect")]
    sample: Option<u32>,
    /// Print every value in force with its origin, secrets masked, and exit.
    #[arg(long)]
    print_config: bool,
}

pub(super) fn validate(args: &ValidateArgs) -> Result<(), Failure> {
    // A file that is wrong is what this command is asked about: a failed check.
    checked(args).map_err(|failure| match failure.exit {
        Exit::Configuration => Failure { exit: Exit::Check, ..failure },
        Exit::Check | Exit::Usage | Exit::Rule | Exit::Internal => failure,
    })
}

fn checked(args: &ValidateArgs) -> Result<(), Failure> {
    let loaded = args.file.load()?;
    if args.print_config {
        return terminal::print(&loaded.print());
    }
    let fitted = wiring::fit(loaded)?;
    for warning in fitted.loaded.render_warnings() {
        terminal::complain(&warning);
    }
    let file = fitted.loaded.file.clone();
    let digest = fitted.revision.digest().to_owned();
    let mut notes = Vec::new();
    let mut checked = format!("{file}: ok (plugin {})\n", short(&digest));
    if args.connect {
        let mut surveyed = wiring::survey(fitted, wiring::Delivery::ExactlyOnce)?;
        notes.append(&mut surveyed.ground.warnings);
        if let Some(count) = args.sample {
            notes.append(&mut surveyed.backend.sample(&surveyed.fitted.loaded, count)?);
        }
        checked.push_str(&format!(
            "log {}: ok ({} partitions, {} lanes)\n",
            surveyed.ground.cluster_id, surveyed.ground.partitions, surveyed.identity.lanes
        ));
    }
    for note in &notes {
        terminal::complain(&format!("warning: {note}"));
    }
    terminal::print(&checked)
}
