//! How long calls of a plugin take: one in so many is measured, so that measuring costs nothing.
//!
//! Knows nothing of what a call does. Keeps: every call is passed on, measured or not.

use std::time::Instant;

use dovetail_core::{
    context::Context,
    plugin::{CallResult, MatchFunction},
};
use metrics::{Histogram, histogram};

use crate::telemetry::PLUGIN_CALL;

/// One call in this many is measured. A power of two.
pub const MEASURED_ONE_IN: u32 = 64;

/// A match function whose calls are measured.
pub struct Timed<F> {
    function: F,
    calls: u32,
    process_element: Histogram,
    on_timer: Histogram,
    process_broadcast: Histogram,
}

impl<F> std::fmt::Debug for Timed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timed").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl<F: MatchFunction> Timed<F> {
    /// Measures the calls of a function for a pipeline.
    pub fn new(function: F, pipeline: &str) -> Self {
        let of = |name: &'static str| histogram!(PLUGIN_CALL, "pipeline" => pipeline.to_owned(), "fn" => name);
        let (process_element, on_timer) = (of("process_element"), of("on_timer"));
        let process_broadcast = of("process_broadcast");
        Self { function, calls: 0, process_element, on_timer, process_broadcast }
    }

    /// Returns when this call begins, if it is one to measure; the first one is.
    fn begin(&mut self) -> Option<Instant> {
        let is_measured = self.calls.is_multiple_of(MEASURED_ONE_IN);
        self.calls = self.calls.wrapping_add(1);
        is_measured.then(Instant::now)
    }
}

impl<F: MatchFunction> MatchFunction for Timed<F> {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let begin = self.begin();
        let returned = self.function.process_element(context);
        if let Some(begin) = begin {
            self.process_element.record(begin.elapsed());
        }
        returned
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let begin = self.begin();
        let returned = self.function.process_broadcast(context);
        if let Some(begin) = begin {
            self.process_broadcast.record(begin.elapsed());
        }
        returned
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let begin = self.begin();
        let returned = self.function.on_timer(context);
        if let Some(begin) = begin {
            self.on_timer.record(begin.elapsed());
        }
        returned
    }

    fn renew(&mut self) {
        self.function.renew();
    }
}
