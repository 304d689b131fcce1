//! Lanes, reloading and supervision over the in-memory ports.

mod driving;
mod reloading;
mod running;
mod support;
