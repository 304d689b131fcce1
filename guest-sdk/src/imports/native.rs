//! The imports natively: the call context of core, the same that a host gives a component.

use dovetail_core::{
    context::{Context as Core, ContextError, LogLevel, emit::OutputKey, keyed::Page as CorePage},
    plugin::{CallFailure, FailureKind},
    record::{Header as CoreHeader, Headers},
    timers::TimerDomain,
};

use super::Page;
use crate::{
    context::{Level, Position},
    headers::Header,
};

/// What unwinds out of a call that the host refused.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) CallFailure);

/// The host, for the length of a call.
#[derive(Debug)]
pub(crate) struct Host<'a>(&'a mut Core);

/// Ends the call, as a host ends a guest.
fn allowed<T>(answer: Result<T, ContextError>) -> T {
    answer.unwrap_or_else(|error| {
        let failure = match error {
            ContextError::Refused(failure) => failure,
            // The lane stops for this one, whatever the call ends with.
            ContextError::Store(error) => {
                CallFailure { kind: FailureKind::Trap, message: error.to_string() }
            }
        };
        std::panic::resume_unwind(Box::new(Refused(failure)))
    })
}

fn page(page: CorePage) -> Page {
    let entries = page.entries.into_iter();
    let entries = entries.map(|(entry, value)| (entry.to_vec(), value.to_vec())).collect();
    (entries, page.has_more)
}

impl<'a> Host<'a> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        Self(core)
    }

    pub(crate) fn get(&mut self, state: u32, entry: &[u8]) -> Option<Vec<u8>> {
        allowed(self.0.state_get(state, entry)).map(|value| value.to_vec())
    }

    pub(crate) fn put(&mut self, state: u32, entry: &[u8], value: &[u8]) {
        allowed(self.0.state_put(state, entry, value));
    }

    pub(crate) fn remove(&mut self, state: u32, entry: &[u8]) {
        allowed(self.0.state_remove(state, entry));
    }

    pub(crate) fn scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Page {
        page(allowed(self.0.state_scan(state, from, to, after, limit)))
    }

    pub(crate) fn remove_range(&mut self, state: u32, from: &[u8], to: Option<&[u8]>) {
        allowed(self.0.state_remove_range(state, from, to));
    }

    pub(crate) fn broadcast_get(&mut self, state: u32, entry: &[u8]) -> Option<Vec<u8>> {
        allowed(self.0.broadcast_get(state, entry)).map(|value| value.to_vec())
    }

    pub(crate) fn broadcast_scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Page {
        page(allowed(self.0.broadcast_scan(state, from, to, after, limit)))
    }

    pub(crate) fn broadcast_put(&mut self, state: u32, entry: &[u8], value: &[u8]) {
        allowed(self.0.broadcast_put(state, entry, value));
    }

    pub(crate) fn broadcast_remove(&mut self, state: u32, entry: &[u8]) {
        allowed(self.0.broadcast_remove(state, entry));
    }

    pub(crate) fn broadcast_remove_range(&mut self, state: u32, from: &[u8], to: Option<&[u8]>) {
        allowed(self.0.broadcast_remove_range(state, from, to));
    }

    pub(crate) fn register_event_time_timer(&mut self, time: i64, tag: u64) {
        allowed(self.0.timer_register(TimerDomain::Event, time, tag));
    }

    pub(crate) fn delete_event_time_timer(&mut self, time: i64, tag: u64) {
        allowed(self.0.timer_delete(TimerDomain::Event, time, tag));
    }

    pub(crate) fn register_processing_time_timer(&mut self, time: i64, tag: u64) {
        allowed(self.0.timer_register(TimerDomain::Processing, time, tag));
    }

    pub(crate) fn delete_processing_time_timer(&mut self, time: i64, tag: u64) {
        allowed(self.0.timer_delete(TimerDomain::Processing, time, tag));
    }

    pub(crate) fn continue_with(&mut self, tag: u64) {
        allowed(self.0.continue_with(tag));
    }

    pub(crate) fn key(&self) -> Option<Vec<u8>> {
        self.0.key().map(|key| key.as_bytes().to_vec())
    }

    pub(crate) fn watermark(&self) -> i64 {
        self.0.watermark()
    }

    pub(crate) fn processing_time(&self) -> i64 {
        self.0.processing_time()
    }

    pub(crate) fn is_late(&self) -> bool {
        self.0.is_late()
    }

    pub(crate) fn position(&self) -> Position {
        let (partition, offset) = self.0.position();
        Position { partition: partition.0.into(), offset }
    }

    pub(crate) fn headers(&self) -> Vec<Header> {
        let headers = self.0.headers();
        let headers = headers.as_slice().iter();
        headers
            .map(|header| Header {
                name: header.name.clone(),
                value: header.value.as_ref().map(|value| value.to_vec()),
            })
            .collect()
    }

    pub(crate) fn emit(
        &mut self,
        output: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
        time: Option<i64>,
    ) {
        let key = key.map_or(OutputKey::Current, OutputKey::Bytes);
        let headers = headers.iter().map(|header| CoreHeader {
            name: header.name.clone(),
            value: header.value.clone().map(Into::into),
        });
        let headers = Headers::new(headers.collect());
        allowed(self.0.emit(output, key, value, &headers, time));
    }

    pub(crate) fn forward(&mut self, output: u32) {
        allowed(self.0.forward(output));
    }

    pub(crate) fn log(&mut self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        self.0.log(level, text);
    }

    pub(crate) fn update_metric(&mut self, metric: u32, value: f64) {
        allowed(self.0.metric(metric, value));
    }
}
