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
/// State: a row per item, and one that counts them. Timers: one per key and distinct time of its
/// items. Cost: 1 read and 3 writes per item that comes; what expires is sought, and nothing else
/// read.
///
/// A timer that fails strands only the items of its own time: those stay, and come no more.
///
/// A longer length is in force for what is kept already; a shorter one from the next item on.
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
///         self.kept.expire(context, timer, 500, |_, text, context| {
///             self.main.emit(context, text);
///             Ok(())
///         })
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

/// A timer's tag is the buffer's own and, above that, the length its items were to stay: so it
/// tells the time of its items under any length that came later.
const TAG_BITS: u32 = 8;

/// The longest length that a tag holds: 2 million years.
const LENGTH_MAX: i64 = (1 << (u64::BITS - TAG_BITS)) - 1;

impl<T> Clone for ExpiringBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ExpiringBuffer<T> {}

impl<T: Serialize + DeserializeOwned> ExpiringBuffer<T> {
    /// Makes one of a buffer, how long items stay in ms (0 to 2^56 − 1; what is beyond is cut), and
    /// the tag of its timers. Event-time timers whose tag has the same lowest 8 bits are its own.
    #[must_use]
    pub fn new(items: EventTimeBuffer<T>, length: i64, tag: u8) -> Self {
        Self { items, length: length.clamp(0, LENGTH_MAX), tag: u64::from(tag) }
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
        let own = timer.tag & ((1 << TAG_BITS) - 1);
        timer.domain == TimerDomain::Event && own == self.tag
    }

    /// Adds an item. One that is due already is so with the next move of time.
    ///
    /// # Errors
    ///
    /// When the item cannot be written.
    pub fn push(&self, context: &mut Context<'_>, time: i64, item: &T) -> Result<Slot> {
        let slot = self.items.push(context, time, item)?;
        self.register(context, time);
        Ok(slot)
    }

    /// Removes the items that one of this buffer's timers is for and hands them to `each`, in the
    /// order they were added: at most `limit` (≥ 1; the host may cut a page), fewer where the call
    /// has emitted enough ([`Context::is_step_full`]). Called from the timer; what remains has the
    /// same one again, in the same move of time.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type, or `each` fails.
    pub fn expire(
        &self,
        context: &mut Context<'_>,
        timer: Timer,
        limit: u32,
        mut each: impl FnMut(Slot, T, &mut Context<'_>) -> Result,
    ) -> Result {
        let length = (timer.tag >> TAG_BITS).cast_signed();
        let first = timer.time.saturating_sub(length);
        // At the end of time everything is due, however long it stays.
        let is_end = timer.time == i64::MAX;
        if !is_end && self.due(first) > timer.time {
            self.register(context, first);
            return Ok(());
        }
        let last = if is_end { i64::MAX } else { first };
        let (items, has_more) = self.items.page(context, first..=last, limit)?;
        let (count, mut done) = (items.len(), Vec::with_capacity(items.len()));
        for (slot, item) in items {
            each(slot, item, context)?;
            done.push(slot);
            if context.is_step_full() {
                break;
            }
        }
        if has_more || done.len() < count {
            context.timers().register_event_time(timer.time, timer.tag);
        }
        self.items.remove_all(context, done)
    }

    /// Registers the timer of the items of a time.
    fn register(&self, context: &mut Context<'_>, time: i64) {
        let tag = self.length.cast_unsigned() << TAG_BITS | self.tag;
        context.timers().register_event_time(self.due(time), tag);
    }
}
