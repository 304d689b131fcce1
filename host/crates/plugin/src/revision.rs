//! A plugin that passed the gate: immutable and shared by all lanes.

use std::{fmt, sync::Arc};

use dovetail_core::plugin::PluginDescriptor;

use crate::{
    artifact::InterfaceVersion,
    instance::{Build, Instance},
    limits::Limits,
};

/// One build of a plugin with its configuration. Cloning is cheap.
#[derive(Clone)]
pub struct Revision(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) digest: String,
    pub(crate) size_bytes: usize,
    pub(crate) interface: InterfaceVersion,
    pub(crate) config: String,
    pub(crate) descriptor: PluginDescriptor,
    pub(crate) build: Build,
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revision")
            .field("digest", &self.0.digest)
            .field("interface", &self.0.interface)
            .finish_non_exhaustive()
    }
}

impl Revision {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Returns the SHA-256 of the file in hexadecimal: the revision's name.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }

    /// Returns the version of the interface it was built for.
    #[must_use]
    pub fn interface(&self) -> InterfaceVersion {
        self.0.interface
    }

    /// Returns the configuration it was described and is opened with, as JSON.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.0.config
    }

    /// Returns what the plugin says of itself for its configuration.
    #[must_use]
    pub fn descriptor(&self) -> &PluginDescriptor {
        &self.0.descriptor
    }

    /// Returns an instance for one lane. The live instantiation is made by its first call.
    #[must_use]
    pub fn instantiate(&self, limits: Limits) -> Instance {
        Instance::new(self.clone(), limits)
    }

    pub(crate) fn build(&self) -> &Build {
        &self.0.build
    }
}
