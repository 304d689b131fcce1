//! `--update`: writes what came out into the `expect` steps of a case file.
//!
//! Keeps: everything but the `expect` steps stays as it was written, comments between them too.

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

/// Returns the edits that make a case hold.
pub(super) fn edits(case: &Case, played: &Played) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        let (Action::Expect(expected), Some(got)) = (&step.action, played.got.get(&at)) else {
            continue;
        };
        let mut outputs = Map::new();
        for (name, records) in got {
            let before = expected.iter().find(|(known, _)| known == name).map(|(_, all)| all);
            let fields = before.and_then(|all| all.first()).and_then(Json::as_object);
            let records = records
                .iter()
                .map(|record| compare::only_named(&compare::shown(record, case.base), fields));
            outputs.insert(name.clone(), records.collect());
        }
        let text = format!("expect: {}", flow(&Json::Object(outputs)));
        edits.push(Edit { line: step.line, column: step.column, text });
    }
    edits
}

/// JSON is YAML's flow style; keys that need no quotes lose them, for people.
fn flow(value: &Json) -> String {
    match value {
        Json::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| {
                    let is_word = !name.is_empty()
                        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    let name =
                        if is_word { name.clone() } else { Json::from(name.as_str()).to_string() };
                    format!("{name}: {}", flow(value))
                })
                .collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.to_string(),
    }
}

/// Returns the text with the edits made, or `None` when nothing changes.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.line));
    for edit in edits {
        let first = edit.line - 1;
        let indent = edit.column - 1;
        // A step goes on while lines are indented at least as far as its key.
        let length = 1 + lines[first + 1..]
            .iter()
            .take_while(|line| {
                line.len() - line.trim_start().len() >= indent && !line.trim().is_empty()
            })
            .count();
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
            flow(&serde_json::json!({"main": [{"a b": null}]})),
            r#"{ main: [{ "a b": null }] }"#
        );
    }
}
