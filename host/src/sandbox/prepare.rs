//! A pipeline as cases need it: its rules, its decoders, its plugin, and where state is kept.

use std::{fmt, path::Path, sync::Arc};

use anyhow::Result;
use dovetail_codec::Decoder;
use dovetail_core::{
    context::Context,
    epoch::LaneId,
    identity::{Identity, InputIdentity, states_of},
    lane::PluginSwitch,
    options::{LaneOptions, OutputOptions},
    plugin::{CallFailure, CallResult, FailureKind, MatchFunction, PluginDescriptor},
    state::{MemoryStore, StateId, StateStore},
};
use dovetail_plugin::Limits;
use dovetail_runtime::Revision;
use dovetail_state::{Claim, MemoryBudget, StateDirectory};

use super::{
    case::{self, Case, Known},
    meter::{Meter, Metered},
    play::DEAD_LETTERS,
};
use crate::{
    config::{self, Environment, Loaded, report::Problem},
    failure::{Exit, Failure},
    wiring::{self, gate::PluginGate, options::InputFacts, roles::Fit},
};

/// Makes a plugin's handlers natively, for a configuration (JSON).
pub type MakeNative =
    Arc<dyn Fn(&str) -> Result<(PluginDescriptor, Box<dyn MatchFunction>)> + Send + Sync>;

/// What cases are played on.
#[derive(Clone, Default)]
pub struct Engine {
    /// The plugin compiled into this process, instead of the component.
    pub native: Option<MakeNative>,
    /// Keyed state in RocksDB, instead of memory.
    pub on_disk: bool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("is_native", &self.native.is_some())
            .field("on_disk", &self.on_disk)
            .finish()
    }
}

#[derive(Clone)]
enum Function {
    Component(dovetail_plugin::Revision, Limits),
    Native(MakeNative, String),
}

/// A pipeline as the cases of one file need it.
pub(super) struct Prepared {
    pub(super) options: LaneOptions,
    pub(super) decoders: Vec<Decoder>,
    pub(super) descriptor: PluginDescriptor,
    pub(super) identity: Identity,
    /// That the component is older than its sources, in words.
    pub(super) stale: Option<String>,
    function: Function,
    on_disk: bool,
}

impl Prepared {
    /// Returns what a case names and this pipeline does not have.
    pub(super) fn unknown_names(&self, case: &Case) -> Vec<Problem> {
        let inputs: Vec<&str> = self.options.inputs.iter().map(|each| each.name.as_str()).collect();
        let outputs = self.options.outputs.iter().map(|each| each.name.as_str());
        let outputs: Vec<&str> = outputs.chain([DEAD_LETTERS]).collect();
        let states: Vec<&str> =
            self.descriptor.states.iter().map(|each| each.name.as_str()).collect();
        let known = Known { inputs: &inputs, outputs: &outputs, states: &states };
        case::unknown_names(case, known)
    }

    /// Reads a pipeline file and takes its plugin through the gate.
    pub(super) fn new(path: &Path, engine: &Engine) -> Result<Self> {
        let loaded = config::load(path, &Environment::of_process(&[]))?;
        let (descriptor, function) = match &engine.native {
            Some(make) => {
                let config = loaded.config.plugin.config.clone();
                let (descriptor, _) = make(&config)?;
                (descriptor, Function::Native(Arc::clone(make), config))
            }
            None => {
                let plugin = &loaded.config.plugin;
                let gate = PluginGate::new(&plugin.limits)?;
                let revision = gate.load(&plugin.file, &plugin.config).map_err(|error| {
                    let problem = wiring::refused(&loaded, &error);
                    let failure = Failure::from(loaded.problems(vec![problem]));
                    let exit = if plugin.file.exists() { failure.exit } else { Exit::Usage };
                    Failure { exit, ..failure }
                })?;
                (revision.descriptor().clone(), Function::Component(revision, gate.limits()))
            }
        };
        let fit = wiring::roles::fit(&loaded, &descriptor)
            .map_err(|problems| loaded.problems(problems))?;
        let identity = identity(&loaded, &descriptor);
        let inputs = loaded.config.inputs.iter();
        let decoders = inputs.map(|input| Decoder::new(input.format.clone())).collect();
        let options = options(&loaded, &fit);
        let stale = match &function {
            Function::Component(..) => wiring::freshness::warning(&loaded.config.plugin.file),
            Function::Native(..) => None,
        };
        let on_disk = engine.on_disk;
        Ok(Self { options, decoders, descriptor, identity, stale, function, on_disk })
    }

