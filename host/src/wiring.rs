//! From a configuration to a running pipeline.
//!
//! Wires and decides nothing: rules are core's, loops are the runtime's. Keeps: everything that
//! can be refused is refused before the first record is read, with all reasons at once.

mod admin;
pub mod backend;
pub mod checkpoints;
pub mod embedded;
pub mod freshness;
pub mod gate;
mod identity;
pub mod kafka;
pub mod lanes;
pub mod look;
pub mod options;
pub mod port;
pub mod resolve;
pub mod roles;
pub mod sample;
mod serve;
pub mod stores;
pub mod summary;
mod termination;

use std::sync::Arc;

use dovetail_core::{identity::Identity, log::LogError};
use dovetail_plugin::GateError;

use self::{
    backend::{Backend, Ground, SurveyError},
    checkpoints::Lost,
    gate::PluginGate,
    lanes::Beginning,
    roles::Fit,
};
pub use self::{
    serve::{Ended, run},
    summary::Summary,
    termination::Termination,
};
use crate::{
    config::{Loaded, model::LogConfig, report::Problem},
    failure::{Exit, Failure},
};

/// A configuration whose plugin passed the gate and fits.
pub struct Fitted {
    /// The configuration.
    pub loaded: Arc<Loaded>,
    /// The gate, for later revisions too.
    pub gate: PluginGate,
    /// The plugin.
    pub revision: dovetail_plugin::Revision,
    /// How it fits.
    pub fit: Fit,
}

impl std::fmt::Debug for Fitted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fitted").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Takes the plugin through the gate and fits it to the configuration. `problems` are those that
/// reading the file has found: what the plugin says is added to them.
///
/// # Errors
///
/// Why it is refused (as wrong use where there is no such file and nothing else is wrong), and
/// everything that is wrong with the file or does not fit.
pub fn fit(mut loaded: Loaded, mut problems: Vec<Problem>) -> Result<Fitted, Failure> {
    let config = &loaded.config;
    let is_wrong = |problems: &[Problem], keys: &[&str]| {
        let starts = |problem: &Problem| keys.iter().any(|key| problem.path.starts_with(key));
        problems.iter().any(starts)
    };
    if is_wrong(&problems, &["plugin.file", "plugin.limits", "plugin.config"])
        || problems.iter().any(|problem| problem.path == "plugin")
    {
        return Err(loaded.problems(problems).into());
    }
    let gate = PluginGate::new(&config.plugin.limits)?;
    let revision = match gate.load(&config.plugin.file, &config.plugin.config) {
        Ok(revision) => revision,
        Err(error) => {
            let is_missing = problems.is_empty() && !config.plugin.file.exists();
            problems.push(refused(&loaded, &error));
            let failure = Failure::from(loaded.problems(problems));
            let exit = if is_missing { Exit::Usage } else { failure.exit };
            return Err(Failure { exit, ..failure });
        }
    };
    let fit = match roles::fit(&loaded, revision.descriptor()) {
        Ok(fit) => fit,
        Err(unfit) => {
            // Where the file itself is wrong about a name, the plugin's word on it is a repetition.
            let known: Vec<String> = problems.iter().map(|known| known.path.clone()).collect();
            problems.extend(unfit.into_iter().filter(|problem| !known.contains(&problem.path)));
            return Err(loaded.problems(problems).into());
        }
    };
    if !problems.is_empty() {
        return Err(loaded.problems(problems).into());
    }
    loaded.warnings.extend(expiry_warnings(&loaded, &revision));
    Ok(Fitted { loaded: Arc::new(loaded), gate, revision, fit })
}

/// Returns why the gate refuses a plugin, where it is to be mended: at the key of its configuration
/// that it names, else at its file.
pub(crate) fn refused(loaded: &Loaded, error: &GateError) -> Problem {
    if let GateError::ConfigRefused(message) = error {
        let message = message.strip_prefix("plugin config: ").unwrap_or(message);
        let named = message.split('`').skip(1).step_by(2);
        let mut keys = named.map(|key| format!("plugin.config.{key}"));
        let key = keys.find(|key| loaded.has(key));
        // What stands before the message already need not stand in it.
        let message = match &key {
            Some(key) => {
                let said = format!("`{}`: ", key.trim_start_matches("plugin.config."));
                message.strip_prefix(&said).unwrap_or(message)
            }
            None => message,
        };
        let path = key.as_deref().unwrap_or("plugin.config");
        return loaded.problem(
            path,
            message,
            "what can be said here is the plugin's own: its README lists it",
        );
    }
    let file = &loaded.config.plugin.file;
    match error {
        GateError::Unreadable { .. } => {
            loaded.problem("plugin.file", error.to_string(), "`dovetail build` makes it")
        }
        _ => loaded.problem(
            "plugin.file",
            format!("{}: {error}", file.display()),
            "`dovetail build` makes it; `dovetail plugin inspect` says what it wants",
        ),
    }
}

