//! Goal: the log port keeps its contract on a real broker. Method: each test has a pipeline of its
//! own, drives the port step by step and looks at the topics with a client that is not ours.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dovetail_core::key::murmur2_partition;
use dovetail_core::log::{Log as _, LogError, gap::OnGap};
use dovetail_core::output::{OutputBuffer, OutputRecord, Target};
use dovetail_core::record::{EVENT_TIME_HEADER, Header, Headers};
use dovetail_kafka::options::Start;
use dovetail_tests::broker::{Client, Record, shared};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::kafka_lane::{
    Heard, Lane, NOW, commit, emit, journal, metadata, plain, read_to_end, read_until,
};

fn setting() -> (Client, Lane) {
    let brokers = shared().unwrap();
    let client = Client::new(&brokers);
    let lane = Lane::create(&client, plain(&brokers));
    (client, lane)
}

#[test]
fn committed_positions_metadata_and_journal_come_back() {
    let (client, lane) = setting();
    let sent = [Record::new("a", "1"), Record::new("b", "2").in_partition(1)];
    client.produce(&lane.input, &sent).unwrap();
    let mut log = lane.started();
    assert_eq!(log.committed().unwrap(), [None, None]);
    let heard = read_to_end(&mut log);
    assert_eq!(heard.map(|heard| heard.values()), [["1"], ["2"]]);

    let next = commit(&mut log, 0, &[1, 1], &OutputBuffer::default(), &["one", "two"]).unwrap();
    assert_eq!(next, 3, "two chunks and the marker");
    commit(&mut log, 1, &[1, 1], &OutputBuffer::default(), &["three"]).unwrap();

    let mut successor = lane.log();
    successor.acquire().unwrap();
    for committed in successor.committed().unwrap() {
        let committed = committed.unwrap();
        assert_eq!(committed.position, 1);
        let mut expected = metadata(1);
        expected.journal_offset = 3;
        assert_eq!(committed.metadata, expected.to_string());
    }
    let text = |(offset, text): &(i64, &str)| (*offset, (*text).to_owned());
    let all = [(0, "one"), (1, "two"), (3, "three")].each_ref().map(text);
    assert_eq!(journal(&mut successor, 0), (all.to_vec(), 5));
    assert_eq!(journal(&mut successor, 3), (all[2..].to_vec(), 5));
    assert_eq!(journal(&mut successor, 5), (vec![], 5));

    successor.resume(&[1, 1]).unwrap();
    client.produce(&lane.input, &[Record::new("a", "3")]).unwrap();
    let mut heard = [Heard::default(), Heard::default()];
    read_until(&mut successor, &mut heard, |heard| !heard[0].records.is_empty()).unwrap();
    assert_eq!(heard[0].values(), ["3"]);
}

#[test]
fn journal_is_read_by_a_lane_that_owns_nothing_and_stops_when_told() {
    let (_, lane) = setting();
    let mut log = lane.started();
    let large = "x".repeat(512 * 1024);
    commit(&mut log, 0, &[0, 0], &OutputBuffer::default(), &[&large, "end"]).unwrap();
    let mut bystander = lane.log();
    let mut seen = Vec::new();
    let end = bystander.read_journal(0, &mut |_, chunk: Bytes| {
        seen.push(chunk.len());
        ControlFlow::Break(())
    });
    assert_eq!((seen, end.unwrap()), (vec![large.len()], 3));
    // Looking has fenced nobody.
    commit(&mut log, 1, &[0, 0], &OutputBuffer::default(), &["on"]).unwrap();
}

#[test]
fn results_arrive_with_key_headers_and_event_time_only_when_committed() {
    let (client, lane) = setting();
    let mut log = lane.started();
    let headers = Headers::new(vec![
        Header { name: "trace".to_owned(), value: Some(Bytes::from_static(b"7")) },
        Header { name: "none".to_owned(), value: None },
    ]);
    let mut outputs = OutputBuffer::default();
    emit(&mut outputs, "k", b"v", Some(NOW - 5));
    outputs.push(OutputRecord {
        target: Target::DeadLetters,
        key: None,
        value: None,
        headers: &headers,
        time: None,
    });
    commit(&mut log, 0, &[0, 0], &outputs, &["r"]).unwrap();
    let results = client.read_committed(&lane.output).unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].value_text(), "v");
    assert_eq!(results[0].timestamp_ms, Some(NOW - 5));
    assert!(results[0].headers.is_empty());
    let letters = client.read_committed(&lane.dead_letters).unwrap();
    assert_eq!((&letters[0].key, &letters[0].value), (&None, &None));
    let expected = [("trace".to_owned(), Some(b"7".to_vec())), ("none".to_owned(), None)];
    assert_eq!(letters[0].headers, expected);
}

