//! Finds a timer that registers itself for ever within one move of time.
//!
//! Counting every (key, tag) would cost memory for a million honest timers, so only the most
//! frequent ones are counted (Misra and Gries, 1982): an undercount by at most firings ÷ 65, which
//! a loop exceeds since it fires without end.

use crate::key::Key;

const COUNTERS: usize = 64;

#[derive(Debug)]
pub(super) struct LoopWatch {
    firings_max: u32,
    counters: Vec<(Key, u64, u32)>,
}

impl LoopWatch {
    pub(super) fn new(firings_max: u32) -> Self {
        Self { firings_max, counters: Vec::with_capacity(COUNTERS) }
    }

    /// Counts a firing; returns whether this (key, tag) has fired too often in this move.
    pub(super) fn is_looping(&mut self, key: &Key, tag: u64) -> bool {
        let known = self.counters.iter_mut().find(|(k, t, _)| *t == tag && k == key);
        if let Some((_, _, count)) = known {
            *count += 1;
            return *count > self.firings_max;
        }
        if self.counters.len() < COUNTERS {
            self.counters.push((key.clone(), tag, 1));
            return self.firings_max == 0;
        }
        self.counters.retain_mut(|(_, _, count)| {
            *count -= 1;
            *count > 0
        });
        false
    }

    /// The move is over.
    pub(super) fn reset(&mut self) {
        self.counters.clear();
    }
}
