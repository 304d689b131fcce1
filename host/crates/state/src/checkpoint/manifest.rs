//! Format: a checkpoint's manifest, JSON, format 1.
//!
//! Numbers that JSON readers may round are text: hashes and the attempt, in lower-case hex. Times
//! are ms. Unknown fields are refused: a later format has another number.

use dovetail_core::{
    checkpoint::{CheckpointFile, CheckpointId, Manifest},
    epoch::{Attempt, Epoch, LaneId, SourceState},
    record::{InputIndex, Partition, Source},
};
use serde::{Deserialize, Serialize};

use crate::identity::IdentityJson;

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestJson {
    format: u32,
    lane: u16,
    epoch: u64,
    attempt: String,
    hash: String,
    journal_next: i64,
    created_at_ms: i64,
    watermark_ms: i64,
    revision: String,
    previous: Option<String>,
    identity: IdentityJson,
    sources: Vec<SourceJson>,
    files: Vec<FileJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceJson {
    input: u16,
    partition: u16,
    position: i64,
    watermark_ms: i64,
    is_idle: bool,
    is_ended: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileJson {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Why bytes are no manifest of this format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Another format.
    #[error("format {0}, this version reads format {FORMAT}: use the version that wrote it")]
    Format(u64),
    /// Not what it must be.
    #[error("{0}")]
    Damaged(String),
}

/// Writes a manifest.
#[must_use]
pub fn encode(manifest: &Manifest) -> Vec<u8> {
    let json = ManifestJson {
        format: FORMAT,
        lane: manifest.id.lane.0,
        epoch: manifest.id.epoch.0,
        attempt: format!("{:032x}", manifest.id.attempt.0),
        hash: format!("{:016x}", manifest.hash),
        journal_next: manifest.journal_next,
        created_at_ms: manifest.created_at,
        watermark_ms: manifest.watermark,
        revision: manifest.revision.clone(),
        previous: manifest.previous.map(|(epoch, attempt)| {
            CheckpointId { lane: manifest.id.lane, epoch, attempt }.to_string()
        }),
        identity: IdentityJson::of(&manifest.identity),
        sources: manifest.sources.iter().map(source).collect(),
        files: manifest.files.iter().map(file).collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&json).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn source(source: &SourceState) -> SourceJson {
    SourceJson {
        input: source.source.input.0,
        partition: source.source.partition.0,
        position: source.position,
        watermark_ms: source.watermark,
        is_idle: source.is_idle,
        is_ended: source.is_ended,
    }
}

fn file(file: &CheckpointFile) -> FileJson {
    FileJson { name: file.name.clone(), bytes: file.bytes, sha256: file.hash.to_string() }
}

/// Reads a manifest.
///
/// # Errors
///
/// When the bytes are of another format or damaged.
pub fn decode(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let damaged = |error: String| ManifestError::Damaged(error);
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => return Err(ManifestError::Format(format)),
        None => return Err(damaged("expected a number `format`, found none".to_owned())),
    }
    let json: ManifestJson =
        serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let lane = LaneId(json.lane);
    let previous = match &json.previous {
        None => None,
        Some(name) => {
            let id = CheckpointId::parse(lane, name).map_err(|error| damaged(error.to_string()))?;
            Some((id.epoch, id.attempt))
        }
    };
    let attempt = Attempt(hex(&json.attempt, 32)?);
    let hash = u64::try_from(hex(&json.hash, 16)?)
        .map_err(|_too_large| damaged(format!("{} is no hash", json.hash)))?;
    Ok(Manifest {
        id: CheckpointId { lane, epoch: Epoch(json.epoch), attempt },
        hash,
        journal_next: json.journal_next,
        identity: json.identity.read().map_err(ManifestError::Damaged)?,
        sources: json.sources.iter().map(read_source).collect(),
        watermark: json.watermark_ms,
        revision: json.revision,
        created_at: json.created_at_ms,
        previous,
        files: json.files.into_iter().map(read_file).collect::<Result<_, _>>()?,
    })
}

fn hex(text: &str, digits: usize) -> Result<u128, ManifestError> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == digits);
    number.ok_or_else(|| {
        ManifestError::Damaged(format!("expected {digits} hex digits, found {text:?}"))
    })
}

fn read_source(json: &SourceJson) -> SourceState {
    SourceState {
        source: Source { input: InputIndex(json.input), partition: Partition(json.partition) },
        position: json.position,
        watermark: json.watermark_ms,
        is_idle: json.is_idle,
        is_ended: json.is_ended,
    }
}

fn read_file(json: FileJson) -> Result<CheckpointFile, ManifestError> {
    let hash = json.sha256.parse();
    let hash = hash.map_err(|error: dovetail_core::checkpoint::ForeignName| {
        ManifestError::Damaged(error.to_string())
    })?;
    Ok(CheckpointFile { name: json.name, bytes: json.bytes, hash })
}
