//! What is wrong with a configuration, and how it is shown.
//!
//! Knows nothing of what keys mean. Keeps: a message says what was expected, what was found, where,
//! and what to do; values that came from the environment are not shown.

use std::fmt::Write as _;

use super::node::{Origin, Place};

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
            let indent: String = source
                .chars()
                .take(place.column.saturating_sub(1))
                .map(|letter| if letter == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = "^".repeat(place.width.max(1));
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
