//! The identity of a pipeline: what may not change between two starts.
//!
//! Written with the genesis epoch and compared at every start. Everything that is not here may
//! change and takes effect with the next epoch.

use crate::{
    plugin::{PluginDescriptor, StateKind, StateScope},
    state::StateId,
    wire::{Reader, WireError, Writer},
};

/// The key type of an input that every lane reads whole: its keys are compared with nothing.
pub const BROADCAST: &str = "broadcast";

/// One input's part of the identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputIdentity {
    /// The input's name.
    pub name: String,
    /// The topic or file.
    pub topic: String,
    /// How many partitions it had.
    pub partitions: u16,
    /// How its keys are compared; [`BROADCAST`] for one that every lane reads whole.
    pub key_type: String,
}

impl InputIdentity {
    /// Returns whether every lane reads all of it.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        self.key_type == BROADCAST
    }
}

/// One state's part of the identity; its place is its durable number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateIdentity {
    /// The state's name.
    pub name: String,
    /// Its shape.
    pub kind: StateKind,
    /// Whose it is.
    pub scope: StateScope,
    /// The version of what the plugin writes into it.
    pub schema_version: u16,
}

/// What may not change between two starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The cluster's id, or the embedded log's.
    pub cluster_id: String,
    /// How many lanes.
    pub lanes: u16,
    /// The inputs in order.
    pub inputs: Vec<InputIdentity>,
    /// The states in the order of their durable numbers.
    pub states: Vec<StateIdentity>,
}

/// One line of the table that a refused start prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// What was committed.
    pub committed: String,
    /// What this start says.
    pub configured: String,
}

impl Identity {
    /// Returns what differs; empty when the same pipeline goes on.
    #[must_use]
    pub fn differences(&self, configured: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, committed: &str, configured: &str| {
            if committed != configured {
                differences.push(Difference {
                    what: what.to_owned(),
                    committed: committed.to_owned(),
                    configured: configured.to_owned(),
                });
            }
        };
        compare("pipeline", &self.pipeline, &configured.pipeline);
        compare("cluster id", &self.cluster_id, &configured.cluster_id);
        compare("lanes", &self.lanes.to_string(), &configured.lanes.to_string());
        let inputs = self.inputs.len().max(configured.inputs.len());
        for at in 0..inputs {
            let (before, after) = (self.inputs.get(at), configured.inputs.get(at));
            let name = before.or(after).map_or("", |input| &input.name);
            compare(&format!("input {name}"), &describe_input(before), &describe_input(after));
        }
        differences.extend(self.state_differences(&configured.states));
        differences
    }

    /// Returns how the states of a revision differ; their order does not matter.
    #[must_use]
    pub fn state_differences(&self, states: &[StateIdentity]) -> Vec<Difference> {
        let mut differences = Vec::new();
        for before in &self.states {
            let after = states.iter().find(|state| state.name == before.name);
            if after != Some(before) {
                differences.push(Difference {
                    what: format!("state {}", before.name),
                    committed: describe_state(Some(before)),
                    configured: describe_state(after),
                });
            }
        }
        for after in states {
            if !self.states.iter().any(|state| state.name == after.name) {
                differences.push(Difference {
                    what: format!("state {}", after.name),
                    committed: describe_state(None),
                    configured: describe_state(Some(after)),
                });
            }
        }
        differences
    }

    /// Returns the durable number of each of a revision's states, or how they differ.
    ///
    /// # Errors
    ///
    /// When the revision declares other states.
    pub fn state_ids(
        &self,
        descriptor: &PluginDescriptor,
    ) -> Result<Vec<StateId>, Vec<Difference>> {
        let states = states_of(descriptor);
        let differences = self.state_differences(&states);
        if !differences.is_empty() {
            return Err(differences);
        }
        Ok(states
            .iter()
            .filter_map(|state| self.states.iter().position(|known| known.name == state.name))
            .map(|at| StateId(u16::try_from(at).expect("a plugin has fewer than 2^16 states")))
            .collect())
    }
}

/// Returns the states of a revision in the order of `describe`.
#[must_use]
pub fn states_of(descriptor: &PluginDescriptor) -> Vec<StateIdentity> {
    descriptor
        .states
        .iter()
        .map(|state| StateIdentity {
            name: state.name.clone(),
            kind: state.kind,
            scope: state.scope,
            schema_version: state.schema_version,
        })
        .collect()
}

fn describe_input(input: Option<&InputIdentity>) -> String {
    input.map_or_else(
        || "none".to_owned(),
        |input| {
            let InputIdentity { name, topic, partitions, key_type } = input;
            if input.is_broadcast() {
                return format!("{name} = {topic}, {partitions} partitions, broadcast");
            }
            format!("{name} = {topic}, {partitions} partitions, {key_type} keys")
        },
    )
}

fn describe_state(state: Option<&StateIdentity>) -> String {
    state.map_or_else(
        || "none".to_owned(),
        |state| {
            let name = kind_name(state.scope, state.kind);
            format!("{name}, schema version {}", state.schema_version)
        },
    )
}

