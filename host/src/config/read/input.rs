//! The `inputs` section.

use dovetail_codec::{
    InputFormat, JsonPath, KeyFormat, KeySource, TimeFormat, TimeSource, TimeUnit, WireFormat,
};
use dovetail_core::{
    key::KeyType,
    log::gap::OnGap,
    options::{LatePolicy, NullKeyPolicy},
};

use super::{
    super::{
        join,
        model::{InputConfig, InputFrom, Start, TimeConfig},
        node::Scalar,
        reader::{Reader, Section},
        scalars, units,
    },
    Surroundings,
};

/// The default of `time.valid`, as [`dovetail_codec::TIME_VALID_DEFAULT`].
const TIME_VALID: &str = "2000-01-01 to 2100-01-01";

/// The keys of an input.
const KEYS: [&str; 10] = [
    "topic",
    "file",
    "key",
    "time",
    "start",
    "on_gap",
    "null_key",
    "late",
    "broadcast",
    "bootstrap",
];

pub(super) fn read_inputs(
    reader: &mut Reader,
    root: &mut Section<'_>,
    is_kafka: bool,
    around: &Surroundings<'_>,
) -> Vec<InputConfig> {
    if !root.has("inputs") {
        reader.problem_at("inputs", "`inputs` must be said", "name the topics or files to read");
    }
    let section = reader.section(root, "inputs");
    let mut inputs = Vec::new();
    for entry in section.names() {
        let is_file = !is_kafka && entry.node.get("file").is_some();
        let needed: &[&str] = if is_file { &["file"] } else { &["topic", "start"] };
        if !reader.refuse_stray(&section, entry, ("input", needed, &KEYS)) {
            let mut input = reader.entry(&section, entry);
            inputs.push(read_input(reader, &mut input, entry.key.clone(), is_kafka, around));
        }
    }
    inputs
}

fn read_input(
    reader: &mut Reader,
    section: &mut Section<'_>,
    name: String,
    is_kafka: bool,
    around: &Surroundings<'_>,
) -> InputConfig {
    let from = read_from(reader, section, is_kafka, around);
    let has_files = matches!(from, InputFrom::Files(_));
    let modes = scalars::choice(&[("until_end_offset", true)]);
    let bootstrap = reader.optional(section, "bootstrap", modes).unwrap_or_default();
    let is_broadcast = reader.or(section, "broadcast", "false", scalars::boolean);
    let key = if is_broadcast && !section.has("key") {
        section.node("key");
        kafka_key_as_it_is()
    } else {
        read_key(reader, section, has_files)
    };
    let kind = TimeKind { has_files, is_broadcast };
    let time = section.has("time").then(|| read_time(reader, section, kind)).unzip();
    section.node("time");
    let (time_format, time) = time;
    let starts = scalars::choice(&[("earliest", Start::Earliest), ("latest", Start::Latest)]);
    let start = if has_files {
        let why = "a file is read from its first line";
        reader.refuse(section, "start", why, "leave `start` out");
        Start::Earliest
    } else {
        let help = "`start: earliest` reads what is there, `start: latest` only what comes; it \
                    counts at the first start alone";
        reader.required(section, "start", help, starts)
    };
    let on_gap = if is_kafka {
        let gaps = [("fail", OnGap::Fail), ("earliest", OnGap::Earliest)];
        reader.or(section, "on_gap", "fail", scalars::choice(&gaps))
    } else {
        let why = "`on_gap` is for pipelines with `kafka`";
        reader.refuse(section, "on_gap", why, "leave it out: nothing is ever deleted here");
        OnGap::Fail
    };
    let null_keys = [
        ("dead_letter", NullKeyPolicy::DeadLetter),
        ("drop", NullKeyPolicy::Drop),
        ("process", NullKeyPolicy::Process),
    ];
    let lates = [
        ("process", LatePolicy::Process),
        ("side_output", LatePolicy::SideOutput),
        ("drop", LatePolicy::Drop),
    ];
    let (null_key, late) = if is_broadcast {
        let help =
            "leave it out: a broadcast record has no key to be kept under, and is never late";
        for option in ["null_key", "late"] {
            reader.refuse(section, option, &format!("`{option}` is for keyed inputs"), help);
        }
        (NullKeyPolicy::Process, LatePolicy::Process)
    } else {
        let null_key = reader.or(section, "null_key", "dead_letter", scalars::choice(&null_keys));
        (null_key, reader.or(section, "late", "process", scalars::choice(&lates)))
    };
    reader.close(section);
    let format = InputFormat { key, time: time_format };
    let time = time.flatten();
    InputConfig { name, from, format, time, start, on_gap, null_key, late, is_broadcast, bootstrap }
}

