//! Environment variables and `--set` options laid over the file.
//!
//! Precedence: defaults < file < `DOVETAIL__A__B=v` < `--set a.b=v`. Knows nothing of what keys
//! mean: a wrong path becomes an unknown key like any other.

use super::{
    node::{Entry, Node, Origin, Place, Value},
    report::Problem,
    yaml,
};

/// The prefix of environment variables that set a key.
pub(super) const PREFIX: &str = "DOVETAIL__";

/// Lays the variables that start with [`PREFIX`] over the tree, in the order of their names.
pub(super) fn overlay_variables(
    root: &mut Node,
    variables: &[(String, String)],
    problems: &mut Vec<Problem>,
) {
    let mut variables: Vec<_> = variables
        .iter()
        .filter_map(|(name, value)| Some((name, name.strip_prefix(PREFIX)?, value)))
        .collect();
    variables.sort();
    for (name, path, value) in variables {
        let origin = Origin::Variable(name.clone());
        let path: Vec<&str> = path.split("__").collect();
        set(root, &path, value, &origin, problems);
    }
}

/// Lays `--set a.b.c=v` options over the tree, in the order given.
pub(super) fn overlay_options(root: &mut Node, options: &[String], problems: &mut Vec<Problem>) {
    for option in options {
        // A value may be secret: the place shows the path alone.
        let (path, value) = option.split_once('=').unwrap_or((option, ""));
        let origin = Origin::Option(path.to_owned());
        if option.contains('=') {
            set(root, &path.split('.').collect::<Vec<_>>(), value, &origin, problems);
        } else {
            let place = Place { origin, ..Place::default() };
            let message = format!("expected --set key.path=value, found `{option}`");
            problems.push(Problem::new(path, place, message));
        }
    }
}

fn set(root: &mut Node, path: &[&str], text: &str, origin: &Origin, problems: &mut Vec<Problem>) {
    let place = Place { origin: origin.clone(), ..Place::default() };
    if path.iter().any(|segment| segment.is_empty()) {
        let message = "a part of the path is empty".to_owned();
        problems.push(Problem::new(&path.join("."), place, message));
        return;
    }
    let Some(value) = parse_value(text, &place) else {
        let message = "expected a value, or a list or map in YAML's flow form".to_owned();
        problems.push(Problem::new(&path.join("."), place, message));
        return;
    };
    let mut node = root;
    for segment in path {
        if !matches!(node.value, Value::Map(_)) {
            *node = Node::empty_map(place.clone());
        }
        let Value::Map(entries) = &mut node.value else {
            return;
        };
        let at =
            entries.iter().position(|entry| matches(&entry.key, segment)).unwrap_or_else(|| {
                entries.push(Entry {
                    key: segment.to_lowercase(),
                    key_place: place.clone(),
                    node: Node::empty_map(place.clone()),
                });
                entries.len() - 1
            });
        node = &mut entries[at].node;
    }
    *node = value;
}

/// Variables are in capitals and cannot hold `-`.
fn matches(key: &str, segment: &str) -> bool {
    let same = |text: &str| text.to_lowercase().replace(['-', '.'], "_");
    key == segment || same(key) == same(segment)
}

fn parse_value(text: &str, place: &Place) -> Option<Node> {
    if !text.starts_with(['[', '{']) {
        return Some(Node::plain(text, place.clone()));
    }
    let mut node = yaml::parse(text).ok()?;
    move_to(&mut node, place);
    Some(node)
}

fn move_to(node: &mut Node, place: &Place) {
    node.place = place.clone();
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter_mut().for_each(|item| move_to(item, place)),
        Value::Map(entries) => {
            for entry in entries {
                entry.key_place = place.clone();
                move_to(&mut entry.node, place);
            }
        }
    }
}
