//! One thread per lane: turns the driver, waits for what it waits for, and reports its end.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::Sender;
use dovetail_core::{clock::Clock, epoch::LaneId};

use crate::{
    clock::SystemClock,
    driver::{Advance, LaneDriver, LaneEnd},
    fatal::{FatalCause, FatalKind},
};

/// Guests run on the lane's stack, and recursion in one must meet its own limit first.
const STACK_BYTES: usize = 8 << 20;
/// The longest wait, so that the loop is seen to turn.
const WAIT_MAX: i64 = 1_000;

/// Starts a lane's thread; its end is sent to `ends`, also when it panics.
pub(crate) fn spawn(
    lane: LaneId,
    mut driver: LaneDriver,
    ends: Sender<(LaneId, LaneEnd)>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("lane-{}", lane.0)).stack_size(STACK_BYTES).spawn(
        move || {
            let end = catch_unwind(AssertUnwindSafe(|| drive(&mut driver)));
            let end = end.unwrap_or_else(|panic| {
                let kind = FatalKind::Internal;
                let message = format!("a defect in the host: {}", panic_message(panic.as_ref()));
                LaneEnd::Fatal(FatalCause { lane: Some(lane), kind, message })
            });
            // State and clients are closed before the end is told.
            drop(driver);
            if ends.send((lane, end)).is_err() {
                tracing::debug!(lane = lane.0, "nobody waits for the lane's end");
            }
        },
    )
}

fn drive(driver: &mut LaneDriver) -> LaneEnd {
    let mut clock = SystemClock;
    loop {
        driver.beat();
        match driver.advance(&mut clock) {
            Advance::Again => {}
            Advance::Wait(until) => {
                let wait = until.map_or(WAIT_MAX, |until| until.saturating_sub(clock.read()));
                let wait = u64::try_from(wait.clamp(0, WAIT_MAX)).unwrap_or(0);
                if wait > 0 {
                    driver.wait(Duration::from_millis(wait));
                }
            }
            Advance::Ended(end) => return end,
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".to_owned())
}
