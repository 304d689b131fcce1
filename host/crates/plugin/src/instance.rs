//! An instance of a plugin for one lane: the match function behind which Wasm runs.
//!
//! Invariants: the context comes back from every call, whatever the guest did; after a failure the
//! store is gone and the next call makes a new one; nothing of one call is kept for the next but
//! what the guest holds in its own memory.

use std::sync::Arc;

use bytes::Bytes;
use dovetail_core::{
    context::{Context, ContextError, Subject},
    plugin::{CallFailure, CallResult, FailureKind, MatchFunction},
    time::NO_WATERMARK,
    timers::TimerDomain,
};
use wasmtime::{
    Store,
    component::{ComponentType, InstancePre, Lower, TypedFunc},
};

use crate::{
    engine::ticks,
    failure::{classify, refused_by_guest, trap_of},
    limits::Limits,
    revision::Revision,
    store::{Early, HostState, Phase},
    symbols::Symbols,
};

/// The export of plugins with broadcast inputs.
pub(crate) const PROCESS_BROADCAST: &str = "process-broadcast";

/// What every export that takes part in processing returns.
pub(crate) type Outcome = (Result<(), String>,);
type OpenParams = (String,);
type ProcessElementParams = (u32, Option<Bytes>, Option<i64>);
type OnTimerParams = (i64, Domain, u64);

/// `timer-domain` of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum Domain {
    #[component(name = "event")]
    Event,
    #[component(name = "processing")]
    Processing,
    #[component(name = "continue")]
    Continue,
}

impl From<TimerDomain> for Domain {
    fn from(domain: TimerDomain) -> Self {
        match domain {
            TimerDomain::Event => Self::Event,
            TimerDomain::Processing => Self::Processing,
            TimerDomain::Continue => Self::Continue,
        }
    }
}

/// A live instantiation: a store and the exports in it, looked up once.
pub(crate) struct Live {
    pub(crate) store: Store<HostState>,
    open: TypedFunc<OpenParams, Outcome>,
    process_element: TypedFunc<ProcessElementParams, Outcome>,
    on_timer: TypedFunc<OnTimerParams, Outcome>,
    /// Only plugins with broadcast inputs have it.
    process_broadcast: Option<TypedFunc<ProcessElementParams, Outcome>>,
}

/// Why no live instantiation came about.
pub(crate) enum LiveError {
    /// `open` returned an error.
    Refused(String),
    /// `open` failed.
    Open(CallFailure),
}

impl Live {
    /// Makes a store with an instance in it; `open` has not run.
    pub(crate) fn new(build: &Build, limits: &Limits) -> Result<Self, CallFailure> {
        let (store, instance) = build.instantiate(limits)?;
        Self::look_up(store, &instance).map_err(|(export, error)| CallFailure {
            kind: FailureKind::Trap,
            message: format!("export `{export}`: {error:#}"),
        })
    }

    /// Finds the exports; one that is missing or of another type is returned with the error.
    pub(crate) fn look_up(
        mut store: Store<HostState>,
        instance: &wasmtime::component::Instance,
    ) -> Result<Self, (&'static str, wasmtime::Error)> {
        let at = |export| move |error| (export, error);
        let open = instance.get_typed_func(&mut store, "open").map_err(at("open"))?;
        let process_element = instance
            .get_typed_func(&mut store, "process-element")
            .map_err(at("process-element"))?;
        let on_timer = instance.get_typed_func(&mut store, "on-timer").map_err(at("on-timer"))?;
        let has_broadcast =
            instance.get_export_index(&mut store, None, PROCESS_BROADCAST).is_some();
        let process_broadcast = has_broadcast
            .then(|| instance.get_typed_func(&mut store, PROCESS_BROADCAST))
            .transpose()
            .map_err(at(PROCESS_BROADCAST))?;
        Ok(Self { store, open, process_element, on_timer, process_broadcast })
    }

    /// Runs `open`.
    pub(crate) fn open(&mut self, config: &str, limits: &Limits) -> Result<(), LiveError> {
        self.store.data_mut().phase = Phase::Open;
        self.store.set_epoch_deadline(ticks(limits.deadline));
        match self.open.call(&mut self.store, (config.to_owned(),)) {
            Ok((Ok(()),)) => {
                self.store.data_mut().phase = Phase::Call;
                Ok(())
            }
            Ok((Err(message),)) => Err(LiveError::Refused(refused_by_guest(&message).message)),
            Err(error) => Err(LiveError::Open(classify(&error, self.store.data_mut()))),
        }
    }
}

/// What instances are made of.
pub(crate) struct Build {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) symbols: Arc<Symbols>,
}

impl Build {
    /// Makes a store with an instance in it. Also for `describe`, which needs no handlers.
    pub(crate) fn instantiate(
        &self,
        limits: &Limits,
    ) -> Result<(Store<HostState>, wasmtime::component::Instance), CallFailure> {
        let mut store = Store::new(self.pre.engine(), HostState::new(limits, &self.symbols));
        store.limiter(|state| state);
        store.set_hostcall_fuel(limits.import_bytes);
        // Without a deadline the guest traps at once.
        store.set_epoch_deadline(ticks(limits.deadline));
        match self.pre.instantiate(&mut store) {
            Ok(instance) => Ok((store, instance)),
            Err(error) => Err(classify(&error, store.data_mut())),
        }
    }
}

