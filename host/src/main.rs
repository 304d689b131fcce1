//! The binary `dovetail`.

use std::process::ExitCode;

/// RocksDB and librdkafka use it too, so that memory goes back to the system.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    dovetail::cli::main()
}
