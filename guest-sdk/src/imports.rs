//! The interface's imports, behind one type with the same methods in a host and natively.
//!
//! Nothing is decided here. A call that the host refuses does not return: in a host the guest is
//! ended, natively the call unwinds into `NativePlugin`, which answers as a host does.

#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(target_arch = "wasm32")]
mod wasm;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::{Host, Refused};
#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::Host;

/// A page of a scan: entries and values, and whether more may follow.
pub(crate) type Page = (Vec<(Vec<u8>, Vec<u8>)>, bool);
