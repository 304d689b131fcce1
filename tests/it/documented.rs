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

/// What stands in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_difference_to_other_systems_names_cases_that_are_there() {
    let folder = workspace::root().join("tests/conformance");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let cases = files.filter(|file| file.extension().is_some_and(|it| it == "jsonl"));
    let cases: String = cases.map(|file| fs::read_to_string(file).unwrap()).collect();
    let table = table("plugins/README.md", "## Where we differ, and why");
    let mut count = 0;
    for row in table.lines().skip(2) {
        let case = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap();
        assert!(quoted(case).count() > 0, "no case is named: {row}");
        for named in quoted(case) {
            let root = workspace::root();
            let is_there = match named {
                "tests/conformance" => true,
                file if file.contains('/') => {
                    root.join(file).exists() || root.join("plugins").join(file).exists()
                }
                id => cases.contains(&format!("\"id\":\"{id}\"")),
            };
            assert!(is_there, "`{named}` is not there: {row}");
        }
        count += 1;
    }
    assert!(count >= 10, "{count} rows");
}
