//! Lanes: who owns them and how far they are, as `dovetail lanes` shows them of a running pipeline
//! and of one that does not run.

use dovetail_core::{
    epoch::{Attempt, LaneId, Owner},
    lane::{SourceCondition, SourceStatus},
};
use dovetail_runtime::{
    Handle,
    setup::Names,
    status::{LaneView, Phase},
};
use serde::{Deserialize, Serialize};

use crate::time_text::rfc3339;

/// The process that committed last.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct OwnerView {
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// When it was started.
    pub started_at: String,
    /// Its acquisition of the lane, 32 hex digits.
    pub attempt: String,
}

impl OwnerView {
    /// Returns what is shown of an owner.
    #[must_use]
    pub fn new(owner: &Owner, attempt: Attempt) -> Self {
        Self {
            host: owner.host.clone(),
            pid: owner.pid,
            started_at: rfc3339(owner.started_at),
            attempt: format!("{:032x}", attempt.0),
        }
    }
}

/// What a start without the local state would replay.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct BehindView {
    /// Epoch records behind the newest checkpoint, or all where there is none.
    pub records: u64,
    /// Their bytes; absent while a running process has not written all of them itself.
    pub bytes: Option<u64>,
}

/// The newest checkpoint of a lane.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct NewestView {
    /// Its name.
    pub name: String,
    /// The epoch whose end it holds.
    pub epoch: u64,
    /// When it was frozen, ms.
    pub at_ms: i64,
    /// The same as text.
    pub at: String,
}

impl NewestView {
    /// Returns what is shown of a checkpoint.
    #[must_use]
    pub fn new(name: String, epoch: u64, at: i64) -> Self {
        Self { name, epoch, at_ms: at, at: rfc3339(at) }
    }
}

/// One lane.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LaneRowView {
    /// The lane.
    pub lane: u16,
    /// What the process that answers does with it; absent when none answers.
    pub phase: Option<String>,
    /// The last committed epoch.
    pub epoch: Option<u64>,
    /// Who committed it.
    pub owner: Option<OwnerView>,
    /// When it was committed, ms.
    pub committed_at_ms: Option<i64>,
    /// The same as text.
    pub committed_at: Option<String>,
    /// What lies behind the newest checkpoint.
    pub journal_behind: BehindView,
    /// The newest checkpoint.
    pub checkpoint: Option<NewestView>,
    /// What it waits for, in words.
    pub waits_for: String,
}

/// The answer of `/api/v1/lanes`, and what `dovetail lanes` prints of a pipeline that does not run.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LanesView {
    /// The pipeline.
    pub pipeline: String,
    /// Whether a process has answered.
    pub running: bool,
    /// The lanes.
    pub lanes: Vec<LaneRowView>,
}

impl LanesView {
    /// Returns the lanes of a running pipeline.
    #[must_use]
    pub fn new(handle: &Handle) -> Self {
        let fatal = handle.fatal();
        let of = |lane: LaneId| {
            let cause = fatal.as_ref().filter(|cause| cause.lane.is_none_or(|it| it == lane));
            cause.map(|cause| cause.message.clone())
        };
        let names = handle.names();
        let lanes = handle.lanes();
        Self {
            pipeline: names.pipeline.clone(),
            running: true,
            lanes: lanes.iter().map(|view| row(names, view, of(view.lane))).collect(),
        }
    }
}

fn row(names: &Names, view: &LaneView, fatal: Option<String>) -> LaneRowView {
    let (records, bytes) = view.journal_behind();
    let checkpoints = view.checkpoints.as_ref();
    let newest = checkpoints.and_then(|it| it.last.as_ref().or(it.found.as_ref()));
    LaneRowView {
        lane: view.lane.0,
        phase: Some(view.phase.name().to_owned()),
        epoch: view.status.as_ref().and_then(|status| status.epoch).map(|epoch| epoch.0),
        owner: view.owner.as_ref().map(|(owner, attempt)| OwnerView::new(owner, *attempt)),
        committed_at_ms: view.committed_at,
        committed_at: view.committed_at.map(rfc3339),
        journal_behind: BehindView { records, bytes },
        checkpoint: newest.map(|it| NewestView::new(it.name.clone(), it.epoch, it.at)),
        waits_for: waits_for(names, view, fatal),
    }
}

fn waits_for(names: &Names, view: &LaneView, fatal: Option<String>) -> String {
    let since = rfc3339(view.phase_since);
    let doubt = view.last_doubt.as_deref().map_or(String::new(), |doubt| format!(": {doubt}"));
    match view.phase {
        Phase::Running => running(names, view),
        Phase::Acquiring => {
            format!("offsets and journal to be read back, since {since}{doubt}")
        }
        Phase::Waiting => format!("its next try, since {since}{doubt}"),
        Phase::Fenced => format!("word of another owner, since {since}{doubt}"),
        Phase::Stopping => "the end of its epoch, to stop".to_owned(),
        Phase::Finished => "nothing: every input has ended".to_owned(),
        Phase::Stopped => "nothing: it has stopped".to_owned(),
        Phase::Failed => fatal
            .map_or("nothing: it has failed".to_owned(), |fatal| format!("an operator: {fatal}")),
    }
}

fn running(names: &Names, view: &LaneView) -> String {
    let Some(status) = &view.status else { return "its first epoch".to_owned() };
    let name = |source: &SourceStatus| {
        format!("{}[{}]", names.input(source.source.input), source.source.partition.0)
    };
    let of = |wanted: SourceCondition| {
        let found = status.sources.iter().filter(move |source| source.condition == wanted);
        found.map(name).collect::<Vec<_>>()
    };
    let (unknown, heads) = (of(SourceCondition::Unknown), of(SourceCondition::Head));
    if !unknown.is_empty() {
        return format!("the log's answer about {}", unknown.join(", "));
    }
    let records = if heads.is_empty() { "new records" } else { "nothing: it has records" };
    let held = super::held_by(names, &status.sources);
    held.map_or(records.to_owned(), |held| format!("{records}; its time waits for {held}"))
}
