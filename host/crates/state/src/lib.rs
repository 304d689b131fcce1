//! Keyed state and timers in RocksDB.
//!
//! [`StateDirectory`] owns `state.dir` of one pipeline: it locks it, proves whose it is and shares
//! one memory budget among its lanes. [`RocksStore`] is one lane's database behind core's
//! [`StateStore`](dovetail_core::state::StateStore) port, with a compact cache of hot rows in front.
//!
//! What lies in `state.dir`, format 1:
//!
//! ```text
//! lock          held (flock) while a process uses the directory; names its holder
//! pipeline      whose state this is: pipeline, cluster id, format
//! identity.json what may not change between two starts: a trimmed journal has lost it
//! admin-token   who may change things through the admin API (0600)
//! lane-000/     one RocksDB per lane: one column family, no write-ahead log
//! lane-000.broken-1/   a damaged database, moved aside
//! ```
//!
//! Inside a lane's database the row `00 "head"` holds the head of the last applied epoch, written in
//! the same batch as that epoch's rows; all other rows are core's (`dovetail_core::state::row`).
//!
//! Knows rows and heads as bytes, and of their meaning only when core says that a row is expired.
//! It must not know what a join or a plugin is, and reads no clock: time comes with each epoch.
//!
//! Invariants:
//! - After a crash a database holds some applied epoch entirely, with its head. The journal is the
//!   redo log, so the database may lag by what was applied since the last flush.
//! - Rows that were expired by the clocks of an applied epoch may be missing; no others.
//! - Nothing in `state.dir` is the only copy of anything committed: it can be rebuilt from the
//!   journal.
#![forbid(unsafe_code)]

mod budget;
mod cache;
pub mod checkpoint;
pub mod directory;
mod expiry_filter;
mod failure;
pub mod identity;
mod options;
mod store;

pub use self::{
    budget::{MemoryBudget, MemoryUse},
    directory::{Claim, DirectoryError, StateDirectory},
    store::{ExpirySetter, RocksStore},
};
