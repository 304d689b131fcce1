//! `interval_join` and its outer, semi and anti forms: the plugin `interval-join`.

use interval_join::IntervalJoin;
use serde_json::{Value, json};

use crate::{
    case::{Case, Failure, length},
    joined::{Joined, LateRows, rows},
    plugins::Plugins,
};

pub(super) fn run(case: &Case, plugins: &Plugins) -> Result<(), Failure> {
    let broken = |message| Failure::Broken { step: 0, message };
    let plugin = (plugins, "interval-join");
    let joined = Joined::new::<IntervalJoin>(case, plugin, 0, &config(case));
    let mut joined = joined.map_err(broken)?;
    let mut tell = rows(joined.row_length(), LateRows::with_tags(case));
    case.check(|event| {
        if event.first().is_some_and(|name| name == "BUF?") {
            let times = ["left", "right"].map(|state| {
                let entries = joined.operator().entries(state);
                // The entry of a kept record begins with its time; that of the head row is empty.
                entries.iter().filter_map(|entry| time_of(entry)).collect::<Vec<_>>()
            });
            return Ok(vec![json!(["BUF", times[0], times[1]])]);
        }
        joined.feed(event, &mut tell)
    })
}

fn config(case: &Case) -> Value {
    let given = |name: &str| case.config.get(name).cloned();
    let kind = match case.op.as_str() {
        "interval_join" => json!("inner"),
        "semi_interval_join" => json!("semi"),
        "anti_interval_join" => json!("anti"),
        _ => given("join").unwrap_or(Value::Null),
    };
    json!({
        "kind": kind,
        "lower": given("lower").map(length),
        "upper": given("upper").map(length),
        "lower_inclusive": given("lower_incl").unwrap_or(json!(true)),
        "upper_inclusive": given("upper_incl").unwrap_or(json!(true)),
        "result": { "l": "left.v", "r": "right.v" },
    })
}

fn time_of(entry: &[u8]) -> Option<i64> {
    let (time, _) = entry.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*time) ^ (1 << 63)).cast_signed())
}
