//! What a plugin's call can reach: keyed and broadcast state, timers, outputs, and the record or
//! timer at hand.
//!
//! The context is the open epoch seen from inside a call. It is owned and travels into the match
//! function and back, because a Wasm store owns its data. Every check of what a guest asks for is
//! here, so native and Wasm plugins behave alike.
//!
//! Invariant: everything but broadcast state is scoped to the current key; a call without key, or
//! about a broadcast record, reaches no keyed state and no timers; [`Context::undo_call`] leaves exactly what stood before the call.

mod broadcast;
mod current;
pub mod emit;
pub mod keyed;
mod rows;
pub mod telemetry;

use std::fmt;

pub use self::{
    current::{Current, Subject},
    telemetry::{LogLevel, LogLine, MetricUpdate},
};
use crate::{
    epoch::EpochRecord,
    options::{CallLimits, OutputOptions},
    output::{Mark, OutputBuffer},
    plugin::{CallFailure, FailureKind, PluginDescriptor},
    state::{ClearedRanges, Clocks, Overlay, StateId, StateStore, StoreError},
    timers::{TimerDomain, TimerQueue},
};

/// Why an import refused a guest. It ends the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The guest asked for something it may not have; the call fails with this.
    #[error("{}", .0.message)]
    Refused(CallFailure),
    /// The state store failed; not the guest's doing.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ContextError {
    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::Refused(CallFailure { kind: FailureKind::Limit, message: message.into() })
    }
}

/// The open epoch, as a call sees it.
pub struct Context {
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) overlay: Overlay,
    cleared: ClearedRanges,
    pub(crate) event_timers: TimerQueue,
    pub(crate) processing_timers: TimerQueue,
    pub(crate) outputs: OutputBuffer,
    pub(crate) telemetry: telemetry::Telemetry,
    pub(crate) current: Current,
    pub(crate) clocks: Clocks,
    descriptor: PluginDescriptor,
    /// The durable number of each of the descriptor's states.
    state_ids: Vec<StateId>,
    input_names: Vec<String>,
    output_options: Vec<OutputOptions>,
    limits: CallLimits,
    late_output: Option<u16>,
    call: CallUse,
    /// Results of the current call, a timer's, that their topics would refuse.
    call_refused: Vec<emit::Refused>,
    /// A store failure inside a call: the lane stops, whatever the guest made of it.
    store_failure: Option<StoreError>,
    /// The row key at hand, and the value being written; kept for their memory.
    row: Vec<u8>,
    value: Vec<u8>,
    /// Where a scan begins, and the first row it met; kept for their memory.
    scan_from: Vec<u8>,
    first_row: Vec<u8>,
}

/// What the current call has used, and where it began.
#[derive(Debug, Clone, Copy)]
struct CallUse {
    outputs: u32,
    output_bytes: u64,
    state_bytes: u64,
    timers: u32,
    start: Mark,
    continued: Option<u64>,
}

impl From<Mark> for CallUse {
    fn from(start: Mark) -> Self {
        Self { outputs: 0, output_bytes: 0, state_bytes: 0, timers: 0, start, continued: None }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("current", &self.current).finish_non_exhaustive()
    }
}

/// What a context is made of.
pub struct ContextParts {
    /// The store.
    pub store: Box<dyn StateStore>,
    /// The plugin's own description.
    pub descriptor: PluginDescriptor,
    /// The durable number of each described state.
    pub state_ids: Vec<StateId>,
    /// The inputs' names as configured, for headers.
    pub inputs: Vec<String>,
    /// The outputs, in the order of the description.
    pub outputs: Vec<OutputOptions>,
    /// Which output is named `late`.
    pub late_output: Option<u16>,
    /// Limits of a call.
    pub limits: CallLimits,
}

impl Context {
    /// Returns a context over a store, standing where `head` says (`None`: before genesis).
    #[must_use]
    pub fn new(parts: ContextParts, head: Option<&EpochRecord>) -> Self {
        let floors = head.map(|record| record.timer_floors.clone()).unwrap_or_default();
        let clocks = head.map_or(
            Clocks { watermark: crate::time::NO_WATERMARK, processing_time: i64::MIN },
            EpochRecord::clocks,
        );
        let outputs = OutputBuffer::default();
        Self {
            store: parts.store,
            overlay: Overlay::default(),
            cleared: ClearedRanges::default(),
            event_timers: TimerQueue::new(TimerDomain::Event, &floors.event),
            processing_timers: TimerQueue::new(TimerDomain::Processing, &floors.processing),
            call: CallUse::from(outputs.mark()),
            call_refused: Vec::new(),
            outputs,
            telemetry: telemetry::Telemetry::default(),
            current: Current::none(),
            clocks,
            descriptor: parts.descriptor,
            state_ids: parts.state_ids,
            input_names: parts.inputs,
            output_options: parts.outputs,
            limits: parts.limits,
            late_output: parts.late_output,
            store_failure: None,
            row: Vec::new(),
            value: Vec::new(),
            scan_from: Vec::new(),
            first_row: Vec::new(),
        }
    }

    /// Takes over another revision of the plugin, between two epochs.
    pub fn switch_plugin(
        &mut self,
        descriptor: PluginDescriptor,
        state_ids: Vec<StateId>,
        outputs: Vec<OutputOptions>,
        late_output: Option<u16>,
    ) {
        self.descriptor = descriptor;
        self.state_ids = state_ids;
        self.output_options = outputs;
        self.late_output = late_output;
        // The same numbers may be other states.
        self.cleared.forget();
    }

    /// Starts a call about `current`: what it does can be undone alone. The lane begins every call;
    /// so do harnesses and benchmarks that call a match function themselves.
    pub fn begin_call(&mut self, current: Current) {
        self.current = current;
        self.call = CallUse::from(self.outputs.mark());
        self.call_refused.clear();
        self.overlay.begin_call();
        self.event_timers.begin_call();
        self.processing_timers.begin_call();
        self.telemetry.begin_call();
    }

    /// Undoes state, timers, outputs and metrics of the current call.
    pub fn undo_call(&mut self) {
        self.overlay.undo_call();
        self.cleared.forget();
        self.event_timers.undo_call();
        self.processing_timers.undo_call();
        self.outputs.undo_to(self.call.start);
        self.telemetry.undo_call();
        self.call = CallUse::from(self.call.start);
        self.call_refused.clear();
    }

    /// Forgets what the open epoch changed and emitted, and returns what it logged and measured.
    /// The lane ends every epoch so once it is applied; so do benchmarks that need no store.
    pub fn end_epoch(&mut self) -> telemetry::Telemetry {
        self.overlay.clear();
        self.event_timers.clear_changes();
        self.processing_timers.clear_changes();
        self.outputs.clear();
        std::mem::take(&mut self.telemetry)
    }

    /// Returns the tag of the continuation that the call asked for.
    pub(crate) fn take_continuation(&mut self) -> Option<u64> {
        self.call.continued.take()
    }

    /// Returns the store failure that a call met, if any.
    pub(crate) fn take_store_failure(&mut self) -> Option<StoreError> {
        self.store_failure.take()
    }

    /// Returns what the plugin says of itself.
    #[must_use]
    pub fn descriptor(&self) -> &PluginDescriptor {
        &self.descriptor
    }

    /// Returns the limits of a call.
    #[must_use]
    pub fn limits(&self) -> &CallLimits {
        &self.limits
    }

    /// Returns the records emitted in the open epoch so far (a harness looks at them).
    #[must_use]
    pub fn outputs(&self) -> &OutputBuffer {
        &self.outputs
    }
}

#[cfg(test)]
mod tests;
