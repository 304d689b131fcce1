//! Lanes, reloading and supervision over the in-memory ports.
#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod checkpoints;
mod claiming;
mod driving;
mod reloading;
mod running;
mod support;
