//! `steps`: what a host's log says of its commits and checkpoints, step by step.
//!
//! The host reports each step at level trace, as JSON lines with `timestamp`, `step`, `lane` and,
//! for a commit, `epoch`. Lines of other kinds are skipped.

use crate::broker::member;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

/// One epoch's commit; times in ms since 1970, with fractions.
struct Commit {
    begun: f64,
    committed: f64,
    /// When it was applied to keyed state and the next epoch could begin.
    applied: f64,
    journal_bytes: u64,
}

/// One lane's checkpoint.
#[derive(Clone, Copy)]
struct Checkpoint {
    /// When the lane's state began to be frozen.
    freezing: f64,
    published: f64,
    new_bytes: u64,
}

/// What one lane has reported.
#[derive(Default)]
struct Lane {
    begun: Option<f64>,
    journal_bytes: u64,
    freezing: Option<f64>,
    commits: Vec<Commit>,
    checkpoints: Vec<Checkpoint>,
}

impl Lane {
    fn note(&mut self, step: &str, at: f64, line: &str) {
        match step {
            "begun" => self.begun = Some(at),
            "journal" => self.journal_bytes = number(line, "\"bytes\""),
            "committed" => {
                let journal_bytes = std::mem::take(&mut self.journal_bytes);
                if let Some(begun) = self.begun.take() {
                    self.commits.push(Commit { begun, committed: at, applied: at, journal_bytes });
                }
            }
            "applied" => {
                if let Some(commit) = self.commits.last_mut() {
                    commit.applied = at;
                }
            }
            "freezing" => self.freezing = Some(at),
            "published" => {
                let new_bytes = number(line, "\"new_bytes\"");
                if let Some(freezing) = self.freezing.take() {
                    self.checkpoints.push(Checkpoint { freezing, published: at, new_bytes });
                }
            }
            _ => {}
        }
    }

    /// From one commit to the next, ms: an epoch with all that belongs to it.
    fn cycles(&self) -> impl Iterator<Item = f64> {
        self.commits.windows(2).map(|pair| pair[1].committed - pair[0].committed)
    }

    /// How long epochs were open, ms: from when one could begin to when its commit began.
    fn epochs(&self) -> impl Iterator<Item = f64> {
        self.commits.windows(2).map(|pair| pair[1].begun - pair[0].applied)
    }

    /// What all checkpoints but the first have uploaded, and the bytes of the epoch records that
    /// were committed between the first and the last.
    fn uploaded_and_changed(&self) -> (u64, u64) {
        let [first, .., last] = &self.checkpoints[..] else { return (0, 0) };
        let uploaded = self.checkpoints[1..].iter().map(|checkpoint| checkpoint.new_bytes).sum();
        let between = |commit: &&Commit| {
            commit.committed >= first.freezing && commit.committed < last.freezing
        };
        let changed = self.commits.iter().filter(between).map(|commit| commit.journal_bytes);
        (uploaded, changed.sum())
    }
}

/// Prints the figures of what was reported from `from_ms` on; times count from there.
pub(crate) fn steps(log: &str, from_ms: u64) -> Result<()> {
    let lanes = read(log, from_ms as f64)?;
    let uploads: Vec<Checkpoint> =
        lanes.values().flat_map(|lane| lane.checkpoints.iter().copied()).collect();
    let (mut uploading, mut others) = (Vec::new(), Vec::new());
    for commit in lanes.values().flat_map(|lane| &lane.commits) {
        let overlaps = |upload: &Checkpoint| {
            commit.begun <= upload.published && upload.freezing <= commit.committed
        };
        let is_uploading = uploads.iter().any(overlaps);
        let took = commit.committed - commit.begun;
        if is_uploading { &mut uploading } else { &mut others }.push(took);
    }
    let epochs = Spread(lanes.values().flat_map(Lane::epochs).collect());
    let cycles = Spread(lanes.values().flat_map(Lane::cycles).collect());
    let upload_ms = uploads.iter().map(|upload| upload.published - upload.freezing).collect();
    let sums = lanes.values().map(Lane::uploaded_and_changed);
    let (uploaded, changed) = sums.fold((0, 0), |(up, ch), (u, c)| (up + u, ch + c));
    let first = |lane: &Lane| lane.commits.first().map(|commit| commit.committed);
    let slowest = lanes.values().filter_map(first).fold(0.0, f64::max);
    let (uploading, others) = (Spread(uploading), Spread(others));
    println!(
        "{{\"lanes\":{},\"first_commits_ms\":{:.0},{},{},{},{},{},\"uploaded_bytes\":{uploaded},\
         \"changed_bytes\":{changed},\"uploaded_times\":{:.2}}}",
        lanes.len(),
        (slowest - from_ms as f64).max(0.0),
        others.json("commit"),
        uploading.json("uploading"),
        epochs.json("epoch"),
        cycles.json("cycle"),
        Spread(upload_ms).json("upload"),
        uploaded as f64 / changed.max(1) as f64,
    );
    Ok(())
}

