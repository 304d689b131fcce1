//! How much an instance may use. What one call may emit or scan is core's
//! [`dovetail_core::options::CallLimits`].

use std::time::Duration;

/// The default of the largest plugin file, in bytes.
pub const COMPONENT_BYTES_MAX: u64 = 64 << 20;

/// Limits of an instance and of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory in bytes, all memories of an instance together. Default 64 MiB.
    pub memory_bytes: usize,
    /// How long one call may run, `open` included. Default 1 s; counted in steps of
    /// [`crate::Engine::TICK`], rounded up, at least one.
    pub deadline: Duration,
    /// Bytes a guest may hand over in one call of an import. Default 32 MiB.
    pub import_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 64 << 20, deadline: Duration::from_secs(1), import_bytes: 32 << 20 }
    }
}
