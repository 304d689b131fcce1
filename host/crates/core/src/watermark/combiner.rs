//! Combines the watermarks of a lane's sources into the watermark of the lane.
//!
//! Invariant: the combined watermark never goes back. A source that returns behind it holds it
//! where it is until it has caught up.

use crate::time::{END_OF_TIME, EventTime, NO_WATERMARK};

/// What counts of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceActivity {
    /// It holds the watermark.
    Active,
    /// It no longer holds the watermark back.
    Idle,
    /// It has ended: for itself it is the end of time.
    Ended,
}

/// The watermark of a lane: the minimum over its active sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Combiner {
    sources: Vec<(EventTime, SourceActivity)>,
    output: EventTime,
}

impl Combiner {
    /// Returns a combiner over that many sources, standing at a committed watermark.
    #[must_use]
    pub fn new(sources: usize, committed: EventTime) -> Self {
        Self { sources: vec![(NO_WATERMARK, SourceActivity::Active); sources], output: committed }
    }

    /// Tells where a source stands. Takes effect with [`Combiner::advance`].
    pub fn set(&mut self, source: usize, watermark: EventTime, activity: SourceActivity) {
        self.sources[source] = (watermark, activity);
    }

    /// Returns the combined watermark if the sources have moved it.
    pub fn advance(&mut self) -> Option<EventTime> {
        let candidate = self.candidate();
        (candidate > self.output).then(|| {
            self.output = candidate;
            candidate
        })
    }

    /// Moves the combined watermark itself (`when_all_idle: follow_clock`); returns whether it
    /// moved.
    pub fn raise(&mut self, watermark: EventTime) -> bool {
        let moved = watermark > self.output;
        self.output = self.output.max(watermark);
        moved
    }

    fn candidate(&self) -> EventTime {
        let active =
            self.sources.iter().filter(|(_, activity)| *activity == SourceActivity::Active);
        if let Some(minimum) = active.map(|(watermark, _)| *watermark).min() {
            return minimum;
        }
        if self.sources.is_empty() {
            return NO_WATERMARK;
        }
        // Nothing holds: the end of time if all have ended, else the highest of those that have not.
        let idle = self.sources.iter().filter(|(_, activity)| *activity == SourceActivity::Idle);
        idle.map(|(watermark, _)| *watermark).max().unwrap_or(END_OF_TIME)
    }

    /// Returns the combined watermark.
    #[must_use]
    pub fn get(&self) -> EventTime {
        self.output
    }

    /// Returns whether no source is active and not all have ended.
    #[must_use]
    pub fn is_all_idle(&self) -> bool {
        let none_active =
            self.sources.iter().all(|(_, activity)| *activity != SourceActivity::Active);
        none_active && self.sources.iter().any(|(_, activity)| *activity == SourceActivity::Idle)
    }

    /// Returns whether a source is one of those that keep the watermark where it is.
    #[must_use]
    pub fn is_holder(&self, source: usize) -> bool {
        let (watermark, activity) = self.sources[source];
        activity == SourceActivity::Active && watermark <= self.candidate()
    }
}
