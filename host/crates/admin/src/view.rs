//! What the API answers, as types: the command line reads what the server writes.
//!
//! Times are numbers (ms since the Unix epoch) and text (RFC 3339) side by side.

mod checkpoint;
mod lanes;

use std::collections::BTreeMap;

use dovetail_core::{
    epoch::LaneId,
    key::Key,
    lane::{LaneStatus, SourceCondition, SourceStatus},
    options::WhenAllIdle,
    timers::{Timer, TimerDomain},
};
use dovetail_runtime::{
    Handle,
    bootstrap::Progress,
    revisions::{RevisionEntry, RevisionState},
    setup::Names,
    status::{LaneView, Readiness},
};
use serde::{Deserialize, Serialize};

pub use self::{
    checkpoint::{CheckpointStatusView, CheckpointTriggeredView, PublishedView},
    lanes::{BehindView, LaneRowView, LanesView, NewestView, OwnerView},
};
use crate::time_text::{rfc3339, watermark};

/// An error.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong and what to do.
    pub error: String,
}

/// One reason of `/readyz`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReasonView {
    /// A stable name.
    pub code: String,
    /// The lane, where it is one lane's.
    pub lane: Option<u16>,
    /// What it is.
    pub message: String,
}

/// The answer of `/readyz`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct ReadyView {
    /// Whether the pipeline is ready.
    pub ready: bool,
    /// Why it is not.
    pub reasons: Vec<ReasonView>,
    /// What an operator should know all the same.
    pub warnings: Vec<String>,
}

/// One source.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct SourceView {
    /// The input.
    pub input: String,
    /// Its topic.
    pub topic: String,
    /// The partition.
    pub partition: u16,
    /// Whether every lane reads it: it moves no time.
    #[serde(default)]
    pub broadcast: bool,
    /// `head`, `at_end`, `unknown` or `ended`.
    pub condition: String,
    /// Whether everything that is there was read.
    pub at_end: bool,
    /// The next offset to read.
    pub position: i64,
    /// Its watermark in ms; absent before its first record.
    pub watermark_ms: Option<i64>,
    /// The same as text.
    pub watermark: Option<String>,
    /// Whether it no longer holds the watermark back.
    pub idle: bool,
    /// Whether it holds its lane's watermark.
    pub holds_watermark: bool,
    /// Since when, ms.
    pub held_since_ms: Option<i64>,
    /// The same as text.
    pub held_since: Option<String>,
    /// How far it is, where it is loaded first and not yet loaded.
    pub bootstrap: Option<BootstrapView>,
    /// Whether its records wait for what is loaded first.
    pub waits: bool,
}

/// How far a source is that is loaded first.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct BootstrapView {
    /// Records read since the lane was acquired.
    pub records: u64,
    /// How many there are up to its end; absent while that is not known.
    pub of: Option<u64>,
    /// Whether there may be fewer: they are estimated by offsets.
    pub at_most: bool,
    /// Whole percents.
    pub percent: Option<u64>,
}

impl From<Progress> for BootstrapView {
    fn from(progress: Progress) -> Self {
        let Progress { records, of, is_at_most } = progress;
        Self { records, of, at_most: is_at_most, percent: progress.percent() }
    }
}

/// Counts of one input since the process started, of committed epochs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct InputView {
    /// The input.
    pub input: String,
    /// Records taken.
    pub records: u64,
    /// Bytes of keys, values and headers.
    pub bytes: u64,
    /// Records that were late.
    pub late: u64,
    /// Records dropped by a rule of the configuration.
    pub dropped: u64,
    /// Offsets jumped over because the topic had deleted the records there.
    pub lost: u64,
    /// Dead letters by reason.
    pub dead_letters: BTreeMap<String, u64>,
}

