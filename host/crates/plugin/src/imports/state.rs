//! `interface state`: keyed state of the current key.

use bytes::Bytes;
use dovetail_core::context::keyed::Page;
use wasmtime::component::{ComponentType, Lower, WasmList};

use super::{Call, Interface, bytes_of, with_context};

/// The functions defined here.
pub(super) const NAMES: &[&str] = &["get", "put", "remove", "scan", "remove-range"];

/// `page` of the interface.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct PageLowered {
    entries: Vec<(Bytes, Bytes)>,
    #[component(name = "has-more")]
    has_more: bool,
}

impl From<Page> for PageLowered {
    fn from(page: Page) -> Self {
        Self { entries: page.entries, has_more: page.has_more }
    }
}

pub(super) type ScanParams = (u32, WasmList<u8>, Option<WasmList<u8>>, Option<WasmList<u8>>, u32);

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.func_wrap("get", |store: Call<'_>, (state, entry): (u32, WasmList<u8>)| {
        with_context(store, |context, store| context.state_get(state, entry.as_le_slice(store)))
            .map(|value| (value,))
    })?;
    interface.func_wrap(
        "put",
        |store: Call<'_>, (state, entry, value): (u32, WasmList<u8>, WasmList<u8>)| {
            with_context(store, |context, store| {
                context.state_put(state, entry.as_le_slice(store), value.as_le_slice(store))
            })
        },
    )?;
    interface.func_wrap("remove", |store: Call<'_>, (state, entry): (u32, WasmList<u8>)| {
        with_context(store, |context, store| context.state_remove(state, entry.as_le_slice(store)))
    })?;
    interface.func_wrap(
        "scan",
        |store: Call<'_>, (state, from, to, after, limit): ScanParams| {
            with_context(store, |context, store| {
                let (to, after) = (bytes_of(to.as_ref(), store), bytes_of(after.as_ref(), store));
                context.state_scan(state, from.as_le_slice(store), to, after, limit)
            })
            .map(|page| (PageLowered::from(page),))
        },
    )?;
    interface.func_wrap(
        "remove-range",
        |store: Call<'_>, (state, from, to): (u32, WasmList<u8>, Option<WasmList<u8>>)| {
            with_context(store, |context, store| {
                let to = bytes_of(to.as_ref(), store);
                context.state_remove_range(state, from.as_le_slice(store), to)
            })
        },
    )
}
