//! A lane from acquiring to its end: what comes after what, without threads or sleeping.
//!
//! The lane thread and the simulator drive it alike by calling [`LaneDriver::advance`]. It decides
//! nothing about records, time or commits; it knows which failures are answered by recovering, and
//! which end the pipeline.
//!
//! Invariant: there is at most one lane at a time, and every way out of a doubt leads through
//! [`acquire`].

mod doubt;

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, Sender};
use dovetail_core::{
    clock::Clock,
    epoch::Attempt,
    lane::{PluginSwitch, StopCause},
    state::StateStore,
    time::ProcessingTime,
    timers::{Timer, TimerDomain},
};

use self::doubt::{LEADER, Reason};
use crate::{
    acquire::{AcquireError, Acquired, Predecessor, acquire},
    bootstrap::bootstrap_reason,
    checkpointer::Job,
    checkpointing::Checkpointing,
    claim::Claim,
    clock::AttemptSource,
    dead_letter_log::DeadLetterLog,
    fatal::{FatalCause, FatalKind},
    fenced::FencedWatch,
    handle::{LaneCommand, LanePort, lock},
    key_watch::KeyWatch,
    setup::{LaneSetup, Names, PipelineSetup, Revision, expiry_of},
    status::Phase,
    swap::SwapShare,
    telemetry,
    tick::{Committed, LaneLoop, TickOutcome, tick},
};

/// When lane 0 first shows again that it is owned, ms after it was acquired.
const SHOW_OWNERSHIP_AFTER: i64 = 1_000;
/// How old what the lane shows may become while nothing is committed, ms.
const SHOW_EVERY: i64 = 250;

/// How an advance ended.
#[derive(Debug)]
pub enum Advance {
    /// There is more to do at once.
    Again,
    /// There is nothing to do before that time, unless something arrives.
    Wait(Option<ProcessingTime>),
    /// The lane has ended.
    Ended(LaneEnd),
}

/// How a lane ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneEnd {
    /// Every source has ended and everything is committed.
    Finished,
    /// It was asked to stop; everything that it took is committed, or will come again.
    Stopped,
    /// The pipeline must stop.
    Fatal(FatalCause),
}

enum State {
    Acquire,
    Run(Box<LaneLoop>),
    /// Fenced: whether this process still owns the pipeline was asked, at so many proofs.
    Contested(u64),
    /// Fenced, and lane 0 is not there to be asked.
    Fenced(FencedWatch),
    /// From when, and until when.
    Pause(ProcessingTime, ProcessingTime),
    Ended(LaneEnd),
}

/// One lane, driven.
pub struct LaneDriver {
    parts: LaneSetup,
    pipeline: PipelineSetup,
    names: Names,
    port: Arc<LanePort>,
    commands: Receiver<LaneCommand>,
    keys: Arc<KeyWatch>,
    attempts: AttemptSource,
    state: State,
    /// The store of a lane that was dropped, where it is still good.
    store: Option<Box<dyn StateStore>>,
    attempt: Attempt,
    /// Behind the last epoch that is known to be committed; `None` before the first acquisition.
    journal_next: Option<i64>,
    /// The revision that waits to take over, and the share that is dropped then.
    switching: Option<(Arc<dyn Revision>, SwapShare)>,
    stops: bool,
    /// The last failure, and how often it came in a row.
    failure: Option<(Reason, u32)>,
    /// Doubts since work was committed.
    doubts: u32,
    shown_at: ProcessingTime,
    /// Whether something was committed since.
    is_stale: bool,
    dead_letters: DeadLetterLog,
    checkpointing: Option<Checkpointing>,
    /// Shared by the lanes of a process; a lane without it decides for itself.
    claim: Option<Arc<Claim>>,
    /// Lane 0: the question that its next commit answers.
    proving: Option<u64>,
    /// Lane 0: when it was acquired, and when it shows next that it still is.
    shows: (ProcessingTime, ProcessingTime),
}

