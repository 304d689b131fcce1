//! What the join library costs: each reference plugin per record, as a component and natively; and
//! whether cost and memory grow with what is kept.
//!
//! Goals: an interval join that finds 10 rows among 1,000 costs at most 3 times of one that finds 10
//! among 10; a record of a session costs no more among 10,000 sessions of its key than the logarithm
//! of their number says; sliding windows with 10 overlaps keep at most 1.3 times of what tumbling
//! ones keep; a record with 100,000 partners takes less than 50 MiB, in epochs of at most twice
//! `commit.every`.
//! Method: core's lane over the store that a lane has, in processor time of its thread; the least
//! of two runs.

#[path = "measure/driven_lane.rs"]
mod driven_lane;
#[path = "measure/processor_time.rs"]
mod processor_time;

use std::{
    cell::RefCell,
    fs,
    io::Write as _,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use dovetail_core::{
    epoch::LaneId,
    lane::Event,
    options::CommitOptions,
    plugin::{MatchFunction, PluginDescriptor},
    state::{MemoryStore, StateStore},
};
use dovetail_plugin::{Engine, Gate, GateOptions, Limits};
use dovetail_sdk::{NativePlugin, Plugin};
use dovetail_state::{Claim, MemoryBudget, StateDirectory};

use driven_lane::{DrivenLane, Given};
use processor_time::processor_time;

type Opened = (Box<dyn MatchFunction>, PluginDescriptor);

/// Records of a run of the table, and keys where they are drawn.
const RECORDS: u64 = 30_000;
const KEYS: u64 = 5_000;
/// Records per ms of event time, and per epoch.
const PER_MS: u64 = 20;
const EPOCH: u32 = 1_000;
const RUNS: usize = 2;
const BUDGET: MemoryBudget =
    MemoryBudget { block_cache: 32 << 20, memtables: 64 << 20, row_cache: 32 << 20 };

/// A plugin of the library with a configuration.
struct Job {
    name: &'static str,
    folder: &'static str,
    config: &'static str,
    native: fn(&str) -> Opened,
    /// Whether a key stands for one thing: a record of each input.
    is_one_each: bool,
}

fn native<P: Plugin + Send + 'static>(config: &str) -> Opened {
    let (plugin, descriptor) = NativePlugin::<P>::new(config).expect("a good configuration");
    (Box::new(plugin), descriptor)
}

const INTERVAL: fn(&str) -> Opened = native::<interval_join::IntervalJoin>;
const WINDOW: fn(&str) -> Opened = native::<window_join::WindowJoin>;

