//! The misbehaving guest, and a lane's context to call it with.

use std::{
    fs,
    path::Path,
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use dovetail_core::{
    context::{Context, ContextParts, Current, Subject},
    key::Key,
    options::{CallLimits, OutputOptions},
    plugin::{CallResult, MatchFunction, PluginDescriptor},
    record::{InputIndex, Partition, Record},
    state::{MemoryStore, StateId},
    timers::TimerDomain,
};
use dovetail_plugin::{Engine, Gate, GateError, GateOptions, Instance, Limits, Revision};

pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new().unwrap());

/// Returns the guest's component, built by the first caller.
pub(crate) fn component() -> &'static [u8] {
    static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
    COMPONENT.get_or_init(|| {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/guests/misbehaving");
        let mut said = Vec::new();
        let file = dovetail_plugin::build_guest(&folder, &mut |line| said.push(line.to_owned()));
        fs::read(file.unwrap_or_else(|error| panic!("{error}\n{}", said.join("\n")))).unwrap()
    })
}

/// Returns the guest with names in its bytes replaced by others of the same length.
pub(crate) fn component_with(replacements: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = component().to_vec();
    for (old, new) in replacements {
        assert_eq!(old.len(), new.len(), "{old} and {new} must have the same length");
        let mut found = 0;
        for at in 0..bytes.len() - old.len() {
            if bytes[at..].starts_with(old.as_bytes()) {
                bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
                found += 1;
            }
        }
        assert!(found > 0, "{old} is not in the guest");
    }
    bytes
}

pub(crate) fn gate() -> Gate {
    Gate::new(&ENGINE, GateOptions { limits: limits(), ..GateOptions::default() }).unwrap()
}

/// Returns the revision of the guest for a configuration.
pub(crate) fn load(config: &str) -> Result<Revision, GateError> {
    gate().load_bytes(component().to_vec(), &format!("\"{config}\""))
}

/// Returns a gate for guests that loop.
pub(crate) fn impatient_gate() -> Gate {
    Gate::new(&ENGINE, GateOptions { limits: impatient(), ..GateOptions::default() }).unwrap()
}

/// A deadline that a busy machine does not exceed by itself.
pub(crate) fn limits() -> Limits {
    Limits { deadline: Duration::from_secs(60), ..Limits::default() }
}

/// For guests that loop: a test of one takes a moment.
pub(crate) fn impatient() -> Limits {
    Limits { deadline: Duration::from_millis(300), ..Limits::default() }
}

/// A lane as far as a plugin sees it.
pub(crate) struct Lane {
    pub(crate) instance: Instance,
    context: Option<Box<Context>>,
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self::with(&load("").unwrap(), CallLimits::default())
    }

    pub(crate) fn with(revision: &Revision, limits: CallLimits) -> Self {
        let context = context(revision.descriptor(), limits);
        Self { instance: revision.instantiate(self::limits()), context: Some(context) }
    }

    pub(crate) fn context(&mut self) -> &mut Context {
        self.context.as_mut().unwrap()
    }

    /// Handles a record of key `k`; a failed call is undone, as the lane does it.
    pub(crate) fn handle(&mut self, value: &str) -> CallResult {
        self.handle_record(Some(Key::new("k")), value)
    }

    pub(crate) fn handle_record(&mut self, key: Option<Key>, value: &str) -> CallResult {
        let record = Record {
            offset: 42,
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..Record::default()
        };
        self.call(Current {
            subject: Subject::Record {
                input: InputIndex(0),
                role: 0,
                record,
                time: Some(1_000),
                is_late: false,
                is_broadcast: false,
            },
            key,
            partition: Partition(3),
            event_time: Some(1_000),
        })
    }

    pub(crate) fn fire(&mut self, domain: TimerDomain, time: Option<i64>, tag: u64) -> CallResult {
        self.call(Current {
            subject: Subject::Timer { time, domain, tag },
            key: Some(Key::new("k")),
            partition: Partition(3),
            event_time: time,
        })
    }

    pub(crate) fn call(&mut self, current: Current) -> CallResult {
        let mut context = self.context.take().unwrap();
        let is_timer = matches!(current.subject, Subject::Timer { .. });
        context.begin_call(current);
        let (mut context, result) = if is_timer {
            self.instance.on_timer(context)
        } else {
            self.instance.process_element(context)
        };
        if result.is_err() {
            context.undo_call();
        }
        self.context = Some(context);
        result
    }

    /// Returns what the keyed state `value` holds for key `k`.
    pub(crate) fn stored(&mut self) -> Option<Bytes> {
        self.context().state_get(0, &[]).unwrap()
    }

    /// Returns the values emitted so far.
    pub(crate) fn emitted(&mut self) -> Vec<String> {
        let outputs = self.context().outputs();
        let values = outputs.iter().map(|record| record.value.unwrap_or(b"(tombstone)").to_vec());
        values.map(|value| String::from_utf8(value).unwrap()).collect()
    }
}

fn context(descriptor: &PluginDescriptor, limits: CallLimits) -> Box<Context> {
    let outputs = descriptor.outputs.iter().map(|name| OutputOptions {
        name: name.clone(),
        topic: format!("topic-{name}"),
        max_record_bytes: 1 << 20,
        requires_key: false,
    });
    let state_ids = (0..u16::try_from(descriptor.states.len()).unwrap()).map(StateId).collect();
    let parts = ContextParts {
        store: Box::new(MemoryStore::default()),
        inputs: descriptor.inputs.clone(),
        descriptor: descriptor.clone(),
        state_ids,
        outputs: outputs.collect(),
        late_output: Some(1),
        limits,
    };
    Box::new(Context::new(parts, None))
}
