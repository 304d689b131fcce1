//! Runs a surveyed pipeline: lanes, reloading, admin server, signals.
//!
//! Order of the end: readiness says 503, lanes end their epochs and commit, the admin server goes
//! last, so that whoever watches sees the whole of it.

use std::{net::TcpListener, path::Path, sync::Arc};

use dovetail_admin::{Admin, Metrics};
use dovetail_core::{
    epoch::{LaneId, Owner},
    identity::Identity,
    options::OutputOptions,
};
use dovetail_runtime::{
    FatalKind, Handle, LaneSetup, PipelineSetup, Revision, clock,
    partition_watch::PartitionWatch,
    reload::{Candidate, ReloadParts, Reloader},
    supervisor::{PipelineEnd, Supervisor},
    telemetry,
    watch::WatchOptions,
};
use dovetail_state::{
    Claim, DirectoryError, MemoryBudget, StateDirectory, identity as kept_identity,
};
use metrics_exporter_prometheus::PrometheusHandle;

use super::{
    Fitted, Surveyed, Termination,
    backend::{Backend, Ground},
    checkpoints, gate,
    gate::{FittedRevision, PluginGate},
    lanes, options, port,
    roles::Fit,
    stores::LaneStores,
    summary::Summary,
};
use crate::{
    config::{
        Loaded,
        model::{Config, LogConfig},
    },
    failure::{Exit, Failure},
};

/// How a run ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Every input has ended and everything is committed.
    Finished(Summary),
    /// It was asked to stop.
    Stopped(Summary),
}

/// Runs a pipeline until it ends.
///
/// # Errors
///
/// Why it could not start or had to stop, with the exit code of the process.
pub fn run(surveyed: Surveyed, termination: &Termination) -> Result<Ended, Failure> {
    let Surveyed { fitted, mut backend, mut ground, committed, mut identity } = surveyed;
    // First, so that a second start of the same pipeline leaves no trace.
    let listener = port::bind(fitted.loaded.config.admin_listen)?;
    backend.prepare(&fitted.loaded, &ground, identity.lanes)?;
    // What was created now is described by the log, no longer guessed.
    ground = super::look(backend.as_mut(), &fitted.loaded)?;
    identity.cluster_id.clone_from(&ground.cluster_id);
    let Fitted { loaded, gate, revision, fit } = fitted;
    let config = &loaded.config;
    let directory = open_state(config, &ground.cluster_id, identity.lanes)?;
    keep_identity(&directory, committed.as_ref());
    let lanes = lane_setups(config, backend.as_mut(), &identity, &fit, &directory)?;
    let token = directory.admin_token().map_err(|error| match error {
        DirectoryError::Io { .. } => Failure::internal(error.to_string()),
        error => Failure::configuration(error.to_string()),
    })?;
    let digest = revision.digest().to_owned();
    // Before the first instance is made: what is measured from here on is recorded.
    let metrics = super::admin::record_metrics()?;
    let (pipeline, limits) = (&config.pipeline, gate.limits());
    let revision = FittedRevision::new(pipeline, revision, fit.clone(), &ground.outputs, limits);
    let setup = pipeline_setup(&loaded, &ground, &fit, (identity, committed), Arc::new(revision))?;
    let outputs = ground.outputs.clone();
    let names = fit.outputs.iter().map(|at| config.outputs[*at].name.clone()).collect();
    let later = Later { gate, loaded: Arc::clone(&loaded), fit, outputs, digest };
    let supervisor = termination.begin(|| Ok(Supervisor::start(&setup, lanes)?))?;
    let handle = supervisor.handle();
    let counter = backend.partition_counter();
    let counting = counter.map(|count| PartitionWatch::spawn(handle.clone(), count)).transpose();
    let port = Port { listener, token, directory: directory.clone() };
    let watched = watch(config, handle.clone(), later, metrics, port);
    if watched.is_err() || counting.is_err() {
        handle.stop();
    } else {
        let (lanes, partitions) = (setup.identity.lanes, ground.partitions);
        tracing::info!(pipeline = config.pipeline, lanes, partitions, "running");
    }
    let end = supervisor.join();
    drop(counting?);
    drop(watched?);
    let summary = Summary::new(names, &handle.lanes());
    match end {
        PipelineEnd::Finished => Ok(Ended::Finished(summary)),
        PipelineEnd::Stopped => Ok(Ended::Stopped(summary)),
        PipelineEnd::Failed(cause) => {
            let exit = match cause.kind {
                FatalKind::Rule => Exit::Rule,
                FatalKind::Configuration => Exit::Configuration,
                FatalKind::Internal => Exit::Internal,
            };
            Err(Failure::new(exit, cause.to_string()))
        }
    }
}

