//! A plugin natively, as the match function that core's lane calls.
//!
//! Invariant: it answers as a host does: a panic is a trap with message and place, an error an
//! error, a refused import what core refused it with; after a failure the next call runs on a
//! fresh instance.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::Once,
};

use dovetail_core::{
    context::{Context as Core, Subject},
    plugin::{
        CallFailure, CallResult, Expiry, ExpiryDomain, FailureKind, MatchFunction,
        MetricDescriptor, MetricKind, PluginDescriptor, StateDescriptor, StateKind, StateScope,
    },
    timers::TimerDomain as CoreDomain,
};

use crate::{
    context::Context,
    error::{Error, Result},
    handles::Input,
    imports::{Host, Refused},
    plugin::{Plugin, Record, Timer, TimerDomain},
    setup::{self, Description, open},
};

/// A plugin and its configuration, running natively.
pub struct NativePlugin<P> {
    config: String,
    instance: Option<P>,
}

impl<P> std::fmt::Debug for NativePlugin<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativePlugin").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<P: Plugin> NativePlugin<P> {
    /// Opens a plugin with a configuration (JSON); returns it and what it says of itself.
    ///
    /// # Errors
    ///
    /// When the plugin refuses the configuration.
    pub fn new(config: impl Into<String>) -> Result<(Self, PluginDescriptor)> {
        let config = config.into();
        let (instance, description) = open(&config)?;
        Ok((Self { config, instance: Some(instance) }, description.into()))
    }

    fn call(
        &mut self,
        mut core: Box<Core>,
        handle: impl FnOnce(&mut P, &mut Core) -> Result,
    ) -> (Box<Core>, CallResult) {
        let outcome = {
            let core = &mut *core;
            let call = AssertUnwindSafe(|| {
                let instance = match self.instance.take() {
                    Some(instance) => instance,
                    None => open(&self.config)?.0,
                };
                handle(self.instance.insert(instance), core)
            });
            guarded(call)
        };
        if outcome.is_err() {
            self.instance = None;
        }
        (core, outcome)
    }
}

impl<P: Plugin> NativePlugin<P> {
    fn record(
        &mut self,
        context: Box<Core>,
        handler: fn(&mut P, Record<'_>, &mut Context<'_>) -> Result,
    ) -> (Box<Core>, CallResult) {
        self.call(context, |plugin, core| {
            let (input, value, time) = match &core.current().subject {
                Subject::Record { role, record, time, .. } => (*role, record.value.clone(), *time),
                Subject::None | Subject::Timer { .. } => {
                    return Err(Error::new("a record's handler was called without a record"));
                }
            };
            let record = Record { input: Input(input), value: value.as_deref(), time };
            handler(plugin, record, &mut Context::new(Host::new(core), time))
        })
    }
}

impl<P: Plugin + Send> MatchFunction for NativePlugin<P> {
    fn process_element(&mut self, context: Box<Core>) -> (Box<Core>, CallResult) {
        self.record(context, P::process_element)
    }

    fn process_broadcast(&mut self, context: Box<Core>) -> (Box<Core>, CallResult) {
        self.record(context, P::process_broadcast)
    }

    fn on_timer(&mut self, context: Box<Core>) -> (Box<Core>, CallResult) {
        self.call(context, |plugin, core| {
            let Subject::Timer { time, domain, tag } = core.current().subject else {
                return Err(Error::new("on_timer was called without a timer"));
            };
            let domain = match domain {
                CoreDomain::Event => TimerDomain::Event,
                CoreDomain::Processing => TimerDomain::Processing,
                CoreDomain::Continue => TimerDomain::Continue,
            };
            let timer = Timer { time: time.unwrap_or(i64::MIN), domain, tag };
            plugin.on_timer(timer, &mut Context::new(Host::new(core), timer.event_time()))
        })
    }

    fn renew(&mut self) {
        self.instance = None;
    }
}

thread_local! {
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps message and place of a panic inside a call, as the component's panic hook does; panics
/// elsewhere are reported as before.
fn keep_panics_of_calls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if IS_CALLING.get() {
                PANIC.set(Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
}

fn guarded(call: AssertUnwindSafe<impl FnOnce() -> Result>) -> CallResult {
    keep_panics_of_calls();
    IS_CALLING.set(true);
    let outcome = catch_unwind(call);
    IS_CALLING.set(false);
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            Err(CallFailure { kind: FailureKind::Error, message: error.message().to_owned() })
        }
        Err(payload) => Err(failure_of(payload)),
    }
}

fn failure_of(payload: Box<dyn Any + Send>) -> CallFailure {
    match payload.downcast::<Refused>() {
        Ok(refused) => refused.0,
        Err(_) => CallFailure {
            kind: FailureKind::Trap,
            message: PANIC.take().unwrap_or_else(|| "the plugin panicked".to_owned()),
        },
    }
}

impl From<Description> for PluginDescriptor {
    fn from(description: Description) -> Self {
        let states = description.states.into_iter().map(|state| StateDescriptor {
            name: state.name,
            kind: match state.kind {
                setup::Kind::Value => StateKind::Value,
                setup::Kind::Map => StateKind::Map,
            },
            scope: match state.scope {
                setup::Scope::Keyed => StateScope::Keyed,
                setup::Scope::Broadcast => StateScope::Broadcast,
            },
            schema_version: state.schema_version,
            expiry: state.expiry.map(|expiry| Expiry {
                after: expiry.after_ms,
                domain: match expiry.domain {
                    setup::ExpiryDomain::Event => ExpiryDomain::EventTime,
                    setup::ExpiryDomain::Processing => ExpiryDomain::ProcessingTime,
                },
                refresh_on_read: expiry.refresh == setup::Refresh::ReadAndWrite,
            }),
        });
        let metrics = description.metrics.into_iter().map(|metric| MetricDescriptor {
            name: metric.name,
            kind: match metric.kind {
                setup::MetricKind::Counter => MetricKind::Counter,
                setup::MetricKind::Gauge => MetricKind::Gauge,
                setup::MetricKind::Histogram => MetricKind::Histogram,
            },
        });
        Self {
            inputs: description.inputs,
            broadcast: description.broadcast,
            outputs: description.outputs,
            states: states.collect(),
            metrics: metrics.collect(),
        }
    }
}
