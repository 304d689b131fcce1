//! The plugin's configuration.

use std::ops::Bound;

use dovetail_sdk::{
    KeptHeaders, Result, SignedMillis,
    join::{Interval, JoinKind},
    result::Shape,
};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What becomes of records with a partner and without one.
    #[serde(default)]
    pub kind: JoinKind,
    /// The least difference `right - left` in event time.
    pub lower: SignedMillis,
    /// The largest difference `right - left` in event time.
    pub upper: SignedMillis,
    /// Whether a difference of exactly `lower` is one.
    #[serde(default = "yes")]
    pub lower_inclusive: bool,
    /// Whether a difference of exactly `upper` is one.
    #[serde(default = "yes")]
    pub upper_inclusive: bool,
    /// The fields of a result. Sources are fields of `left` and `right`, or the word `match`
    /// (`"BOTH"`, `"LEFT"` or `"RIGHT"`: who is in the result). Default: both whole records and
    /// `match`.
    pub result: Option<Shape>,
    /// Where results without a partner go.
    #[serde(default)]
    pub unmatched: Unmatched,
    /// What becomes of a record whose event time is before the watermark.
    #[serde(default)]
    pub late: Late,
    /// How many records of one key and side may be kept; more go to the output `overflow` as they
    /// came, and meet nothing. Absent = any number.
    pub max_rows_per_key: Option<u32>,
    /// Whether records without key are taken: say so where an input has `null_key: process`. They
    /// meet nothing; one that is a result without a partner is so at once.
    #[serde(default)]
    pub null_keys: bool,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// Where results without a partner go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmatched {
    /// To `main`.
    #[default]
    Main,
    /// To `unmatched`.
    SideOutput,
}

/// What becomes of a late record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Late {
    /// It goes to `late` as it came.
    #[default]
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}

impl Config {
    /// Returns the bounds.
    ///
    /// # Errors
    ///
    /// When nothing lies between them.
    pub fn interval(&self) -> Result<Interval> {
        let bound = |millis: SignedMillis, is_inclusive| match is_inclusive {
            true => Bound::Included(millis.0),
            false => Bound::Excluded(millis.0),
        };
        let lower = bound(self.lower, self.lower_inclusive);
        Interval::new((lower, bound(self.upper, self.upper_inclusive)))
            .map_err(|error| error.context("plugin config: `lower` and `upper`"))
    }
}

fn yes() -> bool {
    true
}