#[test]
fn event_time_that_a_topic_refuses_travels_in_a_header() {
    let (client, lane) = setting();
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    let ahead = NOW + 10 * 365 * 86_400_000;
    emit(&mut outputs, "k", b"ahead", Some(ahead));
    emit(&mut outputs, "k", b"zero", Some(0));
    commit(&mut log, 0, &[0, 0], &outputs, &["r"]).unwrap();
    let results = client.read_committed(&lane.output).unwrap();
    let header = |time: i64| vec![(EVENT_TIME_HEADER.to_owned(), Some(time.to_string().into()))];
    assert_eq!(results[0].headers, header(ahead));
    assert_eq!(results[1].headers, header(0));
    assert!(results.iter().all(|result| result.timestamp_ms.unwrap() > NOW));
}

#[test]
fn results_go_to_the_partition_that_kafkas_java_clients_choose() {
    let (client, lane) = setting();
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    let keys: Vec<String> = (0..200).map(|n| format!("user-{n}")).collect();
    for key in &keys {
        emit(&mut outputs, key, key.as_bytes(), None);
    }
    commit(&mut log, 0, &[0, 0], &outputs, &["r"]).unwrap();
    let results = client.read_committed(&lane.output).unwrap();
    assert_eq!(results.len(), keys.len());
    for result in results {
        let expected = murmur2_partition(result.key.as_deref().unwrap(), 6);
        assert_eq!(result.partition, i32::from(expected), "{}", result.value_text());
    }
}

#[test]
fn first_owner_is_fenced_by_the_second_and_leaves_nothing() {
    let (client, lane) = setting();
    let mut first = lane.started();
    commit(&mut first, 0, &[0, 0], &OutputBuffer::default(), &["r"]).unwrap();
    let mut second = lane.started();
    let mut outputs = OutputBuffer::default();
    emit(&mut outputs, "k", b"from the first", None);
    let error = commit(&mut first, 1, &[0, 0], &outputs, &["lost"]).unwrap_err();
    assert!(matches!(error, LogError::Fenced(_)), "{error}");
    // Its clients are gone: nothing can be committed with them.
    let error = commit(&mut first, 1, &[0, 0], &outputs, &["lost"]).unwrap_err();
    assert!(matches!(error, LogError::Doubt(_)), "{error}");
    commit(&mut second, 1, &[0, 0], &OutputBuffer::default(), &["kept"]).unwrap();
    assert!(client.read_committed(&lane.output).unwrap().is_empty());
    let chunks = journal(&mut second, 0).0.into_iter().map(|(_, text)| text);
    assert_eq!(chunks.collect::<Vec<_>>(), ["r", "kept"]);
}

/// Pain P36.
#[test]
fn aborted_records_are_never_seen_and_an_open_transaction_is_the_end() {
    let (_, lane) = setting();
    let upstream: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &lane.options.connection.brokers)
        .set("transactional.id", format!("{}.upstream", lane.options.pipeline))
        .create()
        .unwrap();
    let limit = Duration::from_secs(20);
    let send = |value: &str| {
        let record = BaseRecord::to(&lane.input).partition(0).key("k").payload(value);
        upstream.send(record).map_err(|(error, _)| error).unwrap();
        upstream.flush(limit).unwrap();
    };
    upstream.init_transactions(limit).unwrap();
    upstream.begin_transaction().unwrap();
    send("aborted");
    upstream.abort_transaction(limit).unwrap();
    upstream.begin_transaction().unwrap();
    send("open");

    let mut log = lane.started();
    let [heard, _] = read_to_end(&mut log);
    assert!(heard.records.is_empty());
    assert_eq!(heard.end, Some(2), "behind the aborted record and its marker");
    upstream.commit_transaction(limit).unwrap();
    let mut heard = [heard, Heard::default()];
    read_until(&mut log, &mut heard, |heard| heard[0].end == Some(4)).unwrap();
    assert_eq!(heard[0].values(), ["open"]);
}

