//! One lane's checkpoints while it runs: when one is due, and what became of the last.
//!
//! The lane's thread freezes its state between two epochs and hands it over; uploading, trimming
//! and collecting happen on the checkpointer's thread ([`crate::checkpointer`]), which answers. A
//! failure is told, counted and tried again after the next interval: commits never wait for it.
//!
//! Invariant: at most one job of a lane is on its way, and each is answered.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use dovetail_core::{
    checkpoint::Manifest,
    epoch::{Epoch, LaneId},
    identity::Identity,
    lane::Lane,
    log::{Trimmer, Waker},
    time::ProcessingTime,
};

use crate::{
    checkpoint::{TidyError, Uploaded, trace_step},
    checkpointer::{Answer, Job, Task},
    setup::{CheckpointSetup, Names},
    status::{CheckpointShown, CheckpointView},
    telemetry,
};

/// The first checkpoint after an acquisition comes when a tenth of the interval is over, so that a
/// restarted pipeline is soon safe and lanes do not all wait for the same moment.
const FIRST_PART: i64 = 10;
/// How many of its own checkpoints a lane remembers, at least.
const REMEMBERED_MIN: usize = 2;

/// Who waits for a checkpoint that was asked for: what was published, or why nothing was.
pub type Triggered = Sender<Result<CheckpointShown, String>>;

#[derive(Debug, Default)]
enum Stage {
    /// Nothing is on its way.
    #[default]
    Idle,
    /// The store was asked to freeze, first or again after a failure at that time.
    Freezing(ProcessingTime),
    /// A job is on its way, since then.
    Working,
}

/// The checkpoints of one lane.
pub(crate) struct Checkpointing {
    lane: LaneId,
    names: Names,
    setup: CheckpointSetup,
    jobs: Sender<Job>,
    answers: (Sender<Answer>, Receiver<Answer>),
    trimmer: Option<Trimmer>,
    waker: Waker,
    stage: Stage,
    due_at: ProcessingTime,
    /// The epoch of the last one that was published.
    published_epoch: Option<Epoch>,
    /// Of this process, newest first.
    published: Arc<Vec<Manifest>>,
    /// Rises with each acquisition: hashes of files are kept no longer.
    incarnation: u64,
    /// Bytes that the lane had written to its journal when the job on its way was frozen.
    frozen_at_bytes: u64,
    /// Who waits for the next one that is frozen.
    waiting: Vec<Triggered>,
    /// Who waits for the job on its way: they asked before it was frozen.
    answered_next: Vec<Triggered>,
    view: CheckpointView,
}

impl Checkpointing {
    pub(crate) fn new(
        lane: LaneId,
        names: Names,
        setup: CheckpointSetup,
        jobs: Sender<Job>,
        (trimmer, waker): (Option<Trimmer>, Waker),
    ) -> Self {
        let view = CheckpointView::new(setup.store.place().to_owned(), setup.every);
        Self {
            lane,
            names,
            setup,
            jobs,
            answers: bounded(1),
            trimmer,
            waker,
            stage: Stage::default(),
            due_at: i64::MIN,
            published_epoch: None,
            published: Arc::default(),
            incarnation: 0,
            frozen_at_bytes: 0,
            waiting: Vec::new(),
            answered_next: Vec::new(),
            view,
        }
    }

    /// The lane was acquired: its store may be another one, and so may its history. `found` is the
    /// newest checkpoint that was there.
    pub(crate) fn acquired(&mut self, found: Option<CheckpointShown>, now: ProcessingTime) {
        self.view.found = found;
        self.incarnation += 1;
        if matches!(self.stage, Stage::Freezing(_)) {
            self.stage = Stage::Idle;
        }
        let first = now.saturating_add(self.setup.every / FIRST_PART);
        self.due_at = if self.incarnation == 1 { first } else { self.due_at.min(first) };
    }

    /// Takes one at the next opportunity: what it holds is no older than this call.
    pub(crate) fn trigger(&mut self, reply: Triggered) {
        self.waiting.push(reply);
        self.due_at = i64::MIN;
    }

    /// Returns what is shown.
    pub(crate) fn view(&self) -> &CheckpointView {
        &self.view
    }

    /// Goes on, between two turns of a running lane; `identity` is the committed one and
    /// `journal_bytes` what the lane has written to its journal. Returns whether what is shown has
    /// changed.
    pub(crate) fn turn(
        &mut self,
        lane: &mut Lane,
        identity: Option<&Identity>,
        journal_bytes: u64,
        now: ProcessingTime,
    ) -> bool {
        let mut has_changed = false;
        while let Ok(answer) = self.answers.1.try_recv() {
            has_changed = true;
            self.take(answer, now);
        }
        let (Some(epoch), Some(identity)) = (lane.epoch(), identity) else { return has_changed };
        if matches!(self.stage, Stage::Idle) && now >= self.due_at {
            if self.published_epoch == Some(epoch) {
                // Nothing was committed since.
                self.due_at = now.saturating_add(self.setup.every);
                self.answered_next.append(&mut self.waiting);
                self.reply_with_last();
                return true;
            }
            self.stage = Stage::Freezing(now);
            // Who asks from here on wants a later one.
            self.answered_next.append(&mut self.waiting);
            trace_step(self.lane, "freezing");
        }
        if let Stage::Freezing(since) = self.stage {
            has_changed |= self.freeze(lane, (identity, journal_bytes), since, now);
        }
        has_changed
    }

