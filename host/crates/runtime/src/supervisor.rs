//! Starts the lanes of a pipeline and collects how they end.
//!
//! Invariant: the first fatal cause stops every lane; a pipeline has ended when all lanes have.

use std::{io, sync::Arc, thread::JoinHandle};

use crossbeam_channel::{Receiver, bounded};
use dovetail_core::epoch::LaneId;

use crate::{
    checkpointer::Checkpointer,
    claim::Claim,
    clock,
    driver::{LaneDriver, LaneEnd},
    fatal::FatalCause,
    handle::{Handle, LanePort},
    key_watch::KeyWatch,
    lane_thread,
    setup::{LaneSetup, PipelineSetup},
};

/// How a pipeline ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipelineEnd {
    /// Every input has ended and everything is committed.
    Finished,
    /// It was asked to stop.
    Stopped,
    /// It had to stop.
    Failed(FatalCause),
}

impl PipelineEnd {
    /// Returns the exit code of the process.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Finished | Self::Stopped => 0,
            Self::Failed(cause) => cause.exit_code(),
        }
    }
}

/// The running lanes of a pipeline.
#[derive(Debug)]
pub struct Supervisor {
    handle: Handle,
    ends: Receiver<(LaneId, LaneEnd)>,
    threads: Vec<JoinHandle<()>>,
    checkpointer: Option<Checkpointer>,
}

impl Supervisor {
    /// Starts every lane on a thread of its own.
    ///
    /// # Errors
    ///
    /// When the system gives no thread; lanes that were started are stopped again.
    pub fn start(setup: &PipelineSetup, lanes: Vec<LaneSetup>) -> io::Result<Self> {
        let keys = Arc::new(KeyWatch::new(setup.names()));
        let claim = Arc::new(Claim::default());
        let now = clock::now();
        let (checkpointer, jobs) = match &setup.checkpoints {
            Some(_) => {
                Checkpointer::spawn(lanes.len()).map(|(thread, jobs)| (Some(thread), Some(jobs)))?
            }
            None => (None, None),
        };
        let mut drivers = Vec::new();
        let mut ports = Vec::new();
        for parts in lanes {
            let (port, commands) = LanePort::new(parts.lane, parts.log.waker(), now);
            ports.push(Arc::clone(&port));
            let attempts = clock::random_attempts();
            let keys = Arc::clone(&keys);
            let lane = parts.lane;
            let mut driver =
                LaneDriver::new(parts, setup.clone(), (port, commands), keys, attempts)
                    .with_claim(Arc::clone(&claim));
            if let Some(jobs) = jobs.clone() {
                driver = driver.with_checkpointer(jobs);
            }
            drivers.push((lane, driver));
        }
        let handle = Handle::new(setup, ports, keys);
        let (sender, ends) = bounded(drivers.len().max(1));
        let mut threads = Vec::new();
        for (lane, driver) in drivers {
            match lane_thread::spawn(lane, driver, sender.clone()) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    handle.stop();
                    return Err(error);
                }
            }
        }
        Ok(Self { handle, ends, threads, checkpointer })
    }

    /// Returns the handle for admin and command line.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until every lane has ended. The first fatal cause stops the others.
    #[must_use]
    pub fn join(self) -> PipelineEnd {
        let mut all_finished = true;
        for _ in 0..self.threads.len() {
            let Ok((lane, end)) = self.ends.recv() else {
                break;
            };
            all_finished &= end == LaneEnd::Finished;
            match end {
                LaneEnd::Finished => tracing::info!(lane = lane.0, "every input has ended"),
                LaneEnd::Stopped => tracing::info!(lane = lane.0, "the lane has stopped"),
                LaneEnd::Fatal(cause) => {
                    // The first one is returned, and told by whoever asked.
                    if self.handle.fatal().is_some() {
                        tracing::error!("{cause}");
                    }
                    self.handle.fail(cause);
                }
            }
        }
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a lane's thread ended without saying why");
            }
        }
        if let Some(checkpointer) = self.checkpointer {
            checkpointer.end();
        }
        match self.handle.fatal() {
            Some(cause) => PipelineEnd::Failed(cause),
            None if all_finished => PipelineEnd::Finished,
            None => PipelineEnd::Stopped,
        }
    }
}
