//! `dovetail status`.
//!
//! Keeps: the tables fit a terminal of 80 columns; what is left out there is in `--output json`.

use clap::Args;
use dovetail_admin::view::{InputView, LaneStatusView, ReadyView, SourceView, StatusView};
use dovetail_runtime::clock;

use super::{
    Format,
    client::Where,
    short,
    terminal::{self, brief_bytes, brief_time},
};
use crate::failure::Failure;

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
    terminal::print(&render(&status, clock::now()))
}

fn render(status: &StatusView, now: i64) -> String {
    let mut text = format!(
        "pipeline  {}\nstarted   {}\nplugin    {}\n",
        status.pipeline,
        status.started_at,
        short(&status.revision)
    );
    text.push_str(&readiness(&status.readiness));
    text.push_str(&watermark(status));
    for violation in &status.copartition_violations {
        text.push_str(&format!("co-partitioning: {violation}\n"));
    }
    let lanes: Vec<_> = status.lanes.iter().map(|view| lane(view, now)).collect();
    let sources = status
        .lanes
        .iter()
        .flat_map(|lane| lane.sources.iter().map(move |source| source_row(lane.lane, source, now)));
    let outputs = status.outputs.iter().map(|(name, count)| vec![name.clone(), count.to_string()]);
    let tables = [
        terminal::table(&LANE_HEADER, &lanes),
        terminal::table(&SOURCE_HEADER, &sources.collect::<Vec<_>>()),
        terminal::table(&INPUT_HEADER, &status.inputs.iter().map(input).collect::<Vec<_>>()),
        terminal::table(&["OUTPUT", "RECORDS"], &outputs.collect::<Vec<_>>()),
    ];
    for table in tables {
        text.push('\n');
        text.push_str(&table);
    }
    text
}

const LANE_HEADER: [&str; 10] =
    ["LANE", "PHASE", "EPOCH", "COMMIT", "WATERMARK", "IN/S", "OUT/S", "DEAD", "TIMERS", "STATE"];
const SOURCE_HEADER: [&str; 6] = ["LANE", "SOURCE", "POSITION", "IS", "WATERMARK", "HOLDS SINCE"];
const INPUT_HEADER: [&str; 7] = ["INPUT", "RECORDS", "LATE", "DROPPED", "LOST", "DEAD", "WHY"];

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

/// Says what event time waits for.
fn watermark(status: &StatusView) -> String {
    let rule = &status.when_all_idle;
    match (&status.held_by, &status.all_idle_since) {
        (Some(held), _) => format!("watermark held by {held}\n"),
        (None, Some(since)) => {
            let time = if rule == "hold" { "stands still" } else { "goes on with the clock" };
            format!("every source idle since {since}: time {time} (when_all_idle: {rule})\n")
        }
        (None, None) => "watermark held by nobody\n".to_owned(),
    }
}

fn lane(lane: &LaneStatusView, now: i64) -> Vec<String> {
    vec![
        lane.lane.to_string(),
        lane.phase.clone(),
        lane.epoch.map_or_else(|| "-".to_owned(), |epoch| epoch.to_string()),
        format!("{}ms", lane.commit_ms),
        brief_time(lane.watermark_ms, now),
        format!("{:.0}", lane.records_in_per_second),
        format!("{:.0}", lane.records_out_per_second),
        lane.dead_letters.to_string(),
        format!("~{}", lane.timers_pending),
        format!("~{}", brief_bytes(lane.state_bytes)),
    ]
}

