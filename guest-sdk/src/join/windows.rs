//! Which windows of event time a record belongs to.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{
    config::{Millis, SignedMillis},
    error::{Error, Result},
};

/// Most windows that one record may belong to.
const OVERLAPS_MAX: i64 = 10_000;

/// How event time is cut into windows, as the configuration says it:
///
/// ```yaml
/// window: { kind: tumbling, size: 1h, offset: -8h }   # one after the other; offset 0 unless said
/// window: { kind: sliding, size: 10m, slide: 1m }     # a new one every minute
/// window: { kind: session, gap: 30m }                 # as long as records follow within the gap
/// window: { kind: given }                             # a record's time is the end of its window
/// ```
///
/// State: none. Timers: none. Cost: arithmetic, and a window per overlap.
///
/// ```
/// use dovetail_sdk::{Millis, join::{Window, Windows}};
///
/// let windows = Windows::Sliding {
///     size: Millis(10),
///     slide: Millis(5),
///     offset: Default::default(),
/// };
/// let of_7: Vec<_> = windows.assign(7).collect();
/// assert_eq!(of_7, [Window { start: 0, end: 10 }, Window { start: 5, end: 15 }]);
/// // It is complete when the watermark is at 9: the last millisecond that belongs to it.
/// assert_eq!(of_7[0].last(), 9);
/// assert!(of_7[0].is_closed(9, 0) && !of_7[0].is_closed(9, 3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Windows {
    /// One after the other.
    Tumbling {
        /// Its length.
        size: Millis,
        /// Where one begins, counted from 1970-01-01T00:00:00Z.
        #[serde(default)]
        offset: SignedMillis,
    },
    /// One every `slide`.
    Sliding {
        /// Its length.
        size: Millis,
        /// From one start to the next.
        slide: Millis,
        /// Where one begins, counted from 1970-01-01T00:00:00Z.
        #[serde(default)]
        offset: SignedMillis,
    },
    /// From a record on as long as the next follows within the gap; see [`super::Sessions`].
    Session {
        /// The least silence that ends one: records exactly so far apart are of one session.
        gap: Millis,
    },
    /// Cut upstream: a record's event time is the end of its window, exclusive.
    Given,
}

/// From `start`, inclusive, to `end`, exclusive, in ms. A window that was given has no start of its
/// own: it is the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The first millisecond in it.
    pub start: i64,
    /// The first millisecond behind it.
    pub end: i64,
}

impl Window {
    /// Returns the last millisecond in it: it is complete when the watermark is there, and its
    /// results have this time.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.end.saturating_sub(1)
    }

    /// Returns when nothing is taken for it any more.
    #[must_use]
    pub fn closes(&self, lateness: i64) -> i64 {
        self.last().saturating_add(lateness)
    }

    /// Returns whether nothing is taken for it any more.
    #[must_use]
    pub fn is_closed(&self, watermark: i64, lateness: i64) -> bool {
        self.closes(lateness) <= watermark
    }
}

/// Returns the start of the window of a grid that a time lies in.
///
/// ```
/// assert_eq!(dovetail_sdk::join::window_start(-1, 0, 7), -7);
/// assert_eq!(dovetail_sdk::join::window_start(2, 3, 7), -4);
/// ```
#[must_use]
pub fn window_start(time: i64, offset: i64, size: i64) -> i64 {
    let size = size.max(1);
    time.saturating_sub(time.wrapping_sub(offset).rem_euclid(size))
}

/// Windows that begin at equal distances.
#[derive(Debug, Clone, Copy)]
struct Grid {
    size: i64,
    slide: i64,
    offset: i64,
}

impl Windows {
    /// Returns them where they can be.
    ///
    /// # Errors
    ///
    /// When a length is 0 or a record would belong to more than 10,000 windows.
    pub fn checked(self) -> Result<Self> {
        let lengths: &[(&str, Millis)] = match &self {
            Self::Tumbling { size, .. } => &[("size", *size)],
            Self::Sliding { size, slide, .. } => &[("size", *size), ("slide", *slide)],
            Self::Session { gap } => &[("gap", *gap)],
            Self::Given => &[],
        };
        if let Some((name, _)) = lengths.iter().find(|(_, length)| length.0 < 1) {
            return Err(Error::new(format!("window: `{name}` is at least 1 ms")));
        }
        let overlaps = self.grid().map_or(1, |grid| 1 + (grid.size - 1) / grid.slide);
        if overlaps > OVERLAPS_MAX {
            return Err(Error::new(format!(
                "window: a record would belong to {overlaps} windows, at most {OVERLAPS_MAX} are \
                 possible; choose a longer `slide`"
            )));
        }
        Ok(self)
    }

    fn grid(&self) -> Option<Grid> {
        match *self {
            Self::Tumbling { size, offset } => {
                Some(Grid { size: size.0, slide: size.0, offset: offset.0 })
            }
            Self::Sliding { size, slide, offset } => {
                Some(Grid { size: size.0, slide: slide.0, offset: offset.0 })
            }
            Self::Session { .. } | Self::Given => None,
        }
    }

