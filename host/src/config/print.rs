//! `--print-config`: every value in force, with its origin.

use super::{
    node::{Origin, Place},
    reader::Effective,
};

/// Writes the values as YAML, each with its origin as a comment.
#[must_use]
pub(super) fn print(effective: &[Effective], file: &str) -> String {
    let mut root = Branch::default();
    for value in effective {
        root.insert(&value.path, value);
    }
    let mut lines = Vec::new();
    root.write(0, &mut lines);
    let width = lines.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(60);
    let mut result = String::new();
    for (text, place) in lines {
        match place {
            Some(place) => {
                result.push_str(&format!("{text:<width$}  # {}\n", origin(place, file)));
            }
            None => result.push_str(&format!("{text}\n")),
        }
    }
    result
}

fn origin(place: &Place, file: &str) -> String {
    match &place.origin {
        Origin::Default => "default".to_owned(),
        Origin::File => format!("{file}:{}", place.line),
        Origin::Variable(name) => format!("environment {name}"),
        Origin::Option(option) => format!("--set {option}"),
    }
}

#[derive(Default)]
struct Branch<'v> {
    value: Option<&'v Effective>,
    children: Vec<(String, Branch<'v>)>,
}

impl<'v> Branch<'v> {
    fn insert(&mut self, path: &[String], value: &'v Effective) {
        let Some((first, rest)) = path.split_first() else {
            self.value = Some(value);
            return;
        };
        let at = self.children.iter().position(|(name, _)| name == first).unwrap_or_else(|| {
            self.children.push((first.clone(), Branch::default()));
            self.children.len() - 1
        });
        self.children[at].1.insert(rest, value);
    }

    fn write<'s>(&'s self, depth: usize, lines: &mut Vec<(String, Option<&'s Place>)>) {
        let indent = "  ".repeat(depth);
        for (name, child) in &self.children {
            let label = if name.starts_with('[') { "-".to_owned() } else { format!("{name}:") };
            match child.value {
                Some(value) => {
                    lines.push((
                        format!("{indent}{label} {}", quoted(&value.text)),
                        Some(&value.place),
                    ));
                }
                None => lines.push((format!("{indent}{label}"), None)),
            }
            child.write(depth + 1, lines);
        }
    }
}

fn quoted(text: &str) -> String {
    let is_flow = text.starts_with('{') && text.ends_with('}');
    let needs_quotes = !is_flow
        && (text.is_empty()
            || text.contains(": ")
            || text.contains(" #")
            || text.starts_with(|letter: char| "*&!|>%@`\"'#[]{},?-".contains(letter)));
    if needs_quotes { serde_json::Value::from(text).to_string() } else { text.to_owned() }
}
