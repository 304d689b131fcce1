//! The log port's contract.

use std::{sync::Arc, time::Duration};

use dovetail_core::{
    key::murmur2_partition,
    log::{Fetched, Log as _, LogError},
    output::{OutputBuffer, OutputRecord, Target},
    record::{Header, Headers, Partition, SourceIndex},
};
use dovetail_embedded::{EmbeddedCluster, EmbeddedError, EmbeddedLog, NewRecord, Start};

use crate::rig::{
    DEAD, ORDERS, OUTPUT_PARTITIONS, RESULTS, commit, fetch_all, fetched_values, journal, log,
    open, order, results, spec, temporary, text, topic_values,
};

#[test]
fn a_lane_reads_commits_and_goes_on_after_a_reopen() {
    let dir = temporary();
    let cluster = open(dir.path());
    cluster.append(ORDERS, &[order(0, "a"), order(1, "x"), order(0, "b")]).unwrap();
    let mut lane = log(&cluster, spec(0));
    assert_eq!(lane.committed().unwrap(), [None]);
    assert_eq!(lane.start_positions().unwrap(), [0]);
    lane.resume(&[0]).unwrap();
    let fetched = fetch_all(&mut lane);
    assert_eq!(fetched_values(&fetched), [(0, "a".to_owned()), (1, "b".to_owned())]);
    assert_eq!(fetched.last(), Some(&Fetched::AtEnd { source: SourceIndex(0), position: 2 }));
    assert_eq!(commit(&mut lane, 0, 0, &OutputBuffer::default(), &[0]), Ok(1));
    assert_eq!(commit(&mut lane, 0, 1, &results(&[("k", "joined")], 5), &[2]), Ok(2));
    let id = cluster.cluster_id().to_owned();
    drop((lane, cluster));

    let cluster = open(dir.path());
    assert_eq!(cluster.cluster_id(), id);
    assert_eq!(topic_values(&cluster, RESULTS), ["joined"]);
    let mut lane = log(&cluster, spec(0));
    let committed = lane.committed().unwrap()[0].clone().unwrap();
    assert_eq!(committed.position, 2);
    assert_eq!(
        committed.metadata,
        "D1;l=0;e=1;a=00000000000000000000000000000007;j=1;h=0000000000000abc"
    );
    let (end, chunks) = journal(&mut lane, 1);
    assert_eq!((end, chunks), (2, vec![(1, "epoch 1".into())]));
    lane.resume(&[committed.position]).unwrap();
    cluster.append(ORDERS, &[order(0, "c")]).unwrap();
    assert_eq!(fetched_values(&fetch_all(&mut lane)), [(2, "c".to_owned())]);
}

#[test]
fn the_end_is_told_once_and_again_after_new_records() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut lane = log(&cluster, spec(0));
    lane.resume(&[0]).unwrap();
    let end = |position| Fetched::AtEnd { source: SourceIndex(0), position };
    assert_eq!(fetch_all(&mut lane), [end(0)]);
    assert_eq!(fetch_all(&mut lane), []);
    cluster.append(ORDERS, &[order(0, "a")]).unwrap();
    let fetched = fetch_all(&mut lane);
    assert_eq!(fetched_values(&fetched), [(0, "a".to_owned())]);
    assert_eq!(fetched.last(), Some(&end(1)));
    lane.resume(&[1]).unwrap();
    assert_eq!(fetch_all(&mut lane), [end(1)], "all fetched before is void");
}

#[test]
fn a_source_that_is_not_wanted_is_not_read() {
    let dir = temporary();
    let cluster = open(dir.path());
    cluster.append(ORDERS, &[order(0, "a")]).unwrap();
    let mut lane = log(&cluster, spec(0));
    lane.resume(&[0]).unwrap();
    let mut count = 0;
    lane.fetch(&[false], &mut |_| count += 1).unwrap();
    assert_eq!(count, 0);
    assert_eq!(fetched_values(&fetch_all(&mut lane)).len(), 1);
}

