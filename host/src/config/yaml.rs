//! YAML text to a [`Node`] tree: the only module that names the YAML library.
//!
//! Knows nothing of what keys mean. Keeps: every node carries line and column; a document is one
//! map; keys are scalars and unique; aliases are copied where they are used (bounded).

mod mistake;

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::{
    node::{Entry, Node, Origin, Place, Scalar, Value},
    report::Problem,
};

/// How many nodes a document may have, copies through aliases included.
const NODES_MAX: usize = 100_000;
/// How deep a document may nest.
const DEPTH_MAX: usize = 64;

/// Reads one YAML document.
///
/// # Errors
///
/// The first syntax error, duplicate key or second document.
pub fn parse(text: &str) -> Result<Node, Problem> {
    let mut builder =
        Builder { events: Parser::new_from_str(text), text, anchors: BTreeMap::new(), nodes: 0 };
    builder.document()
}

/// Builds nodes out of parser events.
struct Builder<'t, I: Iterator<Item = Result<(Event<'t>, Span), ScanError>>> {
    events: I,
    text: &'t str,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

impl<'t, I: Iterator<Item = Result<(Event<'t>, Span), ScanError>>> Builder<'t, I> {
    fn next(&mut self) -> Result<(Event<'t>, Place), Problem> {
        match self.events.next() {
            Some(Ok((event, span))) => Ok((event, place_of(span))),
            Some(Err(error)) => {
                let marker = error.marker();
                let place = Place {
                    origin: Origin::File,
                    line: marker.line().max(1),
                    column: marker.col() + 1,
                    width: 1,
                };
                let likely = mistake::likely(self.text, place.line, &error.info().to_string());
                let message = format!("this is not YAML: {}", error.info());
                let problem = Problem::new("", place, message);
                Err(match likely {
                    Some(likely) => problem.with_help(likely),
                    None => problem,
                })
            }
            None => Ok((Event::StreamEnd, Place::default())),
        }
    }

    fn document(&mut self) -> Result<Node, Problem> {
        let mut root = None;
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::StreamEnd => {
                    return Ok(root.unwrap_or_else(|| {
                        Node::empty_map(Place {
                            origin: Origin::File,
                            line: 1,
                            column: 1,
                            width: 1,
                        })
                    }));
                }
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(Problem::new(
                        "",
                        place,
                        "a second YAML document begins here; expected one document".to_owned(),
                    ));
                }
                Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::MappingStart(..)
                | Event::Alias(..) => root = Some(self.node(event, place, 0)?),
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'t>, place: Place, depth: usize) -> Result<Node, Problem> {
        self.count(1, &place)?;
        if depth > DEPTH_MAX {
            return Err(Problem::new("", place, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_text = !matches!(style, ScalarStyle::Plain);
                let scalar = Scalar { text: text.into_owned(), is_text, written: None };
                (Node { value: Value::Scalar(scalar), place }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let value = Value::List(self.list(depth)?);
                (Node { value, place }, anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let value = Value::Map(self.map(depth)?);
                (Node { value, place }, anchor)
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id).cloned() else {
                    return Err(Problem::new("", place, "this alias has no anchor".to_owned()));
                };
                self.count(size_of(&node), &place)?;
                return Ok(node);
            }
            _ => return Err(Problem::new("", place, "expected a value".to_owned())),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut items = Vec::new();
        loop {
            let (event, place) = self.next()?;
            match event {
                Event::SequenceEnd | Event::StreamEnd => return Ok(items),
                event => items.push(self.node(event, place, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, key_place) = self.next()?;
            let key = match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(entries),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => {
                    let message = "expected a plain key here".to_owned();
                    return Err(Problem::new("", key_place, message));
                }
            };
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let line = first.key_place.line;
                let message = format!("the key `{key}` was already given in line {line}");
                return Err(Problem::new(&key, key_place, message));
            }
            let (event, place) = self.next()?;
            let node = self.node(event, place, depth + 1)?;
            entries.push(Entry { key, key_place, node });
        }
    }

    fn count(&mut self, nodes: usize, place: &Place) -> Result<(), Problem> {
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            let message = format!("more than {NODES_MAX} values, those behind aliases included");
            return Err(Problem::new("", place.clone(), message));
        }
        Ok(())
    }
}

fn size_of(node: &Node) -> usize {
    match &node.value {
        Value::Scalar(_) => 1,
        Value::List(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| size_of(&entry.node)).sum::<usize>(),
    }
}

fn place_of(span: Span) -> Place {
    let width = if span.start.line() == span.end.line() {
        span.end.col().saturating_sub(span.start.col()).max(1)
    } else {
        1
    };
    Place { origin: Origin::File, line: span.start.line(), column: span.start.col() + 1, width }
}