const JOBS: [Job; 13] = [
    Job {
        name: "J1 latest-dimension",
        folder: "latest-dimension",
        config: r#"{"wait":"1s","result":{"b":"behaviour.n","d":"dimension.n"}}"#,
        native: native::<latest_dimension::LatestDimension>,
        is_one_each: false,
    },
    Job {
        name: "J2 order-payment",
        folder: "order-payment",
        config: r#"{"within":"1s","result":{"o":"order.n","p":"payment.n"}}"#,
        native: native::<order_payment::OrderPayment>,
        is_one_each: true,
    },
    Job {
        name: "J3 wide-row",
        folder: "wide-row",
        config: r#"{"wait":"1s","detail_id":"id","keep":{"header":"1h","detail":"1h"},"result":{"h":"header.n","d":"detail.n"}}"#,
        native: native::<wide_row::WideRow>,
        is_one_each: false,
    },
    Job {
        name: "J4 all-of, 3 inputs",
        folder: "all-of",
        config: r#"{"inputs":["a","b","c"],"wait":"1s","result":{"a":"a.n","b":"b.n","c":"c.n"}}"#,
        native: native::<all_of::AllOf>,
        is_one_each: true,
    },
    Job {
        name: "J5 window-join, tumbling",
        folder: "window-join",
        config: r#"{"window":{"kind":"tumbling","size":"1s"},"result":{"l":"left.n","r":"right.n"}}"#,
        native: WINDOW,
        is_one_each: false,
    },
    Job {
        name: "J5 window-join, sliding, totals",
        folder: "window-join",
        config: r#"{"window":{"kind":"sliding","size":"1s","slide":"500ms"},"emit":"totals","totals":{"l":{"count":"left"},"r":{"sum":"right.n"}},"result":{"l":"l","r":"r"}}"#,
        native: WINDOW,
        is_one_each: false,
    },
    Job {
        name: "J5 window-join, sessions",
        folder: "window-join",
        config: r#"{"window":{"kind":"session","gap":"200ms"},"result":{"l":"left.n","r":"right.n"}}"#,
        native: WINDOW,
        is_one_each: false,
    },
    Job {
        name: "J6 interval-join, left",
        folder: "interval-join",
        config: r#"{"kind":"left","lower":"0ms","upper":"500ms","result":{"l":"left.n","r":"right.n"}}"#,
        native: INTERVAL,
        is_one_each: false,
    },
    Job {
        name: "J7 as-of, exact",
        folder: "as-of",
        config: r#"{"mode":"wait_for_watermark","result":{"b":"behaviour.n","d":"dimension.n"}}"#,
        native: native::<as_of::AsOf>,
        is_one_each: false,
    },
    Job {
        name: "J8 dynamic-rules",
        folder: "dynamic-rules",
        config: r#"{"class":"campaign","default":{"wait":"500ms"},"result":{"l":"left.n","r":"right.n"}}"#,
        native: native::<dynamic_rules::DynamicRules>,
        is_one_each: false,
    },
    Job {
        name: "J9 dedupe, within",
        folder: "dedupe",
        config: r#"{"within":"1s","id":"id"}"#,
        native: native::<dedupe::Dedupe>,
        is_one_each: false,
    },
    Job {
        name: "J9 dedupe, last of a window",
        folder: "dedupe",
        config: r#"{"keep":"last","size":"1s","id":"id"}"#,
        native: native::<dedupe::Dedupe>,
        is_one_each: false,
    },
    Job {
        name: "J13 table-join",
        folder: "table-join",
        config: r#"{"kind":"left","result":{"l":"left.n","r":"right.n"}}"#,
        native: native::<table_join::TableJoin>,
        is_one_each: false,
    },
];

fn main() {
    let engine = Engine::new().expect("this machine runs WebAssembly");
    // First, while the process holds little memory that it could use again.
    large_key(&engine);
    say(&format!(
        "library: CPU µs per record, with {RECORDS} records over {KEYS} keys, on RocksDB"
    ));
    say(&format!(
        "library: {:34} {:>9} {:>9} {:>6} {:>9}",
        "", "component", "native", "ratio", "results"
    ));
    for job in &JOBS {
        let records = table_records(job);
        let component = component(&engine, job);
        let (wasm, results) = cost(&records, &component);
        let (native, native_results) = cost(&records, || (job.native)(job.config));
        assert_eq!(results, native_results, "{}", job.name);
        let ratio = wasm / native;
        say(&format!(
            "library: {:34} {wasm:>9.2} {native:>9.2} {ratio:>6.2} {results:>9}",
            job.name
        ));
    }
    say("library: whether cost grows with what is kept, components");
    in_range(&engine);
    sessions(&engine);
    windows();
}

/// Prints a line: `make bench` shows those that begin with a small letter.
fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody reads it");
}

/// Returns what makes instances of a job's component.
fn component(engine: &Engine, job: &Job) -> impl Fn() -> Opened + use<> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins").join(job.folder);
    let file = dovetail_plugin::build_guest(&folder, &mut |_| ()).expect("the plugin builds");
    let gate = Gate::new(engine, GateOptions::default()).expect("imports are defined");
    let bytes = fs::read(file).expect("just written");
    let revision = gate.load_bytes(bytes, job.config).expect("a good plugin");
    move || {
        let instance = revision.instantiate(Limits::default());
        (Box::new(instance), revision.descriptor().clone())
    }
}

fn commit_by_records() -> CommitOptions {
    CommitOptions {
        every: i64::MAX,
        max_records: EPOCH,
        max_bytes: u64::MAX,
        keepalive_every: i64::MAX,
    }
}