fn expiry_warnings(loaded: &Loaded, revision: &dovetail_plugin::Revision) -> Vec<Problem> {
    use dovetail_core::plugin::ExpiryDomain;
    let states = revision.descriptor().states.iter();
    states
        .filter(|state| {
            state.expiry.is_some_and(|expiry| expiry.domain == ExpiryDomain::ProcessingTime)
        })
        .map(|state| {
            loaded.problem(
                "plugin",
                format!("the state `{}` expires by the clock, not by event time", state.name),
                "a replay of old records then finds other state than the first run did",
            )
        })
        .collect()
}

/// What stands behind a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Journal, offsets and outputs in one transaction.
    ExactlyOnce,
    /// Outputs alone, on Kafka: for a benchmark that measures what the rest costs.
    Unguarded,
}

/// A pipeline whose log was looked at, too.
pub struct Surveyed {
    /// The configuration with its plugin.
    pub fitted: Fitted,
    /// The log.
    pub backend: Box<dyn Backend>,
    /// What the log says.
    pub ground: Ground,
    /// What was committed at the first start.
    pub committed: Option<Identity>,
    /// The identity of this start.
    pub identity: Identity,
}

impl std::fmt::Debug for Surveyed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Surveyed").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Asks the log about everything that is named; changes nothing.
///
/// # Errors
///
/// Everything that is missing, contradicts itself, or differs from the first start.
pub fn survey(fitted: Fitted, delivery: Delivery) -> Result<Surveyed, Failure> {
    survey_unless(fitted, delivery, |lost| Err(lost.into()))
}

/// Like [`survey`], to run the pipeline: where only the checkpoint store knows what was committed
/// and does not answer, the lanes wait for it, and compare then.
///
/// # Errors
///
/// Like [`survey`].
pub fn survey_to_run(fitted: Fitted, delivery: Delivery) -> Result<Surveyed, Failure> {
    survey_unless(fitted, delivery, |lost| match lost {
        Lost::Unanswered(told) => {
            tracing::warn!("the lanes wait for the checkpoint store: {told}");
            Ok(())
        }
        Lost::Gone(failure) => Err(failure),
    })
}

fn survey_unless(
    fitted: Fitted,
    delivery: Delivery,
    is_refused: fn(Lost) -> Result<(), Failure>,
) -> Result<Surveyed, Failure> {
    let mut backend = open(&fitted.loaded, delivery)?;
    let ground = look(backend.as_mut(), &fitted.loaded)?;
    let mut lanes = None;
    let committed = match backend.beginning()? {
        Beginning::Nothing => None,
        Beginning::Genesis(identity) => Some(identity),
        Beginning::Trimmed(epoch) => match checkpoints::identity(&fitted.loaded.config, epoch) {
            Ok(identity) => Some(identity),
            Err(lost) => {
                is_refused(lost)?;
                lanes = backend.journal_lanes()?;
                None
            }
        },
    };
    let lanes = committed.as_ref().map(|committed| committed.lanes).or(lanes);
    let identity =
        identity::configured(&fitted.loaded.config, &ground, fitted.revision.descriptor(), lanes);
    if let Some(committed) = &committed {
        identity::check(committed, &identity)?;
    }
    Ok(Surveyed { fitted, backend, ground, committed, identity })
}

fn open(loaded: &Loaded, delivery: Delivery) -> Result<Box<dyn Backend>, Failure> {
    match &loaded.config.log {
        LogConfig::Kafka(kafka) => {
            let mut backend = kafka::KafkaBackend::connect(&loaded.config, kafka)?;
            if delivery == Delivery::Unguarded {
                backend.disable_exactly_once();
            }
            Ok(Box::new(backend))
        }
        LogConfig::Embedded(embedded) => {
            Ok(Box::new(embedded::EmbeddedBackend::open(&loaded.config, embedded)?))
        }
    }
}

fn look(backend: &mut dyn Backend, loaded: &Loaded) -> Result<Ground, Failure> {
    let store = checkpoints::problem(loaded);
    match (backend.survey(loaded), store) {
        (Ok(ground), None) => Ok(ground),
        (Ok(_), Some(problem)) => Err(loaded.problems(vec![problem]).into()),
        (Err(SurveyError::Problems(mut problems)), store) => {
            problems.extend(store);
            Err(loaded.problems(problems).into())
        }
        (Err(SurveyError::Failure(failure)), _) => Err(failure),
    }
}

/// Returns what a log's error means for a command.
pub(crate) fn log_failure(error: &LogError) -> Failure {
    let exit = match error {
        LogError::Fenced(_) | LogError::Gap { .. } => Exit::Rule,
        LogError::Refused { .. } | LogError::Config(_) => Exit::Configuration,
        LogError::Doubt(_) | LogError::Corrupt(_) | LogError::Failed(_) => Exit::Internal,
    };
    Failure::new(exit, error.to_string())
}
