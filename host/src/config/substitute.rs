//! Environment references in string scalars: `${V}`, `${V:-default}`, `${V:?message}`, `$${V}`.
//!
//! Runs after parsing, so that no value can bring structure with it, and on values only, never on
//! keys. What a reference became stays text: `${N}` is never read as a number by a plugin.

use super::{
    node::{Node, Scalar, Value},
    report::Problem,
};

/// Looks a variable up.
pub(super) type Lookup<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Replaces the references in a tree; what cannot be replaced is added to `problems`.
pub(super) fn substitute(node: &mut Node, lookup: Lookup<'_>, problems: &mut Vec<Problem>) {
    walk(node, "", lookup, problems);
}

fn walk(node: &mut Node, path: &str, lookup: Lookup<'_>, problems: &mut Vec<Problem>) {
    let place = node.place.clone();
    match &mut node.value {
        Value::Scalar(scalar) => match replaced(scalar, lookup) {
            Ok(Some(text)) => {
                let written = std::mem::replace(&mut scalar.text, text);
                scalar.written = Some(written);
                scalar.is_text = true;
            }
            Ok(None) => {}
            Err(message) => problems.push(Problem::new(path, place, message).with_help(
                "write ${NAME:-default} to go on without it, $${NAME} for the text ${NAME}",
            )),
        },
        Value::List(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                walk(item, &format!("{path}[{at}]"), lookup, problems);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                let path = super::join(path, &entry.key);
                walk(&mut entry.node, &path, lookup, problems);
            }
        }
    }
}

fn replaced(scalar: &Scalar, lookup: Lookup<'_>) -> Result<Option<String>, String> {
    if !scalar.text.contains("${") {
        return Ok(None);
    }
    let mut result = String::new();
    let mut rest = scalar.text.as_str();
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        let Some(end) = rest[at..].find('}').map(|end| at + end) else {
            return Err("the reference `${` has no end; expected ${NAME}".to_owned());
        };
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str(&rest[at..=end]);
        } else {
            result.push_str(before);
            result.push_str(&resolve(&rest[at + 2..end], lookup)?);
        }
        rest = &rest[end + 1..];
    }
    result.push_str(rest);
    Ok(Some(result))
}

fn resolve(reference: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let (name, default, message) = if let Some((name, default)) = reference.split_once(":-") {
        (name, Some(default), None)
    } else if let Some((name, message)) = reference.split_once(":?") {
        (name, None, Some(message))
    } else {
        (reference, None, None)
    };
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !is_name {
        return Err(format!("`${{{reference}}}` is not a reference; expected ${{NAME}}"));
    }
    // As in a shell: with `:-` and `:?` an empty variable counts as not set.
    let value =
        lookup(name).filter(|value| !value.is_empty() || (default.is_none() && message.is_none()));
    match (value, default, message) {
        (Some(value), _, _) => Ok(value),
        (None, Some(default), _) => Ok(default.to_owned()),
        (None, None, Some(message)) => {
            Err(format!("the environment variable {name} is not set: {message}"))
        }
        (None, None, None) => Err(format!("the environment variable {name} is not set")),
    }
}
