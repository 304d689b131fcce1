//! Wires what `dovetail lanes resolve` needs: the lane's log, its local state and the checkpoints.
//!
//! Keeps: nothing is looked at before it is known that no process here runs the pipeline, and
//! nothing else can start while it lasts.

use std::net::TcpListener;

use dovetail_core::{
    epoch::{LaneId, Owner, StoredHead, codec},
    identity::Identity,
    log::Log,
    record::Source,
    state::{StateStore as _, StoreError},
    time::ProcessingTime,
};
use dovetail_runtime::{
    CheckpointSetup, clock,
    resolve::{Patient, Proposal, Request, ResolveError, Writer, execute, propose},
};
use dovetail_state::StateDirectory;

use super::{Delivery, Fitted, Surveyed, checkpoints, lanes, port, serve, stores::LaneStores};
use crate::{
    config::Config,
    failure::{Exit, Failure},
};

/// How long ago a process elsewhere must have committed last to be taken for gone, ms.
const GONE_AFTER: i64 = 10_000;

/// A lane of a pipeline that nothing runs.
pub struct Bench {
    config: Config,
    lane: LaneId,
    identity: Identity,
    sources: Vec<Source>,
    log: Box<dyn Log>,
    directory: StateDirectory,
    checkpoints: Option<CheckpointSetup>,
    revision: String,
    /// Held, so that nothing starts meanwhile.
    _port: TcpListener,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bench").field("lane", &self.lane).finish_non_exhaustive()
    }
}

impl Bench {
    /// Takes a lane of a pipeline.
    ///
    /// # Errors
    ///
    /// When a process runs the pipeline, when there is no such lane, or whatever refuses a start.
    pub fn take(fitted: Fitted, lane: u16) -> Result<Self, Failure> {
        let config = fitted.loaded.config.clone();
        // Taken before anything is looked at; told only of a lane that there is.
        let port = take_port(&config);
        let surveyed = match (super::survey(fitted, Delivery::ExactlyOnce), &port) {
            (Ok(surveyed), _) => surveyed,
            // What a running pipeline holds may be what the survey failed at.
            (Err(_), Err(taken)) => return Err(taken.clone()),
            (Err(failure), Ok(_)) => return Err(failure),
        };
        let Surveyed { fitted, mut backend, ground, identity, .. } = surveyed;
        if lane >= identity.lanes {
            return Err(Failure::usage(format!(
                "there is no lane {lane}: `{}` has {}",
                config.pipeline,
                match identity.lanes {
                    1 => "lane 0 alone".to_owned(),
                    lanes => format!("lanes 0 to {}", lanes - 1),
                }
            )));
        }
        let port = port?;
        let lane = LaneId(lane);
        let directory = serve::open_state(&config, &ground.cluster_id, identity.lanes)
            .map_err(|failure| running(&failure.message))?;
        let sources = lanes::sources(lane, identity.lanes, &identity.inputs);
        let log = backend.lane_log(lane, identity.lanes, &sources, &fitted.fit)?;
        let checkpoints = checkpoints::claimed(&fitted.loaded, &ground.cluster_id)?;
        let revision = fitted.revision.digest().to_owned();
        Ok(Self {
            config,
            lane,
            identity,
            sources,
            log,
            directory,
            checkpoints,
            revision,
            _port: port,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns where the lane's state is.
    #[must_use]
    pub fn state_path(&self) -> std::path::PathBuf {
        self.directory.lane_path(self.lane)
    }

    fn stored(&self) -> Result<Option<StoredHead>, Failure> {
        if !self.state_path().exists() {
            return Ok(None);
        }
        let mut store = match self.directory.open_lane(self.lane) {
            Ok(store) => store,
            // A start moves it aside.
            Err(StoreError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(Failure::internal(error.to_string())),
        };
        let head = store.head().map_err(|error| Failure::internal(error.to_string()))?;
        Ok(head.and_then(|head| codec::decode_stored(&head).ok()))
    }

    /// Looks, and returns what would be done.
    ///
    /// # Errors
    ///
    /// When it would not help, when the lane needs nothing, or when its owner seems to be alive.
    pub fn propose(&mut self, request: &Request) -> Result<Proposal, Failure> {
        let stored = self.stored()?;
        let proposal = propose(&mut self.patient(stored), request).map_err(|it| failed(&it))?;
        if let Some((owner, at)) = proposal.last_owner()
            && is_alive(owner, at)
        {
            return Err(running(&format!("{owner} committed epochs of it")));
        }
        Ok(proposal)
    }

    /// Does what was proposed.
    ///
    /// # Errors
    ///
    /// When it is not what was looked at any more, or the log or a disk fails.
    pub fn execute(&mut self, request: &Request, proposal: &Proposal) -> Result<(), Failure> {
        let stored = self.stored()?;
        let mut stores = LaneStores::new(self.directory.clone(), self.lane);
        let (identity, revision) = (self.identity.clone(), self.revision.clone());
        let mut writer = Writer {
            owner: serve::owner(),
            attempt: clock::random_attempts()(),
            identity: &identity,
            revision,
            now: clock::now(),
            stores: &mut stores,
        };
        execute(&mut self.patient(stored), request, proposal, &mut writer)
            .map_err(|error| failed(&error))
    }

    fn patient(&mut self, stored: Option<StoredHead>) -> Patient<'_> {
        Patient {
            lane: self.lane,
            sources: &self.sources,
            log: self.log.as_mut(),
            stored,
            checkpoints: self.checkpoints.as_ref(),
        }
    }
}

/// Takes the admin port, which a running pipeline has.
fn take_port(config: &Config) -> Result<TcpListener, Failure> {
    port::bind(config.admin_listen).map_err(|failure| match port::holder(config.admin_listen) {
        Some(holder) if holder.is(&config.pipeline) => running(&format!("{holder} has it open")),
        // A stranger on the port says nothing about the pipeline.
        _ => failure,
    })
}

fn running(found: &str) -> Failure {
    Failure::usage(format!(
        "stop the pipeline first: its lanes are resolved while it stands; {found}"
    ))
}

fn failed(error: &ResolveError) -> Failure {
    let exit = match error {
        ResolveError::NotHalted(_) | ResolveError::Refused { .. } | ResolveError::Changed => {
            Exit::Check
        }
        ResolveError::Log(error) => return super::log_failure(error),
        ResolveError::Local(_) | ResolveError::Checkpoint(_) | ResolveError::Upload(_) => {
            Exit::Internal
        }
    };
    Failure::new(exit, error.to_string())
}

/// Whether the process that committed last may still be there.
fn is_alive(owner: &Owner, committed_at: ProcessingTime) -> bool {
    let here = serve::owner();
    if owner.host != here.host {
        return clock::now().saturating_sub(committed_at) < GONE_AFTER;
    }
    let name = std::fs::read_to_string(format!("/proc/{}/comm", owner.pid)).unwrap_or_default();
    owner.pid != here.pid && name.trim() == "dovetail"
}
