//! Loads, validates, compiles, limits and calls WebAssembly components.
//!
//! The way of a plugin file: [`Artifact`] (size, format, interface version; nothing runs) →
//! [`Gate`] (imports, exports, compilation, `describe` and `open` in a scratch store) →
//! [`Revision`] (immutable, shared by all lanes) → [`Instance`] (one per lane, the
//! [`dovetail_core::plugin::MatchFunction`] that the lane calls).
//!
//! Knows nothing of logs, lanes' schedules or files being watched, and keeps no state across calls.
//! Invariants: nothing a guest sends is trusted; a guest can neither panic the host nor keep the
//! context of a call; after any failure the next call runs on a fresh instance.

mod artifact;
mod component;
mod descriptor;
mod engine;
mod error;
mod failure;
mod gate;
mod guest_build;
mod imports;
mod instance;
mod limits;
mod revision;
mod store;
mod symbols;

pub use self::{
    artifact::{Artifact, HOST_INTERFACE, InterfaceVersion},
    component::{EncodeError, encode_component},
    descriptor::parse_description,
    engine::{Engine, EngineError},
    error::GateError,
    gate::{Gate, GateOptions},
    guest_build::{BuildError, build_guest},
    instance::Instance,
    limits::{COMPONENT_BYTES_MAX, Limits},
    revision::Revision,
};
