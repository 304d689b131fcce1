//! The clock port: where the runtime gets processing time from.
//!
//! Core never reads it; it is handed to [`crate::lane::Lane::step`] with each event.

use crate::time::ProcessingTime;

/// Tells the wall clock.
pub trait Clock: Send {
    /// Returns ms since the Unix epoch. May go back (a wall clock can be set): the lane takes the
    /// maximum of what it has seen.
    fn read(&mut self) -> ProcessingTime;
}

/// A clock that stands still until it is told to move: for tests and the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManualClock(
    /// The time it shows, in ms.
    pub ProcessingTime,
);

impl Clock for ManualClock {
    fn read(&mut self) -> ProcessingTime {
        self.0
    }
}
