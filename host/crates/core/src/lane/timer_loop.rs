//! Finds handlers that call themselves for ever: timers that register timers for a time that is
//! already moving, and a *continue* that always continues.
//!
//! Only what was registered while time moves can loop, so only that is counted, per key: a million
//! honest timers cost nothing here.

use std::collections::BTreeMap;

use crate::key::Key;

#[derive(Debug)]
pub(super) struct LoopWatch {
    calls_max: u32,
    firings: BTreeMap<Key, u32>,
    steps: u32,
}

impl LoopWatch {
    pub(super) fn new(calls_max: u32) -> Self {
        Self { calls_max, firings: BTreeMap::new(), steps: 0 }
    }

    /// Counts the firing of a timer that was registered in this move; returns whether its key has
    /// had too many.
    pub(super) fn is_timer_looping(&mut self, key: &Key) -> bool {
        let count = self.firings.entry(key.clone()).or_default();
        *count += 1;
        *count > self.calls_max
    }

    /// Counts a step of a *continue*; returns whether it has had too many.
    pub(super) fn is_continuation_looping(&mut self) -> bool {
        self.steps += 1;
        self.steps > self.calls_max
    }

    /// The *continue* is over.
    pub(super) fn end_continuation(&mut self) {
        self.steps = 0;
    }

    /// The move is over.
    pub(super) fn end_move(&mut self) {
        self.firings.clear();
    }
}
