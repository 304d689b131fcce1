//! What arrives from the sources, and what it does to the watermark.

use super::{Lane, QUEUE_LOW, QUEUE_LOW_BYTES};
use crate::{
    lane::Effects,
    options::{SkewReference, WatermarkRule, WhenAllIdle},
    record::{DecodedRecord, SourceIndex},
    schedule::{Choice, Condition},
    time::{EventTime, NO_WATERMARK, ProcessingTime},
    timers::TimerDomain,
    watermark::combiner::SourceActivity,
};

impl Lane {
    pub(super) fn move_clock(&mut self, now: ProcessingTime) {
        let clocks = &mut self.context_mut().clocks;
        if now > clocks.processing_time {
            clocks.processing_time = now;
            self.clock_moved = true;
            self.is_watermark_stale = true;
        }
    }

    pub(super) fn fetched(&mut self, source: SourceIndex, records: Vec<DecodedRecord>) {
        if records.is_empty() {
            return;
        }
        let at = usize::from(source.0);
        let had_head = self.heads.head(at).is_some();
        let bytes: usize = records.iter().map(DecodedRecord::size_bytes).sum();
        let has_say = !self.tracks[at].is_broadcast;
        let time = |record: &DecodedRecord| record.time().filter(|_| has_say);
        self.heads.add(at, records.into_iter().map(|record| (time(&record), record)));
        let track = &mut self.tracks[at];
        track.end_position = None;
        track.has_records = true;
        track.queued_bytes += bytes;
        track.idleness.interrupted();
        if !had_head {
            self.observe_head(at);
        }
        self.is_watermark_stale = true;
        self.note_wanted(at);
    }

    pub(super) fn at_end(&mut self, source: SourceIndex, position: i64) {
        let at = usize::from(source.0);
        let was_loading = self.heads.is_loading();
        self.heads.at_end(at);
        self.tracks[at].end_position = Some(position);
        self.note_queue(at);
        self.note_loaded(was_loading);
    }

    pub(super) fn unknown(&mut self, source: SourceIndex) {
        let at = usize::from(source.0);
        let now = self.now();
        self.heads.unknown(at, now);
        self.tracks[at].idleness.interrupted();
        self.is_watermark_stale = true;
    }

    /// The jump is committed as work is, so that nobody goes back to where nothing is.
    pub(super) fn gap(&mut self, source: SourceIndex, position: i64, lost: u64) {
        let now = self.now();
        let track = &mut self.tracks[usize::from(source.0)];
        track.position = position;
        track.end_position = None;
        let input = usize::from(track.source.input.0);
        self.counts.inputs[input].lost += lost;
        self.opened_at.get_or_insert(now);
    }

    pub(super) fn ended(&mut self, source: SourceIndex) {
        let at = usize::from(source.0);
        let was_loading = self.heads.is_loading();
        self.heads.ended(at);
        self.wants[at] = false;
        self.note_queue(at);
        self.note_loaded(was_loading);
    }

    /// Who has waited for what was loaded first may become idle from now on.
    fn note_loaded(&mut self, was_loading: bool) {
        if was_loading && !self.heads.is_loading() {
            (0..self.tracks.len()).for_each(|at| self.note_queue(at));
        }
    }

    pub(super) fn told_watermark(&mut self, source: SourceIndex, watermark: EventTime) {
        let now = self.now();
        let track = &mut self.tracks[usize::from(source.0)];
        if track.watermark.raise(watermark) {
            track.moved_at = now;
        }
        self.is_watermark_stale = true;
    }

    /// Takes note of what stands behind an empty queue.
    fn note_queue(&mut self, at: usize) {
        let now = self.now();
        match self.heads.condition(at) {
            Condition::AtEnd => {
                let track = &mut self.tracks[at];
                // What waits holds the watermark, with records or without: loading must not make
                // late what comes meanwhile.
                if !self.heads.is_waiting(at) {
                    track.idleness.at_end(now);
                }
                if let Some(position) = track.end_position {
                    track.position = track.position.max(position);
                }
            }
            Condition::Ended => self.is_watermark_stale = true,
            Condition::Head | Condition::Unknown => {}
        }
    }

    /// Lets the head of a source move the source's watermark.
    fn observe_head(&mut self, at: usize) {
        let now = self.now();
        let Some(head) = self.heads.head(at) else {
            return;
        };
        let Some(time) = head.time() else { return };
        let track = &mut self.tracks[at];
        let input = &self.options.inputs[usize::from(track.source.input.0)];
        let reference = match input.skew_reference {
            SkewReference::Clock => now,
            SkewReference::RecordTimestamp => head.record.timestamp.unwrap_or(now),
        };
        track.is_head_skewed =
            input.max_future_skew.is_some_and(|skew| time > reference.saturating_add(skew));
        if track.is_head_skewed {
            return;
        }
        if let WatermarkRule::OutOfOrderness(bound) = input.watermark
            && track.watermark.observe(time, bound)
        {
            track.moved_at = now;
            self.is_watermark_stale = true;
        }
    }

