//! Goal: no result is lost or repeated, whatever ends the process and wherever, and each is made
//! by one revision of the plugin. Method: a stream whose results are known, kills at moments that
//! a printed seed gives, a `read_committed` reader throughout. `make soak` runs it at full size.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use dovetail_tests::broker::{Client, Follower, Record};

use crate::host_process::{Host, LIMIT, Pipeline, marked};
use crate::host_stream::{Random, Stream, mark_of, size};

const PARTITIONS: u16 = 4;
/// Of both topics together, without the last records of each partition.
const RECORDS: (&str, u64) = ("DOVETAIL_TEST_RECORDS", 200_000);
/// At least 8.
const KILLS: (&str, u64) = ("DOVETAIL_TEST_KILLS", 10);
/// Before these of ten starts the state directory is deleted.
const WITHOUT_STATE: [usize; 2] = [3, 7];
/// While this process runs every lane switches to revision 2.
const REPLACED_IN: usize = 4;
/// While this one runs the plugin is replaced by revision 3, which a kill may forestall.
const REPLACED_AND_KILLED_IN: usize = 6;

/// Pain P36.
#[test]
fn kills_at_random_lose_and_repeat_nothing() {
    let begin = Instant::now();
    let (records, kills) = (size(RECORDS), usize::try_from(size(KILLS)).unwrap());
    let mut random = Random::new();
    let stream = Stream::generate(&mut random, records / 2, 5, PARTITIONS);
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    let client = &pipeline.client;
    let mut results = client.follow(&pipeline.topic("results")).unwrap();
    let mut parts = Parts::new(&pipeline, &stream, kills);

    std::thread::scope(|scope| {
        // One thread, so that each topic keeps its order.
        let (release, released) = sync_channel::<Part<'_>>(kills + 1);
        scope.spawn(move || released.into_iter().for_each(|part| part.produce()));
        for round in 0..kills {
            release.send(parts.next()).unwrap();
            if WITHOUT_STATE.contains(&(round % 10)) {
                pipeline.delete_state();
            }
            let host = pipeline.run();
            if round == REPLACED_IN {
                // From here on it runs the revision that it found.
                host.admin();
                read_decided_by('1', &mut results);
                pipeline.replace_plugin(&marked(2));
                host.wait_for("every lane has switched");
                release.send(parts.next()).unwrap();
                read_decided_by('2', &mut results);
            }
            if round == REPLACED_AND_KILLED_IN {
                host.admin();
                pipeline.replace_plugin(&marked(3));
            }
            kill_at_random(host, &mut results, &mut random);
            let count = results.records.len();
            println!("{} of {kills} kills, {count} of {} results", round + 1, stream.results.len());
        }
        release.send(parts.next()).unwrap();
    });

    let before = results.records.len();
    assert!(before > 0 && before < stream.results.len(), "{before} results before the last kill");
    let host = pipeline.run();
    let count = stream.results.len();
    assert!(results.read(count, LIMIT).unwrap(), "{results:?} of {count}\n{}", host.text());
    client.wait_for(&pipeline.topic("late"), stream.late.len(), LIMIT).unwrap();
    host.stop();

    // All that is there, not only what was waited for.
    let results = client.read_committed(&pipeline.topic("results")).unwrap();
    let late = client.read_committed(&pipeline.topic("late")).unwrap();
    let marks = stream.check(&results, &late);
    for (partition, marks) in marks {
        // Results have their keys' partition, so each partition is written by one lane.
        assert!(marks.as_bytes().is_sorted(), "partition {partition} went back to a revision");
        for mark in ['1', '2', '3'] {
            assert!(marks.contains(mark), "revision {mark} decided nothing in {partition}");
        }
    }
    let dead = client.read_committed(&pipeline.topic("dead-letters")).unwrap();
    assert_eq!(dead, []);
    let took = begin.elapsed().as_secs();
    println!("{kills} kills, {records} records, {count} results, none lost or repeated, {took} s");
}

/// Reads until a revision has decided something in every partition.
fn read_decided_by(mark: char, results: &mut Follower) {
    let is_marked = |record: &&Record| mark_of(record) == mark;
    let partitions = |results: &Follower| -> BTreeSet<i32> {
        results.records.iter().filter(is_marked).map(|record| record.partition).collect()
    };
    while partitions(results).len() < usize::from(PARTITIONS) {
        assert!(results.read(results.records.len() + 100, LIMIT).unwrap(), "{results:?}");
    }
}

/// Kills a host at some moment: half of the time one of its start, else one of its work.
fn kill_at_random(host: Host, results: &mut Follower, random: &mut Random) {
    if random.below(2) == 0 {
        let more = results.records.len() + 1;
        assert!(results.read(more, LIMIT).unwrap(), "no progress:\n{}", host.text());
    }
    let moment = Duration::from_millis(random.below(1_500));
    results.read(usize::MAX, moment).unwrap();
    host.kill();
}

/// The stream in as many parts as there are processes.
struct Parts<'a> {
    client: &'a Client,
    topics: [String; 2],
    records: [std::slice::Chunks<'a, Record>; 2],
}

struct Part<'a> {
    client: &'a Client,
    records: [(String, &'a [Record]); 2],
}

impl<'a> Parts<'a> {
    fn new(pipeline: &'a Pipeline, stream: &'a Stream, kills: usize) -> Self {
        // One for each process that is killed, one after the switch, one for the last process.
        let size = stream.orders.len().div_ceil(kills + 2);
        Self {
            client: &pipeline.client,
            topics: ["orders", "payments"].map(|topic| pipeline.topic(topic)),
            records: [&stream.orders, &stream.payments].map(|records| records.chunks(size)),
        }
    }

    fn next(&mut self) -> Part<'a> {
        let [orders, payments] = self.records.each_mut().map(|parts| parts.next().unwrap());
        let [of_orders, of_payments] = self.topics.clone();
        Part { client: self.client, records: [(of_orders, orders), (of_payments, payments)] }
    }
}

impl Part<'_> {
    /// In small pieces of both topics in turn, so that records come in all the while.
    fn produce(&self) {
        let [(orders_topic, orders), (payments_topic, payments)] = &self.records;
        for (orders, payments) in orders.chunks(2_000).zip(payments.chunks(2_000)) {
            self.client.produce(orders_topic, orders).unwrap();
            self.client.produce(payments_topic, payments).unwrap();
        }
    }
}