#[test]
fn latest_starts_behind_what_is_there() {
    let dir = temporary();
    let cluster = open(dir.path());
    cluster.append(ORDERS, &[order(0, "a"), order(0, "b")]).unwrap();
    let mut latest = spec(0);
    latest.sources[0].start = Start::Latest;
    let mut lane = log(&cluster, latest);
    let positions = lane.start_positions().unwrap();
    assert_eq!(positions, [2]);
    lane.resume(&positions).unwrap();
    cluster.append(ORDERS, &[order(0, "c")]).unwrap();
    assert_eq!(fetched_values(&fetch_all(&mut lane)), [(2, "c".to_owned())]);
}

#[test]
fn many_and_large_records_come_back_from_any_offset() {
    let dir = temporary();
    let cluster = open(dir.path());
    let large = "x".repeat(600_000);
    let values: Vec<String> = (0..5_000)
        .map(|number| if number % 1_000 == 7 { large.clone() } else { format!("value {number}") })
        .collect();
    let records: Vec<NewRecord> = values.iter().map(|value| order(0, value)).collect();
    cluster.append(ORDERS, &records).unwrap();
    let mut lane = log(&cluster, spec(0));
    for start in [0_usize, 6, 7, 8, 2_500, 4_999, 5_000] {
        lane.resume(&[i64::try_from(start).unwrap()]).unwrap();
        let found = fetched_values(&fetch_all(&mut lane));
        let expected: Vec<(i64, String)> = (0..).zip(values.iter().cloned()).skip(start).collect();
        assert!(found == expected, "from {start}: {} of {}", found.len(), expected.len());
    }
}

#[test]
fn keys_values_headers_and_times_come_back_as_written() {
    let dir = temporary();
    let cluster = open(dir.path());
    let header = |name: &str, value| Header { name: name.to_owned(), value };
    let headers = Headers::new(vec![
        header("a", Some("1".into())),
        header("a", None),
        header("b", Some("".into())),
    ]);
    let mut outputs = OutputBuffer::default();
    let mut push = |target, key: Option<&[u8]>, value: Option<&[u8]>, time| {
        outputs.push(OutputRecord { target, key, value, headers: &headers, time });
    };
    push(Target::Output(0), None, Some(b""), Some(-5));
    push(Target::Output(0), Some(b""), None, None);
    push(Target::DeadLetters, Some(b"\xff"), Some(b"\0"), Some(i64::MAX));
    let mut lane = log(&cluster, spec(0));
    commit(&mut lane, 0, 0, &outputs, &[0]).unwrap();
    let written = cluster.read_topic(RESULTS).unwrap();
    let without_key = &written.iter().find(|(_, record)| record.key.is_none()).unwrap();
    assert_eq!(without_key.0, Partition(0), "the null key goes to partition 0");
    assert_eq!(without_key.1.value.as_deref(), Some(&b""[..]));
    assert_eq!(without_key.1.timestamp, Some(-5));
    assert_eq!(without_key.1.headers, headers);
    let tombstone = &written.iter().find(|(_, record)| record.value.is_none()).unwrap().1;
    assert_eq!((tombstone.key.as_deref(), tombstone.timestamp), (Some(&b""[..]), None));
    let dead = &cluster.read_topic(DEAD).unwrap()[0].1;
    assert_eq!(dead.key.as_deref(), Some(&b"\xff"[..]));
    assert_eq!(dead.timestamp, Some(i64::MAX));
}

#[test]
fn outputs_lie_where_kafkas_java_clients_put_them() {
    let dir = temporary();
    let cluster = open(dir.path());
    let keys = ["o-1001", "o-1003", "603", "cust-42", "o-1002"];
    let records: Vec<(&str, &str)> = keys.iter().map(|key| (*key, *key)).collect();
    let mut lane = log(&cluster, spec(0));
    commit(&mut lane, 0, 0, &results(&records, 5), &[0]).unwrap();
    for (partition, record) in cluster.read_topic(RESULTS).unwrap() {
        let key = record.key.unwrap();
        assert_eq!(partition.0, murmur2_partition(&key, OUTPUT_PARTITIONS), "{key:?}");
    }
    assert_eq!(topic_values(&cluster, RESULTS).len(), keys.len());
}

