//! `interface output`: emitting records.

use dovetail_core::{
    context::{ContextError, emit::OutputKey},
    plugin::{CallFailure, FailureKind},
    record::{Header, Headers},
};
use wasmtime::component::WasmList;

use super::{Call, Interface, bytes_of, context::HeaderLifted, with_context};

/// The functions defined here.
pub(super) const NAMES: &[&str] = &["emit", "forward"];

type EmitParams = (u32, Option<WasmList<u8>>, Option<WasmList<u8>>, Vec<HeaderLifted>, Option<i64>);

pub(super) fn add(interface: &mut Interface<'_>) -> wasmtime::Result<()> {
    interface.func_wrap(
        "emit",
        |store: Call<'_>, (output, key, value, headers, time): EmitParams| {
            let headers = headers_of(headers);
            with_context(store, |context, store| {
                let output = lane_output(store, output)?;
                let key =
                    bytes_of(key.as_ref(), store).map_or(OutputKey::Current, OutputKey::Bytes);
                context.emit(output, key, bytes_of(value.as_ref(), store), &headers, time)
            })
        },
    )?;
    interface.func_wrap("forward", |store: Call<'_>, (output,): (u32,)| {
        with_context(store, |context, store| context.forward(lane_output(store, output)?))
    })
}

fn lane_output(store: &Call<'_>, output: u32) -> Result<u32, ContextError> {
    store.data().lane_output(output).ok_or_else(|| {
        ContextError::Refused(CallFailure {
            kind: FailureKind::Limit,
            message: format!("output number {output} is unknown: `describe` names fewer"),
        })
    })
}

fn headers_of(lifted: Vec<HeaderLifted>) -> Headers {
    if lifted.is_empty() {
        return Headers::default();
    }
    let headers =
        lifted.into_iter().map(|header| Header { name: header.name, value: header.value });
    Headers::new(headers.collect())
}
