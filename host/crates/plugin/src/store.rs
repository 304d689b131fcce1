//! What a Wasm store owns for the host: the context of the call, the phase, and the memory count.
//!
//! Invariant: outside an import that works with it, the context of a call is here.

use std::sync::Arc;

use dovetail_core::{
    context::{Context, LogLevel},
    text::cut,
};
use wasmtime::ResourceLimiter;

use crate::{
    failure::{Refused, TEXT_BYTES_MAX},
    limits::Limits,
    symbols::Symbols,
};
use dovetail_core::plugin::{CallFailure, FailureKind};

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being made: start functions run.
    Instantiate,
    /// In `describe`.
    Describe,
    /// In `open`.
    Open,
    /// In a handler.
    Call,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Instantiate => "while it is instantiated",
            Self::Describe => "in `describe`",
            Self::Open => "in `open`",
            Self::Call => "between calls",
        }
    }
}

/// Telemetry of `open`, which has no context yet: handed to the first call.
#[derive(Debug)]
pub(crate) enum Early {
    Log(LogLevel, String),
    Metric(u32, f64),
}

/// Most telemetry kept of an `open`.
const EARLY_MAX: usize = 1000;

/// The host's side of a store.
pub(crate) struct HostState {
    /// The context of the call, while a handler runs.
    pub(crate) context: Option<Box<Context>>,
    pub(crate) phase: Phase,
    pub(crate) early: Vec<Early>,
    /// `outputs[n]` is the lane's number for the guest's output n; `None`: the same numbers.
    pub(crate) outputs: Option<Arc<[u32]>>,
    panic_message: Option<String>,
    memory_bytes: usize,
    limits: Limits,
    symbols: Arc<Symbols>,
    memory_bytes_peak: usize,
}

impl HostState {
    pub(crate) fn new(limits: &Limits, symbols: &Arc<Symbols>) -> Self {
        Self {
            context: None,
            phase: Phase::Instantiate,
            early: Vec::new(),
            outputs: None,
            panic_message: None,
            memory_bytes: 0,
            limits: *limits,
            symbols: Arc::clone(symbols),
            memory_bytes_peak: 0,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Returns the most linear memory held so far, in bytes.
    pub(crate) fn memory_bytes_peak(&self) -> usize {
        self.memory_bytes_peak
    }

    /// Returns the lane's number for an output of the guest; `None`: it declares fewer.
    pub(crate) fn lane_output(&self, output: u32) -> Option<u32> {
        match &self.outputs {
            None => Some(output),
            Some(outputs) => outputs.get(usize::try_from(output).ok()?).copied(),
        }
    }

    pub(crate) fn keep_panic_message(&mut self, message: &str) {
        self.panic_message = Some(cut(message, TEXT_BYTES_MAX).to_owned());
    }

    pub(crate) fn take_panic_message(&mut self) -> Option<String> {
        self.panic_message.take()
    }

    pub(crate) fn keep_early(&mut self, early: Early) {
        if self.early.len() < EARLY_MAX {
            self.early.push(early);
        }
    }
}

impl ResourceLimiter for HostState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        if wanted > self.limits.memory_bytes {
            // An error ends the call: a guest that could see the refusal could behave otherwise
            // on a host with another limit.
            return Err(memory_failure(format!(
                "the plugin asked for {wanted} bytes of memory, its limit is {} bytes",
                self.limits.memory_bytes
            )));
        }
        self.memory_bytes = wanted;
        self.memory_bytes_peak = self.memory_bytes_peak.max(wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(memory_failure(format!("the plugin's memory cannot grow: {error:#}")))
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS_MAX {
            return Err(memory_failure(format!(
                "the plugin asked for a table of {desired} elements, the limit is \
                 {TABLE_ELEMENTS_MAX}"
            )));
        }
        Ok(true)
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(memory_failure(format!("the plugin's table cannot grow: {error:#}")))
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        4
    }
}

const TABLE_ELEMENTS_MAX: usize = 100_000;

fn memory_failure(message: String) -> wasmtime::Error {
    wasmtime::Error::new(Refused(CallFailure { kind: FailureKind::Memory, message }))
}
