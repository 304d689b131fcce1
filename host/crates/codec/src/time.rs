//! Event times: from numbers and text to ms since the Unix epoch.
//!
//! Numbers may be written as JSON numbers or as strings, may have any number of digits and a
//! fraction; what is finer than a millisecond is cut toward the past. RFC 3339 must have an offset.

use std::{borrow::Cow, ops::Range};

use dovetail_core::{
    dead_letter::Reason,
    record::{EVENT_TIME_HEADER, Record},
    time::EventTime,
};
use jiff::Timestamp;

use crate::{
    decimal::Decimal,
    decoder::Rejection,
    format::{TimeFormat, TimeSource, TimeUnit},
    json::{Scalar, scalar},
    key::shown,
};

/// An event time as the record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RawTime<'a> {
    /// Digits or text.
    Text(Cow<'a, str>),
    /// ms already.
    Milliseconds(i64),
    /// There is none, or nothing that could be one; why.
    Missing(String),
}

/// Finds the event time of a record; `found` is the JSON text at the path, where it has one.
pub(crate) fn raw<'a>(
    from: &TimeSource,
    record: &'a Record,
    found: Option<&'a str>,
) -> RawTime<'a> {
    match from {
        TimeSource::Value(path) => match found.map(scalar) {
            None => RawTime::Missing(format!("the value has nothing at {path}")),
            Some(Ok(Scalar::Number(text))) => RawTime::Text(Cow::Borrowed(text)),
            Some(Ok(Scalar::Text(text))) => RawTime::Text(text),
            Some(Ok(other)) => RawTime::Missing(format!("{path} is {}", other.kind())),
            Some(Err(malformed)) => {
                RawTime::Missing(format!("the string at {path} cannot be read: {malformed} of it"))
            }
        },
        TimeSource::Header(name) => header(record, name)
            .unwrap_or_else(|| RawTime::Missing(format!("there is no header {name}"))),
        TimeSource::Timestamp => of_the_log(record),
    }
}

/// The time the log gives a record: its timestamp, or the header that stands in for it.
pub(crate) fn of_the_log(record: &Record) -> RawTime<'_> {
    match header(record, EVENT_TIME_HEADER) {
        Some(RawTime::Text(text)) => match text.parse() {
            Ok(time) => RawTime::Milliseconds(time),
            Err(_) => RawTime::Missing(format!(
                "the header {EVENT_TIME_HEADER} is {}, expected ms as decimal text",
                shown(&text)
            )),
        },
        Some(other) => other,
        None => match record.timestamp {
            Some(time) => RawTime::Milliseconds(time),
            None => RawTime::Missing("the record has no timestamp".to_owned()),
        },
    }
}

fn header<'a>(record: &'a Record, name: &str) -> Option<RawTime<'a>> {
    let header = record.headers.last(name)?;
    Some(match header.value.as_deref().map(std::str::from_utf8) {
        Some(Ok(text)) => RawTime::Text(Cow::Borrowed(text)),
        Some(Err(_)) => RawTime::Missing(format!("the header {name} is not text")),
        None => RawTime::Missing(format!("the header {name} is null")),
    })
}

/// Turns what was found into an event time, and checks it.
pub(crate) fn event_time(raw: &RawTime<'_>, format: &TimeFormat) -> Result<EventTime, Rejection> {
    let (time, text) = match raw {
        RawTime::Missing(why) => return Err(missing(&format.from, why)),
        RawTime::Milliseconds(time) => (Some(*time), Cow::Owned(time.to_string())),
        RawTime::Text(text) => match in_unit(text, format.unit) {
            Reading::Time(time) => (Some(time), Cow::Borrowed(text.as_ref())),
            Reading::OutOfBits => (None, Cow::Borrowed(text.as_ref())),
            Reading::Unreadable => {
                return Err(unreadable(text, format));
            }
        },
    };
    match time {
        Some(time) if format.valid.contains(&time) => Ok(time),
        _ => Err(out_of_range(&text, time, format)),
    }
}

