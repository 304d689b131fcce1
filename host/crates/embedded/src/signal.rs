//! How a waiting lane is woken: by a commit of anyone, or by its waker.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A flag to wait for. Raised before the wait, it ends the wait at once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Ends the present wait, or the next one.
    pub(crate) fn raise(&self) {
        *self.is_raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it is raised or the time is over, and lowers it.
    pub(crate) fn wait(&self, at_most: Duration) {
        let guard = self.is_raised.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut guard, _timeout) = self
            .changed
            .wait_timeout_while(guard, at_most, |is_raised| !*is_raised)
            .unwrap_or_else(PoisonError::into_inner);
        *guard = false;
    }
}
