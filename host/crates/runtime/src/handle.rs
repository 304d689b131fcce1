//! The one way into a running pipeline for the admin API and the command line.
//!
//! Lanes share nothing but what is here: each publishes its view and takes commands between two
//! steps. Holding a handle keeps nothing alive.

mod swapping;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use dovetail_core::{
    epoch::LaneId,
    identity::Identity,
    lane::PluginSwitch,
    log::Waker,
    time::ProcessingTime,
    timers::{Timer, TimerDomain},
};

use crate::{
    bootstrap::bootstrap_reason,
    checkpointing::Triggered,
    clock,
    fatal::FatalCause,
    key_watch::{KeyFindings, KeyWatch},
    reason::ReasonCode,
    revisions::{RevisionEntry, RevisionOrigin, RevisionState, short},
    setup::{Names, PipelineSetup, Revision},
    status::{
        CheckpointShown, LaneView, NotReady, Phase, Readiness, checkpoint_warning, lane_reasons,
        unanswered_reason,
    },
    swap::SwapShare,
    telemetry,
};

/// How long an answer of a lane is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a checkpoint that was asked for is waited for.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a lane's loop may take for one turn, at least, before that is a reason not to be
/// ready, ms: longer than it ever waits.
const STUCK_AFTER: i64 = 3_000;
/// Heartbeat of a lane that no thread drives.
const NEVER: i64 = i64::MAX;

/// Something a lane is asked to do between two steps.
pub enum LaneCommand {
    /// End the epoch, commit, flush and end.
    Stop,
    /// Take over another revision between two epochs.
    Switch {
        /// The revision, for later recoveries.
        revision: Arc<dyn Revision>,
        /// An instance of it, opened and ready.
        switch: Box<PluginSwitch>,
        /// Dropped when it has taken over.
        share: SwapShare,
    },
    /// Take a checkpoint at the next opportunity.
    Checkpoint {
        /// Where to tell what was published; dropped where there is no checkpoint store.
        reply: Triggered,
    },
    /// Tell the timers that fire next.
    Timers {
        /// How many at most.
        limit: usize,
        /// Where to.
        reply: Sender<Vec<(TimerDomain, Timer)>>,
    },
}

/// One lane's side of the handle.
pub struct LanePort {
    /// The lane.
    pub lane: LaneId,
    pub(crate) view: Mutex<LaneView>,
    pub(crate) identity: Mutex<Option<Identity>>,
    /// When its loop last turned, ms of the wall clock; [`NEVER`] while no thread drives it.
    heartbeat: AtomicI64,
    commands: Sender<LaneCommand>,
    waker: Waker,
    /// Raised with [`LaneCommand::Stop`]: heard where no command is taken.
    pub(crate) stopping: Arc<AtomicBool>,
}

impl fmt::Debug for LanePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LanePort").field("lane", &self.lane).finish_non_exhaustive()
    }
}

impl LanePort {
    /// Returns a lane's side and where it receives its commands.
    #[must_use]
    pub fn new(
        lane: LaneId,
        waker: Waker,
        now: ProcessingTime,
    ) -> (Arc<Self>, Receiver<LaneCommand>) {
        let (commands, receiver) = bounded(64);
        let port = Self {
            lane,
            view: Mutex::new(LaneView::new(lane, now)),
            identity: Mutex::new(None),
            heartbeat: AtomicI64::new(NEVER),
            commands,
            waker,
            stopping: Arc::default(),
        };
        (Arc::new(port), receiver)
    }

    /// Notes that the lane's thread turns its loop now.
    pub(crate) fn beat(&self) {
        self.heartbeat.store(clock::now(), Ordering::Relaxed);
    }

    /// Notes that a long recovery goes on, where a thread drives the lane.
    pub(crate) fn beat_again(&self) {
        if self.heartbeat.load(Ordering::Relaxed) != NEVER {
            self.beat();
        }
    }

    /// Returns how long ago the lane's loop turned, ms.
    fn age(&self, now: ProcessingTime) -> i64 {
        now.saturating_sub(self.heartbeat.load(Ordering::Relaxed)).max(0)
    }

    /// Changes what the lane shows.
    pub(crate) fn show<T>(&self, change: impl FnOnce(&mut LaneView) -> T) -> T {
        change(&mut lock(&self.view))
    }

    /// Asks the lane for something; false when it has ended.
    fn ask(&self, command: LaneCommand) -> bool {
        let taken = self.commands.send_timeout(command, ANSWER_TIMEOUT).is_ok();
        (self.waker)();
        taken
    }

