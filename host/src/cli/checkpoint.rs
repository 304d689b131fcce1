//! `dovetail checkpoint`.
//!
//! Listing, inspecting and verifying read the store itself, whether the pipeline runs or not; only
//! taking one asks the running pipeline.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::{Args, Subcommand};
use dovetail_admin::view::CheckpointTriggeredView;
use dovetail_core::{
    checkpoint::{CheckpointId, CheckpointStore, Manifest},
    epoch::{LaneId, codec},
    identity::kind_name,
    state::{ExpiryTable, StateStore as _, row},
    timers::{Timer, TimerDomain},
};
use dovetail_runtime::{
    checkpoint::{restore, verify},
    setup::expiry_of,
};
use dovetail_state::{Claim, MemoryBudget, StateDirectory, checkpoint::objects::ObjectCheckpoints};
use serde_json::{Value, json};

use super::{FileArgs, Format, client::Where, terminal};
use crate::{config::Config, failure::Failure, wiring::checkpoints};

/// Lanes are numbered in 16 bits; listing stops behind the last one of the identity.
const LANES_WITHOUT_MANIFEST: u16 = 1;
/// What a database that is only counted may take, bytes.
const MEMORY_BYTES: usize = 64 << 20;

#[derive(Debug, Subcommand)]
pub(super) enum CheckpointCommand {
    /// List the checkpoints of every lane.
    #[command(after_help = "Example:\n  dovetail checkpoint list --output json")]
    List(ListArgs),
    /// Let every lane of a running pipeline take a checkpoint now.
    #[command(
        after_help = "Example:\n  dovetail checkpoint trigger\n\nIt reads the token from state.dir of the pipeline file, or from DOVETAIL_TOKEN."
    )]
    Trigger(TriggerArgs),
    /// Say what a checkpoint holds: positions, files, live entries per kind.
    #[command(
        after_help = "Examples:\n  dovetail checkpoint inspect\n  dovetail checkpoint inspect --lane 2 --name 00000000000000004711-0123456789abcdef0123456789abcdef"
    )]
    Inspect(OneArgs),
    /// Read every file of checkpoints and compare size and hash.
    #[command(after_help = "Example:\n  dovetail checkpoint verify")]
    Verify(OneArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    file: FileArgs,
    /// How to print them.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
pub(super) struct TriggerArgs {
    #[command(flatten)]
    at: Where,
    /// How to print what was published.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
pub(super) struct OneArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Only this lane.
    #[arg(long)]
    lane: Option<u16>,
    /// Which one; the newest of each lane when not said.
    #[arg(long, requires = "lane")]
    name: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn checkpoint(command: CheckpointCommand) -> Result<(), Failure> {
    match command {
        CheckpointCommand::List(args) => list(&args),
        CheckpointCommand::Trigger(args) => trigger(&args),
        CheckpointCommand::Inspect(args) => inspect(&args),
        CheckpointCommand::Verify(args) => verify_all(&args),
    }
}

fn open(config: &Config) -> Result<ObjectCheckpoints, Failure> {
    let Some(checkpoint) = &config.checkpoint else {
        return Err(Failure::configuration(
            "the pipeline file names no `checkpoint.store`: nothing is uploaded",
        ));
    };
    if !checkpoint.store.exists() {
        // Looking must not make it.
        let store = checkpoint.store.display();
        return Err(Failure::usage(format!("there is no checkpoint store {store} yet")));
    }
    checkpoints::open(checkpoint)
}

/// Returns the checkpoints of every lane, newest first.
fn all(store: &ObjectCheckpoints, lane: Option<u16>) -> Result<Vec<CheckpointId>, Failure> {
    let list = |lane| store.list(LaneId(lane)).map_err(|error| Failure::check(error.to_string()));
    if let Some(lane) = lane {
        return list(lane);
    }
    let mut ids = list(0)?;
    let readable = ids.iter().find_map(|id| store.manifest(*id).ok());
    let lanes = readable.map_or(LANES_WITHOUT_MANIFEST, |manifest| manifest.identity.lanes);
    for lane in 1..lanes {
        ids.extend(list(lane)?);
    }
    Ok(ids)
}

/// Returns what the arguments name.
fn chosen(store: &ObjectCheckpoints, args: &OneArgs) -> Result<Vec<CheckpointId>, Failure> {
    let mut ids = all(store, args.lane)?;
    match &args.name {
        Some(name) => ids.retain(|id| id.to_string() == *name),
        None => ids.dedup_by_key(|id| id.lane),
    }
    if ids.is_empty() {
        return Err(Failure::check(format!("{} has no such checkpoint", store.place())));
    }
    Ok(ids)
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let store = open(&args.file.load()?.config)?;
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for id in all(&store, None)? {
        let manifest = store.manifest(id);
        values.push(match &manifest {
            Ok(manifest) => summary(manifest),
            Err(error) => {
                json!({ "lane": id.lane.0, "name": id.to_string(), "error": error.to_string() })
            }
        });
        let (at, bytes, files) = match &manifest {
            Ok(manifest) => (
                time(manifest.created_at),
                terminal::brief_bytes(manifest.bytes()),
                manifest.files.len().to_string(),
            ),
            Err(error) => (error.to_string(), String::new(), String::new()),
        };
        let (lane, epoch) = (id.lane.0.to_string(), id.epoch.0.to_string());
        rows.push(vec![lane, epoch, at, bytes, files, id.to_string()]);
    }
    match args.output {
        Format::Json => terminal::print(&terminal::json(&Value::Array(values))),
        Format::Table if rows.is_empty() => {
            terminal::print(&format!("no checkpoints in {}\n", store.place()))
        }
        Format::Table => terminal::print(&terminal::table(
            &["LANE", "EPOCH", "TAKEN", "SIZE", "FILES", "NAME"],
            &rows,
        )),
    }
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_unwritable| ms.to_string(), |time| time.to_string())
}

fn summary(manifest: &Manifest) -> Value {
    json!({
        "lane": manifest.id.lane.0,
        "name": manifest.id.to_string(),
        "epoch": manifest.id.epoch.0,
        "created_at_ms": manifest.created_at,
        "bytes": manifest.bytes(),
        "files": manifest.files.len(),
        "journal_next": manifest.journal_next,
        "watermark_ms": manifest.watermark,
        "revision": manifest.revision,
    })
}

fn trigger(args: &TriggerArgs) -> Result<(), Failure> {
    let answer = args.at.client()?.post("/api/v1/checkpoint", &args.at.token()?, &[])?;
    let lanes: Vec<CheckpointTriggeredView> = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::internal(format!("the answer cannot be understood: {error}")))?;
    match args.output {
        Format::Json => terminal::print(&terminal::json(&answer))?,
        Format::Table => {
            let line = |lane: &CheckpointTriggeredView| match (&lane.checkpoint, &lane.error) {
                (Some(it), _) => format!(
                    "lane {}: {} ({}, {} of it new, {} ms)\n",
                    lane.lane,
                    it.name,
                    terminal::brief_bytes(it.bytes),
                    terminal::brief_bytes(it.new_bytes),
                    it.ms
                ),
                (None, error) => {
                    format!("lane {}: none: {}\n", lane.lane, error.as_deref().unwrap_or_default())
                }
            };
            terminal::print(&lanes.iter().map(line).collect::<String>())?;
        }
    }
    let failed = lanes.iter().filter(|lane| lane.checkpoint.is_none()).count();
    if failed == 0 && !lanes.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("{failed} of {} lanes took no checkpoint", lanes.len())))
}

