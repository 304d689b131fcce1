//! A reference plugin on a lane, and the cases' notation for what it takes and gives.
//!
//! A case's value travels in the field `v` of a record, so that the plugin is configured and runs
//! as it does for a user; `s` tells the side.

use std::collections::HashMap;

use dovetail_core::log::memory::CommittedRecord;
use dovetail_sdk::Plugin;
use serde_json::{Value, json};

use crate::{
    case::{Case, integer, text},
    keyed::Operator,
    plugins::Plugins,
};

/// A plugin with a left and a right input.
pub(crate) struct Joined {
    operator: Operator,
    /// Which of the plugin's inputs the left one is.
    left: u16,
    /// The keys as the case writes them, by their text.
    keys: HashMap<String, Value>,
    passed_on: i64,
    row_length: usize,
}

/// A result on its way into the case's notation.
pub(crate) struct Output {
    /// The output's name; none is the dead letters.
    pub(crate) name: Option<String>,
    /// The key as the case writes it.
    pub(crate) key: Value,
    /// The value; null is a tombstone.
    pub(crate) value: Value,
    /// The event time.
    pub(crate) time: Option<i64>,
    /// Why it is a dead letter.
    pub(crate) message: String,
}

impl Joined {
    /// Opens a plugin with a configuration; `left` is the number of its left input.
    pub(crate) fn new<P: Plugin + Send>(
        case: &Case,
        (plugins, name): (&Plugins, &str),
        left: u16,
        config: &Value,
    ) -> Result<Self, String> {
        let (descriptor, make) = plugins.open::<P>(name, &config.to_string())?;
        let operator = Operator::new(descriptor, u32::MAX, make);
        let passed_on = operator.watermark_passed_on();
        let row_length = case.joined_length();
        Ok(Self { operator, left, keys: HashMap::new(), passed_on, row_length })
    }

    /// The lane, for what only some operations do.
    pub(crate) fn operator(&mut self) -> &mut Operator {
        &mut self.operator
    }

    /// Handles an event that every operation has.
    pub(crate) fn feed(
        &mut self,
        event: &[Value],
        tell: &mut impl FnMut(Output) -> Vec<Value>,
    ) -> Result<Vec<Value>, String> {
        let mut out = Vec::new();
        let right = 1 - self.left;
        match text(event, 0)? {
            side @ ("L" | "R") => {
                let value = event.get(3).ok_or("a record has a key, a time and a value")?;
                let kind = event.get(4).and_then(Value::as_str).unwrap_or("+U");
                self.record(side, &event[1], event[2].as_i64(), value, kind);
            }
            "WM" => {
                self.operator.watermark(self.left, integer(event, 1)?);
                self.settle(&mut out, tell);
                self.operator.watermark(right, integer(event, 1)?);
            }
            "WM1" => self.operator.watermark(self.left, integer(event, 1)?),
            "WM2" => self.operator.watermark(right, integer(event, 1)?),
            "PT" => self.operator.clock(integer(event, 1)?),
            "RESTORE" => self.operator.restore(),
            "END" => self.operator.end(),
            other => return Err(format!("event {other} is not known")),
        }
        self.settle(&mut out, tell);
        Ok(out)
    }

    /// Feeds a record; kinds that end a row, and the value null, are tombstones.
    pub(crate) fn record(
        &mut self,
        side: &str,
        key: &Value,
        time: Option<i64>,
        value: &Value,
        kind: &str,
    ) {
        let is_end = value.is_null() || kind.starts_with('-');
        let value = (!is_end).then(|| json!({ "v": value, "s": side }).to_string().into_bytes());
        let input = if side == "L" { self.left } else { 1 - self.left };
        let text = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        self.operator.record(input, &text, time, value);
        self.keys.insert(text, key.clone());
    }

    /// Works until nothing is left, and tells what came of it, then how far time is.
    pub(crate) fn settle(
        &mut self,
        out: &mut Vec<Value>,
        tell: &mut impl FnMut(Output) -> Vec<Value>,
    ) {
        self.operator.settle();
        for record in self.operator.new_outputs() {
            out.extend(tell(self.output(record)));
        }
        let watermark = self.operator.watermark_passed_on();
        if watermark > self.passed_on {
            self.passed_on = watermark;
            out.push(json!(["W", watermark]));
        }
    }

    fn output(&self, record: CommittedRecord) -> Output {
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or(Value::Null);
        let key = String::from_utf8_lossy(&record.key.unwrap_or_default()).into_owned();
        let message = record.headers.last("__streams.errors.message");
        let message = message.and_then(|header| header.value.as_deref()).unwrap_or_default();
        Output {
            name: self.operator.output_name(record.target).map(str::to_owned),
            key: self.keys.get(&key).cloned().unwrap_or_else(|| json!(key)),
            value: record.value.map_or(Value::Null, |value| parse(&value)),
            time: record.time,
            message: String::from_utf8_lossy(message).into_owned(),
        }
    }

    /// Returns a joined row with as much as the case tells of one.
    pub(crate) fn row_length(&self) -> usize {
        self.row_length
    }
}

/// Which records of the output `late` a case lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateRows {
    Listed,
    LeftOut,
}

impl LateRows {
    pub(crate) fn with_tags(case: &Case) -> Self {
        let is_listed = case.config.get("late_tags").is_some_and(|tags| *tags != json!(false));
        if is_listed { Self::Listed } else { Self::LeftOut }
    }
}

/// Tells joined rows whose values are in `l` and `r`, late rows and dead letters.
pub(crate) fn rows(row_length: usize, late: LateRows) -> impl FnMut(Output) -> Vec<Value> {
    move |output| match output.name.as_deref() {
        Some("late") if late == LateRows::LeftOut => vec![],
        Some("late") => {
            vec![json!(["LATE", output.value["s"], output.value["v"], output.time])]
        }
        Some(_) if output.value.is_null() => vec![json!(["TOMB", output.time])],
        Some(_) => {
            let row = [&output.value["l"], &output.value["r"]];
            let mut row = vec![json!("J"), row[0].clone(), row[1].clone(), json!(output.time)];
            row.truncate(row_length);
            vec![Value::Array(row)]
        }
        None if output.message.contains("without event time") => {
            vec![json!(["ERR", "no timestamp"])]
        }
        None => vec![json!(["ERR", output.message])],
    }
}
