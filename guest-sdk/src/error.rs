//! The error a handler returns.
//!
//! Knows nothing of its cause but the text: what crosses the interface is a string.
//!
//! Invariant: any `std::error::Error` converts with `?`.

use std::fmt;

/// Why a plugin could not open, or a handler not handle. The host undoes the call, tries it once
/// more on a fresh instance and then keeps the record as a dead letter with this text.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(String);

/// What handlers return.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// Returns an error with this text: what was expected, what was found, what to do.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0
    }

    /// Returns the error with what was being done put in front.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Not an `std::error::Error` itself, so that the conversion below covers every one of them.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
