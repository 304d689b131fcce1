//! What the plugin keeps per key.
//!
//! Invariant: `waiting` is the number of items in the buffer of waiting behaviours, so that one
//! read tells whether anything waits.

use dovetail_sdk::{
    Header,
    json::{Kept, KeptRef},
};
use serde::{Deserialize, Serialize};

/// The row of a key: read once by every record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct KeyRow<'a> {
    /// How many behaviours wait.
    pub(crate) waiting: u32,
    /// Where emitting again stands while it goes on: behind this item.
    pub(crate) reemit: Option<Cursor>,
    /// The dimension.
    #[serde(borrow)]
    pub(crate) dimension: Dimension<'a>,
}

/// How far emitting again has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) time: i64,
    pub(crate) sequence: u64,
}

/// What is known of a key's dimension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Dimension<'a> {
    /// None came yet.
    #[default]
    Unknown,
    /// It was deleted; the time keeps an older row from bringing it back.
    Deleted {
        /// The tombstone's time.
        time: Option<i64>,
    },
    /// The newest row.
    Known(#[serde(borrow)] DimensionRow<'a>),
}

/// A dimension row: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DimensionRow<'a> {
    /// The version, where a field tells it.
    pub(crate) version: Option<i64>,
    /// The event time, where the input has one.
    pub(crate) time: Option<i64>,
    /// The fields.
    #[serde(borrow)]
    pub(crate) fields: KeptRef<'a>,
    /// The headers.
    pub(crate) headers: Vec<Header>,
}

/// A behaviour in a buffer: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BehaviourRow {
    /// While it waits: when it stops waiting.
    pub(crate) deadline: i64,
    /// How many results it has had.
    pub(crate) emissions: u32,
    /// The fields.
    pub(crate) fields: Kept,
    /// The headers.
    pub(crate) headers: Vec<Header>,
}

impl Dimension<'_> {
    /// Returns whether a row that arrives replaces what is known: a higher version does; without
    /// versions, and after a delete, a row that is not older.
    pub(crate) fn yields_to(&self, version: Option<i64>, time: Option<i64>) -> bool {
        match self {
            Self::Unknown => true,
            Self::Deleted { time: deleted } => is_not_older(time, *deleted),
            Self::Known(row) => match (version, row.version) {
                (Some(new), Some(old)) => new > old,
                (Some(_) | None, None) | (None, Some(_)) => is_not_older(time, row.time),
            },
        }
    }

    /// Returns whether a tombstone of that time deletes what is known.
    pub(crate) fn is_deleted_by(&self, time: Option<i64>) -> bool {
        match self {
            Self::Unknown => true,
            Self::Deleted { time: known } => is_not_older(time, *known),
            Self::Known(row) => is_not_older(time, row.time),
        }
    }
}

/// Without times the order of arrival decides.
fn is_not_older(new: Option<i64>, old: Option<i64>) -> bool {
    new.zip(old).is_none_or(|(new, old)| new >= old)
}
