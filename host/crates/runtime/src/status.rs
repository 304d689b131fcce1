//! What a running pipeline shows of itself: plain data, taken between steps.

use dovetail_core::{
    checkpoint::Manifest,
    epoch::{Attempt, LaneId, Owner},
    lane::{EpochReport, InputCounts, LaneStatus, SourceCondition, SourceStatus},
    record::Source,
    time::ProcessingTime,
};

use crate::{reason::ReasonCode, setup::Names, window::Window};

/// Seconds over which rates are taken.
const RATE_SECONDS: i64 = 10;
/// So many failed checkpoints in a row make a pipeline not ready.
const CHECKPOINT_FAILURES_MAX: u32 = 3;
/// A source that the log tells nothing of for this long is not being read, ms: longer than any one
/// request takes.
const UNANSWERED_AFTER: i64 = 10_000;
/// Seconds over which failed calls are watched.
const FAILURE_SECONDS: i64 = 60;

/// What a lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Becoming the only writer, reading what was committed, replaying the journal.
    Acquiring,
    /// Handling records.
    Running,
    /// Its producer's epoch is old: looking for a successor.
    Fenced,
    /// Waiting before it acquires again.
    Waiting,
    /// Ending its epoch to stop.
    Stopping,
    /// Every source has ended and everything is committed.
    Finished,
    /// Stopped as asked.
    Stopped,
    /// Stopped by a fatal cause.
    Failed,
}

impl Phase {
    /// Returns the name in status and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Acquiring => "acquiring",
            Self::Running => "running",
            Self::Fenced => "fenced",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// Counts since the process started, of committed epochs only.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Per input.
    pub inputs: Vec<InputCounts>,
    /// Per output of the plugin.
    pub outputs: Vec<u64>,
    /// Dead letters of timers.
    pub timer_dead_letters: u64,
    /// Timers fired.
    pub timers_fired: u64,
    /// Plugin calls.
    pub calls: u64,
    /// Failed plugin calls.
    pub failures: u64,
    /// Committed epochs.
    pub epochs: u64,
}

/// A published checkpoint as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointShown {
    /// Its name.
    pub name: String,
    /// The epoch whose end it holds.
    pub epoch: u64,
    /// When it was frozen, ms.
    pub at: ProcessingTime,
    /// Bytes of all of its files.
    pub bytes: u64,
    /// Bytes that were not in the store before.
    pub new_bytes: u64,
    /// How long its upload took, ms.
    pub ms: i64,
}

impl CheckpointShown {
    /// Returns one that was there already.
    #[must_use]
    pub fn found(manifest: &Manifest) -> Self {
        Self {
            name: manifest.id.to_string(),
            epoch: manifest.id.epoch.0,
            at: manifest.created_at,
            bytes: manifest.bytes(),
            new_bytes: 0,
            ms: 0,
        }
    }
}

/// A lane's checkpoints as shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointView {
    /// Where they go.
    pub store: String,
    /// How often, ms.
    pub every: i64,
    /// The last one of this process.
    pub last: Option<CheckpointShown>,
    /// The newest that was there when the lane was acquired.
    pub found: Option<CheckpointShown>,
    /// What [`LaneView::journal_bytes`] was when the last one was frozen.
    pub journal_mark: Option<u64>,
    /// Since when something is on its way, ms.
    pub working_since: Option<ProcessingTime>,
    /// Failures in a row.
    pub failures: u32,
    /// The last failure, until one is published again.
    pub last_error: Option<String>,
    /// Why the journal was not trimmed behind the last one, though it should be.
    pub untrimmed: Option<String>,
}

impl CheckpointView {
    /// Returns what is shown before the first one.
    #[must_use]
    pub fn new(store: String, every: i64) -> Self {
        Self { store, every, ..Self::default() }
    }

    /// Returns why a pipeline is not ready because of them.
    fn reason(&self, lane: LaneId) -> Option<NotReady> {
        (self.failures >= CHECKPOINT_FAILURES_MAX).then(|| NotReady {
            code: ReasonCode::CheckpointStore,
            lane: Some(lane),
            message: format!(
                "lane {}: {} checkpoints in a row have failed at {}, the last with: {}; commits go \
                 on, the journal is not trimmed",
                lane.0,
                self.failures,
                self.store,
                self.last_error.as_deref().unwrap_or_default()
            ),
        })
    }
}

