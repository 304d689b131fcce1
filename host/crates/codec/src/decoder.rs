//! The decoder of one input: a record goes in, the same record with key and event time comes out.

use bytes::Bytes;
use dovetail_core::{
    dead_letter::Reason,
    key::Key,
    record::{DecodedRecord, Decoding, Record},
    time::EventTime,
};

use crate::{
    format::{InputFormat, KeySource, TimeSource, WireFormat},
    json::{Found, Plan, SLOTS},
    key,
    time::{self, RawTime},
};

/// The place of a Kafka key in messages.
const KAFKA_KEY: &str = "the Kafka key";

/// Why a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    reason: Reason,
    message: String,
}

impl Rejection {
    pub(crate) fn new(reason: Reason, message: String) -> Self {
        Self { reason, message }
    }
}

/// Decodes the records of one input. It has no state: a bad record cannot harm the next one.
///
/// # Examples
///
/// ```
/// use dovetail_codec::*;
/// use dovetail_core::{key::{Key, KeyType}, record::{Decoding, Record}};
///
/// let decoder = Decoder::new(InputFormat {
///     key: KeyFormat {
///         from: KeySource::Value(JsonPath::parse("$.user_id")?),
///         format: WireFormat::String,
///         key_type: KeyType::String,
///     },
///     time: Some(TimeFormat {
///         from: TimeSource::Value(JsonPath::parse("$.ts")?),
///         unit: TimeUnit::Milliseconds,
///         valid: TIME_VALID_DEFAULT,
///     }),
/// });
/// let value = r#"{"user_id":"u1","ts":1772359200000}"#;
/// let record = Record { value: Some(value.into()), ..Record::default() };
/// assert_eq!(
///     decoder.decode(record).decoding,
///     Decoding::Ready { key: Some(Key::new("u1")), time: Some(1_772_359_200_000) },
/// );
/// # Ok::<(), PathError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Decoder {
    format: InputFormat,
    /// What is taken out of the value, if it is read at all: the key in slot 0, the time in 1.
    value_plan: Option<Plan>,
    /// What is taken out of a Kafka key in JSON.
    key_plan: Plan,
    /// The place of the key, for messages.
    key_place: String,
}

impl Decoder {
    /// Returns a decoder for an input.
    #[must_use]
    pub fn new(format: InputFormat) -> Self {
        let mut paths = [None; SLOTS];
        if let KeySource::Value(path) = &format.key.from {
            paths[0] = Some(path);
        }
        if let Some(TimeSource::Value(path)) = format.time.as_ref().map(|time| &time.from) {
            paths[1] = Some(path);
        }
        let reads_value = paths.iter().any(Option::is_some);
        let value_plan = reads_value.then(|| Plan::new(paths));
        let root = crate::path::JsonPath::root();
        let (key_path, key_place) = match &format.key.from {
            KeySource::KafkaKey(path) if format.key.format == WireFormat::Json => {
                (path, format!("{KAFKA_KEY} {path}"))
            }
            KeySource::KafkaKey(_) => (&root, KAFKA_KEY.to_owned()),
            KeySource::Value(path) => (&root, path.to_string()),
            KeySource::Header(name) => (&root, format!("header {name}")),
        };
        let key_plan = Plan::new([Some(key_path), None]);
        Self { value_plan, key_plan, key_place, format }
    }

    /// Returns how this input is read.
    #[must_use]
    pub fn format(&self) -> &InputFormat {
        &self.format
    }

    /// Finds key and event time of a record. The record itself is not changed.
    #[must_use]
    pub fn decode(&self, record: Record) -> DecodedRecord {
        let decoding = match self.key_and_time(&record) {
            Ok((key, time)) => Decoding::Ready { key, time },
            Err(Rejection { reason, message }) => Decoding::Rejected { reason, message },
        };
        DecodedRecord { record, decoding }
    }

    fn key_and_time(&self, record: &Record) -> Result<(Option<Key>, Option<EventTime>), Rejection> {
        let Some(value) = &record.value else {
            let key = self.key_in_bytes(record.key.as_ref(), KAFKA_KEY)?;
            return Ok((key, self.time(|_| time::of_the_log(record))?));
        };
        let [key_found, time_found] = self.found(value)?;
        let key = match &self.format.key.from {
            KeySource::Value(_) => {
                key::from_json(value, key_found, self.format.key.key_type, &self.key_place)?
            }
            KeySource::KafkaKey(_) => self.key_in_bytes(record.key.as_ref(), &self.key_place)?,
            KeySource::Header(name) => {
                let header = record.headers.last(name);
                let bytes = header.and_then(|header| header.value.as_ref());
                self.key_in_bytes(bytes, &self.key_place)?
            }
        };
        Ok((key, self.time(|from| time::raw(from, record, time_found))?))
    }

    /// Takes the wanted places out of a value; nothing is read where nothing is wanted.
    pub(crate) fn found<'a>(&self, value: &'a [u8]) -> Result<Found<'a>, Rejection> {
        let Some(plan) = &self.value_plan else {
            return Ok([None; SLOTS]);
        };
        plan.extract(value).map_err(|malformed| {
            let message = if value.is_empty() {
                "the value is not JSON: it is empty (0 bytes; a tombstone has no value at all)"
                    .to_owned()
            } else {
                format!("the value is not JSON: {malformed}")
            };
            Rejection::new(Reason::Decode, message)
        })
    }

    fn key_in_bytes(&self, bytes: Option<&Bytes>, place: &str) -> Result<Option<Key>, Rejection> {
        let Some(bytes) = bytes else { return Ok(None) };
        let key = &self.format.key;
        key::from_bytes(bytes, key.format, &self.key_plan, key.key_type, place)
    }

    fn time<'a>(
        &self,
        raw: impl FnOnce(&TimeSource) -> RawTime<'a>,
    ) -> Result<Option<EventTime>, Rejection> {
        let Some(format) = &self.format.time else {
            return Ok(None);
        };
        time::event_time(&raw(&format.from), format).map(Some)
    }
}
