//! Streams and tables: `temporal_rowtime` and `ks_stream_table` of versions run the plugin `as-of`,
//! those of the newest row by arrival, with `temporal_proctime`, the plugin `latest-dimension`;
//! `ks_table_table` runs the plugin `table-join`.

use as_of::AsOf;
use dovetail_sdk::Plugin;
use latest_dimension::LatestDimension;
use serde_json::{Value, json};
use table_join::TableJoin;

use crate::{
    case::{Case, Failure},
    joined::{Joined, LateRows, rows},
    plugins::Plugins,
};

/// The number of the input `behaviour` of both plugins: the left one of a case.
const BEHAVIOUR: u16 = 1;

/// Whether the case's dimension has event times that the plugin is to see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RightTimes {
    Told,
    Withheld,
}

pub(super) fn table_table(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    let versioned: Vec<&str> = [("L", "left"), ("R", "right")]
        .into_iter()
        .filter(|(letter, _)| {
            case.config["versioned"].as_str().is_some_and(|sides| sides.contains(letter))
        })
        .map(|(_, side)| side)
        .collect();
    let kind = match case.config["kind"].as_str() {
        Some("outer") => json!("full"),
        _ => case.config["kind"].clone(),
    };
    let config = json!({
        "kind": kind,
        "versioned": versioned,
        "result": { "l": "left.v", "r": "right.v" },
    });
    run::<TableJoin>(case, (plugins, "table-join"), 0, &config, RightTimes::Told)
}

pub(super) fn stream_table(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    let is_left = case.config["kind"] == "left";
    if case.config["versioned"] == true {
        as_of(case, plugins, "at_once", is_left)
    } else {
        latest(case, plugins, is_left)
    }
}

pub(super) fn temporal_rowtime(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    as_of(case, plugins, "wait_for_watermark", case.config["left"] == true)
}

pub(super) fn temporal_proctime(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    latest(case, plugins, case.config["left"] == true)
}

fn as_of(case: &Case, plugins: &Plugins, mode: &str, is_left: bool) -> Result<(), Failure> {
    let config = json!({
        "mode": mode,
        "unmatched": if is_left { "emit_without" } else { "drop" },
        "result": { "l": "behaviour.v", "r": "dimension.v" },
    });
    run::<AsOf>(case, (plugins, "as-of"), BEHAVIOUR, &config, RightTimes::Told)
}

/// A dimension without event times: what came last is the newest.
fn latest(case: &Case, plugins: &Plugins, is_left: bool) -> Result<(), Failure> {
    let config = json!({
        "wait": "0ms",
        "on_timeout": if is_left { "emit_without" } else { "drop" },
        "result": { "l": "behaviour.v", "r": "dimension.v" },
    });
    run::<LatestDimension>(
        case,
        (plugins, "latest-dimension"),
        BEHAVIOUR,
        &config,
        RightTimes::Withheld,
    )
}

fn run<P: Plugin + Send>(
    case: &Case,
    plugin: (&Plugins, &str),
    left: u16,
    config: &Value,
    times: RightTimes,
) -> Result<(), Failure> {
    let broken = |message| Failure::Broken { step: 0, message };
    let mut joined = Joined::new::<P>(case, plugin, left, config).map_err(broken)?;
    let mut tell = rows(joined.row_length(), LateRows::LeftOut);
    let has_times = case.op != "temporal_proctime";
    case.check(|event| {
        let mut event = event.to_vec();
        let side = event.first().and_then(Value::as_str).unwrap_or_default();
        let is_right = side == "R";
        if !has_times && matches!(side, "L" | "R") {
            // Its records are key, value and kind.
            event.insert(2, Value::Null);
        }
        if is_right && times == RightTimes::Withheld && event.len() > 2 {
            event[2] = Value::Null;
        }
        joined.feed(&event, &mut tell)
    })
}
