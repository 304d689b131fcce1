//! `dovetail status`.

use clap::Args;
use dovetail_admin::view::{LaneStatusView, ReadyView, SourceView, StatusView};

use super::{Format, client::Where, short, terminal};
use crate::{config::units::show_bytes, failure::Failure};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    at: Where,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let client = args.at.client()?;
    if args.output == Format::Json {
        return terminal::print(&terminal::json(&client.get("/api/v1/status")?));
    }
    let status: StatusView = client.read_as("/api/v1/status")?;
    terminal::print(&render(&status))
}

fn render(status: &StatusView) -> String {
    let mut text = format!(
        "pipeline  {}\nstarted   {}\nplugin    {}\n",
        status.pipeline,
        status.started_at,
        short(&status.revision)
    );
    text.push_str(&readiness(&status.readiness));
    let held = status.held_by.as_deref().unwrap_or("nobody");
    text.push_str(&format!("watermark held by {held}\n"));
    for violation in &status.copartition_violations {
        text.push_str(&format!("co-partitioning: {violation}\n"));
    }
    text.push('\n');
    text.push_str(&terminal::table(
        &LANE_HEADER,
        &status.lanes.iter().map(lane).collect::<Vec<_>>(),
    ));
    text.push('\n');
    let sources: Vec<Vec<String>> = status
        .lanes
        .iter()
        .flat_map(|lane| lane.sources.iter().map(|source| source_row(lane.lane, source)))
        .collect();
    text.push_str(&terminal::table(&SOURCE_HEADER, &sources));
    text.push('\n');
    let inputs: Vec<Vec<String>> = status
        .inputs
        .iter()
        .map(|input| {
            let dead: u64 = input.dead_letters.values().sum();
            let reasons: Vec<String> = input
                .dead_letters
                .iter()
                .map(|(reason, count)| format!("{reason} {count}"))
                .collect();
            vec![
                input.input.clone(),
                input.records.to_string(),
                input.late.to_string(),
                input.dropped.to_string(),
                dead.to_string(),
                reasons.join(", "),
            ]
        })
        .collect();
    text.push_str(&terminal::table(&INPUT_HEADER, &inputs));
    text.push('\n');
    let outputs: Vec<Vec<String>> =
        status.outputs.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    text.push_str(&terminal::table(&["OUTPUT", "RECORDS"], &outputs));
    text
}

const INPUT_HEADER: [&str; 6] = ["INPUT", "RECORDS", "LATE", "DROPPED", "DEAD LETTERS", "WHY"];
const SOURCE_HEADER: [&str; 8] =
    ["LANE", "INPUT", "PARTITION", "POSITION", "IS", "WATERMARK", "HOLDS", "SINCE"];
const LANE_HEADER: [&str; 11] = [
    "LANE",
    "PHASE",
    "EPOCH",
    "COMMIT",
    "WATERMARK",
    "IN/S",
    "OUT/S",
    "LATE",
    "DEAD",
    "TIMERS",
    "STATE",
];

fn readiness(ready: &ReadyView) -> String {
    let mut text = format!("ready     {}\n", if ready.ready { "yes" } else { "no" });
    for reason in &ready.reasons {
        text.push_str(&format!("  {}: {}\n", reason.code, reason.message));
    }
    for warning in &ready.warnings {
        text.push_str(&format!("  warning: {warning}\n"));
    }
    text
}

fn lane(lane: &LaneStatusView) -> Vec<String> {
    vec![
        lane.lane.to_string(),
        lane.phase.clone(),
        lane.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string()),
        format!("{}ms", lane.commit_ms),
        or_dash(lane.watermark.as_ref()),
        format!("{:.0}", lane.records_in_per_second),
        format!("{:.0}", lane.records_out_per_second),
        lane.late.to_string(),
        lane.dead_letters.to_string(),
        lane.timers_pending.to_string(),
        format!("{} rows, {}", lane.state_rows, show_bytes(lane.state_bytes)),
    ]
}

fn source_row(lane: u16, source: &SourceView) -> Vec<String> {
    let condition =
        if source.idle { format!("{}, idle", source.condition) } else { source.condition.clone() };
    vec![
        lane.to_string(),
        source.input.clone(),
        source.partition.to_string(),
        source.position.to_string(),
        condition,
        or_dash(source.watermark.as_ref()),
        if source.holds_watermark { "yes" } else { "" }.to_owned(),
        if source.holds_watermark { or_dash(source.held_since.as_ref()) } else { String::new() },
    ]
}

fn or_dash(text: Option<&String>) -> String {
    text.cloned().unwrap_or_else(|| "-".to_owned())
}
