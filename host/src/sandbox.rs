//! `dovetail test`: event-by-event cases on the production engine and the real component.
//!
//! Wires cases to the runtime's lane loop over core's in-memory ports; no broker, no disk.
//!
//! Reading order: `case`, `play`, `compare`, `update`.

mod case;
mod compare;
mod meter;
mod play;
mod prepare;
mod store;
mod update;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::json;

pub use self::prepare::{Engine, MakeNative};
use self::{
    case::Case,
    meter::Meter,
    play::{Mismatch, Mode, Played, play},
    prepare::Prepared,
};
use crate::{config::report::Problems, failure::Failure};

/// What `dovetail test` was asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Case files, or folders of them.
    pub paths: Vec<PathBuf>,
    /// Write what came out into the cases.
    pub update: bool,
    /// What to play on.
    pub engine: Engine,
    /// Keys of a case that another reader of the same form understands; others are refused.
    pub foreign_keys: &'static [&'static str],
}

/// How one case ended.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// The file.
    pub file: PathBuf,
    /// The case's name.
    pub name: String,
    /// Where it begins.
    pub line: usize,
    /// Why it failed: the line, and what was expected and what came.
    pub failures: Vec<(usize, String)>,
    /// Whether it holds now because its `expect` steps were written anew.
    pub is_updated: bool,
}

/// How all cases ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Case by case.
    pub cases: Vec<CaseResult>,
    /// What may be wrong with what was played.
    pub warnings: Vec<String>,
    /// Files that `--update` has changed.
    pub updated: Vec<PathBuf>,
    /// Calls of the plugin, over all plays.
    pub calls: u64,
    /// The most memory that an instance held, in bytes.
    pub memory_bytes_peak: u64,
    /// How long playing took, compiling apart.
    pub played: Duration,
    /// How long loading and compiling plugins took.
    pub compiled: Duration,
}

impl Outcome {
    /// Returns how many cases hold and how many do not.
    #[must_use]
    pub fn passed_and_failed(&self) -> (usize, usize) {
        let failed = self.cases.iter().filter(|case| !case.failures.is_empty()).count();
        (self.cases.len() - failed - self.updated_cases(), failed)
    }

    fn updated_cases(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty() && case.is_updated).count()
    }

    /// Returns the outcome as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let (passed, failed) = self.passed_and_failed();
        let cases = self.cases.iter().map(|case| {
            let failures = case.failures.iter();
            let failures: Vec<_> = failures
                .map(|(line, message)| json!({ "line": line, "message": message }))
                .collect();
            json!({
                "file": case.file,
                "name": case.name,
                "line": case.line,
                "passed": failures.is_empty(),
                "updated": case.is_updated,
                "failures": failures,
            })
        });
        json!({
            "passed": passed,
            "failed": failed,
            "calls": self.calls,
            "peak_memory_bytes": self.memory_bytes_peak,
            "play_ms": self.played.as_millis(),
            "compile_ms": self.compiled.as_millis(),
            "updated": self.updated,
            "warnings": self.warnings,
            "cases": cases.collect::<Vec<_>>(),
        })
    }

    /// Returns the outcome as text for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            let mark = match (case.failures.is_empty(), case.is_updated) {
                (false, _) => "FAILED ",
                (true, true) => "updated",
                (true, false) => "ok     ",
            };
            text.push_str(&format!("{mark} {} ({})\n", case.name, case.file.display()));
            for (line, message) in &case.failures {
                text.push_str(&format!("  {}:{line}: {message}\n", case.file.display()));
            }
        }
        let (passed, failed) = self.passed_and_failed();
        let updated = match self.updated_cases() {
            0 => String::new(),
            count => format!("{count} updated, "),
        };
        text.push_str(&format!(
            "{} calls in {} ms (compiling {} ms), peak guest memory {} KiB\n{passed} passed, \
             {updated}{failed} failed\n",
            self.calls,
            self.played.as_millis(),
            self.compiled.as_millis(),
            self.memory_bytes_peak / 1024,
        ));
        text
    }
}

