//! Format: the pipeline's identity in JSON, a part of every manifest and, with a format number, the
//! file `identity.json` of a state directory, format 1.
//!
//! A journal that is trimmed has lost its genesis record, and a checkpoint store may be lost or away:
//! local state goes on without either. The file is written before the journal is trimmed.
//!
//! Invariant: the file is there entirely or not at all.

use std::{fs, io, path::Path};

use dovetail_core::{
    identity::{Identity, InputIdentity, StateIdentity, kind_name},
    plugin::{StateKind, StateScope},
};
use serde::{Deserialize, Serialize};

use crate::directory::write_whole;

/// The format of the file that this version writes and reads.
pub const FORMAT: u32 = 1;

const FILE: &str = "identity.json";
const KINDS: [(StateScope, StateKind); 4] = [
    (StateScope::Keyed, StateKind::Value),
    (StateScope::Keyed, StateKind::Map),
    (StateScope::Broadcast, StateKind::Value),
    (StateScope::Broadcast, StateKind::Map),
];

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileJson {
    format: u32,
    identity: IdentityJson,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentityJson {
    pipeline: String,
    cluster_id: String,
    lanes: u16,
    inputs: Vec<InputJson>,
    states: Vec<StateJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputJson {
    name: String,
    topic: String,
    partitions: u16,
    key_type: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateJson {
    name: String,
    kind: String,
    schema_version: u16,
}

impl IdentityJson {
    pub(crate) fn of(identity: &Identity) -> Self {
        Self {
            pipeline: identity.pipeline.clone(),
            cluster_id: identity.cluster_id.clone(),
            lanes: identity.lanes,
            inputs: identity.inputs.iter().map(input).collect(),
            states: identity.states.iter().map(state).collect(),
        }
    }

    /// Returns what it says, or in words why it says nothing.
    pub(crate) fn read(self) -> Result<Identity, String> {
        let inputs = self.inputs.into_iter().map(|input| InputIdentity {
            name: input.name,
            topic: input.topic,
            partitions: input.partitions,
            key_type: input.key_type,
        });
        let states = self.states.into_iter().map(|state| {
            let found = KINDS.iter().find(|(scope, kind)| kind_name(*scope, *kind) == state.kind);
            let (scope, kind) =
                found.ok_or_else(|| format!("{:?} is no kind of state", state.kind))?;
            let (name, schema_version) = (state.name, state.schema_version);
            Ok(StateIdentity { name, kind: *kind, scope: *scope, schema_version })
        });
        Ok(Identity {
            pipeline: self.pipeline,
            cluster_id: self.cluster_id,
            lanes: self.lanes,
            inputs: inputs.collect(),
            states: states.collect::<Result<_, String>>()?,
        })
    }
}

fn input(input: &InputIdentity) -> InputJson {
    InputJson {
        name: input.name.clone(),
        topic: input.topic.clone(),
        partitions: input.partitions,
        key_type: input.key_type.clone(),
    }
}

fn state(state: &StateIdentity) -> StateJson {
    let (name, kind) = (state.name.clone(), kind_name(state.scope, state.kind).to_owned());
    StateJson { name, kind, schema_version: state.schema_version }
}

/// Keeps the committed identity in a state directory that this process uses.
///
/// # Errors
///
/// Where it cannot be written and why, in words.
pub fn keep(dir: &Path, identity: &Identity) -> Result<(), String> {
    if read(dir).is_ok_and(|kept| kept.as_ref() == Some(identity)) {
        return Ok(());
    }
    let json = FileJson { format: FORMAT, identity: IdentityJson::of(identity) };
    let mut text = serde_json::to_string_pretty(&json).unwrap_or_default();
    text.push('\n');
    let path = dir.join(FILE);
    write_whole(&path, 0o600, &text)
        .map_err(|error| format!("{}: keeping the pipeline's identity: {error}", path.display()))
}

/// Returns the identity that a state directory keeps; `None` = it keeps none.
///
/// # Errors
///
/// Which file cannot be read and why, in words.
pub fn read(dir: &Path) -> Result<Option<Identity>, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let path = dir.join(FILE);
    let failed = |error: String| format!("{}: {error}", path.display());
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    let found: Format =
        serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
    if found.format != u64::from(FORMAT) {
        return Err(failed(format!(
            "format {}, this version reads format {FORMAT}: use the version that wrote it",
            found.format
        )));
    }
    let json: FileJson =
        serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
    json.identity.read().map(Some).map_err(failed)
}
