//! The host's outer shell: command line, configuration, wiring, telemetry.
//!
//! Wires what the crates offer and decides nothing about joins, watermarks or commits.

pub mod cli;
pub mod config;
pub mod failure;
pub mod sandbox;
pub mod scaffold;
pub mod telemetry;
pub mod text_file;
pub mod wiring;
