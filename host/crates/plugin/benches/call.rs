//! What a call costs in processor time: a value and a time in, one read and one write of keyed state, no parsing.
//!
//! Goal: at most 0.6 µs of processor time for one read and one write from the overlay.

#[path = "measure/lane_parts.rs"]
mod lane_parts;
#[path = "measure/processor_time.rs"]
mod processor_time;

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use dovetail_core::{
    context::{Context, Current, Subject},
    key::Key,
    plugin::MatchFunction,
    record::{InputIndex, Partition, Record},
    state::MemoryStore,
};
use dovetail_plugin::{Engine, Gate, GateOptions, Instance, Limits};

use lane_parts::context;
use processor_time::processor_time;

fn calls(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/guests/misbehaving");
    let file = dovetail_plugin::build_guest(&folder, &mut |_| ()).expect("the guest builds");
    let engine = Engine::new().expect("this machine runs WebAssembly");
    let gate = Gate::new(&engine, GateOptions::default()).expect("imports are defined");
    let bytes = fs::read(file).expect("just written");

    criterion.bench_function("plugin/load", |bencher| {
        bencher.iter(|| gate.load_bytes(bytes.clone(), "\"\"").expect("a good plugin"));
    });

    let revision = gate.load_bytes(bytes.clone(), "\"\"").expect("a good plugin");
    let mut instance = revision.instantiate(Limits::default());
    let mut context = Some(context(&revision, Box::new(MemoryStore::default())));
    for (name, value) in [
        ("plugin/call, nothing asked", &b"nothing"[..]),
        ("plugin/call, one read and one write", b"bounce 17-bytes-of-value"),
        ("plugin/call, panic and a fresh instance", b"panic"),
    ] {
        let current = current(value);
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|calls| {
                let start = processor_time();
                for _ in 0..calls {
                    call(&mut instance, &mut context, &current);
                }
                (processor_time() - start).max(Duration::from_nanos(1))
            });
        });
    }
}

fn call(instance: &mut Instance, slot: &mut Option<Box<Context>>, current: &Current) {
    let mut context = slot.take().expect("put back by every call");
    context.begin_call(current.clone());
    let (mut context, result) = instance.process_element(context);
    if result.is_err() {
        context.undo_call();
    }
    *slot = Some(context);
}

fn current(value: &'static [u8]) -> Current {
    Current {
        subject: Subject::Record {
            input: InputIndex(0),
            role: 0,
            record: Record { value: Some(Bytes::from_static(value)), ..Record::default() },
            time: Some(1_000),
            is_late: false,
            is_broadcast: false,
        },
        key: Some(Key::new("user-1234")),
        partition: Partition(3),
        event_time: Some(1_000),
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
