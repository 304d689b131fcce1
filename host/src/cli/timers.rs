//! `dovetail timers`.

use clap::{Args, Subcommand};
use dovetail_admin::view::TimerView;

use super::{Format, client::Where, terminal};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum TimersCommand {
    /// Show the timers that fire next.
    #[command(after_help = "Example:\n  dovetail timers next -n 5 --output json")]
    Next(NextArgs),
}

#[derive(Debug, Args)]
pub(super) struct NextArgs {
    #[command(flatten)]
    at: Where,
    /// How many.
    #[arg(short = 'n', long, default_value_t = 20)]
    limit: u32,
    /// How to print them.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn timers(command: TimersCommand) -> Result<(), Failure> {
    let TimersCommand::Next(args) = command;
    let path = format!("/api/v1/timers?n={}", args.limit);
    let client = args.at.client()?;
    if args.output == Format::Json {
        return terminal::print(&terminal::json(&client.get(&path)?));
    }
    let timers: Vec<TimerView> = client.read_as(&path)?;
    let rows: Vec<Vec<String>> = timers
        .into_iter()
        .map(|timer| {
            let tag = timer.tag.to_string();
            let (lane, partition) = (timer.lane.to_string(), timer.partition.to_string());
            let watermark = timer.watermark.unwrap_or_else(|| "-".to_owned());
            let due = [timer.time, timer.domain, timer.key, tag, lane, partition];
            due.into_iter().chain([watermark, timer.waits_for]).collect()
        })
        .collect();
    let header = ["DUE", "DOMAIN", "KEY", "TAG", "LANE", "PARTITION", "WATERMARK", "WAITS FOR"];
    terminal::print(&terminal::table(&header, &rows))
}
