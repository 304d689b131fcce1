//! Keys: from bytes or JSON to the canonical bytes they are compared by.
//!
//! | read as | `string` | `integer` | `bytes` |
//! |---|---|---|---|
//! | text | its UTF-8 | `-?digits` without leading zeros; else refused | its UTF-8 |
//! | JSON number | canonical decimal (`5.0` → `5`, `1e3` → `1000`, `1.50` → `1.5`) | the same; refused with a fraction | canonical decimal |
//! | int32, int64 | decimal | decimal | the wire bytes |
//! | bytes | must be UTF-8 | as text | as they are |
//! | JSON true, false, array, object | refused | refused | refused |
//!
//! An absent path, JSON null and an absent Kafka key or header are the null key. Empty text and
//! empty bytes are real keys, where the type has such a value.

use std::ops::Range;

use bytes::Bytes;
use dovetail_core::{
    dead_letter::Reason,
    key::{Key, KeyType},
};

use crate::{
    decimal::{Decimal, is_canonical_integer, is_digits},
    decoder::Rejection,
    format::WireFormat,
    json::{Plan, Scalar, scalar},
};

/// Longest piece of a key in a message, in characters.
const SHOWN_MAX: usize = 64;

/// Reads a key from the bytes of a Kafka key or header. `plan` has the path in slot 0 and is used
/// for [`WireFormat::Json`].
pub(crate) fn from_bytes(
    bytes: &Bytes,
    format: WireFormat,
    plan: &Plan,
    key_type: KeyType,
    place: &str,
) -> Result<Option<Key>, Rejection> {
    match format {
        WireFormat::String => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                Rejection::new(
                    Reason::Decode,
                    format!(
                        "{place} is not text: invalid UTF-8 at byte {}; see `key.format`",
                        error.valid_up_to() + 1
                    ),
                )
            })?;
            from_text(bytes, text, key_type, place).map(Some)
        }
        WireFormat::Int32 => {
            let number = i32::from_be_bytes(fixed(bytes, format, place)?);
            Ok(Some(from_integer(bytes, number.into(), key_type)))
        }
        WireFormat::Int64 => {
            let number = i64::from_be_bytes(fixed(bytes, format, place)?);
            Ok(Some(from_integer(bytes, number, key_type)))
        }
        WireFormat::Json => {
            let [found, _] = plan.extract(bytes).map_err(|malformed| {
                Rejection::new(Reason::Decode, format!("{place} is not JSON: {malformed}"))
            })?;
            from_json(bytes, found, key_type, place)
        }
        WireFormat::Bytes if key_type == KeyType::Bytes => Ok(Some(Key(bytes.clone()))),
        WireFormat::Bytes => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                wrong_type(
                    key_type,
                    place,
                    &format!("bytes that are not UTF-8 (byte {})", error.valid_up_to() + 1),
                )
            })?;
            from_text(bytes, text, key_type, place).map(Some)
        }
    }
}

/// Reads a key from the JSON text found at its path, a part of `source`.
pub(crate) fn from_json(
    source: &Bytes,
    found: Option<&str>,
    key_type: KeyType,
    place: &str,
) -> Result<Option<Key>, Rejection> {
    let Some(raw) = found else { return Ok(None) };
    let value = scalar(raw).map_err(|malformed| {
        Rejection::new(
            Reason::Decode,
            format!("the string at {place} cannot be read: {malformed} of it"),
        )
    })?;
    match value {
        Scalar::Null => Ok(None),
        Scalar::Text(text) => from_text(source, &text, key_type, place).map(Some),
        Scalar::Number(text) => from_number(source, text, key_type, place).map(Some),
        Scalar::Bool(_) | Scalar::Array | Scalar::Object => {
            Err(wrong_type(key_type, place, value.kind()))
        }
    }
}

/// Returns `text` as bytes: without copying where it is a part of `source`.
fn part(source: &Bytes, text: &str) -> Bytes {
    let (whole, text) = (source.as_ptr_range(), text.as_bytes());
    let Range { start, end } = text.as_ptr_range();
    if whole.start <= start && end <= whole.end {
        source.slice_ref(text)
    } else {
        Bytes::copy_from_slice(text)
    }
}

fn from_text(source: &Bytes, text: &str, key_type: KeyType, place: &str) -> Result<Key, Rejection> {
    if key_type != KeyType::Integer || is_canonical_integer(text) {
        return Ok(Key(part(source, text)));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !is_digits(digits) {
        return Err(wrong_type(key_type, place, &format!("the string {}", shown(text))));
    }
    let digits = digits.trim_start_matches('0');
    Ok(match (digits.is_empty(), text.starts_with('-')) {
        (true, _) => Key::new("0"),
        (false, true) => Key::new(format!("-{digits}")),
        (false, false) => Key(part(source, digits)),
    })
}

/// `text` is a JSON number.
fn from_number(
    source: &Bytes,
    text: &str,
    key_type: KeyType,
    place: &str,
) -> Result<Key, Rejection> {
    if is_canonical_integer(text) {
        return Ok(Key(part(source, text)));
    }
    let refused = |what: &str| wrong_type(key_type, place, &format!("{} {what}", shown(text)));
    let number = Decimal::parse(text).ok_or_else(|| refused("(unreadable)"))?;
    if key_type == KeyType::Integer && !number.is_integral() {
        return Err(refused("(it has a fraction)"));
    }
    number.canonical().map(Key::new).ok_or_else(|| refused("(too many digits when written out)"))
}

fn from_integer(wire: &Bytes, number: i64, key_type: KeyType) -> Key {
    match key_type {
        KeyType::Bytes => Key(wire.clone()),
        KeyType::String | KeyType::Integer => {
            Key(Bytes::copy_from_slice(itoa::Buffer::new().format(number).as_bytes()))
        }
    }
}

fn fixed<const N: usize>(
    bytes: &Bytes,
    format: WireFormat,
    place: &str,
) -> Result<[u8; N], Rejection> {
    bytes.as_ref().try_into().map_err(|_other_length| {
        Rejection::new(
            Reason::Decode,
            format!(
                "{place} is not an {}: expected {N} bytes, found {}; see `key.format`",
                format.name(),
                bytes.len()
            ),
        )
    })
}

fn wrong_type(key_type: KeyType, place: &str, found: &str) -> Rejection {
    let expected = match key_type {
        KeyType::Integer => "an integral number or a string of digits",
        KeyType::String | KeyType::Bytes => "a string or a number",
    };
    Rejection::new(
        Reason::KeyType,
        format!(
            "the key at {place} is not of `key.type: {}`: expected {expected}, found {found}",
            key_type.name()
        ),
    )
}

/// Returns a quoted piece of `text`, short enough for a message.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}