    fn has_ended(&self) -> bool {
        let phase = lock(&self.view).phase;
        matches!(phase, Phase::Finished | Phase::Stopped | Phase::Failed)
    }
}

struct Shared {
    names: Names,
    identity: Identity,
    commit_every: i64,
    /// Why the journal is not trimmed behind checkpoints.
    untrimmed: Option<String>,
    lanes: Vec<Arc<LanePort>>,
    keys: Arc<KeyWatch>,
    revisions: Mutex<Vec<RevisionEntry>>,
    /// One swap at a time.
    swapping: Mutex<()>,
    fatal: Mutex<Option<FatalCause>>,
    draining: AtomicBool,
    started_at: ProcessingTime,
}

/// A running pipeline, seen from outside. Cloning is cheap.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.0.names.pipeline).finish()
    }
}

impl Handle {
    /// Returns the handle of a pipeline over these lanes.
    #[must_use]
    pub fn new(setup: &PipelineSetup, lanes: Vec<Arc<LanePort>>, keys: Arc<KeyWatch>) -> Self {
        let names = setup.names();
        let digest = setup.revision.digest().to_owned();
        telemetry::publish_revision(&names, &digest, &digest);
        let first = RevisionEntry {
            digest,
            at: clock::now(),
            origin: RevisionOrigin::Start,
            state: RevisionState::Active,
        };
        Self(Arc::new(Shared {
            names,
            identity: setup.identity.clone(),
            commit_every: setup.options.commit.every,
            untrimmed: setup.untrimmed.clone(),
            lanes,
            keys,
            revisions: Mutex::new(vec![first]),
            swapping: Mutex::new(()),
            fatal: Mutex::new(None),
            draining: AtomicBool::new(false),
            started_at: clock::now(),
        }))
    }

