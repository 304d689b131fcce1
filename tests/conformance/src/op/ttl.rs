//! `ttl`: expiry of value and map state in processing time, through a lane.

use dovetail_core::{
    context::{Context, ContextError, emit::OutputKey},
    plugin::{
        CallFailure, CallResult, Expiry, ExpiryDomain, FailureKind, MatchFunction,
        PluginDescriptor, StateDescriptor, StateKind, StateScope,
    },
    record::Headers,
};
use serde_json::{Value, json};

use crate::{
    case::{Case, Failure, integer, text},
    keyed::Operator,
};

const VALUE: u32 = 0;
const MAP: u32 = 1;

pub(super) fn run(case: &Case) -> Result<(), Failure> {
    let expiry = Expiry {
        after: case.config["ttl"].as_i64().unwrap_or(i64::MAX),
        domain: ExpiryDomain::ProcessingTime,
        refresh_on_read: case.config["update"] == "read",
    };
    let make = || -> Box<dyn MatchFunction> { Box::new(Store) };
    let mut operator = Operator::new(descriptor(expiry), u32::MAX, Box::new(make));
    case.check(|event| {
        match text(event, 0)? {
            "PT" => operator.clock(integer(event, 1)?),
            "RESTORE" => operator.restore(),
            "PUT" | "GET" | "KEYS" => {
                let command = Value::Array(event.to_vec()).to_string().into_bytes();
                operator.record(0, text(event, 1)?, Some(0), Some(command));
            }
            other => return Err(format!("event {other} is not known")),
        }
        operator.settle();
        let values = operator.new_outputs().into_iter().map(|record| {
            serde_json::from_slice(&record.value.unwrap_or_default())
                .map_err(|error| error.to_string())
        });
        values.collect()
    })
}

fn descriptor(expiry: Expiry) -> PluginDescriptor {
    let state = |name: &str, kind| StateDescriptor {
        name: name.to_owned(),
        kind,
        scope: StateScope::Keyed,
        schema_version: 1,
        expiry: Some(expiry),
    };
    PluginDescriptor {
        inputs: vec!["L".to_owned(), "R".to_owned()],
        broadcast: Vec::new(),
        outputs: vec!["main".to_owned()],
        states: vec![state("value", StateKind::Value), state("map", StateKind::Map)],
        metrics: Vec::new(),
    }
}

/// A handler that does what its record says to the state of its key.
struct Store;

impl MatchFunction for Store {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let value = context.record().and_then(|record| record.value.clone()).unwrap_or_default();
        let event: Vec<Value> = serde_json::from_slice(&value).unwrap_or_default();
        let result = obey(&event, &mut context)
            .map_err(|error| CallFailure { kind: FailureKind::Error, message: error.to_string() });
        (context, result)
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        (context, Ok(()))
    }

    fn renew(&mut self) {}
}

fn obey(event: &[Value], context: &mut Context) -> Result<(), ContextError> {
    let is_value = |length| event.len() == length;
    let entry = event.get(2).and_then(Value::as_str).unwrap_or_default().as_bytes();
    match event.first().and_then(Value::as_str) {
        Some("PUT") if is_value(3) => put(context, VALUE, b"", &event[2]),
        Some("PUT") => put(context, MAP, entry, &event[3]),
        Some("GET") if is_value(2) => get(context, VALUE, b""),
        Some("GET") => get(context, MAP, entry),
        _ => {
            let page = context.state_scan(MAP, b"", None, None, 1_000)?;
            let entries = page.entries.iter().map(|(entry, _)| String::from_utf8_lossy(entry));
            let entries: Vec<_> = entries.map(|entry| json!(entry)).collect();
            answer(context, &json!(entries))
        }
    }
}

fn put(context: &mut Context, state: u32, entry: &[u8], value: &Value) -> Result<(), ContextError> {
    if value.is_null() {
        return context.state_remove(state, entry);
    }
    context.state_put(state, entry, value.to_string().as_bytes())
}

fn get(context: &mut Context, state: u32, entry: &[u8]) -> Result<(), ContextError> {
    let bytes = context.state_get(state, entry)?;
    let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    answer(context, &value.unwrap_or(Value::Null))
}

fn answer(context: &mut Context, value: &Value) -> Result<(), ContextError> {
    let bytes = json!(["V", value]).to_string().into_bytes();
    context.emit(0, OutputKey::Current, Some(&bytes), &Headers::default(), None)
}