fn read_from(
    reader: &mut Reader,
    section: &mut Section<'_>,
    is_kafka: bool,
    around: &Surroundings<'_>,
) -> InputFrom {
    if is_kafka {
        let why = "`file` is for pipelines without `kafka`";
        reader.refuse(section, "file", why, "give the `topic`, or leave `kafka` out");
        let topic = reader.required(section, "topic", "the topic to read", scalars::topic);
        return InputFrom::Topic(topic);
    }
    if section.has("topic") && section.has("file") {
        let why = "an input reads a topic or files";
        reader.refuse(section, "file", why, "keep one of `topic` and `file`");
    }
    if section.has("topic") {
        section.node("file");
        let topic = reader.optional(section, "topic", scalars::topic);
        return InputFrom::Topic(topic.unwrap_or_default());
    }
    section.node("topic");
    if !section.has("file") {
        let path = section.path().to_owned();
        reader.problem_at(
            &path,
            "`topic` or `file` must be said",
            "without `kafka` an input reads a topic of the embedded log, or NDJSON files \
             (one, or a list: file n is partition n)",
        );
    }
    let files = reader.one_or_many(section, "file", scalars::path);
    InputFrom::Files(files.into_iter().map(|file| around.resolve(file)).collect())
}

/// The key of a broadcast record is for the plugin alone: any bytes will do.
fn kafka_key_as_it_is() -> KeyFormat {
    KeyFormat {
        from: KeySource::KafkaKey(JsonPath::root()),
        format: WireFormat::Bytes,
        key_type: KeyType::Bytes,
    }
}

fn read_key(reader: &mut Reader, input: &mut Section<'_>, has_files: bool) -> KeyFormat {
    let mut section = reader.section(input, "key");
    let parts = [("key", Part::Key), ("value", Part::Value), ("header", Part::Header)];
    let part = if has_files {
        let help = "lines of a file have no Kafka key: key: { from: value, path: $.id }";
        let part = reader.required(&mut section, "from", help, scalars::choice(&parts));
        refuse_all_but_value(reader, &section, part)
    } else {
        reader.or(&mut section, "from", "key", scalars::choice(&parts))
    };
    let format = if part == Part::Value {
        let why = "`format` is for keys that are bytes of their own";
        reader.refuse(&mut section, "format", why, "leave it out: the value is JSON");
        WireFormat::String
    } else {
        let formats = WireFormat::ALL.map(|format| (format.name(), format));
        reader.or(&mut section, "format", "string", scalars::choice(&formats))
    };
    let from = match part {
        Part::Key if format == WireFormat::Json => {
            refuse_name(reader, &mut section);
            let path = reader.optional(&mut section, "path", json_path);
            KeySource::KafkaKey(path.flatten().unwrap_or_else(JsonPath::root))
        }
        Part::Key | Part::Timestamp => {
            refuse_name(reader, &mut section);
            refuse_path(reader, &mut section);
            KeySource::KafkaKey(JsonPath::root())
        }
        Part::Value => KeySource::Value(read_path(reader, &mut section)),
        Part::Header => KeySource::Header(read_header(reader, &mut section)),
    };
    let types = [KeyType::String, KeyType::Integer, KeyType::Bytes]
        .map(|key_type| (key_type.name(), key_type));
    let key_type = reader.or(&mut section, "type", "string", scalars::choice(&types));
    reader.close(&section);
    KeyFormat { from, format, key_type }
}

/// A part of a record. The default is what reading goes on with after a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    Key,
    #[default]
    Value,
    Header,
    Timestamp,
}

fn refuse_all_but_value(reader: &mut Reader, section: &Section<'_>, part: Part) -> Part {
    if part != Part::Value {
        let path = join(section.path(), "from");
        reader.problem_at(&path, "lines of a file are values alone", "use `from: value`");
    }
    part
}