impl std::fmt::Debug for LaneDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneDriver").field("lane", &self.parts.lane).finish_non_exhaustive()
    }
}

impl LaneDriver {
    /// Returns a lane that is not acquired yet.
    #[must_use]
    pub fn new(
        mut parts: LaneSetup,
        pipeline: PipelineSetup,
        port: (Arc<LanePort>, Receiver<LaneCommand>),
        keys: Arc<KeyWatch>,
        attempts: AttemptSource,
    ) -> Self {
        parts.log.heed(&port.0.stopping);
        Self {
            names: pipeline.names(),
            parts,
            pipeline,
            port: port.0,
            commands: port.1,
            keys,
            attempts,
            state: State::Acquire,
            store: None,
            attempt: Attempt(0),
            journal_next: None,
            switching: None,
            stops: false,
            failure: None,
            doubts: 0,
            shown_at: i64::MIN,
            is_stale: false,
            dead_letters: DeadLetterLog::default(),
            checkpointing: None,
            claim: None,
            proving: None,
            shows: (0, 0),
        }
    }

    /// Lets lane 0 decide whether this process owns the pipeline.
    #[must_use]
    pub fn with_claim(mut self, claim: Arc<Claim>) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Returns the claim where this lane is the one to prove it.
    fn claim_to_prove(&self) -> Option<&Arc<Claim>> {
        self.claim.as_ref().filter(|_| self.parts.lane == LEADER)
    }

    /// Lets the lane take checkpoints, whose jobs are sent there; without a checkpoint store it
    /// takes none.
    #[must_use]
    pub fn with_checkpointer(mut self, jobs: Sender<Job>) -> Self {
        self.checkpointing = self.pipeline.checkpoints.clone().map(|setup| {
            let log = &self.parts.log;
            let trimmer = log.trimmer().filter(|_| self.pipeline.untrimmed.is_none());
            let ends = (trimmer, log.waker());
            Checkpointing::new(self.parts.lane, self.names.clone(), setup, jobs, ends)
        });
        self.show_checkpoints();
        self
    }

    fn show_checkpoints(&self) {
        let view = self.checkpointing.as_ref().map(|checkpointing| checkpointing.view().clone());
        self.port.show(|shown| shown.checkpoints = view);
    }

    /// Goes on with the lane's checkpoints, between two turns.
    fn turn_checkpoints(&mut self, turning: &mut LaneLoop, now: ProcessingTime) {
        let Some(checkpointing) = &mut self.checkpointing else { return };
        let identity = lock(&self.port.identity).clone();
        let journal_bytes = lock(&self.port.view).journal_bytes;
        if checkpointing.turn(turning.lane_mut(), identity.as_ref(), journal_bytes, now) {
            self.show_checkpoints();
        }
    }

    /// Waits until something may have arrived, or that time is over.
    pub fn wait(&mut self, at_most: Duration) {
        self.parts.log.wait(at_most);
    }

    /// Notes that the thread that drives this lane turns.
    pub(crate) fn beat(&self) {
        self.port.beat();
    }

    /// Does the next piece of the lane's life.
    pub fn advance(&mut self, clock: &mut dyn Clock) -> Advance {
        let now = clock.read();
        self.take_commands(now);
        let state = std::mem::replace(&mut self.state, State::Acquire);
        let (state, advance) = match state {
            State::Ended(end) => (State::Ended(end.clone()), Advance::Ended(end)),
            State::Run(turning) => self.run(turning, clock),
            State::Acquire | State::Contested(_) | State::Fenced(_) | State::Pause(..)
                if self.stops =>
            {
                self.ended(LaneEnd::Stopped, now)
            }
            State::Acquire => self.acquire(now),
            // A clock that was set back does not make the pause longer.
            State::Pause(from, until) if (from..until).contains(&now) => {
                (State::Pause(from, until), Advance::Wait(Some(until)))
            }
            State::Pause(..) => (State::Acquire, Advance::Again),
            State::Contested(asked) => self.look_for_leader(asked, now),
            State::Fenced(watch) => self.look_for_successor(watch, now),
        };
        self.state = state;
        advance
    }

