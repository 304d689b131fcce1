//! Real components against the real gate and the real instances.
//!
//! The guest is `tests/guests/misbehaving`, built once per run; other guests are made from it by
//! changing names in its bytes.

mod calls;
mod gate;
mod guest;
mod misbehaviour;