fn refuse_name(reader: &mut Reader, section: &mut Section<'_>) {
    let help = "only `from: header` has a `name`";
    reader.refuse(section, "name", "`name` is the name of a header", help);
}

fn refuse_path(reader: &mut Reader, section: &mut Section<'_>) {
    let help = "use `from: value`, or leave it out";
    reader.refuse(section, "path", "`path` is a place in JSON", help);
}

fn read_path(reader: &mut Reader, section: &mut Section<'_>) -> JsonPath {
    refuse_name(reader, section);
    let help = "the place in the JSON value, such as $.user_id or $.order.id";
    reader.required(section, "path", help, json_path).unwrap_or_else(JsonPath::root)
}

fn read_header(reader: &mut Reader, section: &mut Section<'_>) -> String {
    refuse_path(reader, section);
    reader.required(section, "name", "the name of the header", scalars::text)
}

/// What decides about the keys of `time`.
#[derive(Debug, Clone, Copy)]
struct TimeKind {
    has_files: bool,
    is_broadcast: bool,
}

/// Where event times are, and how they move the watermark: those of a broadcast input do not.
fn read_time(
    reader: &mut Reader,
    input: &mut Section<'_>,
    TimeKind { has_files, is_broadcast }: TimeKind,
) -> (TimeFormat, Option<TimeConfig>) {
    let mut section = reader.section(input, "time");
    let parts = [("value", Part::Value), ("header", Part::Header), ("timestamp", Part::Timestamp)];
    let help = "value (with path), header (with name) or timestamp (the record's own)";
    let part = reader.required(&mut section, "from", help, scalars::choice(&parts));
    if has_files {
        refuse_all_but_value(reader, &section, part);
    }
    let unit = if part == Part::Timestamp {
        let help = "leave it out: a record's timestamp is in ms";
        reader.refuse(&mut section, "unit", "`unit` is for times in values and headers", help);
        TimeUnit::Milliseconds
    } else {
        let units = TimeUnit::ALL.map(|unit| (unit.name(), unit));
        reader.or(&mut section, "unit", "ms", scalars::choice(&units))
    };
    let from = match part {
        Part::Value => TimeSource::Value(read_path(reader, &mut section)),
        Part::Header => TimeSource::Header(read_header(reader, &mut section)),
        Part::Key | Part::Timestamp => {
            refuse_name(reader, &mut section);
            refuse_path(reader, &mut section);
            TimeSource::Timestamp
        }
    };
    let range = |scalar: &Scalar| units::date_range_ms(&scalar.text);
    let (first, end) = reader.or(&mut section, "valid", TIME_VALID, range);
    if is_broadcast {
        let help = "leave it out: a broadcast input moves no time";
        for option in ["out_of_orderness", "idle_after", "max_future_skew"] {
            let why = format!("`{option}` is for keyed inputs");
            reader.refuse(&mut section, option, &why, help);
        }
        reader.close(&section);
        return (TimeFormat { from, unit, valid: first..end }, None);
    }
    let help = "how far records may be out of order, such as 5s; 0s when they never are";
    let time = TimeConfig {
        out_of_orderness: reader.required(
            &mut section,
            "out_of_orderness",
            help,
            scalars::duration,
        ),
        idle_after: reader.or(&mut section, "idle_after", "60s", scalars::duration_or_never),
        max_future_skew: reader.or(
            &mut section,
            "max_future_skew",
            "1h",
            scalars::positive_duration,
        ),
    };
    reader.close(&section);
    (TimeFormat { from, unit, valid: first..end }, Some(time))
}

/// `Some`, so that a placeholder exists for what could not be read.
fn json_path(scalar: &Scalar) -> Result<Option<JsonPath>, String> {
    JsonPath::parse(&scalar.text)
        .map(Some)
        .map_err(|error| format!("a path such as $.user_id ({error})"))
}

#[cfg(test)]
mod tests {
    use dovetail_codec::TIME_VALID_DEFAULT;

    use super::*;

    #[test]
    fn valid_times_are_by_default_those_of_the_codec() {
        let (first, end) = units::date_range_ms(TIME_VALID).unwrap();
        assert_eq!(first..end, TIME_VALID_DEFAULT);
    }
}
