//! One pass over a JSON document that takes out the wanted places and checks all the rest.
//!
//! Rules: the whole document must be valid JSON with nothing behind it; where a name repeats in
//! an object the last one counts, as in JavaScript, Jackson and `serde_json`.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize as _,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::path::{JsonPath, Segment};

/// How many places one pass can take out: key and time.
pub(crate) const SLOTS: usize = 2;

/// The JSON text at each wanted place; `None` where there is none.
pub(crate) type Found<'a> = [Option<&'a str>; SLOTS];

/// The wanted places as a tree, so that paths with a common beginning share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    root: Node,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// Slots that want this place.
    wanted: [bool; SLOTS],
    /// Slots that want this place or one below.
    covered: [bool; SLOTS],
    fields: Vec<(String, Node)>,
    elements: Vec<(usize, Node)>,
}

impl Plan {
    /// Returns a plan that puts what is at each path into the slot of the same number.
    pub(crate) fn new(paths: [Option<&JsonPath>; SLOTS]) -> Self {
        let mut root = Node::default();
        for (slot, path) in paths.into_iter().enumerate() {
            if let Some(path) = path {
                root.add(slot, path.segments());
            }
        }
        Self { root }
    }

    /// Takes the wanted places out of a document.
    pub(crate) fn extract<'a>(&self, document: &'a [u8]) -> Result<Found<'a>, Malformed> {
        let text = std::str::from_utf8(document).map_err(|error| Malformed {
            what: "invalid UTF-8".to_owned(),
            line: 1,
            column: error.valid_up_to() + 1,
        })?;
        let mut found = [None; SLOTS];
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Seed { node: &self.root, found: &mut found }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    }
}

impl Node {
    fn add(&mut self, slot: usize, segments: &[Segment]) {
        self.covered[slot] = true;
        match segments {
            [] => self.wanted[slot] = true,
            [Segment::Field(name), rest @ ..] => {
                child(&mut self.fields, name.clone()).add(slot, rest);
            }
            [Segment::Element(index), rest @ ..] => {
                child(&mut self.elements, *index).add(slot, rest);
            }
        }
    }

    fn is_wanted(&self) -> bool {
        self.wanted.contains(&true)
    }

    fn has_children(&self) -> bool {
        !self.fields.is_empty() || !self.elements.is_empty()
    }
}

fn child<K: PartialEq>(children: &mut Vec<(K, Node)>, name: K) -> &mut Node {
    let at = children.iter().position(|(other, _)| *other == name).unwrap_or_else(|| {
        children.push((name, Node::default()));
        children.len() - 1
    });
    &mut children[at].1
}

/// A document that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// What was expected or found.
    what: String,
    line: usize,
    /// In bytes, from 1.
    column: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, line, column } = self;
        if *line > 1 {
            write!(f, "{what} at line {line}, byte {column}")
        } else {
            write!(f, "{what} at byte {column}")
        }
    }
}

impl From<serde_json::Error> for Malformed {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let mut what = error.to_string();
        if let Some(end) = what.rfind(" at line ") {
            what.truncate(end);
        }
        Self { what, line, column }
    }
}