/// Runs cases.
///
/// # Errors
///
/// When a case file, a pipeline or a plugin cannot be used at all; a case that does not hold is in
/// the outcome.
pub fn run(options: &Options) -> Result<Outcome> {
    let files = find(&options.paths)?;
    if files.is_empty() {
        let message =
            "no case found: a case is a .yaml file beside its pipeline, in a folder `tests`";
        return Err(Failure::usage(message).into());
    }
    let meter = Meter::default();
    let mut bench =
        Bench { engine: options.engine.clone(), pipelines: Vec::new(), compiled: Duration::ZERO };
    let mut outcome = Outcome {
        cases: Vec::new(),
        warnings: Vec::new(),
        updated: Vec::new(),
        calls: 0,
        memory_bytes_peak: 0,
        played: Duration::ZERO,
        compiled: Duration::ZERO,
    };
    for file in files {
        let text = crate::text_file::read(&file)
            .with_context(|| format!("read the cases of {}", file.display()))?;
        let cases = case::parse(&file, &text, options.foreign_keys).map_err(|problems| {
            Problems { file: file.display().to_string(), text: text.clone(), problems }
        })?;
        let mut unknown = Vec::new();
        for case in &cases {
            unknown.extend(bench.prepare(&case.pipeline)?.unknown_names(case));
        }
        if !unknown.is_empty() {
            let file = file.display().to_string();
            return Err(Problems { file, text, problems: unknown }.into());
        }
        let mut updates = Vec::new();
        for case in &cases {
            let prepared = bench.prepare(&case.pipeline)?;
            let begin = Instant::now();
            let (mut failures, played) = check(case, prepared, &meter)?;
            outcome.played += begin.elapsed();
            let is_updated = options.update && !played.differing.is_empty();
            if is_updated {
                updates.extend(update::edits(case, &played, &text));
                let written = played.differing.iter().map(|at| case.steps[*at].line);
                let written: Vec<usize> = written.collect();
                failures.retain(|(line, _)| !written.contains(line));
            }
            outcome.cases.push(CaseResult {
                file: file.clone(),
                name: case.name.clone(),
                line: case.line,
                failures,
                is_updated,
            });
        }
        if let Some(new) = update::apply(&text, updates) {
            std::fs::write(&file, new)
                .with_context(|| format!("write the cases of {}", file.display()))?;
            outcome.updated.push(file);
        }
    }
    let stale = bench.pipelines.iter().filter_map(|(_, prepared)| prepared.stale.clone());
    outcome.warnings.extend(stale);
    outcome.compiled = bench.compiled;
    outcome.calls = meter.calls();
    outcome.memory_bytes_peak = meter.memory_bytes_peak();
    Ok(outcome)
}

/// Pipelines that were prepared: several cases share one, and its plugin is compiled once.
struct Bench {
    engine: Engine,
    pipelines: Vec<(PathBuf, Prepared)>,
    compiled: Duration,
}

impl Bench {
    fn prepare(&mut self, path: &Path) -> Result<&Prepared> {
        if let Some(at) = self.pipelines.iter().position(|(known, _)| known == path) {
            return Ok(&self.pipelines[at].1);
        }
        let begin = Instant::now();
        let prepared = Prepared::new(path, &self.engine)?;
        self.compiled += begin.elapsed();
        self.pipelines.push((path.to_owned(), prepared));
        Ok(&self.pipelines[self.pipelines.len() - 1].1)
    }
}

/// Plays a case in every mode and compares.
fn check(
    case: &Case,
    prepared: &Prepared,
    meter: &Meter,
) -> Result<(Vec<(usize, String)>, Played)> {
    let at = |mode: &str| format!("play the case `{}` {mode}", case.name);
    let played = play(case, prepared, Mode::EpochPerCall, meter)
        .with_context(|| at("with an epoch for every call"))?;
    let mut failures: Vec<(usize, String)> = played
        .mismatches
        .iter()
        .map(|Mismatch { line, message }| (*line, message.clone()))
        .collect();
    let others = [
        (Mode::OneEpoch, "in one epoch", "what comes out depends on where epochs end"),
        (
            Mode::Cold,
            "with a fresh instance for every call",
            "the plugin keeps something in memory between calls",
        ),
    ];
    for (mode, how, why) in others {
        let other = play(case, prepared, mode, meter).with_context(|| at(how))?;
        if let Some(difference) = play_difference(case.base, &played, &other) {
            failures.push((case.line, format!("played {how}, {why}: {difference}")));
        }
    }
    Ok((failures, played))
}

