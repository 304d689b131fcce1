//! Followed outputs: one line of JSON per record, for people and for `tail -f`.
//!
//! ```text
//! {"key":"o1","value":{"order_id":"o1","amount":5},"time":1772359200000,"headers":{"tenant":"x"}}
//! ```
//!
//! `key` is text, or null. `value` is the record's JSON as it is (line breaks taken out), else its
//! text; a tombstone has `"value":null,"tombstone":true`. What is not UTF-8 is named `key_base64`
//! or `value_base64`. `time` is the event time in ms, left out where there is none; `headers`
//! likewise, a list of pairs where a name repeats.
//!
//! Invariant: a line has no line break inside.

use dovetail_core::{output::OutputRecord, record::Header};
use serde_json::value::RawValue;

/// Appends the line of a record.
pub(crate) fn push_line(to: &mut Vec<u8>, record: &OutputRecord<'_>) {
    to.push(b'{');
    match record.key {
        None => to.extend_from_slice(b"\"key\":null"),
        Some(key) => push_named(to, "key", key, false),
    }
    to.push(b',');
    match record.value {
        None => to.extend_from_slice(b"\"value\":null,\"tombstone\":true"),
        Some(value) => push_named(to, "value", value, true),
    }
    if let Some(time) = record.time {
        to.extend_from_slice(format!(",\"time\":{time}").as_bytes());
    }
    push_headers(to, record.headers.as_slice());
    to.extend_from_slice(b"}\n");
}

fn push_headers(to: &mut Vec<u8>, headers: &[Header]) {
    if headers.is_empty() {
        return;
    }
    let repeats = |at: usize| headers[..at].iter().any(|other| other.name == headers[at].name);
    let as_list = (0..headers.len()).any(repeats);
    to.extend_from_slice(if as_list { b",\"headers\":[" } else { b",\"headers\":{" });
    for (at, header) in headers.iter().enumerate() {
        if at > 0 {
            to.push(b',');
        }
        if as_list {
            to.push(b'[');
        }
        push_text(to, &header.name);
        to.push(if as_list { b',' } else { b':' });
        match header.value.as_deref() {
            None => to.extend_from_slice(b"null"),
            Some(value) => match std::str::from_utf8(value) {
                Ok(text) => push_text(to, text),
                Err(_) => push_text(to, &format!("base64:{}", base64(value))),
            },
        }
        if as_list {
            to.push(b']');
        }
    }
    to.push(if as_list { b']' } else { b'}' });
}

fn push_named(to: &mut Vec<u8>, name: &str, bytes: &[u8], may_be_json: bool) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        to.extend_from_slice(format!("\"{name}_base64\":\"{}\"", base64(bytes)).as_bytes());
        return;
    };
    to.extend_from_slice(format!("\"{name}\":").as_bytes());
    match serde_json::from_str::<&RawValue>(text) {
        // A line break in JSON text is white space: in a string it would be escaped.
        Ok(json) if may_be_json => {
            to.extend(json.get().bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
        }
        _ => push_text(to, text),
    }
}

fn push_text(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3)
            .fold(0_u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or(0);
            text.push(if at <= group.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dovetail_core::{output::Target, record::Headers};

    use super::*;

    fn line(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> String {
        let header = |(name, value): &(&str, Option<&[u8]>)| Header {
            name: (*name).to_owned(),
            value: value.map(Bytes::copy_from_slice),
        };
        let headers = Headers::new(headers.iter().map(header).collect());
        let target = Target::Output(0);
        let mut to = Vec::new();
        push_line(&mut to, &OutputRecord { target, key, value, headers: &headers, time: Some(5) });
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn every_kind_of_record_is_one_line_of_json() {
        type Case = (Option<&'static [u8]>, Option<&'static [u8]>, &'static str);
        let cases: [Case; 6] = [
            (Some(b"k"), Some(br#"{"a":1.50}"#), r#"{"key":"k","value":{"a":1.50},"time":5}"#),
            (None, Some(b"{\n \"a\": 1\r\n}"), r#"{"key":null,"value":{ "a": 1},"time":5}"#),
            (Some(b"7"), Some(b"not json"), r#"{"key":"7","value":"not json","time":5}"#),
            (Some(b"a\"b\n"), None, r#"{"key":"a\"b\n","value":null,"tombstone":true,"time":5}"#),
            (
                Some(b"\xff\xfe"),
                Some(b"\xff"),
                r#"{"key_base64":"//4=","value_base64":"/w==","time":5}"#,
            ),
            (Some(b""), Some(b""), r#"{"key":"","value":"","time":5}"#),
        ];
        for (key, value, expected) in cases {
            let line = line(key, value, &[]);
            assert_eq!(line, format!("{expected}\n"));
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn headers_are_an_object_or_pairs_where_a_name_repeats() {
        let once = line(None, Some(b"1"), &[("a", Some(b"x")), ("b", None), ("c", Some(b"\xff"))]);
        assert!(
            once.ends_with(",\"headers\":{\"a\":\"x\",\"b\":null,\"c\":\"base64:/w==\"}}\n"),
            "{once}"
        );
        let twice = line(None, Some(b"1"), &[("a", Some(b"x")), ("a", Some(b"y"))]);
        assert!(twice.ends_with(",\"headers\":[[\"a\",\"x\"],[\"a\",\"y\"]]}\n"), "{twice}");
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (text, expected) in cases {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
