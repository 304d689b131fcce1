//! Closing an epoch: what it says is put together, offered, and applied once it is committed.

use super::{Effect, Effects, EpochReport, Lane, SourceCondition, SourceTrack, StopCause};
use crate::{
    epoch::{
        Epoch, EpochRecord, Firing, SourceState, StoredHead, TimerFloors, chunk, codec,
        metadata::CommitMetadata,
    },
    log::Transaction,
    output::Target,
    schedule::Condition,
    state::StoreError,
    time::ProcessingTime,
    timers::{TIMER_VALUE, TimerDomain},
};

/// A closed epoch that waits for its commit.
#[derive(Debug)]
pub(super) struct Offered {
    record: EpochRecord,
    hash: u64,
    chunks: Vec<Vec<u8>>,
    positions: Vec<i64>,
    timer_rows: Vec<(Vec<u8>, bool)>,
    offered_at: ProcessingTime,
}

/// Slow commits make an epoch this many times as long as it should be, not longer: below the
/// tenfold from which on a pipeline is not ready.
const STRETCH_MAX: i64 = 8;

impl Lane {
    /// Returns whether the open epoch ends before any more work.
    pub(super) fn is_epoch_over(&mut self) -> bool {
        if self.owes_ownership {
            return true;
        }
        let Some(opened_at) = self.opened_at else {
            self.wants_close = false;
            return self.keepalive_at().is_some_and(|at| at <= self.now());
        };
        let commit = self.options.commit;
        let context = self.context();
        let bytes = context.outputs.size_bytes() + context.overlay.size_bytes();
        self.wants_close
            || self.now().saturating_sub(opened_at) >= self.epoch_length
            || self.counts.work() >= u64::from(commit.max_records)
            || bytes as u64 >= commit.max_bytes
    }

    /// Commits an epoch next, even an empty one: whether it goes through says who owns the lane, and
    /// whether its store still takes epochs.
    pub fn show_ownership(&mut self) {
        self.owes_ownership = true;
    }

    /// Returns when a lane without work commits all the same: its positions and its transactional
    /// id would expire, and only a commit tells it that another process has taken it over.
    pub(super) fn keepalive_at(&self) -> Option<ProcessingTime> {
        let at = self.committed_at.checked_add(self.options.commit.keepalive_every)?;
        (!self.is_finished).then_some(at)
    }

    /// Every source has ended and everything is done: the epoch need not wait for its time. Sources
    /// of broadcast inputs may never end: nothing is left for what they bring.
    pub(super) fn note_end(&mut self) {
        let has_ended = |(at, track): (usize, &SourceTrack)| match self.heads.condition(at) {
            Condition::Ended => true,
            Condition::AtEnd => track.is_broadcast,
            Condition::Head | Condition::Unknown => false,
        };
        if self.tracks.iter().enumerate().all(has_ended) {
            self.wants_close = self.opened_at.is_some();
            self.is_finished = self.opened_at.is_none();
        }
    }

    pub(super) fn close(&mut self, effects: &mut Effects) {
        match self.build() {
            Ok(offered) => {
                self.offered = Some(offered);
                self.wants_close = false;
                self.owes_ownership = false;
                effects.push(Effect::Commit);
            }
            Err(error) => self.stop(StopCause::Store(error), effects),
        }
    }

    fn build(&mut self) -> Result<Offered, StoreError> {
        self.settle_time()?;
        let timer_floors = self.timer_floors()?;
        let record = self.record(timer_floors);
        let context = self.context();
        let event = context.event_timers.changes().map(|change| (TimerDomain::Event, change));
        let processing =
            context.processing_timers.changes().map(|change| (TimerDomain::Processing, change));
        let timer_rows: Vec<(Vec<u8>, bool)> = event
            .chain(processing)
            .map(|(domain, (timer, is_live))| (timer.row(domain), is_live))
            .collect();
        let changes: Vec<_> = context.overlay.changes().chain(rows(&timer_rows)).collect();
        let (bytes, hash) = codec::encode(&record, changes.into_iter());
        let chunks = chunk::split(self.lane, record.epoch, self.attempt, &bytes);
        let positions = self.tracks.iter().map(|track| track.position).collect();
        let offered_at = self.now();
        Ok(Offered { record, hash, chunks, positions, timer_rows, offered_at })
    }

    /// Ends a move of time that has nothing left to fire, and takes a watermark that has moved
    /// into the epoch, so that what is committed never says less than what was decided by.
    fn settle_time(&mut self) -> Result<(), StoreError> {
        // Time stands while a *continue* waits: its next step sees the watermark of its first.
        if self.continuation.is_some() {
            return Ok(());
        }
        self.end_finished_move()?;
        if self.firing.is_none() && self.advance_watermark() {
            let up_to = self.context().clocks.watermark;
            self.start_move(Firing { domain: TimerDomain::Event, up_to });
            self.end_finished_move()?;
        }
        Ok(())
    }