/// Returns the first thing in which two plays differ: what came out, expectations, late records,
/// keyed state or time.
fn play_difference(base: i64, one: &Played, other: &Played) -> Option<String> {
    output_difference(base, one, other)
        .or_else(|| {
            let known = |found: &&Mismatch| {
                !one.mismatches
                    .iter()
                    .any(|each| (each.line, &each.message) == (found.line, &found.message))
            };
            let found = other.mismatches.iter().find(known)?;
            Some(format!("the step in line {}: {}", found.line, found.message))
        })
        .or_else(|| {
            let (late, other_late) = one.late.iter().zip(&other.late).find(|(a, b)| a != b)?;
            let ((input, count), (_, other_count)) = (late, other_late);
            Some(format!("{other_count} late records of `{input}` instead of {count}"))
        })
        .or_else(|| state_difference(&one.state, &other.state))
        .or_else(|| {
            let show = |played: &Played| compare::offset(played.watermark, base);
            (one.watermark != other.watermark)
                .then(|| format!("the watermark is {} instead of {}", show(other), show(one)))
        })
}

fn output_difference(base: i64, one: &Played, other: &Played) -> Option<String> {
    let names = one.outputs.keys().chain(other.outputs.keys());
    names.into_iter().find_map(|name| {
        let records = |played: &Played| played.outputs.get(name).cloned().unwrap_or_default();
        let shown = records(one).iter().map(|record| compare::shown(record, base)).collect();
        let shown: Vec<_> = shown;
        compare::difference(name, &shown, &records(other), base)
    })
}

/// Both are in order.
fn state_difference(one: &[String], other: &[String]) -> Option<String> {
    let missing = one.iter().find(|row| !other.contains(row));
    let extra = other.iter().find(|row| !one.contains(row));
    match (missing, extra) {
        (None, None) => None,
        (Some(missing), None) => Some(format!("keyed state lacks {missing}")),
        (None, Some(extra)) => Some(format!("keyed state has {extra}, too")),
        (Some(missing), Some(extra)) => {
            Some(format!("keyed state has {extra} instead of {missing}"))
        }
    }
}

fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_file() {
            files.push(path.clone());
            continue;
        }
        let folder = if path.join("tests").is_dir() { path.join("tests") } else { path.clone() };
        let entries =
            folder.read_dir().with_context(|| format!("list the cases of {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(change: impl FnOnce(&mut Played)) -> Option<String> {
        let late = vec![("orders".to_owned(), 1)];
        let state = vec!["key a, paid [] = 1".to_owned()];
        let one = Played { late: late.clone(), state: state.clone(), ..Played::default() };
        let mut other = Played { late, state, ..Played::default() };
        change(&mut other);
        play_difference(0, &one, &other)
    }

    #[test]
    fn equal_plays_do_not_differ() {
        assert_eq!(difference(|_| ()), None);
    }

    #[test]
    fn expectation_that_holds_in_one_play_only_is_a_difference() {
        let mismatch = Mismatch { line: 7, message: "expected 0 entries, got 1".to_owned() };
        let found = difference(|other| other.mismatches.push(mismatch));
        assert_eq!(found.unwrap(), "the step in line 7: expected 0 entries, got 1");
    }

    #[test]
    fn late_records_keyed_state_and_time_are_compared() {
        let late = difference(|other| other.late[0].1 = 2).unwrap();
        assert_eq!(late, "2 late records of `orders` instead of 1");
        let extra = difference(|other| other.state.push("key b, paid [] = 1".to_owned()));
        assert_eq!(extra.unwrap(), "keyed state has key b, paid [] = 1, too");
        let missing = difference(|other| other.state.clear()).unwrap();
        assert_eq!(missing, "keyed state lacks key a, paid [] = 1");
        let time = difference(|other| other.watermark = 1_500).unwrap();
        assert_eq!(time, "the watermark is +1500ms instead of +0s");
    }
}
