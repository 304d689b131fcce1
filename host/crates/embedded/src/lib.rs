//! The log port without a broker: topics in a directory, NDJSON in and out.
//!
//! Knows files and the log port; nothing of lanes' rules, keys in values or plugins. Reads no
//! clock: a record without event time has no timestamp.
//!
//! Invariants: one process at a time has a directory; a transaction over any number of topics,
//! the journal and the positions is visible as a whole or not at all, after a kill at any point
//! (with `sync` after a power cut too); readers see committed records only.
//!
//! [`EmbeddedCluster`] is the directory, [`EmbeddedLog`] one lane's [`dovetail_core::log::Log`] on
//! it. The bytes on disk are described in `format`.

mod cluster;
mod commits;
mod directory;
mod error;
mod follow;
mod follows;
pub mod format;
mod lane;
mod ndjson;
mod reader;
mod signal;
mod sync;

pub use cluster::{EmbeddedCluster, NewRecord, read_topic, topics};
pub use error::EmbeddedError;
pub use lane::{EmbeddedLog, LaneSpec, OutputSpec, Place, SourceSpec, Start};
pub use ndjson::RECORD_BYTES_MAX;
