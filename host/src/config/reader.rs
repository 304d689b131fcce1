//! Takes typed values out of a [`Node`] tree and collects everything that is wrong on the way.
//!
//! Knows nothing of what keys mean. Keeps: every key that a section knows is asked for, so that
//! whatever is left over is unknown; every value read is remembered with its origin, so that
//! `--print-config` shows the whole truth. After a problem a placeholder is returned: a
//! configuration with problems is never used.

use std::{collections::BTreeMap, path::PathBuf};

use super::{
    join,
    model::Secret,
    node::{Entry, Node, Origin, Place, Scalar, Value},
    report::{Problem, nearest, one_of},
};

/// One value in force, for `--print-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effective {
    /// The path, one element per level.
    pub(super) path: Vec<String>,
    /// The value as shown: secrets masked.
    pub(super) text: String,
    /// Where it came from.
    pub(super) place: Place,
}

/// What is collected while reading.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What is wrong.
    pub(super) problems: Vec<Problem>,
    /// What may be wrong.
    pub(super) warnings: Vec<Problem>,
    /// Every value in force, in the order read.
    pub(super) effective: Vec<Effective>,
    /// Where each path stands.
    pub(super) places: BTreeMap<String, Place>,
}

/// The keys of one map.
#[derive(Debug)]
pub(super) struct Section<'n> {
    path: String,
    segments: Vec<String>,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Section<'n> {
    /// Returns the dotted path of this section.
    #[must_use]
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether a key was given, without reading it.
    #[must_use]
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// Returns the node of a key and marks the key as known.
    pub(super) fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Returns all entries: a section whose keys are names that the user chose.
    #[must_use]
    pub(super) fn names(&self) -> &'n [Entry] {
        self.entries
    }

    fn segments_of(&self, name: &str) -> Vec<String> {
        let mut segments = self.segments.clone();
        segments.push(name.to_owned());
        segments
    }
}

