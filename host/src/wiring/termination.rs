//! SIGTERM and SIGINT, from the first moment of a run to its end.
//!
//! Keeps: a signal never ends a process whose lanes run without ending their epochs; before there
//! are lanes nothing has been read, and the process ends at once.

use std::sync::{Arc, Mutex, PoisonError};

use dovetail_admin::signals;
use dovetail_runtime::{Handle, Supervisor};

use crate::failure::Failure;

/// The exit code after a second signal: as a shell reports SIGTERM.
const EXIT_AT_ONCE: i32 = 143;

/// What is ended by a signal; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Termination(Arc<Mutex<Option<Handle>>>);

impl Termination {
    /// Takes the signals from now on.
    ///
    /// # Errors
    ///
    /// When the system does not let us.
    pub fn listen() -> Result<Self, Failure> {
        let termination = Self::default();
        let listening = termination.clone();
        signals::on_termination(move || listening.end(), || exit(EXIT_AT_ONCE))?;
        Ok(termination)
    }

    /// Starts a pipeline; a signal that comes meanwhile waits for it and ends it then.
    ///
    /// # Errors
    ///
    /// Why it could not start.
    pub(super) fn begin(
        &self,
        start: impl FnOnce() -> Result<Supervisor, Failure>,
    ) -> Result<Supervisor, Failure> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let supervisor = start()?;
        *running = Some(supervisor.handle());
        Ok(supervisor)
    }

    fn end(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = running.as_ref() {
            tracing::info!("stopping: ending the epochs; a second signal exits at once");
            handle.stop();
        } else {
            tracing::info!("stopped before anything was read");
            exit(0);
        }
    }
}

/// Not `process::exit`: that runs the destructors of C++ libraries whose threads still work.
fn exit(code: i32) {
    signal_hook::low_level::exit(code);
}
