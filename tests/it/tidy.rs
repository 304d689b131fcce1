//! What a reader may rely on in every file of this repository.
//!
//! Goal: nobody has to ask for the habits of CONTRIBUTING.md in a review. Method: each rule is a
//! function from files to complaints; one test runs all of them over the repository, and each has
//! a test that shows it a bad sample.

mod identifiers;
mod lines;
mod manifests;
mod rules;

use dovetail_tests::workspace::{SourceFile, folders_in, source_files};
use rules::Rule;

const RULES: [Rule; 10] = [
    rules::short_files,
    rules::module_docs,
    rules::no_unfinished_marks,
    rules::no_stray_white_space,
    rules::no_grab_bag_modules,
    rules::no_paths_of_a_machine,
    rules::no_registry_hosts,
    identifiers::no_banned_words,
    manifests::workspace_lints,
    manifests::descriptions,
];

#[test]
fn repository_is_tidy() {
    let files = source_files().unwrap();
    let mut complaints: Vec<String> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    let examples = folders_in("examples").unwrap();
    complaints.extend(rules::examples_have_readmes(&examples, &files));
    let guests = folders_in("tests/guests").unwrap();
    complaints.extend(rules::guests_are_tested(&guests, &files));
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Asserts that a rule finds exactly one thing in a sample, and that its message says `advice`.
fn assert_one_complaint(rule: Rule, path: &str, text: &str, advice: &str) {
    assert_advice(&rule(&[SourceFile::sample(path, text)]), advice);
}

fn assert_advice(complaints: &[String], advice: &str) {
    let [complaint] = complaints else {
        panic!("expected one complaint, found {complaints:?}");
    };
    assert!(complaint.contains(advice), "{complaint}");
}

fn assert_no_complaint(rule: Rule, path: &str, text: &str) {
    let complaints = rule(&[SourceFile::sample(path, text)]);
    assert!(complaints.is_empty(), "{complaints:?}");
}
