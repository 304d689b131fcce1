//! The plugin's configuration.

use dovetail_sdk::{KeptHeaders, Millis, result::Shape};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The names of the inputs, 2 to 8.
    pub inputs: Vec<String>,
    /// How long after the earliest record of a key the others may be, in event time; inclusive.
    pub wait: Millis,
    /// What becomes of a key that is not complete by then.
    #[serde(default)]
    pub partial: Partial,
    /// How long after that a key is remembered, so that what comes for it is in no second result.
    /// Default: `wait`.
    pub remember: Option<Millis>,
    /// What becomes of a record that is in no result: one that comes for a decided key, lies
    /// further behind the earliest than `wait`, or is replaced by a newer one of its input.
    #[serde(default)]
    pub unused: Unused,
    /// The fields of a result. Sources are fields of the inputs, or the words `status`
    /// (`"COMPLETE"` or `"PARTIAL"`) and `missing` (the inputs that are, a list). Default: all whole
    /// records and both words.
    pub result: Option<Shape>,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// What becomes of a key that is not complete in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Partial {
    /// What there is of it goes to `main`.
    #[default]
    Emit,
    /// What there is of it goes to `partial`.
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}

/// What becomes of a record that is in no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unused {
    /// It goes to `unused` as it came.
    #[default]
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}
