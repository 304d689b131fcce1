//! When a source is idle: at its end without interruption for more than `idle_after`.

use crate::time::ProcessingTime;

/// Measures how long one source has been at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idleness {
    after: Option<i64>,
    at_end_since: Option<ProcessingTime>,
}

impl Idleness {
    /// Returns an idleness that needs more than `after` ms; `None` is never idle.
    #[must_use]
    pub fn new(after: Option<i64>) -> Self {
        Self { after, at_end_since: None }
    }

    /// The source is at its end; the clock starts unless it runs.
    pub fn at_end(&mut self, now: ProcessingTime) {
        self.at_end_since.get_or_insert(now);
    }

    /// The source has a record, or its end is not known: the clock stops.
    pub fn interrupted(&mut self) {
        self.at_end_since = None;
    }

    /// Returns whether the source is idle.
    #[must_use]
    pub fn is_idle(&self, now: ProcessingTime) -> bool {
        match (self.after, self.at_end_since) {
            (Some(after), Some(since)) => now.saturating_sub(since) > after,
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }

    /// Returns when the source will be idle if nothing happens.
    #[must_use]
    pub fn idle_at(&self) -> Option<ProcessingTime> {
        Some(self.at_end_since?.saturating_add(self.after?).saturating_add(1))
    }
}