fn pipeline_setup(
    loaded: &Arc<Loaded>,
    ground: &Ground,
    fit: &Fit,
    (identity, committed): (Identity, Option<Identity>),
    revision: Arc<dyn Revision>,
) -> Result<PipelineSetup, Failure> {
    let config = &loaded.config;
    let options = options::lane_options(config, &ground.inputs, fit, &ground.outputs);
    let (owner, transaction_timeout) = (owner(), transaction_timeout(config));
    let checkpoints = checkpoints::claimed(loaded, &ground.cluster_id)?;
    Ok(PipelineSetup {
        identity,
        committed,
        options,
        owner,
        revision,
        transaction_timeout,
        checkpoints,
        untrimmed: checkpoints::untrimmed(config),
    })
}

fn lane_setups(
    config: &Config,
    backend: &mut dyn Backend,
    identity: &Identity,
    fit: &Fit,
    directory: &StateDirectory,
) -> Result<Vec<LaneSetup>, Failure> {
    let lanes = identity.lanes;
    let setup = |lane| {
        let sources = lanes::sources(lane, lanes, &identity.inputs);
        Ok(LaneSetup {
            lane,
            log: backend.lane_log(lane, lanes, &sources, fit)?,
            sources,
            decoder: options::decoder(config),
            stores: Box::new(LaneStores::new(directory.clone(), lane)),
        })
    };
    (0..lanes).map(LaneId).map(setup).collect()
}

/// What a later revision is held against.
struct Later {
    gate: PluginGate,
    loaded: Arc<Loaded>,
    fit: Fit,
    outputs: Vec<OutputOptions>,
    digest: String,
}

/// Where the admin server listens, what lets a change through, and whose memory it shows.
struct Port {
    listener: TcpListener,
    token: String,
    directory: StateDirectory,
}

/// Watches the plugin file and starts the admin server. Dropping what it returns ends both.
fn watch(
    config: &Config,
    handle: Handle,
    later: Later,
    metrics: PrometheusHandle,
    port: Port,
) -> Result<(Reloader, Admin), Failure> {
    let digest = later.digest.clone();
    let gate = move |candidate: &Candidate<'_>| {
        let Later { gate, loaded, fit, outputs, .. } = &later;
        gate::admit_later(gate, loaded, fit, outputs, candidate.bytes)
    };
    let reloader = Reloader::spawn(ReloadParts {
        path: config.plugin.file.clone(),
        digest,
        gate: Box::new(gate),
        handle: handle.clone(),
        watch: WatchOptions {
            bytes_max: config.plugin.limits.component_bytes,
            ..WatchOptions::default()
        },
    })?;
    let names = handle.names().clone();
    let refresh = move || {
        let used = port.directory.memory_use();
        let kinds =
            [("memtables", used.memtables as u64), ("block_cache", used.block_cache as u64)];
        telemetry::publish_state_memory(&names, &kinds);
    };
    let metrics = Metrics { handle: metrics, refresh: Arc::new(refresh) };
    let admin = super::admin::serve(config, port.listener, handle, &reloader, port.token, metrics)?;
    Ok((reloader, admin))
}

pub(super) fn open_state(
    config: &Config,
    cluster_id: &str,
    lanes: u16,
) -> Result<StateDirectory, Failure> {
    let since = jiff::Timestamp::from_millisecond(clock::now())
        .map_or_else(|_unwritable| "an unknown time".to_owned(), |now| now.to_string());
    let claim =
        Claim { pipeline: config.pipeline.clone(), cluster_id: cluster_id.to_owned(), since };
    let half = usize::try_from(config.memory / 2).unwrap_or(usize::MAX);
    StateDirectory::open(&config.state_dir, &claim, lanes, MemoryBudget::split(half))
        .map_err(|error| Failure::configuration(error.to_string()))
}

/// Keeps it for a start behind a trimmed journal; else it is kept before the first trim.
fn keep_identity(directory: &StateDirectory, committed: Option<&Identity>) {
    let kept = committed.map(|identity| kept_identity::keep(directory.path(), identity));
    if let Some(Err(error)) = kept {
        tracing::warn!("a start without the checkpoint store may not know the identity: {error}");
    }
}

pub(super) fn owner() -> Owner {
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
