//! Work that does not fit one call.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    error::Result,
    plugin::{Timer, TimerDomain},
    state::ValueState,
};

/// Work that is gone through in steps: what is left of it is kept, and the next step runs right
/// after the call, before the next record, as its own unit of undo. So one record that matches a
/// hundred thousand rows neither holds them in memory nor stretches an epoch.
///
/// State: one row of the key while work goes on. Timers: none. Cost: nothing where the work fits
/// one call, else a read and a write per step.
///
/// ```
/// use dovetail_sdk::{Context, Harness, Output, Plugin, Record, Result, Setup, Timer, join::Steps};
///
/// /// Counts down from the record's number, two at a time.
/// struct Countdown { main: Output, steps: Steps<u64> }
///
/// impl Countdown {
///     fn step(&self, from: u64, context: &mut Context<'_>) -> Result {
///         for number in (from.saturating_sub(2)..from).rev() {
///             self.main.emit(context, number.to_string());
///         }
///         if from > 2 { self.steps.go_on(context, &(from - 2)) } else { Ok(()) }
///     }
/// }
///
/// # #[derive(serde::Deserialize)] struct Config {}
/// impl Plugin for Countdown {
///     type Config = Config;
///
///     fn open(_: Config, setup: &mut Setup) -> Result<Self> {
///         setup.input("numbers");
///         let steps = Steps::new(setup.state("work").value(), 1);
///         Ok(Self { main: setup.output("main"), steps })
///     }
///
///     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
///         let text = std::str::from_utf8(record.value.unwrap_or_default())?;
///         self.step(text.parse()?, context)
///     }
///
///     fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
///         match self.steps.take(context, timer)? {
///             Some(from) => self.step(from, context),
///             None => Ok(()),
///         }
///     }
/// }
///
/// let mut harness = Harness::<Countdown>::new("{}")?;
/// harness.record("numbers").key("k").value("5");
/// assert_eq!(harness.values("main"), ["4", "3", "2", "1", "0"]);
/// assert_eq!(harness.rows(), 0);
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug)]
pub struct Steps<W> {
    rest: ValueState<W>,
    tag: u64,
}

impl<W> Clone for Steps<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Steps<W> {}

impl<W: Serialize + DeserializeOwned> Steps<W> {
    /// Makes steps of a state of their own and a tag that no other `continue` of the plugin uses.
    #[must_use]
    pub fn new(rest: ValueState<W>, tag: u64) -> Self {
        Self { rest, tag }
    }

    /// Keeps what is left to do and asks for the next step.
    ///
    /// # Errors
    ///
    /// When the work cannot be written.
    pub fn go_on(&self, context: &mut Context<'_>, work: &W) -> Result {
        self.rest.put(context, work)?;
        context.timers().continue_with(self.tag);
        Ok(())
    }

    /// Forgets what is left to do: of a step that failed, and so has no next one.
    pub fn clear(&self, context: &mut Context<'_>) {
        self.rest.remove(context);
    }

    /// Takes what is left to do, where the timer is the next step of this work.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn take(&self, context: &mut Context<'_>, timer: Timer) -> Result<Option<W>> {
        if timer.domain != TimerDomain::Continue || timer.tag != self.tag {
            return Ok(None);
        }
        let work = self.rest.get(context)?;
        self.rest.remove(context);
        Ok(work)
    }
}
