//! Checkpoints, as the API shows them.

use dovetail_core::epoch::LaneId;
use dovetail_runtime::status::{CheckpointShown, CheckpointView};
use serde::{Deserialize, Serialize};

use crate::time_text::rfc3339;

/// A published checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct PublishedView {
    /// Its name.
    pub name: String,
    /// The epoch whose end it holds.
    pub epoch: u64,
    /// When it was frozen, ms.
    pub at_ms: i64,
    /// The same as text.
    pub at: String,
    /// Bytes of all of its files.
    pub bytes: u64,
    /// Bytes that were not in the store before.
    pub new_bytes: u64,
    /// How long its upload took, ms.
    pub ms: i64,
}

/// A lane's checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CheckpointStatusView {
    /// Where they go.
    pub store: String,
    /// The last one of this process.
    pub last: Option<PublishedView>,
    /// Failures in a row.
    pub failures: u32,
    /// The last failure, until one is published again.
    pub last_error: Option<String>,
}

/// What became of a checkpoint that was asked for, of one lane.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct CheckpointTriggeredView {
    /// The lane.
    pub lane: u16,
    /// What was published.
    pub checkpoint: Option<PublishedView>,
    /// Why nothing was.
    pub error: Option<String>,
}

impl From<CheckpointShown> for PublishedView {
    fn from(shown: CheckpointShown) -> Self {
        Self {
            name: shown.name,
            epoch: shown.epoch,
            at_ms: shown.at,
            at: rfc3339(shown.at),
            bytes: shown.bytes,
            new_bytes: shown.new_bytes,
            ms: shown.ms,
        }
    }
}

impl From<CheckpointView> for CheckpointStatusView {
    fn from(view: CheckpointView) -> Self {
        Self {
            store: view.store,
            last: view.last.map(PublishedView::from),
            failures: view.failures,
            last_error: view.last_error,
        }
    }
}

impl From<(LaneId, Result<CheckpointShown, String>)> for CheckpointTriggeredView {
    fn from((lane, result): (LaneId, Result<CheckpointShown, String>)) -> Self {
        let (checkpoint, error) = match result {
            Ok(shown) => (Some(shown.into()), None),
            Err(error) => (None, Some(error)),
        };
        Self { lane: lane.0, checkpoint, error }
    }
}
