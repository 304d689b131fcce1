//! What a fenced lane does: it looks whether another process has taken it over.
//!
//! A fence only says that our producer's epoch is old; a takeover and a transaction that the broker
//! ended after its timeout are reported alike. A successor commits an ownership epoch at once, so
//! the journal tells them apart, read without acquiring: two processes must not fence each other
//! in turns.

use std::ops::ControlFlow;

use dovetail_core::{
    epoch::{Attempt, LaneId, Owner},
    log::{Log, LogError},
    time::ProcessingTime,
};

use crate::journal;

/// How often the journal is looked at, ms.
const LOOK_EVERY: i64 = 500;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet: look again then.
    Wait(ProcessingTime),
    /// Another process owns the lane.
    Taken(Owner),
    /// Nobody came: recover.
    Recover,
}

/// A look-out for a successor.
#[derive(Debug)]
pub struct FencedWatch {
    lane: LaneId,
    attempt: Attempt,
    journal_next: i64,
    until: ProcessingTime,
    /// When it looked last: a clock that is set back takes `until` with it.
    looked_at: ProcessingTime,
}

impl FencedWatch {
    /// Returns a look-out behind our last committed epoch, for 2 × the transaction timeout (ms).
    #[must_use]
    pub fn new(
        lane: LaneId,
        attempt: Attempt,
        journal_next: i64,
        transaction_timeout: i64,
        now: ProcessingTime,
    ) -> Self {
        let until = now.saturating_add(transaction_timeout.saturating_mul(2));
        Self { lane, attempt, journal_next, until, looked_at: now }
    }

    /// Looks once.
    pub fn look(&mut self, log: &mut dyn Log, now: ProcessingTime) -> Verdict {
        let back = self.looked_at.saturating_sub(now).max(0);
        self.until = self.until.saturating_sub(back);
        self.looked_at = now;
        match self.successor(log) {
            Ok(Some(owner)) => return Verdict::Taken(owner),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(lane = self.lane.0, "cannot look for a successor: {error}");
            }
        }
        if now >= self.until {
            return Verdict::Recover;
        }
        Verdict::Wait(now.saturating_add(LOOK_EVERY).min(self.until))
    }

    fn successor(&self, log: &mut dyn Log) -> Result<Option<Owner>, LogError> {
        let mut owner = None;
        journal::visit(log, self.lane, self.journal_next, &mut |epoch, _, _| {
            if epoch.record.attempt == self.attempt {
                return ControlFlow::Continue(());
            }
            owner = Some(epoch.record.owner);
            ControlFlow::Break(())
        })?;
        Ok(owner)
    }
}
