//! The plugin's configuration.

use dovetail_sdk::{
    KeptHeaders, Millis,
    join::{JoinKind, Side},
    result::Shape,
};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which rows make a result: those of both sides, of one, or of either.
    #[serde(default)]
    pub kind: JoinKind,
    /// The sides on which a row that is older than the newest one is ignored when it comes late.
    #[serde(default)]
    pub versioned: Versioned,
    /// How long after a delete an older row of a versioned side is still known to be older, in
    /// event time. Absent = for ever, at a row of state per deleted key.
    pub forget_deletes_after: Option<Millis>,
    /// The fields of a result. Sources are fields of `left` and `right`, or the word `match`
    /// (`"BOTH"`, `"LEFT"` or `"RIGHT"`: who is in the result). Default: both whole rows and
    /// `match`.
    pub result: Option<Shape>,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// Versioned sides: `true`, or the names of some.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Versioned {
    /// Both or none.
    All(bool),
    /// These.
    Sides(Vec<Side>),
}

impl Default for Versioned {
    fn default() -> Self {
        Self::All(false)
    }
}

impl Versioned {
    /// Returns whether a side is versioned.
    #[must_use]
    pub fn has(&self, side: Side) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Sides(sides) => sides.contains(&side),
        }
    }
}
