//! Goal: what a join decides by event time depends on the records alone; where the latest by arrival
//! counts, each record has one outcome, and one that some order of arrival allows. Method: every such
//! plugin on the production loop; records within the out-of-orderness in any order, over partitions
//! and batches, in short epochs, by a process that dies and starts again with its disk or without;
//! beside them the same records in the order of their times, all there from the start. That those
//! results are right is shown beside each plugin, against a naive join.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::world::{Given, Job, Numbers, OUT_OF_ORDERNESS, Ran, open, run};

/// Cases of each job.
const SEEDS: u64 = 40;
const RECORDS: u64 = 60;
const SPAN: i64 = 100;

/// What of a job's results must be equal.
#[derive(Clone, Copy, PartialEq)]
enum Equal {
    /// All of them.
    Results,
    /// The last of every key: results are upserts.
    Table,
}

/// Every join that is decided by event time.
const BY_EVENT_TIME: [(Job, Equal); 10] = [
    (
        Job {
            name: "order-payment",
            config: r#"{"within":"20ms","result":{"o":"order.n","p":"payment.n"}}"#,
            open: open::<order_payment::OrderPayment>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "wide-row",
            config: r#"{"wait":"20ms","detail_id":"id","keep":{"header":"1h","detail":"1h"},"result":{"h":"header.n","d":"detail.n"}}"#,
            open: open::<wide_row::WideRow>,
        },
        Equal::Table,
    ),
    (
        Job {
            name: "all-of",
            config: r#"{"inputs":["a","b","c"],"wait":"200ms","result":{"a":"a.n","b":"b.n","c":"c.n"}}"#,
            open: open::<all_of::AllOf>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "window-join, tumbling",
            config: r#"{"window":{"kind":"tumbling","size":"20ms"},"kind":"full","result":{"l":"left.n","r":"right.n"}}"#,
            open: open::<window_join::WindowJoin>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "window-join, sliding",
            config: r#"{"window":{"kind":"sliding","size":"20ms","slide":"5ms"},"result":{"l":"left.n","r":"right.n"}}"#,
            open: open::<window_join::WindowJoin>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "window-join, sessions",
            config: r#"{"window":{"kind":"session","gap":"6ms"},"kind":"left","result":{"l":"left.n","r":"right.n"}}"#,
            open: open::<window_join::WindowJoin>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "interval-join, full",
            config: r#"{"kind":"full","lower":"-5ms","upper":"10ms","result":{"l":"left.n","r":"right.n"}}"#,
            open: open::<interval_join::IntervalJoin>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "interval-join, anti",
            config: r#"{"kind":"anti","lower":"-5ms","upper":"10ms","result":{"l":"left.n"}}"#,
            open: open::<interval_join::IntervalJoin>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "as-of",
            config: r#"{"mode":"wait_for_watermark","keep_versions":"1h","result":{"b":"behaviour.n","d":"dimension.n"}}"#,
            open: open::<as_of::AsOf>,
        },
        Equal::Results,
    ),
    (
        Job {
            name: "table-join, versioned",
            config: r#"{"kind":"full","versioned":true,"result":{"l":"left.n","r":"right.n"}}"#,
            open: open::<table_join::TableJoin>,
        },
        Equal::Table,
    ),
];