fn read(log: &str, from_ms: f64) -> Result<BTreeMap<u64, Lane>> {
    let file = std::fs::File::open(log).with_context(|| format!("open {log}"))?;
    let mut lanes: BTreeMap<u64, Lane> = BTreeMap::new();
    for line in BufReader::new(file).lines() {
        let line = line.with_context(|| format!("read {log}"))?;
        let (step, lane) = (member(&line, "\"step\""), member(&line, "\"lane\""));
        if step.is_empty() || lane.is_empty() {
            continue;
        }
        let at = moment(member(&line, "\"timestamp\""))
            .with_context(|| format!("expected a timestamp, found: {line}"))?;
        if at >= from_ms {
            let lane = lane.parse().with_context(|| format!("expected a lane, found: {line}"))?;
            lanes.entry(lane).or_default().note(step, at, &line);
        }
    }
    Ok(lanes)
}

fn number(json: &str, name: &str) -> u64 {
    member(json, name).parse().unwrap_or(0)
}

/// `2026-11-30T11:59:35.123456Z` as ms since 1970.
fn moment(text: &str) -> Option<f64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let second: f64 = text.get(17..)?.strip_suffix('Z')?.parse().ok()?;
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) as f64 * 60e3 + second * 1e3)
}

/// Durations, ms.
struct Spread(Vec<f64>);

impl Spread {
    /// The members of a JSON object, without its braces.
    fn json(&self, name: &str) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let quantile = |q: f64| {
            let index = (sorted.len().saturating_sub(1) as f64 * q).round() as usize;
            sorted.get(index).copied().unwrap_or(0.0)
        };
        format!(
            "\"{name}_count\":{},\"{name}_p50_ms\":{:.1},\"{name}_p99_ms\":{:.1},\
             \"{name}_max_ms\":{:.1}",
            sorted.len(),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_milliseconds_since_1970() {
        assert_eq!(moment("1970-01-01T00:00:00.000000Z"), Some(0.0));
        assert_eq!(moment("2000-02-29T12:00:00.500000Z"), Some(951_825_600_500.0));
        assert_eq!(moment("2026-11-30T11:59:35.123000Z"), Some(1_796_039_975_123.0));
        assert_eq!(moment("yesterday"), None);
    }

    #[test]
    fn uploads_count_from_the_second_checkpoint_on_against_what_was_committed_between() {
        let mut lane = Lane::default();
        let commit = |lane: &mut Lane, at: f64, bytes: u64| {
            lane.note("begun", at, "");
            lane.note("journal", at, &format!("{{\"bytes\":{bytes}}}"));
            lane.note("committed", at + 5.0, "");
            lane.note("applied", at + 6.0, "");
        };
        commit(&mut lane, 0.0, 1_000);
        for (at, bytes) in [(10.0, 5_000), (20.0, 70)] {
            lane.note("freezing", at, "");
            commit(&mut lane, at + 1.0, 30);
            lane.note("published", at + 7.0, &format!("{{\"new_bytes\":{bytes}}}"));
        }
        assert_eq!(lane.uploaded_and_changed(), (70, 30));
        assert_eq!(lane.cycles().collect::<Vec<_>>(), [11.0, 10.0]);
        assert_eq!(lane.epochs().collect::<Vec<_>>(), [5.0, 4.0]);
    }
}