#[test]
fn a_record_that_the_topic_refuses_is_named_with_its_topic() {
    let (client, mut lane) = setting();
    let topic = format!("{}.small", lane.options.pipeline);
    client.create_topic(&topic, 1, &[("max.message.bytes", "1000")]).unwrap();
    lane.options.outputs[0].topic.clone_from(&topic);
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    // Does not compress.
    let noise = |n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()[1];
    let noise: Vec<u8> = (0..4000).map(noise).collect();
    emit(&mut outputs, "k", &noise, None);
    let error = commit(&mut log, 0, &[0, 0], &outputs, &["r"]).unwrap_err();
    assert!(matches!(&error, LogError::Refused { topic: t, .. } if *t == topic), "{error}");
    // The lane goes on after it has been acquired anew.
    log.acquire().unwrap();
    commit(&mut log, 0, &[0, 0], &OutputBuffer::default(), &["r"]).unwrap();
    assert!(client.read_committed(&topic).unwrap().is_empty());
}

fn delete_before(lane: &Lane, offset: i64) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", &lane.options.connection.brokers)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&lane.input, 0, Offset::Offset(offset)).unwrap();
    dovetail_tests::broker::block_on(admin.delete_records(&list, &AdminOptions::new())).unwrap();
}

/// Pain P41.
#[test]
fn deleted_records_are_a_gap_with_offsets_count_and_way_out() {
    let (client, mut lane) = setting();
    let sent: Vec<Record> = (0..900).map(|n| Record::new("k", &n.to_string())).collect();
    client.produce(&lane.input, &sent).unwrap();
    delete_before(&lane, 500);
    let mut log = lane.log();
    log.acquire().unwrap();
    let LogError::Gap { topic, partition, message } = log.resume(&[100, 0]).unwrap_err() else {
        panic!("no gap");
    };
    assert_eq!((topic, partition), (lane.input.clone(), 0));
    assert!(message.contains("offsets 100–499 (400 records) are gone"), "{message}");
    assert!(message.contains("`on_gap: earliest`"), "{message}");

    lane.options.sources[0].on_gap = OnGap::Earliest;
    let mut log = lane.log();
    log.acquire().unwrap();
    log.resume(&[100, 0]).unwrap();
    let [heard, _] = read_to_end(&mut log);
    assert_eq!((heard.records[0].offset, heard.records.len()), (500, 400));
    assert_eq!(heard.gap, Some((500, 400)));
}

/// Pain P41.
#[test]
fn a_position_behind_the_end_of_a_new_topic_is_a_gap() {
    let (client, mut lane) = setting();
    client.produce(&lane.input, &[Record::new("k", "1")]).unwrap();
    let mut log = lane.log();
    log.acquire().unwrap();
    let error = log.resume(&[100, 0]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, LogError::Gap { .. }), "{text}");
    assert!(text.contains("position is 100, and the partition ends at 1"), "{text}");

    lane.options.sources[0].on_gap = OnGap::Earliest;
    let mut log = lane.log();
    log.acquire().unwrap();
    log.resume(&[100, 0]).unwrap();
    let [heard, _] = read_to_end(&mut log);
    assert_eq!((heard.records.len(), heard.gap), (1, Some((0, 0))));
}

#[test]
fn a_source_starts_where_its_option_says() {
    let (client, mut lane) = setting();
    let sent: Vec<Record> = (0..10).map(|n| Record::new("k", "v").at_ms(NOW + n * 1000)).collect();
    client.produce(&lane.input, &sent).unwrap();
    let mut start = |start| {
        lane.options.sources[0].start = start;
        let mut log = lane.log();
        log.acquire().unwrap();
        log.start_positions().map(|positions| positions[0])
    };
    assert_eq!(start(Start::Earliest).unwrap(), 0);
    assert_eq!(start(Start::Latest).unwrap(), 10);
}