/// Returns the name of a state's shape, for people and in durable JSON.
#[must_use]
pub fn kind_name(scope: StateScope, kind: StateKind) -> &'static str {
    match (scope, kind) {
        (StateScope::Keyed, StateKind::Value) => "value",
        (StateScope::Keyed, StateKind::Map) => "map",
        (StateScope::Broadcast, StateKind::Value) => "broadcast value",
        (StateScope::Broadcast, StateKind::Map) => "broadcast map",
    }
}

/// Appends an identity (format: part of an epoch record).
pub(crate) fn encode(identity: &Identity, writer: &mut Writer) {
    writer.bytes(identity.pipeline.as_bytes());
    writer.bytes(identity.cluster_id.as_bytes());
    writer.u64(identity.lanes.into());
    writer.len(identity.inputs.len());
    for input in &identity.inputs {
        writer.bytes(input.name.as_bytes());
        writer.bytes(input.topic.as_bytes());
        writer.u64(input.partitions.into());
        writer.bytes(input.key_type.as_bytes());
    }
    writer.len(identity.states.len());
    for state in &identity.states {
        writer.bytes(state.name.as_bytes());
        writer.u8(match (state.scope, state.kind) {
            (StateScope::Keyed, StateKind::Value) => 0,
            (StateScope::Keyed, StateKind::Map) => 1,
            (StateScope::Broadcast, StateKind::Value) => 2,
            (StateScope::Broadcast, StateKind::Map) => 3,
        });
        writer.u64(state.schema_version.into());
    }
}

/// Reads an identity.
pub(crate) fn decode(reader: &mut Reader) -> Result<Identity, WireError> {
    let pipeline = reader.text("a pipeline")?;
    let cluster_id = reader.text("a cluster id")?;
    let lanes = reader.u16("a number of lanes")?;
    let mut inputs = Vec::new();
    for _ in 0..reader.count("the inputs")? {
        inputs.push(InputIdentity {
            name: reader.text("an input's name")?,
            topic: reader.text("an input's topic")?,
            partitions: reader.u16("an input's partitions")?,
            key_type: reader.text("an input's key type")?,
        });
    }
    let mut states = Vec::new();
    for _ in 0..reader.count("the states")? {
        let name = reader.text("a state's name")?;
        let (scope, kind) = match reader.u8("a state's kind")? {
            0 => (StateScope::Keyed, StateKind::Value),
            1 => (StateScope::Keyed, StateKind::Map),
            2 => (StateScope::Broadcast, StateKind::Value),
            3 => (StateScope::Broadcast, StateKind::Map),
            _ => return Err(WireError("a state's kind")),
        };
        states.push(StateIdentity {
            name,
            kind,
            scope,
            schema_version: reader.u16("a state's schema version")?,
        });
    }
    Ok(Identity { pipeline, cluster_id, lanes, inputs, states })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of state, and a broadcast input.
    fn identity() -> Identity {
        let state = |name: &str, scope, kind| StateIdentity {
            name: name.to_owned(),
            kind,
            scope,
            schema_version: 1,
        };
        Identity {
            pipeline: "p".to_owned(),
            cluster_id: String::new(),
            lanes: 2,
            inputs: vec![InputIdentity {
                name: "rules".to_owned(),
                topic: "t".to_owned(),
                partitions: 3,
                key_type: BROADCAST.to_owned(),
            }],
            states: vec![
                state("a", StateScope::Keyed, StateKind::Value),
                state("b", StateScope::Keyed, StateKind::Map),
                state("c", StateScope::Broadcast, StateKind::Value),
                state("d", StateScope::Broadcast, StateKind::Map),
            ],
        }
    }

    #[test]
    fn the_bytes_of_an_identity_are_fixed_and_come_back_as_written() {
        let mut writer = Writer::default();
        encode(&identity(), &mut writer);
        let states = b"\x04\x01a\x00\x01\x01b\x01\x01\x01c\x02\x01\x01d\x03\x01";
        let expected = [&b"\x01p\x00\x02\x01\x05rules\x01t\x03\x09broadcast"[..], states].concat();
        assert_eq!(writer.0, expected);
        let mut reader = Reader(writer.0.into());
        assert_eq!(decode(&mut reader), Ok(identity()));
    }

    #[test]
    fn a_state_or_input_that_became_broadcast_is_told_in_words() {
        let mut keyed = identity();
        keyed.inputs[0].key_type = "string".to_owned();
        keyed.states[2].scope = StateScope::Keyed;
        let told: Vec<_> = keyed
            .differences(&identity())
            .into_iter()
            .map(|found| format!("{}: {} to {}", found.what, found.committed, found.configured))
            .collect();
        assert_eq!(
            told,
            [
                "input rules: rules = t, 3 partitions, string keys to rules = t, 3 partitions, \
                 broadcast",
                "state c: value, schema version 1 to broadcast value, schema version 1",
            ]
        );
    }
}
