//! What a single value may be: the parsers that [`super::reader::Reader`] is given.

use std::path::PathBuf;

use super::{
    node::Scalar,
    report::{nearest, one_of},
    units,
};

/// Any text that is not empty.
pub(super) fn text(scalar: &Scalar) -> Result<String, String> {
    if scalar.text.is_empty() { Err("a text".to_owned()) } else { Ok(scalar.text.clone()) }
}

/// A path; relative ones are resolved by the caller.
pub(super) fn path(scalar: &Scalar) -> Result<PathBuf, String> {
    if scalar.text.is_empty() { Err("a path".to_owned()) } else { Ok(scalar.text.clone().into()) }
}

/// A folder as a URL: `file:///absolute` or `file:relative`.
pub(super) fn folder_url(scalar: &Scalar) -> Result<PathBuf, String> {
    let text = &scalar.text;
    let folder = match text.strip_prefix("file://") {
        Some(absolute) => Some(absolute).filter(|path| path.starts_with('/')),
        None => text.strip_prefix("file:").filter(|path| !path.is_empty()),
    };
    folder.map(PathBuf::from).ok_or_else(|| {
        "a folder as file:///absolute/path or file:relative/path (object stores are not yet \
         supported: mount one)"
            .to_owned()
    })
}

/// A Kafka topic's name.
pub(super) fn topic(scalar: &Scalar) -> Result<String, String> {
    let is_legal = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let name = &scalar.text;
    let fits = (1..=249).contains(&name.len()) && name.chars().all(is_legal);
    if fits && name != "." && name != ".." {
        Ok(name.clone())
    } else {
        Err("a topic: up to 249 letters, digits, `.`, `_` or `-`".to_owned())
    }
}

/// A pipeline's name: topics and directories are named after it.
pub(super) fn pipeline(scalar: &Scalar) -> Result<String, String> {
    let topic = topic(scalar).ok().filter(|name| name.len() <= 200);
    topic.ok_or_else(|| "a name: up to 200 letters, digits, `.`, `_` or `-`".to_owned())
}

/// true or false.
pub(super) fn boolean(scalar: &Scalar) -> Result<bool, String> {
    match scalar.text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// A whole number in a range; `_` may group digits.
pub(super) fn number(from: u64, to: u64) -> impl Fn(&Scalar) -> Result<u64, String> {
    move |scalar| {
        let digits = scalar.text.replace('_', "");
        digits
            .parse()
            .ok()
            .filter(|number| (from..=to).contains(number))
            .ok_or_else(|| format!("a whole number from {from} to {to}"))
    }
}

/// A duration in ms.
pub(super) fn duration(scalar: &Scalar) -> Result<i64, String> {
    units::duration_ms(&scalar.text)
}

/// A duration in ms that is longer than nothing.
pub(super) fn positive_duration(scalar: &Scalar) -> Result<i64, String> {
    match units::duration_ms(&scalar.text)? {
        0 => Err("a duration longer than 0".to_owned()),
        ms => Ok(ms),
    }
}

/// A duration longer than nothing, or `never`.
pub(super) fn duration_or_never(scalar: &Scalar) -> Result<Option<i64>, String> {
    if scalar.text == "never" {
        return Ok(None);
    }
    positive_duration(scalar).map(Some).map_err(|expected| format!("{expected}, or never"))
}

/// Bytes.
pub(super) fn size(scalar: &Scalar) -> Result<u64, String> {
    units::size_bytes(&scalar.text)
}

/// Bytes, at least one.
pub(super) fn positive_size(scalar: &Scalar) -> Result<u64, String> {
    match units::size_bytes(&scalar.text)? {
        0 => Err("a size above 0".to_owned()),
        bytes => Ok(bytes),
    }
}

/// One of some words, each with what it means.
pub(super) fn choice<T: Copy>(
    words: &[(&'static str, T)],
) -> impl Fn(&Scalar) -> Result<T, String> {
    let words = words.to_vec();
    move |scalar| {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == scalar.text) {
            return Ok(*value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let mut expected = one_of(&names);
        if let Some(word) = nearest(&scalar.text, names) {
            expected.push_str(&format!(" (perhaps `{word}`)"));
        }
        Err(expected)
    }
}
