//! The plugin's configuration.

use dovetail_sdk::{KeptHeaders, Millis, result::Shape};
use serde::Deserialize;

/// What can be configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How long after its order a payment may be, in event time; inclusive.
    #[serde(default = "half_an_hour")]
    pub within: Millis,
    /// How long before its order a payment may be, in event time; inclusive. Default: `within`.
    pub before: Option<Millis>,
    /// The fields of a result. Sources are fields of `order` and `payment`, or the word `status`
    /// (`"PAID"` or `"UNPAID"`). Default: both whole records and `status`.
    pub result: Option<Shape>,
    /// What becomes of a payment whose order never comes.
    #[serde(default)]
    pub without_order: WithoutOrder,
    /// Headers that results carry.
    #[serde(default)]
    pub headers: KeptHeaders,
}

/// What becomes of a payment whose order never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutOrder {
    /// It goes to `late` as soon as no order in time can come any more.
    #[default]
    Late,
    /// It is counted and nothing else.
    Drop,
}

fn half_an_hour() -> Millis {
    Millis::minutes(30)
}
