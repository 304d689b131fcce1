//! Cases of `dovetail test`: what is said in YAML, read into steps.
//!
//! Knows neither engine nor plugin. Keeps: every problem of a file is reported with its line, and
//! a step knows the lines it was written in, so that `--update` can write it anew.

use std::path::{Component, Path, PathBuf};

use serde_json::Value as Json;

use crate::config::{
    node::{Node, Origin, Place, Value},
    report::{Problem, nearest, one_of},
    units, yaml,
};

/// 2026-01-01T00:00:00Z in ms: what `+0s` means unless `base:` says otherwise.
pub(crate) const BASE_DEFAULT: i64 = 1_767_225_600_000;

/// How many partitions an input of a case may have.
const PARTITIONS_MAX: u16 = 256;

const STEPS: [&str; 9] = [
    "in",
    "watermark",
    "clock",
    "ended",
    "crash",
    "expect",
    "expect_late",
    "expect_state",
    "expect_watermark",
];

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The pipeline file, resolved against the case's folder.
    pub(crate) pipeline: PathBuf,
    /// What `+0s` means, ms.
    pub(crate) base: i64,
    /// How many partitions each input has; as many as the steps name when not said.
    pub(crate) partitions: Option<u16>,
    pub(crate) steps: Vec<Step>,
    /// Where the case begins.
    pub(crate) line: usize,
}

/// One step and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A record arrives; the plugin gets key, time and value as given.
    Record(RecordStep),
    /// Bytes arrive and pass the codec.
    Raw(RawStep),
    /// Sources of these inputs are told a watermark.
    Watermark(Vec<(String, i64)>),
    /// The lane's clock moves on by so many ms.
    Clock(i64),
    /// These inputs have ended.
    Ended(Vec<String>),
    /// The process dies and is started again.
    Crash,
    /// Exactly these records came out of these outputs since they were last compared.
    Expect(Vec<(String, Vec<Json>)>),
    /// So many records of these inputs were late since they were last compared.
    ExpectLate(Vec<(String, u64)>),
    /// What keyed state holds for a key.
    ExpectState(StateStep),
    /// Where the watermark stands.
    ExpectWatermark(i64),
}

/// A record given in the plugin's terms.
#[derive(Debug, Clone)]
pub(crate) struct RecordStep {
    pub(crate) input: String,
    pub(crate) partition: u16,
    pub(crate) key: Option<String>,
    pub(crate) time: Option<i64>,
    /// `None` is a tombstone.
    pub(crate) value: Option<String>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

/// A record given as bytes.
#[derive(Debug, Clone)]
pub(crate) struct RawStep {
    pub(crate) input: String,
    pub(crate) partition: u16,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) timestamp: Option<i64>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

/// What is expected of keyed state.
#[derive(Debug, Clone)]
pub(crate) struct StateStep {
    pub(crate) key: String,
    /// One state; all of them when not said.
    pub(crate) state: Option<String>,
    /// How many entries there are; 0 for `absent: true`.
    pub(crate) entries: usize,
}

/// Reads the cases of a file: one, or a list of them.
///
/// `foreign` are keys of a case that another reader of the same form understands.
pub(crate) fn parse(path: &Path, text: &str, foreign: &[&str]) -> Result<Vec<Case>, Vec<Problem>> {
    let tree = yaml::parse(text).map_err(|problem| vec![problem])?;
    let mut reader =
        Reader { problems: Vec::new(), base: BASE_DEFAULT, ended: Vec::new(), foreign };
    let folder = path.parent().unwrap_or(Path::new("."));
    let cases = match &tree.value {
        Value::List(items) => items.iter().map(|item| reader.case(item, folder)).collect(),
        Value::Scalar(_) | Value::Map(_) => vec![reader.case(&tree, folder)],
    };
    if reader.problems.is_empty() { Ok(cases) } else { Err(reader.problems) }
}

/// What a pipeline offers for a case to name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) inputs: &'a [&'a str],
    pub(crate) outputs: &'a [&'a str],
    pub(crate) states: &'a [&'a str],
}