impl Reader {
    /// Opens the root.
    pub(super) fn root<'n>(&mut self, node: &'n Node) -> Section<'n> {
        self.open(node, String::new(), Vec::new())
    }

    /// Opens the map under a key; an absent key is an empty section.
    pub(super) fn section<'n>(
        &mut self,
        parent: &mut Section<'n>,
        name: &'static str,
    ) -> Section<'n> {
        let path = join(&parent.path, name);
        let segments = parent.segments_of(name);
        match parent.node(name) {
            Some(node) => self.open(node, path, segments),
            None => Section { path, segments, entries: &[], known: Vec::new() },
        }
    }

    /// Opens the map of an entry whose key is a name that the user chose.
    pub(super) fn entry<'n>(&mut self, parent: &Section<'n>, entry: &'n Entry) -> Section<'n> {
        let path = join(&parent.path, &entry.key);
        let section = self.open(&entry.node, path.clone(), parent.segments_of(&entry.key));
        self.places.insert(path, entry.key_place.clone());
        section
    }

    fn open<'n>(&mut self, node: &'n Node, path: String, segments: Vec<String>) -> Section<'n> {
        self.places.insert(path.clone(), node.place.clone());
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            Value::Scalar(scalar) if scalar.is_null() => &[],
            Value::Scalar(_) | Value::List(_) => {
                let message = format!("expected a map of keys, found {}", node.kind());
                self.problems.push(Problem::new(&path, node.place.clone(), message));
                &[]
            }
        };
        Section { path, segments, entries, known: Vec::new() }
    }

    /// Reports keys that were never asked for. Call it when everything was read.
    pub(super) fn close(&mut self, section: &Section<'_>) {
        for entry in section.entries {
            if section.known.contains(&entry.key.as_str()) {
                continue;
            }
            let mut message = format!("unknown key `{}`", entry.key);
            if let Some(word) = nearest(&entry.key, section.known.iter().copied()) {
                message.push_str(&format!("; did you mean `{word}`?"));
            }
            let mut known = section.known.clone();
            known.sort_unstable();
            known.dedup();
            self.problems.push(
                Problem::new(&section.path, entry.key_place.clone(), message)
                    .with_help(format!("expected {}", one_of(&known))),
            );
        }
    }

    /// Reads a value that may be absent.
    pub(super) fn optional<T>(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        parse: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Option<T> {
        let path = join(&section.path, name);
        let segments = section.segments_of(name);
        let node = section.node(name)?;
        self.value(node, &path, segments, parse)
    }

    /// Reads a value that must be said.
    pub(super) fn required<T: Default>(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        help: &str,
        parse: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> T {
        if !section.has(name) {
            section.known.push(name);
            let path = section.path.clone();
            self.problem_at(&path, format!("`{name}` must be said"), help);
            return T::default();
        }
        self.optional(section, name, parse).unwrap_or_default()
    }

    /// Reads a value with a default, given as the user would write it.
    pub(super) fn or<T>(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        default: &str,
        parse: impl Fn(&Scalar) -> Result<T, String>,
    ) -> T {
        let fallback = || {
            let scalar = Scalar { text: default.to_owned(), is_text: false, written: None };
            parse(&scalar).expect("the documented default is a value its own parser takes")
        };
        if section.has(name) {
            return self.optional(section, name, &parse).unwrap_or_else(fallback);
        }
        section.known.push(name);
        self.effective.push(Effective {
            path: section.segments_of(name),
            text: default.to_owned(),
            place: Place::default(),
        });
        fallback()
    }

    /// Reads a value that may be one scalar or a list of them.
    pub(super) fn one_or_many<T>(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        parse: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Vec<T> {
        let path = join(&section.path, name);
        let segments = section.segments_of(name);
        match section.node(name) {
            None => Vec::new(),
            Some(Node { value: Value::List(items), place }) => {
                self.places.insert(path.clone(), place.clone());
                let mut values = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    let mut segments = segments.clone();
                    segments.push(format!("[{at}]"));
                    values.extend(self.value(item, &format!("{path}[{at}]"), segments, &parse));
                }
                values
            }
            Some(node) => self.value(node, &path, segments, &parse).into_iter().collect(),
        }
    }

    /// Reads a secret: `{ env: NAME }` or `{ file: PATH }`.
    pub(super) fn secret(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        lookup: &dyn Fn(&str) -> Option<String>,
        resolve: &dyn Fn(&str) -> PathBuf,
    ) -> Option<Secret> {
        let path = join(&section.path, name);
        let segments = section.segments_of(name);
        let node = section.node(name)?;
        self.secret_at(node, path, segments, lookup, resolve)
    }

    /// Reads a secret wherever it stands.
    pub(super) fn secret_at(
        &mut self,
        node: &Node,
        path: String,
        segments: Vec<String>,
        lookup: &dyn Fn(&str) -> Option<String>,
        resolve: &dyn Fn(&str) -> PathBuf,
    ) -> Option<Secret> {
        self.places.insert(path.clone(), node.place.clone());
        let form = "write { env: NAME } or { file: PATH }";
        let Value::Map(entries) = &node.value else {
            self.problems.push(
                Problem::new(
                    &path,
                    node.place.clone(),
                    "a secret is given by reference".to_owned(),
                )
                .with_help(form),
            );
            return None;
        };
        let reference = match entries.as_slice() {
            [entry] => match &entry.node.value {
                Value::Scalar(scalar) => Some((entry.key.as_str(), scalar)),
                Value::List(_) | Value::Map(_) => None,
            },
            _ => None,
        };
        let read = match reference {
            Some(("env", scalar)) => lookup(&scalar.text)
                .ok_or_else(|| format!("the environment variable {} is not set", scalar.text)),
            Some(("file", scalar)) => read_secret_file(&resolve(&scalar.text)),
            _ => Err("expected exactly one of `env` and `file`".to_owned()),
        };
        match read {
            Ok(text) => {
                let text_shown = reference.map_or_else(String::new, |(kind, from)| {
                    format!("*** ({kind} {})", from.shown())
                });
                let place = node.place.clone();
                self.effective.push(Effective { path: segments, text: text_shown, place });
                Some(Secret::new(text))
            }
            Err(message) => {
                let place = node.place.clone();
                self.problems.push(Problem::new(&path, place, message).with_help(form));
                None
            }
        }
    }

    /// Refuses an entry that is none of the things that a section names: one that `--set` or a
    /// variable added though it changes only what is there, or one of `keys`, which stand one level
    /// deeper. Returns whether it did.
    pub(super) fn refuse_stray(
        &mut self,
        section: &Section<'_>,
        entry: &Entry,
        (noun, needed, keys): (&str, &[&str], &[&str]),
    ) -> bool {
        let has = |key: &&str| entry.node.get(key).is_some();
        let path = join(&section.path, &entry.key);
        let names =
            || section.entries.iter().filter(|other| other.key_place.origin == Origin::File);
        let names: Vec<&str> = names().map(|other| other.key.as_str()).collect();
        let problem = if entry.key_place.origin != Origin::File && !needed.iter().all(has) {
            let near = nearest(&entry.key, names.iter().copied())
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            let help = format!(
                "expected {}; a new {noun} is given with {}",
                one_of(&names),
                needed.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ")
            );
            (format!("there is no {noun} `{}`{near}", entry.key), help)
        } else if keys.contains(&entry.key.as_str()) && !keys.iter().any(has) {
            let message = format!("`{}` stands where the name of an {noun} is expected", entry.key);
            (message, format!("it is a key of an {noun}: indent it as that {noun}'s other keys"))
        } else {
            return false;
        };
        let (message, help) = problem;
        let place = entry.key_place.clone();
        self.problems.push(Problem::new(&path, place, message).with_help(help));
        true
    }

    /// Refuses a key where it is given.
    pub(super) fn refuse(
        &mut self,
        section: &mut Section<'_>,
        name: &'static str,
        why: &str,
        help: &str,
    ) {
        if let Some(entry) = section.entries.iter().find(|entry| entry.key == name) {
            section.known.push(name);
            let path = join(&section.path, name);
            self.problems
                .push(Problem::new(&path, entry.key_place.clone(), why.to_owned()).with_help(help));
        }
    }

    /// Remembers a value that no parser here reads (a plugin's configuration).
    pub(super) fn remember(&mut self, path: Vec<String>, text: String, place: Place) {
        self.places.insert(path.join("."), place.clone());
        self.effective.push(Effective { path, text, place });
    }

    /// Adds a problem at a path, or at the nearest section above that stands in the file.
    pub(super) fn problem_at(&mut self, path: &str, message: impl Into<String>, help: &str) {
        let place = place_near(&self.places, path);
        self.problems.push(Problem::new(path, place, message.into()).with_help(help));
    }

    /// Adds a warning at a path.
    pub(super) fn warn_at(&mut self, path: &str, message: impl Into<String>, help: &str) {
        let place = place_near(&self.places, path);
        self.warnings.push(Problem::new(path, place, message.into()).with_help(help));
    }

    /// Returns where a key was given, in words: `line 7`.
    pub(super) fn where_is(&self, path: &str) -> String {
        match self.places.get(path).map(|place| (&place.origin, place.line)) {
            Some((Origin::File, line)) => format!("line {line}"),
            Some((Origin::Variable(name), _)) => format!("environment variable {name}"),
            Some((Origin::Option(option), _)) => format!("--set {option}"),
            Some((Origin::Default, _)) | None => "by default".to_owned(),
        }
    }

    fn value<T>(
        &mut self,
        node: &Node,
        path: &str,
        segments: Vec<String>,
        parse: impl FnOnce(&Scalar) -> Result<T, String>,
    ) -> Option<T> {
        let place = node.place.clone();
        self.places.insert(path.to_owned(), place.clone());
        let parsed = match &node.value {
            Value::Scalar(scalar) if !scalar.is_null() => {
                parse(scalar).map(|value| (value, scalar.shown().to_owned()))
            }
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => Err("a value".to_owned()),
        };
        match parsed {
            Ok((value, text)) => {
                self.effective.push(Effective { path: segments, text, place });
                Some(value)
            }
            Err(expected) => {
                let message = format!("expected {expected}, found {}", node.kind());
                self.problems.push(Problem::new(path, place, message));
                None
            }
        }
    }
}

/// Returns where a path stands, or the nearest one above it that stands in some layer.
#[must_use]
pub(super) fn place_near(places: &BTreeMap<String, Place>, path: &str) -> Place {
    let mut path = path;
    loop {
        if let Some(place) = places.get(path).filter(|place| place.origin != Origin::Default) {
            return place.clone();
        }
        match path.rsplit_once('.') {
            Some((parent, _)) => path = parent,
            None => return places.get("").cloned().unwrap_or_default(),
        }
    }
}

fn read_secret_file(path: &std::path::Path) -> Result<String, String> {
    let mut text = crate::text_file::read(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    // Files made by an editor or `echo` end with one line break that is not part of the secret.
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}
