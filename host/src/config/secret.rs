//! Text that is never shown.

use std::fmt;

/// A password or key. Its only way out is [`Secret::reveal`].
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, to hand it to the client that needs it and to nothing else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_by_debug() {
        let secret = Secret::new("c8@i9$Cw{x}: \"#\\".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        assert_eq!(secret.reveal(), "c8@i9$Cw{x}: \"#\\");
    }
}
