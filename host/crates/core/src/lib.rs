//! Decides what a lane does; does none of it.
//!
//! Knows no Kafka, RocksDB, Wasm, HTTP or JSON. It has no clock, randomness, threads or I/O:
//! time arrives in events, everything it wants done leaves as an [`lane::Effect`], and what lies
//! outside is reached through the ports ([`log::Log`], [`state::StateStore`],
//! [`plugin::MatchFunction`], [`checkpoint::CheckpointStore`], [`clock::Clock`]).
//!
//! Invariant: the same events give the same effects, byte for byte.
//!
//! Reading order: [`record`], [`time`], [`watermark`], [`schedule`], [`state`], [`timers`],
//! [`context`], [`lane`], [`epoch`], [`recovery`], [`checkpoint`].
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm, clippy::iter_over_hash_type, clippy::float_arithmetic)]

pub mod checkpoint;
pub mod clock;
pub mod context;
pub mod copartition;
pub mod dead_letter;
pub mod epoch;
pub mod identity;
pub mod key;
pub mod lane;
pub mod log;
pub mod options;
pub mod output;
pub mod plugin;
pub mod record;
pub mod recovery;
pub mod schedule;
pub mod state;
pub mod text;
pub mod time;
pub mod timers;
pub mod watermark;
pub mod wire;
