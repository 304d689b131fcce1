//! The plugin's configuration, and rules as they arrive.

use dovetail_sdk::{Error, Millis, Result, result::Shape};
use serde::{Deserialize, Serialize};

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The field of a record that names its class.
    pub class: String,
    /// The rule of records whose class has none. Absent = they go to `unruled`.
    pub default: Option<Terms>,
    /// Whether records that wait take a new rule of their class; else they keep the one they came
    /// under.
    #[serde(default)]
    pub apply_to_waiting: bool,
    /// How often, in event time, a record that waits looks whether its rule has become a shorter
    /// one. Absent = when a partner comes, and when the time of the older rule is over.
    pub recheck: Option<Millis>,
    /// More records of one key and side that wait go to `overflow`.
    pub max_waiting_per_key: Option<u64>,
    /// The fields of a result.
    pub result: Option<Shape>,
}

impl Config {
    /// Checks what goes together.
    ///
    /// # Errors
    ///
    /// In words for whoever wrote the configuration.
    pub(crate) fn check(&self) -> Result {
        if self.recheck.is_some() && !self.apply_to_waiting {
            return Err(Error::new(
                "plugin config: `recheck` goes with `apply_to_waiting: true`: a rule that a record \
                 keeps does not become another",
            ));
        }
        if self.recheck.is_some_and(|every| every.0 < 1) {
            return Err(Error::new("plugin config: `recheck` is at least 1ms"));
        }
        Ok(())
    }
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// How far two records may lie from each other in event time, and so how long one waits.
    pub wait: Millis,
    /// The fields that must be the same in both, as they are written.
    #[serde(default)]
    pub agree: Vec<String>,
}

/// A record of the input `rules`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleRecord {
    pub(crate) class: String,
    pub(crate) version: Option<u64>,
    pub(crate) wait: Millis,
    #[serde(default)]
    pub(crate) agree: Vec<String>,
}

/// A rule as it is kept, for all keys and with each record that waits under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    /// 0 is the default's.
    pub(crate) version: u64,
    /// In ms.
    pub(crate) wait: i64,
    pub(crate) agree: Vec<String>,
}

impl Rule {
    pub(crate) fn new(version: u64, terms: Terms) -> Self {
        Self { version, wait: terms.wait.0, agree: terms.agree }
    }
}
