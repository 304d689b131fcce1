//! The plugin's configuration.

use dovetail_sdk::{KeptHeaders, Millis, result::Shape};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// When a behaviour is decided.
    #[serde(default)]
    pub mode: Mode,
    /// What becomes of a behaviour at whose time no version was valid.
    #[serde(default)]
    pub unmatched: Unmatched,
    /// How long a version that was replaced is kept beyond the watermark, for behaviours that come
    /// late.
    #[serde(default)]
    pub keep_versions: Millis,
    /// How long after a delete an older version is still known to be older, in event time. Absent
    /// = for ever, at a row of state per deleted key.
    pub forget_deletes_after: Option<Millis>,
    /// How many behaviours of one key may wait; more go to the output `overflow` as they came.
    /// Absent = any number.
    pub max_waiting_per_key: Option<u32>,
    /// The fields of a result. Sources are fields of `behaviour` and `dimension`, or the words
    /// `status` (`"OK"` or `"NO_VERSION"`), `valid_from` (the version's time, in ms) and `emission`
    /// (1 for a behaviour's first result, 2 for its first correction …). Default: both whole
    /// records and `status`.
    pub result: Option<Shape>,
    /// Whether records without key are taken: say so where an input has `null_key: process`. They
    /// meet nothing; a behaviour is decided at once.
    #[serde(default)]
    pub null_keys: bool,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// When a behaviour is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// When the watermark has reached its time, so that no version for it can come any more (unless
    /// late): once and exactly.
    #[default]
    WaitForWatermark,
    /// At once with the version that is known, and again whenever a better one comes before the
    /// watermark has reached its time.
    Eager,
    /// At once with the version that is known, and never again.
    AtOnce,
}

/// What becomes of a behaviour at whose time no version was valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmatched {
    /// It is emitted to `main` without the dimension's fields.
    #[default]
    EmitWithout,
    /// It is emitted to `unmatched` without the dimension's fields.
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}
