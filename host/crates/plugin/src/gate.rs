//! The gate: a plugin file passes here before it decides about any record, at start and at reload.
//!
//! Nothing is assumed about the file. Each step fails with what was expected, what was found and
//! what to do; a failure leaves whatever runs untouched. Takes about 0.1 s for a small plugin: call
//! it off the hot path.

use std::{path::Path, sync::Arc};

use dovetail_core::plugin::PluginDescriptor;
use dovetail_core::text::cut;
use wasmtime::component::{Component, Linker, types::ComponentItem};

use crate::{
    artifact::{Artifact, INTERFACE_PREFIX},
    descriptor::parse_description,
    engine::{Engine, EngineError, ticks},
    error::GateError,
    failure::{TEXT_BYTES_MAX, classify},
    imports::{self, OFFERED},
    instance::{Build, Live, LiveError, PROCESS_BROADCAST},
    limits::{COMPONENT_BYTES_MAX, Limits},
    revision::{Inner, Revision},
    store::{HostState, Phase},
    symbols::Symbols,
};

/// The exports that every plugin has.
const EXPORTS: [&str; 4] = ["describe", "open", "process-element", "on-timer"];

/// What the gate allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateOptions {
    /// Largest plugin file in bytes. Default 64 MiB.
    pub file_bytes_max: u64,
    /// Limits for `describe` and `open`.
    pub limits: Limits,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self { file_bytes_max: COMPONENT_BYTES_MAX, limits: Limits::default() }
    }
}

