//! How state values become bytes: postcard, a compact binary form of any serde type.
//!
//! The bytes do not describe themselves: a changed type needs a new schema version
//! ([`crate::StateBuilder::schema_version`]).

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Returns a value's bytes.
///
/// # Errors
///
/// When the type cannot be written (a sequence of unknown length, an error of its own serializer).
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value)
        .map_err(|error| Error::new(format!("a state value cannot be written: {error}")))
}

/// Reads a value; it may borrow from the bytes.
///
/// # Errors
///
/// When the bytes are of another type.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        Error::new(format!(
            "a state value is not a {}: {error}; did its type change without a new schema version?",
            std::any::type_name::<T>()
        ))
    })
}
