//! Real components against the real gate and the real instances.
//!
//! The guest is `tests/guests/misbehaving`, built once per run; other guests are made from it by
//! changing names in its bytes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod building;
mod calls;
mod gate;
mod guest;
mod misbehaviour;
