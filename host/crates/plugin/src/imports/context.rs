//! `interface context`: what the current call is about.

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{Call, Interface, with_context};

/// The functions defined here.
pub(super) const NAMES: &[&str] =
    &["key", "watermark", "processing-time", "is-late", "current-position", "headers"];

/// `header` of the interface.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct HeaderLifted {
    pub(super) name: String,
    pub(super) value: Option<Bytes>,
}

/// `position` of the interface.
#[derive(ComponentType, Lower)]
#[component(record)]
struct PositionLowered {
    partition: u32,
    offset: i64,
}

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.func_wrap("key", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| Ok((context.key().map(|key| key.0.clone()),)))
    })?;
    interface.func_wrap("watermark", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| Ok((context.watermark(),)))
    })?;
    interface.func_wrap("processing-time", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| Ok((context.processing_time(),)))
    })?;
    interface.func_wrap("is-late", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| Ok((context.is_late(),)))
    })?;
    interface.func_wrap("current-position", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| {
            let (partition, offset) = context.position();
            Ok((PositionLowered { partition: partition.0.into(), offset },))
        })
    })?;
    interface.func_wrap("headers", |store: Call<'_>, (): ()| {
        with_context(store, |context, _| {
            let headers = context.headers();
            let lowered = headers.as_slice().iter().map(|header| HeaderLifted {
                name: header.name.clone(),
                value: header.value.clone(),
            });
            Ok((lowered.collect::<Vec<_>>(),))
        })
    })
}