/// Returns what a case names and its pipeline does not have.
pub(crate) fn unknown_names(case: &Case, known: Known<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for step in &case.steps {
        let (what, words, names): (_, _, Vec<&str>) = match &step.action {
            Action::Record(record) => ("input", known.inputs, vec![&record.input]),
            Action::Raw(raw) => ("input", known.inputs, vec![&raw.input]),
            Action::Watermark(all) => ("input", known.inputs, names_of(all)),
            Action::Ended(all) => ("input", known.inputs, all.iter().map(String::as_str).collect()),
            Action::ExpectLate(all) => ("input", known.inputs, names_of(all)),
            Action::Expect(all) => ("output", known.outputs, names_of(all)),
            Action::ExpectState(state) => {
                ("state", known.states, state.state.iter().map(String::as_str).collect())
            }
            Action::Clock(_) | Action::Crash | Action::ExpectWatermark(_) => continue,
        };
        for name in names.into_iter().filter(|name| !words.contains(name)) {
            let hint = nearest(name, words.iter().copied())
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            let place =
                Place { origin: Origin::File, line: step.line, column: step.column, width: 1 };
            let message = format!("there is no {what} `{name}`, expected {}{hint}", one_of(words));
            problems.push(Problem::new("", place, message));
        }
    }
    problems
}

fn names_of<T>(pairs: &[(String, T)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

struct Reader<'a> {
    problems: Vec<Problem>,
    base: i64,
    /// The inputs that have ended in the case at hand.
    ended: Vec<String>,
    foreign: &'a [&'a str],
}