/// Records of all inputs; no two have the same time, so that "the newest" is one. Where a key stands
/// for one thing, each input has at most one record of it.
fn records(job: Job, numbers: &mut Numbers) -> Vec<Given> {
    let (_, descriptor) = (job.open)(job.config);
    let inputs = u64::try_from(descriptor.inputs.len()).unwrap();
    let is_one_each = matches!(job.name, "order-payment" | "all-of");
    let mut times: Vec<i64> = (0..SPAN).collect();
    let given = (0..RECORDS).map(|n| {
        let at = usize::try_from(numbers.below(u64::try_from(times.len()).unwrap())).unwrap();
        let (key, input) = match is_one_each {
            // One in eight lies about its key, and so has nobody to meet.
            true if numbers.below(8) > 0 => (n / inputs, n % inputs),
            true => (RECORDS + n, n % inputs),
            false => (numbers.below(4), numbers.below(inputs)),
        };
        let input = u16::try_from(input).unwrap();
        Given {
            input,
            key: u8::try_from(key).unwrap(),
            time: times.swap_remove(at),
            delay: numbers.millis(OUT_OF_ORDERNESS + 1),
            fields: format!(r#""n":{n},"id":"d{}""#, numbers.below(3)),
            is_delete: has_deletes(job, &descriptor.inputs[usize::from(input)])
                && numbers.below(5) == 0,
        }
    });
    given.collect()
}

fn has_deletes(job: Job, input: &str) -> bool {
    matches!(input, "dimension" | "header") || job.name == "table-join, versioned"
}

/// The results that must be equal, in an order of their own.
fn compared(ran: &Ran, equal: Equal) -> Vec<String> {
    let text = |result: &(String, String, String, Option<i64>)| format!("{result:?}");
    match equal {
        Equal::Results => {
            let mut results: Vec<_> = ran.results.iter().map(text).collect();
            results.sort();
            results
        }
        Equal::Table => {
            let newest: BTreeMap<_, _> =
                ran.results.iter().map(|(output, key, value, _)| ((output, key), value)).collect();
            let rows = newest.into_iter().filter(|(_, value)| !value.is_empty());
            rows.map(|row| format!("{row:?}")).collect()
        }
    }
}

#[test]
fn what_is_decided_by_event_time_is_the_same_in_any_arrival_batching_and_with_crashes() {
    for (job, equal) in BY_EVENT_TIME {
        let (mut crashes, mut results) = (0, 0);
        for seed in 0..SEEDS {
            let mut numbers = Numbers(seed);
            let given = records(job, &mut numbers);
            let calm = run(job, &given, None);
            let shuffled = run(job, &given, Some(&mut numbers));
            let name = job.name;
            assert_eq!((calm.late, shuffled.late), (0, 0), "{name}, seed {seed}");
            let (expected, found) = (compared(&calm, equal), compared(&shuffled, equal));
            assert_eq!(found, expected, "{name}, seed {seed}");
            if name == "as-of" {
                assert!(is_by_time(&shuffled), "{name}, seed {seed}");
            }
            crashes += shuffled.crashes;
            results += expected.len();
        }
        assert!(crashes > SEEDS && results > 50, "{}: {crashes}, {results}", job.name);
    }
}

/// Whether the results of each key come in the order of their times.
fn is_by_time(ran: &Ran) -> bool {
    let mut last = BTreeMap::new();
    ran.results.iter().all(|(_, key, _, time)| last.insert(key, *time).is_none_or(|it| it <= *time))
}

fn field(value: &str, name: &str) -> Option<u64> {
    serde_json::from_str::<Value>(value).unwrap()[name].as_u64()
}

fn number(given: &Given) -> u64 {
    field(&format!("{{{}}}", given.fields), "n").unwrap()
}

#[test]
fn each_behaviour_of_latest_dimension_has_one_outcome_that_some_arrival_allows() {
    const WAIT: i64 = 20;
    let job = Job {
        name: "latest-dimension",
        config: r#"{"wait":"20ms","on_timeout":"side_output","result":{"b":"behaviour.n","d":"dimension.n"}}"#,
        open: open::<latest_dimension::LatestDimension>,
    };
    for seed in 0..SEEDS {
        let mut numbers = Numbers(seed);
        let mut given = records(job, &mut numbers);
        given.iter_mut().for_each(|it| it.is_delete = false);
        let (_, descriptor) = (job.open)(job.config);
        let is_dimension = |it: &Given| descriptor.inputs[usize::from(it.input)] == "dimension";
        let ran = run(job, &given, Some(&mut numbers));
        let mut told = BTreeSet::new();
        for (output, _, value, _) in &ran.results {
            let number_told = field(value, "b").unwrap();
            assert!(told.insert(number_told), "seed {seed}: {number_told} has two outcomes");
            let behaviour = given.iter().find(|it| number(it) == number_told).unwrap();
            let mut dimensions =
                given.iter().filter(|it| is_dimension(it) && it.key == behaviour.key);
            // What is later than another by more than the out-of-orderness comes behind it.
            let comes_before = |one: i64, other: i64| other.saturating_sub(one) > OUT_OF_ORDERNESS;
            match field(value, "d") {
                Some(met) => {
                    assert_eq!(output, "main");
                    let met = dimensions.find(|it| number(it) == met).unwrap();
                    let is_replaced = given.iter().any(|it| {
                        is_dimension(it)
                            && it.key == met.key
                            && it.time > met.time
                            && comes_before(it.time, behaviour.time)
                    });
                    assert!(!is_replaced, "seed {seed}: {number_told} met an old version");
                }
                None => {
                    assert_eq!(output, "timeouts");
                    let came = dimensions.find(|it| it.time <= behaviour.time + WAIT);
                    assert!(came.is_none(), "seed {seed}: {number_told} did not wait for {came:?}");
                }
            }
        }
        assert_eq!(told.len(), given.iter().filter(|it| !is_dimension(it)).count());
    }
}

#[test]
fn each_record_of_dedupe_is_passed_on_or_dropped_once_per_id_and_span() {
    for (config, window) in [
        (r#"{"keep":"first","id":"id","size":"30ms","duplicates":"side_output"}"#, Some(30)),
        (r#"{"keep":"last","id":"id","size":"30ms","duplicates":"side_output"}"#, Some(30)),
        (r#"{"within":"30ms","id":"id","duplicates":"side_output"}"#, None),
    ] {
        let job = Job { name: "dedupe", config, open: open::<dedupe::Dedupe> };
        for seed in 0..SEEDS {
            let mut numbers = Numbers(seed);
            let given = records(job, &mut numbers);
            let ran = run(job, &given, Some(&mut numbers));
            let mut all: Vec<_> =
                ran.results.iter().map(|result| field(&result.2, "n").unwrap()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..RECORDS), "{config}, seed {seed}: each once");
            let kept = ran.results.iter().filter(|result| result.0 == "main");
            let of = |value: &str| {
                let n = field(value, "n").unwrap();
                let it = given.iter().find(|it| number(it) == n).unwrap();
                let id = it.fields.split_once("id").unwrap().1;
                (it.key, id.to_owned(), it.time)
            };
            let mut groups: BTreeMap<_, Vec<i64>> = BTreeMap::new();
            for (_, _, value, _) in kept {
                let (key, id, time) = of(value);
                groups.entry((key, id)).or_default().push(time);
            }
            for ((key, id), times) in groups {
                if let Some(size) = window {
                    let spans: BTreeSet<_> =
                        times.iter().map(|time| (world::BASE + time).div_euclid(size)).collect();
                    assert_eq!(spans.len(), times.len(), "{config}, seed {seed}: {key} {id}");
                }
            }
        }
    }
}

#[test]
fn tables_without_versions_end_with_rows_that_can_have_come_last() {
    let job = Job {
        name: "table-join",
        config: r#"{"kind":"full","result":{"l":"left.n","r":"right.n"}}"#,
        open: open::<table_join::TableJoin>,
    };
    for seed in 0..SEEDS {
        let mut numbers = Numbers(seed);
        let given = records(job, &mut numbers);
        let ran = run(job, &given, Some(&mut numbers));
        // A result for every row that came: none is lost, none is told twice.
        assert_eq!(ran.results.len(), given.len(), "seed {seed}");
        let last: BTreeMap<_, _> =
            ran.results.iter().map(|(_, key, value, _)| (key, value)).collect();
        for (key, value) in last {
            for (input, name) in [(0, "l"), (1, "r")] {
                let rows =
                    || given.iter().filter(|it| it.input == input && it.key.to_string() == **key);
                let Some(n) = field(value, name) else {
                    assert_eq!(rows().count(), 0, "seed {seed}: {key}");
                    continue;
                };
                let row = rows().find(|it| number(it) == n).unwrap();
                let newest = rows().map(|it| it.time).max().unwrap();
                assert!(newest - row.time <= OUT_OF_ORDERNESS, "seed {seed}: {value} stays");
            }
        }
    }
}
