//! What a plugin author implements.
//!
//! Invariant: a plugin is a function of (record or timer, state). What it keeps in its own
//! fields besides handles and configuration is lost whenever the host renews the instance.

use serde::de::DeserializeOwned;

use crate::{
    context::Context,
    error::{Error, Result},
    handles::Input,
    setup::Setup,
};

/// A match function.
///
/// `open` declares inputs, outputs, states and metrics and keeps their handles; the host asks the
/// same function for the plugin's description, so nothing is numbered or named twice.
pub trait Plugin: Sized + 'static {
    /// The plugin's part of the pipeline file (`plugin.config`). Add
    /// `#[serde(deny_unknown_fields)]` so that a misspelt option is refused.
    type Config: DeserializeOwned;

    /// Checks the configuration, declares what the plugin uses and makes an instance.
    ///
    /// # Errors
    ///
    /// When the configuration is wrong: the text is shown to whoever wrote it.
    fn open(config: Self::Config, setup: &mut Setup) -> Result<Self>;

    /// Handles a record.
    ///
    /// # Errors
    ///
    /// Undoes everything this call did. The record is tried once more and then kept as a dead
    /// letter with the error's text.
    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result;

    /// Handles a record of an input that [`Setup::broadcast_input`] declared: every lane handles each
    /// of them once, before its next record of another input. It reads and writes broadcast state,
    /// emits, logs and measures; keyed state and timers end the call. The default refuses.
    ///
    /// # Errors
    ///
    /// As [`Plugin::process_element`], in this lane alone.
    fn process_broadcast(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let _ = (record, context);
        Err(Error::new("this plugin declares a broadcast input and does not handle its records"))
    }

    /// Handles a timer of the current key.
    ///
    /// # Errors
    ///
    /// As [`Plugin::process_element`]; the timer is consumed.
    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let _ = (timer, context);
        Ok(())
    }
}

/// A record as a handler sees it; key, headers and position are asked of the [`Context`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which input it came from: compare it with the handle that `open` kept.
    pub input: Input,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The event time in ms; `None` where the input has none.
    pub time: Option<i64>,
}

/// A timer that fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// The time it was registered for. For [`TimerDomain::Continue`] the event time of the call
    /// that asked for it, −2^63 where it had none.
    pub time: i64,
    /// Its domain.
    pub domain: TimerDomain,
    /// The plugin's own mark.
    pub tag: u64,
}

impl Timer {
    /// Returns the event time that results of this call have unless they say otherwise.
    pub(crate) fn event_time(&self) -> Option<i64> {
        match self.domain {
            TimerDomain::Event => Some(self.time),
            TimerDomain::Continue => (self.time != i64::MIN).then_some(self.time),
            TimerDomain::Processing => None,
        }
    }
}

/// Which time a timer waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerDomain {
    /// The watermark.
    Event,
    /// The lane's clock.
    Processing,
    /// Nothing: it goes on with the work of the call that asked for it.
    Continue,
}
