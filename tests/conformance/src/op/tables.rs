//! `ks_table_table`: the plugin `table-join`.

use serde_json::{Value, json};
use table_join::TableJoin;

use crate::{
    case::{Case, Failure},
    joined::{Joined, LateRows, rows},
};

pub(super) fn table_table(case: &Case) -> Result<(), Failure> {
    let versioned: Vec<&str> = [("L", "left"), ("R", "right")]
        .into_iter()
        .filter(|(letter, _)| {
            case.config["versioned"].as_str().is_some_and(|sides| sides.contains(letter))
        })
        .map(|(_, side)| side)
        .collect();
    let kind =
        if case.config["kind"] == "outer" { json!("full") } else { case.config["kind"].clone() };
    let config = json!({
        "kind": kind,
        "versioned": versioned,
        "result": { "l": "left.v", "r": "right.v" },
    });
    run::<TableJoin>(case, 0, &config)
}

fn run<P: dovetail_sdk::Plugin + Send>(
    case: &Case,
    left: u16,
    config: &Value,
) -> Result<(), Failure> {
    let broken = |message| Failure::Broken { step: 0, message };
    let mut joined = Joined::new::<P>(case, left, config).map_err(broken)?;
    let mut tell = rows(joined.row_length(), LateRows::LeftOut);
    case.check(|event| joined.feed(event, &mut tell))
}
