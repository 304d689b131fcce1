//! Paths into a JSON document: `$.a.b`, `$['a b']`, `$.a[0]`.
//!
//! A path names at most one place. Wildcards, filters, slices and `..` are refused with their
//! column, because a key or an event time cannot be many.

use std::{fmt, str::FromStr};

/// More segments than this are refused: no real document is that deep.
const SEGMENTS_MAX: usize = 64;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A member of an object.
    Field(String),
    /// An element of an array, counted from 0.
    Element(usize),
}

/// A path to one place in a JSON document.
///
/// Two paths are equal when they name the same place, however they are written.
#[derive(Debug, Clone)]
pub struct JsonPath {
    text: String,
    segments: Vec<Segment>,
}

/// A path that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("JSON path {path:?}, column {column}: {message}")]
pub struct PathError {
    /// The path as written.
    pub path: String,
    /// Where, in characters from 1.
    pub column: usize,
    /// What was expected and what was found.
    pub message: String,
}

impl JsonPath {
    /// Returns the path `$`: the whole document.
    #[must_use]
    pub fn root() -> Self {
        Self { text: "$".to_owned(), segments: Vec::new() }
    }

    /// Reads a path.
    ///
    /// # Errors
    ///
    /// When it is not of the form `$.a.b`, `$['a b']`, `$.a[0]`; the error says where.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let characters: Vec<char> = text.chars().collect();
        let mut parser = Parser { text, characters: &characters, at: 0 };
        let segments = parser.segments()?;
        Ok(Self { text: text.to_owned(), segments })
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl PartialEq for JsonPath {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for JsonPath {}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for JsonPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

struct Parser<'a> {
    text: &'a str,
    characters: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn segments(&mut self) -> Result<Vec<Segment>, PathError> {
        if self.peek() != Some('$') {
            return Err(self.error(format!(
                "expected `$`, the document, {}; write for example `$.user_id`",
                self.found()
            )));
        }
        self.at += 1;
        let mut segments = Vec::new();
        while let Some(character) = self.peek() {
            let segment = match character {
                '.' => self.name()?,
                '[' => self.bracket()?,
                _ => {
                    return Err(self.error(format!("expected `.` or `[`, {}", self.found())));
                }
            };
            if segments.len() == SEGMENTS_MAX {
                return Err(self.error(format!("more than {SEGMENTS_MAX} steps")));
            }
            segments.push(segment);
        }
        Ok(segments)
    }

    fn name(&mut self) -> Result<Segment, PathError> {
        self.at += 1;
        let start = self.at;
        while let Some(character) = self.peek() {
            if matches!(character, '.' | '[' | ']' | '\'' | '"' | '*') || character.is_whitespace()
            {
                break;
            }
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error(format!("expected a name after `.`, {}", self.found())));
        }
        Ok(Segment::Field(self.characters[start..self.at].iter().collect()))
    }

    fn bracket(&mut self) -> Result<Segment, PathError> {
        self.at += 1;
        let segment = match self.peek() {
            Some(quote @ ('\'' | '"')) => Segment::Field(self.quoted(quote)?),
            Some('0'..='9') => Segment::Element(self.number()?),
            _ => {
                return Err(self.error(format!(
                    "expected a number or a quoted name after `[`, {}",
                    self.found()
                )));
            }
        };
        if self.peek() != Some(']') {
            return Err(self.error(format!("expected `]`, {}", self.found())));
        }
        self.at += 1;
        Ok(segment)
    }

    fn quoted(&mut self, quote: char) -> Result<String, PathError> {
        self.at += 1;
        let mut name = String::new();
        while let Some(mut character) = self.peek() {
            self.at += 1;
            if character == quote {
                return Ok(name);
            }
            if character == '\\' {
                character = self.escaped()?;
            }
            name.push(character);
        }
        Err(self.error(format!("expected `{quote}`, the end of the name, {}", self.found())))
    }

    fn escaped(&mut self) -> Result<char, PathError> {
        match self.peek() {
            Some(escaped @ ('\\' | '\'' | '"')) => {
                self.at += 1;
                Ok(escaped)
            }
            _ => Err(self.error(format!("expected a quote or `\\` after `\\`, {}", self.found()))),
        }
    }

    fn number(&mut self) -> Result<usize, PathError> {
        let start = self.at;
        while self.peek().is_some_and(|character| character.is_ascii_digit()) {
            self.at += 1;
        }
        let digits: String = self.characters[start..self.at].iter().collect();
        digits.parse().map_err(|_too_large| {
            self.at = start;
            self.error(format!("element {digits} is out of range"))
        })
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "found the end".to_owned(),
            Some('*' | '?') => {
                "found a wildcard or filter: a path must name exactly one place".to_owned()
            }
            Some(character) => format!("found `{character}`"),
        }
    }

    fn error(&self, message: String) -> PathError {
        PathError { path: self.text.to_owned(), column: self.at + 1, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Segment {
        Segment::Field(name.to_owned())
    }

    #[test]
    fn paths_of_every_form_are_read() {
        let cases = [
            ("$", vec![]),
            ("$.a", vec![field("a")]),
            ("$.a.b-c", vec![field("a"), field("b-c")]),
            ("$['a b'].c", vec![field("a b"), field("c")]),
            (r#"$["a.b"]"#, vec![field("a.b")]),
            (r"$['it\'s']", vec![field("it's")]),
            ("$.a[0][12]", vec![field("a"), Segment::Element(0), Segment::Element(12)]),
            ("$.größe", vec![field("größe")]),
            ("$['']", vec![field("")]),
        ];
        for (text, segments) in cases {
            assert_eq!(JsonPath::parse(text).unwrap().segments(), segments, "{text}");
        }
    }

    #[test]
    fn a_bad_path_is_refused_with_its_column() {
        let cases = [
            ("", 1, "expected `$`"),
            ("user_id", 1, "`$.user_id`"),
            ("$user", 2, "expected `.` or `[`, found `u`"),
            ("$.", 3, "expected a name after `.`, found the end"),
            ("$..a", 3, "found `.`"),
            ("$.*", 3, "exactly one place"),
            ("$.a[*]", 5, "exactly one place"),
            ("$.a[-1]", 5, "found `-`"),
            ("$.a[1", 6, "expected `]`, found the end"),
            ("$['a", 5, "the end of the name"),
            ("$.a[99999999999999999999999]", 5, "out of range"),
            ("$.a b", 4, "expected `.` or `[`, found ` `"),
        ];
        for (text, column, message) in cases {
            let error = JsonPath::parse(text).unwrap_err();
            assert_eq!(error.column, column, "{error}");
            assert!(error.message.contains(message), "{error}");
        }
    }

    #[test]
    fn a_path_deeper_than_any_document_is_refused() {
        let text = format!("${}", ".a".repeat(SEGMENTS_MAX + 1));
        assert!(JsonPath::parse(&text).is_err());
    }
}
