//! `keyed_co`: a keyed process function on two inputs whose records say what the handler does.

use dovetail_core::{
    context::{Context, ContextError, Subject, emit::OutputKey},
    plugin::{
        CallFailure, CallResult, FailureKind, MatchFunction, PluginDescriptor, StateDescriptor,
        StateKind, StateScope,
    },
    record::Headers,
    timers::TimerDomain,
};
use serde_json::{Value, json};

use crate::{
    case::{Case, Failure, integer, text},
    keyed::Operator,
};

const STATE: u32 = 0;

pub(super) fn run(case: &Case) -> Result<(), Failure> {
    let on_timer = match &case.config["on_timer"] {
        Value::Array(commands) => commands.clone(),
        _ => vec![json!(["emit_timer"])],
    };
    let max = case.config["max_firings_per_epoch"].as_u64().and_then(|n| u32::try_from(n).ok());
    let make =
        move || -> Box<dyn MatchFunction> { Box::new(Commanded { on_timer: on_timer.clone() }) };
    let mut operator = Operator::new(descriptor(), max.unwrap_or(u32::MAX), Box::new(make));
    let mut passed_on = operator.watermark_passed_on();
    case.check(|event| {
        let kind = text(event, 0)?;
        if operator.is_firing() && kind != "RESTORE" {
            operator.settle();
        }
        feed(&mut operator, kind, event)?;
        operator.settle();
        let mut out: Vec<Value> = Vec::new();
        for record in operator.new_outputs() {
            let value = record.value.unwrap_or_default();
            out.push(serde_json::from_slice(&value).map_err(|error| error.to_string())?);
        }
        let watermark = operator.watermark_passed_on();
        if watermark > passed_on && !operator.is_firing() {
            passed_on = watermark;
            out.push(json!(["W", watermark]));
        }
        Ok(out)
    })
}

fn feed(operator: &mut Operator, kind: &str, event: &[Value]) -> Result<(), String> {
    match kind {
        "L" | "R" => {
            let value = event.get(3).ok_or("a record has a value")?.to_string().into_bytes();
            let time = event.get(2).and_then(Value::as_i64);
            operator.record(u16::from(kind == "R"), text(event, 1)?, time, Some(value));
        }
        "WM" => {
            operator.watermark(0, integer(event, 1)?);
            operator.watermark(1, integer(event, 1)?);
        }
        "WM1" => operator.watermark(0, integer(event, 1)?),
        "WM2" => operator.watermark(1, integer(event, 1)?),
        "PT" => operator.clock(integer(event, 1)?),
        "RESTORE" => operator.restore(),
        "END" => operator.end(),
        other => return Err(format!("event {other} is not known")),
    }
    Ok(())
}

fn descriptor() -> PluginDescriptor {
    PluginDescriptor {
        inputs: vec!["L".to_owned(), "R".to_owned()],
        broadcast: Vec::new(),
        outputs: vec!["main".to_owned()],
        states: vec![StateDescriptor {
            name: "value".to_owned(),
            kind: StateKind::Value,
            scope: StateScope::Keyed,
            schema_version: 1,
            expiry: None,
        }],
        metrics: Vec::new(),
    }
}

/// Handlers that run the commands of a record, or of `on_timer`.
struct Commanded {
    on_timer: Vec<Value>,
}

impl MatchFunction for Commanded {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let value = context.record().and_then(|record| record.value.clone()).unwrap_or_default();
        let commands: Vec<Value> = serde_json::from_slice(&value).unwrap_or_default();
        let result = run_all(&commands, &mut context);
        (context, result)
    }

    fn on_timer(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = run_all(&self.on_timer, &mut context);
        (context, result)
    }

    fn renew(&mut self) {}
}

fn run_all(commands: &[Value], context: &mut Context) -> CallResult {
    let failure = |message| CallFailure { kind: FailureKind::Error, message };
    for command in commands {
        let command =
            command.as_array().ok_or_else(|| failure("a command is a list".to_owned()))?;
        run_one(command, context).map_err(failure)?;
    }
    Ok(())
}

fn run_one(command: &[Value], context: &mut Context) -> Result<(), String> {
    let (key, time) = {
        let key = context.key().map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        (key.unwrap_or_default(), context.current().event_time)
    };
    let put_out = |context: &mut Context, value: &Value| {
        let bytes = json!(["O", key, value, time]).to_string().into_bytes();
        context.emit(0, OutputKey::Current, Some(&bytes), &Headers::default(), time)
    };
    let done = match text(command, 0)? {
        "emit" => put_out(context, command.get(1).ok_or("emit needs a value")?),
        "emit_wm" => {
            let watermark = json!(context.watermark());
            put_out(context, &watermark)
        }
        "emit_state" => {
            let state = read(context).map_err(|error| error.to_string())?;
            put_out(context, &state)
        }
        "emit_timer" => emit_timer(context, &key),
        "put" => {
            let value = command.get(1).ok_or("put needs a value")?.to_string();
            context.state_put(STATE, b"", value.as_bytes())
        }
        "clear" => context.state_remove(STATE, b""),
        "et" => context.timer_register(TimerDomain::Event, integer(command, 1)?, 0),
        "det" => context.timer_delete(TimerDomain::Event, integer(command, 1)?, 0),
        "pt" => context.timer_register(TimerDomain::Processing, integer(command, 1)?, 0),
        "dpt" => context.timer_delete(TimerDomain::Processing, integer(command, 1)?, 0),
        "et_wm" => {
            let at = context.watermark().saturating_add(integer(command, 1)?);
            context.timer_register(TimerDomain::Event, at, 0)
        }
        "et_ts" => {
            let at = time.unwrap_or(0).saturating_add(integer(command, 1)?);
            context.timer_register(TimerDomain::Event, at, 0)
        }
        "if_state" => {
            let has_state = read(context).map_err(|error| error.to_string())? != Value::Null;
            let branch = command.get(if has_state { 1 } else { 2 }).and_then(Value::as_array);
            return run_all(branch.map_or(&[], Vec::as_slice), context)
                .map_err(|failure| failure.message);
        }
        other => return Err(format!("command {other} is not known")),
    };
    done.map_err(|error| error.to_string())
}

fn read(context: &mut Context) -> Result<Value, ContextError> {
    let bytes = context.state_get(STATE, b"")?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null))
}

fn emit_timer(context: &mut Context, key: &str) -> Result<(), ContextError> {
    let (domain, time) = match &context.current().subject {
        Subject::Timer { domain: TimerDomain::Event, time, .. } => ("event", *time),
        Subject::Timer { .. } | Subject::Record { .. } | Subject::None => ("proc", None),
    };
    let bytes = json!(["T", key, domain, time]).to_string().into_bytes();
    context.emit(0, OutputKey::Current, Some(&bytes), &Headers::default(), time)
}
