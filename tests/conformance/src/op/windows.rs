//! `window` and `sql_window_join`: the plugin `window-join`; `window_start` and `window_assign`: the
//! SDK's windows, called directly.

use dovetail_sdk::join::{Windows, window_start as start_of};
use serde_json::{Value, json};
use window_join::WindowJoin;

use crate::{
    case::{Case, Failure, integer, length},
    joined::{Joined, LateRows, Output, rows},
    plugins::Plugins,
};

pub(super) fn window_start(case: &Case) -> Result<(), Failure> {
    let size = case.config["size"].as_i64().unwrap_or(1);
    case.check(|event| {
        let start = start_of(integer(event, 1)?, integer(event, 2)?, size);
        Ok(vec![json!(["S", start])])
    })
}

pub(super) fn window_assign(case: &Case) -> Result<(), Failure> {
    let windows: Result<Windows, _> = serde_json::from_value(windows(&case.config));
    let broken = |message| Failure::Broken { step: 0, message };
    let windows = windows.map_err(|error| broken(error.to_string()))?;
    case.check(|event| {
        let starts: Vec<i64> = windows.assign(integer(event, 1)?).map(|it| it.start).collect();
        Ok(vec![json!(["STARTS", starts])])
    })
}

pub(super) fn window(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    let mut config = json!({
        "window": windows(&case.config),
        "allowed_lateness": length(case.config.get("lateness").cloned().unwrap_or(json!(0))),
        "late_firing": if case.config["purge"] == true { "new" } else { "all" },
    });
    let words = |mut result: Value| {
        result["start"] = json!("window_start");
        result["end"] = json!("window_end");
        result
    };
    match case.config["agg"].as_str() {
        Some("sum") => {
            config["kind"] = json!("full");
            config["emit"] = json!("totals");
            config["totals"] = json!({ "sum": { "sum": "left.v" } });
            config["result"] = words(json!({ "sum": "sum" }));
        }
        Some("cogroup") => {
            config["kind"] = json!("full");
            config["emit"] = json!("groups");
            config["result"] = words(json!({ "l": "left.v", "r": "right.v" }));
        }
        _ => config["result"] = json!({ "l": "left.v", "r": "right.v" }),
    }
    run(case, plugins, &config, LateRows::Listed)
}

/// A record's own time is the end of its window.
pub(super) fn given_windows(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    let config = json!({
        "window": { "kind": "given" },
        "kind": case.config["join"],
        "result": { "l": "left.v", "r": "right.v" },
    });
    run(case, plugins, &config, LateRows::with_tags(case))
}

fn windows(config: &Value) -> Value {
    let mut windows = json!({ "kind": config["kind"] });
    for name in ["size", "slide", "gap", "offset"] {
        if let Some(given) = config.get(name) {
            windows[name] = length(given.clone());
        }
    }
    windows
}

fn run(case: &Case, plugins: &Plugins, config: &Value, late: LateRows) -> Result<(), Failure> {
    let broken = |message| Failure::Broken { step: 0, message };
    let mut joined =
        Joined::new::<WindowJoin>(case, (plugins, "window-join"), 0, config).map_err(broken)?;
    let mut tell_rows = rows(joined.row_length(), late);
    let aggregate = case.config["agg"].as_str().unwrap_or_default();
    let mut tell = |output: Output| match (aggregate, output.name.as_deref()) {
        ("sum", Some("main")) => {
            let Output { key, value, time, .. } = output;
            vec![json!(["A", key, value["start"], value["end"], value["sum"], time])]
        }
        ("cogroup", Some("main")) => {
            let Output { key, value, time, .. } = output;
            vec![json!(["CG", key, value["l"], value["r"], time])]
        }
        _ => tell_rows(output),
    };
    case.check(|event| joined.feed(event, &mut tell))
}