/// A lane as shown.
#[derive(Debug, Clone)]
pub struct LaneView {
    /// The lane.
    pub lane: LaneId,
    /// What it is doing.
    pub phase: Phase,
    /// Since when, ms.
    pub phase_since: ProcessingTime,
    /// Where it stands; absent until it was acquired once.
    pub status: Option<LaneStatus>,
    /// The offset behind the last record of each source, as its log last heard of it; shorter where
    /// it has not.
    pub ends: Vec<Option<i64>>,
    /// Since when every source that has not ended is idle, ms; absent while one is not.
    pub all_idle_since: Option<ProcessingTime>,
    /// When it last committed, ms.
    pub committed_at: Option<ProcessingTime>,
    /// How long the last commit took, ms.
    pub commit_ms: i64,
    /// Sources that the log has not told anything of since, ms, at that position.
    unanswered: Vec<(Source, i64, ProcessingTime)>,
    /// Since when an epoch with work in it is open, ms.
    pub open_since: Option<ProcessingTime>,
    /// Counts since the start of the process.
    pub totals: Totals,
    /// How often it was acquired again after a doubt.
    pub recoveries: u64,
    /// The last doubt, in words.
    pub last_doubt: Option<String>,
    /// Its checkpoints; absent without a checkpoint store.
    pub checkpoints: Option<CheckpointView>,
    /// Who owns it, and in which acquisition; absent until it was acquired once.
    pub owner: Option<(Owner, Attempt)>,
    /// Bytes of epoch records that this process has committed.
    pub journal_bytes: u64,
    records_in: Window,
    records_out: Window,
    calls: Window,
    failures: Window,
}

impl LaneView {
    /// Returns a lane before it is acquired.
    #[must_use]
    pub fn new(lane: LaneId, now: ProcessingTime) -> Self {
        Self {
            lane,
            phase: Phase::Acquiring,
            phase_since: now,
            status: None,
            ends: Vec::new(),
            all_idle_since: None,
            committed_at: None,
            commit_ms: 0,
            unanswered: Vec::new(),
            open_since: None,
            totals: Totals::default(),
            recoveries: 0,
            last_doubt: None,
            checkpoints: None,
            owner: None,
            journal_bytes: 0,
            records_in: Window::new(RATE_SECONDS),
            records_out: Window::new(RATE_SECONDS),
            calls: Window::new(FAILURE_SECONDS),
            failures: Window::new(FAILURE_SECONDS),
        }
    }

    /// Enters a phase.
    pub fn enter(&mut self, phase: Phase, now: ProcessingTime) {
        if self.phase != phase {
            self.phase = phase;
            self.phase_since = now;
        }
    }

    /// Shows where the lane stands.
    pub fn stand(&mut self, status: LaneStatus, now: ProcessingTime) {
        self.all_idle_since = match self.all_idle_since {
            since @ Some(_) if status.all_idle => since,
            _ => status.all_idle.then_some(now),
        };
        let unknown = |source: &&SourceStatus| source.condition == SourceCondition::Unknown;
        let since = |source: &SourceStatus| {
            let (place, position) = (source.source, source.position);
            let before = self.unanswered.iter().find(|each| (each.0, each.1) == (place, position));
            (place, position, before.map_or(now, |(.., since)| *since))
        };
        self.unanswered = status.sources.iter().filter(unknown).map(since).collect();
        self.status = Some(status);
    }

    /// Returns the sources of which the log has told nothing for that long, ms.
    fn unanswered_for(&self, ms: i64, now: ProcessingTime) -> Vec<Source> {
        let waits = |since: i64| self.phase == Phase::Running && now.saturating_sub(since) > ms;
        self.unanswered.iter().filter(|each| waits(each.2)).map(|each| each.0).collect()
    }

    /// Adds what a committed epoch counted.
    pub fn count(&mut self, report: &EpochReport, commit_ms: i64, now: ProcessingTime) {
        self.committed_at = Some(now);
        self.commit_ms = commit_ms;
        self.open_since = None;
        self.journal_bytes += report.journal_bytes;
        let totals = &mut self.totals;
        totals.inputs.resize(totals.inputs.len().max(report.inputs.len()), InputCounts::default());
        for (total, counts) in totals.inputs.iter_mut().zip(&report.inputs) {
            add_input(total, counts);
        }
        totals.outputs.resize(totals.outputs.len().max(report.outputs.len()), 0);
        for (total, count) in totals.outputs.iter_mut().zip(&report.outputs) {
            *total += count;
        }
        totals.timer_dead_letters += sum(&report.timer_dead_letters);
        totals.timers_fired += report.timers_fired;
        totals.calls += report.calls;
        totals.failures += sum(&report.failures);
        totals.epochs += 1;
        self.records_in.add(now, report.inputs.iter().map(|counts| counts.records).sum());
        self.records_out.add(now, report.outputs.iter().sum());
        self.calls.add(now, report.calls);
        self.failures.add(now, sum(&report.failures));
    }

