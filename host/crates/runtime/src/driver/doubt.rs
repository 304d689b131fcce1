//! What a lane does in doubt: it recovers, looks for who has taken it over, or ends the pipeline.

use dovetail_core::{epoch::LaneId, log::LogError, state::StoreError, time::ProcessingTime};

use super::{Advance, LaneDriver, LaneEnd, State};
use crate::{
    claim::Answer,
    fatal::FatalKind,
    fenced::{FencedWatch, Verdict},
    status::Phase,
    telemetry,
};

/// The lane whose owner owns the pipeline.
pub(super) const LEADER: LaneId = LaneId(0);
/// How often an epoch may fail for the same permanent reason.
const PERMANENT_FAILURES_MAX: u32 = 3;
/// The first and the longest pause between two recoveries, ms.
const PAUSE: (i64, i64) = (100, 10_000);
/// How often a lane that was fenced looks whether lane 0 has answered, ms.
const ASK_EVERY: i64 = 50;

/// What two failures have in common that are the same failure again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// A topic refuses what is written, whichever partition it goes to.
    Refused {
        topic: String,
        why: String,
    },
    /// Keyed state is damaged, wherever.
    Damaged,
    Other(String),
}

impl LaneDriver {
    /// What the log did instead of what was asked: recover, look for a successor, or stop.
    pub(super) fn doubt(&mut self, error: LogError, now: ProcessingTime) -> (State, Advance) {
        let message = error.to_string();
        match error {
            LogError::Doubt(_) => self.recover(message, now),
            LogError::Refused { topic, message: why, .. } => {
                match self.is_permanent(Reason::Refused { topic, why }) {
                    true => self.fatal(FatalKind::Rule, message, now),
                    false => self.recover(message, now),
                }
            }
            LogError::Failed(why) => match self.is_permanent(Reason::Other(why)) {
                true => self.fatal(FatalKind::Internal, message, now),
                false => self.recover(message, now),
            },
            LogError::Fenced(_) => match self.journal_next {
                // Before the first acquisition there is nothing that could have been taken over.
                None => self.recover(message, now),
                Some(_) => {
                    self.note_doubt(&message, Phase::Fenced, now);
                    match &self.claim {
                        Some(claim) if self.parts.lane != LEADER => {
                            (State::Contested(claim.ask()), Advance::Again)
                        }
                        Some(_) | None => self.watch_journal(now),
                    }
                }
            },
            LogError::Gap { .. } | LogError::Corrupt(_) => {
                self.fatal(FatalKind::Rule, message, now)
            }
            LogError::Config(_) => self.fatal(FatalKind::Configuration, message, now),
        }
    }

    /// The store failed: it is opened again and the journal replayed, as often as that takes: a full
    /// disk may have room again. A damaged one is moved aside first, or the same damage would be met
    /// for ever.
    pub(super) fn store_failed(
        &mut self,
        error: &StoreError,
        now: ProcessingTime,
    ) -> (State, Advance) {
        self.store = None;
        let mut message = error.to_string();
        if matches!(error, StoreError::Corrupt(_)) {
            if self.is_permanent(Reason::Damaged) {
                return self.fatal(FatalKind::Rule, message, now);
            }
            if let Err(error) = self.parts.stores.set_aside(&message) {
                message.push_str(&format!("; and it cannot be moved aside: {error}"));
            }
        }
        self.recover(message, now)
    }

    /// Counts a failure; returns whether it came too often for the same reason.
    fn is_permanent(&mut self, reason: Reason) -> bool {
        let count = match &self.failure {
            Some((last, count)) if *last == reason => count + 1,
            Some(_) | None => 1,
        };
        self.failure = Some((reason, count));
        count >= PERMANENT_FAILURES_MAX
    }

    fn recover(&mut self, message: String, now: ProcessingTime) -> (State, Advance) {
        self.note_doubt(&message, Phase::Waiting, now);
        if self.stops {
            tracing::warn!(
                lane = self.parts.lane.0,
                "stopping without the last epoch, which comes again at the next start: {message}"
            );
            return self.ended(LaneEnd::Stopped, now);
        }
        self.doubts += 1;
        if self.doubts == 1 {
            return (State::Acquire, Advance::Again);
        }
        let doubling = self.doubts.min(10) - 2;
        let until = now.saturating_add((PAUSE.0 << doubling).min(PAUSE.1));
        (State::Pause(now, until), Advance::Wait(Some(until)))
    }

    fn note_doubt(&mut self, message: &str, phase: Phase, now: ProcessingTime) {
        telemetry::publish_recovery(&self.names);
        tracing::warn!(
            pipeline = self.names.pipeline,
            lane = self.parts.lane.0,
            doubts = self.doubts,
            "in doubt, the lane recovers: {message}"
        );
        self.port.show(|view| {
            view.enter(phase, now);
            view.open_since = None;
            view.recoveries += 1;
            view.last_doubt = Some(message.to_owned());
        });
    }

    /// Looks in the journal for another owner.
    fn watch_journal(&self, now: ProcessingTime) -> (State, Advance) {
        let (lane, timeout) = (self.parts.lane, self.pipeline.transaction_timeout);
        let from = self.journal_next.unwrap_or(0);
        let watch = FencedWatch::new(lane, self.attempt, from, timeout, now);
        (State::Fenced(watch), Advance::Again)
    }

    /// Looks whether lane 0 is still this process'.
    pub(super) fn look_for_leader(&mut self, asked: u64, now: ProcessingTime) -> (State, Advance) {
        let answer = self.claim.as_ref().map_or(Answer::Ended, |claim| claim.answer(asked));
        match answer {
            Answer::Wait => {
                let until = now.saturating_add(ASK_EVERY);
                (State::Contested(asked), Advance::Wait(Some(until)))
            }
            Answer::Ours => {
                self.recover("fenced, and lane 0 is still this process'".to_owned(), now)
            }
            Answer::Ended => self.watch_journal(now),
        }
    }

    pub(super) fn look_for_successor(
        &mut self,
        mut watch: FencedWatch,
        now: ProcessingTime,
    ) -> (State, Advance) {
        match watch.look(self.parts.log.as_mut(), now) {
            Verdict::Wait(until) => (State::Fenced(watch), Advance::Wait(Some(until))),
            Verdict::Taken(owner) => {
                let started = owner.started_at;
                let message = format!(
                    "{owner}, started at {started} ms since 1970, has taken this lane over; one \
                     process owns all lanes of a pipeline: stop one of the two"
                );
                self.fatal(FatalKind::Rule, message, now)
            }
            Verdict::Recover => {
                self.recover("fenced, and nobody has taken the lane over".to_owned(), now)
            }
        }
    }
}