struct Seed<'n, 'f, 'de> {
    node: &'n Node,
    found: &'f mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // A repeated name: what an earlier one gave is void.
        for (slot, is_covered) in self.node.covered.iter().enumerate() {
            if *is_covered {
                self.found[slot] = None;
            }
        }
        if !self.node.is_wanted() {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?;
        for (slot, is_wanted) in self.node.wanted.iter().enumerate() {
            if *is_wanted {
                self.found[slot] = Some(raw.get());
            }
        }
        if self.node.has_children() {
            // One path is the beginning of the other: the part is read a second time.
            serde_json::Deserializer::from_str(raw.get())
                .deserialize_any(self)
                .map_err(D::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Name { node: self.node })? {
            match at {
                Some(at) => {
                    let node = &self.node.fields[at].1;
                    map.next_value_seed(Seed { node, found: &mut *self.found })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        for index in 0.. {
            let node = self.node.elements.iter().find(|(wanted, _)| *wanted == index);
            let is_there = match node {
                Some((_, node)) => {
                    elements.next_element_seed(Seed { node, found: &mut *self.found })?.is_some()
                }
                None => elements.next_element::<IgnoredAny>()?.is_some(),
            };
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    // Scalars have nothing below them. (A number comes as a map: its digits are kept.)

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a member's name and finds the child that wants it, without keeping the name.
struct Name<'n> {
    node: &'n Node,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.node.fields.iter().position(|(wanted, _)| wanted == name))
    }
}

/// What a piece of JSON text is, as far as keys and times care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    /// The number as written.
    Number(&'a str),
    /// Borrowed where nothing was escaped.
    Text(Cow<'a, str>),
    Array,
    Object,
}

impl Scalar<'_> {
    /// Returns what it is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// Reads JSON text that [`Plan::extract`] has found.
pub(crate) fn scalar(raw: &str) -> Result<Scalar<'_>, Malformed> {
    Ok(match raw.as_bytes() {
        [b'"', inner @ .., b'"'] => match inner.contains(&b'\\') {
            false => Scalar::Text(Cow::Borrowed(&raw[1..raw.len() - 1])),
            true => Scalar::Text(Cow::Owned(serde_json::from_str(raw)?)),
        },
        [b'n', ..] => Scalar::Null,
        [b't', ..] => Scalar::Bool(true),
        [b'f', ..] => Scalar::Bool(false),
        [b'[', ..] => Scalar::Array,
        [b'{', ..] => Scalar::Object,
        _ => Scalar::Number(raw),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(first: &str, second: &str, document: &str) -> Result<[Option<String>; 2], String> {
        let paths = [first, second].map(|path| JsonPath::parse(path).unwrap());
        let plan = Plan::new([Some(&paths[0]), Some(&paths[1])]);
        match plan.extract(document.as_bytes()) {
            Ok(found) => Ok(found.map(|text| text.map(str::to_owned))),
            Err(malformed) => Err(malformed.to_string()),
        }
    }

    fn texts(first: Option<&str>, second: Option<&str>) -> [Option<String>; 2] {
        [first, second].map(|text| text.map(str::to_owned))
    }

    #[test]
    fn wanted_places_are_taken_out_as_written() {
        let document = r#" {"x":[1,{"a":2}],"a":{"b":"k","c":[10, 2.50 ]},"b":7} "#;
        let cases = [
            ("$.a.b", "$.a.c[1]", texts(Some("\"k\""), Some("2.50"))),
            ("$.b", "$.x[1].a", texts(Some("7"), Some("2"))),
            ("$.a.c", "$.a.c[0]", texts(Some("[10, 2.50 ]"), Some("10"))),
            ("$.b", "$.b", texts(Some("7"), Some("7"))),
            ("$.nope", "$.a.c[2]", texts(None, None)),
            ("$.b.c", "$.a[0]", texts(None, None)),
            ("$.x.a", "$.x[0].a", texts(None, None)),
        ];
        for (first, second, expected) in cases {
            assert_eq!(found(first, second, document), Ok(expected), "{first} {second}");
        }
    }

    #[test]
    fn the_last_of_a_repeated_name_counts_with_all_below_it() {
        assert_eq!(found("$.a", "$.b", r#"{"a":1,"b":2,"a":3}"#), Ok(texts(Some("3"), Some("2"))));
        assert_eq!(found("$.a.b", "$.c", r#"{"a":{"b":1},"a":{}}"#), Ok(texts(None, None)));
        assert_eq!(found("$.a.b", "$.c", r#"{"a":{"b":1},"a":5}"#), Ok(texts(None, None)));
    }

    #[test]
    fn names_are_compared_after_their_escapes() {
        assert_eq!(
            found("$.a", "$['b\\\"']", r#"{"\u0061":1,"b\"":2}"#),
            Ok(texts(Some("1"), Some("2")))
        );
    }

    #[test]
    fn what_is_not_json_is_refused_with_the_byte() {
        let cases = [
            ("", "EOF while parsing a value at byte 0"),
            (r#"{"a":1} x"#, "trailing characters at byte 9"),
            (r#"{"a":004}"#, "invalid number at byte 7"),
            (r#"{"z":004,"a":1}"#, "invalid number at byte 7"),
            (r#"{"a":1"#, "EOF while parsing an object at byte 6"),
            (r#"{"z":tru}"#, "expected ident at byte 9"),
            ("{\"a\":1,\n\"b\" 2}", "expected `:` at line 2, byte 5"),
            (r#"{"a":1,}"#, "trailing comma at byte 8"),
            ("{\"a\":\"\u{1}\"}", "control character"),
        ];
        for (document, expected) in cases {
            let error = found("$.a", "$.b", document).unwrap_err();
            assert!(error.contains(expected), "{document}: {error}");
        }
        let plan = Plan::new([Some(&JsonPath::root()), None]);
        let error = plan.extract(b"{\"a\":\"\xff\"}").unwrap_err().to_string();
        assert_eq!(error, "invalid UTF-8 at byte 7");
    }

    #[test]
    fn a_document_may_be_deeper_than_the_stack() {
        let document = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let wrapped = format!(r#"{{"deep":{document},"a":1}}"#);
        assert_eq!(found("$.a", "$.b", &wrapped), Ok(texts(Some("1"), None)));
    }

    #[test]
    fn scalars_are_told_apart() {
        assert_eq!(scalar("null").unwrap(), Scalar::Null);
        assert_eq!(scalar("\"\"").unwrap(), Scalar::Text("".into()));
        assert_eq!(scalar(r#""a\u0062""#).unwrap(), Scalar::Text("ab".into()));
        assert_eq!(scalar("-1.0e5").unwrap(), Scalar::Number("-1.0e5"));
        assert!(scalar(r#""\ud800""#).is_err());
    }
}
