//! The match-function port, and what a plugin says of itself.
//!
//! Knows nothing of Wasm: a native function in a test and a component in production are called
//! alike.

use crate::{context::Context, dead_letter::Reason};

/// The shape of one named state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// One value per key.
    Value,
    /// Entries ordered by their bytes, per key.
    Map,
}

/// Whose a named state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateScope {
    /// Each key has its own.
    #[default]
    Keyed,
    /// Every key sees the same: written while a broadcast record is handled, read by all handlers.
    /// It does not expire.
    Broadcast,
}

/// Which clock an expiry counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryDomain {
    /// The stamp is max(time of the record or timer, lane's watermark); the clock is the watermark.
    EventTime,
    /// Stamp and clock are the lane's processing time.
    ProcessingTime,
}

/// How entries of a state expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// Expired once stamp + this ≤ clock, in ms; at least 1.
    pub after: i64,
    /// The clock it counts in.
    pub domain: ExpiryDomain,
    /// Whether reading renews the stamp as writing does.
    pub refresh_on_read: bool,
}

/// One named state of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDescriptor {
    /// Its name: its identity across revisions.
    pub name: String,
    /// Its shape.
    pub kind: StateKind,
    /// Whose it is.
    pub scope: StateScope,
    /// The version of what the plugin writes into it.
    pub schema_version: u16,
    /// How it expires, if it does; never for a broadcast state.
    pub expiry: Option<Expiry>,
}

/// What a metric of a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Any value, the last one stands.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricDescriptor {
    /// Its name, without prefix.
    pub name: String,
    /// What it is.
    pub kind: MetricKind,
}

/// What a plugin says of itself for one configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginDescriptor {
    /// Input roles; handlers receive their place in this list.
    pub inputs: Vec<String>,
    /// Those of the inputs whose records every lane gets, for [`MatchFunction::process_broadcast`].
    pub broadcast: Vec<String>,
    /// Outputs; `emit` takes their place in this list.
    pub outputs: Vec<String>,
    /// States; state calls take their place in this list.
    pub states: Vec<StateDescriptor>,
    /// Metrics; metric calls take their place in this list.
    pub metrics: Vec<MetricDescriptor>,
}

impl PluginDescriptor {
    /// Returns whether an input role is one whose records every lane gets.
    #[must_use]
    pub fn is_broadcast(&self, input: &str) -> bool {
        self.broadcast.iter().any(|name| name == input)
    }
}

/// Why a call did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The guest trapped or panicked. Retried once on a fresh instance.
    Trap,
    /// The handler returned an error. Retried once on a fresh instance.
    Error,
    /// The call ran longer than it may. Not retried.
    Deadline,
    /// The guest asked for more memory than it may have. Not retried.
    Memory,
    /// The call emitted, scanned or wrote more than it may, or misused an import. Not retried.
    Limit,
    /// An output would be refused by its topic. Not retried.
    OutputRefused,
}

impl FailureKind {
    /// Returns whether the call is tried once more on a fresh instance.
    #[must_use]
    pub fn is_retried(self) -> bool {
        matches!(self, Self::Trap | Self::Error)
    }

    /// Returns the reason that a dead letter gives.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::Trap => Reason::PluginTrap,
            Self::Error => Reason::PluginError,
            Self::Deadline => Reason::PluginDeadline,
            Self::Memory => Reason::PluginMemory,
            Self::Limit => Reason::PluginLimit,
            Self::OutputRefused => Reason::OutputRefused,
        }
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// What kind.
    pub kind: FailureKind,
    /// The guest's message and place, or what was exceeded.
    pub message: String,
}

/// How a call ended.
pub type CallResult = Result<(), CallFailure>;

/// The match function: a plugin's handlers.
///
/// The context travels into the call and back, also when the call fails, because a Wasm store owns
/// its data. What the call did to it is undone by the lane, not by the function.
pub trait MatchFunction: Send {
    /// Handles the record that `context` holds. After a failure the next call runs on a fresh
    /// instance.
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult);

    /// Handles the broadcast record that `context` holds. The default is for functions that are
    /// given none.
    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        let message = "this plugin handles no broadcast records".to_owned();
        (context, Err(CallFailure { kind: FailureKind::Limit, message }))
    }

    /// Handles the timer that `context` holds.
    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult);

    /// Drops the instance, so that the next call runs on a fresh one.
    fn renew(&mut self);
}
