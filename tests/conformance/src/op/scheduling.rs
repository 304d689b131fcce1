//! `partition_group`: the choice of the next record, called directly.

use dovetail_core::schedule::{Choice, Heads};
use serde_json::{Value, json};

use crate::case::{Case, Failure, integer, text};

const PARTITIONS_MAX: usize = 16;

pub(super) fn run(case: &Case) -> Result<(), Failure> {
    let mut names: Vec<String> = Vec::new();
    let mut heads: Heads<i64> = Heads::new(PARTITIONS_MAX, 0);
    let mut time = i64::MIN;
    case.check(|event| match text(event, 0)? {
        "ADD" => {
            let name = text(event, 1)?;
            let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            let times = event.get(2).and_then(Value::as_array).ok_or("no list of times")?;
            let times: Vec<i64> = times.iter().filter_map(Value::as_i64).collect();
            heads.add(at, times.iter().map(|time| (Some(*time), *time)));
            Ok(vec![])
        }
        "POLL" => {
            // Every partition is at its end behind what was added.
            (0..PARTITIONS_MAX).for_each(|at| heads.at_end(at));
            let Choice::Take(at) = heads.choose(0, 0) else {
                return Ok(vec![]);
            };
            let taken = heads.take(at, 0).ok_or("the chosen partition has no head")?;
            time = time.max(taken);
            Ok(vec![json!(["P", names[at], taken, "time", time])])
        }
        other => Err(format!("event {other} is not known: {:?}", integer(event, 1))),
    })
}