#[test]
fn an_earlier_attempt_cannot_commit() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut first = EmbeddedLog::new(&cluster, spec(0)).unwrap();
    let none = OutputBuffer::default();
    let fenced = |result: Result<i64, LogError>| matches!(result, Err(LogError::Fenced(_)));
    assert!(fenced(commit(&mut first, 0, 0, &none, &[0])), "never acquired");
    first.acquire().unwrap();
    commit(&mut first, 0, 0, &none, &[0]).unwrap();
    let mut second = log(&cluster, spec(0));
    assert!(fenced(commit(&mut first, 0, 1, &results(&[("k", "stale")], 5), &[1])));
    commit(&mut second, 0, 1, &results(&[("k", "new")], 5), &[1]).unwrap();
    let mut other = log(&cluster, spec(1));
    commit(&mut other, 1, 0, &none, &[0]).unwrap();
    commit(&mut second, 0, 2, &none, &[2]).unwrap();
    assert_eq!(topic_values(&cluster, RESULTS), ["new"]);
    first.acquire().unwrap();
    assert!(fenced(commit(&mut second, 0, 3, &none, &[3])), "acquiring again takes over");
}

/// Commits this many epochs of one result each.
fn commit_many(log: &mut EmbeddedLog, lane: u16, epochs: u64) {
    for epoch in 0..epochs {
        let value = format!("{lane}.{epoch}");
        let position = [i64::try_from(epoch).expect("small")];
        commit(log, lane, epoch, &results(&[("k", &value)], 5), &position).expect("a commit");
    }
}

#[test]
fn two_lanes_share_outputs_and_keep_their_own_journal_and_positions() {
    let dir = temporary();
    let cluster = open(dir.path());
    std::thread::scope(|scope| {
        for lane in 0..2_u16 {
            let cluster = Arc::clone(&cluster);
            scope.spawn(move || commit_many(&mut log(&cluster, spec(lane)), lane, 200));
        }
    });
    drop(cluster);
    let cluster = open(dir.path());
    let values = topic_values(&cluster, RESULTS);
    assert_eq!(values.len(), 400);
    for lane in 0..2_u16 {
        let own = values.iter().filter(|value| value.starts_with(&format!("{lane}.")));
        let expected: Vec<String> = (0..200).map(|epoch| format!("{lane}.{epoch}")).collect();
        assert!(own.eq(&expected), "lane {lane} is in order");
        let mut log = log(&cluster, spec(lane));
        assert_eq!(journal(&mut log, 0).1.len(), 200);
        assert_eq!(log.committed().unwrap()[0].as_ref().unwrap().position, 199);
    }
}

#[test]
fn a_commit_wakes_the_lanes_that_wait_and_so_does_the_waker() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut lane = log(&cluster, spec(0));
    lane.resume(&[0]).unwrap();
    fetch_all(&mut lane);
    let hour = Duration::from_secs(3_600);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let mut fetched = Vec::new();
            while fetched.is_empty() {
                lane.wait(hour);
                fetched = fetch_all(&mut lane);
            }
            (lane, fetched)
        });
        cluster.append(ORDERS, &[order(0, "a")]).unwrap();
        let (mut lane, fetched) = waiting.join().unwrap();
        assert_eq!(fetched_values(&fetched), [(0, "a".to_owned())]);
        let waker = lane.waker();
        let waiting = scope.spawn(move || lane.wait(hour));
        waker();
        waiting.join().unwrap();
    });
}

#[test]
fn a_lane_does_not_wait_while_more_can_be_read() {
    let dir = temporary();
    let cluster = open(dir.path());
    let records: Vec<NewRecord> = (0..10).map(|_| order(0, &"x".repeat(100_000))).collect();
    cluster.append(ORDERS, &records).unwrap();
    let mut lane = log(&cluster, spec(0));
    lane.resume(&[0]).unwrap();
    let mut count = 0;
    while count < records.len() {
        lane.wait(Duration::from_secs(3_600));
        lane.fetch(&[true], &mut |fetched| count += fetched_values(&[fetched]).len()).unwrap();
    }
    assert_eq!(count, records.len());
}

