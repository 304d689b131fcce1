//! When an entry of keyed state is expired.
//!
//! Expired ⇔ stamp + after ≤ clock, the sum saturating; nothing expires by event time while there
//! is no watermark. The length of an expiry is not stored: it may change between revisions.

use crate::{
    plugin::{Expiry, ExpiryDomain},
    state::{StateId, row},
    time::{EventTime, NO_WATERMARK, ProcessingTime},
};

/// The clocks that expiry is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The lane's processing time.
    pub processing_time: ProcessingTime,
}

impl Clocks {
    /// Returns whether an entry with that stamp is expired.
    ///
    /// An entry written without event time before there was a watermark has no time to count from:
    /// it lives until it is written again.
    #[must_use]
    pub fn is_expired(&self, stamp: EventTime, expiry: Expiry) -> bool {
        let has_no_time = self.watermark == NO_WATERMARK || stamp == NO_WATERMARK;
        let clock = match expiry.domain {
            ExpiryDomain::EventTime if has_no_time => return false,
            ExpiryDomain::EventTime => self.watermark,
            ExpiryDomain::ProcessingTime => self.processing_time,
        };
        // An expiry that reaches beyond representable time never comes.
        stamp.checked_add(expiry.after).is_some_and(|end| end <= clock)
    }
}

/// The expiry of each state, by its durable number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpiryTable(Vec<Option<Expiry>>);

impl ExpiryTable {
    /// Returns a table from (state, expiry) pairs.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = (StateId, Option<Expiry>)>) -> Self {
        let mut table = Vec::new();
        for (state, expiry) in entries {
            let at = usize::from(state.0);
            if table.len() <= at {
                table.resize(at + 1, None);
            }
            table[at] = expiry;
        }
        Self(table)
    }

    /// Returns the expiry of a state.
    #[must_use]
    pub fn get(&self, state: StateId) -> Option<Expiry> {
        self.0.get(usize::from(state.0)).copied().flatten()
    }

    /// Returns whether no state expires.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Returns whether an encoded row is expired and may be removed from disk.
    ///
    /// Rows that are not state, or not of our format, are kept.
    #[must_use]
    pub fn is_row_expired(&self, row: &[u8], value: &[u8], clocks: Clocks) -> bool {
        let stamp = row::parse_value(value).and_then(|value| value.stamp);
        let expiry = row::state_of(row).and_then(|state| self.get(state));
        match (stamp, expiry) {
            (Some(stamp), Some(expiry)) => clocks.is_expired(stamp, expiry),
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNDRED: Expiry =
        Expiry { after: 100, domain: ExpiryDomain::EventTime, refresh_on_read: false };

    #[test]
    fn an_entry_is_expired_when_its_time_is_reached_and_not_before() {
        let at = |watermark| Clocks { watermark, processing_time: 0 }.is_expired(5, HUNDRED);
        assert!(!at(104));
        assert!(at(105));
        assert!(!at(NO_WATERMARK));
        let clocks = Clocks { watermark: 105, processing_time: 0 };
        assert!(!clocks.is_expired(NO_WATERMARK, HUNDRED), "it has no time to count from");
    }

    #[test]
    fn a_length_beyond_representable_time_never_expires() {
        let forever = Expiry { after: i64::MAX, ..HUNDRED };
        let clocks = Clocks { watermark: i64::MAX, processing_time: 0 };
        assert!(!clocks.is_expired(5, forever));
    }
}
