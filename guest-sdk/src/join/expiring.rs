//! Records that wait for partners, each for the same length of event time.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    error::Result,
    plugin::{Timer, TimerDomain},
    state::{EventTimeBuffer, Slot},
};

/// An [`EventTimeBuffer`] whose items each stay for the same length of event time: one is due when
/// the watermark is at or past its time + that length.
///
/// State: a row per item, and one that counts them. Timers: one per key, for the earliest item.
/// Cost: 1 read and 2 writes per item that comes; what expires is sought, and nothing else read.
///
/// Another length is in force for what is kept already, from the key's next timer on.
///
/// ```
/// use dovetail_sdk::{
///     Context, Harness, Output, Plugin, Record, Result, Setup, Timer, join::ExpiringBuffer,
/// };
///
/// /// Emits each record when event time is 10 ms past it.
/// struct Delay { main: Output, kept: ExpiringBuffer<String> }
///
/// # #[derive(serde::Deserialize)] struct Config {}
/// impl Plugin for Delay {
///     type Config = Config;
///
///     fn open(_: Config, setup: &mut Setup) -> Result<Self> {
///         setup.input("records");
///         let kept = ExpiringBuffer::new(setup.state("kept").event_time_buffer(), 10, 0);
///         Ok(Self { main: setup.output("main"), kept })
///     }
///
///     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
///         let text = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
///         self.kept.push(context, record.time.unwrap_or(0), &text)?;
///         Ok(())
///     }
///
///     fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
///         for (_, text) in self.kept.expire(context, timer.time, 500)? {
///             self.main.emit(context, text);
///         }
///         Ok(())
///     }
/// }
///
/// let mut harness = Harness::<Delay>::new("{}")?;
/// for time in [7, 3] {
///     harness.record("records").key("k").time(time).value(&time.to_string());
/// }
/// harness.watermark(13);
/// assert_eq!(harness.values("main"), ["3"]);
/// harness.watermark(17);
/// assert_eq!(harness.values("main"), ["7"]);
/// assert_eq!(harness.rows(), 0);
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug)]
pub struct ExpiringBuffer<T> {
    items: EventTimeBuffer<T>,
    length: i64,
    tag: u64,
}

impl<T> Clone for ExpiringBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ExpiringBuffer<T> {}

impl<T: Serialize + DeserializeOwned> ExpiringBuffer<T> {
    /// Makes one of a buffer, how long items stay in ms, and the tag of its timers.
    #[must_use]
    pub fn new(items: EventTimeBuffer<T>, length: i64, tag: u64) -> Self {
        Self { items, length: length.max(0), tag }
    }

    /// Returns the buffer, to read ranges and to remove or replace items. Items are added with
    /// [`ExpiringBuffer::push`].
    #[must_use]
    pub fn items(&self) -> &EventTimeBuffer<T> {
        &self.items
    }

    /// Returns when an item is due.
    #[must_use]
    pub fn due(&self, time: i64) -> i64 {
        time.saturating_add(self.length)
    }

    /// Returns whether a timer is one of this buffer's.
    #[must_use]
    pub fn is_own(&self, timer: Timer) -> bool {
        timer.domain == TimerDomain::Event && timer.tag == self.tag
    }

    /// Adds an item. One that is due already is so with the next move of time.
    ///
    /// # Errors
    ///
    /// When the item cannot be written.
    pub fn push(&self, context: &mut Context<'_>, time: i64, item: &T) -> Result<Slot> {
        let (slot, is_earliest) = self.items.push_and_wake(context, time, item)?;
        if is_earliest {
            context.timers().register_event_time(self.due(time), self.tag);
        }
        Ok(slot)
    }

    /// Removes and returns, in time order, items that are due at `now`: at most `limit` (≥ 1; the
    /// host may cut a page). Called from the timer, with its time, or with the watermark to take
    /// all that is due in one call; what remains has its timer, in the same move of time where it
    /// is due.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn expire(
        &self,
        context: &mut Context<'_>,
        now: i64,
        limit: u32,
    ) -> Result<Vec<(Slot, T)>> {
        // At the end of time everything is due, however long it stays.
        let last = if now == i64::MAX { now } else { now.saturating_sub(self.length) };
        let mut expired = Vec::new();
        if let Some(time) = self.items.take_until(context, last, limit, &mut expired)? {
            context.timers().register_event_time(self.due(time), self.tag);
        }
        Ok(expired)
    }
}