    /// Takes the next record, if the lane may; returns whether it did.
    pub(super) fn take_next(&mut self, effects: &mut Effects) -> bool {
        let now = self.now();
        let Choice::Take(at) = self.heads.choose(now, self.options.wait_for_input) else {
            return false;
        };
        let was_loading = self.heads.is_loading();
        let Some(record) = self.heads.take(at, now) else {
            return false;
        };
        let track = &mut self.tracks[at];
        track.position = record.record.offset + 1;
        track.queued_bytes = track.queued_bytes.saturating_sub(record.size_bytes());
        let (source, is_skewed) = (track.source, track.is_head_skewed);
        self.opened_at.get_or_insert(now);
        self.handle(source, record, is_skewed, effects);
        self.observe_head(at);
        self.note_queue(at);
        self.note_loaded(was_loading);
        self.note_wanted(at);
        true
    }

    fn note_wanted(&mut self, at: usize) {
        let is_ended = self.heads.condition(at) == Condition::Ended;
        let is_low =
            self.heads.waiting(at) < QUEUE_LOW && self.tracks[at].queued_bytes < QUEUE_LOW_BYTES;
        self.wants[at] = !is_ended && is_low;
    }

    /// Combines the sources' watermarks; returns whether the lane's moved.
    pub(super) fn advance_watermark(&mut self) -> bool {
        if !self.is_watermark_stale {
            return false;
        }
        self.is_watermark_stale = false;
        self.tell_combiner();
        let mut moved = self.combiner.advance().is_some();
        moved |= self.follow_clock();
        if moved {
            self.context_mut().clocks.watermark = self.combiner.get();
        }
        moved
    }

    pub(super) fn tell_combiner(&mut self) {
        let now = self.now();
        for (place, at) in self.timed.iter().enumerate() {
            let track = &self.tracks[*at];
            let activity = match self.heads.condition(*at) {
                Condition::Ended => SourceActivity::Ended,
                Condition::AtEnd if track.idleness.is_idle(now) => SourceActivity::Idle,
                Condition::AtEnd | Condition::Head | Condition::Unknown => SourceActivity::Active,
            };
            self.combiner.set(place, track.watermark.get(), activity);
        }
    }

    /// `when_all_idle: follow_clock`: event time goes on at the pace of the lane's clock.
    fn follow_clock(&mut self) -> bool {
        let now = self.now();
        if !self.combiner.is_all_idle() {
            self.all_idle = None;
            return false;
        }
        let (since, from) = *self.all_idle.get_or_insert((now, self.combiner.get()));
        let follows = self.options.when_all_idle == WhenAllIdle::FollowClock;
        if !follows || from == NO_WATERMARK {
            return false;
        }
        self.combiner.raise(from.saturating_add(now.saturating_sub(since)))
    }

    pub(super) fn next_deadline(&mut self) -> Option<ProcessingTime> {
        let now = self.now();
        let mut deadlines: Vec<ProcessingTime> = Vec::with_capacity(8);
        match self.opened_at {
            Some(opened_at) => deadlines.push(opened_at.saturating_add(self.epoch_length)),
            None => deadlines.extend(self.keepalive_at()),
        }
        for track in &self.tracks {
            deadlines.extend(track.idleness.idle_at().filter(|at| *at > now));
        }
        match self.heads.choose(now, self.options.wait_for_input) {
            Choice::Take(_) => deadlines.push(now),
            Choice::Wait(until) => deadlines.push(until),
            Choice::Nothing => {}
        }
        if self.firing.is_some() || self.continuation.is_some() || self.wants_close {
            deadlines.push(now);
        }
        if let Some(due) = self.first_timer(TimerDomain::Processing) {
            deadlines.push(due.max(now.saturating_add(1)));
        }
        if let Some((since, from)) = self.all_idle
            && self.options.when_all_idle == WhenAllIdle::FollowClock
            && from != NO_WATERMARK
            && let Some(due) = self.first_timer(TimerDomain::Event)
        {
            let wait = due.saturating_sub(from).max(0);
            deadlines.push(since.saturating_add(wait).max(now.saturating_add(1)));
        }
        deadlines.into_iter().min()
    }

    fn first_timer(&mut self, domain: TimerDomain) -> Option<i64> {
        let context = self.context.as_mut()?;
        let queue = match domain {
            TimerDomain::Processing => &mut context.processing_timers,
            TimerDomain::Event | TimerDomain::Continue => &mut context.event_timers,
        };
        // A failing store is met again, and reported, by the next firing.
        queue.first(context.store.as_mut()).ok().flatten().map(|timer| timer.time)
    }
}