    /// Asks for the frozen state; returns whether there is an answer.
    fn freeze(
        &mut self,
        lane: &mut Lane,
        (identity, journal_bytes): (&Identity, u64),
        since: ProcessingTime,
        now: ProcessingTime,
    ) -> bool {
        match lane.freeze() {
            Ok(None) if now.saturating_sub(since) <= self.setup.timeout => return false,
            Ok(None) => {
                let ms = self.setup.timeout;
                self.answered_next.append(&mut self.waiting);
                self.failed(&format!("keyed state was not written to files within {ms} ms"), now);
                // The store is still at it, and gives no other before this one.
                self.stage = Stage::Freezing(now);
            }
            Ok(Some(frozen)) => {
                self.frozen_at_bytes = journal_bytes;
                let (identity, published) = (identity.clone(), Arc::clone(&self.published));
                self.send(Task::Upload { frozen, identity, published }, now);
            }
            Err(error) => {
                self.failed(&error.to_string(), now);
                // A lane without work would not notice that its store takes no more epochs, and it
                // is opened again only then.
                lane.show_ownership();
            }
        }
        true
    }

    fn send(&mut self, task: Task, now: ProcessingTime) {
        let job = Job {
            lane: self.lane,
            incarnation: self.incarnation,
            task,
            setup: self.setup.clone(),
            answers: self.answers.0.clone(),
            waker: Arc::clone(&self.waker),
        };
        self.stage = Stage::Working;
        self.view.working_since = Some(now);
        if self.jobs.send(job).is_err() {
            self.failed("the checkpointer has ended", now);
        }
    }

    fn take(&mut self, answer: Answer, now: ProcessingTime) {
        match answer {
            Answer::Uploaded(Ok(uploaded), ms) => self.published(*uploaded, ms, now),
            Answer::Uploaded(Err(error), _) => self.failed(&error.to_string(), now),
            Answer::Tidied(result) => {
                self.stage = Stage::Idle;
                self.view.working_since = None;
                self.view.untrimmed = match &result {
                    Err(TidyError::Objection(why)) => Some(why.clone()),
                    Ok(()) | Err(_) => None,
                };
                if let Err(error) = result {
                    // The checkpoint itself is there: what is too much goes the next time.
                    tracing::warn!(
                        pipeline = self.names.pipeline,
                        lane = self.lane.0,
                        "behind the last checkpoint nothing was removed: {error}"
                    );
                }
            }
        }
    }

    fn published(&mut self, uploaded: Uploaded, ms: i64, now: ProcessingTime) {
        let Uploaded { manifest, new_bytes } = uploaded;
        let shown = CheckpointShown {
            name: manifest.id.to_string(),
            epoch: manifest.id.epoch.0,
            at: manifest.created_at,
            bytes: manifest.bytes(),
            new_bytes,
            ms,
        };
        tracing::debug!(lane = self.lane.0, "checkpoint {} is published", shown.name);
        telemetry::publish_checkpoint(&self.names, self.lane.0, &shown);
        if self.view.failures > 0 {
            let (store, failures) = (self.setup.store.place(), self.view.failures);
            tracing::info!(lane = self.lane.0, "{store} takes checkpoints again, after {failures}");
        }
        self.view.failures = 0;
        self.view.last_error = None;
        self.view.last = Some(shown);
        self.view.journal_mark = Some(self.frozen_at_bytes);
        self.published_epoch = Some(manifest.id.epoch);
        let remembered = self.setup.keep.max(REMEMBERED_MIN);
        let mut published = vec![manifest];
        published.extend(self.published.iter().take(remembered - 1).cloned());
        self.published = Arc::new(published);
        self.due_at = self.next_due(now);
        self.reply_with_last();
        let published = Arc::clone(&self.published);
        self.send(Task::Tidy { published, trimmer: self.trimmer.clone() }, now);
    }

    fn failed(&mut self, why: &str, now: ProcessingTime) {
        self.stage = Stage::Idle;
        self.view.working_since = None;
        self.view.failures += 1;
        self.view.last_error = Some(why.to_owned());
        self.due_at = self.next_due(now);
        telemetry::publish_checkpoint_failure(&self.names);
        tracing::warn!(
            pipeline = self.names.pipeline,
            lane = self.lane.0,
            failures = self.view.failures,
            "no checkpoint was taken, the lane goes on: {why}"
        );
        for reply in self.answered_next.drain(..) {
            // Whoever asked may have gone.
            drop(reply.try_send(Err(why.to_owned())));
        }
    }

    /// Returns when the next one is due: at once for those who asked while the last was on its way.
    fn next_due(&self, now: ProcessingTime) -> ProcessingTime {
        if self.waiting.is_empty() { now.saturating_add(self.setup.every) } else { i64::MIN }
    }

    fn reply_with_last(&mut self) {
        let Some(last) = &self.view.last else { return };
        for reply in self.answered_next.drain(..) {
            // Whoever asked may have gone.
            drop(reply.try_send(Ok(last.clone())));
        }
    }
}