impl Reader<'_> {
    fn problem(&mut self, place: &Place, message: impl Into<String>) {
        self.problems.push(Problem::new("", place.clone(), message.into()));
    }

    fn case(&mut self, node: &Node, folder: &Path) -> Case {
        let keys = ["name", "pipeline", "base", "partitions", "steps"];
        self.only(node, &keys.iter().chain(self.foreign).copied().collect::<Vec<_>>());
        self.base = BASE_DEFAULT;
        self.ended.clear();
        if let Some(base) = node.get("base") {
            match units::date_ms(&text_of(base)) {
                Ok(base) => self.base = base,
                Err(message) => self.problem(&base.place, message),
            }
        }
        let name = node.get("name").map(text_of).unwrap_or_default();
        if name.is_empty() {
            self.problem(&node.place, "a case needs a `name` that says what holds");
        }
        let pipeline = node.get("pipeline").map_or_else(|| "../pipeline.yaml".into(), text_of);
        let steps = match node.get("steps").map(|steps| (&steps.value, &steps.place)) {
            Some((Value::List(items), _)) => {
                items.iter().filter_map(|item| self.step(item)).collect()
            }
            Some((Value::Scalar(_) | Value::Map(_), place)) => {
                self.problem(place, "`steps` is a list");
                Vec::new()
            }
            None => {
                self.problem(&node.place, "a case needs `steps`");
                Vec::new()
            }
        };
        let partitions =
            node.get("partitions").and_then(|node| self.in_range(node, 1, PARTITIONS_MAX));
        let pipeline = without_detours(&folder.join(pipeline));
        Case { name, pipeline, base: self.base, partitions, steps, line: node.place.line }
    }

    fn step(&mut self, node: &Node) -> Option<Step> {
        let Value::Map(entries) = &node.value else {
            self.problem(&node.place, format!("a step is one of {}", one_of(&STEPS)));
            return None;
        };
        let first = entries.iter().find(|entry| STEPS.contains(&entry.key.as_str()));
        let Some(first) = first else {
            let written = entries.first().map_or("", |entry| entry.key.as_str());
            let hint = nearest(written, STEPS)
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            let message = format!("a step is one of {}{hint}", one_of(&STEPS));
            self.problem(&node.place, message);
            return None;
        };
        let (line, column) = (first.key_place.line, first.key_place.column);
        let value = &first.node;
        let action = match first.key.as_str() {
            "in" => self.record(node, &text_of(value))?,
            "watermark" => Action::Watermark(self.named(value, Self::time)),
            "clock" => Action::Clock(self.duration(value)?),
            "ended" => {
                let ended = self.names(value);
                self.ended.extend_from_slice(&ended);
                Action::Ended(ended)
            }
            "crash" => Action::Crash,
            "expect" => Action::Expect(self.named(value, |_, node| match node.to_json() {
                Json::Array(records) => Some(records),
                Json::Null => Some(Vec::new()),
                record => Some(vec![record]),
            })),
            "expect_late" => Action::ExpectLate(self.named(value, Self::count)),
            "expect_state" => Action::ExpectState(self.state(value)?),
            _ => Action::ExpectWatermark(self.time(value)?),
        };
        if first.key != "in" {
            self.only(node, &[first.key.as_str()]);
        }
        Some(Step { action, line, column })
    }

    fn record(&mut self, node: &Node, input: &str) -> Option<Action> {
        if self.ended.iter().any(|ended| ended == input) {
            self.problem(&node.place, format!("`{input}` has ended: no record of it can come"));
        }
        let partition = match node.get("partition") {
            Some(partition) => self.in_range(partition, 0, PARTITIONS_MAX - 1)?,
            None => 0,
        };
        let headers = self.headers(node.get("headers"));
        if let Some(raw) = node.get("raw") {
            self.only(node, &["in", "raw", "partition", "headers"]);
            self.only(raw, &["key", "value", "timestamp", "headers"]);
            let timestamp = match raw.get("timestamp") {
                Some(time) => Some(self.time(time)?),
                None => None,
            };
            let mut headers = headers;
            headers.extend(self.headers(raw.get("headers")));
            return Some(Action::Raw(RawStep {
                input: input.to_owned(),
                partition,
                key: raw.get("key").and_then(bytes_of),
                value: raw.get("value").and_then(bytes_of),
                timestamp,
                headers,
            }));
        }
        self.only(node, &["in", "at", "key", "value", "partition", "headers", "tombstone"]);
        let time = match node.get("at") {
            Some(time) => Some(self.time(time)?),
            None => None,
        };
        let is_tombstone = node.get("tombstone").is_some_and(|node| text_of(node) == "true");
        let value = node.get("value");
        if value.is_some() == is_tombstone {
            let one = "a record needs one of `value`, `tombstone: true` and `raw`";
            self.problem(&node.place, one);
        }
        Some(Action::Record(RecordStep {
            input: input.to_owned(),
            partition,
            key: node.get("key").and_then(bytes_of),
            time,
            value: value.map(|value| value.to_json().to_string()),
            headers,
        }))
    }

    fn state(&mut self, node: &Node) -> Option<StateStep> {
        self.only(node, &["key", "state", "absent", "entries"]);
        let Some(key) = node.get("key") else {
            self.problem(&node.place, "`expect_state` needs a `key`");
            return None;
        };
        let entries = match (node.get("absent"), node.get("entries")) {
            (Some(absent), None) if text_of(absent) == "true" => 0,
            (None, Some(entries)) => usize::try_from(self.count(entries)?).ok()?,
            _ => {
                self.problem(&node.place, "say `absent: true` or `entries: N`");
                return None;
            }
        };
        let state = node.get("state").map(text_of);
        Some(StateStep { key: text_of(key), state, entries })
    }

    fn headers(&mut self, node: Option<&Node>) -> Vec<(String, Option<String>)> {
        let Some(node) = node else { return Vec::new() };
        match &node.value {
            Value::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), bytes_of(&entry.node))).collect()
            }
            Value::List(items) => items.iter().flat_map(|item| self.headers(Some(item))).collect(),
            Value::Scalar(_) => {
                self.problem(&node.place, "headers are a map, or a list of maps to repeat a name");
                Vec::new()
            }
        }
    }

    fn named<T>(
        &mut self,
        node: &Node,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<(String, T)> {
        let Value::Map(entries) = &node.value else {
            self.problem(&node.place, format!("expected a map by name, found {}", node.kind()));
            return Vec::new();
        };
        let pairs =
            entries.iter().filter_map(|entry| Some((entry.key.clone(), read(self, &entry.node)?)));
        pairs.collect()
    }

    fn names(&mut self, node: &Node) -> Vec<String> {
        match &node.value {
            Value::List(items) => items.iter().map(text_of).collect(),
            Value::Scalar(_) => vec![text_of(node)],
            Value::Map(_) => {
                self.problem(&node.place, "expected a list of names");
                Vec::new()
            }
        }
    }

    /// A time: `+12s`, `-3s` against the base, a date, or ms.
    fn time(&mut self, node: &Node) -> Option<i64> {
        let text = text_of(node);
        let base = self.base;
        let read = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(ahead), _) => units::duration_ms(ahead).map(|ms| base.saturating_add(ms)),
            (None, Some(behind)) => units::duration_ms(behind).map(|ms| base.saturating_sub(ms)),
            (None, None) => match text.parse() {
                Ok(ms) => Ok(ms),
                Err(_) => units::date_ms(&text),
            },
        };
        read.map_err(|message| {
            let expected = "expected a time like `+12s`, a date or ms since 1970";
            self.problem(&node.place, format!("{expected}: {message}"));
        })
        .ok()
    }

    fn duration(&mut self, node: &Node) -> Option<i64> {
        let text = text_of(node);
        units::duration_ms(text.strip_prefix('+').unwrap_or(&text))
            .map_err(|message| self.problem(&node.place, message))
            .ok()
    }

    fn count(&mut self, node: &Node) -> Option<u64> {
        let text = text_of(node);
        let count = text.parse().ok();
        if count.is_none() {
            self.problem(&node.place, format!("expected a count, found `{text}`"));
        }
        count
    }

    /// A number within bounds, both included.
    fn in_range(&mut self, node: &Node, from: u16, to: u16) -> Option<u16> {
        let text = text_of(node);
        let number = text.parse().ok().filter(|number| (from..=to).contains(number));
        if number.is_none() {
            self.problem(&node.place, format!("expected {from} to {to}, found `{text}`"));
        }
        number
    }

    fn only(&mut self, node: &Node, known: &[&str]) {
        let Value::Map(entries) = &node.value else { return };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let hint = nearest(&entry.key, known.iter().copied())
                .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            let message =
                format!("`{}` is not known here, expected {}{hint}", entry.key, one_of(known));
            self.problem(&entry.key_place, message);
        }
    }
}