    fn take_commands(&mut self, now: ProcessingTime) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                LaneCommand::Stop => self.stop(now),
                LaneCommand::Timers { limit, reply } => self.tell_timers(limit, &reply),
                LaneCommand::Checkpoint { reply } => match &mut self.checkpointing {
                    Some(checkpointing) => checkpointing.trigger(reply),
                    None => drop(reply),
                },
                LaneCommand::Switch { revision, switch, share } => {
                    self.switch(revision, switch, share);
                }
            }
        }
    }

    fn stop(&mut self, now: ProcessingTime) {
        self.stops = true;
        if let State::Run(turning) = &mut self.state {
            turning.close();
        }
        self.port.show(|view| view.enter(Phase::Stopping, now));
    }

    fn tell_timers(&mut self, limit: usize, reply: &Sender<Vec<(TimerDomain, Timer)>>) {
        let timers = match &mut self.state {
            State::Run(turning) => turning.lane_mut().timers_next(limit),
            State::Acquire
            | State::Contested(_)
            | State::Fenced(_)
            | State::Pause(..)
            | State::Ended(_) => Ok(Vec::new()),
        };
        // A failing store is met again by the lane itself.
        if reply.try_send(timers.unwrap_or_default()).is_err() {
            tracing::debug!("nobody waits for the timers any more");
        }
    }

    fn switch(&mut self, revision: Arc<dyn Revision>, switch: Box<PluginSwitch>, share: SwapShare) {
        self.switching = Some((revision, share));
        match &mut self.state {
            State::Run(turning) => turning.switch(switch),
            State::Acquire
            | State::Contested(_)
            | State::Fenced(_)
            | State::Pause(..)
            | State::Ended(_) => {
                self.take_over_revision();
            }
        }
    }

    fn acquire(&mut self, now: ProcessingTime) -> (State, Advance) {
        self.port.show(|view| view.enter(Phase::Acquiring, now));
        self.attempt = (self.attempts)();
        let port = Arc::clone(&self.port);
        let mut progress = |_| port.beat_again();
        let identity = lock(&self.port.identity).clone();
        let before = Predecessor { store: self.store.take(), identity };
        let acquired =
            acquire(&mut self.parts, &self.pipeline, before, self.attempt, now, &mut progress);
        match acquired {
            Ok(acquired) => (self.acquired(acquired, now), Advance::Again),
            Err(error) => self.not_acquired(error, now),
        }
    }

    fn acquired(&mut self, acquired: Acquired, now: ProcessingTime) -> State {
        tracing::info!(
            pipeline = self.names.pipeline,
            lane = self.parts.lane.0,
            epoch = acquired.lane.epoch().map(|epoch| epoch.0),
            replayed = acquired.replayed,
            "the lane is acquired"
        );
        self.journal_next = Some(acquired.journal_next);
        self.shows = (now, now.saturating_add(SHOW_OWNERSHIP_AFTER));
        *lock(&self.port.identity) = Some(acquired.identity);
        if let Some(checkpointing) = &mut self.checkpointing {
            checkpointing.acquired(acquired.checkpoint, now);
        }
        self.show_checkpoints();
        let turning = LaneLoop::new(acquired.lane, self.parts.sources.clone());
        let owner = (self.pipeline.owner.clone(), self.attempt);
        self.port.show(|view| {
            view.owner = Some(owner);
            view.enter(Phase::Running, now);
        });
        self.show(&turning, now);
        if let Some(reason) = bootstrap_reason(&lock(&self.port.view), &self.names) {
            tracing::info!("{}", reason.message);
        }
        State::Run(Box::new(turning))
    }

    fn not_acquired(&mut self, error: AcquireError, now: ProcessingTime) -> (State, Advance) {
        let message = error.to_string();
        match error {
            AcquireError::Log(error) => self.doubt(error, now),
            AcquireError::Store(error) => self.store_failed(&error, now),
            AcquireError::Halt(_) => self.fatal(FatalKind::Rule, message, now),
            AcquireError::Identity(_) | AcquireError::Open(_) => {
                self.fatal(FatalKind::Configuration, message, now)
            }
        }
    }

    fn run(&mut self, mut turning: Box<LaneLoop>, clock: &mut dyn Clock) -> (State, Advance) {
        self.show_ownership(&mut turning, clock.read());
        let outcome =
            tick(&mut turning, self.parts.log.as_mut(), self.parts.decoder.as_mut(), clock);
        let now = clock.read();
        self.publish(&mut turning, now);
        self.finish_switch(&turning);
        if matches!(outcome, TickOutcome::Again | TickOutcome::Idle { .. }) {
            self.turn_checkpoints(&mut turning, now);
        }
        match outcome {
            TickOutcome::Again => (State::Run(turning), Advance::Again),
            TickOutcome::Idle { until } => {
                let show_at = self.is_stale.then(|| self.show_at());
                let shows_at = self.claim_to_prove().map(|_| self.shows.1);
                let until = until.into_iter().chain(show_at).chain(shows_at).min();
                (State::Run(turning), Advance::Wait(until))
            }
            TickOutcome::Closed => self.close(*turning, LaneEnd::Stopped, now),
            TickOutcome::Finished => self.close(*turning, LaneEnd::Finished, now),
            TickOutcome::Stop(StopCause::Store(error)) => {
                self.take_over_revision();
                // The store must be gone before it is opened again.
                drop(turning);
                self.store_failed(&error, now)
            }
            TickOutcome::Stop(StopCause::DeadLetterFlood {
                dead_letters,
                records,
                percent_max,
                reason,
                message,
            }) => {
                self.store = Some(turning.into_lane().into_store());
                self.fatal(
                    FatalKind::Rule,
                    format!(
                        "{dead_letters} of the {records} records of the last 10 s became dead \
                         letters, more than the {percent_max} % of `dead_letters.max_rate`; most of \
                         all are {}, the last with: {message}. Mend the cause, or allow more",
                        reason.name()
                    ),
                    now,
                )
            }
            TickOutcome::Doubt(error) => {
                self.take_over_revision();
                self.store = Some(turning.into_lane().into_store());
                self.doubt(error, now)
            }
        }
    }

    /// Lane 0 commits when another lane asks, and by itself in intervals that double: of two idle
    /// processes that were started together the one that lost it hears of that soon.
    fn show_ownership(&mut self, turning: &mut LaneLoop, now: ProcessingTime) {
        let Some(claim) = self.claim_to_prove() else { return };
        let question = claim.question();
        let (acquired_at, shows_at) = self.shows;
        if now >= shows_at {
            let age = now.saturating_sub(acquired_at).max(SHOW_OWNERSHIP_AFTER);
            self.shows.1 = now.saturating_add(age);
        }
        if question.is_some() || now >= shows_at {
            turning.lane_mut().show_ownership();
        }
        self.proving = question;
    }

    fn publish(&mut self, turning: &mut LaneLoop, now: ProcessingTime) {
        let lane = self.parts.lane.0;
        let committed = std::mem::take(&mut turning.committed);
        let has_committed = !committed.is_empty();
        for Committed { report, journal_next, commit_ms, at } in committed {
            self.journal_next = Some(journal_next);
            if report.inputs.iter().any(|counts| counts.records > 0) || report.timers_fired > 0 {
                self.failure = None;
                self.doubts = 0;
            }
            let descriptor = self.pipeline.revision.descriptor();
            telemetry::publish_report(&self.names, descriptor, &report, commit_ms);
            telemetry::log_plugin_lines(&self.names, lane, &report);
            self.dead_letters.warn(&self.names, lane, &report, at);
            self.keys.observe(&report, at);
            self.port.show(|view| view.count(&report, commit_ms, at));
        }
        self.is_stale |= has_committed;
        if has_committed
            && let Some(question) = self.proving.take()
            && let Some(claim) = self.claim_to_prove()
        {
            claim.prove(question);
        }
        if now >= self.show_at() || now < self.shown_at {
            self.show(turning, now);
        }
        let is_open = turning.lane().has_uncommitted_work();
        self.port.show(|view| {
            if is_open {
                view.open_since.get_or_insert(now);
            } else {
                view.open_since = None;
            }
        });
    }

    /// Returns when what the lane shows is due; asking a store for its size is not free.
    fn show_at(&self) -> ProcessingTime {
        self.shown_at.saturating_add(SHOW_EVERY)
    }

    fn show(&mut self, turning: &LaneLoop, now: ProcessingTime) {
        self.shown_at = now;
        self.is_stale = false;
        let status = turning.lane().status();
        telemetry::publish_status(&self.names, self.parts.lane.0, &status);
        let log = self.parts.log.statistics();
        telemetry::publish_log(&self.names, self.parts.lane.0, &status, &log);
        let last = self.checkpointing.as_ref().and_then(|it| it.view().last.as_ref());
        if let Some(last) = last {
            let age = now.saturating_sub(last.at).max(0);
            telemetry::publish_checkpoint_age(&self.names, self.parts.lane.0, age);
        }
        self.port.show(|view| {
            view.ends = log.ends;
            view.stand(status, now);
        });
    }

    /// Notes that the waiting revision has taken over.
    fn finish_switch(&mut self, turning: &LaneLoop) {
        if !turning.is_switching() {
            self.take_over_revision();
        }
    }

    /// From here on, also after a recovery, the lane runs the revision that it was told to.
    fn take_over_revision(&mut self) {
        let Some((revision, share)) = self.switching.take() else {
            return;
        };
        if let Some(identity) = lock(&self.port.identity).as_ref()
            && let Ok(state_ids) = identity.state_ids(revision.descriptor())
        {
            self.parts.stores.set_expiry(&expiry_of(revision.descriptor(), &state_ids));
        }
        self.pipeline.revision = revision;
        drop(share);
    }

    fn close(&mut self, turning: LaneLoop, end: LaneEnd, now: ProcessingTime) -> (State, Advance) {
        self.show(&turning, now);
        self.store = Some(turning.into_lane().into_store());
        self.ended(end, now)
    }

    /// Ends the lane: what was applied is made durable, so that the next start replays little.
    fn ended(&mut self, end: LaneEnd, now: ProcessingTime) -> (State, Advance) {
        if let Some(mut store) = self.store.take()
            && let Err(error) = store.flush()
        {
            // Nothing is lost: the journal holds it.
            tracing::warn!(lane = self.parts.lane.0, "keyed state was not flushed: {error}");
        }
        let phase = match &end {
            LaneEnd::Finished => Phase::Finished,
            LaneEnd::Stopped => Phase::Stopped,
            LaneEnd::Fatal(_) => Phase::Failed,
        };
        self.port.show(|view| {
            view.enter(phase, now);
            view.open_since = None;
        });
        if let Some(claim) = self.claim_to_prove() {
            claim.end();
        }
        // Nothing is left to switch, and who waits for that is told.
        self.switching = None;
        (State::Ended(end.clone()), Advance::Ended(end))
    }

    fn fatal(&mut self, kind: FatalKind, message: String, now: ProcessingTime) -> (State, Advance) {
        let lane = Some(self.parts.lane);
        self.ended(LaneEnd::Fatal(FatalCause { lane, kind, message }), now)
    }
}
