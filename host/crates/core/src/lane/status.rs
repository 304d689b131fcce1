//! What a lane shows of itself: plain data, taken between steps.

use super::Lane;
use crate::{
    checkpoint::Frozen,
    epoch::{Epoch, Firing},
    record::Source,
    schedule::Loading,
    state::{StateSize, StoreError, StoreReads},
    time::{EventTime, ProcessingTime},
    timers::{Timer, TimerDomain},
};

/// In which of three conditions a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceCondition {
    /// Its next record is fetched and decoded.
    Head,
    /// The end came after its last record.
    AtEnd,
    /// Neither is known.
    Unknown,
    /// It is bounded and has nothing left.
    Ended,
}

/// One source, as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// The source.
    pub source: Source,
    /// Its condition.
    pub condition: SourceCondition,
    /// The next offset to read.
    pub position: i64,
    /// Its watermark.
    pub watermark: EventTime,
    /// Whether it no longer holds the watermark back.
    pub is_idle: bool,
    /// Whether it is (one of those) that hold the lane's watermark.
    pub is_holder: bool,
    /// Since when it holds the watermark where it is, ms of processing time.
    pub held_since: Option<ProcessingTime>,
    /// Whether a record of it was ever seen by this process or its predecessors.
    pub has_records: bool,
    /// How far it is, where it is loaded first and not yet loaded.
    pub loading: Option<Loading>,
    /// Whether it waits for what is loaded first.
    pub is_waiting: bool,
}

/// A lane, as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStatus {
    /// The last committed epoch.
    pub epoch: Option<Epoch>,
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The lane's clock.
    pub processing_time: ProcessingTime,
    /// The sources in lane order.
    pub sources: Vec<SourceStatus>,
    /// A move of time that goes on.
    pub firing: Option<Firing>,
    /// An estimate of how many timers wait.
    pub timers_pending: u64,
    /// Whether every source that has not ended is idle.
    pub all_idle: bool,
    /// How much keyed state there is.
    pub state: StateSize,
    /// How its store has answered reads.
    pub reads: StoreReads,
    /// The digest of the plugin revision.
    pub revision: String,
}

impl Lane {
    /// Returns what the lane shows of itself.
    #[must_use]
    pub fn status(&self) -> LaneStatus {
        let context = self.context();
        let now = self.now();
        let place = |at: usize| self.timed.iter().position(|timed| *timed == at);
        let source = |(at, track): (usize, &super::SourceTrack)| {
            let is_holder = place(at).is_some_and(|place| self.combiner.is_holder(place));
            SourceStatus {
                source: track.source,
                condition: self.heads.condition(at).into(),
                position: track.position,
                watermark: track.watermark.get(),
                is_idle: track.idleness.is_idle(now),
                is_holder,
                held_since: is_holder.then_some(track.moved_at),
                has_records: track.has_records,
                loading: self.heads.loading(at),
                is_waiting: self.heads.is_waiting(at),
            }
        };
        LaneStatus {
            epoch: self.epoch(),
            watermark: context.watermark(),
            processing_time: now,
            sources: self.tracks.iter().enumerate().map(source).collect(),
            firing: self.firing,
            timers_pending: context.event_timers.pending_estimate()
                + context.processing_timers.pending_estimate(),
            all_idle: self.combiner.is_all_idle(),
            state: context.store.size(),
            reads: context.store.reads(),
            revision: self.revision.clone(),
        }
    }

    /// Returns the timers that fire next, at most `limit` of each domain.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn timers_next(&mut self, limit: usize) -> Result<Vec<(TimerDomain, Timer)>, StoreError> {
        let context = self.context_mut();
        let event = context.event_timers.peek(context.store.as_mut(), limit)?;
        let processing = context.processing_timers.peek(context.store.as_mut(), limit)?;
        let event = event.into_iter().map(|timer| (TimerDomain::Event, timer));
        let processing = processing.into_iter().map(|timer| (TimerDomain::Processing, timer));
        Ok(event.chain(processing).collect())
    }

    /// Freezes the applied state for a checkpoint: see [`crate::state::StateStore::freeze`].
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        self.context_mut().store.freeze()
    }
}