/// One lane.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct LaneStatusView {
    /// The lane.
    pub lane: u16,
    /// What it is doing.
    pub phase: String,
    /// Since when.
    pub phase_since: String,
    /// The revision it runs.
    pub revision: Option<String>,
    /// The last committed epoch.
    pub epoch: Option<u64>,
    /// When it was committed.
    pub committed_at: Option<String>,
    /// How long its commit took, ms.
    pub commit_ms: i64,
    /// Its watermark in ms; absent before it is known.
    pub watermark_ms: Option<i64>,
    /// The same as text.
    pub watermark: Option<String>,
    /// Who holds the watermark, in words.
    pub held_by: Option<String>,
    /// Whether every source that has not ended is idle.
    pub all_idle: bool,
    /// Since when, ms.
    pub all_idle_since_ms: Option<i64>,
    /// Records taken per second, over the last 10 s.
    pub records_in_per_second: f64,
    /// Records emitted per second, over the last 10 s.
    pub records_out_per_second: f64,
    /// Late records since the process started.
    pub late: u64,
    /// Dead letters since the process started.
    pub dead_letters: u64,
    /// Timers that wait, estimated.
    pub timers_pending: u64,
    /// Timers fired since the process started.
    pub timers_fired: u64,
    /// Plugin calls of the last minute, and how many of them failed.
    pub calls_last_minute: u64,
    /// Failed plugin calls of the last minute.
    pub failed_calls_last_minute: u64,
    /// Rows of keyed state and timers, estimated.
    pub state_rows: u64,
    /// Bytes of keyed state and timers.
    pub state_bytes: u64,
    /// How often it recovered from a doubt.
    pub recoveries: u64,
    /// The last doubt.
    pub last_doubt: Option<String>,
    /// Its checkpoints; absent without a checkpoint store.
    pub checkpoint: Option<CheckpointStatusView>,
    /// Its sources.
    pub sources: Vec<SourceView>,
}

/// The answer of `/api/v1/status`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct StatusView {
    /// The pipeline.
    pub pipeline: String,
    /// When it was started.
    pub started_at: String,
    /// The running revision.
    pub revision: String,
    /// Whether it is ready, as `/readyz` says.
    pub readiness: ReadyView,
    /// Who holds the watermarks, in words.
    pub held_by: Option<String>,
    /// Since when every source of every lane is idle, ms; absent while one is not.
    pub all_idle_since_ms: Option<i64>,
    /// The same as text.
    pub all_idle_since: Option<String>,
    /// What event time does while all are idle: `hold` or `follow_clock`.
    pub when_all_idle: String,
    /// Counts per input.
    pub inputs: Vec<InputView>,
    /// Committed records per output.
    pub outputs: BTreeMap<String, u64>,
    /// Newest keys that lie under two partition numbers.
    pub copartition_violations: Vec<String>,
    /// The lanes.
    pub lanes: Vec<LaneStatusView>,
}

/// One timer of `/api/v1/timers`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct TimerView {
    /// The lane.
    pub lane: u16,
    /// `event` or `processing`.
    pub domain: String,
    /// When it is due, ms.
    pub time_ms: i64,
    /// The same as text.
    pub time: String,
    /// Its key; `0x…` where it is not text.
    pub key: String,
    /// The plugin's own mark.
    pub tag: u64,
    /// The partition of the record that made it.
    pub partition: u16,
    /// The watermark of its lane in ms; absent before it is known.
    pub watermark_ms: Option<i64>,
    /// The same as text.
    pub watermark: Option<String>,
    /// What it waits for, in words: who holds its lane's watermark, that every input is idle, or
    /// the clock.
    pub waits_for: String,
}

/// One revision of `/api/v1/plugins`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct RevisionView {
    /// Its digest.
    pub digest: String,
    /// When it was seen.
    pub at: String,
    /// `start`, `file` or `push`.
    pub origin: String,
    /// `active`, `switching`, `replaced` or `refused`.
    pub state: String,
    /// Why it was refused.
    pub reason: Option<String>,
}