#[test]
fn one_pipelines_output_is_anothers_input() {
    let dir = temporary();
    let cluster = open(dir.path());
    let mut upstream = log(&cluster, spec(0));
    let mut downstream = spec(0);
    downstream.pipeline = "q".to_owned();
    downstream.sources[0].place = dovetail_embedded::Place::Topic(RESULTS.to_owned());
    downstream.sources[0].partition = Partition(murmur2_partition(b"k", OUTPUT_PARTITIONS));
    let mut downstream = log(&cluster, downstream);
    downstream.resume(&[0]).unwrap();
    assert_eq!(fetched_values(&fetch_all(&mut downstream)), []);
    commit(&mut upstream, 0, 0, &results(&[("k", "r")], 1_772_359_200_000), &[0]).unwrap();
    let fetched = fetch_all(&mut downstream);
    let Some(Fetched::Records { records, .. }) = fetched.first() else { panic!("{fetched:?}") };
    assert_eq!(text(&records[0]), "r");
    assert_eq!(records[0].timestamp, Some(1_772_359_200_000));
}

#[test]
fn a_directory_that_holds_something_else_is_left_alone() {
    for (file, content) in [("letter.txt", "dear"), ("lock", "not a process id")] {
        let dir = temporary();
        std::fs::write(dir.path().join(file), content).unwrap();
        let error = EmbeddedCluster::open(dir.path(), false).unwrap_err();
        assert!(matches!(error, EmbeddedError::Config(_)), "{error}");
        assert!(error.to_string().contains(&format!("it holds `{file}`")), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_to_string(dir.path().join(file)).unwrap(), content);
        let error = EmbeddedCluster::open(&dir.path().join(file), false).unwrap_err();
        assert!(error.to_string().contains("is not a directory"), "{error}");
    }
}

#[test]
fn the_second_process_is_told_who_has_the_directory() {
    let dir = temporary();
    let _cluster = open(dir.path());
    let error = EmbeddedCluster::open(dir.path(), false).unwrap_err();
    assert!(matches!(error, EmbeddedError::Locked { .. }));
    let expected = format!("is in use by process {}", std::process::id());
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let dir = temporary();
    let cluster = open(dir.path());
    let refused = |spec| EmbeddedLog::new(&cluster, spec).unwrap_err().to_string();
    let mut wrong = spec(0);
    wrong.sources[0].place = dovetail_embedded::Place::Topic("order".to_owned());
    assert_eq!(refused(wrong), "there is no topic order");
    let mut wrong = spec(0);
    wrong.sources[0].partition = Partition(2);
    assert_eq!(refused(wrong), "topic orders has 2 partitions, there is no 2");
    let mut wrong = spec(0);
    wrong.outputs[0].topic = "nowhere".to_owned();
    assert!(refused(wrong).contains("no topic nowhere to write to"));
    let mut wrong = spec(0);
    wrong.lanes = 3;
    assert!(refused(wrong).contains("`lanes` is fixed at the first start"));
    for name in ["", "..", "a/b", "ä"] {
        let error = cluster.ensure_topic(name, 1).unwrap_err().to_string();
        assert!(error.contains("expected 1 to 249"), "{error}");
    }
    let mut lane = log(&cluster, spec(0));
    assert!(matches!(lane.resume(&[1]), Err(LogError::Gap { .. })));
}

#[test]
fn with_sync_everything_works_as_without() {
    let dir = temporary();
    let cluster = EmbeddedCluster::open(dir.path(), true).unwrap();
    cluster.ensure_topic(RESULTS, 1).unwrap();
    cluster
        .append(RESULTS, &[NewRecord { value: Some("a".into()), ..NewRecord::default() }])
        .unwrap();
    assert_eq!(topic_values(&cluster, RESULTS), ["a"]);
    assert_eq!(dovetail_embedded::topics(dir.path()).unwrap()[RESULTS], 1);
    assert_eq!(dovetail_embedded::read_topic(dir.path(), RESULTS).unwrap().len(), 1);
}
