//! The configuration as a tree in which every node knows where it came from.
//!
//! Knows neither YAML nor what keys mean. Keeps: a node's place is that of the layer that last set
//! it (file, environment variable or `--set`).

/// Where a value was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nowhere: the documented default.
    #[default]
    Default,
    /// In the pipeline file.
    File,
    /// In this `DOVETAIL__…` environment variable.
    Variable(String),
    /// In this `--set` option.
    Option(String),
}

/// A stretch of text that messages point to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Which layer.
    pub origin: Origin,
    /// Line in the file, from 1; 0 outside the file.
    pub line: usize,
    /// Column in characters, from 1; 0 outside the file.
    pub column: usize,
    /// How many characters to underline; at least 1 in the file.
    pub width: usize,
}

/// A scalar as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Its text, after environment references were replaced.
    pub text: String,
    /// Whether it is certainly text: quoted, a block scalar or made from an environment reference.
    pub is_text: bool,
    /// Its text before environment references were replaced, where there were any. Messages show
    /// this one: what comes from the environment may be secret.
    pub written: Option<String>,
}

impl Scalar {
    /// Returns what messages may show.
    #[must_use]
    pub fn shown(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.text)
    }

    /// Returns whether this is YAML's null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        !self.is_text && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// One key of a map and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_place: Place,
    /// The value.
    pub node: Node,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A map in the order written.
    Map(Vec<Entry>),
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it holds.
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

impl Node {
    /// Returns an empty map.
    #[must_use]
    pub fn empty_map(place: Place) -> Self {
        Self { value: Value::Map(Vec::new()), place }
    }

    /// Returns a scalar that was not written in the file.
    #[must_use]
    pub fn plain(text: &str, place: Place) -> Self {
        let scalar = Scalar { text: text.to_owned(), is_text: false, written: None };
        Self { value: Value::Scalar(scalar), place }
    }

    /// Returns what this node is, for messages.
    #[must_use]
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() => "nothing".to_owned(),
            Value::Scalar(scalar) => format!("`{}`", scalar.shown()),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns the value of a key, when this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
            }
            Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// Returns this node as JSON: numbers, booleans and null as YAML's core schema reads them.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Scalar(scalar) => scalar_to_json(scalar),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => serde_json::Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
            ),
        }
    }
}

fn scalar_to_json(scalar: &Scalar) -> serde_json::Value {
    if scalar.is_text {
        return scalar.text.clone().into();
    }
    if scalar.is_null() {
        return serde_json::Value::Null;
    }
    match scalar.text.as_str() {
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        text => match serde_json::from_str::<serde_json::Number>(text) {
            // Every digit is kept (`arbitrary_precision`).
            Ok(number) => serde_json::Value::Number(number),
            Err(_) => text.into(),
        },
    }
}
