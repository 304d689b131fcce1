//! What may not change between two starts, and how a difference is told.

use dovetail_core::{
    identity::{Identity, InputIdentity, states_of},
    plugin::PluginDescriptor,
};

use super::{
    backend::Ground,
    lanes,
    options::{InputFacts, key_type, place},
};
use crate::{
    cli::terminal,
    config::{Config, model::InputConfig},
    failure::Failure,
};

/// Returns the identity of this start. The number of lanes is `lanes`, as committed, unless
/// another is asked for.
pub(super) fn configured(
    config: &Config,
    ground: &Ground,
    descriptor: &PluginDescriptor,
    lanes: Option<u16>,
) -> Identity {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let lanes = match (config.lanes, lanes) {
        (None, Some(committed)) => committed,
        (configured, _) => lanes::count(configured, ground.partitions, cores),
    };
    Identity {
        pipeline: config.pipeline.clone(),
        cluster_id: ground.cluster_id.clone(),
        lanes,
        inputs: inputs(config, ground),
        states: states_of(descriptor),
    }
}

/// Returns the inputs' part of it.
pub(super) fn inputs(config: &Config, ground: &Ground) -> Vec<InputIdentity> {
    let input = |(input, facts): (&InputConfig, &InputFacts)| InputIdentity {
        name: input.name.clone(),
        topic: place(input),
        partitions: facts.partitions,
        key_type: key_type(input),
    };
    config.inputs.iter().zip(&ground.inputs).map(input).collect()
}

/// Refuses a start that differs from the first one.
///
/// # Errors
///
/// A table of what was committed and what is configured, and the ways out.
pub(super) fn check(committed: &Identity, configured: &Identity) -> Result<(), Failure> {
    let differences = committed.differences(configured);
    if differences.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = differences
        .into_iter()
        .map(|difference| vec![difference.what, difference.committed, difference.configured])
        .collect();
    let table = terminal::boxed(&["", "committed at the first start", "configured now"], &rows);
    Err(Failure::configuration(format!(
        "`{}` is not the pipeline that was started before:\n\n{table}\nWays out:\n\
         \x20 - set these back to what was committed, or\n\
         \x20 - give the pipeline another name and another `state.dir`: it then starts anew, reads \
         its inputs from `start` on and has no state\n",
        committed.pipeline
    )))
}
