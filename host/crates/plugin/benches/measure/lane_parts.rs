//! The context of an open epoch, as a lane has it, for benchmarks of single calls.

use dovetail_core::{
    context::{Context, ContextParts},
    options::{CallLimits, OutputOptions},
    state::{StateId, StateStore},
};
use dovetail_plugin::Revision;

/// Returns a context for a revision over a store.
pub(crate) fn context(revision: &Revision, store: Box<dyn StateStore>) -> Box<Context> {
    let descriptor = revision.descriptor().clone();
    let outputs = descriptor.outputs.iter().map(|name| OutputOptions {
        name: name.clone(),
        topic: name.clone(),
        max_record_bytes: 1 << 20,
        requires_key: false,
    });
    let parts = ContextParts {
        store,
        inputs: descriptor.inputs.clone(),
        outputs: outputs.collect(),
        state_ids: (0..).map(StateId).take(descriptor.states.len()).collect(),
        descriptor,
        late_output: None,
        limits: CallLimits::default(),
    };
    Box::new(Context::new(parts, None))
}
