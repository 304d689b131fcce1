//! The checkpointer of a process: in production a thread of its own.

use std::sync::{Arc, MutexGuard};

use crossbeam_channel::{Receiver, Sender, bounded};
use dovetail_runtime::checkpointer::{Job, Worker};

use crate::{
    workload::BASE,
    world::{Process, Shared, World},
};

/// Jobs, and who does them.
pub struct Desk {
    jobs: Receiver<Job>,
    /// Absent while at work.
    worker: Option<Worker>,
}

impl Desk {
    /// Returns the desk of a process, and where its lanes send their jobs.
    #[must_use]
    pub fn new(lanes: u16) -> (Self, Sender<Job>) {
        let (sender, jobs) = bounded(usize::from(lanes).max(1));
        (Self { jobs, worker: Some(Worker::default()) }, sender)
    }

    /// Returns whether a job waits for a worker that waits.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.worker.is_some() && !self.jobs.is_empty()
    }

    /// Returns whether a job waits or is being done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.worker.is_none() || !self.jobs.is_empty()
    }
}

/// Does a process's next job; the world is released meanwhile.
pub(crate) fn run_checkpointer(mut world: MutexGuard<'_, World>, shared: &Arc<Shared>, at: usize) {
    let incarnation = world.machines[at].incarnation;
    let Some(desk) = &mut world.machines[at].desk else { return };
    let Ok(job) = desk.jobs.try_recv() else { return };
    let Some(mut worker) = desk.worker.take() else { return };
    drop(world);
    let process = Process { machine: at, incarnation };
    worker.work(job, &|| BASE + shared.now(), &|| !shared.is_alive(process));
    let mut world = shared.lock();
    if world.is_alive(process)
        && let Some(desk) = &mut world.machines[at].desk
    {
        desk.worker = Some(worker);
        world.wake(at);
        return;
    }
    drop(world);
    drop(worker);
}
