//! Goal: inputs whose keys cannot meet are seen while the pipeline runs, not found weeks later in
//! an empty output. Method: keys placed by two partitioners, and keys that have nothing in common,
//! against a running host; what `/readyz`, `/metrics` and the log say of them.

use serde_json::Value;

use crate::host_process::{LIMIT, Pipeline, get, wait_for_answer, wait_for_status};
use crate::host_stream::{BASE, order, payment};
use dovetail_core::copartition::{RECORDS_WITHOUT_MATCH, SAMPLE_ONE_IN};
use dovetail_tests::broker::Record;

/// Of each input; enough that some of the keys are sampled.
const KEYS: i64 = 500;

#[test]
fn p18_keys_that_two_partitioners_place_degrade_readiness_and_are_counted() {
    let pipeline = Pipeline::create(2);
    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    let key = |number| format!("o-{number}");
    let orders: Vec<Record> =
        (0..KEYS).map(|number| order(&key(number), BASE + number, 2)).collect();
    let elsewhere = |record: Record| Record { partition: 1 - record.partition, ..record };
    let payments: Vec<Record> =
        (0..KEYS).map(|number| elsewhere(payment(&key(number), BASE + number, 1, 2))).collect();
    pipeline.client.produce(&pipeline.topic("orders"), &orders).unwrap();
    wait_for_status(&admin, |status| status["inputs"][0]["records"] == KEYS);
    assert_eq!(get(&admin, "/readyz").0, 200, "keys of one input alone are no violation");

    pipeline.client.produce(&pipeline.topic("payments"), &payments).unwrap();
    let is_degraded = |(code, body): &(u16, String)| *code == 503 && body.contains("copartition");
    let (_, body) = wait_for_answer(&admin, "/readyz", is_degraded);
    let ready: Value = serde_json::from_str(&body).unwrap();
    let reasons = ready["reasons"].as_array().unwrap();
    let reason = reasons.iter().find(|reason| reason["code"] == "copartition").unwrap();
    let message = reason["message"].as_str().unwrap();
    for part in ["the key \"o-", "of input payments", "lies in partition", "was seen in partition"]
    {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
    let metrics = get(&admin, "/metrics").1;
    let counted = metrics.lines().find(|line| {
        line.starts_with("dovetail_copartition_violations_total")
            && line.contains("input=\"payments\"")
    });
    let (_, count) = counted.unwrap_or_else(|| panic!("{metrics}")).rsplit_once(' ').unwrap();
    assert!(count.parse::<u64>().unwrap() > 0, "{metrics}");
    host.wait_for("such keys never meet");
    host.stop();
}

#[test]
fn p16_keys_with_nothing_in_common_are_said_once_with_samples_of_each_input() {
    let count = i64::try_from(RECORDS_WITHOUT_MATCH).unwrap();
    let pipeline = Pipeline::create(1);
    let orders: Vec<Record> =
        (0..count).map(|number| order(&format!("o-{number}"), BASE + number, 1)).collect();
    let payments: Vec<Record> =
        (0..count).map(|number| payment(&format!("p-{number}"), BASE + number, 1, 1)).collect();
    pipeline.client.produce(&pipeline.topic("orders"), &orders).unwrap();
    pipeline.client.produce(&pipeline.topic("payments"), &payments).unwrap();
    let host = pipeline.run();
    let admin = host.wait_for_lanes();
    let said = "no record has found a partner yet; sample keys: orders: o-";
    let (code, body) = wait_for_answer(&admin, "/readyz", |(_, body)| body.contains(said));
    // A warning: an input may well be ahead of the other.
    assert_eq!(code, 200, "{body}");
    let ready: Value = serde_json::from_str(&body).unwrap();
    let warnings = ready["warnings"].as_array().unwrap().iter().filter_map(Value::as_str);
    let warning = warnings.into_iter().find(|warning| warning.contains(said)).unwrap();
    assert_eq!(warning.matches("o-").count(), 3, "{warning}");
    assert_eq!(warning.matches("p-").count(), 3, "{warning}");

    // More of the same is not said again.
    let more = usize::try_from(SAMPLE_ONE_IN).unwrap() * 10;
    let late = i64::try_from(more).unwrap();
    let orders: Vec<Record> =
        (0..late).map(|number| order(&format!("o+{number}"), BASE + count, 1)).collect();
    pipeline.client.produce(&pipeline.topic("orders"), &orders).unwrap();
    let all = count + late;
    wait_for_status(&admin, |status| status["inputs"][0]["records"] == all);
    host.terminate();
    let mut host = host;
    assert_eq!(host.wait_exit(LIMIT), Some(0), "{}", host.text());
    assert_eq!(host.text().matches(said).count(), 1, "{}", host.text());
}
