//! Goal: a wrong clock at a producer costs nobody else anything. Method: records around the real
//! present on a running host, one of them hours ahead.

use crate::host_process::{LIMIT, Pipeline, get, metric, wait_for_status};
use crate::host_stream::{order, payment, value};

#[test]
fn p07_one_record_from_the_future_makes_no_honest_record_late() {
    let pipeline = Pipeline::create(1);
    let now = dovetail_runtime::clock::now();
    let ahead = 2 * 3_600_000;
    // o1 now, o2 by a clock that is two hours fast, o3 to o12 a second apart.
    let times = [now, now + ahead].into_iter().chain((1..=10).map(|second| now + second * 1_000));
    let times: Vec<(String, i64)> =
        (1..).zip(times).map(|(number, time)| (format!("o{number}"), time)).collect();
    let orders: Vec<_> = times.iter().map(|(key, time)| order(key, *time, 1)).collect();
    let payments: Vec<_> = times.iter().map(|(key, time)| payment(key, *time, 5, 1)).collect();
    let client = &pipeline.client;
    client.produce(&pipeline.topic("orders"), &orders).unwrap();
    client.produce(&pipeline.topic("payments"), &payments).unwrap();
    let guarded = "idle_after: never, max_future_skew: 5m";
    let host =
        pipeline.run_text("pipeline.yaml", &pipeline.text().replace("idle_after: never", guarded));
    let admin = host.wait_for_lanes();
    let results = client.wait_for(&pipeline.topic("results"), times.len(), LIMIT).unwrap();
    assert!(results.iter().all(|result| value(result)["paid"] == 5), "{results:?}");
    // The newest honest record moves time, and nothing else does.
    let watermark = now + 10_000 - 2_001;
    let status = wait_for_status(&admin, |status| {
        let inputs = status["inputs"].as_array().unwrap();
        status["lanes"][0]["watermark_ms"] == watermark
            && inputs.iter().all(|input| input["records"] == times.len())
    });
    let late: Vec<_> = status["inputs"].as_array().unwrap().iter().map(|i| &i["late"]).collect();
    assert_eq!(late, [0, 0]);
    let metrics = get(&admin, "/metrics").1;
    for input in ["input=\"orders\"", "input=\"payments\""] {
        let ignored = metric(&metrics, "dovetail_watermark_skew_ignored_total", &[input]);
        assert_eq!(ignored, Some(1.0), "{metrics}");
    }
    host.stop();
    assert_eq!(client.read_committed(&pipeline.topic("late")).unwrap(), []);
}
