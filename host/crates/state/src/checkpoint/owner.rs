//! Format: the file `owner.json` of a checkpoint store, format 1: whose checkpoints these are.
//!
//! Written once, with the first use of the store, and never changed. A name says nothing about the
//! machine: whoever goes on with the pipeline elsewhere is the same owner.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;

/// Whose checkpoints a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOwner {
    /// The pipeline's name.
    pub pipeline: String,
    /// The cluster's id, or the embedded log's.
    pub cluster_id: String,
}

impl fmt::Display for StoreOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipeline `{}` on cluster `{}`", self.pipeline, self.cluster_id)
    }
}

/// Why bytes are no owner of this format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Another format.
    #[error("format {0}, this version reads format {FORMAT}: use the version that wrote it")]
    Format(u64),
    /// Not what it must be.
    #[error("{0}")]
    Damaged(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerJson {
    format: u32,
    pipeline: String,
    cluster_id: String,
}

/// Writes an owner.
#[must_use]
pub fn encode(owner: &StoreOwner) -> Vec<u8> {
    let StoreOwner { pipeline, cluster_id } = owner.clone();
    let json = OwnerJson { format: FORMAT, pipeline, cluster_id };
    let mut bytes = serde_json::to_vec_pretty(&json).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Reads an owner.
///
/// # Errors
///
/// When the bytes are of another format or damaged.
pub fn decode(bytes: &[u8]) -> Result<StoreOwner, OwnerError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let damaged = |error: serde_json::Error| OwnerError::Damaged(error.to_string());
    let Format { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format != u64::from(FORMAT) {
        return Err(OwnerError::Format(format));
    }
    let json: OwnerJson = serde_json::from_slice(bytes).map_err(damaged)?;
    Ok(StoreOwner { pipeline: json.pipeline, cluster_id: json.cluster_id })
}