    fn timer_floors(&mut self) -> Result<TimerFloors, StoreError> {
        let context = self.context_mut();
        let event = context.event_timers.floor(context.store.as_mut())?;
        let processing = context.processing_timers.floor(context.store.as_mut())?;
        Ok(TimerFloors { event: event.into(), processing: processing.into() })
    }

    fn record(&mut self, timer_floors: TimerFloors) -> EpochRecord {
        let now = self.now();
        let sources = self.tracks.iter().enumerate().map(|(at, track)| SourceState {
            source: track.source,
            position: track.position,
            watermark: track.watermark.get(),
            is_idle: track.idleness.is_idle(now),
            is_ended: self.heads.condition(at) == Condition::Ended,
        });
        let (epoch, previous_hash) = match &self.head {
            Some((record, hash)) => (record.epoch.next(), *hash),
            None => (Epoch::GENESIS, 0),
        };
        let context = self.context();
        EpochRecord {
            lane: self.lane,
            epoch,
            attempt: self.attempt,
            owner: self.owner.clone(),
            previous_hash,
            identity: self.genesis.clone(),
            sources: sources.collect(),
            watermark: context.clocks.watermark,
            processing_time: now,
            firing: self.firing,
            continuation: self.continuation.clone(),
            timer_floors,
            revision: self.revision.clone(),
            outputs: context.outputs.len() as u64,
            timers_fired: self.counts.timers_fired,
        }
    }

    /// Returns what the offered epoch commits.
    ///
    /// # Panics
    ///
    /// When no epoch is offered: only after [`Effect::Commit`].
    #[must_use]
    pub fn transaction(&self) -> Transaction<'_> {
        let offered = self.offered.as_ref().expect("an epoch is offered");
        Transaction {
            outputs: &self.context().outputs,
            chunks: &offered.chunks,
            positions: &offered.positions,
            metadata: CommitMetadata {
                lane: self.lane,
                epoch: offered.record.epoch,
                attempt: self.attempt,
                journal_offset: 0,
                hash: offered.hash,
            },
        }
    }

    /// The offered epoch is committed: it goes to the store as a whole.
    pub(super) fn committed(&mut self, journal_next: i64, effects: &mut Effects) {
        let Some(offered) = self.offered.take() else {
            return;
        };
        self.committed_at = self.now();
        let commit_ms = self.now() - offered.offered_at;
        self.epoch_length = stretched(self.options.commit.every, commit_ms.min(self.commit_ms));
        self.commit_ms = commit_ms;
        let clocks = offered.record.clocks();
        let head = StoredHead { record: offered.record, hash: offered.hash, journal_next };
        let bytes = codec::encode_stored(&head);
        let context = self.context_mut();
        let applied = {
            let Context { overlay, store, .. } = context;
            let mut changes = overlay.changes().chain(rows(&offered.timer_rows));
            store.apply(&mut changes, &bytes, clocks)
        };
        if let Err(error) = applied {
            self.stop(StopCause::Store(error), effects);
            return;
        }
        let mut report = self.counts.take_report();
        report.epoch = Some(head.record.epoch);
        report.journal_bytes = offered.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.clear_epoch(&mut report);
        self.genesis = None;
        self.head = Some((head.record, head.hash));
        effects.push(Effect::Applied(Box::new(report)));
    }

    fn clear_epoch(&mut self, report: &mut EpochReport) {
        self.opened_at = None;
        let context = self.context_mut();
        for record in context.outputs.iter() {
            match record.target {
                Target::Output(output) => {
                    report.outputs[usize::from(output)] += 1;
                    report.output_bytes[usize::from(output)] += record.size_bytes() as u64;
                }
                Target::DeadLetters => {}
            }
        }
        let telemetry = context.end_epoch();
        report.metrics = telemetry.updates();
        report.log_lines = telemetry.lines;
        report.log_lines_dropped = telemetry.lines_dropped;
    }

    /// Returns whether every source has ended and everything is committed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_finished && !self.has_uncommitted_work()
    }
}

/// Returns how long the next epoch lasts when each of the last two commits took so long: a single
/// slow one must not make the next results wait as well.
fn stretched(every: i64, commit_ms: i64) -> i64 {
    commit_ms.clamp(every, every.saturating_mul(STRETCH_MAX))
}

use crate::context::Context;

fn rows(timers: &[(Vec<u8>, bool)]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    timers.iter().map(|(row, is_live)| (&row[..], is_live.then_some(TIMER_VALUE)))
}

impl From<Condition> for SourceCondition {
    fn from(condition: Condition) -> Self {
        match condition {
            Condition::Head => Self::Head,
            Condition::AtEnd => Self::AtEnd,
            Condition::Ended => Self::Ended,
            Condition::Unknown => Self::Unknown,
        }
    }
}
