//! The reference plugins that cases run through: natively, or as the components that users run.

use std::{cell::RefCell, collections::HashMap, path::PathBuf};

use anyhow::Result;
use dovetail_core::plugin::{MatchFunction, PluginDescriptor};
use dovetail_plugin::{Engine, Gate, GateOptions, Limits, Revision};
use dovetail_sdk::{NativePlugin, Plugin};

use crate::keyed::MakeFunction;

/// How plugins run.
pub(crate) enum Plugins {
    /// Their code, compiled in here.
    Native,
    /// What `dovetail build` has made of it.
    Components(Box<Components>),
}

/// Built plugins, and those that are loaded, by name and configuration.
pub(crate) struct Components {
    folder: PathBuf,
    gate: Gate,
    loaded: RefCell<HashMap<(String, String), Revision>>,
}

impl Components {
    /// Takes plugins from `FOLDER/NAME/NAME.wasm`.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        let gate = Gate::new(&Engine::new()?, GateOptions::default())?;
        Ok(Self { folder, gate, loaded: RefCell::default() })
    }

    fn load(&self, name: &str, config: &str) -> Result<Revision, String> {
        let key = (name.to_owned(), config.to_owned());
        if let Some(revision) = self.loaded.borrow().get(&key) {
            return Ok(revision.clone());
        }
        let file = self.folder.join(name).join(format!("{}.wasm", name.replace('-', "_")));
        let loaded = self.gate.load(&file, config);
        let revision = loaded.map_err(|error| {
            let folder = self.folder.join(name);
            format!("{}: {error}; build it: dovetail build {}", file.display(), folder.display())
        })?;
        self.loaded.borrow_mut().insert(key, revision.clone());
        Ok(revision)
    }
}

impl Plugins {
    /// Opens a plugin with a configuration; returns what it says of itself, and what makes
    /// instances.
    pub(crate) fn open<P: Plugin + Send>(
        &self,
        name: &str,
        config: &str,
    ) -> Result<(PluginDescriptor, MakeFunction), String> {
        match self {
            Self::Native => {
                let (_, descriptor) =
                    NativePlugin::<P>::new(config).map_err(|error| error.to_string())?;
                let config = config.to_owned();
                let make = move || -> Box<dyn MatchFunction> {
                    let opened = NativePlugin::<P>::new(config.clone());
                    Box::new(opened.expect("it opened before").0)
                };
                Ok((descriptor, Box::new(make)))
            }
            Self::Components(components) => {
                let revision = components.load(name, config)?;
                let descriptor = revision.descriptor().clone();
                let make = move || -> Box<dyn MatchFunction> {
                    Box::new(revision.instantiate(Limits::default()))
                };
                Ok((descriptor, Box::new(make)))
            }
        }
    }
}
