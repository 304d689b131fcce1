//! A clock that other work on the machine does not move, and the allocator of the host's binary.

use std::{fs, time::Duration};

/// The allocator that the host's binary has.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Returns how long this thread has run on a processor.
pub(crate) fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is the time in ns"))
}
