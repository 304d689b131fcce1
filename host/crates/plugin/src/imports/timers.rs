//! `interface timers`: requests of the current key to be called.

use dovetail_core::timers::TimerDomain;

use super::{Call, Interface, with_context};

/// The functions defined here.
pub(super) const NAMES: &[&str] = &[
    "register-event-time-timer",
    "delete-event-time-timer",
    "register-processing-time-timer",
    "delete-processing-time-timer",
    "continue-with",
];

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    let registers = [
        ("register-event-time-timer", TimerDomain::Event),
        ("register-processing-time-timer", TimerDomain::Processing),
    ];
    for (name, domain) in registers {
        interface.func_wrap(name, move |store: Call<'_>, (time, tag): (i64, u64)| {
            with_context(store, |context, _| context.timer_register(domain, time, tag))
        })?;
    }
    let deletes = [
        ("delete-event-time-timer", TimerDomain::Event),
        ("delete-processing-time-timer", TimerDomain::Processing),
    ];
    for (name, domain) in deletes {
        interface.func_wrap(name, move |store: Call<'_>, (time, tag): (i64, u64)| {
            with_context(store, |context, _| context.timer_delete(domain, time, tag))
        })?;
    }
    interface.func_wrap("continue-with", |store: Call<'_>, (tag,): (u64,)| {
        with_context(store, |context, _| context.continue_with(tag))
    })
}