/// The answer of a push.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct PushedView {
    /// The revision that every lane runs now.
    pub digest: String,
}

impl From<Readiness> for ReadyView {
    fn from(readiness: Readiness) -> Self {
        Self {
            ready: readiness.is_ready(),
            reasons: readiness
                .reasons
                .into_iter()
                .map(|reason| ReasonView {
                    code: reason.code.name().to_owned(),
                    lane: reason.lane.map(|lane| lane.0),
                    message: reason.message,
                })
                .collect(),
            warnings: readiness.warnings,
        }
    }
}

impl StatusView {
    /// Returns where a pipeline stands at a time of the wall clock, ms.
    #[must_use]
    pub fn new(handle: &Handle, now: i64) -> Self {
        let names = handle.names();
        let lanes = handle.lanes();
        let sources = lanes.iter().filter_map(|view| view.status.as_ref());
        let idle = lanes.iter().map(|view| view.all_idle_since).collect::<Option<Vec<_>>>();
        let all_idle_since = idle.and_then(|since| since.into_iter().max());
        let outputs = handle.outputs();
        let emitted = outputs.iter().enumerate().map(|(at, output)| {
            let of_lane = |view: &LaneView| view.totals.outputs.get(at).copied().unwrap_or(0);
            (output.clone(), lanes.iter().map(of_lane).sum())
        });
        Self {
            pipeline: names.pipeline.clone(),
            started_at: rfc3339(handle.started_at()),
            revision: handle.running_revision(),
            readiness: handle.readiness().into(),
            held_by: held_by(names, sources.flat_map(|status| &status.sources)),
            all_idle_since_ms: all_idle_since,
            all_idle_since: all_idle_since.map(rfc3339),
            when_all_idle: match names.when_all_idle {
                WhenAllIdle::Hold => "hold",
                WhenAllIdle::FollowClock => "follow_clock",
            }
            .to_owned(),
            inputs: inputs(names, &lanes),
            outputs: emitted.collect(),
            copartition_violations: handle.key_findings().violations.into(),
            lanes: lanes.iter().map(|view| lane(names, view, now)).collect(),
        }
    }
}

fn inputs(names: &Names, lanes: &[LaneView]) -> Vec<InputView> {
    let input = |(at, name): (usize, &String)| {
        let mut view = InputView { input: name.clone(), ..InputView::default() };
        for counts in lanes.iter().filter_map(|lane| lane.totals.inputs.get(at)) {
            view.records += counts.records;
            view.bytes += counts.bytes;
            view.late += counts.late;
            view.lost += counts.lost;
            view.dropped += counts.dropped_late + counts.dropped_null_key;
            for (reason, count) in &counts.dead_letters {
                *view.dead_letters.entry(reason.name().to_owned()).or_default() += count;
            }
        }
        view
    };
    names.inputs.iter().enumerate().map(input).collect()
}

fn lane(names: &Names, view: &LaneView, now: i64) -> LaneStatusView {
    let status = view.status.as_ref();
    let (failed, calls) = view.failed_calls(now);
    let lane_watermark = status.and_then(|status| known(status.watermark));
    LaneStatusView {
        lane: view.lane.0,
        phase: view.phase.name().to_owned(),
        phase_since: rfc3339(view.phase_since),
        revision: status.map(|status| status.revision.clone()),
        epoch: status.and_then(|status| status.epoch).map(|epoch| epoch.0),
        committed_at: view.committed_at.map(rfc3339),
        commit_ms: view.commit_ms,
        watermark_ms: lane_watermark,
        watermark: lane_watermark.and_then(watermark),
        held_by: status.and_then(|status| held_by(names, &status.sources)),
        all_idle: status.is_some_and(|status| status.all_idle),
        all_idle_since_ms: view.all_idle_since,
        records_in_per_second: view.records_in_per_second(now),
        records_out_per_second: view.records_out_per_second(now),
        late: view.totals.inputs.iter().map(|counts| counts.late).sum(),
        dead_letters: view.dead_letters(),
        timers_pending: status.map_or(0, |status| status.timers_pending),
        timers_fired: view.totals.timers_fired,
        calls_last_minute: calls,
        failed_calls_last_minute: failed,
        state_rows: status.map_or(0, |status| status.state.rows),
        state_bytes: status.map_or(0, |status| status.state.bytes),
        recoveries: view.recoveries,
        last_doubt: view.last_doubt.clone(),
        checkpoint: view.checkpoints.clone().map(CheckpointStatusView::from),
        sources: sources(names, view),
    }
}

