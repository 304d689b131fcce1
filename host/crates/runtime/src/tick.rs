//! One turn of a lane's loop, over the ports.
//!
//! Production, the sandbox and the simulator call the same function. It starts no threads, never
//! sleeps, and knows the time only from the clock it is handed.
//!
//! Invariant: an epoch that [`Log::commit`] took is applied before anything else happens; after any
//! other answer the lane is not touched again.

use dovetail_core::{
    clock::Clock,
    lane::{Effect, Effects, EpochReport, Event, Lane, PluginSwitch, StopCause},
    log::{Fetched, Log, LogError},
    record::Source,
    time::ProcessingTime,
};

use crate::setup::Decode;

/// Calls of the plugin per turn, at least and at most.
const CALLS_PER_TURN: (u32, u32) = (10, 1_000);
/// How long the calls of a turn should take, ms: so long an epoch may stay open after it was due, and commands
/// and fetching may have to wait.
const TURN_MS: i64 = 5;

/// How a turn ended.
#[derive(Debug, PartialEq)]
pub enum TickOutcome {
    /// There is more to do at once.
    Again,
    /// There is nothing to do before that time, unless something arrives.
    Idle {
        /// The next deadline, ms of processing time.
        until: Option<ProcessingTime>,
    },
    /// It was asked to close, and everything is committed.
    Closed,
    /// Every source has ended and everything is committed.
    Finished,
    /// The lane stops itself.
    Stop(StopCause),
    /// The log did not take what it should: drop the lane and recover.
    Doubt(LogError),
}

/// A committed and applied epoch.
#[derive(Debug)]
pub struct Committed {
    /// What it did.
    pub report: Box<EpochReport>,
    /// The journal offset behind its record.
    pub journal_next: i64,
    /// How long its commit took, ms.
    pub commit_ms: i64,
    /// When it was committed, ms.
    pub at: ProcessingTime,
}

/// A lane and what its loop remembers between turns.
pub struct LaneLoop {
    lane: Lane,
    sources: Vec<Source>,
    effects: Effects,
    wanted: Vec<bool>,
    /// When the open epoch was first seen, by the clock that is handed in.
    opened_at: Option<ProcessingTime>,
    closes: bool,
    switch: Option<Box<PluginSwitch>>,
    last_commit: (i64, i64),
    /// How many calls of the plugin a turn may make: few until they are known to be fast.
    calls_per_turn: u32,
    /// Committed epochs that were not taken yet.
    pub committed: Vec<Committed>,
}

impl std::fmt::Debug for LaneLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneLoop").field("epoch", &self.lane.epoch()).finish_non_exhaustive()
    }
}

impl LaneLoop {
    /// Returns the loop of a lane that was acquired.
    #[must_use]
    pub fn new(lane: Lane, sources: Vec<Source>) -> Self {
        Self {
            lane,
            sources,
            effects: Effects::new(),
            wanted: Vec::new(),
            opened_at: None,
            closes: false,
            switch: None,
            last_commit: (0, 0),
            calls_per_turn: CALLS_PER_TURN.0,
            committed: Vec::new(),
        }
    }

    /// Returns the lane.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Returns the lane, between two turns.
    pub fn lane_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }

    /// Gives the lane back.
    #[must_use]
    pub fn into_lane(self) -> Lane {
        self.lane
    }

    /// Ends the open epoch and then the loop ([`TickOutcome::Closed`]).
    pub fn close(&mut self) {
        self.closes = true;
    }

    /// Lets another revision take over once the open epoch is committed.
    pub fn switch(&mut self, switch: Box<PluginSwitch>) {
        self.switch = Some(switch);
    }

    /// Returns when the open epoch is due by the clock that is handed in.
    ///
    /// The lane's own clock never goes back: where the wall clock was set back, it stands until
    /// the wall clock has caught up, and an epoch must not wait for that.
    fn due(&mut self, now: ProcessingTime) -> Option<ProcessingTime> {
        if !self.lane.has_uncommitted_work() {
            self.opened_at = None;
            return None;
        }
        let opened_at = self.opened_at.map_or(now, |opened_at| opened_at.min(now));
        self.opened_at = Some(opened_at);
        Some(opened_at.saturating_add(self.lane.epoch_length()))
    }

    /// Returns whether a source is wanted that was not when this turn fetched: what it has may lie
    /// in the client already, and nothing would end a wait for it.
    fn wants_more(&self) -> bool {
        let fetched = self.wanted.iter().copied().chain(std::iter::repeat(false));
        self.lane.wants().iter().zip(fetched).any(|(wants, fetched)| *wants && !fetched)
    }

    fn is_overdue(&mut self, now: ProcessingTime) -> bool {
        self.due(now).is_some_and(|due| due <= now)
    }

    /// Returns whether a revision waits to take over.
    #[must_use]
    pub fn is_switching(&self) -> bool {
        self.switch.is_some()
    }
}

