//! What `describe` returns: JSON on the wire, [`PluginDescriptor`] inside.
//!
//! Keeps true: names are unique, short and printable; counts and durations are bounded. So nothing
//! behind this checks them again.

use std::collections::BTreeSet;

use dovetail_core::plugin::{
    Expiry, ExpiryDomain, MetricDescriptor, MetricKind, PluginDescriptor, StateDescriptor,
    StateKind, StateScope,
};
use serde::Deserialize;

/// Most inputs, outputs, states or metrics of a plugin.
const NAMES_MAX: usize = 1000;
/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 200;

#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(rename = "version")]
    _version: u64,
    inputs: Vec<String>,
    #[serde(default)]
    broadcast: Vec<String>,
    outputs: Vec<String>,
    #[serde(default)]
    states: Vec<State>,
    #[serde(default)]
    metrics: Vec<Metric>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    name: String,
    kind: Kind,
    #[serde(default)]
    scope: Scope,
    schema_version: u16,
    #[serde(default)]
    expiry: Option<ExpiryText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Value,
    Map,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Keyed,
    Broadcast,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiryText {
    after_ms: i64,
    domain: Domain,
    refresh: Refresh,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Domain {
    Event,
    Processing,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Refresh {
    Write,
    ReadAndWrite,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    name: String,
    kind: MetricText,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum MetricText {
    Counter,
    Gauge,
    Histogram,
}

/// Returns the descriptor that a description (the JSON that `describe` returns) stands for.
///
/// # Errors
///
/// A sentence that says what is wrong with the description: not JSON of version 1, unknown fields,
/// repeated or unusable names, too many of them, an expiry below 1 ms or of a broadcast state, or
/// broadcast inputs that are no inputs or leave none.
pub fn parse_description(json: &str) -> Result<PluginDescriptor, String> {
    let version: Version = serde_json::from_str(json)
        .map_err(|error| format!("expected a JSON object with a `version`: {error}"))?;
    if version.version != 1 {
        let found = version.version;
        return Err(format!("it has version {found}, this host reads version 1"));
    }
    let read: Description = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let descriptor = PluginDescriptor {
        inputs: read.inputs,
        broadcast: read.broadcast,
        outputs: read.outputs,
        states: read.states.into_iter().map(state).collect::<Result<_, _>>()?,
        metrics: read.metrics.into_iter().map(metric).collect(),
    };
    if descriptor.inputs.is_empty() {
        return Err("`inputs` is empty: a plugin reads at least one input".to_owned());
    }
    check_names("inputs", descriptor.inputs.iter())?;
    check_names("broadcast", descriptor.broadcast.iter())?;
    if let Some(name) = descriptor.broadcast.iter().find(|name| !descriptor.inputs.contains(name)) {
        return Err(format!("`broadcast` names `{name}`, which is none of the `inputs`"));
    }
    if descriptor.broadcast.len() == descriptor.inputs.len() {
        return Err("every input is in `broadcast`: a plugin reads at least one that is not".into());
    }
    check_names("outputs", descriptor.outputs.iter())?;
    check_names("states", descriptor.states.iter().map(|state| &state.name))?;
    check_names("metrics", descriptor.metrics.iter().map(|metric| &metric.name))?;
    Ok(descriptor)
}

fn state(state: State) -> Result<StateDescriptor, String> {
    let kind = match state.kind {
        Kind::Value => StateKind::Value,
        Kind::Map => StateKind::Map,
    };
    let scope = match state.scope {
        Scope::Keyed => StateScope::Keyed,
        Scope::Broadcast => StateScope::Broadcast,
    };
    if scope == StateScope::Broadcast && state.expiry.is_some() {
        let name = &state.name;
        return Err(format!("state `{name}` is broadcast and does not expire: leave `expiry` out"));
    }
    let expiry = match state.expiry {
        Some(text) if text.after_ms < 1 => {
            return Err(format!(
                "state `{}` expires after {} ms: expected at least 1; leave `expiry` out for a \
                 state that does not expire",
                state.name, text.after_ms
            ));
        }
        text => text.map(expiry),
    };
    let (name, schema_version) = (state.name, state.schema_version);
    Ok(StateDescriptor { name, kind, scope, schema_version, expiry })
}

fn expiry(text: ExpiryText) -> Expiry {
    Expiry {
        after: text.after_ms,
        domain: match text.domain {
            Domain::Event => ExpiryDomain::EventTime,
            Domain::Processing => ExpiryDomain::ProcessingTime,
        },
        refresh_on_read: matches!(text.refresh, Refresh::ReadAndWrite),
    }
}

fn metric(metric: Metric) -> MetricDescriptor {
    let kind = match metric.kind {
        MetricText::Counter => MetricKind::Counter,
        MetricText::Gauge => MetricKind::Gauge,
        MetricText::Histogram => MetricKind::Histogram,
    };
    MetricDescriptor { name: metric.name, kind }
}

fn check_names<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(format!(
                "`{list}` has the name {:?}: expected 1 to {NAME_BYTES_MAX} printable bytes",
                name.chars().take(40).collect::<String>()
            ));
        }
        if !seen.insert(name) {
            return Err(format!("`{list}` names `{name}` twice"));
        }
        if seen.len() > NAMES_MAX {
            return Err(format!("`{list}` has more than {NAMES_MAX} names"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        parse_description(json).unwrap_err()
    }

    #[test]
    fn description_of_the_interface_document_is_read() {
        let json = r#"{"version":1,"inputs":["orders","rules"],"broadcast":["rules"],
            "outputs":["main"],
            "states":[{"name":"by_class","kind":"map","scope":"broadcast","schema_version":1},
                      {"name":"latest","kind":"map","schema_version":1,
                       "expiry":{"after_ms":1000,"domain":"processing","refresh":"read_and_write"}}],
            "metrics":[{"name":"matched","kind":"histogram"}]}"#;
        let expiry =
            Expiry { after: 1000, domain: ExpiryDomain::ProcessingTime, refresh_on_read: true };
        let expected = PluginDescriptor {
            inputs: vec!["orders".to_owned(), "rules".to_owned()],
            broadcast: vec!["rules".to_owned()],
            outputs: vec!["main".to_owned()],
            states: vec![
                StateDescriptor {
                    name: "by_class".to_owned(),
                    kind: StateKind::Map,
                    scope: StateScope::Broadcast,
                    schema_version: 1,
                    expiry: None,
                },
                StateDescriptor {
                    name: "latest".to_owned(),
                    kind: StateKind::Map,
                    scope: StateScope::Keyed,
                    schema_version: 1,
                    expiry: Some(expiry),
                },
            ],
            metrics: vec![MetricDescriptor {
                name: "matched".to_owned(),
                kind: MetricKind::Histogram,
            }],
        };
        assert_eq!(parse_description(json), Ok(expected));
    }

    #[test]
    fn another_version_is_named_before_unknown_fields_are() {
        assert_eq!(
            refused(r#"{"version":2,"streams":[]}"#),
            "it has version 2, this host reads version 1"
        );
    }

    #[test]
    fn unknown_field_is_named_with_what_is_expected() {
        let text = refused(r#"{"version":1,"inputs":["a"],"outputs":[],"timer":[]}"#);
        assert!(text.contains("unknown field `timer`"), "{text}");
        assert!(text.contains("`states`"), "{text}");
    }

    #[test]
    fn name_given_twice_is_refused() {
        let text = refused(r#"{"version":1,"inputs":["a","a"],"outputs":[]}"#);
        assert_eq!(text, "`inputs` names `a` twice");
    }

    #[test]
    fn empty_list_of_inputs_is_refused() {
        let text = refused(r#"{"version":1,"inputs":[],"outputs":[]}"#);
        assert!(text.contains("at least one input"), "{text}");
    }

    #[test]
    fn expiry_below_one_millisecond_is_refused_with_the_state() {
        let text = refused(
            r#"{"version":1,"inputs":["a"],"outputs":[],"states":[{"name":"s","kind":"value",
                "schema_version":1,"expiry":{"after_ms":0,"domain":"event","refresh":"write"}}]}"#,
        );
        assert!(text.starts_with("state `s` expires after 0 ms"), "{text}");
    }

    #[test]
    fn broadcast_inputs_and_states_are_checked() {
        let text = refused(r#"{"version":1,"inputs":["a"],"broadcast":["b"],"outputs":[]}"#);
        assert_eq!(text, "`broadcast` names `b`, which is none of the `inputs`");
        let text = refused(r#"{"version":1,"inputs":["a"],"broadcast":["a"],"outputs":[]}"#);
        assert!(text.starts_with("every input is in `broadcast`"), "{text}");
        let text = refused(
            r#"{"version":1,"inputs":["a"],"outputs":[],"states":[{"name":"s","kind":"value",
                "scope":"broadcast","schema_version":1,
                "expiry":{"after_ms":5,"domain":"event","refresh":"write"}}]}"#,
        );
        assert!(text.starts_with("state `s` is broadcast and does not expire"), "{text}");
    }

    #[test]
    fn more_than_a_thousand_names_are_refused() {
        let names: Vec<String> = (0..1001).map(|number| format!("\"o{number}\"")).collect();
        let json = format!(r#"{{"version":1,"inputs":["a"],"outputs":[{}]}}"#, names.join(","));
        assert_eq!(refused(&json), "`outputs` has more than 1000 names");
    }

    #[test]
    fn control_characters_in_a_name_are_refused() {
        let text = refused(r#"{"version":1,"inputs":["a\nb"],"outputs":[]}"#);
        assert!(text.contains("printable"), "{text}");
    }
}
