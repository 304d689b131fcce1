//! The plugin's configuration.

use dovetail_sdk::{KeptHeaders, Millis, result::Shape};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The field of a detail that tells it from the others of its header.
    pub detail_id: String,
    /// How long after its event time a header without details is told alone.
    pub wait: Millis,
    /// How long each side is kept after it was last written, in event time.
    pub keep: Kept,
    /// The fields that tell which of two rows is newer: integers. Absent = event time.
    #[serde(default)]
    pub version: Versions,
    /// How many details of one header may be kept; more go to the output `overflow` as they came.
    /// Absent = any number.
    pub max_details_per_key: Option<u32>,
    /// The fields of a result. Sources are fields of `header` and `detail`, or the words `version`
    /// (1 for the first result of a header with this detail, 2 for the next …) and `match`
    /// (`"BOTH"`, or `"HEADER"` where it is told alone). Default: both whole records and both words.
    pub result: Option<Shape>,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// How long each side is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// A header.
    pub header: Millis,
    /// A detail: each for itself.
    pub detail: Millis,
}

/// The fields that tell which of two rows is newer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// Of headers.
    pub header: Option<String>,
    /// Of details with the same id.
    pub detail: Option<String>,
}
