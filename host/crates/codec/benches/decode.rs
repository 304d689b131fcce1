//! How long one record takes to decode, by where its key and time are.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use dovetail_codec::{
    Decoder, InputFormat, JsonPath, KeyFormat, KeySource, TIME_VALID_DEFAULT, TimeFormat,
    TimeSource, TimeUnit, WireFormat,
};
use dovetail_core::{key::KeyType, record::Record};

fn decoder(key: KeySource, time: Option<(&str, TimeUnit)>) -> Decoder {
    Decoder::new(InputFormat {
        key: KeyFormat { from: key, format: WireFormat::String, key_type: KeyType::String },
        time: time.map(|(path, unit)| TimeFormat {
            from: TimeSource::Value(path.parse().expect("a path")),
            unit,
            valid: TIME_VALID_DEFAULT,
        }),
    })
}

fn decode(c: &mut Criterion) {
    let value = r#"{"user_id":"user-0012345","ts":1772359200123,"campaign":"spring-sale","cost":0.0125,"page":"/cart"}"#;
    let record = Record {
        offset: 7,
        timestamp: Some(1_772_359_200_123),
        key: Some("user-0012345".into()),
        value: Some(value.into()),
        ..Record::default()
    };
    let in_value = || KeySource::Value("$.user_id".parse().expect("a path"));
    let cases = [
        ("value_key_and_time", decoder(in_value(), Some(("$.ts", TimeUnit::Milliseconds)))),
        (
            "kafka_key_value_time",
            decoder(KeySource::KafkaKey(JsonPath::root()), Some(("$.ts", TimeUnit::Milliseconds))),
        ),
        ("kafka_key_only", decoder(KeySource::KafkaKey(JsonPath::root()), None)),
    ];
    for (name, decoder) in cases {
        c.bench_function(name, |bencher| {
            bencher.iter(|| decoder.decode(black_box(record.clone())));
        });
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
