//! The command line: what is asked for, handed to what does it.
//!
//! Keeps: standard output carries results alone, so that it can be piped; everything else goes to
//! standard error. Every listing has `--output json`.

mod build;
mod checkpoint;
mod client;
mod lanes;
mod new;
mod plugin;
mod run;
mod status;
pub(crate) mod terminal;
mod test;
mod timers;
mod validate;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    config::{self, Environment, Loaded},
    failure::Failure,
    wiring::{self, Fitted},
};

/// The pipeline file when none is named.
const FILE_DEFAULT: &str = "pipeline.yaml";

const EXIT_CODES: &str = "\
Exit codes:
  0   ok
  1   a check or test failed
  2   used wrongly, or something it needs is not there
  3   stopped by a rule about data or ownership (gap, dead-letter rate, takeover)
  70  internal error
  78  the configuration must change
  143 a second SIGTERM or SIGINT while the epoch was still ending

Environment:
  DOVETAIL_URL       where a running pipeline is found
  DOVETAIL_TOKEN     the token for changes, where state.dir/admin-token is not at hand
  DOVETAIL__A__B=v   sets the configuration key a.b
  DOVETAIL_LOG       what is logged, such as info or dovetail=debug
  NO_COLOR           no colours";

/// Joins Kafka topics with match logic that ships as WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "dovetail", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new plugin with a pipeline, a test and sample data.
    #[command(
        after_help = "Example:\n  dovetail new my-join && cd my-join && dovetail build && dovetail run"
    )]
    New(new::NewArgs),
    /// Build a plugin crate into a component.
    #[command(
        after_help = "Examples:\n  dovetail build\n  dovetail build ../my-join --out my_join.wasm"
    )]
    Build(build::BuildArgs),
    /// Check a pipeline file and its plugin; with --connect the broker too.
    #[command(
        after_help = "Examples:\n  dovetail validate\n  dovetail validate --connect --sample 1000 pipeline.yaml"
    )]
    Validate(validate::ValidateArgs),
    /// Play cases: records in, results compared, on the real component without a broker.
    #[command(
        after_help = "Examples:\n  dovetail test\n  dovetail test tests/late.yaml --update\n  dovetail test plugins/* --output json"
    )]
    Test(test::TestArgs),
    /// Run a pipeline until it ends or is told to stop.
    #[command(
        after_help = "Examples:\n  dovetail run\n  dovetail run pipeline.yaml --set commit.every=25ms\n  dovetail run --print-config\n\nSIGTERM and SIGINT end the epoch, commit and exit 0; a second one exits at once."
    )]
    Run(run::RunArgs),
    /// Show where a running pipeline stands and what holds its time back.
    #[command(
        after_help = "Examples:\n  dovetail status\n  dovetail status --url http://127.0.0.1:9464 --output json"
    )]
    Status(status::StatusArgs),
    /// Inspect a plugin, or replace it while the pipeline runs.
    #[command(
        subcommand,
        after_help = "Examples:\n  dovetail plugin inspect my_join.wasm\n  dovetail plugin push my_join.wasm\n  dovetail plugin list"
    )]
    Plugin(plugin::PluginCommand),
    /// Show timers of a running pipeline.
    #[command(subcommand, after_help = "Example:\n  dovetail timers next -n 5")]
    Timers(timers::TimersCommand),
    /// Show each lane: its epoch and owner, how far its journal and checkpoint are, what it waits for.
    #[command(
        after_help = "Examples:\n  dovetail lanes\n  dovetail lanes pipeline.yaml --output json\n\nA running pipeline answers for itself. Where none answers, journal, offsets and checkpoints are\nread; nobody is disturbed by that."
    )]
    Lanes(lanes::LanesArgs),
    /// List, take, inspect and verify checkpoints.
    #[command(
        subcommand,
        after_help = "Examples:\n  dovetail checkpoint list\n  dovetail checkpoint trigger\n  dovetail checkpoint verify"
    )]
    Checkpoint(checkpoint::CheckpointCommand),
}

/// How a listing is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Which pipeline file.
#[derive(Debug, Args)]
struct FileArgs {
    /// The pipeline file.
    #[arg(value_name = "FILE", default_value = FILE_DEFAULT)]
    file: PathBuf,
    /// Set a configuration key, over file and environment (repeatable).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl FileArgs {
    /// Reads the pipeline file in its layers.
    fn load(&self) -> Result<Loaded, Failure> {
        Ok(config::load(&self.file, &Environment::of_process(&self.set))?)
    }

    /// Reads the pipeline file and takes its plugin through the gate.
    fn fit(&self) -> Result<Fitted, Failure> {
        let (loaded, problems) = config::examine(&self.file, &Environment::of_process(&self.set))?;
        wiring::fit(loaded, problems)
    }
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors and say so themselves.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _unprintable = error.print();
            return ExitCode::from(code);
        }
    };
    match execute(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::complain(&failure.message);
            ExitCode::from(failure.exit.code())
        }
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::New(args) => new::new(&args),
        Command::Build(args) => build::build(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Test(args) => test::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Status(args) => status::status(&args),
        Command::Plugin(command) => plugin::plugin(command),
        Command::Timers(command) => timers::timers(command),
        Command::Lanes(args) => lanes::lanes(&args),
        Command::Checkpoint(command) => checkpoint::checkpoint(command),
    }
}

/// Returns as much of a digest as people compare.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
