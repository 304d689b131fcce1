//! The imports of a plugin as linker functions: thin, each one forwards to the call's context.
//!
//! Bytes a guest hands over are read where they lie in its memory ([`WasmList`]); only what is kept
//! is copied. Every check of what is asked for is core's.
//!
//! Invariant: the context leaves the store only inside [`with_context`], which puts it back.

mod broadcast_state;
mod context;
mod output;
mod state;
mod telemetry;
mod timers;

use dovetail_core::{
    context::{Context, ContextError},
    plugin::{CallFailure, FailureKind},
};
use wasmtime::{
    StoreContextMut,
    component::{Linker, LinkerInstance, WasmList},
};

use crate::{
    artifact::{HOST_INTERFACE, INTERFACE_PREFIX},
    engine::Engine,
    failure::{Refused, trap_of},
    store::HostState,
};

/// The store as an import sees it.
type Call<'a> = StoreContextMut<'a, HostState>;
/// One interface of the linker.
type Interface<'a> = LinkerInstance<'a, HostState>;

/// What this host offers: interfaces and their functions.
pub(crate) const OFFERED: [(&str, &[&str]); 6] = [
    ("state", state::NAMES),
    ("broadcast-state", broadcast_state::NAMES),
    ("timers", timers::NAMES),
    ("context", context::NAMES),
    ("output", output::NAMES),
    ("telemetry", telemetry::NAMES),
];

/// Returns the imports of the interface that this host speaks.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine.inner());
    let adders: [fn(&mut Interface<'_>) -> wasmtime::Result<()>; 6] =
        [state::add, broadcast_state::add, timers::add, context::add, output::add, telemetry::add];
    for ((name, _), add) in OFFERED.iter().zip(adders) {
        let name = format!("{INTERFACE_PREFIX}{name}@{HOST_INTERFACE}");
        add(&mut linker.instance(&name)?)?;
    }
    Ok(linker)
}

/// Runs `act` with the context of the call and the store it was taken from.
#[inline]
fn with_context<R>(
    mut store: Call<'_>,
    act: impl FnOnce(&mut Context, &Call<'_>) -> Result<R, ContextError>,
) -> wasmtime::Result<R> {
    let Some(mut context) = store.data_mut().context.take() else {
        return Err(outside_a_call(&store));
    };
    let result = act(&mut context, &store);
    store.data_mut().context = Some(context);
    result.map_err(trap_of)
}

#[cold]
fn outside_a_call(store: &Call<'_>) -> wasmtime::Error {
    let phase = store.data().phase.name();
    wasmtime::Error::new(Refused(CallFailure {
        kind: FailureKind::Limit,
        message: format!(
            "the plugin called an import {phase}: keyed state, timers, context and outputs are \
             available in handlers only"
        ),
    }))
}

/// Returns the bytes of an optional list where they lie.
fn bytes_of<'a>(list: Option<&'a WasmList<u8>>, store: &'a Call<'_>) -> Option<&'a [u8]> {
    list.map(|list| list.as_le_slice(store))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use wit_parser::Resolve;

    #[test]
    fn every_function_of_the_interface_is_offered_and_nothing_else() {
        let mut resolve = Resolve::default();
        let text = include_str!("../../../../wit/v1/plugin.wit");
        let package = resolve.push_str("plugin.wit", text).unwrap();
        let interfaces = &resolve.packages[package].interfaces;
        let described: BTreeMap<&str, Vec<&str>> = interfaces
            .iter()
            .map(|(name, id)| {
                let mut names: Vec<&str> =
                    resolve.interfaces[*id].functions.keys().map(String::as_str).collect();
                names.sort_unstable();
                (name.as_str(), names)
            })
            .collect();
        let offered: BTreeMap<&str, Vec<&str>> = OFFERED
            .iter()
            .map(|(name, functions)| {
                let mut names = functions.to_vec();
                names.sort_unstable();
                (*name, names)
            })
            .collect();
        assert_eq!(offered, described);
        let version = resolve.packages[package].name.version.as_ref().unwrap().to_string();
        assert_eq!(version, HOST_INTERFACE.to_string());
    }

    #[test]
    fn linker_defines_all_that_is_offered() {
        let engine = Engine::new().unwrap();
        assert!(linker(&engine).is_ok());
    }
}
