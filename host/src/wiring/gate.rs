//! The plugin's gate in the pipeline's terms: load, check, fit, instantiate.
//!
//! The same gate stands before the first revision and before every later one.

use std::{path::Path, sync::Arc, time::Duration};

use dovetail_core::{
    epoch::LaneId, lane::PluginSwitch, options::OutputOptions, plugin::PluginDescriptor,
    state::StateId,
};
use dovetail_plugin::{Engine, Gate, GateError, GateOptions, Limits};
use dovetail_runtime::{Revision, call_time::Timed};

use super::roles::{self, Fit};
use crate::{
    config::{Loaded, model::PluginLimits},
    failure::Failure,
};

/// A gate with the pipeline's limits.
pub struct PluginGate {
    gate: Gate,
    limits: Limits,
}

impl std::fmt::Debug for PluginGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginGate").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl PluginGate {
    /// Opens a gate.
    ///
    /// # Errors
    ///
    /// When this machine cannot run components.
    pub fn new(limits: &PluginLimits) -> Result<Self, Failure> {
        let options = gate_options(limits);
        let limits = options.limits;
        let engine = Engine::new().map_err(|error| Failure::internal(error.to_string()))?;
        let gate =
            Gate::new(&engine, options).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(Self { gate, limits })
    }

    /// Loads the component in a file.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn load(&self, path: &Path, config: &str) -> Result<dovetail_plugin::Revision, GateError> {
        self.gate.load(path, config)
    }

    /// Loads a component from bytes.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub fn load_bytes(
        &self,
        bytes: &[u8],
        config: &str,
    ) -> Result<dovetail_plugin::Revision, String> {
        self.gate.load_bytes(bytes.to_vec(), config).map_err(|error| error.to_string())
    }

    /// Returns the limits of an instance.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

fn gate_options(limits: &PluginLimits) -> GateOptions {
    GateOptions {
        file_bytes_max: limits.component_bytes,
        limits: Limits {
            memory_bytes: usize::try_from(limits.memory).unwrap_or(usize::MAX),
            deadline: Duration::from_millis(u64::try_from(limits.deadline).unwrap_or(u64::MAX)),
            import_bytes: usize::try_from(limits.import_bytes).unwrap_or(usize::MAX),
        },
    }
}

/// A revision that fits the pipeline.
#[derive(Debug)]
pub struct FittedRevision {
    revision: dovetail_plugin::Revision,
    /// As the lanes see it: with their outputs.
    descriptor: PluginDescriptor,
    fit: Fit,
    /// The lanes' number for each of its outputs, where they number them in another order.
    numbers: Option<Vec<u32>>,
    outputs: Vec<OutputOptions>,
    limits: Limits,
    pipeline: String,
}

impl FittedRevision {
    /// Returns a revision with the way it fits; `accepted` says what each configured output takes.
    #[must_use]
    pub fn new(
        pipeline: &str,
        revision: dovetail_plugin::Revision,
        fit: Fit,
        accepted: &[OutputOptions],
        limits: Limits,
    ) -> Self {
        let outputs = fit.lane_outputs(accepted);
        let descriptor = revision.descriptor().clone();
        let pipeline = pipeline.to_owned();
        Self { revision, descriptor, fit, numbers: None, outputs, limits, pipeline }
    }

    /// Returns a later revision: the lanes number their outputs as the `first` one did.
    fn later(
        pipeline: &str,
        revision: dovetail_plugin::Revision,
        fit: Fit,
        first: &Fit,
        accepted: &[OutputOptions],
        limits: Limits,
    ) -> Self {
        let numbers = fit.renumbered(first, revision.descriptor().outputs.len());
        let fit = Fit { roles: fit.roles, ..first.clone() };
        let mut fitted = Self::new(pipeline, revision, fit, accepted, limits);
        if numbers.is_some() {
            let names = fitted.outputs.iter().map(|output| output.name.clone());
            fitted.descriptor.outputs = names.collect();
        }
        Self { numbers, ..fitted }
    }
}

impl Revision for FittedRevision {
    fn digest(&self) -> &str {
        self.revision.digest()
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.descriptor
    }

    fn instantiate(&self, _lane: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        let mut instance = self.revision.instantiate(self.limits);
        if let Some(numbers) = &self.numbers {
            instance.number_outputs(numbers.clone());
        }
        instance.prepare().map_err(|failure| failure.message)?;
        Ok(PluginSwitch {
            function: Box::new(Timed::new(instance, &self.pipeline)),
            descriptor: self.descriptor.clone(),
            state_ids,
            roles: self.fit.roles.clone(),
            outputs: self.outputs.clone(),
            late_output: self.fit.late_output,
            revision: self.revision.digest().to_owned(),
        })
    }
}

/// Takes a later revision through the gate.
///
/// # Errors
///
/// Why it is refused.
pub fn admit_later(
    gate: &PluginGate,
    loaded: &Loaded,
    first: &Fit,
    accepted: &[OutputOptions],
    bytes: &[u8],
) -> Result<Arc<dyn Revision>, String> {
    let revision = gate.load_bytes(bytes, &loaded.config.plugin.config)?;
    let fit = roles::fit(loaded, revision.descriptor())
        .map_err(|problems| loaded.problems(problems).to_string())?;
    let (pipeline, limits) = (&loaded.config.pipeline, gate.limits());
    Ok(Arc::new(FittedRevision::later(pipeline, revision, fit, first, accepted, limits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_not_said_are_those_of_the_gate() {
        assert_eq!(gate_options(&PluginLimits::default()), GateOptions::default());
    }
}
