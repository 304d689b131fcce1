//! What a plugin author depends on.
//!
//! A plugin implements [`Plugin`] and names itself once in [`export!`]. `open` declares what it
//! uses and keeps the handles; handlers take them together with the [`Context`]:
//!
//! ```
//! use dovetail_sdk::{Context, Input, Output, Plugin, Record, Result, Setup, ValueState};
//!
//! #[derive(serde::Deserialize)]
//! struct Config {}
//!
//! /// Passes on each order that comes after the key's first payment.
//! struct PaidOnly {
//!     orders: Input,
//!     main: Output,
//!     is_paid: ValueState<bool>,
//! }
//!
//! impl Plugin for PaidOnly {
//!     type Config = Config;
//!
//!     fn open(_config: Config, setup: &mut Setup) -> Result<Self> {
//!         let orders = setup.input("orders");
//!         setup.input("payments");
//!         let main = setup.output("main");
//!         Ok(Self { orders, main, is_paid: setup.state("is_paid").value() })
//!     }
//!
//!     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
//!         if record.input != self.orders {
//!             return self.is_paid.put(context, &true);
//!         }
//!         if self.is_paid.get(context)?.unwrap_or(false) {
//!             self.main.forward(context);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! dovetail_sdk::export!(PaidOnly);
//! # fn main() {}
//! ```
//!
//! On `wasm32` the calls are the component's imports; natively the same code runs on core's own
//! call context under [`Harness`], so a unit test sees what a host does.
//!
//! Only [`join`] knows what a join is. Invariant: no clock but the host's, no randomness, no I/O.

#[cfg(target_arch = "wasm32")]
extern crate self as dovetail_sdk;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
pub mod codec;
mod config;
mod context;
mod error;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod guest;
mod handles;
#[cfg(not(target_arch = "wasm32"))]
mod harness;
mod hash;
mod headers;
mod imports;
pub mod join;
pub mod json;
#[cfg(not(target_arch = "wasm32"))]
mod native;
mod plugin;
pub mod result;
mod setup;
mod state;

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub use wit_bindgen;

pub use self::{
    config::{Millis, SignedMillis},
    context::{Context, Level, Position, Timers},
    error::{Error, Result},
    handles::{Counter, Gauge, Histogram, Input, Message, Output},
    hash::{HashMap, HashSet},
    headers::{Header, HeaderNames, KeptHeaders},
    plugin::{Plugin, Record, Timer, TimerDomain},
    setup::{BroadcastStateBuilder, Description, Expiry, Setup, StateBuilder},
    state::{
        BroadcastMap, BroadcastValue, EntryKey, EventTimeBuffer, ListState, MapState, Slot,
        ValueState,
    },
};
#[cfg(not(target_arch = "wasm32"))]
pub use self::{
    harness::{DeadLetter, Emitted, Feed, Harness},
    native::NativePlugin,
};

/// Makes a plugin the component's: once per crate.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[doc(hidden)]
        mod dovetail_exports {
            #![allow(unsafe_code, reason = "generated exports")]
            use super::*;
            type Exported = $crate::guest::Exported<$plugin>;
            $crate::bindings::export_world!(Exported with_types_in $crate::bindings);
        }
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = || {
            fn is_a_plugin<P: $crate::Plugin + Send>() {}
            is_a_plugin::<$plugin>();
        };
    };
}

/// Logs a line through the host: `log!(context, Warn, "{count} rows wait")`.
#[macro_export]
macro_rules! log {
    ($context:expr, $level:ident, $($text:tt)+) => {
        $context.log($crate::Level::$level, &::std::format!($($text)+))
    };
}

/// Returns from a handler with an error: `fail!("no amount in order {id}")`.
#[macro_export]
macro_rules! fail {
    ($($text:tt)+) => {
        return ::std::result::Result::Err($crate::Error::new(::std::format!($($text)+)))
    };
}
