//! Runs a surveyed pipeline: lanes, reloading, admin server, signals.
//!
//! Order of the end: readiness says 503, lanes end their epochs and commit, the admin server goes
//! last, so that whoever watches sees the whole of it.

use std::{path::Path, sync::Arc};

use dovetail_core::epoch::{LaneId, Owner};
use dovetail_runtime::{
    FatalKind, LaneSetup, PipelineSetup, Revision, clock,
    reload::{Candidate, ReloadParts, Reloader},
    supervisor::{PipelineEnd, Supervisor},
    watch::WatchOptions,
};
use dovetail_state::{Claim, MemoryBudget, StateDirectory};

use super::{
    Fitted, Surveyed, gate, gate::FittedRevision, lanes, options, roles::Fit, stores::LaneStores,
};
use crate::{
    config::model::{Config, LogConfig},
    failure::{Exit, Failure},
};

/// How a run ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every input has ended and everything is committed.
    Finished,
    /// It was asked to stop.
    Stopped,
}

/// Runs a pipeline until it ends.
///
/// # Errors
///
/// Why it could not start or had to stop, with the exit code of the process.
pub fn run(surveyed: Surveyed) -> Result<Ended, Failure> {
    let Surveyed { fitted, mut backend, mut ground, mut identity, .. } = surveyed;
    let lane_count = identity.lanes;
    backend.prepare(&fitted.loaded, &ground, lane_count)?;
    // What was created now is described by the log, no longer guessed.
    ground = super::look(backend.as_mut(), &fitted.loaded)?;
    identity.cluster_id.clone_from(&ground.cluster_id);
    let Fitted { loaded, gate, revision, fit } = fitted;
    let config = &loaded.config;
    let directory = open_state(config, &ground.cluster_id, lane_count)?;
    let dead_letters = ground
        .dead_letters
        .clone()
        .ok_or_else(|| Failure::internal("the dead-letter topic was not described"))?;
    let options =
        options::lane_options(config, &ground.inputs, &fit, &ground.outputs, dead_letters);
    let digest = revision.digest().to_owned();
    let limits = gate.limits();
    let first: Arc<dyn Revision> =
        Arc::new(FittedRevision::new(revision, fit.clone(), &ground.outputs, limits));
    let setup = PipelineSetup {
        identity,
        options,
        owner: owner(),
        revision: first,
        transaction_timeout: transaction_timeout(config),
    };
    let mut lane_setups = Vec::new();
    for lane in (0..lane_count).map(LaneId) {
        let sources = lanes::sources(lane, lane_count, config.inputs.len(), ground.partitions);
        lane_setups.push(LaneSetup {
            lane,
            log: backend.lane_log(lane, lane_count, &sources, &fit)?,
            sources,
            decoder: options::decoder(config),
            stores: Box::new(LaneStores::new(directory.clone(), lane)),
        });
    }
    let token = directory.admin_token().map_err(|error| Failure::internal(error.to_string()))?;
    let metrics = super::admin::record_metrics()?;
    let supervisor = Supervisor::start(&setup, lane_setups)?;
    let handle = supervisor.handle();
    let outputs = ground.outputs.clone();
    let (gate_loaded, first_fit): (_, Fit) = (Arc::clone(&loaded), fit);
    let reloader = Reloader::spawn(ReloadParts {
        path: config.plugin.file.clone(),
        digest,
        gate: Box::new(move |candidate: &Candidate<'_>| {
            gate::admit_later(&gate, &gate_loaded, &first_fit, &outputs, candidate.bytes)
        }),
        handle: handle.clone(),
        watch: WatchOptions::default(),
    })?;
    super::admin::stop_on_signals(handle.clone())?;
    let server = super::admin::serve(config, handle.clone(), &reloader, token, metrics);
    let server = match server {
        Ok(server) => server,
        Err(failure) => {
            handle.stop();
            drop(supervisor.join());
            return Err(failure);
        }
    };
    tracing::info!(
        pipeline = config.pipeline,
        lanes = lane_count,
        partitions = ground.partitions,
        admin = %server.address(),
        "running"
    );
    let end = supervisor.join();
    drop(reloader);
    drop(server);
    match end {
        PipelineEnd::Finished => Ok(Ended::Finished),
        PipelineEnd::Stopped => Ok(Ended::Stopped),
        PipelineEnd::Failed(cause) => Err(Failure {
            exit: match cause.kind {
                FatalKind::Rule => Exit::Rule,
                FatalKind::Configuration => Exit::Configuration,
                FatalKind::Internal => Exit::Internal,
            },
            message: cause.to_string(),
        }),
    }
}

fn open_state(config: &Config, cluster_id: &str, lanes: u16) -> Result<StateDirectory, Failure> {
    let since = jiff::Timestamp::from_millisecond(clock::now())
        .map_or_else(|_| "an unknown time".to_owned(), |now| now.to_string());
    let claim =
        Claim { pipeline: config.pipeline.clone(), cluster_id: cluster_id.to_owned(), since };
    let half = usize::try_from(config.memory / 2).unwrap_or(usize::MAX);
    StateDirectory::open(&config.state_dir, &claim, lanes, MemoryBudget::split(half))
        .map_err(|error| Failure::configuration(error.to_string()))
}

fn owner() -> Owner {
    let host = std::fs::read_to_string(Path::new("/etc/hostname"))
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "this host".to_owned());
    Owner { host, pid: std::process::id(), started_at: clock::now() }
}

fn transaction_timeout(config: &Config) -> i64 {
    match &config.log {
        LogConfig::Kafka(kafka) => kafka.transaction_timeout,
        LogConfig::Embedded(_) => 20_000,
    }
}