/// What a text is in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// ms since the Unix epoch.
    Time(EventTime),
    /// A number, but beyond 64 bits of ms.
    OutOfBits,
    /// Not a time of this unit.
    Unreadable,
}

/// Reads a text in a unit.
pub(crate) fn in_unit(text: &str, unit: TimeUnit) -> Reading {
    let Some(shift) = unit.shift() else {
        return match text.parse::<Timestamp>() {
            Ok(time) => match i64::try_from(time.as_nanosecond().div_euclid(1_000_000)) {
                Ok(time) => Reading::Time(time),
                Err(_) => Reading::OutOfBits,
            },
            Err(_) => Reading::Unreadable,
        };
    };
    if let Some(time) = small(text, unit) {
        return Reading::Time(time);
    }
    match Decimal::parse(text) {
        None => Reading::Unreadable,
        Some(number) => number.scaled_floor(shift).map_or(Reading::OutOfBits, Reading::Time),
    }
}

/// The quick way for plain digits.
fn small(text: &str, unit: TimeUnit) -> Option<EventTime> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = text.parse().ok()?;
    match unit {
        TimeUnit::Seconds => number.checked_mul(1_000),
        TimeUnit::Milliseconds => Some(number),
        TimeUnit::Microseconds => Some(number / 1_000),
        TimeUnit::Nanoseconds => Some(number / 1_000_000),
        TimeUnit::Rfc3339 => None,
    }
}

/// Returns the unit, other than `unit`, in which the text is a valid time.
pub(crate) fn better_unit(
    text: &str,
    unit: TimeUnit,
    valid: &Range<EventTime>,
) -> Option<TimeUnit> {
    TimeUnit::ALL
        .into_iter()
        .filter(|other| *other != unit)
        .find(|other| matches!(in_unit(text, *other), Reading::Time(time) if valid.contains(&time)))
}

fn missing(from: &TimeSource, why: &str) -> Rejection {
    Rejection::new(Reason::TimeMissing, format!("no event time in {from}: {why}"))
}

fn unreadable(text: &str, format: &TimeFormat) -> Rejection {
    let expected = match format.unit {
        TimeUnit::Rfc3339 => "RFC 3339 with an offset, like 2026-01-01T00:00:00Z".to_owned(),
        unit => format!("a number of {}", unit.words()),
    };
    let why = format!("expected {expected}, found {}{}", shown(text), hint(text, format));
    missing(&format.from, &why)
}

fn out_of_range(text: &str, time: Option<EventTime>, format: &TimeFormat) -> Rejection {
    let unit = match format.from {
        TimeSource::Timestamp => TimeUnit::Milliseconds,
        _ => format.unit,
    };
    let read_as = match time.and_then(written) {
        Some(date) => format!("{date}, read as {}", unit.words()),
        None => format!("beyond all dates, read as {}", unit.words()),
    };
    let bound = |time| written(time).unwrap_or_else(|| format!("{time} ms"));
    Rejection::new(
        Reason::TimeOutOfRange,
        format!(
            "event time {} in {} is {read_as}, outside `time.valid` ({} to {}){}",
            shown(text),
            format.from,
            bound(format.valid.start),
            bound(format.valid.end),
            hint(text, format)
        ),
    )
}

/// `; looks like …` where another unit fits, else nothing.
fn hint(text: &str, format: &TimeFormat) -> String {
    if format.from == TimeSource::Timestamp {
        return String::new();
    }
    match better_unit(text, format.unit, &format.valid) {
        Some(unit) => {
            format!("; looks like {}: set `time.unit: {}`", unit.words(), unit.name())
        }
        None => String::new(),
    }
}

fn written(time: EventTime) -> Option<String> {
    Timestamp::from_millisecond(time).ok().map(|time| time.to_string())
}
