//! Every rule of reading keys and times, as tables.
//!
//! Goal: what ARCHITECTURE promises about keys, times, tombstones and bad records. Method: one
//! decoder per case, one record, the whole verdict compared.

use bytes::Bytes;
use dovetail_codec::{
    Decoder, InputFormat, JsonPath, KeyFormat, KeySource, TIME_VALID_DEFAULT, TimeFormat,
    TimeSamples, TimeSource, TimeUnit, WireFormat,
};
use dovetail_core::{
    dead_letter::Reason,
    key::{Key, KeyType, murmur2_partition},
    record::{Decoding, EVENT_TIME_HEADER, Header, Headers, Record},
};

const T: i64 = 1_772_359_200_000;

fn path(text: &str) -> JsonPath {
    JsonPath::parse(text).expect("a path")
}

fn key_at(text: &str, key_type: KeyType) -> KeyFormat {
    KeyFormat { from: KeySource::Value(path(text)), format: WireFormat::String, key_type }
}

fn kafka_key(format: WireFormat, key_type: KeyType) -> KeyFormat {
    KeyFormat { from: KeySource::KafkaKey(JsonPath::root()), format, key_type }
}

fn time(from: TimeSource, unit: TimeUnit) -> TimeFormat {
    TimeFormat { from, unit, valid: TIME_VALID_DEFAULT }
}

fn time_at(text: &str, unit: TimeUnit) -> TimeFormat {
    time(TimeSource::Value(path(text)), unit)
}

fn decoder(key: KeyFormat, time: Option<TimeFormat>) -> Decoder {
    Decoder::new(InputFormat { key, time })
}

fn value(bytes: impl Into<Bytes>) -> Record {
    Record { value: Some(bytes.into()), ..Record::default() }
}

