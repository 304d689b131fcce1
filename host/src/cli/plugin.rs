//! `dovetail plugin`.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use dovetail_admin::view::{RevisionView, StatusView};
use dovetail_core::{
    identity::kind_name,
    plugin::{ExpiryDomain, StateDescriptor},
};
use dovetail_plugin::{Artifact, COMPONENT_BYTES_MAX, GateError};
use serde_json::{Value, json};

use super::{Format, client::Where, short, terminal};
use crate::{
    config::{model::PluginLimits, units},
    failure::Failure,
    wiring::gate::PluginGate,
};

#[derive(Debug, Subcommand)]
pub(super) enum PluginCommand {
    /// Say what a component is: interface, roles, outputs, states, metrics.
    #[command(
        after_help = "Example:\n  dovetail plugin inspect my_join.wasm --config '{\"wait\":\"30m\"}'"
    )]
    Inspect(InspectArgs),
    /// Replace the plugin of a running pipeline, if it passes the gate.
    #[command(
        after_help = "Example:\n  dovetail plugin push my_join.wasm\n\nIt reads the token from state.dir of the pipeline file, or from DOVETAIL_TOKEN."
    )]
    Push(PushArgs),
    /// List the revisions that a running pipeline has seen.
    #[command(after_help = "Example:\n  dovetail plugin list --output json")]
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The component.
    wasm: PathBuf,
    /// The configuration to describe it with, as JSON: roles and outputs may depend on it.
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Args)]
pub(super) struct PushArgs {
    /// The component.
    wasm: PathBuf,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    at: Where,
    /// How to print them.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn plugin(command: PluginCommand) -> Result<(), Failure> {
    match command {
        PluginCommand::Inspect(args) => inspect(&args),
        PluginCommand::Push(args) => push(&args),
        PluginCommand::List(args) => list(&args),
    }
}

fn inspect(args: &InspectArgs) -> Result<(), Failure> {
    let artifact = Artifact::read(&args.wasm, COMPONENT_BYTES_MAX).map_err(|error| {
        let message = match &error {
            GateError::Unreadable { .. } => error.to_string(),
            _ => format!("{}: {error}", args.wasm.display()),
        };
        if args.wasm.exists() { Failure::check(message) } else { Failure::usage(message) }
    })?;
    let gate = PluginGate::new(&PluginLimits::default())?;
    let described = gate.load(&args.wasm, args.config.as_deref().unwrap_or("{}"));
    let text = match args.output {
        Format::Json => terminal::json(&as_json(&artifact, described.as_ref().ok())),
        Format::Table => as_text(&artifact, described.as_ref().ok()),
    };
    terminal::print(&text)?;
    match described {
        Err(reason) if args.config.is_none() && artifact.interface().is_some() => {
            terminal::note(&format!(
                "note: roles, outputs and states depend on its configuration: give it with --config, \
                 as JSON. Without one it says: {reason}"
            ));
            Ok(())
        }
        described => described
            .map(drop)
            .map_err(|reason| Failure::check(format!("{}: {reason}", args.wasm.display()))),
    }
}

fn as_json(artifact: &Artifact, revision: Option<&dovetail_plugin::Revision>) -> Value {
    let mut value = json!({
        "digest": artifact.digest(),
        "size_bytes": artifact.bytes().len(),
        "interface": artifact.interface().map(|version| version.to_string()),
        "imports": artifact.imports(),
        "exports": artifact.exports(),
    });
    if let Some(revision) = revision {
        let descriptor = revision.descriptor();
        value["inputs"] = json!(descriptor.inputs);
        value["broadcast"] = json!(descriptor.broadcast);
        value["outputs"] = json!(descriptor.outputs);
        value["states"] = descriptor
            .states
            .iter()
            .map(|state| {
                json!({
                    "name": state.name,
                    "kind": kind_name(state.scope, state.kind),
                    "schema_version": state.schema_version,
                    "expiry": expiry(state),
                })
            })
            .collect();
        let names = descriptor.metrics.iter().map(|metric| metric.name.as_str());
        value["metrics"] = names.collect();
    }
    value
}

fn as_text(artifact: &Artifact, revision: Option<&dovetail_plugin::Revision>) -> String {
    let interface =
        artifact.interface().map_or_else(|| "none".to_owned(), |version| version.to_string());
    let mut text = format!(
        "digest     {}\nsize       {} bytes\ninterface  dovetail:plugin {interface}\nimports    {}\n",
        artifact.digest(),
        artifact.bytes().len(),
        artifact.imports().join(", ")
    );
    let Some(revision) = revision else { return text };
    let descriptor = revision.descriptor();
    text.push_str(&format!("inputs     {}\n", descriptor.inputs.join(", ")));
    if !descriptor.broadcast.is_empty() {
        text.push_str(&format!("broadcast  {}\n", descriptor.broadcast.join(", ")));
    }
    text.push_str(&format!("outputs    {}\n", descriptor.outputs.join(", ")));
    for state in &descriptor.states {
        text.push_str(&format!(
            "state      {}: {}, schema version {}{}\n",
            state.name,
            kind_name(state.scope, state.kind),
            state.schema_version,
            expiry(state).map_or_else(String::new, |expiry| format!(", expires {expiry}"))
        ));
    }
    let metrics: Vec<&str> = descriptor.metrics.iter().map(|metric| metric.name.as_str()).collect();
    if !metrics.is_empty() {
        text.push_str(&format!("metrics    {}\n", metrics.join(", ")));
    }
    text
}

fn expiry(state: &StateDescriptor) -> Option<String> {
    let expiry = state.expiry?;
    let clock = match expiry.domain {
        ExpiryDomain::EventTime => "event time",
        ExpiryDomain::ProcessingTime => "processing time",
    };
    let renewed = if expiry.refresh_on_read { "read or write" } else { "write" };
    Some(format!("{} of {clock} after the last {renewed}", units::show_ms(expiry.after)))
}

fn push(args: &PushArgs) -> Result<(), Failure> {
    let bytes = read(&args.wasm).map_err(|error| {
        Failure::usage(format!("{} cannot be read: {error}", args.wasm.display()))
    })?;
    let client = args.at.client()?;
    let before: StatusView = client.read_as("/api/v1/status")?;
    let answer = client.post("/api/v1/plugin", &args.at.token()?, &bytes)?;
    let digest = answer.get("digest").and_then(Value::as_str).unwrap_or_default();
    let said = if digest == before.revision { "already running" } else { "every lane runs" };
    terminal::print(&format!("{said} {}\n", short(digest)))
}

/// Reads a regular file: opening a pipe would wait for its writer.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    std::fs::read(file)
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let client = args.at.client()?;
    if args.output == Format::Json {
        return terminal::print(&terminal::json(&client.get("/api/v1/plugins")?));
    }
    let revisions: Vec<RevisionView> = client.read_as("/api/v1/plugins")?;
    let rows: Vec<Vec<String>> = revisions
        .into_iter()
        .map(|revision| {
            let digest = short(&revision.digest).to_owned();
            let reason = revision.reason.unwrap_or_default();
            vec![digest, revision.state, revision.origin, revision.at, reason]
        })
        .collect();
    terminal::print(&terminal::table(&["REVISION", "IS", "FROM", "AT", "WHY"], &rows))
}
