//! The checkpointer's thread: does the lanes' jobs, one after the other, off the commit path.
//!
//! Invariant: it ends by itself when no lane can send any more, and gives up what it is doing when
//! the pipeline stops.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use dovetail_core::{
    checkpoint::{Frozen, Manifest},
    epoch::LaneId,
    identity::Identity,
    log::{Trimmer, Waker},
    time::ProcessingTime,
};

use crate::{
    checkpoint::{HashCache, TidyError, UploadContext, UploadError, Uploaded, tidy, upload},
    clock,
    setup::CheckpointSetup,
};

/// How long the end of a job is waited for when the pipeline stops: a store that does not answer
/// must not keep the process.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// What is to be done for a lane.
pub enum Task {
    /// Upload and publish.
    Upload {
        /// The frozen state.
        frozen: Box<dyn Frozen>,
        /// The committed identity.
        identity: Identity,
        /// What this process has published for the lane, newest first.
        published: Arc<Vec<Manifest>>,
    },
    /// Remove what is not needed any more.
    Tidy {
        /// What this process has published for the lane, newest first.
        published: Arc<Vec<Manifest>>,
        /// Trims the journal, where it may be.
        trimmer: Option<Trimmer>,
    },
}

/// One task with whom to answer.
pub struct Job {
    /// The lane.
    pub lane: LaneId,
    /// Which acquisition of it: files of one do not change their names' content.
    pub incarnation: u64,
    /// What to do.
    pub task: Task,
    /// Where and how.
    pub setup: CheckpointSetup,
    /// Where the answer goes.
    pub answers: Sender<Answer>,
    /// Wakes the lane.
    pub waker: Waker,
}

/// What became of a task.
#[derive(Debug)]
pub enum Answer {
    /// Of an upload, and how long it took, ms.
    Uploaded(Result<Box<Uploaded>, UploadError>, i64),
    /// Of tidying.
    Tidied(Result<(), TidyError>),
}

/// Does jobs; keeps hashes between them.
#[derive(Debug, Default)]
pub struct Worker {
    hashes: BTreeMap<LaneId, (u64, HashCache)>,
}

impl Worker {
    /// Does a job and answers; `now` tells the time in ms, `stopping` ends an upload early.
    pub fn work(
        &mut self,
        job: Job,
        now: &dyn Fn() -> ProcessingTime,
        stopping: &dyn Fn() -> bool,
    ) {
        let Job { lane, incarnation, task, setup, answers, waker } = job;
        let grace = setup.grace.max(setup.timeout.saturating_mul(3));
        let answer = match task {
            Task::Upload { mut frozen, identity, published } => {
                let begun = now();
                let give_up = || match now().saturating_sub(begun) > setup.timeout {
                    _ if stopping() => Some(UploadError::Stopped),
                    true => {
                        let store = setup.store.place().to_owned();
                        Some(UploadError::Timeout { store, ms: setup.timeout })
                    }
                    false => None,
                };
                let context = UploadContext {
                    lane,
                    identity: &identity,
                    published: &published,
                    now: begun,
                    grace,
                    give_up: &give_up,
                };
                let known = self.hashes.entry(lane).or_default();
                if known.0 != incarnation {
                    *known = (incarnation, HashCache::default());
                }
                let store = setup.store.as_ref();
                let uploaded = upload(store, frozen.as_mut(), &mut known.1, &context);
                Answer::Uploaded(uploaded.map(Box::new), now().saturating_sub(begun).max(0))
            }
            Task::Tidy { published, trimmer } => {
                let how = (setup.keep, now(), grace);
                let trim = trimmer.map(|trimmer| trim(&setup, &published, trimmer));
                let trim = trim.as_ref().map(|trim| trim as &dyn Fn(i64) -> _);
                Answer::Tidied(tidy(setup.store.as_ref(), lane, &published, how, trim))
            }
        };
        // A lane that has ended needs no answer.
        drop(answers.send(answer));
        waker();
    }
}

/// Returns what trims the journal where nobody objects.
fn trim(
    setup: &CheckpointSetup,
    published: &[Manifest],
    trimmer: Trimmer,
) -> impl Fn(i64) -> Result<(), TidyError> {
    move |before| {
        if let (Some(ask), Some(newest)) = (&setup.before_trim, published.first()) {
            ask(&newest.identity).map_err(TidyError::Objection)?;
        }
        Ok(trimmer(before)?)
    }
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    stopping: Arc<AtomicBool>,
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Starts the thread for so many lanes, none of which has to wait to send its one job; it ends
    /// when every clone of the sender is gone.
    pub(crate) fn spawn(lanes: usize) -> io::Result<(Self, Sender<Job>)> {
        let (jobs, receiver) = bounded::<Job>(lanes.max(1));
        let (end, ended) = bounded::<()>(0);
        let stopping = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopping);
        let thread =
            std::thread::Builder::new().name("checkpoints".to_owned()).spawn(move || {
                let mut worker = Worker::default();
                for job in receiver {
                    worker.work(job, &clock::now, &|| flag.load(Ordering::Relaxed));
                }
                // Tells whoever waits for the end.
                drop(end);
            })?;
        Ok((Self { stopping, ended, thread }, jobs))
    }

    /// Ends it, all senders being gone; a store that hangs is left behind.
    pub(crate) fn end(self) {
        self.stopping.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + END_PATIENCE;
        if self.ended.recv_deadline(deadline) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the checkpoint store does not answer; its last upload is left behind");
            return;
        }
        if self.thread.join().is_err() {
            tracing::error!("the checkpointer has panicked");
        }
    }
}