fn sources(names: &Names, view: &LaneView) -> Vec<SourceView> {
    let source = |(at, source): (usize, &SourceStatus)| {
        let end = view.ends.get(at).copied().flatten();
        let input = usize::from(source.source.input.0);
        SourceView {
            input: names.input(source.source.input).to_owned(),
            topic: names.topics.get(input).cloned().unwrap_or_default(),
            partition: source.source.partition.0,
            broadcast: names.is_broadcast(names.input(source.source.input)),
            condition: condition(source.condition).to_owned(),
            at_end: matches!(source.condition, SourceCondition::AtEnd | SourceCondition::Ended),
            position: source.position,
            watermark_ms: known(source.watermark),
            watermark: watermark(source.watermark),
            idle: source.is_idle,
            holds_watermark: source.is_holder,
            held_since_ms: source.held_since,
            held_since: source.held_since.map(rfc3339),
            bootstrap: Progress::of_source(source, end).map(BootstrapView::from),
            waits: source.is_waiting,
        }
    };
    let sources = view.status.iter().flat_map(|status| &status.sources);
    sources.enumerate().map(source).collect()
}

fn known(watermark: i64) -> Option<i64> {
    (watermark != dovetail_core::time::NO_WATERMARK).then_some(watermark)
}

fn condition(condition: SourceCondition) -> &'static str {
    match condition {
        SourceCondition::Head => "head",
        SourceCondition::AtEnd => "at_end",
        SourceCondition::Unknown => "unknown",
        SourceCondition::Ended => "ended",
    }
}

/// Says who holds the watermark, grouped by why, with the time since the first of them does.
fn held_by<'a>(
    names: &Names,
    sources: impl IntoIterator<Item = &'a SourceStatus>,
) -> Option<String> {
    let mut groups: BTreeMap<&str, (BTreeMap<u16, Vec<u16>>, i64)> = BTreeMap::new();
    for source in sources.into_iter().filter(|source| source.is_holder) {
        let (holders, since) = groups.entry(why(source)).or_insert((BTreeMap::new(), i64::MAX));
        holders.entry(source.source.input.0).or_default().push(source.source.partition.0);
        *since = (*since).min(source.held_since.unwrap_or(i64::MAX));
    }
    if groups.is_empty() {
        return None;
    }
    let group = |(why, (holders, since)): (&str, (BTreeMap<u16, Vec<u16>>, i64))| {
        let inputs = holders.into_iter().map(|(input, mut partitions)| {
            partitions.sort_unstable();
            let partitions: Vec<_> = partitions.iter().map(u16::to_string).collect();
            let name = names.inputs.get(usize::from(input)).map_or("?", String::as_str);
            format!("{name}[{}]", partitions.join(","))
        });
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        let since = (since != i64::MAX).then(|| format!(", since {}", rfc3339(since)));
        format!("{inputs}: {why}{}", since.unwrap_or_default())
    };
    Some(groups.into_iter().map(group).collect::<Vec<_>>().join("; "))
}

fn why(source: &SourceStatus) -> &'static str {
    if source.is_waiting {
        return "it waits for what is loaded first (`bootstrap`)";
    }
    if !source.has_records {
        return "no record seen yet";
    }
    match source.condition {
        SourceCondition::Head => "its newest record is the oldest",
        SourceCondition::AtEnd => "at its end, and not idle yet",
        SourceCondition::Unknown => "its end is not known: no answer from the log",
        SourceCondition::Ended => "it has ended",
    }
}

