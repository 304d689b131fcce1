//! The imports of the component.

use std::marker::PhantomData;

use super::Page;
use crate::{
    bindings::dovetail::plugin as wit,
    context::{Level, Position},
    headers::Header,
};

/// The host, for the length of a call.
#[derive(Debug)]
pub(crate) struct Host<'a>(PhantomData<&'a mut ()>);

impl Host<'_> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    pub(crate) fn get(&mut self, state: u32, entry: &[u8]) -> Option<Vec<u8>> {
        wit::state::get(state, entry)
    }

    pub(crate) fn put(&mut self, state: u32, entry: &[u8], value: &[u8]) {
        wit::state::put(state, entry, value);
    }

    pub(crate) fn remove(&mut self, state: u32, entry: &[u8]) {
        wit::state::remove(state, entry);
    }

    pub(crate) fn scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Page {
        let page = wit::state::scan(state, from, to, after, limit);
        (page.entries, page.has_more)
    }

    pub(crate) fn remove_range(&mut self, state: u32, from: &[u8], to: Option<&[u8]>) {
        wit::state::remove_range(state, from, to);
    }

    pub(crate) fn broadcast_get(&mut self, state: u32, entry: &[u8]) -> Option<Vec<u8>> {
        wit::broadcast_state::get(state, entry)
    }

    pub(crate) fn broadcast_scan(
        &mut self,
        state: u32,
        from: &[u8],
        to: Option<&[u8]>,
        after: Option<&[u8]>,
        limit: u32,
    ) -> Page {
        let page = wit::broadcast_state::scan(state, from, to, after, limit);
        (page.entries, page.has_more)
    }

    pub(crate) fn broadcast_put(&mut self, state: u32, entry: &[u8], value: &[u8]) {
        wit::broadcast_state::put(state, entry, value);
    }

    pub(crate) fn broadcast_remove(&mut self, state: u32, entry: &[u8]) {
        wit::broadcast_state::remove(state, entry);
    }

    pub(crate) fn broadcast_remove_range(&mut self, state: u32, from: &[u8], to: Option<&[u8]>) {
        wit::broadcast_state::remove_range(state, from, to);
    }

    pub(crate) fn register_event_time_timer(&mut self, time: i64, tag: u64) {
        wit::timers::register_event_time_timer(time, tag);
    }

    pub(crate) fn delete_event_time_timer(&mut self, time: i64, tag: u64) {
        wit::timers::delete_event_time_timer(time, tag);
    }

    pub(crate) fn register_processing_time_timer(&mut self, time: i64, tag: u64) {
        wit::timers::register_processing_time_timer(time, tag);
    }

    pub(crate) fn delete_processing_time_timer(&mut self, time: i64, tag: u64) {
        wit::timers::delete_processing_time_timer(time, tag);
    }

    pub(crate) fn continue_with(&mut self, tag: u64) {
        wit::timers::continue_with(tag);
    }

    pub(crate) fn key(&self) -> Option<Vec<u8>> {
        wit::context::key()
    }

    pub(crate) fn watermark(&self) -> i64 {
        wit::context::watermark()
    }

    pub(crate) fn processing_time(&self) -> i64 {
        wit::context::processing_time()
    }

    pub(crate) fn is_late(&self) -> bool {
        wit::context::is_late()
    }

    pub(crate) fn position(&self) -> Position {
        let position = wit::context::current_position();
        Position { partition: position.partition, offset: position.offset }
    }

    pub(crate) fn headers(&self) -> Vec<Header> {
        wit::context::headers()
            .into_iter()
            .map(|header| Header { name: header.name, value: header.value })
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
        if headers.is_empty() {
            wit::output::emit(output, key, value, &[], time);
            return;
        }
        let headers: Vec<wit::context::Header> = headers
            .iter()
            .map(|header| wit::context::Header {
                name: header.name.clone(),
                value: header.value.clone(),
            })
            .collect();
        wit::output::emit(output, key, value, &headers, time);
    }

    pub(crate) fn forward(&mut self, output: u32) {
        wit::output::forward(output);
    }

    pub(crate) fn log(&mut self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => wit::telemetry::Level::Debug,
            Level::Info => wit::telemetry::Level::Info,
            Level::Warn => wit::telemetry::Level::Warn,
            Level::Error => wit::telemetry::Level::Error,
        };
        wit::telemetry::log(level, text);
    }

    pub(crate) fn update_metric(&mut self, metric: u32, value: f64) {
        wit::telemetry::update_metric(metric, value);
    }
}
