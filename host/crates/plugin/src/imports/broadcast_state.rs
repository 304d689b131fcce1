//! `interface broadcast-state`: the same for every key, written while a broadcast record is handled.

use wasmtime::component::WasmList;

use super::{
    Call, Interface, bytes_of,
    state::{PageLowered, ScanParams},
    with_context,
};

/// The functions defined here.
pub(super) const NAMES: &[&str] = &["get", "scan", "put", "remove", "remove-range"];

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.func_wrap("get", |store: Call<'_>, (state, entry): (u32, WasmList<u8>)| {
        with_context(store, |context, store| context.broadcast_get(state, entry.as_le_slice(store)))
            .map(|value| (value,))
    })?;
    interface.func_wrap(
        "scan",
        |store: Call<'_>, (state, from, to, after, limit): ScanParams| {
            with_context(store, |context, store| {
                let (to, after) = (bytes_of(to.as_ref(), store), bytes_of(after.as_ref(), store));
                context.broadcast_scan(state, from.as_le_slice(store), to, after, limit)
            })
            .map(|page| (PageLowered::from(page),))
        },
    )?;
    interface.func_wrap(
        "put",
        |store: Call<'_>, (state, entry, value): (u32, WasmList<u8>, WasmList<u8>)| {
            with_context(store, |context, store| {
                context.broadcast_put(state, entry.as_le_slice(store), value.as_le_slice(store))
            })
        },
    )?;
    interface.func_wrap("remove", |store: Call<'_>, (state, entry): (u32, WasmList<u8>)| {
        with_context(store, |context, store| {
            context.broadcast_remove(state, entry.as_le_slice(store))
        })
    })?;
    interface.func_wrap(
        "remove-range",
        |store: Call<'_>, (state, from, to): (u32, WasmList<u8>, Option<WasmList<u8>>)| {
            with_context(store, |context, store| {
                let to = bytes_of(to.as_ref(), store);
                context.broadcast_remove_range(state, from.as_le_slice(store), to)
            })
        },
    )
}
