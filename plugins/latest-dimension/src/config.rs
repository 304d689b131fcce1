//! The plugin's configuration.

use dovetail_sdk::{KeptHeaders, Millis, result::Shape};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The fields of a result. Sources are fields of `behaviour` and `dimension`, or the words
    /// `status` (`"OK"` or `"TIMEOUT"`), `reason` (why there is no dimension, else null) and
    /// `emission` (1 for the first result of a behaviour, 2 for the next …).
    /// Default: both whole records, `status` and `reason`.
    pub result: Option<Shape>,
    /// How long a behaviour waits for its key's first dimension, in event time from
    /// max(its time, watermark) on; 0 = not at all.
    pub wait: Millis,
    /// What becomes of a behaviour that met no dimension.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// How long after its event time a behaviour is emitted again whenever the dimension changes;
    /// absent = never.
    pub reemit_on_update: Option<Millis>,
    /// How many behaviours of one key may wait; more go to the output `overflow` as they came.
    /// Absent = any number.
    pub max_waiting_per_key: Option<u32>,
    /// The field of the dimension that tells which row is newer: an integer. Absent = event time.
    pub version: Option<String>,
    /// Whether records without key are taken: say so where an input has `null_key: process`. They
    /// meet nothing; a behaviour is decided at once. (To ask for the key costs a tenth of a call.)
    #[serde(default)]
    pub null_keys: bool,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// What becomes of a behaviour that met no dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It is emitted to `main` without the dimension's fields.
    EmitWithout,
    /// It is emitted to `timeouts` without the dimension's fields.
    #[default]
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}
