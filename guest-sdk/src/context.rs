//! What a handler can ask for: the record or timer at hand, time, timers, logs.
//!
//! Everything is scoped to the current key by the host. State, outputs and metrics take the
//! context with every call, so that nothing of them can be used in `open`.

use crate::{headers::Header, imports::Host};

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// For the author.
    Debug,
    /// Worth knowing.
    Info,
    /// Unexpected but handled.
    Warn,
    /// Someone must act.
    Error,
}

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: u32,
    /// The offset; −1 for a timer.
    pub offset: i64,
}

/// The call at hand.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) host: Host<'a>,
    pub(crate) time: Option<i64>,
    /// Bytes emitted by this call.
    pub(crate) emitted: usize,
}

/// Bytes of results after which a call should leave the rest of its work to the next step: a call
/// may emit 8 MiB, and a single result is seldom larger than 1 MiB.
const STEP_BYTES: usize = 1 << 20;

impl<'a> Context<'a> {
    pub(crate) fn new(host: Host<'a>, time: Option<i64>) -> Self {
        Self { host, time, emitted: 0 }
    }

    /// Returns the event time of the record or timer at hand: what results have unless they say
    /// otherwise. None for records without one and for processing-time timers.
    #[must_use]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// Returns the current key as canonical bytes; `None` for a record without key.
    #[must_use]
    pub fn key(&self) -> Option<Vec<u8>> {
        self.host.key()
    }

    /// Returns whether the record or timer has a key; without one it reaches no state and no
    /// timers. Only inputs with `null_key: process` have such records.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.host.key().is_some()
    }

    /// Returns the watermark: no more records with event time ≤ this are expected. −2^63 before
    /// the first, 2^63 − 1 when every bounded input has ended.
    #[must_use]
    pub fn watermark(&self) -> i64 {
        self.host.watermark()
    }

    /// Returns the lane's processing time, constant within a step and kept across restores.
    #[must_use]
    pub fn processing_time(&self) -> i64 {
        self.host.processing_time()
    }

    /// Returns whether the record at hand is late: its event time is ≤ the watermark.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.host.is_late()
    }

    /// Returns where the record at hand comes from.
    #[must_use]
    pub fn position(&self) -> Position {
        self.host.position()
    }

    /// Returns the headers of the record at hand; none for a timer.
    #[must_use]
    pub fn headers(&self) -> Vec<Header> {
        self.host.headers()
    }

    /// Returns whether this call has emitted so much (1 MiB) that the rest of its work belongs into
    /// the next step. Work of any length asks after each result; then no step fails for what it
    /// emits.
    #[must_use]
    pub fn is_step_full(&self) -> bool {
        self.emitted >= STEP_BYTES
    }

    /// Returns the timers of the current key.
    pub fn timers(&mut self) -> Timers<'_, 'a> {
        Timers { host: &mut self.host }
    }

    /// Logs a line, cut at 1 KiB; see [`crate::log!`].
    pub fn log(&mut self, level: Level, text: &str) {
        self.host.log(level, text);
    }
}

/// Timers of the current key. A timer is (key, time, domain, tag): registered twice it fires once.
#[derive(Debug)]
pub struct Timers<'c, 'a> {
    host: &'c mut Host<'a>,
}

impl Timers<'_, '_> {
    /// Registers an event-time timer: due as soon as the watermark is at or past `time`. One in
    /// the past fires with the next move of time.
    pub fn register_event_time(&mut self, time: i64, tag: u64) {
        self.host.register_event_time_timer(time, tag);
    }

    /// Deletes an event-time timer; an absent one stays absent.
    pub fn delete_event_time(&mut self, time: i64, tag: u64) {
        self.host.delete_event_time_timer(time, tag);
    }

    /// Registers a processing-time timer; at the end of a bounded input these do not fire.
    pub fn register_processing_time(&mut self, time: i64, tag: u64) {
        self.host.register_processing_time_timer(time, tag);
    }

    /// Deletes a processing-time timer; an absent one stays absent.
    pub fn delete_processing_time(&mut self, time: i64, tag: u64) {
        self.host.delete_processing_time_timer(time, tag);
    }

    /// Asks for `on_timer` with [`crate::TimerDomain::Continue`] right after this call, before the
    /// next record, as its own unit of undo: the way to work through much data in steps. Asked
    /// for twice in a call, the last tag stands.
    pub fn continue_with(&mut self, tag: u64) {
        self.host.continue_with(tag);
    }
}
