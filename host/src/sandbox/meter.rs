//! Counts a plugin's calls and its memory while cases are played.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use dovetail_core::{
    context::Context,
    plugin::{CallResult, MatchFunction},
};
use dovetail_plugin::Instance;

/// Counts over all plays. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    memory_bytes_peak: AtomicU64,
}

impl Meter {
    /// Returns how many calls were made.
    pub(super) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Returns the most memory that an instance held, in bytes.
    pub(super) fn memory_bytes_peak(&self) -> u64 {
        self.0.memory_bytes_peak.load(Ordering::Relaxed)
    }
}

/// An instance that is counted.
pub(super) struct Metered {
    instance: Instance,
    meter: Meter,
}

impl Metered {
    pub(super) fn new(instance: Instance, meter: Meter) -> Self {
        Self { instance, meter }
    }

    fn count(&self) {
        self.meter.0.calls.fetch_add(1, Ordering::Relaxed);
        let bytes = self.instance.peak_memory_bytes() as u64;
        self.meter.0.memory_bytes_peak.fetch_max(bytes, Ordering::Relaxed);
    }
}

impl MatchFunction for Metered {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let returned = self.instance.process_element(context);
        self.count();
        returned
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let returned = self.instance.process_broadcast(context);
        self.count();
        returned
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let returned = self.instance.on_timer(context);
        self.count();
        returned
    }

    fn renew(&mut self) {
        self.instance.renew();
    }
}
