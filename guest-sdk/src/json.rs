//! Taking some fields out of a JSON object, as text, without reading the rest into memory.
//!
//! What is taken is the raw text of the value, borrowed from the record: numbers keep every digit
//! and strings their escapes. The whole value is checked to be JSON on the way.
//!
//! Invariant: accepts exactly the JSON that `serde_json` accepts (nesting up to 128), save that
//! escapes of lone surrogates pass unchanged.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Slots that lie in place.
const IN_PLACE: usize = 12;

/// The name under which a whole record is kept.
const WHOLE: &str = "";

/// Deepest nesting.
const DEPTH_MAX: u32 = 128;

/// Parts kept texts: no JSON text holds this character.
const SEPARATOR: char = '\u{1}';

/// The fields of an object that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    names: Vec<String>,
    whole: Option<usize>,
    /// The names in one text, as kept rows carry them.
    joined: String,
}

/// Picked values as a row of state keeps them: with their names, so that a revision that wants
/// other fields finds those that are there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    names: String,
    values: String,
}

/// [`Kept`], borrowed from the bytes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeptRef<'a> {
    names: &'a str,
    values: &'a str,
}

/// Values by slot, borrowed; a slice of `Option<&str>`.
///
/// Few slots lie in place: a record that is only passed on allocates nothing for them.
#[derive(Debug, Clone)]
pub struct Picked<'v> {
    in_place: [Option<&'v str>; IN_PLACE],
    length: usize,
    /// All of them, where they are more.
    many: Vec<Option<&'v str>>,
}

impl<'v> Picked<'v> {
    fn new(length: usize) -> Self {
        let many = if length > IN_PLACE { vec![None; length] } else { Vec::new() };
        Self { in_place: [None; IN_PLACE], length, many }
    }
}

impl<'v> Deref for Picked<'v> {
    type Target = [Option<&'v str>];

    fn deref(&self) -> &Self::Target {
        if self.length > IN_PLACE { &self.many } else { &self.in_place[..self.length] }
    }
}

impl DerefMut for Picked<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        if self.length > IN_PLACE { &mut self.many } else { &mut self.in_place[..self.length] }
    }
}

impl Kept {
    /// Returns it borrowed.
    #[must_use]
    pub fn borrow(&self) -> KeptRef<'_> {
        KeptRef { names: &self.names, values: &self.values }
    }
}

impl Fields {
    /// Returns the slot of a field, wanted from now on.
    pub fn want(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| self.add(name))
    }

    /// Returns the slot of the whole value, wanted from now on.
    pub fn want_whole(&mut self) -> usize {
        if let Some(slot) = self.whole {
            return slot;
        }
        // The slot is filled apart; what this text names is not a field.
        let slot = self.add(WHOLE);
        self.whole = Some(slot);
        slot
    }

    fn add(&mut self, name: &str) -> usize {
        self.names.push(name.to_owned());
        // A name that holds the separator would be read as two.
        self.joined = self.names.join("\u{1}");
        self.names.len() - 1
    }

    /// Returns picked values as a row keeps them.
    #[must_use]
    pub fn keep(&self, found: &[Option<&str>]) -> Kept {
        let mut values =
            String::with_capacity(found.iter().flatten().map(|text| text.len() + 1).sum());
        for (at, text) in found.iter().enumerate() {
            if at > 0 {
                values.push(SEPARATOR);
            }
            values.push_str(text.unwrap_or(""));
        }
        Kept { names: self.joined.clone(), values }
    }

    /// Returns kept values by slot; fields that were not kept are absent.
    #[must_use]
    pub fn restore<'k>(&self, kept: KeptRef<'k>) -> Picked<'k> {
        let mut found = Picked::new(self.names.len());
        let is_same = kept.names == self.joined;
        let mut names = kept.names.split(SEPARATOR);
        for (at, value) in kept.values.split(SEPARATOR).enumerate() {
            let slot = if is_same {
                Some(at)
            } else {
                let name = names.next();
                self.names.iter().position(|wanted| Some(wanted.as_str()) == name)
            };
            // An empty text stands for a field that was absent: no JSON value is empty.
            if let Some(slot) = slot.and_then(|slot| found.get_mut(slot)) {
                *slot = Some(value).filter(|value| !value.is_empty());
            }
        }
        found
    }

    /// Returns how many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Fills a slot per wanted field with the raw text of its value; `None` where the object has
    /// no such field. Of fields that repeat the last counts.
    ///
    /// # Errors
    ///
    /// When the value is not a JSON object.
    pub fn pick<'v>(&self, value: &'v [u8]) -> Result<Picked<'v>> {
        let text = std::str::from_utf8(value)
            .map_err(|error| Error::new(format!("the value is not UTF-8: {error}")))?;
        let mut found = Picked::new(self.names.len());
        let mut scanner = Scanner { text, bytes: value, at: 0 };
        scanner.object(self, &mut found).map_err(|expected| scanner.error(expected))?;
        if let Some(slot) = self.whole {
            found[slot] = Some(text.trim_matches([' ', '\t', '\r', '\n']));
        }
        Ok(found)
    }

    /// Returns the slot of a field met in a record; looks first where the last one leads to expect it.
    fn slot(&self, name: &str, expected: usize) -> Option<usize> {
        match self.names.get(expected) {
            Some(wanted) if wanted == name => Some(expected),
            Some(_) | None => self.names.iter().position(|wanted| wanted == name),
        }
    }
}