/// A plugin as one lane calls it.
pub struct Instance {
    revision: Revision,
    limits: Limits,
    outputs: Option<Arc<[u32]>>,
    live: Option<Live>,
    is_fresh_per_call: bool,
    calls: u64,
    memory_bytes_peak: usize,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("revision", &self.revision)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Instance {
    pub(crate) fn new(revision: Revision, limits: Limits) -> Self {
        Self {
            revision,
            limits,
            outputs: None,
            live: None,
            is_fresh_per_call: false,
            calls: 0,
            memory_bytes_peak: 0,
        }
    }

    /// Makes the live instantiation and opens it, so that the first call finds it ready.
    ///
    /// # Errors
    ///
    /// Why the plugin cannot be instantiated or opened.
    pub fn prepare(&mut self) -> CallResult {
        self.live().map(|_live| ())
    }

    /// Returns the revision it runs.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Says which of the lane's outputs each output of `describe` is, where the lane numbers them
    /// in another order.
    pub fn number_outputs(&mut self, outputs: Vec<u32>) {
        self.outputs = Some(outputs.into());
        self.drop_live();
    }

    /// Makes every call run on a fresh instance (or no longer): what a plugin keeps in its memory
    /// between calls then shows as a different result.
    pub fn set_fresh_instance_per_call(&mut self, is_fresh: bool) {
        self.is_fresh_per_call = is_fresh;
    }

    /// Returns the most linear memory that any of its instantiations held, in bytes.
    #[must_use]
    pub fn peak_memory_bytes(&self) -> usize {
        let live = self.live.as_ref().map_or(0, |live| live.store.data().memory_bytes_peak());
        self.memory_bytes_peak.max(live)
    }

    /// Returns how many calls of handlers were made, failed ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Runs a handler with the context in the store, and takes it back.
    fn call(
        &mut self,
        context: Box<Context>,
        handler: impl FnOnce(&mut Live) -> wasmtime::Result<Outcome>,
    ) -> (Box<Context>, CallResult) {
        self.calls += 1;
        if self.is_fresh_per_call {
            self.drop_live();
        }
        let limits = self.limits;
        let live = match self.live() {
            Ok(live) => live,
            Err(failure) => return (context, Err(failure)),
        };
        live.store.data_mut().context = Some(context);
        live.store.set_epoch_deadline(ticks(limits.deadline));
        let returned = hand_over_early(live).and_then(|()| handler(live));
        let state = live.store.data_mut();
        let context = state.context.take().expect("every import puts the context back");
        let result = match returned {
            Ok((Ok(()),)) => return (context, Ok(())),
            Ok((Err(message),)) => refused_by_guest(&message),
            Err(error) => classify(&error, state),
        };
        self.drop_live();
        (context, Err(result))
    }

    /// Returns the live instantiation, made and opened if there is none.
    fn live(&mut self) -> Result<&mut Live, CallFailure> {
        if self.live.is_none() {
            let mut live = Live::new(self.revision.build(), &self.limits)?;
            live.store.data_mut().outputs.clone_from(&self.outputs);
            let opened = live.open(self.revision.config(), &self.limits);
            let peak = live.store.data().memory_bytes_peak();
            self.memory_bytes_peak = self.memory_bytes_peak.max(peak);
            opened.map_err(LiveError::into_failure)?;
            self.live = Some(live);
        }
        Ok(self.live.as_mut().expect("made above"))
    }

    fn drop_live(&mut self) {
        self.memory_bytes_peak = self.peak_memory_bytes();
        self.live = None;
    }
}

impl LiveError {
    fn into_failure(self) -> CallFailure {
        match self {
            Self::Refused(message) => {
                CallFailure { kind: FailureKind::Error, message: format!("`open`: {message}") }
            }
            Self::Open(failure) => {
                CallFailure { kind: failure.kind, message: format!("`open`: {}", failure.message) }
            }
        }
    }
}

/// Gives the first call what `open` logged and measured.
fn hand_over_early(live: &mut Live) -> wasmtime::Result<()> {
    let state = live.store.data_mut();
    if state.early.is_empty() {
        return Ok(());
    }
    let early = std::mem::take(&mut state.early);
    let Some(context) = state.context.as_mut() else {
        return Ok(());
    };
    for one in early {
        match one {
            Early::Log(level, text) => context.log(level, &text),
            Early::Metric(metric, value) => context.metric(metric, value).map_err(trap_of)?,
        }
    }
    Ok(())
}

impl MatchFunction for Instance {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let Subject::Record { role, record, time, .. } = &context.current().subject else {
            return (context, Err(misplaced("process-element", "record")));
        };
        let params = (*role, record.value.clone(), *time);
        self.call(context, |live| live.process_element.call(&mut live.store, params))
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let Subject::Record { role, record, time, .. } = &context.current().subject else {
            return (context, Err(misplaced(PROCESS_BROADCAST, "record")));
        };
        let params = (*role, record.value.clone(), *time);
        self.call(context, |live| match &live.process_broadcast {
            Some(export) => export.call(&mut live.store, params),
            None => {
                let message = format!("the plugin does not export `{PROCESS_BROADCAST}`");
                Err(trap_of(ContextError::Refused(CallFailure {
                    kind: FailureKind::Limit,
                    message,
                })))
            }
        })
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let Subject::Timer { time, domain, tag } = context.current().subject else {
            return (context, Err(misplaced("on-timer", "timer")));
        };
        let params = (time.unwrap_or(NO_WATERMARK), Domain::from(domain), tag);
        self.call(context, |live| live.on_timer.call(&mut live.store, params))
    }

    fn renew(&mut self) {
        self.drop_live();
    }
}

fn misplaced(export: &str, expected: &str) -> CallFailure {
    let message = format!("`{export}` was called without a {expected} at hand");
    CallFailure { kind: FailureKind::Limit, message }
}