fn headers(pairs: &[(&str, &'static str)]) -> Headers {
    let header = |(name, value): &(&str, &'static str)| Header {
        name: (*name).to_owned(),
        value: Some(Bytes::from(*value)),
    };
    Headers::new(pairs.iter().map(header).collect())
}

/// The key, or the reason.
fn key_of(decoder: &Decoder, record: Record) -> Result<Option<String>, (Reason, String)> {
    match decoder.decode(record).decoding {
        Decoding::Ready { key, .. } => {
            Ok(key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()))
        }
        Decoding::Rejected { reason, message } => Err((reason, message)),
    }
}

fn time_of(decoder: &Decoder, record: Record) -> Result<Option<i64>, (Reason, String)> {
    match decoder.decode(record).decoding {
        Decoding::Ready { time, .. } => Ok(time),
        Decoding::Rejected { reason, message } => Err((reason, message)),
    }
}

#[track_caller]
fn assert_rejected<T: std::fmt::Debug>(
    found: Result<T, (Reason, String)>,
    reason: Reason,
    message: &str,
) {
    let (found_reason, found_message) = found.expect_err("a rejection");
    assert_eq!(found_reason, reason, "{found_message}");
    assert!(found_message.contains(message), "{found_message:?} lacks {message:?}");
}

#[test]
fn keys_in_a_value_become_canonical_bytes() {
    use KeyType::{Bytes, Integer, String};
    let cases: [(KeyType, &str, &str); 21] = [
        (String, r#""o-1""#, "o-1"),
        (String, r#""""#, ""),
        (String, r#""a\u0062\n""#, "ab\n"),
        (String, "603", "603"),
        (String, "603.0", "603"),
        (String, "-0", "0"),
        (String, "1e3", "1000"),
        (String, "1.50", "1.5"),
        (String, r#""0603""#, "0603"),
        (Integer, "603", "603"),
        (Integer, r#""603""#, "603"),
        (Integer, r#""0603""#, "603"),
        (Integer, r#""-007""#, "-7"),
        (Integer, r#""000""#, "0"),
        (Integer, r#""-0""#, "0"),
        (Integer, "5.0", "5"),
        (Integer, "1e3", "1000"),
        (Integer, "12345678901234567890123", "12345678901234567890123"),
        (Integer, r#""12345678901234567890123""#, "12345678901234567890123"),
        (Bytes, r#""o-1""#, "o-1"),
        (Bytes, "7.0", "7"),
    ];
    for (key_type, json, expected) in cases {
        let decoder = decoder(key_at("$.k", key_type), None);
        let record = value(format!(r#"{{"k":{json}}}"#));
        assert_eq!(key_of(&decoder, record), Ok(Some(expected.to_owned())), "{json}");
    }
}

#[test]
fn values_that_are_no_key_are_refused_with_the_type() {
    let cases = [
        (KeyType::String, "true", "found true"),
        (KeyType::String, "[1]", "found an array"),
        (KeyType::String, "{}", "found an object"),
        (KeyType::String, "1e5000", "too many digits"),
        (KeyType::Integer, "1.5", "has a fraction"),
        (KeyType::Integer, r#""1.0""#, "a string of digits"),
        (KeyType::Integer, r#""""#, "found the string \"\""),
        (KeyType::Integer, r#"" 5""#, "found the string \" 5\""),
        (KeyType::Integer, r#""+5""#, "`key.type: integer`"),
        (KeyType::Integer, r#""-""#, "a string of digits"),
        (KeyType::Integer, "1e99999999999", "too many digits"),
    ];
    for (key_type, json, message) in cases {
        let decoder = decoder(key_at("$.k", key_type), None);
        let record = value(format!(r#"{{"k":{json}}}"#));
        assert_rejected(key_of(&decoder, record), Reason::KeyType, message);
    }
}

#[test]
fn absent_null_and_no_kafka_key_are_one_null_key_and_empty_is_a_real_one() {
    let in_value = decoder(key_at("$.order_id", KeyType::String), None);
    for document in [r#"{"order_id":null}"#, "{}", "[]", "5", "null", r#"{"order_id":{}}"#] {
        let found = key_of(&in_value, value(document));
        if document.ends_with("{}}") {
            assert_rejected(found, Reason::KeyType, "found an object");
        } else {
            assert_eq!(found, Ok(None), "{document}");
        }
    }
    assert_eq!(key_of(&in_value, value(r#"{"order_id":""}"#)), Ok(Some(String::new())));

    let in_kafka_key = decoder(kafka_key(WireFormat::String, KeyType::String), None);
    assert_eq!(key_of(&in_kafka_key, value("x")), Ok(None));
    let empty = Record { key: Some(Bytes::new()), ..value("x") };
    assert_eq!(key_of(&in_kafka_key, empty), Ok(Some(String::new())));
}

#[test]
fn kafka_keys_of_every_format_are_read() {
    use KeyType::{Bytes, Integer, String};
    let cases: [(WireFormat, KeyType, &[u8], &str); 12] = [
        (WireFormat::Int32, String, &[0, 0, 2, 0x5b], "603"),
        (WireFormat::Int32, Integer, &[0xff, 0xff, 0xff, 0xff], "-1"),
        (WireFormat::Int32, Bytes, &[0, 0, 2, 0x5b], "\0\0\u{2}\u{5b}"),
        (WireFormat::Int64, Integer, &[0, 0, 0, 0, 0, 0, 2, 0x5b], "603"),
        (WireFormat::Int64, String, &i64::MIN.to_be_bytes(), "-9223372036854775808"),
        (WireFormat::String, String, b"603", "603"),
        (WireFormat::String, Integer, b"603", "603"),
        (WireFormat::Json, String, b"\"603\"", "603"),
        (WireFormat::Json, Integer, b" 603 ", "603"),
        (WireFormat::Bytes, Bytes, b"603", "603"),
        (WireFormat::Bytes, String, b"603", "603"),
        (WireFormat::Bytes, Integer, b"0603", "603"),
    ];
    for (format, key_type, bytes, expected) in cases {
        let decoder = decoder(kafka_key(format, key_type), None);
        let record = Record { key: Some(bytes.to_vec().into()), ..value("not read") };
        assert_eq!(key_of(&decoder, record), Ok(Some(expected.to_owned())), "{format:?}");
    }
}

#[test]
fn an_int32_key_meets_the_same_key_written_as_text() {
    let left = decoder(kafka_key(WireFormat::Int32, KeyType::String), None);
    let right = decoder(kafka_key(WireFormat::String, KeyType::String), None);
    let wire: &[u8] = &[0, 0, 2, 0x5b];
    let one = key_of(&left, Record { key: Some(wire.into()), ..Record::default() });
    let other = key_of(&right, Record { key: Some("603".into()), ..Record::default() });
    assert_eq!(one, other);
    assert_eq!((murmur2_partition(wire, 6), murmur2_partition(b"603", 6)), (0, 0));
}

#[test]
fn kafka_keys_that_break_their_format_are_refused() {
    let cases: [(WireFormat, KeyType, &[u8], Reason, &str); 6] = [
        (
            WireFormat::Int32,
            KeyType::String,
            b"603",
            Reason::Decode,
            "not an int32: expected 4 bytes, found 3",
        ),
        (WireFormat::Int64, KeyType::String, b"", Reason::Decode, "expected 8 bytes, found 0"),
        (WireFormat::String, KeyType::String, b"a\xff", Reason::Decode, "invalid UTF-8 at byte 2"),
        (WireFormat::Json, KeyType::String, b"603x", Reason::Decode, "trailing characters"),
        (WireFormat::Bytes, KeyType::String, b"\xff", Reason::KeyType, "not UTF-8 (byte 1)"),
        (WireFormat::String, KeyType::Integer, b"", Reason::KeyType, "a string of digits"),
    ];
    for (format, key_type, bytes, reason, message) in cases {
        let decoder = decoder(kafka_key(format, key_type), None);
        let record = Record { key: Some(bytes.to_vec().into()), ..value("{}") };
        assert_rejected(key_of(&decoder, record), reason, message);
    }
}

#[test]
fn a_json_kafka_key_may_be_read_by_path_and_a_header_by_name() {
    let key = KeyFormat {
        from: KeySource::KafkaKey(path("$.id")),
        format: WireFormat::Json,
        key_type: KeyType::String,
    };
    let record = Record { key: Some(r#"{"id":7}"#.into()), ..value("x") };
    assert_eq!(key_of(&decoder(key, None), record), Ok(Some("7".to_owned())));

    let key = KeyFormat {
        from: KeySource::Header("tenant".to_owned()),
        format: WireFormat::String,
        key_type: KeyType::String,
    };
    let decoder = decoder(key, None);
    let record = Record { headers: headers(&[("tenant", "x"), ("tenant", "y")]), ..value("x") };
    assert_eq!(key_of(&decoder, record), Ok(Some("y".to_owned())));
    assert_eq!(key_of(&decoder, value("x")), Ok(None));
}

#[test]
fn keys_are_slices_of_the_record_where_nothing_was_escaped() {
    let document = Bytes::from(r#"{"k":"user-1","n":42}"#);
    let within = |key: &Key| document.as_ptr_range().contains(&key.as_bytes().as_ptr());
    for at in ["$.k", "$.n"] {
        let decoder = decoder(key_at(at, KeyType::String), None);
        let Decoding::Ready { key: Some(key), .. } =
            decoder.decode(value(document.clone())).decoding
        else {
            panic!("a key");
        };
        assert!(within(&key), "{at}");
    }
}

#[test]
fn times_of_every_unit_are_read() {
    use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Rfc3339, Seconds};
    let cases = [
        (Seconds, "1772359200", T),
        (Seconds, "1772359200.0015", T + 1),
        (Seconds, "1.772359200e9", T),
        (Seconds, r#""1772359200""#, T),
        (Milliseconds, "1772359200000", T),
        (Milliseconds, "1772359200000.9", T),
        (Milliseconds, r#""1772359200000""#, T),
        (Microseconds, "1772359200000999", T),
        (Nanoseconds, "1772359200000999999", T),
        (Nanoseconds, "1772359200000999999.25", T),
        (Rfc3339, r#""2026-03-01T10:00:00Z""#, T),
        (Rfc3339, r#""2026-03-01T11:00:00.0009+01:00""#, T),
        (Rfc3339, r#""2026-03-01\u005410:00:00Z""#, T),
    ];
    for (unit, json, expected) in cases {
        let decoder = decoder(key_at("$.k", KeyType::String), Some(time_at("$.ts", unit)));
        let record = value(format!(r#"{{"ts":{json},"k":"a"}}"#));
        assert_eq!(time_of(&decoder, record), Ok(Some(expected)), "{unit:?} {json}");
    }
}

#[test]
fn an_absent_null_or_unreadable_time_is_missing() {
    use TimeUnit::{Milliseconds, Rfc3339};
    let cases = [
        (Milliseconds, "{}", "the value has nothing at $.ts"),
        (Milliseconds, r#"{"ts":null}"#, "$.ts is null"),
        (Milliseconds, r#"{"ts":true}"#, "$.ts is true"),
        (Milliseconds, r#"{"ts":[1]}"#, "$.ts is an array"),
        (Milliseconds, r#"{"ts":""}"#, "expected a number of milliseconds, found \"\""),
        (Milliseconds, r#"{"ts":"soon"}"#, "found \"soon\""),
        (
            Milliseconds,
            r#"{"ts":"2026-03-01T10:00:00Z"}"#,
            "looks like RFC 3339: set `time.unit: rfc3339`",
        ),
        (Rfc3339, r#"{"ts":"2026-03-01T10:00:00"}"#, "with an offset"),
        (Rfc3339, r#"{"ts":1772359200}"#, "looks like seconds: set `time.unit: s`"),
    ];
    for (unit, document, message) in cases {
        let decoder = decoder(key_at("$.k", KeyType::String), Some(time_at("$.ts", unit)));
        assert_rejected(time_of(&decoder, value(document)), Reason::TimeMissing, message);
    }
}

#[test]
fn seconds_and_microseconds_are_never_taken_for_milliseconds() {
    let cases = [
        ("1772359200", "looks like seconds: set `time.unit: s`"),
        ("1772359200000000", "looks like microseconds: set `time.unit: us`"),
        ("1772359200000000000", "looks like nanoseconds: set `time.unit: ns`"),
        ("0", "1970-01-01T00:00:00Z, read as milliseconds"),
        ("-1", "outside `time.valid` (2000-01-01T00:00:00Z to 2100-01-01T00:00:00Z)"),
        ("4102444800000", "2100-01-01T00:00:00Z"),
        ("99999999999999999999999999", "beyond all dates"),
        ("1e300", "beyond all dates"),
    ];
    let decoder =
        decoder(key_at("$.k", KeyType::String), Some(time_at("$.ts", TimeUnit::Milliseconds)));
    for (number, message) in cases {
        let record = value(format!(r#"{{"ts":{number}}}"#));
        assert_rejected(time_of(&decoder, record), Reason::TimeOutOfRange, message);
    }
    assert_eq!(time_of(&decoder, value(r#"{"ts":946684800000}"#)), Ok(Some(946_684_800_000)));
}

#[test]
fn a_sample_names_the_unit_that_fits() {
    let decoder =
        decoder(key_at("$.k", KeyType::String), Some(time_at("$.ts", TimeUnit::Milliseconds)));
    let hint = |documents: &[&'static str]| {
        let mut samples = TimeSamples::new(&decoder);
        for document in documents {
            samples.add(&value(*document));
        }
        samples.hint().map(|hint| hint.to_string())
    };
    let seconds = "$.ts looks like seconds: set `time.unit: s`";
    assert_eq!(
        hint(&[r#"{"ts":1772359200}"#, "rubbish", r#"{"ts":1772359201.5}"#, "{}"]).as_deref(),
        Some(seconds)
    );
    assert_eq!(
        hint(&[r#"{"ts":"2026-03-01T10:00:00Z"}"#]).as_deref(),
        Some("$.ts looks like RFC 3339: set `time.unit: rfc3339`")
    );
    assert_eq!(hint(&[r#"{"ts":1772359200000}"#, r#"{"ts":1772359200}"#]), None);
    assert_eq!(hint(&[r#"{"ts":5}"#]), None);
    assert_eq!(hint(&[]), None);
}

#[test]
fn a_header_or_the_timestamp_gives_the_time() {
    let by_header = decoder(
        kafka_key(WireFormat::String, KeyType::String),
        Some(time(TimeSource::Header("at".to_owned()), TimeUnit::Seconds)),
    );
    let record = |headers| Record { headers, timestamp: Some(T + 5), ..value("x") };
    assert_eq!(time_of(&by_header, record(headers(&[("at", "1772359200")]))), Ok(Some(T)));
    assert_rejected(
        time_of(&by_header, record(Headers::default())),
        Reason::TimeMissing,
        "there is no header at",
    );

    let by_timestamp = decoder(
        kafka_key(WireFormat::String, KeyType::String),
        Some(time(TimeSource::Timestamp, TimeUnit::Seconds)),
    );
    assert_eq!(time_of(&by_timestamp, record(Headers::default())), Ok(Some(T + 5)));
    let ours = headers(&[(EVENT_TIME_HEADER, "1772359200000")]);
    assert_eq!(time_of(&by_timestamp, record(ours)), Ok(Some(T)));
    assert_rejected(
        time_of(&by_timestamp, record(headers(&[(EVENT_TIME_HEADER, "x")]))),
        Reason::TimeMissing,
        "expected ms as decimal text",
    );
    assert_rejected(time_of(&by_timestamp, value("x")), Reason::TimeMissing, "no timestamp");
}

#[test]
fn an_input_without_time_gives_none() {
    let decoder = decoder(kafka_key(WireFormat::String, KeyType::String), None);
    let record = Record { timestamp: Some(T), key: Some("k".into()), ..value("\u{0}") };
    assert_eq!(
        decoder.decode(record).decoding,
        Decoding::Ready { key: Some(Key::new("k")), time: None }
    );
}

#[test]
fn a_tombstone_has_the_kafka_key_and_the_records_timestamp_and_no_value_to_decode() {
    let decoder =
        decoder(key_at("$.order_id", KeyType::String), Some(time_at("$.ts", TimeUnit::Seconds)));
    let tombstone = Record { key: Some("o1".into()), timestamp: Some(T), ..Record::default() };
    assert_eq!(
        decoder.decode(tombstone.clone()).decoding,
        Decoding::Ready { key: Some(Key::new("o1")), time: Some(T) }
    );
    let ours = headers(&[(EVENT_TIME_HEADER, "1772359200001")]);
    assert_eq!(time_of(&decoder, Record { headers: ours, ..tombstone.clone() }), Ok(Some(T + 1)));
    let without_time = Record { timestamp: None, ..tombstone.clone() };
    assert_rejected(time_of(&decoder, without_time), Reason::TimeMissing, "no timestamp");
    let without_key = Record { key: None, ..tombstone.clone() };
    assert_eq!(key_of(&decoder, without_key), Ok(None));

    let empty = Record { value: Some(Bytes::new()), ..tombstone };
    assert_rejected(key_of(&decoder, empty), Reason::Decode, "a tombstone has no value at all");
}

#[test]
fn bad_records_are_refused_with_their_bytes_and_the_next_one_is_read() {
    let decoder = decoder(
        key_at("$.order_id", KeyType::String),
        Some(time_at("$.ts", TimeUnit::Milliseconds)),
    );
    let good = |id: &str| value(format!(r#"{{"order_id":"{id}","ts":1772359200000}}"#));
    let bad: [(&[u8], &str); 4] = [
        (br#"{"order_id":"o2","ts":1772359201000iiii}"#, "expected `,` or `}` at byte 36"),
        (br#"{"order_id":"o3","ts":17723"#, "EOF while parsing an object at byte 27"),
        (b"\xff\xfe\x00", "invalid UTF-8 at byte 1"),
        (br#"{"order_id":004}"#, "invalid number at byte 14"),
    ];
    assert_eq!(key_of(&decoder, good("o1")), Ok(Some("o1".to_owned())));
    for (at, (bytes, message)) in bad.into_iter().enumerate() {
        let record = Record {
            offset: i64::try_from(at).unwrap(),
            key: Some("original".into()),
            timestamp: Some(T),
            headers: headers(&[("traceparent", "A")]),
            ..value(bytes)
        };
        let decoded = decoder.decode(record.clone());
        assert_eq!(decoded.record, record, "the record is untouched");
        let Decoding::Rejected { reason, message: found } = decoded.decoding else {
            panic!("{bytes:?} was taken");
        };
        assert_eq!(reason, Reason::Decode);
        assert!(found.contains(message), "{found}");
        assert_eq!(key_of(&decoder, good("o6")), Ok(Some("o6".to_owned())));
    }
}

#[test]
fn the_whole_value_must_be_json_where_any_part_of_it_is_read() {
    let time_only = decoder(
        kafka_key(WireFormat::String, KeyType::String),
        Some(time_at("$.ts", TimeUnit::Milliseconds)),
    );
    let document = r#"{"ts":1772359200000,"rest":[1,2,}"#;
    assert_rejected(time_of(&time_only, value(document)), Reason::Decode, "at byte 33");
    let neither = decoder(kafka_key(WireFormat::String, KeyType::String), None);
    assert_eq!(time_of(&neither, value(document)), Ok(None));
}
