//! Goal: lanes tell who owns them, how far they are and what they wait for, whether the pipeline
//! runs or not, and looking disturbs nobody. Method: the command line beside a running host, and
//! after it was killed.

use std::time::Instant;

use serde_json::Value;

use crate::host_process::{LIMIT, Pipeline, dovetail, wait_for_status};
use crate::host_stream::{BASE, key_in, order};

/// What a command prints as JSON.
pub(crate) fn lanes(arguments: &[&str]) -> Value {
    let output = dovetail(&[&["lanes", "--output", "json"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn lanes_are_shown_by_the_running_process_and_from_outside_without_disturbing_it() {
    let pipeline = Pipeline::create(2);
    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    let orders: Vec<_> =
        (0..4_u16).map(|at| order(&key_in("o", at % 2, 2), BASE + i64::from(at), 2)).collect();
    pipeline.client.produce(&pipeline.topic("orders"), &orders).unwrap();
    let read = |status: &Value| {
        let records = status["inputs"].as_array().unwrap().iter();
        records.map(|input| input["records"].as_u64().unwrap()).sum::<u64>() == 4
    };
    wait_for_status(&admin, read);

    let of = |view: &Value, at: usize, field: &str| view["lanes"][at][field].clone();
    // Nothing answers at the address in the file: journal and offsets are read.
    let file = pipeline.file("look.yaml", &pipeline.text());
    let file = file.to_str().unwrap();
    let url = format!("http://{admin}");
    let begin = Instant::now();
    // An epoch may be committed between the two looks.
    let (running, seen) = loop {
        let (running, seen) = (lanes(&["--url", &url]), lanes(&[file]));
        if (0..2).all(|at| of(&seen, at, "epoch") == of(&running, at, "epoch")) {
            break (running, seen);
        }
        assert!(begin.elapsed() < LIMIT, "{running}\n{seen}");
    };
    assert_eq!((&running["running"], &seen["running"]), (&true.into(), &false.into()));
    for at in 0..2 {
        assert_eq!(of(&running, at, "owner")["pid"], host.pid(), "{running}");
        assert_eq!(of(&running, at, "phase"), "running", "{running}");
        let waits = of(&running, at, "waits_for");
        assert!(waits.as_str().unwrap().contains("payments"), "{running}");
    }

    for at in 0..2 {
        assert_eq!(of(&seen, at, "owner"), of(&running, at, "owner"), "{seen}\n{running}");
        let epoch = of(&seen, at, "epoch").as_u64().unwrap();
        assert_eq!(of(&seen, at, "journal_behind")["records"], epoch + 1, "{seen}");
        assert!(of(&seen, at, "journal_behind")["bytes"].as_u64().unwrap() > 0, "{seen}");
        assert_eq!(of(&seen, at, "waits_for"), "a process to run it", "{seen}");
    }
    let status = wait_for_status(&admin, |_| true);
    assert!(status["lanes"].as_array().unwrap().iter().all(|lane| lane["recoveries"] == 0));

    let pid = host.pid();
    host.kill();
    let seen = lanes(&[file]);
    assert_eq!(of(&seen, 0, "owner")["pid"], pid, "{seen}");
    let text = dovetail(&["lanes", file]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("(no process answers)") && text.contains("lane 1 waits for"), "{text}");
}

#[test]
fn a_pipeline_that_never_ran_and_one_whose_offsets_were_set_back_are_told_apart() {
    let pipeline = Pipeline::create(1);
    let file = pipeline.file("pipeline.yaml", &pipeline.text());
    let file = file.to_str().unwrap();
    let seen = lanes(&[file]);
    assert_eq!(seen["lanes"][0]["epoch"], Value::Null, "{seen}");
    let host = pipeline.run();
    host.wait_for_lanes();
    host.stop();
    let group = format!("{}.state", pipeline.name);
    pipeline.client.set_offset(&group, &pipeline.topic("orders"), 0, 0).unwrap();
    let seen = lanes(&[file]);
    let waits = seen["lanes"][0]["waits_for"].as_str().unwrap();
    assert!(waits.starts_with("an operator: found "), "{seen}");
}
