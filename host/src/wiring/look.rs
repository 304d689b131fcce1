//! Looks at a pipeline that does not run here: its journal, offsets and checkpoints.
//!
//! Keeps: nothing is acquired, made or changed, so that looking disturbs nobody.

use dovetail_admin::{
    time_text::rfc3339,
    view::{BehindView, LaneRowView, LanesView, NewestView, OwnerView},
};
use dovetail_core::{epoch::LaneId, identity::InputIdentity, log::Log};
use dovetail_runtime::{
    CheckpointSetup,
    look::{Sighting, look},
};

use super::{
    Delivery,
    backend::Backend,
    checkpoints,
    lanes::{self, Beginning},
    roles::Fit,
};
use crate::{
    config::{Loaded, model::LogConfig},
    failure::Failure,
};

/// How many lanes there are, and over which inputs.
struct Outline {
    lanes: u16,
    inputs: Vec<InputIdentity>,
    has_journal: bool,
}

/// Looks at every lane of a pipeline.
///
/// # Errors
///
/// When the log or what it holds cannot be read.
pub fn lanes(loaded: &Loaded) -> Result<LanesView, Failure> {
    let config = &loaded.config;
    let mut backend = super::open(loaded, Delivery::ExactlyOnce)?;
    let view = |lanes| LanesView { pipeline: config.pipeline.clone(), running: false, lanes };
    let Some(outline) = outline(loaded, backend.as_mut())? else { return Ok(view(Vec::new())) };
    // Looking must not make the store.
    let exists = config.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.store.exists());
    let checkpoints = if exists { checkpoints::setup(config)? } else { None };
    let mut rows = Vec::new();
    for lane in (0..outline.lanes).map(LaneId) {
        let sources = lanes::sources(lane, outline.lanes, &outline.inputs);
        // Nothing is written.
        let fit = Fit { roles: Vec::new(), outputs: Vec::new(), late_output: None };
        let mut log = backend.lane_log(lane, outline.lanes, &sources, &fit)?;
        rows.push(row(lane, log.as_mut(), checkpoints.as_ref(), outline.has_journal));
    }
    Ok(view(rows))
}

/// Returns what the genesis record or a checkpoint says; where neither is there, what a first start
/// would choose. `None` = there is nothing to look at.
fn outline(loaded: &Loaded, backend: &mut dyn Backend) -> Result<Option<Outline>, Failure> {
    let config = &loaded.config;
    let identity = match backend.beginning()? {
        Beginning::Genesis(identity) => identity,
        Beginning::Trimmed(epoch) => checkpoints::identity(config, epoch)?,
        // Its journal and offsets are one file.
        Beginning::Nothing if matches!(config.log, LogConfig::Embedded(_)) => return Ok(None),
        Beginning::Nothing => {
            let ground = super::look(backend, loaded)?;
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let lanes = lanes::count(config.lanes, ground.partitions, cores);
            let inputs = super::identity::inputs(config, &ground);
            return Ok(Some(Outline { lanes, inputs, has_journal: false }));
        }
    };
    Ok(Some(Outline { lanes: identity.lanes, inputs: identity.inputs, has_journal: true }))
}

fn row(
    lane: LaneId,
    log: &mut dyn Log,
    checkpoints: Option<&CheckpointSetup>,
    has_journal: bool,
) -> LaneRowView {
    let empty = LaneRowView {
        lane: lane.0,
        phase: None,
        epoch: None,
        owner: None,
        committed_at_ms: None,
        committed_at: None,
        journal_behind: BehindView { records: 0, bytes: None },
        checkpoint: None,
        waits_for: String::new(),
    };
    let sighting = match look(log, lane, checkpoints, has_journal) {
        Ok(sighting) => sighting,
        Err(error) => return LaneRowView { waits_for: format!("an operator: {error}"), ..empty },
    };
    let last = sighting.last.as_ref();
    let at = last.map(|record| record.processing_time);
    let checkpoint = sighting.checkpoint.as_ref();
    LaneRowView {
        epoch: last.map(|record| record.epoch.0),
        owner: last.map(|record| OwnerView::new(&record.owner, record.attempt)),
        committed_at_ms: at,
        committed_at: at.map(rfc3339),
        journal_behind: BehindView {
            records: sighting.records_behind,
            bytes: Some(sighting.bytes_behind),
        },
        checkpoint: checkpoint.map(|manifest| {
            NewestView::new(manifest.id.to_string(), manifest.id.epoch.0, manifest.created_at)
        }),
        waits_for: waits_for(&sighting),
        ..empty
    }
}

fn waits_for(sighting: &Sighting) -> String {
    match (&sighting.contradiction, &sighting.checkpoint_error) {
        (Some(halt), _) => format!("an operator: {halt}"),
        (None, Some(error)) => format!("a process to run it, and {error}"),
        (None, None) => "a process to run it".to_owned(),
    }
}
