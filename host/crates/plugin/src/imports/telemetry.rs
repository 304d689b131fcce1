//! `interface telemetry`: logs, metrics, and the last words of a guest.
//!
//! In `open` there is no context yet: what is logged and measured there is kept for the first call.
//! In `describe` it is dropped: `describe` is pure.

use dovetail_core::{
    context::{LogLevel, telemetry::LOG_LINE_BYTES_MAX},
    text::cut,
};
use wasmtime::component::{ComponentType, Lift, WasmStr};

use super::{Call, Interface, with_context};
use crate::store::{Early, Phase};

/// The functions defined here.
pub(super) const NAMES: &[&str] = &["log", "update-metric", "panic"];

/// `level` of the interface.
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "constructed by lifting")]
enum Level {
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.func_wrap("log", |mut store: Call<'_>, (level, text): (Level, WasmStr)| {
        let level = LogLevel::from(level);
        if store.data().context.is_none() {
            let text = cut(&text.to_str(&store)?, LOG_LINE_BYTES_MAX).to_owned();
            keep_early(&mut store, Early::Log(level, text));
            return Ok(());
        }
        // Only what is kept is checked to be UTF-8 and copied: core cuts the line.
        let text = text.to_str(&store)?.into_owned();
        with_context(store, |context, _| {
            context.log(level, &text);
            Ok(())
        })
    })?;
    interface.func_wrap("update-metric", |mut store: Call<'_>, (metric, value): (u32, f64)| {
        if store.data().context.is_none() {
            keep_early(&mut store, Early::Metric(metric, value));
            return Ok(());
        }
        with_context(store, |context, _| context.metric(metric, value))
    })?;
    interface.func_wrap("panic", |mut store: Call<'_>, (message,): (WasmStr,)| {
        let message = message.to_str(&store)?.into_owned();
        store.data_mut().keep_panic_message(&message);
        Ok(())
    })
}

fn keep_early(store: &mut Call<'_>, early: Early) {
    if store.data().phase == Phase::Open {
        store.data_mut().keep_early(early);
    }
}
