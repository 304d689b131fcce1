//! The wall clock, and what is drawn from it.
//!
//! This is the one place that reads the clock and makes random numbers; everything else is handed
//! a [`Clock`] or an [`AttemptSource`], so that the simulator can stand in for both.

use std::{
    hash::{BuildHasher, RandomState},
    time::{SystemTime, UNIX_EPOCH},
};

use dovetail_core::{clock::Clock, epoch::Attempt, time::ProcessingTime};

/// The wall clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read(&mut self) -> ProcessingTime {
        now()
    }
}

/// Returns the wall clock in ms since the Unix epoch; 0 when it stands before that.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of the clock")]
pub fn now() -> ProcessingTime {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Draws the id of an attempt each time a lane is acquired; no two attempts may share one.
pub type AttemptSource = Box<dyn FnMut() -> Attempt + Send>;

/// Returns a source of attempt ids that are random per process and differ within it.
#[must_use]
pub fn random_attempts() -> AttemptSource {
    let mut drawn = 0_u64;
    Box::new(move || {
        drawn += 1;
        let half = |which: u8| u128::from(RandomState::new().hash_one((now(), drawn, which)));
        Attempt(half(0) << 64 | half(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_differ() {
        let mut draw = random_attempts();
        assert_ne!(draw(), draw());
        assert_ne!(random_attempts()(), draw());
    }
}