    /// Returns an empty store, and what must outlive it.
    pub(super) fn store(&self) -> Result<(Box<dyn StateStore>, Option<tempfile::TempDir>)> {
        if !self.on_disk {
            return Ok((Box::new(MemoryStore::default()), None));
        }
        let folder = tempfile::tempdir()?;
        let budget = MemoryBudget::split(16 << 20);
        let claim = Claim {
            pipeline: self.options.pipeline.clone(),
            cluster_id: self.identity.cluster_id.clone(),
            since: String::new(),
        };
        let directory = StateDirectory::open(folder.path(), &claim, 1, budget)?;
        Ok((Box::new(directory.open_lane(LaneId(0))?), Some(folder)))
    }

    /// Returns the plugin as a revision of one play.
    pub(super) fn revision(&self, options: &LaneOptions, is_cold: bool, meter: &Meter) -> Played {
        Played {
            descriptor: self.descriptor.clone(),
            function: self.function.clone(),
            options: options.clone(),
            is_cold,
            meter: meter.clone(),
        }
    }
}

/// The plugin of one play: metered, and cold where the play wants it.
pub(super) struct Played {
    descriptor: PluginDescriptor,
    function: Function,
    options: LaneOptions,
    is_cold: bool,
    meter: Meter,
}

impl Revision for Played {
    fn digest(&self) -> &str {
        match &self.function {
            Function::Component(revision, _) => revision.digest(),
            Function::Native(..) => "native",
        }
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.descriptor
    }

    fn instantiate(&self, _: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        let function: Box<dyn MatchFunction> = match &self.function {
            Function::Component(revision, limits) => {
                let mut instance = revision.instantiate(*limits);
                instance.set_fresh_instance_per_call(self.is_cold);
                Box::new(Metered::new(instance, self.meter.clone()))
            }
            Function::Native(make, config) if self.is_cold => {
                Box::new(FreshNative { make: Arc::clone(make), config: config.clone() })
            }
            Function::Native(make, config) => make(config).map_err(|error| format!("{error:#}"))?.1,
        };
        Ok(PluginSwitch {
            function,
            descriptor: self.descriptor.clone(),
            state_ids,
            roles: self.options.roles.clone(),
            outputs: self.options.outputs.clone(),
            late_output: self.options.late_output,
            revision: self.digest().to_owned(),
        })
    }
}

/// Handlers that are made anew for every call.
struct FreshNative {
    make: MakeNative,
    config: String,
}

impl FreshNative {
    fn call(
        &self,
        context: Box<Context>,
        handler: impl FnOnce(&mut dyn MatchFunction, Box<Context>) -> (Box<Context>, CallResult),
    ) -> (Box<Context>, CallResult) {
        match (self.make)(&self.config) {
            Ok((_, mut function)) => handler(function.as_mut(), context),
            Err(error) => {
                let message = format!("{error:#}");
                (context, Err(CallFailure { kind: FailureKind::Error, message }))
            }
        }
    }
}

impl MatchFunction for FreshNative {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.call(context, |function, context| function.process_element(context))
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.call(context, |function, context| function.process_broadcast(context))
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.call(context, |function, context| function.on_timer(context))
    }

    fn renew(&mut self) {}
}

fn options(loaded: &Loaded, fit: &Fit) -> LaneOptions {
    let output = |name: &str, topic: &str| OutputOptions {
        name: name.to_owned(),
        topic: topic.to_owned(),
        max_record_bytes: usize::MAX,
        requires_key: false,
    };
    let config = &loaded.config;
    let outputs: Vec<OutputOptions> =
        config.outputs.iter().map(|each| output(&each.name, &each.topic)).collect();
    let facts = vec![InputFacts::default(); config.inputs.len()];
    let mut options = wiring::options::lane_options(config, &facts, fit, &outputs);
    // A case shows each dead letter; a flood is the host's concern.
    options.dead_letter_rate.percent_max = 100;
    options
}

fn identity(loaded: &Loaded, descriptor: &PluginDescriptor) -> Identity {
    let input = |input: &config::model::InputConfig| InputIdentity {
        name: input.name.clone(),
        topic: wiring::options::place(input),
        partitions: 1,
        key_type: wiring::options::key_type(input),
    };
    Identity {
        pipeline: loaded.config.pipeline.clone(),
        cluster_id: "sandbox".to_owned(),
        lanes: 1,
        inputs: loaded.config.inputs.iter().map(input).collect(),
        states: states_of(descriptor),
    }
}
