//! Goal: the pages of `docs/` say what the code does. Method: their tables, written anew from the
//! tables in the code and compared.

use std::fs;

use dovetail_runtime::{
    reason::ReasonCode,
    telemetry::{Kind, METRICS},
};
use dovetail_tests::workspace;

/// What stands between `from` and the next heading of a page.
fn table(page: &str, from: &str) -> String {
    let text = fs::read_to_string(workspace::root().join(page)).unwrap();
    let (_, rest) = text.split_once(&format!("{from}\n")).unwrap_or_else(|| panic!("no {from}"));
    let lines = rest.lines().skip_while(|line| !line.starts_with('|'));
    lines.take_while(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect()
}

#[track_caller]
fn assert_same(page: &str, heading: &str, expected: &str) {
    let found = table(page, heading);
    assert_eq!(found, expected, "put this under `{heading}` of {page}:\n\n{expected}");
}

#[test]
fn every_metric_is_in_the_table_and_nothing_else() {
    let mut expected = "| metric | kind | labels | tells |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels, help) = (metric.name, labels.join(", "), metric.help);
        expected.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    assert_same("docs/observing.md", "## Metrics", &expected);
}

#[test]
fn every_reason_of_readiness_is_in_the_table_and_nothing_else() {
    let mut expected = "| code | means |\n|---|---|\n".to_owned();
    for code in ReasonCode::ALL {
        expected.push_str(&format!("| `{}` | {} |\n", code.name(), code.meaning()));
    }
    assert_same("docs/observing.md", "## Readiness", &expected);
}
