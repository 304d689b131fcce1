//! `--update`: writes what came out into the `expect` steps of a case file.
//!
//! Keeps: everything but the `expect` steps that did not hold stays as it was written, comments
//! between them too; what is written anew is quoted as the step was.

use serde_json::{Map, Value as Json};

use super::{
    case::{Action, Case},
    compare,
    play::Played,
};

/// New text for one step.
pub(super) struct Edit {
    /// The step's first line, from 1.
    line: usize,
    /// The column of its key, from 1.
    column: usize,
    text: String,
}

/// Returns the edits that make a case of this text hold.
pub(super) fn edits(case: &Case, played: &Played, text: &str) -> Vec<Edit> {
    let lines: Vec<&str> = text.lines().collect();
    let mut edits = Vec::new();
    for at in &played.differing {
        let step = &case.steps[*at];
        let (Action::Expect(expected), Some(got)) = (&step.action, played.got.get(at)) else {
            continue;
        };
        let first = step.line - 1;
        let written = lines[first..first + length(&lines, first, step.column - 1)].join("\n");
        let mut outputs = Map::new();
        for (name, records) in got {
            let before = expected.iter().find(|(known, _)| known == name).map(|(_, all)| all);
            let fields = before.and_then(|all| all.first()).and_then(Json::as_object);
            let records = records
                .iter()
                .map(|record| compare::only_named(&compare::shown(record, case.base), fields));
            outputs.insert(name.clone(), records.collect());
        }
        let text = format!("expect: {}", flow(&Json::Object(outputs), &written));
        edits.push(Edit { line: step.line, column: step.column, text });
    }
    edits
}

/// JSON is YAML's flow style; words that need no quotes lose them unless the step had them.
fn flow(value: &Json, written: &str) -> String {
    match value {
        Json::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", word(name, written), flow(value, written)))
                .collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(item, written)).collect();
            if items.is_empty() { "[]".to_owned() } else { format!("[ {} ]", items.join(", ")) }
        }
        Json::String(text) => word(text, written),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
    }
}

/// Writes a text bare where YAML reads it as the same text and the step did not quote it.
fn word(text: &str, written: &str) -> String {
    let quoted = Json::from(text).to_string();
    let means_more = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_bare = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        && !means_more.contains(&text.to_ascii_lowercase().as_str());
    let was_quoted = written.contains(&quoted) || written.contains(&format!("'{text}'"));
    if is_bare && !was_quoted { text.to_owned() } else { quoted }
}

/// Returns how many lines a step has: it goes on while lines are indented at least as far as its
/// key.
fn length(lines: &[impl AsRef<str>], first: usize, indent: usize) -> usize {
    let is_part =
        |line: &str| line.len() - line.trim_start().len() >= indent && !line.trim().is_empty();
    1 + lines[first + 1..].iter().take_while(|line| is_part(line.as_ref())).count()
}

/// Returns the text with the edits made, or `None` when nothing changes.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.line));
    for edit in edits {
        let first = edit.line - 1;
        let indent = edit.column - 1;
        let length = length(&lines, first, indent);
        let head: String = lines[first].chars().take(indent).collect();
        lines.splice(first..first + length, [format!("{head}{}", edit.text)]);
    }
    let new = lines.join("\n") + "\n";
    (new != text).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expect_step_is_written_anew() {
        let text =
            "name: a\nsteps:\n  # why\n  - in: x\n  - expect:\n      main: []\n  - crash: {}\n";
        let edit = Edit { line: 5, column: 5, text: "expect: { main: [1] }".to_owned() };
        let new = apply(text, vec![edit]).unwrap();
        assert_eq!(
            new,
            "name: a\nsteps:\n  # why\n  - in: x\n  - expect: { main: [1] }\n  - crash: {}\n"
        );
    }

    #[test]
    fn a_step_in_braces_keeps_its_brace() {
        assert_eq!(
            flow(&serde_json::json!({"main": [{"a b": null}]}), ""),
            r#"{ main: [ { "a b": null } ] }"#
        );
    }

    #[test]
    fn what_the_step_quoted_stays_quoted() {
        let value = serde_json::json!({"main": [{"key": "o1", "paid": "o2", "no": "5"}]});
        assert_eq!(
            flow(&value, r#"expect: { main: [ { key: "o1" } ] }"#),
            r#"{ main: [ { key: "o1", paid: o2, "no": "5" } ] }"#
        );
    }
}
