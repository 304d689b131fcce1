//! Bytes to key and event time.
//!
//! Knows formats (JSON, Kafka's int32 and int64, text) and nothing of Kafka clients, lanes or
//! plugins. Has no state: a bad record cannot harm the next one.
//!
//! Invariants: a record is never dropped (what cannot be decoded comes back as
//! [`dovetail_core::record::Decoding::Rejected`] with its original bytes); nothing panics, whatever
//! the bytes are; digits are never rounded (no floating point anywhere).
//!
//! Start at [`Decoder`].

mod decimal;
mod decoder;
mod format;
mod json;
mod key;
mod path;
mod sample;
mod time;

pub use decoder::Decoder;
pub use format::{
    InputFormat, KeyFormat, KeySource, TIME_VALID_DEFAULT, TimeFormat, TimeSource, TimeUnit,
    WireFormat,
};
pub use path::{JsonPath, PathError};
pub use sample::{TimeHint, TimeSamples};
