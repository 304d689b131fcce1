//! What holds for every record, whatever its bytes.

use bytes::Bytes;
use dovetail_codec::{
    Decoder, InputFormat, JsonPath, KeyFormat, KeySource, TIME_VALID_DEFAULT, TimeFormat,
    TimeSource, TimeUnit, WireFormat,
};
use dovetail_core::{
    key::KeyType,
    record::{Decoding, Header, Headers, Record},
};
use proptest::prelude::*;

fn formats() -> impl Strategy<Value = InputFormat> {
    let paths = prop::sample::select(vec!["$", "$.k", "$.k.t", "$.t", "$[0]", "$.k[1].t"]);
    let path = || paths.clone().prop_map(|text| JsonPath::parse(text).expect("a path"));
    let key = prop_oneof![
        path().prop_map(KeySource::KafkaKey),
        path().prop_map(KeySource::Value),
        Just(KeySource::Header("h".to_owned())),
    ];
    let time = prop_oneof![
        path().prop_map(TimeSource::Value),
        Just(TimeSource::Header("h".to_owned())),
        Just(TimeSource::Timestamp),
    ];
    let key_types = vec![KeyType::String, KeyType::Integer, KeyType::Bytes];
    (
        (key, prop::sample::select(WireFormat::ALL.to_vec()), prop::sample::select(key_types)),
        prop::option::of((time, prop::sample::select(TimeUnit::ALL.to_vec()))),
    )
        .prop_map(|((from, format, key_type), time)| InputFormat {
            key: KeyFormat { from, format, key_type },
            time: time.map(|(from, unit)| TimeFormat { from, unit, valid: TIME_VALID_DEFAULT }),
        })
}

/// Rubbish, and text that is nearly JSON.
fn bytes() -> impl Strategy<Value = Option<Bytes>> {
    let nearly = r#"[{}\[\]",:0-9eE.+\-ktu\\ nul]{0,40}"#;
    let json = r#"\{"k":("[a-z\\"]{0,4}"|-?[0-9]{1,30}(\.[0-9]{1,5})?([eE]-?[0-9]{1,12})?),"t":"?[0-9]{0,20}"?\}"#;
    prop::option::of(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        nearly.prop_map(Bytes::from),
        json.prop_map(Bytes::from),
    ])
}

fn record() -> impl Strategy<Value = Record> {
    (bytes(), bytes(), prop::option::of(any::<i64>()), bytes()).prop_map(
        |(key, value, timestamp, header)| Record {
            offset: 0,
            timestamp,
            key,
            value,
            headers: Headers::new(vec![Header { name: "h".to_owned(), value: header }]),
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic_or_change_the_record(
        format in formats(),
        record in record(),
    ) {
        let decoder = Decoder::new(format);
        let decoded = decoder.decode(record.clone());
        prop_assert_eq!(&decoded.record, &record);
        match &decoded.decoding {
            Decoding::Ready { time, .. } => {
                prop_assert_eq!(time.is_some(), decoder.format().time.is_some());
                prop_assert!(time.is_none_or(|time| TIME_VALID_DEFAULT.contains(&time)));
            }
            Decoding::Rejected { message, .. } => prop_assert!(!message.is_empty()),
        }
        prop_assert_eq!(decoder.decode(record), decoded, "the same record, the same verdict");
    }

    #[test]
    fn digits_of_an_integer_key_are_kept_however_many(
        digits in "-?[1-9][0-9]{0,200}",
        zeros in 0_usize..4,
        form in 0..4,
    ) {
        let written = match form {
            0 => digits.clone(),
            1 => format!("{digits}.{}0", "0".repeat(zeros)),
            2 => format!("\"{digits}\""),
            _ => {
                let (first, rest) = digits.split_at(1 + usize::from(digits.starts_with('-')));
                format!("{first}.{rest}0e{}", rest.len())
            }
        };
        let decoder = Decoder::new(InputFormat {
            key: KeyFormat {
                from: KeySource::Value(JsonPath::parse("$.k").expect("a path")),
                format: WireFormat::String,
                key_type: KeyType::Integer,
            },
            time: None,
        });
        let record =
            Record { value: Some(format!("{{\"k\":{written}}}").into()), ..Record::default() };
        let Decoding::Ready { key: Some(key), .. } = decoder.decode(record).decoding else {
            return Err(TestCaseError::fail(written));
        };
        prop_assert_eq!(key.as_bytes(), digits.as_bytes());
    }

    #[test]
    fn every_time_survives_every_unit(ms in TIME_VALID_DEFAULT, below in 0_i64..1_000_000) {
        let nanoseconds = i128::from(ms) * 1_000_000 + i128::from(below);
        let date = jiff::Timestamp::from_nanosecond(nanoseconds).expect("in range");
        let written = [
            (TimeUnit::Seconds, format!("{}.{:03}", ms / 1_000, ms % 1_000)),
            (TimeUnit::Milliseconds, ms.to_string()),
            (TimeUnit::Microseconds, (nanoseconds / 1_000).to_string()),
            (TimeUnit::Nanoseconds, nanoseconds.to_string()),
            (TimeUnit::Rfc3339, format!("\"{date}\"")),
        ];
        for (unit, text) in written {
            let decoder = Decoder::new(InputFormat {
                key: KeyFormat {
                    from: KeySource::KafkaKey(JsonPath::root()),
                    format: WireFormat::String,
                    key_type: KeyType::String,
                },
                time: Some(TimeFormat {
                    from: TimeSource::Value(JsonPath::parse("$[0]").expect("a path")),
                    unit,
                    valid: TIME_VALID_DEFAULT,
                }),
            });
            let value = Some(format!("[{text}]").into());
            let decoded = decoder.decode(Record { value, ..Record::default() });
            prop_assert_eq!(decoded.time(), Some(ms), "{} {}", unit.name(), text);
        }
    }
}
