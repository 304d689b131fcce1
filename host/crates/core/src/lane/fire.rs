//! Moving time: due timers fire in order, and nothing else happens until they all have.

use super::{Effect, Effects, Lane, StopCause};
use crate::{
    context::{Current, Subject},
    dead_letter::Reason,
    epoch::{Continuation, Firing},
    record::{Headers, Record},
    time::END_OF_TIME,
    timers::{Timer, TimerDomain, TimerQueue},
};

impl Lane {
    /// Fires the next due timer; returns whether there was one.
    pub(super) fn fire_next(&mut self, effects: &mut Effects) -> bool {
        loop {
            let Some(firing) = self.firing else {
                if !self.begin_move() {
                    return false;
                }
                continue;
            };
            match self.first_due(firing) {
                Ok(Some(timer)) => {
                    self.fire(firing.domain, &timer, effects);
                    return true;
                }
                Ok(None) => self.end_move(),
                Err(error) => {
                    self.stop(StopCause::Store(error), effects);
                    return false;
                }
            }
        }
    }

    /// Starts a move of time if there is one: event time first when both have moved.
    fn begin_move(&mut self) -> bool {
        if self.advance_watermark() {
            let up_to = self.context().clocks.watermark;
            self.start_move(Firing { domain: TimerDomain::Event, up_to });
            return true;
        }
        let at_end_of_time = self.context().clocks.watermark == END_OF_TIME;
        if std::mem::take(&mut self.clock_moved) && !at_end_of_time {
            let up_to = self.now();
            self.start_move(Firing { domain: TimerDomain::Processing, up_to });
            return true;
        }
        false
    }

    pub(super) fn start_move(&mut self, firing: Firing) {
        self.firing = Some(firing);
        self.queue(firing.domain).begin_move(firing.up_to);
    }

    fn end_move(&mut self) {
        if let Some(firing) = self.firing.take() {
            self.queue(firing.domain).end_move();
        }
        self.loop_watch.end_move();
    }

    fn queue(&mut self, domain: TimerDomain) -> &mut TimerQueue {
        let context = self.context_mut();
        match domain {
            TimerDomain::Processing => &mut context.processing_timers,
            TimerDomain::Event | TimerDomain::Continue => &mut context.event_timers,
        }
    }

    fn first_due(&mut self, firing: Firing) -> Result<Option<Timer>, crate::state::StoreError> {
        let context = self.context_mut();
        let queue = match firing.domain {
            TimerDomain::Processing => &mut context.processing_timers,
            TimerDomain::Event | TimerDomain::Continue => &mut context.event_timers,
        };
        let first = queue.first(context.store.as_mut())?;
        Ok(first.filter(|timer| timer.time <= firing.up_to).cloned())
    }

    /// Ends the move of time if nothing is left to fire in it.
    pub(super) fn end_finished_move(&mut self) -> Result<(), crate::state::StoreError> {
        if let Some(firing) = self.firing
            && self.first_due(firing)?.is_none()
        {
            self.end_move();
        }
        Ok(())
    }

    fn fire(&mut self, domain: TimerDomain, timer: &Timer, effects: &mut Effects) {
        let now = self.now();
        self.opened_at.get_or_insert(now);
        self.counts.timers_fired += 1;
        let queue = self.queue(domain);
        let is_of_this_move = queue.take_registered_in_move(timer);
        queue.remove(timer);
        let event_time = (domain == TimerDomain::Event).then_some(timer.time);
        let current = Current {
            subject: Subject::Timer { time: Some(timer.time), domain, tag: timer.tag },
            key: Some(timer.key.clone()),
            partition: timer.partition,
            event_time,
        };
        if is_of_this_move && self.loop_watch.is_timer_looping(&timer.key) {
            let max = self.options.limits.firings_per_timer_max;
            let message = format!(
                "timers of this key fired more than {max} times in one move of time (this one has \
                 tag {}): they register each other again at or before the time that is moving",
                timer.tag
            );
            let record = timer_record(&current);
            self.timer_dead_letter(&current, &record, Reason::TimerLoop, &message, 0);
            self.watch_flood(Reason::TimerLoop, &message, effects);
            return;
        }
        self.call(current, effects);
    }

    /// Runs a *continue*: right after the call that asked for it, as its own unit of undo.
    pub(super) fn run_continuation(&mut self, continued: Continuation, effects: &mut Effects) {
        let now = self.now();
        self.opened_at.get_or_insert(now);
        let current = Current {
            subject: Subject::Timer {
                time: continued.event_time,
                domain: TimerDomain::Continue,
                tag: continued.tag,
            },
            key: Some(continued.key),
            partition: continued.partition,
            event_time: continued.event_time,
        };
        if self.loop_watch.is_continuation_looping() {
            let max = self.options.limits.firings_per_timer_max;
            let message = format!("a call continued more than {max} times: it never ends");
            self.loop_watch.end_continuation();
            let record = timer_record(&current);
            self.timer_dead_letter(&current, &record, Reason::TimerLoop, &message, 0);
            self.watch_flood(Reason::TimerLoop, &message, effects);
            return;
        }
        self.counts.continuations += 1;
        self.call(current, effects);
        if self.continuation.is_none() {
            self.loop_watch.end_continuation();
        }
    }

    /// Keeps what is left of a timer that could not be handled, or of a result of one, with headers
    /// that say why.
    pub(super) fn timer_dead_letter(
        &mut self,
        current: &Current,
        record: &Record,
        reason: Reason,
        message: &str,
        attempt: u32,
    ) {
        let count = self.counts.timer_dead_letters.iter_mut().find(|(known, _)| *known == reason);
        match count {
            Some((_, count)) => *count += 1,
            None => self.counts.timer_dead_letters.push((reason, 1)),
        }
        self.push_dead_letter(record, current, None, reason, message, attempt);
    }

    pub(super) fn stop(&mut self, cause: StopCause, effects: &mut Effects) {
        self.is_stopped = true;
        effects.push(Effect::Stop(cause));
    }
}

/// Returns a timer as a record: its key.
pub(super) fn timer_record(current: &Current) -> Record {
    Record {
        offset: -1,
        timestamp: None,
        key: current.key.as_ref().map(|key| key.0.clone()),
        value: None,
        headers: Headers::default(),
    }
}
