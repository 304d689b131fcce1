//! A plugin that does whatever the record's value tells it to, good or bad.
//!
//! For tests of the host: written straight against the interface, so that nothing of the SDK stands
//! between a bad idea and the host. `describe` and `open` misbehave by configuration.
//!
//! Keeps true: every behaviour is one word, listed in `behave`, so a test reads as what it does.

mod bindings {
    //! Generated from `wit/v1`.
    #![allow(
        unsafe_code,
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        clippy::allow_attributes,
        clippy::mem_forget,
        clippy::all,
        clippy::pedantic,
        reason = "generated code"
    )]
    wit_bindgen::generate!({ path: "../../../wit/v1", world: "plugin" });
    use super::Misbehaving;
    export!(Misbehaving);
}

use std::{cell::Cell, hint::black_box};

use bindings::{
    Guest, TimerDomain,
    dovetail::plugin::{context, output, state, telemetry, timers},
};

/// The plugin.
struct Misbehaving;

const VALUE: u32 = 0;
const MAP: u32 = 1;
const AGING: u32 = 2;
const MAIN: u32 = 0;

const DESCRIPTION: &str = r#"{"version":1,"inputs":["records"],"outputs":["main","late"],
"states":[{"name":"value","kind":"value","schema_version":1},
          {"name":"map","kind":"map","schema_version":1},
          {"name":"aging","kind":"value","schema_version":1,
           "expiry":{"after_ms":3600000,"domain":"event","refresh":"write"}}],
"metrics":[{"name":"seen","kind":"counter"}]}"#;