#[test]
fn an_unwanted_source_is_left_alone_and_nothing_of_it_is_lost() {
    let (client, lane) = setting();
    let sent: Vec<Record> = (0..2000).map(|n| Record::new("k", &n.to_string())).collect();
    client.produce(&lane.input, &sent).unwrap();
    let mut log = lane.started();
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut is_other_at_end = false;
    while !is_other_at_end && Instant::now() < deadline {
        log.wait(Duration::from_millis(50));
        log.fetch(&[false, true], &mut |fetched| {
            is_other_at_end = matches!(
                fetched,
                dovetail_core::log::Fetched::AtEnd { source, .. } if source.0 == 1
            );
        })
        .unwrap();
    }
    assert!(is_other_at_end);
    let mut heard = [Heard::default(), Heard::default()];
    read_until(&mut log, &mut heard, |heard| heard[0].end == Some(2000)).unwrap();
    let offsets: Vec<i64> = heard[0].records.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, (0..2000).collect::<Vec<i64>>());
}

#[test]
fn a_waker_ends_a_wait_from_another_thread() {
    let (_, lane) = setting();
    let mut log = lane.log();
    let waker = log.waker();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || waker());
        log.wait(Duration::from_secs(60));
    });
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_benchmark_switch_writes_results_and_nothing_else() {
    let (client, mut lane) = setting();
    lane.options.exactly_once = false;
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    emit(&mut outputs, "k", b"v", None);
    commit(&mut log, 0, &[0, 0], &outputs, &["r"]).unwrap();
    assert_eq!(client.read_committed(&lane.output).unwrap().len(), 1);
    assert!(client.read_committed(&lane.options.journal_topic).unwrap().is_empty());
}

/// Bytes that no compression makes smaller.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..size).map(|_| next()).collect()
}

fn put_aside(outputs: &mut OutputBuffer, value: &[u8]) {
    let reason = Header {
        name: "__dovetail.errors.reason".to_owned(),
        value: Some(Bytes::from_static(b"decode")),
    };
    outputs.push(OutputRecord {
        target: Target::DeadLetters,
        key: Some(b"k"),
        value: Some(value),
        headers: &Headers::new(vec![reason]),
        time: None,
    });
}

fn setting_with_small_dead_letters() -> (Client, Lane) {
    let (client, mut lane) = setting();
    lane.dead_letters = format!("{}.small", lane.options.pipeline);
    client.create_topic(&lane.dead_letters, 1, &[("max.message.bytes", "100000")]).unwrap();
    lane.options.dead_letters.topic.clone_from(&lane.dead_letters);
    lane.options.dead_letters.max_batch_bytes = 100_000;
    (client, lane)
}

#[test]
fn a_dead_letter_that_fits_when_compressed_is_kept_whole() {
    let (client, lane) = setting_with_small_dead_letters();
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    let large = vec![b'{'; 5 << 20];
    put_aside(&mut outputs, &large);
    commit(&mut log, 0, &[0, 0], &outputs, &["one"]).unwrap();
    let client = client.with("receive.message.max.bytes", "100000000");
    let letters = client.read_committed(&lane.dead_letters).unwrap();
    assert_eq!(letters[0].value.as_ref().map(Vec::len), Some(large.len()));
}

#[test]
fn a_dead_letter_that_its_topic_refuses_comes_again_with_its_value_cut() {
    let (client, lane) = setting_with_small_dead_letters();
    let mut log = lane.started();
    let mut outputs = OutputBuffer::default();
    let large = noise(3 << 20);
    put_aside(&mut outputs, b"small");
    put_aside(&mut outputs, &large);
    let error = commit(&mut log, 0, &[0, 0], &outputs, &["one"]).unwrap_err();
    assert!(matches!(error, LogError::Doubt(_)), "{error}");
    assert!(error.to_string().contains("comes again, cut to"), "{error}");

    log.acquire().unwrap();
    log.resume(&[0, 0]).unwrap();
    commit(&mut log, 0, &[0, 0], &outputs, &["one"]).unwrap();
    let letters = client.read_committed(&lane.dead_letters).unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!((letters[0].value_text(), letters[0].headers.len()), ("small".to_owned(), 1));
    let value = letters[1].value.as_ref().unwrap();
    assert!((90_000..100_000).contains(&value.len()), "{}", value.len());
    assert!(large.starts_with(value));
    let original = Some(large.len().to_string().into_bytes());
    assert_eq!(letters[1].headers[1], ("__dovetail.errors.truncated".to_owned(), original));
}
