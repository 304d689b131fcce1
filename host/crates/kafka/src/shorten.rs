//! Makes a dead letter fit that its topic does not take whole.
//!
//! A topic bounds the compressed batch, so only the broker can say what is too large; a dead letter
//! that it refuses is shortened, because a record that can neither be processed nor be put aside
//! would stop its lane for ever. Keeps: what is cut is said in the headers, and what fits is left
//! as it is.

use dovetail_core::{
    output::OutputRecord,
    record::{Header, Headers},
};

/// Says how many bytes the value had.
const VALUE_HEADER: &str = "__dovetail.errors.truncated";
/// Says how many bytes the key had.
const KEY_HEADER: &str = "__dovetail.errors.truncated_key";
/// Says how many headers the record had of its own.
const OWN_HEADER: &str = "__dovetail.errors.truncated_headers";

/// Room for Kafka's lengths around a header, in bytes.
const HEADER_OVERHEAD_BYTES: usize = 10;
/// Room for the headers that say what was cut, in bytes.
const NOTES_BYTES: usize = 256;
/// How headers begin that the host adds to a dead letter.
const OURS: [&str; 2] = ["__streams.errors.", "__dovetail.errors."];

/// What is left of a dead letter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shortened<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers,
}

/// Returns how many bytes of a batch a record may take.
pub(crate) fn size_bytes(record: &OutputRecord<'_>) -> usize {
    let parts = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
    parts + headers_bytes(record.headers.as_slice())
}

fn headers_bytes(headers: &[Header]) -> usize {
    let size = |header: &Header| {
        let value = header.value.as_ref().map_or(0, |value| value.len());
        header.name.len() + value + HEADER_OVERHEAD_BYTES
    };
    headers.iter().map(size).sum()
}

/// Cuts a record down to `room` bytes, the value first; `None`: it fits as it is.
pub(crate) fn shorten<'a>(record: &OutputRecord<'a>, room: usize) -> Option<Shortened<'a>> {
    if size_bytes(record) <= room {
        return None;
    }
    let own = |header: &Header| !OURS.iter().any(|ours| header.name.starts_with(ours));
    let mut headers = record.headers.as_slice().to_vec();
    let mut room = room.saturating_sub(NOTES_BYTES);
    let mut notes = Vec::new();
    if headers_bytes(&headers) > room {
        let all = headers.len();
        headers.retain(|header| !own(header));
        notes.push((OWN_HEADER, all - headers.len()));
    }
    room = room.saturating_sub(headers_bytes(&headers));
    let mut cut = |part: Option<&'a [u8]>, name| {
        let part = part?;
        let kept = part.len().min(room);
        room -= kept;
        if kept < part.len() {
            notes.push((name, part.len()));
        }
        Some(&part[..kept])
    };
    let key = cut(record.key, KEY_HEADER);
    let value = cut(record.value, VALUE_HEADER);
    headers.extend(notes.into_iter().map(|(name, count)| Header {
        name: name.to_owned(),
        value: Some(count.to_string().into_bytes().into()),
    }));
    Some(Shortened { key, value, headers: Headers::new(headers) })
}

#[cfg(test)]
mod tests {
    use dovetail_core::output::Target;

    use super::*;

    fn letter<'a>(key: &'a [u8], value: &'a [u8], headers: &'a Headers) -> OutputRecord<'a> {
        let (key, value) = (Some(key), Some(value));
        OutputRecord { target: Target::DeadLetters, key, value, headers, time: None }
    }

    fn header(name: &str, size: usize) -> Header {
        Header { name: name.to_owned(), value: Some(vec![b'h'; size].into()) }
    }

    fn text(headers: &Headers, name: &str) -> Option<String> {
        let value = headers.last(name)?.value.clone()?;
        Some(String::from_utf8(value.to_vec()).unwrap())
    }

    fn left(shortened: &Shortened<'_>) -> usize {
        let Shortened { key, value, headers } = shortened;
        let time = None;
        size_bytes(&OutputRecord {
            target: Target::DeadLetters,
            key: *key,
            value: *value,
            headers,
            time,
        })
    }

    #[test]
    fn a_dead_letter_that_fits_is_left_as_it_is() {
        let headers = Headers::new(vec![header("h", 10)]);
        let record = letter(b"key", &[b'v'; 500], &headers);
        assert_eq!(shorten(&record, size_bytes(&record)), None);
    }

    #[test]
    fn the_value_is_cut_and_its_size_said() {
        let headers = Headers::new(vec![header("own", 10), header("__dovetail.errors.reason", 6)]);
        let value = vec![b'v'; 5000];
        let short = shorten(&letter(b"key", &value, &headers), 1000).unwrap();
        assert_eq!(short.key, Some(b"key".as_slice()));
        assert!(left(&short) <= 1000 && left(&short) > 700, "{}", left(&short));
        assert_eq!(text(&short.headers, VALUE_HEADER).as_deref(), Some("5000"));
        assert_eq!(text(&short.headers, KEY_HEADER), None);
        assert!(short.headers.last("own").is_some());
    }

    #[test]
    fn keys_and_headers_that_leave_no_room_are_cut_too() {
        let headers = Headers::new(vec![header("own", 3000), header("__streams.errors.topic", 5)]);
        let key = vec![b'k'; 2000];
        let short = shorten(&letter(&key, b"value", &headers), 1000).unwrap();
        assert!(left(&short) <= 1000, "{}", left(&short));
        assert_eq!(short.value, Some(b"".as_slice()), "not a tombstone");
        assert_eq!(text(&short.headers, KEY_HEADER).as_deref(), Some("2000"));
        assert_eq!(text(&short.headers, VALUE_HEADER).as_deref(), Some("5"));
        assert_eq!(text(&short.headers, OWN_HEADER).as_deref(), Some("1"));
        assert!(short.headers.last("own").is_none());
        assert!(short.headers.last("__streams.errors.topic").is_some());
    }
}
