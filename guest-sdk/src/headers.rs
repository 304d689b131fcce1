//! Headers of records, and keeping some of them through a join.
//!
//! Invariant: names may repeat and keep their order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    context::Context,
    error::{Error, Result},
    setup::Setup,
};

/// One header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The bytes; `None` is Kafka's null header value.
    pub value: Option<Vec<u8>>,
}

/// The configuration `headers: { role: [names] }`: which headers of which input results carry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct KeptHeaders(BTreeMap<String, Vec<String>>);

impl KeptHeaders {
    /// Refuses names that are no inputs of the plugin; call it after the inputs are declared.
    ///
    /// # Errors
    ///
    /// When a role is unknown.
    pub fn check(&self, setup: &Setup) -> Result {
        for role in self.0.keys() {
            if !setup.has_input(role) {
                return Err(Error::new(format!("headers: the plugin has no input `{role}`")));
            }
        }
        Ok(())
    }

    /// Returns what is kept of one input.
    #[must_use]
    pub fn of(&self, role: &str) -> HeaderNames {
        HeaderNames(self.0.get(role).cloned().unwrap_or_default())
    }
}

/// The names of headers to keep of one input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderNames(Vec<String>);

impl HeaderNames {
    /// Returns those headers of the record at hand that are kept, in their order. Asks the host
    /// only where any are.
    #[must_use]
    pub fn read(&self, context: &Context<'_>) -> Vec<Header> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut headers = context.headers();
        headers.retain(|header| self.0.contains(&header.name));
        headers
    }

    /// Returns those of some headers that are kept, in their order.
    #[must_use]
    pub fn filter(&self, headers: &[Header]) -> Vec<Header> {
        headers.iter().filter(|header| self.0.contains(&header.name)).cloned().collect()
    }
}
