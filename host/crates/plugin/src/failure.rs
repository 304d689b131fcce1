//! Makes typed failures of what Wasmtime reports.
//!
//! Keeps true: every error becomes one of core's failure kinds, with the guest's own words first
//! and the place in the guest's code where there is one.

use std::fmt::Write as _;

use dovetail_core::{
    context::ContextError,
    plugin::{CallFailure, FailureKind},
    text::cut,
};
use wasmtime::{Trap, WasmBacktrace};

use crate::{
    store::HostState,
    symbols::{Place, Symbols},
};

/// Longest text taken over from a guest, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;
/// Most places shown.
const PLACES_MAX: usize = 3;

/// A typed failure on its way through Wasmtime, as the reason of a trap.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub(crate) struct Refused(pub(crate) CallFailure);

/// Returns the trap that ends a call which was refused something.
pub(crate) fn trap_of(error: ContextError) -> wasmtime::Error {
    let failure = match error {
        ContextError::Refused(failure) => failure,
        // The lane stops for it; what the call is told does not matter.
        ContextError::Store(error) => {
            CallFailure { kind: FailureKind::Trap, message: error.to_string() }
        }
    };
    wasmtime::Error::new(Refused(failure))
}

/// Returns the failure that an error of a call in that store stands for.
pub(crate) fn classify(error: &wasmtime::Error, state: &mut HostState) -> CallFailure {
    let panic_message = state.take_panic_message();
    let limits = state.limits();
    let place = text_of_places(error, state.symbols());
    if let Some(Refused(failure)) = error.downcast_ref::<Refused>() {
        let message = format!("{}{place}", failure.message);
        return CallFailure { kind: failure.kind, message };
    }
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt) {
        let message = format!("the call ran longer than {:?}{place}", limits.deadline);
        return CallFailure { kind: FailureKind::Deadline, message };
    }
    if let Some(message) = panic_message {
        return CallFailure { kind: FailureKind::Trap, message: format!("{message}{place}") };
    }
    let cause = error.root_cause().to_string();
    if cause.contains("fuel allocated for hostcalls") {
        let message = format!(
            "the plugin handed over more than {} bytes in one call of an import{place}",
            limits.import_bytes
        );
        return CallFailure { kind: FailureKind::Limit, message };
    }
    let message = match trap {
        Some(Trap::StackOverflow) => format!("the plugin ran out of stack{place}"),
        Some(trap) => format!("{trap}{place}"),
        None => format!("{}{place}", cut(&cause, TEXT_BYTES_MAX)),
    };
    CallFailure { kind: FailureKind::Trap, message }
}

/// Returns the failure of a handler that returned an error.
pub(crate) fn refused_by_guest(message: &str) -> CallFailure {
    CallFailure { kind: FailureKind::Error, message: cut(message, TEXT_BYTES_MAX).to_owned() }
}

/// Returns ` at function (file:line) < …`: the innermost frames that are the plugin's own.
fn text_of_places(error: &wasmtime::Error, symbols: &Symbols) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let places = symbols.places(backtrace.frames());
    let mut text = String::new();
    for (index, place) in places.iter().filter(is_of_the_plugin).take(PLACES_MAX).enumerate() {
        let joint = if index == 0 { " at " } else { " < " };
        write!(text, "{joint}{}", place.function).expect("a String takes all that is written");
        if let Some((file, line)) = &place.line {
            write!(text, " ({file}:{line})").expect("a String takes all that is written");
        }
    }
    text
}

/// Returns whether a place says where the plugin was, rather than how the standard library stops it.
fn is_of_the_plugin(place: &&Place) -> bool {
    const MACHINERY: [&str; 7] =
        ["core::", "std::", "alloc::", "__rust", "rust_", "cabi_", "wit_bindgen::rt"];
    let is_library =
        |file: &str| file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/library/");
    !place.line.as_ref().is_some_and(|(file, _)| is_library(file))
        && !MACHINERY.iter().any(|part| place.function.starts_with(part))
}
