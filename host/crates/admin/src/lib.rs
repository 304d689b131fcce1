//! The HTTP API: health, metrics, status, and the few changes that an operator can make.
//!
//! Runs on a thread of its own with its own tokio, so that nothing here can hold up a lane. Knows
//! the pipeline through [`dovetail_runtime::Handle`] alone.
//!
//! Reading order: [`server`], `connections`, `routes`, `guard`, [`view`].

mod connections;
mod guard;
mod routes;
pub mod server;
pub mod signals;
pub mod time_text;
pub mod view;

pub use self::{
    connections::Bounds,
    server::{Admin, AdminError, AdminParts, Metrics, Push, bind},
};
