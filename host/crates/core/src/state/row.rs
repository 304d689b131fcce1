//! Format: rows of keyed state, timers and broadcast state, format 1.
//!
//! ```text
//! state row key    0x02 · partition u16 BE · key, escaped · state u16 BE · entry (raw, to the end)
//! state row value  0x01 · flags u8 (bit 0: stamp) · schema version u16 BE · [stamp i64 BE] · payload
//! timer row key    0x03 (event) or 0x04 (processing) · time i64, sign flipped, BE · key, escaped
//!                  · tag u64 BE · partition u16 BE
//! timer row value  0x01
//! broadcast row    0x05 · state u16 BE · entry (raw, to the end); its value is a state row's, without
//!                  stamp
//! ```
//!
//! Escaping keeps order and ends the key: 0x00 becomes 0x00 0xFF, the end is 0x00 0x01.
//! The bytes 0x00 and 0x01 in front are left to the store for its own rows.
//!
//! Invariant: comparing encoded keys as bytes equals comparing their fields in the order shown.

use bytes::BytesMut;

use super::StateId;
use crate::{key::Key, record::Partition, time::EventTime};

/// First byte of a state row key.
pub const STATE_PREFIX: u8 = 0x02;
/// First byte of an event-time timer row key.
pub const EVENT_TIMER_PREFIX: u8 = 0x03;
/// First byte of a processing-time timer row key.
pub const PROCESSING_TIMER_PREFIX: u8 = 0x04;
/// First byte of a broadcast state row key.
pub const BROADCAST_PREFIX: u8 = 0x05;
/// First byte of every row value: the format.
pub const VALUE_FORMAT: u8 = 0x01;

const FLAG_STAMP: u8 = 0b1;
const ESCAPE: u8 = 0xff;
const TERMINATOR: u8 = 0x01;

/// Appends a key so that it keeps its order and can be followed by other fields.
pub fn escape(key: &[u8], into: &mut Vec<u8>) {
    let mut rest = key;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        into.extend_from_slice(&rest[..=at]);
        into.push(ESCAPE);
        rest = &rest[at + 1..];
    }
    into.extend_from_slice(rest);
    into.extend_from_slice(&[0, TERMINATOR]);
}

/// Takes an escaped key from the front; returns it and the rest, or `None` when it does not end.
#[must_use]
pub fn unescape(bytes: &[u8]) -> Option<(BytesMut, &[u8])> {
    let mut key = BytesMut::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        let at = rest.iter().position(|byte| *byte == 0)?;
        key.extend_from_slice(&rest[..at]);
        match *rest.get(at + 1)? {
            ESCAPE => key.extend_from_slice(&[0]),
            TERMINATOR => return Some((key, &rest[at + 2..])),
            _ => return None,
        }
        rest = &rest[at + 2..];
    }
}

/// Writes a state row key into `into`, replacing what was there.
pub fn state_row(
    partition: Partition,
    key: &Key,
    state: StateId,
    entry: &[u8],
    into: &mut Vec<u8>,
) {
    into.clear();
    into.push(STATE_PREFIX);
    into.extend_from_slice(&partition.0.to_be_bytes());
    escape(key.as_bytes(), into);
    into.extend_from_slice(&state.0.to_be_bytes());
    into.extend_from_slice(entry);
}

/// Writes a broadcast state row key into `into`, replacing what was there. It names neither key nor
/// partition: every lane has the same rows.
pub fn broadcast_row(state: StateId, entry: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.push(BROADCAST_PREFIX);
    into.extend_from_slice(&state.0.to_be_bytes());
    into.extend_from_slice(entry);
}

/// Reads a broadcast state row key: the state and the entry, which is empty for a value state;
/// `None` when the bytes are not one.
#[must_use]
pub fn parse_broadcast_row(row: &[u8]) -> Option<(StateId, &[u8])> {
    let (state, entry) = row.strip_prefix(&[BROADCAST_PREFIX])?.split_first_chunk::<2>()?;
    Some((StateId(u16::from_be_bytes(*state)), entry))
}

/// The fields of a state row key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow<'a> {
    /// The partition of the records that made it.
    pub partition: Partition,
    /// The key.
    pub key: Key,
    /// The state.
    pub state: StateId,
    /// The entry; empty for a value state.
    pub entry: &'a [u8],
}

/// Reads a state row key; `None` when the bytes are not one.
#[must_use]
pub fn parse_state_row(row: &[u8]) -> Option<StateRow<'_>> {
    let rest = row.strip_prefix(&[STATE_PREFIX])?;
    let (partition, rest) = rest.split_first_chunk::<2>()?;
    let (key, rest) = unescape(rest)?;
    let (state, entry) = rest.split_first_chunk::<2>()?;
    Some(StateRow {
        partition: Partition(u16::from_be_bytes(*partition)),
        key: Key(key.freeze()),
        state: StateId(u16::from_be_bytes(*state)),
        entry,
    })
}

/// Returns only the state of a state row key: what expiry needs, without copying the key.
#[must_use]
pub fn state_of(row: &[u8]) -> Option<StateId> {
    let mut rest = row.strip_prefix(&[STATE_PREFIX])?.get(2..)?;
    loop {
        let at = rest.iter().position(|byte| *byte == 0)?;
        let mark = *rest.get(at + 1)?;
        rest = &rest[at + 2..];
        if mark == TERMINATOR {
            let (state, _) = rest.split_first_chunk::<2>()?;
            return Some(StateId(u16::from_be_bytes(*state)));
        }
    }
}

/// A state row value, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    /// The schema version it was written under.
    pub schema_version: u16,
    /// When it was created, written or (by option) read last.
    pub stamp: Option<EventTime>,
    /// What the plugin wrote.
    pub payload: &'a [u8],
}

impl Value<'_> {
    /// Writes the encoded value into `into`, replacing what was there.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        into.push(VALUE_FORMAT);
        into.push(if self.stamp.is_some() { FLAG_STAMP } else { 0 });
        into.extend_from_slice(&self.schema_version.to_be_bytes());
        if let Some(stamp) = self.stamp {
            into.extend_from_slice(&stamp.to_be_bytes());
        }
        into.extend_from_slice(self.payload);
    }
}

/// Reads a state row value; `None` when the bytes are not one.
#[must_use]
pub fn parse_value(bytes: &[u8]) -> Option<Value<'_>> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    if head[0] != VALUE_FORMAT {
        return None;
    }
    let schema_version = u16::from_be_bytes([head[2], head[3]]);
    match head[1] {
        0 => Some(Value { schema_version, stamp: None, payload: rest }),
        FLAG_STAMP => {
            let (stamp, payload) = rest.split_first_chunk::<8>()?;
            Some(Value { schema_version, stamp: Some(i64::from_be_bytes(*stamp)), payload })
        }
        _ => None,
    }
}

/// Returns how many bytes stand before the payload of an encoded value.
#[must_use]
pub fn payload_offset(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&FLAG_STAMP) { 12 } else { 4 }
}

/// Returns the bytes of a signed time so that they order as the times do.
#[must_use]
pub fn order_preserving_time(time: i64) -> [u8; 8] {
    (time.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// Returns the time of [`order_preserving_time`] bytes.
#[must_use]
pub fn time_of_order_preserving(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)).cast_signed()
}

#[cfg(test)]
mod tests;
