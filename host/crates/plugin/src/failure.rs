//! Makes typed failures of what Wasmtime reports.
//!
//! Keeps true: every error becomes one of core's failure kinds, with the guest's own words first
//! and the place in the guest's code where there is one.

use std::fmt::Write as _;

use dovetail_core::{
    context::ContextError,
    plugin::{CallFailure, FailureKind},
};
use wasmtime::{FrameInfo, Trap, WasmBacktrace};

use crate::limits::Limits;

/// Longest text taken over from a guest, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;
/// Most frames shown.
const FRAMES_MAX: usize = 3;

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

/// Returns the failure that an error of a call stands for.
pub(crate) fn classify(
    error: &wasmtime::Error,
    panic_message: Option<String>,
    limits: &Limits,
) -> CallFailure {
    let place = place(error);
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

/// Returns as much of a text as fits into `max` bytes.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns ` at function (file:line) < …`: the innermost frames that are the plugin's own.
fn place(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let frames = backtrace.frames().iter().flat_map(places);
    let mut text = String::new();
    for (index, place) in frames.filter(Place::is_of_the_plugin).take(FRAMES_MAX).enumerate() {
        let joint = if index == 0 { " at " } else { " < " };
        write!(text, "{joint}{}", place.function).expect("a String takes all that is written");
        if let Some((file, line)) = place.line {
            write!(text, " ({file}:{line})").expect("a String takes all that is written");
        }
    }
    text
}

/// One function on the guest's stack.
struct Place<'a> {
    function: String,
    line: Option<(&'a str, u32)>,
}

impl Place<'_> {
    /// Returns whether it says where the plugin was, rather than how the standard library stops it.
    fn is_of_the_plugin(&self) -> bool {
        const MACHINERY: [&str; 7] =
            ["core::", "std::", "alloc::", "__rust", "rust_", "cabi_", "wit_bindgen::rt"];
        let is_library =
            |file: &str| file.starts_with("/rustc/") || file.contains("/rustlib/src/rust/library/");
        !self.line.is_some_and(|(file, _)| is_library(file))
            && !MACHINERY.iter().any(|part| self.function.starts_with(part))
    }
}

/// Returns the functions of a frame, the inlined ones first.
fn places(frame: &FrameInfo) -> Vec<Place<'_>> {
    if frame.symbols().is_empty() {
        let named = frame.func_name().map(|name| Place { function: demangle(name), line: None });
        return named.into_iter().collect();
    }
    let symbols = frame.symbols().iter();
    let named = symbols.filter_map(|symbol| {
        let line = symbol.file().zip(symbol.line());
        Some(Place { function: demangle(symbol.name()?), line })
    });
    named.collect()
}

/// Returns a function's name as its author wrote it, without the compiler's hash.
fn demangle(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