/// A lane's store in a folder.
fn store(folder: &Path) -> Box<dyn StateStore> {
    let claim = Claim {
        pipeline: "bench".to_owned(),
        cluster_id: "none".to_owned(),
        since: "now".to_owned(),
    };
    let directory = StateDirectory::open(folder, &claim, 1, BUDGET).expect("a new directory opens");
    Box::new(directory.open_lane(LaneId(0)).expect("a new lane opens"))
}

/// Returns the processor time per record in µs, until everything is told, and how many results came.
fn cost(records: &[Given], open: impl Fn() -> Opened) -> (f64, u64) {
    let (mut least, mut results) = (f64::MAX, 0);
    for _ in 0..RUNS {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut lane = DrivenLane::new(open(), store(folder.path()), commit_by_records());
        let mut taken = Duration::ZERO;
        for epoch in records.chunks(EPOCH as usize) {
            lane.hand_over(epoch);
            let start = processor_time();
            lane.work();
            lane.watermark(epoch.iter().map(|given| given.time).max().unwrap_or(0) - 1);
            lane.work();
            taken += processor_time() - start;
        }
        let start = processor_time();
        lane.watermark(i64::MAX - 1);
        lane.work();
        taken += processor_time() - start;
        least = least.min(taken.as_secs_f64() * 1e6 / records.len() as f64);
        results = lane.results;
    }
    (least, results)
}

/// Numbers without a pattern, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn given(input: u64, key: u64, time: u64, n: u64) -> Given {
    Given {
        input: u16::try_from(input).expect("few inputs"),
        key: format!("u{key:08}"),
        time: i64::try_from(time).expect("a time"),
        value: format!(
            "{{\"id\":\"e{:02}\",\"n\":{n},\"campaign\":\"c0017\",\"note\":\"what no result needs\"}}",
            n % 4
        ),
    }
}

fn table_records(job: &Job) -> Vec<Given> {
    let (_, descriptor) = (job.native)(job.config);
    // Broadcast ones come last, and get no records here.
    let keyed = descriptor.inputs.len() - descriptor.broadcast.len();
    let inputs = u64::try_from(keyed).expect("few inputs");
    let mut numbers = Numbers(1);
    let record = |n: u64| {
        let (input, key) = if job.is_one_each {
            (n % inputs, n / inputs)
        } else {
            (numbers.below(inputs), numbers.below(KEYS))
        };
        given(input, key, 1_000 + n / PER_MS, n)
    };
    (0..RECORDS).map(record).collect()
}

fn interval(config: &'static str) -> Job {
    Job { name: "", folder: "interval-join", config, native: INTERVAL, is_one_each: false }
}

