//! The one place that configures Wasmtime, and the clock of the guests' deadlines.
//!
//! Invariant: the same component computes the same on every machine: no threads, no relaxed SIMD,
//! canonical NaNs, and no import but ours.

use std::{thread, time::Duration};

use wasmtime::{Config, EngineWeak, OptLevel, WasmBacktraceDetails};

/// Why no engine could be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Wasmtime refused the settings on this machine.
    #[error(
        "WebAssembly cannot be compiled on this machine: {0}; expected a 64-bit processor that \
         Cranelift supports, and memory that may be made executable"
    )]
    Unsupported(String),
    /// The thread that counts deadlines could not be started.
    #[error("the thread that counts plugin deadlines cannot be started: {0}")]
    Ticker(#[from] std::io::Error),
}

/// Compiles plugins and counts their deadlines. Cloning is cheap; one per process is enough.
#[derive(Clone)]
pub struct Engine {
    inner: wasmtime::Engine,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// The step in which deadlines are counted.
    pub const TICK: Duration = Duration::from_millis(10);

    /// Returns an engine and starts its ticker, which ends when the last clone is gone.
    ///
    /// # Errors
    ///
    /// When this machine cannot run compiled WebAssembly, or has no thread left.
    pub fn new() -> Result<Self, EngineError> {
        let inner = wasmtime::Engine::new(&config())
            .map_err(|error| EngineError::Unsupported(format!("{error:#}")))?;
        let weak = inner.weak();
        let ticker = thread::Builder::new().name("plugin-deadlines".to_owned());
        ticker.spawn(move || tick(&weak))?;
        Ok(Self { inner })
    }

    pub(crate) fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }
}

/// Returns a deadline in ticks: one more than it takes, because the first may come at once.
pub(crate) fn ticks(deadline: Duration) -> u64 {
    let ticks = deadline.as_millis().div_ceil(Engine::TICK.as_millis()).max(1);
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1).min(u64::MAX / 2)
}

fn tick(engine: &EngineWeak) {
    loop {
        thread::park_timeout(Engine::TICK);
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.increment_epoch();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the place that configures the engine")]
fn config() -> Config {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(true)
        // Calls are synchronous: support for concurrent ones costs two thirds of a call.
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(512 << 10)
        .memory_may_move(false)
        // Determinism.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .shared_memory(false)
        // What no plugin needs.
        .wasm_memory64(false)
        .wasm_gc(false)
        .wasm_stack_switching(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        // A trap names function, file and line; `symbols` looks the lines up.
        .generate_address_map(true)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}
