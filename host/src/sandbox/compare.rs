//! Comparing what came out with what was expected, and showing the difference.
//!
//! A record is compared by the fields that the case names: `key`, `value`, `time`, `headers`, and
//! for dead letters `reason`. Numbers are compared digit by digit.

use std::fmt::Write;

use dovetail_core::log::memory::CommittedRecord;
use serde_json::{Map, Value as Json};

/// Returns a record as a case would write it.
pub(crate) fn shown(record: &CommittedRecord, base: i64) -> Json {
    let mut fields = Map::new();
    fields.insert("key".to_owned(), text(record.key.as_deref()));
    let value = record.value.as_deref().map_or(Json::Null, |value| {
        serde_json::from_slice(value).unwrap_or_else(|_| text(Some(value)))
    });
    fields.insert("value".to_owned(), value);
    if let Some(time) = record.time {
        fields.insert("time".to_owned(), offset(time, base).into());
    }
    let headers = record.headers.as_slice();
    if !headers.is_empty() {
        let mut map = Map::new();
        for header in headers {
            map.insert(header.name.clone(), text(header.value.as_deref()));
            if header.name == "__dovetail.errors.reason" {
                fields.insert("reason".to_owned(), text(header.value.as_deref()));
            }
        }
        fields.insert("headers".to_owned(), Json::Object(map));
    }
    Json::Object(fields)
}

/// Says why a dead letter is one, and which record it was.
pub(crate) fn why_dead(record: &CommittedRecord) -> String {
    let header = |name: &str| {
        let mut headers = record.headers.as_slice().iter();
        let found = headers.find(|header| header.name == name);
        found.and_then(|header| header.value.as_deref()).map(String::from_utf8_lossy)
    };
    let reason = header("__dovetail.errors.reason").unwrap_or_default();
    let message = header("__streams.errors.message").unwrap_or_default();
    format!("{reason}: {message} (key {})", text(record.key.as_deref()))
}

fn text(bytes: Option<&[u8]>) -> Json {
    bytes.map_or(Json::Null, |bytes| String::from_utf8_lossy(bytes).into())
}

/// Returns a time as the case would write it: against its base when that is short.
pub(crate) fn offset(time: i64, base: i64) -> String {
    let ms = time.saturating_sub(base);
    let sign = if ms < 0 { '-' } else { '+' };
    let magnitude = ms.unsigned_abs();
    if magnitude.is_multiple_of(1_000) {
        format!("{sign}{}s", magnitude / 1_000)
    } else {
        format!("{sign}{magnitude}ms")
    }
}

/// Returns how records differ from what was expected; `None` when they do not.
pub(crate) fn difference(
    output: &str,
    expected: &[Json],
    got: &[CommittedRecord],
    base: i64,
) -> Option<String> {
    let got: Vec<Json> = got.iter().map(|record| shown(record, base)).collect();
    let is_same = expected.len() == got.len()
        && expected.iter().zip(&got).all(|(expected, got)| is_match(expected, got, base));
    if is_same {
        return None;
    }
    let mut lines = format!("output `{output}` differs (- expected, + got):\n");
    for at in 0..expected.len().max(got.len()) {
        match (expected.get(at), got.get(at)) {
            (Some(expected), Some(got)) if is_match(expected, got, base) => {
                push(&mut lines, ' ', expected);
            }
            (expected, got) => {
                if let Some(expected) = expected {
                    push(&mut lines, '-', expected);
                }
                if let Some(got) = got {
                    let fields = expected.and_then(Json::as_object);
                    push(&mut lines, '+', &only_named(got, fields));
                }
            }
        }
    }
    Some(lines)
}

fn push(lines: &mut String, sign: char, record: &Json) {
    writeln!(lines, "      {sign} {record}").expect("writing to a string does not fail");
}

/// Returns the fields of `got` that a case names; key and value when it names none.
pub(crate) fn only_named(got: &Json, named: Option<&Map<String, Json>>) -> Json {
    let Some(got) = got.as_object() else { return got.clone() };
    let keep = |name: &String| match named {
        Some(named) => named.contains_key(name) || name == "key" || name == "value",
        None => name == "key" || name == "value" || name == "reason",
    };
    Json::Object(
        got.iter().filter(|(name, _)| keep(name)).map(|(n, v)| (n.clone(), v.clone())).collect(),
    )
}

/// Every field that `expected` names is as it says.
fn is_match(expected: &Json, got: &Json, base: i64) -> bool {
    let Some(expected) = expected.as_object() else { return expected == got };
    expected.iter().all(|(name, expected)| match name.as_str() {
        "headers" => {
            let expected = expected.as_object();
            let got = got.get(name).and_then(Json::as_object);
            expected.is_some_and(|expected| {
                expected
                    .iter()
                    .all(|(name, value)| got.and_then(|got| got.get(name)) == Some(value))
            })
        }
        "time" => {
            let got = got.get(name).and_then(Json::as_str);
            let written = expected.as_str().unwrap_or_default();
            got == Some(written) || time(written, base) == got.and_then(|got| time(got, base))
        }
        "key" => {
            let got = got.get(name).unwrap_or(&Json::Null);
            got == expected || got.as_str() == Some(expected.to_string().as_str())
        }
        _ => got.get(name).unwrap_or(&Json::Null) == expected,
    })
}

fn time(text: &str, base: i64) -> Option<i64> {
    let duration = |text: &str| crate::config::units::duration_ms(text).ok();
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(ahead), _) => Some(base.saturating_add(duration(ahead)?)),
        (None, Some(behind)) => Some(base.saturating_sub(duration(behind)?)),
        (None, None) => crate::config::units::date_ms(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::case::BASE_DEFAULT;
    use bytes::Bytes;
    use dovetail_core::{output::Target, record::Headers};
    use serde_json::json;

    fn record(value: &str) -> CommittedRecord {
        CommittedRecord {
            target: Target::Output(0),
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            headers: Headers::default(),
            time: Some(BASE_DEFAULT + 12_000),
        }
    }

    fn differs(expected: Json, value: &str) -> bool {
        difference("main", &[expected], &[record(value)], BASE_DEFAULT).is_some()
    }

    #[test]
    fn only_the_fields_a_case_names_are_compared() {
        assert!(!differs(json!({"value": {"a": 1}}), r#"{"a":1}"#));
        assert!(!differs(json!({"key": "k", "time": "+12s"}), r#"{"a":1}"#));
        assert!(differs(json!({"key": "x"}), r#"{"a":1}"#));
        assert!(differs(json!({"time": "+13s"}), r#"{"a":1}"#));
    }

    #[test]
    fn numbers_are_compared_by_their_digits() {
        let exact: Json = serde_json::from_str(r#"{"value":{"a":9007199254740993}}"#).unwrap();
        assert!(differs(exact, r#"{"a":9007199254740992}"#));
    }
}
