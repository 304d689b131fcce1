//! The log port on Kafka: inputs, transactional outputs and the journal of one lane, and what a
//! start-up checks about a cluster.
//!
//! Knows Kafka and nothing of joins, state or plugins; never decides when to commit.
//!
//! Reading order: [`options`] (what is said about a cluster and a lane), [`log`] (the port),
//! [`admin`] (start-up checks). `ffi` is the one place with unsafe code.

pub mod admin;
mod consumer;
mod failure;
mod ffi;
mod journal;
pub mod log;
mod offsets;
pub mod options;
mod producer;
mod settings;
mod shorten;
mod statistics;

pub use admin::Cluster;
pub use log::KafkaLog;