/// Returns the integer that a raw value is: a number without fraction or exponent, or a string of
/// digits; `None` for anything else and for what does not fit.
#[must_use]
pub fn integer(raw: &str) -> Option<i64> {
    let digits = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    digits.parse().ok()
}

/// Appends a JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1F => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// The bytes that end a run of plain characters in a string.
const ENDS_PLAIN: [bool; 256] = {
    let mut ends = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        ends[byte] = true;
        byte += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

/// What should have stood where the scanner is.
type Expected = &'static str;

struct Scanner<'v> {
    text: &'v str,
    bytes: &'v [u8],
    at: usize,
}

impl<'v> Scanner<'v> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn error(&self, expected: Expected) -> Error {
        let rest = self.text.get(self.at..).unwrap_or("");
        let found = match rest.chars().next() {
            Some(found) => format!("`{found}`"),
            None => "the end".to_owned(),
        };
        Error::new(format!(
            "the value is not a JSON object: expected {expected} at byte {}, found {found}",
            self.at
        ))
    }

    /// The whole value: one object.
    fn object(
        &mut self,
        fields: &Fields,
        found: &mut [Option<&'v str>],
    ) -> std::result::Result<(), Expected> {
        self.skip_blanks();
        if !self.take(b'{') {
            return Err("`{`");
        }
        self.skip_blanks();
        if !self.take(b'}') {
            self.members(fields, found)?;
        }
        self.skip_blanks();
        if self.at == self.bytes.len() { Ok(()) } else { Err("nothing behind the object") }
    }

    fn members(
        &mut self,
        fields: &Fields,
        found: &mut [Option<&'v str>],
    ) -> std::result::Result<(), Expected> {
        let mut expected = 0;
        loop {
            self.skip_blanks();
            let name = self.string()?;
            self.skip_blanks();
            if !self.take(b':') {
                return Err("`:`");
            }
            self.skip_blanks();
            let start = self.at;
            self.value(DEPTH_MAX - 1)?;
            let slot = if name.contains('\\') {
                serde_json::from_str::<String>(&format!("\"{name}\""))
                    .ok()
                    .and_then(|name| fields.slot(&name, expected))
            } else {
                fields.slot(name, expected)
            };
            if let Some(slot) = slot.filter(|slot| Some(*slot) != fields.whole) {
                found[slot] = Some(&self.text[start..self.at]);
                expected = slot + 1;
            }
            self.skip_blanks();
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err("`,` or `}`");
            }
        }
    }

    fn value(&mut self, depth: u32) -> std::result::Result<(), Expected> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{') if depth > 0 => self.nested(b'}', depth),
            Some(b'[') if depth > 0 => self.nested(b']', depth),
            Some(b'{' | b'[') => Err("at most 128 levels of nesting"),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err("a value"),
        }
    }

    fn nested(&mut self, end: u8, depth: u32) -> std::result::Result<(), Expected> {
        self.at += 1;
        self.skip_blanks();
        if self.take(end) {
            return Ok(());
        }
        loop {
            self.skip_blanks();
            if end == b'}' {
                self.string()?;
                self.skip_blanks();
                if !self.take(b':') {
                    return Err("`:`");
                }
                self.skip_blanks();
            }
            self.value(depth - 1)?;
            self.skip_blanks();
            if self.take(end) {
                return Ok(());
            }
            if !self.take(b',') {
                return Err("`,` or the end of the list or object");
            }
        }
    }

    fn literal(&mut self, word: &[u8]) -> std::result::Result<(), Expected> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err("a value")
    }

    fn number(&mut self) -> std::result::Result<(), Expected> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> std::result::Result<(), Expected> {
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits > 0 { Ok(()) } else { Err("a digit") }
    }

    /// Returns what stands between the quotes, escapes included.
    fn string(&mut self) -> std::result::Result<&'v str, Expected> {
        if !self.take(b'"') {
            return Err("a string");
        }
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            let Some(plain) = rest.iter().position(|byte| ENDS_PLAIN[usize::from(*byte)]) else {
                self.at = self.bytes.len();
                return Err("`\"`");
            };
            self.at += plain;
            match rest[plain] {
                b'"' => {
                    let text = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => self.escape()?,
                _ => return Err("an escape instead of a control character"),
            }
        }
    }

    fn escape(&mut self) -> std::result::Result<(), Expected> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err("four hexadecimal digits");
                    }
                    self.at += 1;
                }
            }
            _ => return Err("an escape"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pick(names: &[&str], json: &str) -> Vec<Option<String>> {
        let mut fields = Fields::default();
        for name in names {
            fields.want(name);
        }
        let found = fields.pick(json.as_bytes()).unwrap();
        found.iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn fields_are_taken_as_they_are_written() {
        let json = r#" { "n" : 1.50e+3 , "skip":{"a":[1,{"n":2}]}, "s":"a\"b\u00e9", "z":null,
            "l":[ 1, 2 ] } "#;
        let found = pick(&["s", "n", "l", "z", "missing"], json);
        let expected =
            [Some(r#""a\"b\u00e9""#), Some("1.50e+3"), Some("[ 1, 2 ]"), Some("null"), None];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
    }

    #[test]
    fn of_fields_that_repeat_the_last_counts_and_escaped_names_are_found() {
        assert_eq!(pick(&["a"], r#"{"a":1,"\u0061":2}"#), [Some("2".to_owned())]);
    }

    #[test]
    fn the_whole_value_can_be_wanted_beside_its_fields() {
        let mut fields = Fields::default();
        let (whole, a) = (fields.want_whole(), fields.want("a"));
        let found = fields.pick(b" {\"a\":1} ").unwrap();
        assert_eq!((found[whole], found[a]), (Some("{\"a\":1}"), Some("1")));
    }

    #[test]
    fn kept_values_are_found_again_by_name() {
        let mut before = Fields::default();
        for name in ["a", "b", "c"] {
            before.want(name);
        }
        let kept = before.keep(&before.pick(br#"{"a":1,"c":"x"}"#).unwrap());
        assert_eq!(*before.restore(kept.borrow()), [Some("1"), None, Some("\"x\"")]);
        let mut after = Fields::default();
        for name in ["c", "d", "a"] {
            after.want(name);
        }
        assert_eq!(*after.restore(kept.borrow()), [Some("\"x\""), None, Some("1")]);
        assert!(Fields::default().restore(kept.borrow()).is_empty());
    }

    #[test]
    fn errors_say_what_was_expected_and_where() {
        let mut fields = Fields::default();
        fields.want("a");
        let error = |json: &str| fields.pick(json.as_bytes()).unwrap_err().message().to_owned();
        assert!(error("[1]").ends_with("expected `{` at byte 0, found `[`"), "{}", error("[1]"));
        assert!(error(r#"{"a":1"#).ends_with("expected `,` or `}` at byte 6, found the end"));
        assert!(error(r#"{"a":01}"#).contains("byte 6"), "{}", error(r#"{"a":01}"#));
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_what_serde_json_accepts(
            text in r#"\{("a":(1|-0|0.5|01|1e5|1.|"x"|"\\n"|"\\x"|\[1,?\]|\{\}|null|nul|true),?){0,3}\}? ?x?"#
        ) {
            let accepted = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
            let mut fields = Fields::default();
            fields.want("a");
            let picked = fields.pick(text.as_bytes());
            prop_assert_eq!(picked.is_ok(), accepted.is_ok(), "{}", text);
            if let (Ok(picked), Ok(map)) = (picked, accepted) {
                let found = picked[0].map(|raw| serde_json::from_str(raw).unwrap());
                prop_assert_eq!(found.as_ref(), map.get("a"));
            }
        }
    }
}