thread_local! {
    /// Calls of this instance: what a pure plugin would not look at.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

impl Guest for Misbehaving {
    fn describe(config: String) -> Result<String, String> {
        install_panic_hook();
        match word(&config) {
            "describe-error" => Err("`wait` must be longer than 0".to_owned()),
            "describe-trap" => trap(),
            "describe-panic" => stop("describe has no idea"),
            "describe-loop" => spin(),
            "describe-memory" => allocate(),
            "describe-no-json" => Ok("inputs: [records]".to_owned()),
            "describe-state" => {
                state::put(VALUE, &[], b"too early");
                Ok(DESCRIPTION.to_owned())
            }
            "describe-huge" => Ok("x".repeat(40 << 20)),
            "describe-literal" => Ok(literal(&config).to_owned()),
            _ => Ok(DESCRIPTION.to_owned()),
        }
    }

    fn open(config: String) -> Result<(), String> {
        install_panic_hook();
        match word(&config) {
            "open-error" => Err("no such currency: XXX".to_owned()),
            "open-trap" => trap(),
            "open-loop" => spin(),
            "open-emit" => {
                output::emit(MAIN, None, Some(b"too early"), &[], None);
                Ok(())
            }
            "open-log" => {
                telemetry::log(telemetry::Level::Info, "opened");
                telemetry::update_metric(0, 1.0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn process_element(
        input: u32,
        value: Option<Vec<u8>>,
        time: Option<i64>,
    ) -> Result<(), String> {
        CALLS.set(CALLS.get() + 1);
        let Some(value) = value else {
            emit_text(&format!("no value, time {time:?}"));
            return Ok(());
        };
        let (behaviour, rest) = split(&value);
        behave(behaviour, rest, input, time)
    }

    fn on_timer(time: i64, domain: TimerDomain, tag: u64) -> Result<(), String> {
        match tag {
            13 => stop("thirteen"),
            14 => timers::register_event_time_timer(time, tag),
            _ => {}
        }
        let text = format!("{domain:?} {time} {tag}");
        output::emit(MAIN, None, Some(text.as_bytes()), &[], Some(time));
        Ok(())
    }
}

/// Does what the first word of a record says.
fn behave(behaviour: &[u8], rest: &[u8], input: u32, time: Option<i64>) -> Result<(), String> {
    match behaviour {
        // Good.
        b"bounce" => bounce(rest),
        b"put" => state::put(VALUE, &[], rest),
        b"remove" => state::remove(VALUE, &[]),
        b"emit-value" => {
            let value = state::get(VALUE, &[]);
            output::emit(MAIN, None, value.as_deref(), &[], time);
        }
        b"map" => fill_map(rest),
        b"emit-map" => emit_map(rest),
        b"trim-map" => state::remove_range(MAP, b"b", Some(b"d")),
        b"timers" => register_timers(),
        b"timer-loop" => timers::register_event_time_timer(100, 14),
        b"context" => emit_context(input, time),
        b"headers" => emit_headers(),
        b"forward" => output::forward(1),
        b"put-aging" => state::put(AGING, &[], rest),
        b"emit-aging" => {
            let value = state::get(AGING, &[]);
            output::emit(MAIN, None, value.as_deref(), &[], time);
        }
        b"calls" => emit_text(&CALLS.get().to_string()),
        b"put-calls" => state::put(VALUE, &[], CALLS.get().to_string().as_bytes()),
        b"" => emit_text("an empty value"),
        b"nothing" => {}
        // Bad.
        b"panic" => stop("the plugin lost its way"),
        b"trap" => trap(),
        b"error" => {
            return Err(format!("{} is not a currency", String::from_utf8_lossy(rest)));
        }
        b"huge-error" => return Err("e".repeat(1 << 20)),
        b"loop" => spin(),
        b"loop-in-imports" => loop {
            black_box(state::get(VALUE, &[]));
        },
        b"allocate" => allocate(),
        b"recurse" => {
            black_box(recurse(1));
        }
        b"recurse-large" => {
            black_box(recurse_with_large_frames(1));
        }
        b"emit-without-end" => loop {
            output::emit(MAIN, None, Some(b"again"), &[], None);
        },
        b"emit-many-bytes" => loop {
            output::emit(MAIN, None, Some(&[0; 1 << 16]), &[], None);
        },
        b"emit-huge" => output::emit(MAIN, None, Some(&vec![0; 2 << 20]), &[], None),
        b"emit-gigantic" => output::emit(MAIN, None, Some(&vec![0; 40 << 20]), &[], None),
        b"many-headers" => emit_many_headers(),
        b"put-huge" => state::put(VALUE, &[], &vec![0; 9 << 20]),
        b"log-huge" => telemetry::log(telemetry::Level::Warn, &"l".repeat(1 << 20)),
        b"unknown-state" => state::put(77, &[], b"x"),
        b"unknown-output" => output::emit(77, None, None, &[], None),
        b"unknown-metric" => telemetry::update_metric(77, 1.0),
        b"scan-value" => {
            state::scan(VALUE, &[], None, None, 10);
        }
        b"entry-in-value" => state::put(VALUE, b"entry", b"x"),
        other => {
            return Err(format!("no such behaviour: {}", String::from_utf8_lossy(other)));
        }
    }
    Ok(())
}

/// One read and one write, as cheap as a plugin can be.
fn bounce(rest: &[u8]) {
    let previous = state::get(VALUE, &[]);
    black_box(&previous);
    state::put(VALUE, &[], rest);
}

fn fill_map(rest: &[u8]) {
    for entry in rest.split(|byte| *byte == b' ').filter(|entry| !entry.is_empty()) {
        state::put(MAP, entry, &entry.to_ascii_uppercase());
    }
}

/// Emits the map, read in pages of two.
fn emit_map(from: &[u8]) {
    let mut text = String::new();
    let mut after = None;
    loop {
        let page = state::scan(MAP, from, None, after.as_deref(), 2);
        for (entry, value) in &page.entries {
            text.push_str(&String::from_utf8_lossy(entry));
            text.push_str(&String::from_utf8_lossy(value));
        }
        after = page.entries.last().map(|(entry, _)| entry.clone());
        if !page.has_more {
            return emit_text(&text);
        }
        text.push('|');
    }
}

fn register_timers() {
    timers::register_event_time_timer(100, 1);
    timers::register_event_time_timer(200, 2);
    timers::delete_event_time_timer(200, 2);
    timers::register_processing_time_timer(300, 3);
    timers::register_processing_time_timer(400, 4);
    timers::delete_processing_time_timer(400, 4);
    timers::continue_with(5);
}

fn emit_context(input: u32, time: Option<i64>) {
    let key = context::key().map(|key| String::from_utf8_lossy(&key).into_owned());
    let position = context::current_position();
    emit_text(&format!(
        "input {input} time {time:?} key {key:?} watermark {} now {} late {} at {}:{}",
        context::watermark(),
        context::processing_time(),
        context::is_late(),
        position.partition,
        position.offset,
    ));
}

/// Emits the record's own headers and one more.
fn emit_headers() {
    let mut headers = context::headers();
    headers.push(context::Header { name: "added".to_owned(), value: None });
    output::emit(MAIN, Some(b"other"), None, &headers, None);
}

fn emit_many_headers() {
    let header = context::Header { name: "n".repeat(1 << 10), value: Some(vec![0; 1 << 10]) };
    output::emit(MAIN, None, None, &vec![header; 10_000], None);
}

fn emit_text(text: &str) {
    output::emit(MAIN, None, Some(text.as_bytes()), &[], None);
}

fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| telemetry::panic(&info.to_string())));
}

#[expect(clippy::panic, reason = "panicking is what it is for")]
fn stop(message: &str) -> ! {
    panic!("{message}")
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    std::process::abort()
}

fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn allocate() -> ! {
    let mut hoard = Vec::new();
    loop {
        hoard.push(vec![1_u8; 1 << 20]);
        black_box(&hoard);
    }
}

/// Runs out of the machine's stack.
#[expect(unconditional_recursion, reason = "running out of stack is what it is for")]
fn recurse(depth: u64) -> u64 {
    recurse(depth + 1) + black_box(depth)
}

/// Runs out of the stack that lies in the guest's memory.
#[expect(unconditional_recursion, reason = "running out of stack is what it is for")]
fn recurse_with_large_frames(depth: u64) -> u64 {
    let frame = black_box([depth; 128]);
    recurse_with_large_frames(depth + 1) + black_box(frame)[0]
}

fn split(value: &[u8]) -> (&[u8], &[u8]) {
    match value.iter().position(|byte| *byte == b' ') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &[]),
    }
}

/// The configuration is a JSON string whose first word is a behaviour.
fn word(config: &str) -> &str {
    config.trim_matches('"').split(' ').next().unwrap_or("")
}

/// What follows the first word of a configuration that is given as it is.
fn literal(config: &str) -> &str {
    config.trim_matches('"').split_once(' ').map_or("", |(_, rest)| rest)
}