/// Turns a lane's loop once: fetches and decodes what is wanted, lets the lane work, and executes
/// what it asks for. Waits for the lane's own commit and for nothing else.
pub fn tick(
    turning: &mut LaneLoop,
    log: &mut dyn Log,
    decoder: &mut dyn Decode,
    clock: &mut dyn Clock,
) -> TickOutcome {
    let now = clock.read();
    if (turning.closes || turning.switch.is_some())
        && let Some(outcome) = between_epochs(turning, log, clock, now)
    {
        return outcome;
    }
    if turning.is_overdue(now) {
        turning.lane.step(now, Event::Close, &mut turning.effects);
        return execute(turning, log, clock).unwrap_or(TickOutcome::Again);
    }
    let has_fetched = match fetch(turning, log, decoder, now) {
        Ok(has_fetched) => has_fetched,
        Err(error) => return TickOutcome::Doubt(error),
    };
    let calls_max = turning.calls_per_turn;
    let proceed = Event::Proceed { calls_max };
    let begun = clock.read();
    let until = turning.lane.step(now, proceed, &mut turning.effects);
    let took = clock.read().saturating_sub(begun);
    let is_used_up = turning.lane.calls_made() >= calls_max;
    turning.calls_per_turn = calls_per_turn(calls_max, is_used_up, took);
    if !turning.effects.is_empty() {
        return execute(turning, log, clock).unwrap_or(TickOutcome::Again);
    }
    if turning.lane.is_finished() {
        return TickOutcome::Finished;
    }
    if has_fetched || until.is_some_and(|until| until <= now) || turning.wants_more() {
        return TickOutcome::Again;
    }
    TickOutcome::Idle { until: turning.due(now).into_iter().chain(until).min() }
}

/// Returns how many calls the next turn may make when one that might make `calls` took that long,
/// ms. A turn that had fewer to make does not show that they are fast.
fn calls_per_turn(calls: u32, is_used_up: bool, took: i64) -> u32 {
    let (min, max) = CALLS_PER_TURN;
    if took > TURN_MS {
        (calls / 2).max(min)
    } else if is_used_up && 2 * took < TURN_MS {
        (calls * 2).min(max)
    } else {
        calls
    }
}

/// Ends the open epoch; then closes, or lets the waiting revision take over.
fn between_epochs(
    turning: &mut LaneLoop,
    log: &mut dyn Log,
    clock: &mut dyn Clock,
    now: ProcessingTime,
) -> Option<TickOutcome> {
    if turning.lane.has_uncommitted_work() {
        turning.lane.step(now, Event::Close, &mut turning.effects);
        if let Some(outcome) = execute(turning, log, clock) {
            return Some(outcome);
        }
    }
    if turning.lane.has_uncommitted_work() {
        return Some(TickOutcome::Again);
    }
    if let Some(switch) = turning.switch.take() {
        turning.lane.step(now, Event::Switch(switch), &mut turning.effects);
        return Some(TickOutcome::Again);
    }
    turning.closes.then_some(TickOutcome::Closed)
}

