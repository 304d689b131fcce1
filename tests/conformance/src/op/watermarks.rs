//! `boo`, `idleness`, `combined`: the watermark rules of core, called directly.

use dovetail_core::watermark::{Combiner, Idleness, SourceWatermark, combiner::SourceActivity};
use serde_json::{Value, json};

use crate::case::{Case, Failure, integer, text};

pub(super) fn bounded_out_of_orderness(case: &Case) -> Result<(), Failure> {
    let delay = case.config["delay"].as_i64().unwrap_or(0);
    let mut watermark = SourceWatermark::default();
    case.check(|event| match text(event, 0)? {
        "EV" => {
            watermark.observe(integer(event, 1)?, delay);
            Ok(vec![])
        }
        "PROBE" => Ok(vec![json!(["W", watermark.get()])]),
        other => Err(format!("event {other} is not known")),
    })
}

pub(super) fn idleness(case: &Case) -> Result<(), Failure> {
    let mut idleness = Idleness::new(case.config["timeout"].as_i64());
    let mut now = 0;
    case.check(|event| match text(event, 0)? {
        "PT" => {
            now = integer(event, 1)?;
            Ok(vec![])
        }
        "EV" => {
            idleness.interrupted();
            Ok(vec![])
        }
        "PROBE" => {
            idleness.at_end(now);
            Ok(vec![json!([if idleness.is_idle(now) { "IDLE" } else { "ACTIVE" }])])
        }
        other => Err(format!("event {other} is not known")),
    })
}

pub(super) fn combined(case: &Case) -> Result<(), Failure> {
    let inputs = case.config["inputs"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(2);
    let mut combiner = Combiner::new(inputs, i64::MIN);
    let mut sources = vec![(i64::MIN, SourceActivity::Active); inputs];
    let mut was_idle = false;
    case.check(|event| {
        let at = usize::try_from(integer(event, 1)?).map_err(|error| error.to_string())?;
        let source = sources.get_mut(at).ok_or("no such source")?;
        match text(event, 0)? {
            "WMC" => *source = (integer(event, 2)?, SourceActivity::Active),
            "IDLE" => source.1 = SourceActivity::Idle,
            "ACTIVE" => source.1 = SourceActivity::Active,
            "ENDC" => source.1 = SourceActivity::Ended,
            other => return Err(format!("event {other} is not known")),
        }
        combiner.set(at, source.0, source.1);
        let mut out: Vec<Value> = Vec::new();
        out.extend(combiner.advance().map(|watermark| json!(["W", watermark])));
        if combiner.is_all_idle() != was_idle {
            was_idle = !was_idle;
            out.push(json!(["S", if was_idle { "IDLE" } else { "ACTIVE" }]));
        }
        Ok(out)
    })
}
