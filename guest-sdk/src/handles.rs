//! Handles of inputs, outputs and metrics: what `open` declares and handlers use.
//!
//! Invariant: a handle's number is its place in the description that the same `open` gave.

use serde::Serialize;

use crate::{context::Context, error::Result, headers::Header};

/// An input role of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Input(pub(crate) u32);

/// A named destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Output(pub(crate) u32);

/// A record to emit. Unless said otherwise it has the current key, no headers and the event time
/// of the record or timer at hand (none for a processing-time timer).
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: &'a [Header],
    time: Option<Option<i64>>,
}

impl<'a> Message<'a> {
    /// Returns a record with this value.
    #[must_use]
    pub fn new(value: &'a [u8]) -> Self {
        Self { key: None, value: Some(value), headers: &[], time: None }
    }

    /// Returns a tombstone.
    #[must_use]
    pub fn tombstone() -> Self {
        Self { key: None, value: None, headers: &[], time: None }
    }

    /// Gives it another key than the current one.
    #[must_use]
    pub fn key(self, key: &'a [u8]) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Gives it headers.
    #[must_use]
    pub fn headers(self, headers: &'a [Header]) -> Self {
        Self { headers, ..self }
    }

    /// Gives it an event time; `None` is a record without one.
    #[must_use]
    pub fn time(self, time: impl Into<Option<i64>>) -> Self {
        Self { time: Some(time.into()), ..self }
    }
}

impl Output {
    /// Emits a value with the current key and event time.
    pub fn emit(&self, context: &mut Context<'_>, value: impl AsRef<[u8]>) {
        self.send(context, Message::new(value.as_ref()));
    }

    /// Emits a value as JSON with the current key and event time.
    ///
    /// # Errors
    ///
    /// When the value has no JSON form.
    pub fn emit_json<T: Serialize + ?Sized>(&self, context: &mut Context<'_>, value: &T) -> Result {
        self.emit(context, serde_json::to_vec(value)?);
        Ok(())
    }

    /// Emits a message.
    pub fn send(&self, context: &mut Context<'_>, message: Message<'_>) {
        let time = message.time.unwrap_or(context.time);
        let headers = message.headers.iter();
        context.emitted += message.key.map_or(0, <[u8]>::len)
            + message.value.map_or(0, <[u8]>::len)
            + headers
                .map(|it| it.name.len() + it.value.as_ref().map_or(0, Vec::len))
                .sum::<usize>();
        context.host.emit(self.0, message.key, message.value, message.headers, time);
    }

    /// Emits the record at hand unchanged: key, value, headers, event time. A late one that goes
    /// to the output `late` carries the host's headers about its lateness.
    pub fn forward(&self, context: &mut Context<'_>) {
        context.host.forward(self.0);
    }
}

/// A metric that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter(pub(crate) u32);

impl Counter {
    /// Adds one.
    pub fn increment(&self, context: &mut Context<'_>) {
        self.add(context, 1.0);
    }

    /// Adds an amount; a negative one counts as 0.
    pub fn add(&self, context: &mut Context<'_>, amount: f64) {
        context.host.update_metric(self.0, amount);
    }
}

/// A metric that can be any value; the last one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge(pub(crate) u32);

impl Gauge {
    /// Sets it.
    pub fn set(&self, context: &mut Context<'_>, value: f64) {
        context.host.update_metric(self.0, value);
    }
}

/// A metric that is a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram(pub(crate) u32);

impl Histogram {
    /// Records a value.
    pub fn record(&self, context: &mut Context<'_>, value: f64) {
        context.host.update_metric(self.0, value);
    }
}