/// Returns whether records have arrived.
fn fetch(
    turning: &mut LaneLoop,
    log: &mut dyn Log,
    decoder: &mut dyn Decode,
    now: ProcessingTime,
) -> Result<bool, LogError> {
    let LaneLoop { lane, sources, effects, wanted, .. } = turning;
    wanted.clear();
    wanted.extend_from_slice(lane.wants());
    let mut has_fetched = false;
    log.fetch(wanted, &mut |fetched| {
        let event = match fetched {
            Fetched::Records { source, records } => {
                has_fetched = true;
                let from = sources[usize::from(source.0)];
                let decode = |record| decoder.decode(from, record);
                Event::Fetched { source, records: records.into_iter().map(decode).collect() }
            }
            Fetched::AtEnd { source, position } => Event::AtEnd { source, position },
            Fetched::Unknown { source } => Event::Unknown { source },
            Fetched::Gap { source, position, lost } => Event::Gap { source, position, lost },
            Fetched::Ended { source } => Event::Ended { source },
        };
        lane.step(now, event, effects);
    })?;
    Ok(has_fetched)
}

/// Executes what the lane asked for; returns an outcome when the turn is over.
fn execute(
    turning: &mut LaneLoop,
    log: &mut dyn Log,
    clock: &mut dyn Clock,
) -> Option<TickOutcome> {
    while !turning.effects.is_empty() {
        for effect in std::mem::take(&mut turning.effects) {
            let outcome = execute_one(turning, effect, log, clock);
            if outcome.is_some() {
                return outcome;
            }
        }
    }
    None
}

fn execute_one(
    turning: &mut LaneLoop,
    effect: Effect,
    log: &mut dyn Log,
    clock: &mut dyn Clock,
) -> Option<TickOutcome> {
    match effect {
        Effect::Commit => return commit(turning, log, clock).err().map(TickOutcome::Doubt),
        Effect::Applied(report) => {
            let (journal_next, commit_ms) = turning.last_commit;
            let at = clock.read();
            let (lane, epoch) = (turning.lane.id().0, report.epoch.map(|epoch| epoch.0));
            tracing::trace!(lane, epoch, step = "applied", "an epoch is applied to keyed state");
            turning.committed.push(Committed { report, journal_next, commit_ms, at });
        }
        Effect::Stop(cause) => return Some(TickOutcome::Stop(cause)),
    }
    None
}

fn commit(
    turning: &mut LaneLoop,
    log: &mut dyn Log,
    clock: &mut dyn Clock,
) -> Result<(), LogError> {
    let begun = clock.read();
    let journal_next = log.commit(&turning.lane.transaction())?;
    let now = clock.read();
    turning.last_commit = (journal_next, now.saturating_sub(begun).max(0));
    turning.lane.step(now, Event::Committed { journal_next }, &mut turning.effects);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the next turn may make after one for which so many calls wait that take so long, µs.
    fn turned(calls: u32, waiting: u32, call_us: i64) -> u32 {
        let made = calls.min(waiting);
        calls_per_turn(calls, made == calls, i64::from(made) * call_us / 1_000)
    }

    /// What turns settle at when each call takes that long, µs.
    fn settled(call_us: i64) -> u32 {
        (0..20).fold(CALLS_PER_TURN.1, |calls, _| turned(calls, u32::MAX, call_us))
    }

    #[test]
    fn a_turn_of_slow_calls_makes_fewer_of_them() {
        assert_eq!(settled(0), 1_000);
        assert_eq!(settled(2), 1_000);
        let calls = i64::from(settled(100));
        assert!((20..=50).contains(&calls), "{calls} calls of 0.1 ms");
        assert_eq!(settled(20_000), 10);
    }

    #[test]
    fn idle_turns_between_slow_ones_allow_no_more_calls() {
        let mut calls = settled(20_000);
        for _ in 0..20 {
            for waiting in [0, 0, 9, 0] {
                calls = turned(calls, waiting, 0);
            }
            assert_eq!(calls, 10, "a burst of slow calls comes next");
            calls = turned(calls, 1_000, 20_000);
        }
        assert_eq!(turned(calls, 1_000, 0), 20, "a turn that was full shows that they are fast");
    }
}
