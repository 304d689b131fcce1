//! `versioned_store`: the SDK's versioned table, in a plugin that does what its records say.
//!
//! How old a version or a read may be is the plugin's rule. The newest time that was seen, over all
//! keys, is the lane's watermark.

use dovetail_core::plugin::MatchFunction;
use dovetail_sdk::{
    Context, NativePlugin, Output, Plugin, Record, Result as SdkResult, Setup, fail,
    join::VersionedTable,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    case::{Case, Failure, integer, text},
    keyed::Operator,
};

pub(super) fn run(case: &Case) -> Result<(), Failure> {
    let config = json!({ "retention": case.config["retention"], "grace": case.config["grace"] });
    let config = config.to_string();
    let open = move || NativePlugin::<Versions>::new(config.clone());
    let broken = |message| Failure::Broken { step: 0, message };
    let (_, descriptor) = open().map_err(|error| broken(error.to_string()))?;
    let make = move || -> Box<dyn MatchFunction> { Box::new(open().expect("it opened before").0) };
    let mut operator = Operator::new(descriptor, u32::MAX, Box::new(make));
    case.check(|event| {
        match text(event, 0)? {
            "RESTORE" => operator.restore(),
            name @ ("PUT" | "GET") => {
                let is_put = name == "PUT";
                let time = integer(event, if is_put { 3 } else { 2 })?;
                let command = Value::Array(event.to_vec()).to_string().into_bytes();
                if is_put {
                    [0, 1].into_iter().for_each(|at| operator.watermark(at, time));
                    operator.settle();
                }
                operator.record(0, text(event, 1)?, Some(time), Some(command));
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

#[derive(Deserialize)]
struct Config {
    retention: i64,
    grace: i64,
}

struct Versions {
    config: Config,
    main: Output,
    versions: VersionedTable<String>,
}

impl Plugin for Versions {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> SdkResult<Self> {
        setup.input("L");
        setup.input("R");
        let versions = setup.state("versions").versioned_table();
        Ok(Self { config, main: setup.output("main"), versions })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> SdkResult {
        let event: Vec<Value> = serde_json::from_slice(record.value.unwrap_or_default())?;
        let Some(time) = record.time else { fail!("a command has a time") };
        let newest = context.watermark();
        let answer = if event.first().is_some_and(|name| name == "PUT") {
            if time < newest.saturating_sub(self.config.grace) {
                json!(["VALIDTO", "NOT_PUT"])
            } else {
                let value = (!event[2].is_null()).then(|| event[2].to_string());
                json!(["VALIDTO", self.versions.put(context, time, value.as_ref())?])
            }
        } else {
            let version = self.versions.as_of(context, time)?;
            let is_over = time < newest.saturating_sub(self.config.retention);
            // The latest version is never too old to be read.
            let version = version.filter(|version| !is_over || version.valid_to.is_none());
            let value = version.and_then(|version| version.value).unwrap_or("null".to_owned());
            json!(["V", serde_json::from_str::<Value>(&value)?])
        };
        self.main.emit_json(context, &answer)
    }
}
