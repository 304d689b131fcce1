//! One case: its steps, and how what came out is compared with what must.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

/// One event and exactly what must come of it.
pub(crate) struct Step {
    pub(crate) event: Vec<Value>,
    pub(crate) expected: Vec<Value>,
}

/// One case of a file.
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) op: String,
    pub(crate) config: Value,
    pub(crate) steps: Vec<Step>,
    pub(crate) pins: String,
    is_unordered: bool,
}

/// A case that does not hold, or cannot be run.
pub(crate) enum Failure {
    Unknown(String),
    Differs { step: usize, event: Vec<Value>, expected: Vec<Value>, got: Vec<Value> },
    Broken { step: usize, message: String },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |values: &[Value]| Value::Array(values.to_vec()).to_string();
        match self {
            Self::Unknown(op) => write!(f, "  the operation {op} is not known here"),
            Self::Differs { step, event, expected, got } => write!(
                f,
                "  step {step}: {}\n    expected {}\n    got      {}",
                text(event),
                text(expected),
                text(got)
            ),
            Self::Broken { step, message } => write!(f, "  step {step}: {message}"),
        }
    }
}

impl Case {
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line).context("parse JSON")?;
        let text = |name: &str| {
            value.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
        };
        let steps = value.get("steps").and_then(Value::as_array).context("find steps")?;
        let list = |value: &Value| value.as_array().cloned().context("a step is two lists");
        let steps =
            steps.iter().map(|step| Ok(Step { event: list(&step[0])?, expected: list(&step[1])? }));
        Ok(Self {
            id: text("id"),
            op: text("op"),
            config: value.get("cfg").cloned().unwrap_or(Value::Null),
            steps: steps.collect::<Result<_>>()?,
            pins: text("pins"),
            is_unordered: value.get("unordered").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    /// Returns how many elements its joined rows have: left, right and time are not always told.
    pub(crate) fn joined_length(&self) -> usize {
        let rows = self.steps.iter().flat_map(|step| &step.expected).filter_map(Value::as_array);
        let joined = rows.filter(|row| row.first().is_some_and(|name| name == "J"));
        joined.map(Vec::len).max().unwrap_or(4)
    }

    /// Feeds every step to `run` and compares what it returns.
    pub(crate) fn check(
        &self,
        mut run: impl FnMut(&[Value]) -> Result<Vec<Value>, String>,
    ) -> Result<(), Failure> {
        for (at, step) in self.steps.iter().enumerate() {
            let number = at + 1;
            let got =
                run(&step.event).map_err(|message| Failure::Broken { step: number, message })?;
            if self.is_same(&got, &step.expected) {
                continue;
            }
            return Err(Failure::Differs {
                step: number,
                event: step.event.clone(),
                expected: step.expected.clone(),
                got,
            });
        }
        Ok(())
    }

    fn is_same(&self, got: &[Value], expected: &[Value]) -> bool {
        if !self.is_unordered {
            return got == expected;
        }
        let sorted = |values: &[Value]| {
            let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
            texts.sort();
            texts
        };
        sorted(got) == sorted(expected)
    }
}

/// Returns the integer at a place of an event.
pub(crate) fn integer(event: &[Value], at: usize) -> Result<i64, String> {
    event.get(at).and_then(Value::as_i64).ok_or_else(|| format!("element {at} is no integer"))
}

/// Returns a length of time as plugins are configured with it: cases give numbers of ms.
pub(crate) fn length(given: Value) -> Value {
    given.as_i64().map_or(given, |ms| Value::String(format!("{ms}ms")))
}

/// Returns the text at a place of an event.
pub(crate) fn text(event: &[Value], at: usize) -> Result<&str, String> {
    event.get(at).and_then(Value::as_str).ok_or_else(|| format!("element {at} is no text"))
}
