//! A lane: takes records in order of event time, moves time, calls the plugin, closes epochs.
//!
//! One lane is the unit of order, ownership, transaction, state and recovery. [`Lane::step`] is the
//! only entrance; it decides everything and does no I/O but through the state and plugin ports.
//!
//! Invariant: between two calls of `step` the lane is either open (records may be handled) or
//! closed (an epoch is offered and nothing happens until it is committed).

pub mod effect;
pub mod event;
pub mod status;

pub use self::{
    effect::{Effect, Effects, EpochReport, InputCounts, StopCause, Warning},
    event::{Event, PluginSwitch},
    status::{LaneStatus, SourceCondition, SourceStatus},
};
