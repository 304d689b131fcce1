//! What is wrong with a configuration, and how it is shown.
//!
//! Knows nothing of what keys mean. Keeps: a message says what was expected, what was found, where,
//! and what to do; values that came from the environment are not shown, nor is what a line of the
//! file holds under a name that secrets have.

use std::{borrow::Cow, fmt::Write as _};

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
            let (source, shown_place) = without_secrets(source, &problem.path, place);
            let Excerpt { shown: source, indent, carets } = excerpt(&source, &shown_place);
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

/// What stands in place of a secret.
const MASK: &str = "***";

/// Parts of the names of keys that hold secrets, librdkafka's among them.
const SECRET_PARTS: [&str; 7] =
    ["password", "passwd", "passphrase", "secret", "token", "jaas", "key.pem"];

/// Returns whether a key may hold a secret, also where its name is mistyped.
fn names_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_PARTS.iter().any(|part| key.contains(part))
        || nearest(&key, ["password", "secret"]).is_some()
}

/// Returns a line of the file as it may be shown, and a place in it: what follows the first key that
/// may hold a secret is masked, and so is all of a line that belongs to such a key.
fn without_secrets<'l>(line: &'l str, path: &str, place: &Place) -> (Cow<'l, str>, Place) {
    let is_word = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
    let mut colons = line.match_indices(':').map(|(at, _)| at);
    let key_end = colons.find(|at| {
        let before = line[..*at].trim_end_matches(['"', '\'', ' ']);
        let key = before.rsplit(|letter| !is_word(letter)).next().unwrap_or_default();
        names_secret(key)
    });
    let from = match key_end {
        Some(at) if line[at + 1..].trim().is_empty() => return (line.into(), place.clone()),
        Some(at) => line.len() - line[at + 1..].trim_start().len(),
        None if path.rsplit('.').next().is_some_and(names_secret) => {
            line.len() - line.trim_start().len()
        }
        None => return (line.into(), place.clone()),
    };
    let kept = line.get(..from).unwrap_or_default();
    let from = kept.chars().count();
    let mut place = place.clone();
    if place.column > from {
        (place.column, place.width) = (from + 1, MASK.len());
    }
    (format!("{kept}{MASK}").into(), place)
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
    fn what_may_be_a_secret_is_not_shown() {
        for (line, path, column) in [
            ("    password: S3cr3t", "kafka.security.sasl.password", 15),
            ("    pasword: S3cr3t", "kafka.security.sasl.pasword", 5),
            ("  sasl: { username: u, \"password\" : 'S3cr3t', x: S3cr3t }", "kafka.x", 3),
            ("  sasl.jaas.config:S3cr3t", "kafka.librdkafka", 3),
            ("      S3cr3t", "kafka.security.sasl.password", 7),
            ("password:", "kafka.security.sasl.password", 1),
        ] {
            let place = Place { origin: Origin::File, line: 1, column, width: 6 };
            let said = render(&Problem::new(path, place, "it is".to_owned()), "error", "f", line);
            assert!(!said.contains("S3cr3t"), "{said}");
            assert!(said.contains(MASK) || line.ends_with(':'), "{said}");
            assert!(said.contains('^'), "{said}");
        }
        let place = Place { origin: Origin::File, line: 1, column: 9, width: 6 };
        let problem = Problem::new("inputs.orders.topic", place, "it is".to_owned());
        let said = render(&problem, "error", "f", "  topic: orders");
        assert!(said.contains("topic: orders"), "{said}");
    }

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