    /// Returns records taken per second.
    #[must_use]
    pub fn records_in_per_second(&self, now: ProcessingTime) -> f64 {
        self.records_in.per_second(now)
    }

    /// Returns records emitted per second.
    #[must_use]
    pub fn records_out_per_second(&self, now: ProcessingTime) -> f64 {
        self.records_out.per_second(now)
    }

    /// Returns (failed calls, calls) of the last minute.
    #[must_use]
    pub fn failed_calls(&self, now: ProcessingTime) -> (u64, u64) {
        (self.failures.sum(now), self.calls.sum(now))
    }

    /// Returns how many epoch records lie behind the newest checkpoint, or in all where there is
    /// none, and their bytes where this process has written all of them: what a start without the
    /// local state replays.
    #[must_use]
    pub fn journal_behind(&self) -> (u64, Option<u64>) {
        let epoch = self.status.as_ref().and_then(|status| status.epoch);
        let count = epoch.map_or(0, |epoch| epoch.0 + 1);
        let Some(checkpoints) = &self.checkpoints else { return (count, None) };
        let newest = checkpoints.last.as_ref().or(checkpoints.found.as_ref());
        let behind = newest.map_or(count, |newest| count.saturating_sub(newest.epoch + 1));
        (behind, checkpoints.journal_mark.map(|mark| self.journal_bytes.saturating_sub(mark)))
    }

    /// Returns all dead letters since the start of the process.
    #[must_use]
    pub fn dead_letters(&self) -> u64 {
        let of_records: u64 =
            self.totals.inputs.iter().map(|counts| sum(&counts.dead_letters)).sum();
        of_records + self.totals.timer_dead_letters
    }
}

