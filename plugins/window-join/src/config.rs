//! The plugin's configuration.

use std::collections::BTreeMap;

use dovetail_sdk::{
    KeptHeaders, Millis,
    join::{JoinKind, Measure, Windows},
    result::Shape,
};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How event time is cut.
    pub window: Windows,
    /// What becomes of records with a partner in their window and without one.
    #[serde(default)]
    pub kind: JoinKind,
    /// What a window's results are.
    #[serde(default)]
    pub emit: Emit,
    /// How long after its end a window still takes late records, each of which gives results at
    /// once.
    #[serde(default)]
    pub allowed_lateness: Millis,
    /// What a late record's results hold. Default: `new` for pairs, `all` for groups and totals.
    pub late_firing: Option<LateFiring>,
    /// What becomes of a record whose windows are all closed.
    #[serde(default)]
    pub late: Late,
    /// With `emit: totals`: what is computed, by name: `{ sum: left.amount }`, `{ count: right }`,
    /// `{ min: … }`, `{ max: … }`.
    #[serde(default)]
    pub totals: BTreeMap<String, BTreeMap<Measure, String>>,
    /// The fields of a result. Sources are fields of `left` and `right` (lists of their values, with
    /// `emit: groups`), or the words `window_start` and `window_end` (ms) and `match` (`"BOTH"`,
    /// `"LEFT"` or `"RIGHT"`); with `emit: totals` those words and the totals' names. Default:
    /// everything.
    pub result: Option<Shape>,
    /// How many records of one key and side may be kept; more go to the output `overflow` as they
    /// came. Absent = any number. Totals keep none.
    pub max_rows_per_key: Option<u32>,
    /// Headers that results carry: of pairs, and of records without a partner.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// What a window's results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// One per pair, or record without a partner.
    #[default]
    Pairs,
    /// One per window, with lists of both sides.
    Groups,
    /// One per window, with counts, sums and extremes; records are not kept.
    Totals,
}

/// What a late record's results hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateFiring {
    /// All that the window holds, once more.
    All,
    /// What the window has not told yet.
    New,
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