/// Returns a path without `.` and `folder/..`, where that is the same file.
fn without_detours(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(short.components().next_back(), Some(Component::Normal(_))) =>
            {
                short.pop();
            }
            part => short.push(part),
        }
    }
    match (path.canonicalize(), short.canonicalize()) {
        (Ok(one), Ok(other)) if one == other => short,
        _ => path.to_owned(),
    }
}

fn text_of(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar.text.clone(),
        Value::List(_) | Value::Map(_) => String::new(),
    }
}

/// Text as it stands, or JSON for anything with structure; null is none.
fn bytes_of(node: &Node) -> Option<String> {
    match &node.value {
        Value::Scalar(scalar) if scalar.is_null() => None,
        Value::Scalar(scalar) => Some(scalar.text.clone()),
        Value::List(_) | Value::Map(_) => Some(node.to_json().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases, or what is wrong with them, with lines.
    fn parsed(text: &str, foreign: &[&str]) -> Result<Vec<Case>, Vec<String>> {
        parse(Path::new("tests/a.yaml"), text, foreign).map_err(|problems| {
            let said = problems.iter().map(|problem| (problem.place.line, &problem.message));
            said.map(|(line, message)| format!("{line}: {message}")).collect()
        })
    }

    #[test]
    fn keys_of_other_readers_are_refused_unless_they_are_passed_over() {
        let text = "name: n\nsim: { seed: 7 }\nsteps: []\n";
        let said = "2: `sim` is not known here, expected name, pipeline, base, partitions or \
                    steps";
        assert_eq!(parsed(text, &[]).unwrap_err(), [said]);
        assert_eq!(parsed(text, &["sim"]).unwrap().len(), 1);
        let near = "name: n\nstep: []\n";
        assert!(parsed(near, &[]).unwrap_err()[0].ends_with("; did you mean `steps`?"));
    }

    #[test]
    fn an_ended_input_has_no_records_and_a_tombstone_no_value() {
        let steps = |steps: &str| parsed(&format!("name: n\nsteps:\n{steps}"), &[]);
        let ended = "  - ended: [a]\n  - { in: b, value: 1 }\n  - { in: a, value: 1 }\n";
        let said = "5: `a` has ended: no record of it can come";
        assert_eq!(steps(ended).unwrap_err(), [said]);
        let said = "3: a record needs one of `value`, `tombstone: true` and `raw`";
        for both in ["value: 1, tombstone: true", "key: k"] {
            assert_eq!(steps(&format!("  - {{ in: a, {both} }}\n")).unwrap_err(), [said]);
        }
        assert!(steps("  - { in: a, tombstone: true }\n").is_ok());
    }

    #[test]
    fn partitions_beyond_the_bound_are_refused_with_their_line() {
        let case = |partitions: &str, partition: &str| {
            let text = format!(
                "name: n\npartitions: {partitions}\nsteps:\n  - {{ in: a, value: 1, partition: \
                 {partition} }}\n"
            );
            parsed(&text, &[])
        };
        assert_eq!(case("256", "255").unwrap()[0].steps.len(), 1);
        for many in ["0", "257", "65535", "65536", "-1"] {
            let said = format!("2: expected 1 to 256, found `{many}`");
            assert_eq!(case(many, "0").unwrap_err(), [said]);
        }
        for far in ["256", "65536", "x"] {
            let said = format!("4: expected 0 to 255, found `{far}`");
            assert_eq!(case("1", far).unwrap_err(), [said]);
        }
    }
}
