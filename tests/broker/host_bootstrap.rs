//! Goal: with `bootstrap: until_end_offset` no record meets a table that is not loaded yet (pain
//! P21). Method: a table whose rows are newer than the records that need them, all of it there before
//! a start from nothing, and more of both before a restart.

use dovetail_tests::broker::Record;
use serde_json::Value;

use crate::host_process::{LIMIT, Pipeline, component, wait_for_status};
use crate::host_stream::{BASE, order, payment, value};

const PARTITIONS: u16 = 2;
const ROWS: u64 = 50_000;
const HOUR: i64 = 3_600_000;

/// Orders take the newest payment at once; without one they say null.
fn text(pipeline: &Pipeline) -> String {
    let text = pipeline.text();
    let (before, _) = text.split_once("plugin:").expect("it has a plugin");
    let before = before.replacen(
        &format!("{}.payments\n", pipeline.name),
        &format!("{}.payments\n    bootstrap: until_end_offset\n", pipeline.name),
        1,
    );
    format!(
        "{before}plugin:\n  file: plugin.wasm\n  inputs: {{ dimension: payments, behaviour: orders }}\n\
         \x20 config:\n    wait: 0s\n    on_timeout: emit_without\n\
         \x20   result: {{ order_id: behaviour.order_id, paid: dimension.paid }}\n\
         outputs:\n  main: {{ topic: {name}.results }}\n\
         state: {{ dir: state }}\nadmin: {{ listen: \"127.0.0.1:0\" }}\n",
        name = pipeline.name
    )
}

fn rows(numbers: std::ops::Range<u64>) -> Vec<Record> {
    let row = |number: u64| payment(&format!("o{number}"), BASE + HOUR, number, PARTITIONS);
    numbers.map(row).collect()
}

fn paid(results: &[Record]) -> Vec<(String, Value)> {
    let mut paid: Vec<_> = results
        .iter()
        .map(value)
        .map(|result| (result["order_id"].to_string(), result["paid"].clone()))
        .collect();
    paid.sort_by(|one, other| one.0.cmp(&other.0));
    paid
}

#[test]
fn p21_a_table_is_loaded_before_the_records_that_need_it_though_its_rows_are_newer() {
    let pipeline = Pipeline::create(i32::from(PARTITIONS));
    pipeline.replace_plugin(&component("plugins/latest-dimension"));
    let client = &pipeline.client;
    let text = text(&pipeline);
    let (orders, payments) = (pipeline.topic("orders"), pipeline.topic("payments"));
    let numbers = [0, 1, ROWS - 2, ROWS - 1];
    let first = numbers.map(|number| order(&format!("o{number}"), BASE, PARTITIONS));
    client.produce(&orders, &first).unwrap();
    client.produce(&payments, &rows(0..ROWS)).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    let told = host.wait_for("bootstrapping");
    assert!(told.contains("payments[") && told.contains("records of orders wait"), "{told}");
    let results = client.wait_for(&pipeline.topic("results"), numbers.len(), LIMIT).unwrap();
    let mut expected =
        numbers.map(|number| (format!("\"o{number}\""), Value::from(number))).to_vec();
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(paid(&results), expected);
    wait_for_status(&host.admin(), |status| {
        let is_over = |source: &Value| source["bootstrap"].is_null() && source["waits"] == false;
        let lanes = status["lanes"].as_array().unwrap();
        let inputs = status["inputs"].as_array().unwrap();
        lanes.iter().flat_map(|lane| lane["sources"].as_array().unwrap()).all(is_over)
            && inputs.iter().all(|input| input["late"] == 0)
            && status["readiness"]["ready"] == true
    });
    host.stop();

    // Both come while nothing runs, the order first.
    let last = format!("o{ROWS}");
    client.produce(&orders, &[order(&last, BASE + 1, PARTITIONS)]).unwrap();
    client.produce(&payments, &rows(ROWS..ROWS + 1)).unwrap();
    let host = pipeline.run_text("pipeline.yaml", &text);
    client.wait_for(&pipeline.topic("results"), numbers.len() + 1, LIMIT).unwrap();
    host.stop();
    let all = client.read_committed(&pipeline.topic("results")).unwrap();
    let expected = (format!("\"{last}\""), Value::from(ROWS));
    assert!(paid(&all).contains(&expected), "{:?}", paid(&all));
    assert_eq!(all.len(), numbers.len() + 1);
}