impl TimerView {
    /// Returns a timer as shown, with where its lane stands.
    #[must_use]
    pub fn new(
        names: &Names,
        view: Option<&LaneView>,
        (lane, domain, timer): (LaneId, TimerDomain, &Timer),
    ) -> Self {
        let status = view.and_then(|view| view.status.as_ref());
        let lane_watermark = status.and_then(|status| known(status.watermark));
        let waits_for = waits_for(names, status, domain);
        let domain = match domain {
            TimerDomain::Event => "event",
            TimerDomain::Processing => "processing",
            TimerDomain::Continue => "continue",
        };
        Self {
            lane: lane.0,
            domain: domain.to_owned(),
            time_ms: timer.time,
            time: rfc3339(timer.time),
            key: key_text(&timer.key),
            tag: timer.tag,
            partition: timer.partition.0,
            watermark_ms: lane_watermark,
            watermark: lane_watermark.and_then(watermark),
            waits_for,
        }
    }
}

/// Says what keeps a timer from firing.
fn waits_for(names: &Names, status: Option<&LaneStatus>, domain: TimerDomain) -> String {
    match (domain, status) {
        (TimerDomain::Processing, _) => "the clock".to_owned(),
        (TimerDomain::Continue, _) => "its turn".to_owned(),
        (TimerDomain::Event, None) => "the lane, which is starting".to_owned(),
        (TimerDomain::Event, Some(status)) if status.all_idle => "all inputs idle".to_owned(),
        (TimerDomain::Event, Some(status)) => {
            held_by(names, &status.sources).unwrap_or_else(|| "the watermark".to_owned())
        }
    }
}

fn key_text(key: &Key) -> String {
    match std::str::from_utf8(key.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            key.as_bytes().iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
    }
}

impl From<RevisionEntry> for RevisionView {
    fn from(entry: RevisionEntry) -> Self {
        let (state, reason) = match entry.state {
            RevisionState::Active => ("active", None),
            RevisionState::Switching => ("switching", None),
            RevisionState::Replaced => ("replaced", None),
            RevisionState::Refused(reason) => ("refused", Some(reason)),
        };
        Self {
            digest: entry.digest,
            at: rfc3339(entry.at),
            origin: entry.origin.name().to_owned(),
            state: state.to_owned(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use dovetail_core::record::{InputIndex, Partition, Source};

    use super::*;

    fn holder(input: u16, partition: u16, has_records: bool) -> SourceStatus {
        SourceStatus {
            source: Source { input: InputIndex(input), partition: Partition(partition) },
            condition: SourceCondition::AtEnd,
            position: 0,
            watermark: i64::MIN,
            is_idle: false,
            is_holder: true,
            held_since: Some(1_767_225_600_000),
            has_records,
            loading: None,
            is_waiting: false,
        }
    }

    #[test]
    fn holders_are_named_by_input_and_partition_with_why() {
        let names =
            Names { inputs: vec!["orders".to_owned(), "payments".to_owned()], ..Names::default() };
        let sources =
            [holder(0, 3, false), holder(0, 1, false), holder(1, 1, false), holder(1, 2, true)];
        assert_eq!(
            held_by(&names, &sources).unwrap(),
            "payments[2]: at its end, and not idle yet, since \
             2026-01-01T00:00:00Z; orders[1,3], payments[1]: no record seen yet, since \
             2026-01-01T00:00:00Z"
        );
        assert_eq!(held_by(&names, &[]), None);
    }

    #[test]
    fn keys_that_are_no_text_are_shown_in_hex() {
        assert_eq!(key_text(&Key::new(&b"o-1"[..])), "o-1");
        assert_eq!(key_text(&Key::new(&[0xff, 0x01][..])), "0xff01");
    }
}