fn source_row(lane: u16, source: &SourceView, now: i64) -> Vec<String> {
    let mut condition = source.condition.clone();
    if source.broadcast {
        condition.push_str(", broadcast");
    } else if source.idle {
        condition.push_str(", idle");
    }
    if source.waits {
        condition.push_str(", waits");
    }
    if let Some(bootstrap) = &source.bootstrap {
        let percent = bootstrap.percent.map_or_else(|| "?".to_owned(), |it| it.to_string());
        condition.push_str(&format!(", loads {percent}%"));
    }
    let holds = source.held_since_ms.filter(|_| source.holds_watermark);
    vec![
        lane.to_string(),
        format!("{}[{}]", source.input, source.partition),
        source.position.to_string(),
        condition,
        brief_time(source.watermark_ms, now),
        holds.map_or_else(String::new, |since| brief_time(Some(since), now)),
    ]
}

fn input(input: &InputView) -> Vec<String> {
    let dead: u64 = input.dead_letters.values().sum();
    let reasons = input.dead_letters.iter().map(|(reason, count)| format!("{reason} {count}"));
    vec![
        input.input.clone(),
        input.records.to_string(),
        input.late.to_string(),
        input.dropped.to_string(),
        input.lost.to_string(),
        dead.to_string(),
        reasons.collect::<Vec<_>>().join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> StatusView {
        let source = |input: &str| SourceView {
            input: input.to_owned(),
            topic: String::new(),
            partition: 11,
            broadcast: false,
            condition: "at_end".to_owned(),
            at_end: true,
            position: 12_345_678,
            watermark_ms: Some(1_767_225_600_000),
            watermark: None,
            idle: true,
            holds_watermark: true,
            held_since_ms: Some(1_767_225_600_000),
            held_since: None,
            bootstrap: None,
            waits: false,
        };
        let lane = LaneStatusView {
            lane: 11,
            phase: "acquiring".to_owned(),
            phase_since: String::new(),
            revision: None,
            epoch: Some(1_234_567),
            committed_at: None,
            commit_ms: 120,
            watermark_ms: Some(1_767_225_600_000),
            watermark: None,
            held_by: None,
            all_idle: true,
            all_idle_since_ms: None,
            records_in_per_second: 123_456.0,
            records_out_per_second: 12_345.0,
            late: 0,
            dead_letters: 123,
            timers_pending: 12_345,
            timers_fired: 0,
            calls_last_minute: 0,
            failed_calls_last_minute: 0,
            state_rows: 6,
            state_bytes: 31_752,
            recoveries: 0,
            last_doubt: None,
            checkpoint: None,
            sources: vec![source("impressions"), source("clicks")],
        };
        StatusView {
            pipeline: "p".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            revision: "d".to_owned(),
            readiness: ReadyView { ready: true, reasons: Vec::new(), warnings: Vec::new() },
            held_by: None,
            all_idle_since_ms: None,
            all_idle_since: Some("2026-01-01T00:00:00Z".to_owned()),
            when_all_idle: "hold".to_owned(),
            inputs: Vec::new(),
            outputs: [("main".to_owned(), 1)].into(),
            copartition_violations: Vec::new(),
            lanes: vec![lane],
        }
    }

    #[test]
    fn tables_of_a_busy_pipeline_fit_eighty_columns() {
        let status = busy();
        let now = 1_767_225_600_000 + 86_400_000;
        let lanes: Vec<_> = status.lanes.iter().map(|view| lane(view, now)).collect();
        let sources: Vec<_> =
            status.lanes[0].sources.iter().map(|source| source_row(11, source, now)).collect();
        for table in
            [terminal::boxed(&LANE_HEADER, &lanes), terminal::boxed(&SOURCE_HEADER, &sources)]
        {
            let widest = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= 80, "{widest} columns:\n{table}");
            assert!(table.contains("01-01 00:00"), "{table}");
        }
    }

    #[test]
    fn time_that_stands_still_is_told_with_since_when_and_by_which_rule() {
        let mut status = busy();
        assert_eq!(
            watermark(&status),
            "every source idle since 2026-01-01T00:00:00Z: time stands still (when_all_idle: hold)\n"
        );
        status.held_by = Some("orders[0]: no record seen yet".to_owned());
        assert_eq!(watermark(&status), "watermark held by orders[0]: no record seen yet\n");
    }
}
