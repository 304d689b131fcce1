//! Goal: a full disk under the state directory loses and repeats nothing: the host says so, waits,
//! and goes on by itself once there is room; killed meanwhile, the next process does. Method: a
//! file-size limit of 0 (`RLIMIT_FSIZE`) that is set on the running process from outside, with
//! SIGXFSZ ignored: every write to a file fails then, as on a full disk, with EFBIG in place of
//! ENOSPC. Checkpoints are often, so that keyed state is written to files.

use std::process::Command;

use crate::host_process::{Host, LIMIT, Pipeline, get, wait_until};
use crate::host_stream::{Feed, Random, Stream};

/// Of each topic.
const ORDERS: u64 = 40_000;
/// Records of each topic that come at once.
const PIECE: usize = 50;

/// How much a process may write to a file: the soft limit of `prlimit`.
fn limit_files(host: &Host, soft: &str) {
    let pid = host.pid().to_string();
    let limited =
        Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={soft}:")]).status();
    assert!(limited.expect("run prlimit, which is a part of util-linux").success());
}

#[test]
fn a_full_disk_is_waited_for_and_loses_and_repeats_nothing() {
    let stream = Stream::generate(&mut Random::new(), ORDERS, 5, 1);
    let pipeline = Pipeline::create(1);
    let client = &pipeline.client;
    let store = pipeline.path("checkpoints");
    let store = store.display();
    let text =
        format!("{}checkpoint: {{ every: 500ms, store: \"file://{store}\" }}\n", pipeline.text());
    let mut feed = Feed::new(&pipeline, &stream);
    let host = Host::start_on_a_disk_that_fills(&pipeline.file("pipeline.yaml", &text));
    let admin = host.wait_for_lanes();
    let mut fill = |host: &Host| {
        limit_files(host, "0");
        wait_until("the message", || {
            feed.piece(PIECE);
            let (code, said) = get(&admin, "/readyz");
            code == 503 && said.contains("state/lane-000") && said.contains("File too large")
        });
    };
    fill(&host);
    limit_files(&host, "unlimited");
    wait_until("readiness", || get(&admin, "/readyz").0 == 200);
    fill(&host);
    host.kill();

    let host = pipeline.run_text("pipeline.yaml", &text);
    feed.rest();
    let [results, late] = ["results", "late"].map(|name| pipeline.topic(name));
    client.wait_for(&results, stream.results.len(), LIMIT).unwrap();
    client.wait_for(&late, stream.late.len(), LIMIT).unwrap();
    host.stop();
    let read = |topic| client.read_committed(topic).unwrap();
    stream.check(&read(&results), &read(&late));
}