fn verify_all(args: &OneArgs) -> Result<(), Failure> {
    let store = open(&args.file.load()?.config)?;
    let ids = match args.name {
        Some(_) => chosen(&store, args)?,
        None => all(&store, args.lane)?,
    };
    let mut values = Vec::new();
    let mut text = String::new();
    let mut damaged = 0;
    for id in &ids {
        let result = store.manifest(*id).and_then(|manifest| verify(&store, &manifest));
        let error = result.err().map(|error| error.to_string());
        damaged += u32::from(error.is_some());
        let told = error.as_deref().unwrap_or("ok");
        text.push_str(&format!("lane {} {id}: {told}\n", id.lane.0));
        values.push(json!({ "lane": id.lane.0, "name": id.to_string(), "ok": error.is_none(), "error": error }));
    }
    match args.output {
        Format::Json => terminal::print(&terminal::json(&Value::Array(values)))?,
        Format::Table => terminal::print(&text)?,
    }
    if ids.is_empty() {
        return Err(Failure::check(format!("{} has no checkpoints", store.place())));
    }
    if damaged > 0 {
        let of = ids.len();
        return Err(Failure::check(format!("{damaged} of {of} checkpoints cannot be restored")));
    }
    Ok(())
}

fn inspect(args: &OneArgs) -> Result<(), Failure> {
    let loaded = args.file.load()?;
    let store = open(&loaded.config)?;
    // Lengths of expiry are the plugin's; without it entries count until they are removed.
    let fitted = args.file.fit().ok();
    let descriptor = fitted.as_ref().map(|fitted| fitted.revision.descriptor());
    let mut values = Vec::new();
    let mut text = String::new();
    for id in chosen(&store, args)? {
        let manifest = store.manifest(id).map_err(|error| Failure::check(error.to_string()))?;
        let state_ids = descriptor.and_then(|it| manifest.identity.state_ids(it).ok());
        let expiry = match (descriptor, state_ids) {
            (Some(descriptor), Some(ids)) => expiry_of(descriptor, &ids),
            _ => ExpiryTable::new([]),
        };
        let counts = count(&store, &manifest, &expiry)?;
        text.push_str(&describe(&loaded.config, &manifest, &counts));
        let mut value = summary(&manifest);
        value["entries"] = json!(counts.iter().cloned().collect::<BTreeMap<_, _>>());
        value["expired_are_left_out"] = json!(descriptor.is_some());
        value["positions"] = positions(&loaded.config, &manifest);
        values.push(value);
    }
    if descriptor.is_none() {
        terminal::note("note: the plugin could not be read, so expired entries count as live");
    }
    match args.output {
        Format::Json => terminal::print(&terminal::json(&Value::Array(values))),
        Format::Table => terminal::print(&text),
    }
}

