//! Calls that end well: state, timers, outputs and context through the interface.

use bytes::Bytes;
use dovetail_core::{
    context::{Current, Subject},
    key::Key,
    plugin::FailureKind,
    record::{Header, Headers, InputIndex, Partition, Record},
    timers::TimerDomain,
};

use crate::guest::{Lane, load};

#[test]
fn value_that_is_put_is_read_by_the_next_call() {
    let mut lane = Lane::new();
    lane.handle("put blue").unwrap();
    lane.handle("emit-value").unwrap();
    assert_eq!(lane.emitted(), ["blue"]);
    lane.handle("remove").unwrap();
    assert_eq!(lane.stored(), None);
    lane.handle("emit-value").unwrap();
    assert_eq!(lane.emitted(), ["blue", "(tombstone)"]);
}

#[test]
fn map_is_scanned_in_pages_and_trimmed_by_range() {
    let mut lane = Lane::new();
    lane.handle("map a b c d e").unwrap();
    lane.handle("emit-map").unwrap();
    lane.handle("trim-map").unwrap();
    lane.handle("emit-map").unwrap();
    lane.handle("emit-map d").unwrap();
    assert_eq!(lane.emitted(), ["aAbB|cCdD|eE", "aAdD|eE", "dDeE"]);
}

#[test]
fn context_tells_input_time_key_clocks_and_place() {
    let mut lane = Lane::new();
    lane.handle("context").unwrap();
    let min = i64::MIN;
    let expected = format!(
        "input 0 time Some(1000) key Some(\"k\") watermark {min} now {min} late false at 3:42"
    );
    assert_eq!(lane.emitted(), [expected]);
}

#[test]
fn record_without_key_has_no_key_and_reaches_no_state() {
    let mut lane = Lane::new();
    lane.handle_record(None, "context").unwrap();
    assert!(lane.emitted()[0].contains("key None"), "{:?}", lane.emitted());
    let failure = lane.handle_record(None, "put x").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("no key"), "{}", failure.message);
}

#[test]
fn headers_keep_order_and_null_values_in_both_directions() {
    let mut lane = Lane::new();
    let header = |name: &str, value: Option<&'static [u8]>| Header {
        name: name.to_owned(),
        value: value.map(Bytes::from_static),
    };
    let headers = vec![header("b", Some(b"1")), header("a", None), header("b", Some(b""))];
    lane.call(record(b"headers", Headers::new(headers.clone()))).unwrap();
    let outputs = lane.context().outputs();
    let record = outputs.iter().next().unwrap();
    let expected = [headers, vec![header("added", None)]].concat();
    assert_eq!(record.headers.as_slice(), expected);
    assert_eq!((record.key, record.value, record.time), (Some(&b"other"[..]), None, None));
}

#[test]
fn forwarded_record_is_unchanged() {
    let mut lane = Lane::new();
    lane.call(record(b"forward", Headers::default())).unwrap();
    let outputs = lane.context().outputs();
    let record = outputs.iter().next().unwrap();
    assert_eq!((record.key, record.value), (Some(&b"raw"[..]), Some(&b"forward"[..])));
}

#[test]
fn tombstone_reaches_the_plugin_as_no_value() {
    let mut lane = Lane::new();
    let mut current = record(b"", Headers::default());
    let Subject::Record { record, .. } = &mut current.subject else { unreachable!() };
    record.value = None;
    lane.call(current).unwrap();
    assert_eq!(lane.emitted(), ["no value, time None"]);
}

#[test]
fn timers_are_handled_in_each_domain() {
    let mut lane = Lane::new();
    lane.handle("timers").unwrap();
    lane.fire(TimerDomain::Event, Some(100), 1).unwrap();
    lane.fire(TimerDomain::Processing, Some(300), 3).unwrap();
    lane.fire(TimerDomain::Continue, None, 5).unwrap();
    let continued = format!("TimerDomain::Continue {} 5", i64::MIN);
    assert_eq!(
        lane.emitted(),
        ["TimerDomain::Event 100 1", "TimerDomain::Processing 300 3", continued.as_str()]
    );
}

#[test]
fn timer_whose_handler_panics_fails_like_a_record() {
    let mut lane = Lane::new();
    let failure = lane.fire(TimerDomain::Event, Some(100), 13).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(failure.message.contains("thirteen"), "{}", failure.message);
}

#[test]
fn warm_instance_keeps_its_memory_and_a_cold_one_does_not() {
    let mut lane = Lane::new();
    for _ in 0..3 {
        lane.handle("calls").unwrap();
    }
    lane.instance.set_fresh_instance_per_call(true);
    for _ in 0..2 {
        lane.handle("calls").unwrap();
    }
    assert_eq!(lane.emitted(), ["1", "2", "3", "1", "1"]);
    assert_eq!(lane.instance.calls(), 5);
}

#[test]
fn renewed_instance_starts_anew() {
    use dovetail_core::plugin::MatchFunction as _;
    let mut lane = Lane::new();
    lane.handle("calls").unwrap();
    lane.instance.renew();
    lane.handle("calls").unwrap();
    assert_eq!(lane.emitted(), ["1", "1"]);
}

#[test]
fn telemetry_of_open_reaches_the_first_call() {
    let revision = load("open-log").unwrap();
    let mut lane = Lane::with(&revision, dovetail_core::options::CallLimits::default());
    lane.handle("nothing").unwrap();
    let telemetry = lane.context().telemetry();
    assert_eq!(telemetry.lines().len(), 1);
    assert_eq!(telemetry.lines()[0].text, "opened");
    assert_eq!(telemetry.updates().len(), 1);
}

#[test]
fn peak_memory_is_counted_across_instances() {
    let mut lane = Lane::new();
    assert_eq!(lane.instance.peak_memory_bytes(), 0);
    lane.handle("nothing").unwrap();
    let resting = lane.instance.peak_memory_bytes();
    assert!((64 << 10..4 << 20).contains(&resting), "{resting}");
    lane.handle("allocate").unwrap_err();
    let peak = lane.instance.peak_memory_bytes();
    assert!((32 << 20..=64 << 20).contains(&peak), "{peak}");
}

fn record(value: &'static [u8], headers: Headers) -> Current {
    Current {
        subject: Subject::Record {
            input: InputIndex(0),
            role: 0,
            record: Record {
                key: Some(Bytes::from_static(b"raw")),
                value: Some(Bytes::from_static(value)),
                headers,
                ..Record::default()
            },
            time: None,
            is_late: false,
            is_broadcast: false,
        },
        key: Some(Key::new("k")),
        partition: Partition(0),
        event_time: None,
    }
}

#[test]
fn outputs_go_to_the_places_that_the_lane_gave_them() {
    use dovetail_core::output::Target;
    let mut lane = Lane::new();
    lane.instance.number_outputs(vec![1, 0]);
    lane.handle("emit-value").unwrap();
    lane.handle("forward").unwrap();
    let targets: Vec<Target> =
        lane.context().outputs().iter().map(|record| record.target).collect();
    assert_eq!(targets, [Target::Output(1), Target::Output(0)]);
    lane.instance.number_outputs(vec![1]);
    let failure = lane.handle("forward").unwrap_err();
    assert!(failure.message.contains("output number 1 is unknown"), "{}", failure.message);
}
