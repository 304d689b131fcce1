//! What is wrong with a configuration, and how it is shown.
//!
//! Knows nothing of what keys mean. Keeps: a message says what was expected, what was found, where,
//! and what to do; values that came from the environment are not shown.

use std::fmt::Write as _;

use super::node::{Origin, Place};

/// How much of a line is shown, in characters.
const EXCERPT_CHARS: usize = 160;

/// One thing that is wrong, or (as a warning) may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The dotted path of the key, empty for the whole file.
    pub path: String,
    /// Where it stands.
    pub place: Place,
    /// What was expected and what was found.
    pub message: String,
    /// What to do about it.
    pub help: Option<Box<str>>,
}

impl Problem {
    /// Returns a problem without help.
    #[must_use]
    pub fn new(path: &str, place: Place, message: String) -> Self {
        Self { path: path.to_owned(), place, message, help: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into().into_boxed_str());
        self
    }
}

/// A configuration that cannot be used: everything that is wrong with it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.render())]
pub struct Problems {
    /// The name of the file as the user gave it.
    pub file: String,
    /// Its text, for the caret lines.
    pub text: String,
    /// What is wrong, in file order; at least one.
    pub problems: Vec<Problem>,
}

impl Problems {
    /// Returns everything as text, errors first and a count last.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text.push_str(&render(problem, "error", &self.file, &self.text));
            text.push('\n');
        }
        let count = self.problems.len();
        let noun = if count == 1 { "error" } else { "errors" };
        let _infallible = write!(text, "{}: {count} {noun}", self.file);
        text
    }
}

/// Returns one problem with its place and a caret line.
#[must_use]
pub fn render(problem: &Problem, severity: &str, file: &str, text: &str) -> String {
    let mut lines = String::new();
    let place = &problem.place;
    let subject =
        if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
    lines.push_str(&format!("{severity}: {subject}{}\n", problem.message));
    match &place.origin {
        Origin::File if place.line > 0 => {
            let number = place.line.to_string();
            let gutter = " ".repeat(number.len());
            let source = text.lines().nth(place.line - 1).unwrap_or_default();
            let Excerpt { shown: source, indent, carets } = excerpt(source, place);
            lines.push_str(&format!(
                "{gutter}--> {file}:{number}:{column}\n{gutter} |\n{number} | {source}\n{gutter} | {indent}{carets}\n",
                column = place.column,
            ));
        }
        Origin::File | Origin::Default => lines.push_str(&format!(" --> {file}\n")),
        Origin::Variable(name) => lines.push_str(&format!(" --> environment variable {name}\n")),
        Origin::Option(option) => lines.push_str(&format!(" --> --set {option}\n")),
    }
    if let Some(help) = &problem.help {
        lines.push_str(&format!("  = {help}\n"));
    }
    lines
}

/// The part of a line that is shown, and what stands under it.
struct Excerpt {
    shown: String,
    indent: String,
    carets: String,
}

/// Returns a line around a place; of a long one what lies before and behind is left out.
fn excerpt(line: &str, place: &Place) -> Excerpt {
    let column = place.column.saturating_sub(1);
    let from = if line.chars().nth(EXCERPT_CHARS).is_none() {
        0
    } else {
        column.saturating_sub(EXCERPT_CHARS / 2)
    };
    let mut letters = line.chars().skip(from);
    let part: String = letters.by_ref().take(EXCERPT_CHARS).collect();
    let before = if from > 0 { "…" } else { "" };
    let behind = if letters.next().is_some() { "…" } else { "" };
    let indent: String = before
        .chars()
        .chain(part.chars().take(column - from))
        .map(|letter| if letter == '\t' { '\t' } else { ' ' })
        .collect();
    let carets = "^".repeat(place.width.clamp(1, EXCERPT_CHARS));
    Excerpt { shown: format!("{before}{part}{behind}"), indent, carets }
}

/// Returns the word nearest to what was written, when one is near.
#[must_use]
pub fn nearest<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let written = written.to_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    words
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(&written, &word.to_lowercase()), word))
        .filter(|(distance, word)| {
            *distance <= allowed || (written.len() >= 3 && word.contains(written.as_str()))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Returns words as a list for a message: `a, b or c`.
#[must_use]
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let text = format!("{}wrong{}", "a".repeat(1_000), "b".repeat(1_000_000));
        let place = Place { origin: Origin::File, line: 1, column: 1_001, width: 2_000_000 };
        let said = render(&Problem::new("", place, "it is".to_owned()), "error", "f", &text);
        assert!(said.contains("…aaa") && said.contains("awrongb") && said.contains("b…"), "{said}");
        assert!(said.chars().count() < 600, "{said}");
        let column = |text: &str, word: &str| {
            let line = text.lines().find(|line| line.contains(word)).unwrap();
            line.split(word).next().unwrap().chars().count()
        };
        assert_eq!(column(&said, "wrong"), column(&said, "^"));
    }
}
