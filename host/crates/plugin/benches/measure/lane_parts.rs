//! What the benchmarks of calls share: the context of an open epoch, as a lane has it, and a clock
//! that other work on the machine does not move.

use std::{fs, time::Duration};

use dovetail_core::{
    context::{Context, ContextParts},
    options::{CallLimits, OutputOptions},
    state::{StateId, StateStore},
};
use dovetail_plugin::Revision;

/// The allocator that the host's binary has.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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

/// Returns how long this thread has run on a processor.
pub(crate) fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is the time in ns"))
}
