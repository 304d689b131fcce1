//! The plugin's configuration.

use dovetail_sdk::{Error, Millis, Result, SignedMillis, join::Windows};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which of several records that are the same is kept.
    #[serde(default)]
    pub keep: Keep,
    /// The field that tells which records of a key are the same. Absent = all of a key are.
    pub id: Option<String>,
    /// How long after the first, in event time, a record is still the same one; each that comes is
    /// compared with the first. Goes with `keep: first` only.
    pub within: Option<Millis>,
    /// Instead of `within`: windows of this length, each of which keeps one.
    pub size: Option<Millis>,
    /// Where a window begins, counted from 1970-01-01T00:00:00Z.
    #[serde(default)]
    pub offset: SignedMillis,
    /// What becomes of the others.
    #[serde(default)]
    pub duplicates: Duplicates,
}

/// Which of several records that are the same is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The one that comes first: emitted at once.
    #[default]
    First,
    /// The one with the latest event time: emitted when its window is over.
    Last,
}

/// What becomes of a record that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicates {
    /// It is counted and nothing else.
    #[default]
    Drop,
    /// It goes to the output `duplicates` as it came.
    SideOutput,
}

/// What one record is kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// What comes within this length of the first.
    Within(Millis),
    /// A window.
    Window(Windows),
}

impl Config {
    /// Returns what one record is kept of.
    ///
    /// # Errors
    ///
    /// When the options do not go together.
    pub(crate) fn span(&self) -> Result<Span> {
        match (self.within, self.size, self.keep) {
            (Some(within), None, Keep::First) if within.0 > 0 => Ok(Span::Within(within)),
            (Some(_), None, Keep::Last) => Err(Error::new(
                "plugin config: `keep: last` is known when a window is over: say `size` instead \
                 of `within`",
            )),
            (None, Some(size), _) => {
                let windows = Windows::Tumbling { size, offset: self.offset };
                Ok(Span::Window(windows.checked().map_err(|error| error.context("plugin config"))?))
            }
            _ => Err(Error::new(
                "plugin config: say either `within` (at least 1 ms) or `size`, such as \
                 `within: 1h`; without an end every id would be kept for ever",
            )),
        }
    }
}