/// Checks plugins and makes revisions of those it lets in.
pub struct Gate {
    engine: Engine,
    linker: Linker<HostState>,
    options: GateOptions,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Gate {
    /// Returns a gate whose revisions run on `engine`.
    ///
    /// # Errors
    ///
    /// When the imports cannot be defined on this machine.
    pub fn new(engine: &Engine, options: GateOptions) -> Result<Self, EngineError> {
        let linker = imports::linker(engine)
            .map_err(|error| EngineError::Unsupported(format!("{error:#}")))?;
        Ok(Self { engine: engine.clone(), linker, options })
    }

    /// Returns the revision of a plugin file with its configuration (JSON).
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is refused.
    pub fn load(&self, path: &Path, config: &str) -> Result<Revision, GateError> {
        self.admit(&Artifact::read(path, self.options.file_bytes_max)?, config)
    }

    /// Returns the revision of a component with its configuration (JSON).
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub fn load_bytes(&self, bytes: Vec<u8>, config: &str) -> Result<Revision, GateError> {
        self.admit(&Artifact::parse(bytes, self.options.file_bytes_max)?, config)
    }

    /// Returns the revision of a parsed component with its configuration (JSON).
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub fn admit(&self, artifact: &Artifact, config: &str) -> Result<Revision, GateError> {
        refuse_foreign_imports(artifact)?;
        let interface = artifact.check_interface()?;
        refuse_missing_exports(artifact)?;
        let component = Component::new(self.engine.inner(), artifact.bytes())
            .map_err(|error| GateError::NotCompiled(format!("{error:#}")))?;
        self.refuse_unknown_functions(&component)?;
        let pre = self
            .linker
            .instantiate_pre(&component)
            .map_err(|error| GateError::WrongType(format!("{error:#}")))?;
        let build = Build { pre, symbols: Arc::new(Symbols::of(artifact.bytes())) };
        let descriptor = self.describe(&build, config)?;
        refuse_missing_broadcast(artifact, &descriptor)?;
        self.open(&build, config)?;
        Ok(Revision::new(Inner {
            digest: artifact.digest().to_owned(),
            size_bytes: artifact.bytes().len(),
            interface,
            config: config.to_owned(),
            descriptor,
            build,
        }))
    }

    /// Names every function that is asked for under a name of ours and that we do not have.
    fn refuse_unknown_functions(&self, component: &Component) -> Result<(), GateError> {
        let engine = self.engine.inner();
        let mut names = Vec::new();
        for (interface, item) in component.component_type().imports(engine) {
            let ComponentItem::ComponentInstance(instance) = item.ty else {
                continue;
            };
            let offered = offered(interface).unwrap_or(&[]);
            for (function, item) in instance.exports(engine) {
                let is_function = matches!(item.ty, ComponentItem::ComponentFunc(_));
                if is_function && !offered.contains(&function) {
                    names.push(format!("{interface} ({function})"));
                }
            }
        }
        if names.is_empty() { Ok(()) } else { Err(GateError::ForeignImports { names }) }
    }

    /// Runs `describe` on an instance of its own.
    fn describe(&self, build: &Build, config: &str) -> Result<PluginDescriptor, GateError> {
        let limits = &self.options.limits;
        let (mut store, instance) =
            build.instantiate(limits).map_err(GateError::NotInstantiated)?;
        let describe = instance
            .get_typed_func::<(&str,), (Result<String, String>,)>(&mut store, "describe")
            .map_err(|error| wrong_export("describe", &error))?;
        store.data_mut().phase = Phase::Describe;
        store.set_epoch_deadline(ticks(limits.deadline));
        match describe.call(&mut store, (config,)) {
            Ok((Ok(json),)) => parse_description(&json).map_err(GateError::BadDescription),
            Ok((Err(message),)) => {
                Err(GateError::ConfigRefused(cut(&message, TEXT_BYTES_MAX).to_owned()))
            }
            Err(error) => Err(GateError::DescribeFailed(classify(&error, store.data_mut()))),
        }
    }

    /// Runs `open` on an instance of its own, as every instance will.
    fn open(&self, build: &Build, config: &str) -> Result<(), GateError> {
        let limits = &self.options.limits;
        let (store, instance) = build.instantiate(limits).map_err(GateError::NotInstantiated)?;
        let mut live = Live::look_up(store, &instance)
            .map_err(|(export, error)| wrong_export(export, &error))?;
        live.open(config, limits).map_err(|error| match error {
            LiveError::Refused(message) => GateError::OpenRefused(message),
            LiveError::Open(failure) => GateError::OpenFailed(failure),
        })
    }
}

fn wrong_export(export: &str, error: &wasmtime::Error) -> GateError {
    GateError::WrongType(format!("export `{export}`: {error:#}"))
}

/// Returns the functions offered in an interface like `dovetail:plugin/state@1.0.0`.
fn offered(interface: &str) -> Option<&'static [&'static str]> {
    let name = interface.strip_prefix(INTERFACE_PREFIX)?;
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    OFFERED.iter().find(|(offered, _)| *offered == name).map(|(_, functions)| *functions)
}

fn refuse_foreign_imports(artifact: &Artifact) -> Result<(), GateError> {
    // What a newer interface adds is not foreign: the version says it better.
    let is_ours = |name: &String| name.starts_with(INTERFACE_PREFIX);
    let foreign = artifact.imports().iter().filter(|name| !is_ours(name));
    let names: Vec<String> = foreign.cloned().collect();
    if names.is_empty() { Ok(()) } else { Err(GateError::ForeignImports { names }) }
}

/// Only `describe` says whether a plugin has broadcast inputs.
fn refuse_missing_broadcast(
    artifact: &Artifact,
    descriptor: &PluginDescriptor,
) -> Result<(), GateError> {
    let has_export = artifact.exports().iter().any(|name| name == PROCESS_BROADCAST);
    match descriptor.broadcast.first() {
        Some(input) if !has_export => Err(GateError::NoBroadcastHandler { input: input.clone() }),
        Some(_) | None => Ok(()),
    }
}

fn refuse_missing_exports(artifact: &Artifact) -> Result<(), GateError> {
    let missing = EXPORTS.iter().filter(|name| !artifact.exports().iter().any(|has| has == *name));
    let names: Vec<String> = missing.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { Ok(()) } else { Err(GateError::MissingExports { names }) }
}
