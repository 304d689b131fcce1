//! The watermark of one source: newest event time − out-of-orderness − 1 ms.

use crate::time::{EventTime, NO_WATERMARK};

/// The watermark of one source.
///
/// Invariant: it never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceWatermark(EventTime);

impl Default for SourceWatermark {
    fn default() -> Self {
        Self(NO_WATERMARK)
    }
}

impl SourceWatermark {
    /// Returns a watermark that stands at a committed value.
    #[must_use]
    pub fn restored(watermark: EventTime) -> Self {
        Self(watermark)
    }

    /// Takes a record's event time into account; returns whether the watermark moved.
    pub fn observe(&mut self, time: EventTime, out_of_orderness: i64) -> bool {
        self.raise(time.saturating_sub(out_of_orderness).saturating_sub(1))
    }

    /// Moves to a watermark that was told; returns whether it moved.
    pub fn raise(&mut self, watermark: EventTime) -> bool {
        let moved = watermark > self.0;
        self.0 = self.0.max(watermark);
        moved
    }

    /// Returns the watermark; [`NO_WATERMARK`] before the first record.
    #[must_use]
    pub fn get(self) -> EventTime {
        self.0
    }
}