fn input_name(config: &Config, index: u16) -> String {
    let input = config.inputs.get(usize::from(index));
    input.map_or_else(|| index.to_string(), |input| input.name.clone())
}

fn positions(config: &Config, manifest: &Manifest) -> Value {
    let position = |source: &dovetail_core::epoch::SourceState| {
        json!({
            "input": input_name(config, source.source.input.0),
            "partition": source.source.partition.0,
            "position": source.position,
            "watermark_ms": source.watermark,
        })
    };
    manifest.sources.iter().map(position).collect()
}

fn describe(config: &Config, manifest: &Manifest, counts: &[(String, u64)]) -> String {
    let mut text = format!(
        "lane {} {}\n  taken {} at epoch {}, revision {}\n  {} in {}, journal goes on at {}\n",
        manifest.id.lane.0,
        manifest.id,
        time(manifest.created_at),
        manifest.id.epoch.0,
        super::short(&manifest.revision),
        terminal::brief_bytes(manifest.bytes()),
        terminal::count(manifest.files.len() as u64, "file"),
        manifest.journal_next,
    );
    for source in &manifest.sources {
        let input = input_name(config, source.source.input.0);
        let (partition, position) = (source.source.partition.0, source.position);
        text.push_str(&format!("  {input}[{partition}] at {position}\n"));
    }
    for (kind, count) in counts {
        text.push_str(&format!("  {kind}: {count} live\n"));
    }
    text
}

/// Restores into a folder of its own and counts what is live there, by kind.
fn count(
    store: &dyn CheckpointStore,
    manifest: &Manifest,
    expiry: &ExpiryTable,
) -> Result<Vec<(String, u64)>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::check(error.to_string());
    let folder = tempfile::tempdir()?;
    let claim = Claim {
        pipeline: manifest.identity.pipeline.clone(),
        cluster_id: manifest.identity.cluster_id.clone(),
        since: String::new(),
    };
    let budget = MemoryBudget::split(MEMORY_BYTES);
    let directory =
        StateDirectory::open(folder.path(), &claim, 1, budget).map_err(|e| failed(&e))?;
    let lane = manifest.id.lane;
    let into = directory.restore_lane(lane).map_err(|error| failed(&error))?;
    restore(store, manifest, into, &mut || {}).map_err(|error| failed(&error))?;
    let mut database = directory.open_lane(lane).map_err(|error| failed(&error))?;
    let head = database.head().map_err(|error| failed(&error))?.unwrap_or_default();
    let clocks = codec::decode_stored(&head).map_err(|error| failed(&error))?.record.clocks();
    let states = &manifest.identity.states;
    let mut counts: Vec<(String, u64)> = states
        .iter()
        .map(|it| (format!("{} {}", kind_name(it.scope, it.kind), it.name), 0))
        .collect();
    let (event, processing) = (counts.len(), counts.len() + 1);
    counts.push(("event timers".to_owned(), 0));
    counts.push(("processing timers".to_owned(), 0));
    let mut visit = |row: &[u8], value: &[u8]| {
        let place = match (row::state_of(row), Timer::parse(row)) {
            (Some(_), _) if expiry.is_row_expired(row, value, clocks) => None,
            (Some(state), _) => Some(usize::from(state.0)),
            (None, Some((TimerDomain::Event, _))) => Some(event),
            (None, Some(_)) => Some(processing),
            (None, None) => row::parse_broadcast_row(row).map(|(state, _)| usize::from(state.0)),
        };
        if let Some((_, count)) = place.and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
        ControlFlow::Continue(())
    };
    database.scan(&[], &[0xff; 8], &mut visit).map_err(|error| failed(&error))?;
    Ok(counts)
}