    /// Returns the names of the configuration.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.0.names
    }

    /// Returns the identity of this start, which is the committed one.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Returns the outputs in the order of their counts: those of the plugin, and `late` where the
    /// host writes to it.
    #[must_use]
    pub fn outputs(&self) -> Vec<String> {
        self.0.names.outputs.clone()
    }

    /// Returns when the pipeline was started, ms.
    #[must_use]
    pub fn started_at(&self) -> ProcessingTime {
        self.0.started_at
    }

    /// Returns what every lane shows.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneView> {
        self.0.lanes.iter().map(|port| lock(&port.view).clone()).collect()
    }

    /// Returns why the pipeline is not ready, and what an operator should know.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let now = clock::now();
        let mut readiness = Readiness::default();
        let mut add = |code, message| {
            readiness.reasons.push(NotReady { code, lane: None, message });
        };
        if let Some(cause) = self.fatal() {
            add(ReasonCode::Fatal, cause.to_string());
        }
        if self.is_draining() {
            add(ReasonCode::Draining, "the pipeline is stopping".to_owned());
        }
        let findings = self.0.keys.findings();
        if let Some(newest) = findings.violations.back() {
            add(
                ReasonCode::Copartition,
                format!("{newest} ({} such records)", findings.violation_count),
            );
        }
        // A commit or a call that hangs shows in nothing that the lane itself can publish.
        let limit = self.0.commit_every.saturating_mul(10).max(STUCK_AFTER);
        for port in self.0.lanes.iter().filter(|port| lock(&port.view).phase == Phase::Running) {
            let age = port.age(now);
            if age > limit {
                let lane = port.lane;
                let message = format!(
                    "lane {} has been in one commit or plugin call for {age} ms; expected within \
                     {limit} ms",
                    lane.0
                );
                readiness.reasons.push(NotReady {
                    code: ReasonCode::EpochOpen,
                    lane: Some(lane),
                    message,
                });
            }
        }
        for view in self.lanes() {
            readiness.reasons.extend(lane_reasons(&view, self.0.commit_every, now));
            readiness.reasons.extend(unanswered_reason(&view, &self.0.names, now));
            readiness.reasons.extend(bootstrap_reason(&view, &self.0.names));
            readiness.warnings.extend(checkpoint_warning(&view, now));
            let untrimmed = view.checkpoints.and_then(|checkpoints| checkpoints.untrimmed);
            readiness.warnings.extend(untrimmed.map(|why| format!("lane {}: {why}", view.lane.0)));
        }
        readiness.warnings.extend(findings.nothing_matched);
        readiness.warnings.extend(self.0.untrimmed.clone());
        readiness
    }

    /// Returns what was found about the inputs' keys.
    #[must_use]
    pub fn key_findings(&self) -> KeyFindings {
        self.0.keys.findings()
    }

    /// Returns how long ago the slowest lane's loop turned, in ms; 0 when all have ended.
    #[must_use]
    pub fn slowest_heartbeat(&self) -> i64 {
        let now = clock::now();
        let running = self.0.lanes.iter().filter(|port| !port.has_ended());
        running.map(|port| port.age(now)).max().unwrap_or(0)
    }

    /// Returns the timers that fire next, of all lanes, by domain and time.
    #[must_use]
    pub fn timers_next(&self, limit: usize) -> Vec<(LaneId, TimerDomain, Timer)> {
        let mut replies = Vec::new();
        for port in self.0.lanes.iter().filter(|port| !port.has_ended()) {
            let (reply, answer) = bounded(1);
            if port.ask(LaneCommand::Timers { limit, reply }) {
                replies.push((port.lane, answer));
            }
        }
        let mut timers = Vec::new();
        for (lane, answer) in replies {
            let answered = answer.recv_timeout(ANSWER_TIMEOUT).unwrap_or_default();
            timers.extend(answered.into_iter().map(|(domain, timer)| (lane, domain, timer)));
        }
        timers.sort_by(|a, b| (a.1, &a.2).cmp(&(b.1, &b.2)));
        timers.truncate(limit);
        timers
    }

    /// Lets every lane take a checkpoint and waits for what became of each.
    #[must_use]
    pub fn checkpoint(&self) -> Vec<(LaneId, Result<CheckpointShown, String>)> {
        let mut replies = Vec::new();
        for port in self.0.lanes.iter().filter(|port| !port.has_ended()) {
            let (reply, answer) = bounded(1);
            if port.ask(LaneCommand::Checkpoint { reply }) {
                replies.push((port.lane, answer));
            }
        }
        let deadline = Instant::now() + CHECKPOINT_TIMEOUT;
        let result = |answer: &Receiver<_>| match answer.recv_deadline(deadline) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(format!(
                "it is not there after {} s; it goes on and shows in the status",
                CHECKPOINT_TIMEOUT.as_secs()
            )),
            Err(RecvTimeoutError::Disconnected) => Err("this lane takes no checkpoints: \
                 `checkpoint.store` is not set, or the lane has ended"
                .to_owned()),
        };
        replies.iter().map(|(lane, answer)| (*lane, result(answer))).collect()
    }

    /// Asks every lane to end its epoch, commit, flush and end. Returns at once.
    pub fn stop(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
        for port in &self.0.lanes {
            port.stopping.store(true, Ordering::Relaxed);
        }
        for port in &self.0.lanes {
            port.ask(LaneCommand::Stop);
        }
    }

    /// Returns whether the pipeline is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::SeqCst)
    }

    /// Returns the first fatal cause.
    #[must_use]
    pub fn fatal(&self) -> Option<FatalCause> {
        lock(&self.0.fatal).clone()
    }

    /// Keeps the first fatal cause and stops all lanes.
    pub(crate) fn fail(&self, cause: FatalCause) {
        lock(&self.0.fatal).get_or_insert(cause);
        self.stop();
    }

    /// Returns the revisions that were seen, oldest first.
    #[must_use]
    pub fn revisions(&self) -> Vec<RevisionEntry> {
        lock(&self.0.revisions).clone()
    }

    /// Returns the digest of the running revision.
    #[must_use]
    pub fn running_revision(&self) -> String {
        let revisions = lock(&self.0.revisions);
        let running = revisions.iter().rev().find(|entry| entry.state == RevisionState::Active);
        running.map(|entry| entry.digest.clone()).unwrap_or_default()
    }

    /// Notes that a revision did not pass the gate.
    pub fn refuse(&self, digest: &str, origin: RevisionOrigin, reason: String) {
        let running = self.running_revision();
        tracing::error!(
            pipeline = self.0.names.pipeline,
            digest,
            "the plugin revision is refused and {} goes on: {reason}",
            short(&running)
        );
        telemetry::publish_reload(&self.0.names, "refused", &running, &running);
        self.note(digest, origin, RevisionState::Refused(reason));
    }
}

/// Locks, also after a panic of another holder: what is guarded here is valid after every
/// statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
