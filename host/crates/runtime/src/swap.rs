//! How far a swap of revisions has come, over all lanes.
//!
//! Each lane holds a share until there is nothing left for it to switch: it runs the revision, a
//! later one has come, or it has ended. Invariant: the last share settles the swap, once, however
//! late it is.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use dovetail_core::epoch::LaneId;

use crate::handle::lock;

struct Inner {
    /// Lanes that hold a share.
    waiting: Vec<LaneId>,
    settle: Option<Box<dyn FnOnce() + Send>>,
}

/// A swap that was begun.
pub(crate) struct Swap {
    inner: Mutex<Inner>,
    left: Condvar,
}

impl Swap {
    /// Begins a swap of these lanes; `settle` runs when the last of them has no share any more.
    pub(crate) fn new(lanes: Vec<LaneId>, settle: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let is_settled = lanes.is_empty();
        let swap = Self {
            inner: Mutex::new(Inner { waiting: lanes, settle: Some(Box::new(settle)) }),
            left: Condvar::new(),
        };
        if is_settled {
            swap.leave(None);
        }
        Arc::new(swap)
    }

    /// Returns a lane's share; there is one per lane.
    pub(crate) fn share(self: &Arc<Self>, lane: LaneId) -> SwapShare {
        SwapShare { swap: Arc::clone(self), lane }
    }

    fn leave(&self, lane: Option<LaneId>) {
        let mut inner = lock(&self.inner);
        inner.waiting.retain(|waiting| Some(*waiting) != lane);
        if inner.waiting.is_empty()
            && let Some(settle) = inner.settle.take()
        {
            // Whoever waits finds a swap without lanes settled.
            settle();
        }
        drop(inner);
        self.left.notify_all();
    }

    /// Waits until it is settled, at most so long; returns the lanes that have not switched.
    pub(crate) fn wait(&self, at_most: Duration) -> Vec<LaneId> {
        let deadline = Instant::now() + at_most;
        let mut inner = lock(&self.inner);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if inner.waiting.is_empty() || left.is_zero() {
                return inner.waiting.clone();
            }
            inner = match self.left.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// One lane's share of a swap. Dropping it says that the lane has nothing left to switch.
pub struct SwapShare {
    swap: Arc<Swap>,
    lane: LaneId,
}

impl fmt::Debug for SwapShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SwapShare").field(&self.lane).finish()
    }
}

impl Drop for SwapShare {
    fn drop(&mut self) {
        self.swap.leave(Some(self.lane));
    }
}
