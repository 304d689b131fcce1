//! Drives lanes: the loop, executing effects, acquiring, reloading, supervision.
//!
//! Contains no join, watermark or commit *rules*: `dovetail_core` decides. Knows neither Kafka nor
//! RocksDB nor Wasm: the host hands in makers of the ports ([`setup`]).
//!
//! Reading order: [`setup`], [`tick`], [`acquire`], [`driver`], [`supervisor`], [`handle`],
//! [`reload`], [`checkpoint`].

pub mod acquire;
pub mod bootstrap;
pub mod call_time;
mod candidates;
pub mod checkpoint;
pub mod checkpointer;
pub mod checkpointing;
pub mod claim;
pub mod clock;
mod dead_letter_log;
pub mod driver;
pub mod fatal;
pub mod fenced;
pub mod handle;
mod journal;
pub mod key_watch;
mod lane_thread;
pub mod look;
mod observe;
pub mod partition_watch;
pub mod reason;
pub mod reload;
pub mod resolve;
pub mod revisions;
pub mod setup;
pub mod status;
pub mod supervisor;
pub mod swap;
pub mod telemetry;
pub mod tick;
pub mod watch;
pub mod window;

pub use self::{
    fatal::{FatalCause, FatalKind},
    handle::Handle,
    setup::{CheckpointSetup, LaneSetup, PipelineSetup, Revision},
    supervisor::{PipelineEnd, Supervisor},
};