fn sum<T>(counts: &[(T, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn add_input(total: &mut InputCounts, counts: &InputCounts) {
    total.records += counts.records;
    total.bytes += counts.bytes;
    total.late += counts.late;
    total.dropped_null_key += counts.dropped_null_key;
    total.dropped_late += counts.dropped_late;
    total.skew_ignored += counts.skew_ignored;
    total.lost += counts.lost;
    for (reason, count) in &counts.dead_letters {
        match total.dead_letters.iter_mut().find(|(known, _)| known == reason) {
            Some((_, sum)) => *sum += count,
            None => total.dead_letters.push((*reason, *count)),
        }
    }
}

/// One reason why a pipeline is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// Which.
    pub code: ReasonCode,
    /// The lane, where it is one lane's.
    pub lane: Option<LaneId>,
    /// What it is, in words.
    pub message: String,
}

/// Whether a pipeline is ready, and what an operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Why it is not; empty when it is.
    pub reasons: Vec<NotReady>,
    /// What does not make it unready.
    pub warnings: Vec<String>,
}

impl Readiness {
    /// Returns whether the pipeline is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Returns the reasons of one lane.
#[must_use]
pub fn lane_reasons(view: &LaneView, commit_every: i64, now: ProcessingTime) -> Vec<NotReady> {
    let mut reasons = Vec::new();
    let mut add = |code, message| {
        reasons.push(NotReady { code, lane: Some(view.lane), message });
    };
    let lane = view.lane.0;
    match view.phase {
        Phase::Running | Phase::Finished => {}
        Phase::Acquiring | Phase::Fenced | Phase::Waiting => {
            let doubt = view.last_doubt.as_deref().map_or(String::new(), |why| format!(": {why}"));
            let phase = view.phase.name();
            let seconds = now.saturating_sub(view.phase_since) / 1000;
            add(
                ReasonCode::NotAcquired,
                format!("lane {lane} is {phase} since {seconds} s{doubt}"),
            );
        }
        Phase::Stopping | Phase::Stopped | Phase::Failed => {
            add(ReasonCode::NotRunning, format!("lane {lane} is {}", view.phase.name()));
        }
    }
    let limit = commit_every.saturating_mul(10);
    if let Some(open) = view.open_since.map(|since| now.saturating_sub(since))
        && open > limit
    {
        add(
            ReasonCode::EpochOpen,
            format!("lane {lane} has not committed for {open} ms; expected within {limit} ms"),
        );
    }
    let (failed, calls) = view.failed_calls(now);
    let checkpoints = view.checkpoints.as_ref().and_then(|view_of| view_of.reason(view.lane));
    if failed.saturating_mul(100) > calls {
        add(
            ReasonCode::FailedCalls,
            format!("lane {lane}: {failed} of {calls} plugin calls failed in the last minute"),
        );
    }
    reasons.extend(checkpoints);
    reasons
}

/// Returns the sources that a lane cannot read on, as a reason: under load a source is unknown now
/// and then, but moves.
#[must_use]
pub fn unanswered_reason(view: &LaneView, names: &Names, now: ProcessingTime) -> Option<NotReady> {
    let sources = view.unanswered_for(UNANSWERED_AFTER, now);
    if sources.is_empty() {
        return None;
    }
    let name = |source: &Source| format!("{}[{}]", names.input(source.input), source.partition.0);
    let message = format!(
        "lane {}: nothing was heard of {} for {} s: is the broker up?",
        view.lane.0,
        sources.iter().map(name).collect::<Vec<_>>().join(", "),
        UNANSWERED_AFTER / 1_000
    );
    Some(NotReady { code: ReasonCode::LogUnanswered, lane: Some(view.lane), message })
}

/// Returns what an operator should know of one lane's checkpoints: the last is old although epochs
/// were committed since.
#[must_use]
pub fn checkpoint_warning(view: &LaneView, now: ProcessingTime) -> Option<String> {
    let checkpoints = view.checkpoints.as_ref()?;
    let since = checkpoints.last.as_ref().map_or(view.phase_since, |last| last.at);
    let age = now.saturating_sub(since);
    let has_committed = view.committed_at.is_some_and(|at| at > since);
    (view.phase == Phase::Running && has_committed && age > checkpoints.every.saturating_mul(3))
        .then(|| {
            format!(
                "lane {}: no checkpoint was taken for {} s; expected one every {} s",
                view.lane.0,
                age / 1_000,
                checkpoints.every / 1_000
            )
        })
}

#[cfg(test)]
mod tests {
    use dovetail_core::{
        dead_letter::Reason,
        record::{InputIndex, Partition},
        state::{StateSize, StoreReads},
    };

    use super::*;

    fn running() -> LaneView {
        let mut view = LaneView::new(LaneId(3), 0);
        view.enter(Phase::Running, 5);
        view
    }

    fn codes(view: &LaneView, now: i64) -> Vec<&'static str> {
        lane_reasons(view, 100, now).into_iter().map(|reason| reason.code.name()).collect()
    }

    #[test]
    fn a_lane_that_is_not_acquired_is_not_ready() {
        assert_eq!(codes(&LaneView::new(LaneId(3), 0), 10), ["not_acquired"]);
        assert!(codes(&running(), 10).is_empty());
    }

    #[test]
    fn an_epoch_open_ten_times_too_long_is_a_reason() {
        let mut view = running();
        view.open_since = Some(1_000);
        assert!(codes(&view, 2_000).is_empty());
        assert_eq!(codes(&view, 2_001), ["epoch_open"]);
    }

    #[test]
    fn a_source_that_is_unknown_at_one_place_for_too_long_is_a_reason() {
        let names = Names { inputs: vec!["orders".to_owned()], ..Names::default() };
        let mut view = running();
        let mut stand = |now: i64, condition, position| {
            let source = SourceStatus {
                source: Source { input: InputIndex(0), partition: Partition(2) },
                condition,
                position,
                watermark: 0,
                is_idle: false,
                is_holder: false,
                held_since: None,
                has_records: true,
                loading: None,
                is_waiting: false,
            };
            let status = LaneStatus {
                epoch: None,
                watermark: 0,
                processing_time: now,
                sources: vec![source],
                firing: None,
                timers_pending: 0,
                all_idle: false,
                state: StateSize::default(),
                reads: StoreReads::default(),
                revision: String::new(),
            };
            view.stand(status, now);
            unanswered_reason(&view, &names, now).map(|reason| reason.message)
        };
        assert_eq!(stand(0, SourceCondition::Unknown, 7), None);
        // It moves: between two looks it was read on.
        assert_eq!(stand(11_000, SourceCondition::Unknown, 8), None);
        assert_eq!(stand(21_000, SourceCondition::Unknown, 8), None);
        let said = stand(21_001, SourceCondition::Unknown, 8).unwrap();
        assert_eq!(said, "lane 3: nothing was heard of orders[2] for 10 s: is the broker up?");
        assert_eq!(stand(21_002, SourceCondition::AtEnd, 8), None);
        assert_eq!(stand(40_000, SourceCondition::Unknown, 8), None, "anew");
    }

    #[test]
    fn more_than_one_percent_of_failed_calls_is_a_reason_for_a_minute() {
        let mut view = running();
        let mut report = EpochReport {
            calls: 100,
            failures: vec![(Reason::PluginTrap, 1)],
            ..Default::default()
        };
        view.count(&report, 1, 1_000);
        assert!(codes(&view, 1_000).is_empty());
        report.calls = 99;
        view.count(&report, 1, 2_000);
        assert_eq!(codes(&view, 2_000), ["failed_calls"]);
        assert!(codes(&view, 63_000).is_empty());
    }
}
