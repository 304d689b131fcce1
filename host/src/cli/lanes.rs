//! `dovetail lanes`.

mod resolve;

use clap::{Args, Subcommand};
use dovetail_admin::view::{LaneRowView, LanesView};
use dovetail_runtime::clock;

use super::{
    Format,
    client::Where,
    terminal::{self, brief_bytes, brief_time},
};
use crate::{failure::Failure, wiring::look};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct LanesArgs {
    #[command(subcommand)]
    command: Option<LanesCommand>,
    #[command(flatten)]
    at: Where,
    /// How to print them.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum LanesCommand {
    /// Make a lane go on that has halted, by what you trust; changes nothing without --execute.
    #[command(
        after_help = "Examples:\n  dovetail lanes resolve 3 --from journal\n  dovetail lanes resolve 3 --from checkpoint --execute\n\nThe pipeline must not run. The message of the halt names the commands that help. Exit code 1:\nit would not help, or the lane needs no operator."
    )]
    Resolve(resolve::ResolveArgs),
}

pub(super) fn lanes(args: &LanesArgs) -> Result<(), Failure> {
    if let Some(LanesCommand::Resolve(args)) = &args.command {
        return resolve::resolve(args);
    }
    let view: LanesView = match args.at.running()? {
        Some(client) => client.read_as("/api/v1/lanes")?,
        None => look::lanes(&args.at.load()?)?,
    };
    match args.output {
        Format::Json => {
            let value = serde_json::to_value(&view)
                .map_err(|error| Failure::internal(error.to_string()))?;
            terminal::print(&terminal::json(&value))
        }
        Format::Table => terminal::print(&render(&view, clock::now())),
    }
}

const HEADER: [&str; 6] = ["LANE", "EPOCH", "OWNER", "COMMITTED", "BEHIND", "CHECKPOINT"];

fn render(view: &LanesView, now: i64) -> String {
    let runs = if view.running { "running" } else { "no process answers" };
    let mut text = format!("pipeline  {} ({runs})\n", view.pipeline);
    if view.lanes.is_empty() {
        text.push_str("it has never run\n");
        return text;
    }
    let rows: Vec<_> = view.lanes.iter().map(|lane| row(lane, now)).collect();
    text.push('\n');
    text.push_str(&terminal::table(&HEADER, &rows));
    text.push('\n');
    for lane in &view.lanes {
        text.push_str(&format!("lane {} waits for {}\n", lane.lane, lane.waits_for));
    }
    text
}

fn row(lane: &LaneRowView, now: i64) -> Vec<String> {
    let none = || "-".to_owned();
    let behind = &lane.journal_behind;
    let bytes = behind.bytes.map_or(String::new(), |bytes| format!(", {}", brief_bytes(bytes)));
    let checkpoint = lane
        .checkpoint
        .as_ref()
        .map(|it| format!("{}, {}", it.epoch, brief_time(Some(it.at_ms), now)));
    vec![
        lane.lane.to_string(),
        lane.epoch.map_or_else(none, |epoch| epoch.to_string()),
        lane.owner.as_ref().map_or_else(none, |owner| format!("{}@{}", owner.pid, owner.host)),
        brief_time(lane.committed_at_ms, now),
        format!("{}{bytes}", behind.records),
        checkpoint.unwrap_or_else(none),
    ]
}

#[cfg(test)]
mod tests {
    use dovetail_admin::view::{BehindView, NewestView, OwnerView};

    use super::*;

    #[test]
    fn the_table_of_a_busy_lane_fits_eighty_columns() {
        let now = 1_767_225_600_000;
        let lane = LaneRowView {
            lane: 11,
            phase: Some("running".to_owned()),
            epoch: Some(12_345_678),
            owner: Some(OwnerView {
                host: "join-host-17".to_owned(),
                pid: 1_234_567,
                started_at: String::new(),
                attempt: String::new(),
            }),
            committed_at_ms: Some(now),
            committed_at: None,
            journal_behind: BehindView { records: 12_345, bytes: Some(123 << 20) },
            checkpoint: Some(NewestView {
                name: String::new(),
                epoch: 12_345_000,
                at_ms: now,
                at: String::new(),
            }),
            waits_for: "new records".to_owned(),
        };
        let table = terminal::boxed(&HEADER, &[row(&lane, now)]);
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 80, "{widest} columns:\n{table}");
        let view = LanesView { pipeline: "p".to_owned(), running: false, lanes: vec![lane] };
        let text = render(&view, now);
        assert!(text.starts_with("pipeline  p (no process answers)\n"), "{text}");
        assert!(text.ends_with("lane 11 waits for new records\n"), "{text}");
    }
}
