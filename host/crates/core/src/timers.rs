//! Timers: requests to be called at a time, of one key, in one time domain.
//!
//! A timer's identity is (key, time, domain, tag): registered twice it fires once. Timers are rows
//! of the store; this module keeps the nearest of them in memory.

pub mod queue;

use bytes::Bytes;

pub use self::queue::TimerQueue;
use crate::{
    key::Key,
    record::Partition,
    state::row::{
        EVENT_TIMER_PREFIX, PROCESSING_TIMER_PREFIX, escape, order_preserving_time,
        time_of_order_preserving, unescape,
    },
};

/// Which time a timer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerDomain {
    /// The lane's watermark reaching its time.
    Event,
    /// The lane's clock reaching its time.
    Processing,
    /// Right after the call that asked for it, before the next record.
    Continue,
}

/// One timer within its domain, ordered as timers fire: time, key bytes, tag, partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// When it is due, in ms.
    pub time: i64,
    /// The key it belongs to.
    pub key: Key,
    /// The plugin's own mark.
    pub tag: u64,
    /// The partition of the record that made it.
    pub partition: Partition,
}

/// The value of a timer row.
pub const TIMER_VALUE: &[u8] = &[0x01];

/// Returns the first byte of timer rows of a domain that is stored.
///
/// # Panics
///
/// For [`TimerDomain::Continue`], which never outlives its call.
#[must_use]
pub fn prefix(domain: TimerDomain) -> u8 {
    match domain {
        TimerDomain::Event => EVENT_TIMER_PREFIX,
        TimerDomain::Processing => PROCESSING_TIMER_PREFIX,
        TimerDomain::Continue => unreachable!("continue is never stored"),
    }
}

impl Timer {
    /// Returns the row key of this timer (format: see [`crate::state::row`]).
    #[must_use]
    pub fn row(&self, domain: TimerDomain) -> Vec<u8> {
        let mut row = Vec::with_capacity(24 + self.key.as_bytes().len());
        row.push(prefix(domain));
        row.extend_from_slice(&order_preserving_time(self.time));
        escape(self.key.as_bytes(), &mut row);
        row.extend_from_slice(&self.tag.to_be_bytes());
        row.extend_from_slice(&self.partition.0.to_be_bytes());
        row
    }

    /// Reads a timer row key; `None` when the bytes are not one.
    #[must_use]
    pub fn parse(row: &[u8]) -> Option<(TimerDomain, Self)> {
        let (first, rest) = row.split_first()?;
        let domain = match *first {
            EVENT_TIMER_PREFIX => TimerDomain::Event,
            PROCESSING_TIMER_PREFIX => TimerDomain::Processing,
            _ => return None,
        };
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (key, rest) = unescape(rest)?;
        let (tag, rest) = rest.split_first_chunk::<8>()?;
        let partition: &[u8; 2] = rest.try_into().ok()?;
        let timer = Self {
            time: time_of_order_preserving(*time),
            key: Key(Bytes::from(key)),
            tag: u64::from_be_bytes(*tag),
            partition: Partition(u16::from_be_bytes(*partition)),
        };
        Some((domain, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(time: i64, key: &[u8], tag: u64, partition: u16) -> Timer {
        Timer { time, key: Key::new(key.to_vec()), tag, partition: Partition(partition) }
    }

    #[test]
    fn rows_order_as_timers_fire() {
        let ordered = [
            timer(-5, b"z", 9, 9),
            timer(0, b"a", 1, 0),
            timer(0, b"a", 2, 0),
            timer(0, b"a", 2, 1),
            timer(0, b"a\x00", 0, 0),
            timer(0, b"b", 0, 0),
            timer(7, b"", 0, 0),
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].row(TimerDomain::Event) < pair[1].row(TimerDomain::Event));
        }
        for timer in ordered {
            let row = timer.row(TimerDomain::Processing);
            assert_eq!(Timer::parse(&row), Some((TimerDomain::Processing, timer)));
        }
    }
}
