//! The lane as a whole, over the in-memory ports and a handler that each test writes.
//!
//! Covers: order and waiting, lateness, idleness, moving time, undo and retry, dead letters,
//! epochs and what a restore finds, broadcast inputs.

mod bootstrap;
mod broadcast;
mod calls;
mod epochs;
mod harness;
mod time;
