//! Turns the core module that a compiler writes into a component, in process.

use wit_component::ComponentEncoder;

/// Why a module does not become a component.
#[derive(Debug, thiserror::Error)]
#[error(
    "the module cannot become a component: {0}; expected a module built for \
     wasm32-unknown-unknown that exports a plugin with the SDK's macro"
)]
pub struct EncodeError(String);

/// Returns the component of a core module that carries its interface in a custom section, as
/// modules built with the SDK (or wit-bindgen) do.
///
/// # Errors
///
/// When the module is damaged, carries no interface, or imports what no interface declares.
pub fn encode_component(module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| EncodeError(format!("{error:#}")))
}