/// Left and right records of one key, one of each per ms.
fn in_range(engine: &Engine) {
    let near = interval(r#"{"lower":"0ms","upper":"9ms","result":{"l":"left.n","r":"right.n"}}"#);
    let far = interval(r#"{"lower":"991ms","upper":"1s","result":{"l":"left.n","r":"right.n"}}"#);
    let records: Vec<_> = (0..40_000).map(|n| given(n % 2, 0, 2_000 + n / 2, n)).collect();
    let (near, _) = cost(&records, component(engine, &near));
    let (far, results) = cost(&records, component(engine, &far));
    let ratio = far / near;
    say(&format!(
        "library: interval-join, 10 in range of 10 rows {near:.2} µs, of 1,000 rows {far:.2} µs: {ratio:.2} times ({results} pairs)"
    ));
}

/// Records that fall into open sessions of one key, in no order.
fn sessions(engine: &Engine) {
    let job = Job {
        name: "",
        folder: "window-join",
        config: r#"{"window":{"kind":"session","gap":"5ms"},"emit":"totals","totals":{"l":{"count":"left"}},"result":{"l":"l"}}"#,
        native: WINDOW,
        is_one_each: false,
    };
    let component = component(engine, &job);
    let mut costs = Vec::new();
    for open in [10, 100, 1_000, 10_000] {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut lane = DrivenLane::new(component(), store(folder.path()), commit_by_records());
        let mut numbers = Numbers(1);
        let all: Vec<_> = (0..open).map(|at| given(0, 0, 1_000 + at * 10, at)).collect();
        lane.hand_over(&all);
        lane.work();
        let mut taken = Duration::ZERO;
        for _ in 0..10 {
            let touch = |n| given(0, 0, 1_000 + numbers.below(open) * 10 + n % 3, n);
            let records: Vec<_> = (0..u64::from(EPOCH)).map(touch).collect();
            lane.hand_over(&records);
            let start = processor_time();
            lane.work();
            taken += processor_time() - start;
        }
        costs.push(format!("{open}: {:.2} µs", taken.as_secs_f64() * 1e6 / 1e4));
    }
    say(&format!(
        "library: window-join, a record among so many open sessions of its key: {}",
        costs.join(", ")
    ));
}

/// What windows keep of the same records.
fn windows() {
    let kept = |config: &'static str| {
        let opened = WINDOW(config);
        let mut lane = DrivenLane::new(opened, Box::<MemoryStore>::default(), commit_by_records());
        let records: Vec<_> =
            (0..10_000).map(|n| given(n % 2, n % 50, 1_000 + n / 10, n)).collect();
        lane.hand_over(&records);
        lane.work();
        lane.into_store().size().bytes
    };
    let tumbling = kept(r#"{"window":{"kind":"tumbling","size":"10s"},"result":{"l":"left.n"}}"#);
    let sliding =
        kept(r#"{"window":{"kind":"sliding","size":"10s","slide":"1s"},"result":{"l":"left.n"}}"#);
    let ratio = sliding as f64 / tumbling as f64;
    say(&format!(
        "library: window-join, state of 10,000 records: tumbling {tumbling} bytes, sliding with 10 overlaps {sliding}: {ratio:.2} times"
    ));
}

/// A number of `/proc/self/status`, in KiB.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

/// One record with 100,000 partners, in epochs of 100 ms.
fn large_key(engine: &Engine) {
    const EVERY: i64 = 100;
    const ROWS: u64 = 100_000;
    let job =
        interval(r#"{"kind":"left","lower":"0ms","upper":"1s","result":{"l":"left","r":"right"}}"#);
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let commit = CommitOptions {
        every: EVERY,
        max_records: 50_000,
        max_bytes: 8 << 20,
        keepalive_every: i64::MAX,
    };
    let opened = component(engine, &job)();
    let mut lane = DrivenLane::new(opened, store(folder.path()), commit);
    for at in 0..ROWS / 1_000 {
        let rows: Vec<_> = (0..1_000).map(|n| given(0, 0, 1_000, at * 1_000 + n)).collect();
        lane.hand_over(&rows);
        lane.work();
    }
    lane.step(0, Event::Close);
    let before = lane.results;
    // The peak is counted anew from here on.
    fs::write("/proc/self/clear_refs", "5").expect("Linux takes it");
    let resident = memory("VmRSS:");
    let started = Instant::now();
    let epochs = Rc::new(RefCell::new(vec![Duration::ZERO]));
    let noted = Rc::clone(&epochs);
    lane.on_commit = Box::new(move || noted.borrow_mut().push(started.elapsed()));
    lane.hand_over(&[given(1, 0, 1_000, 0)]);
    let now = || i64::try_from(started.elapsed().as_millis()).expect("a short time");
    while lane.results < before + ROWS {
        // The calls of about 5 ms, as in a turn of the host.
        lane.step(now(), Event::Proceed { calls_max: 10 });
    }
    let grown = memory("VmHWM:").saturating_sub(resident) >> 10;
    let epochs = epochs.borrow();
    let longest = epochs.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    say(&format!(
        "library: interval-join, a record with {ROWS} partners: {} ms in {} epochs, the longest {} ms of {EVERY}; memory grows {grown} MiB",
        started.elapsed().as_millis(),
        epochs.len() - 1,
        longest.as_millis(),
    ));
}