    /// Returns the windows of a record, ascending; of a session, that which it makes alone.
    pub fn assign(&self, time: i64) -> impl Iterator<Item = Window> + use<> {
        let (mut start, last, size, slide) = match (self.grid(), *self) {
            (Some(grid), _) => {
                let last = window_start(time, grid.offset, grid.slide);
                // The first one that still holds the time.
                let before = (grid.size - 1 - (time - last)).div_euclid(grid.slide);
                (
                    last.saturating_sub(before.saturating_mul(grid.slide)),
                    last,
                    grid.size,
                    grid.slide,
                )
            }
            (None, Self::Session { gap }) => (time, time, gap.0, 1),
            (None, _) => (time, time, 0, 1),
        };
        std::iter::from_fn(move || {
            let window = Window { start, end: start.saturating_add(size) };
            (start <= last).then(|| {
                start = start.saturating_add(slide);
                window
            })
        })
    }

    /// Returns the window that ends at a time; of a session only the end is known.
    #[must_use]
    pub fn ending(&self, end: i64) -> Window {
        let size = self.grid().map_or(0, |grid| grid.size);
        Window { start: end.saturating_sub(size), end }
    }

    /// Returns the event times of a window's records.
    #[must_use]
    pub fn times(&self, window: Window) -> RangeInclusive<i64> {
        match self {
            Self::Given => window.end..=window.end,
            _ => window.start..=window.last(),
        }
    }

    /// Returns the last event time that no window behind this one holds.
    #[must_use]
    pub fn released_by(&self, window: Window) -> i64 {
        match self.grid() {
            Some(grid) => window.start.saturating_add(grid.slide).saturating_sub(1),
            None => window.end,
        }
    }

    /// Returns the first window behind another that holds a time.
    #[must_use]
    pub fn first_behind(&self, window: Window, time: i64) -> Option<Window> {
        self.assign(time).find(|candidate| candidate.end > window.end)
    }

    /// Returns the length of panes: of the longest pieces that every window is made of. None for
    /// sessions.
    #[must_use]
    pub fn pane(&self) -> Option<i64> {
        let mut lengths = match (self.grid(), self) {
            (Some(grid), _) => (grid.size, grid.slide),
            (None, Self::Given) => return Some(1),
            (None, _) => return None,
        };
        while lengths.1 > 0 {
            lengths = (lengths.1, lengths.0 % lengths.1);
        }
        Some(lengths.0)
    }

    /// Returns the start of the pane that a time lies in.
    #[must_use]
    pub fn pane_start(&self, time: i64) -> i64 {
        let offset = self.grid().map_or(0, |grid| grid.offset);
        window_start(time, offset, self.pane().unwrap_or(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sliding(size: i64, slide: i64, offset: i64) -> Windows {
        Windows::Sliding { size: Millis(size), slide: Millis(slide), offset: SignedMillis(offset) }
    }

    #[test]
    fn windows_are_read_as_they_are_written() {
        let read = |json: &str| serde_json::from_str::<Windows>(json);
        let tumbling = read(r#"{"kind":"tumbling","size":"1h","offset":"-8h"}"#).unwrap();
        let expected =
            Windows::Tumbling { size: Millis(3_600_000), offset: SignedMillis(-28_800_000) };
        assert_eq!(tumbling, expected);
        assert_eq!(read(r#"{"kind":"given"}"#).unwrap(), Windows::Given);
        assert!(read(r#"{"kind":"tumbling","size":"1h","slide":"1m"}"#).is_err());
        for refused in [sliding(10, 0, 0), sliding(0, 1, 0), sliding(100_001, 10, 0)] {
            assert!(refused.checked().is_err(), "{refused:?}");
        }
    }

    #[test]
    fn given_window_holds_the_records_of_its_end() {
        let window = Windows::Given.assign(7).next().unwrap();
        assert_eq!((window.end, window.last()), (7, 6));
        assert_eq!(Windows::Given.times(window), 7..=7);
        assert_eq!(Windows::Given.first_behind(window, 7), None);
        assert_eq!(Windows::Given.ending(7), window);
    }

    proptest! {
        #[test]
        fn windows_of_a_record_are_those_of_the_grid_that_hold_it(
            size in 1i64..20, slide in 1i64..20, offset in -30i64..30, time in -100i64..100,
        ) {
            let windows = sliding(size, slide, offset);
            let expected: Vec<Window> = (-300..300)
                .filter(|start| (start - offset).rem_euclid(slide) == 0)
                .map(|start| Window { start, end: start + size })
                .filter(|window| window.start <= time && time < window.end)
                .collect();
            let assigned: Vec<Window> = windows.assign(time).collect();
            prop_assert_eq!(&assigned, &expected);
            let pane = windows.pane_start(time);
            for window in assigned {
                prop_assert!(windows.times(window).contains(&time));
                // A pane lies in a window entirely.
                let length = windows.pane().unwrap();
                prop_assert!(window.start <= pane && pane + length <= window.end);
                let behind = expected.iter().copied().find(|other| other.end > window.end);
                prop_assert_eq!(windows.first_behind(window, time), behind);
                prop_assert_eq!(behind.is_none(), time <= windows.released_by(window));
                prop_assert_eq!(windows.ending(window.end), window);
            }
        }
    }
}
