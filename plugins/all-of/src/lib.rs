//! Joins one record of each of several inputs into one result per key: complete as soon as all are
//! there, partial when the rest cannot come in time any more.
//!
//! May not know: which fields the key is made of; the host gives the key. One key is one group,
//! such as an order's number.
//!
//! Invariant: a group has one result; each of its records is in that, or in `unused` (or counted),
//! and never in both.

mod config;

use dovetail_sdk::{
    Context, Counter, Error, Header, HeaderNames, Input, Message, Output, Plugin, Record, Result,
    Setup, Timer, ValueState, fail,
    result::{Shape, Side, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Partial, Unused};

/// How many inputs there can be.
const INPUTS: std::ops::RangeInclusive<usize> = 2..=8;

/// Timers: the time of a group is over; a decided key is forgotten.
const DECIDE: u64 = 0;
const FORGET: u64 = 1;

/// The plugin.
#[derive(Debug)]
pub struct AllOf {
    inputs: Vec<Input>,
    names: Vec<String>,
    main: Output,
    partial: Option<Output>,
    unused: Option<Output>,
    group: ValueState<Group>,
    wait: i64,
    remember: i64,
    template: Template,
    headers: Vec<HeaderNames>,
    complete: Counter,
    incomplete: Counter,
    unused_records: Counter,
    ignored: Counter,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(AllOf);

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Group {
    /// It waits for the rest: a part per input.
    Open(Vec<Option<Part>>),
    /// It has had its result; remembered until then.
    Decided(i64),
}

/// A record of a group: whole, since it may end in `unused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    time: i64,
    value: Vec<u8>,
    headers: Vec<Header>,
}

impl Plugin for AllOf {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let names = config.inputs;
        let is_repeated = names.iter().enumerate().any(|(at, name)| names[..at].contains(name));
        if !INPUTS.contains(&names.len()) || is_repeated {
            return Err(Error::new(
                "plugin config: `inputs` should be 2 to 8 different names, such as `[header, \
                 details, payment]`",
            ));
        }
        let inputs: Vec<Input> = names.iter().map(|name| setup.input(name)).collect();
        config.headers.check(setup)?;
        let sides: Vec<&str> = names.iter().map(String::as_str).collect();
        let words = ["status", "missing"];
        let shape = config.result.unwrap_or_else(|| Shape::whole(&sides, &words));
        Ok(Self {
            main: setup.output("main"),
            partial: (config.partial != Partial::Drop).then(|| match config.partial {
                Partial::SideOutput => setup.output("partial"),
                Partial::Emit | Partial::Drop => setup.output("main"),
            }),
            unused: (config.unused == Unused::SideOutput).then(|| setup.output("unused")),
            group: setup.state("group").value(),
            wait: config.wait.0,
            remember: config.remember.unwrap_or(config.wait).0,
            template: shape.compile(&sides, &words)?,
            headers: names.iter().map(|name| config.headers.of(name)).collect(),
            complete: setup.counter("complete"),
            incomplete: setup.counter("partial"),
            unused_records: setup.counter("unused"),
            ignored: setup.counter("ignored_records"),
            inputs,
            names,
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let Some(value) = record.value else {
            self.ignored.increment(context);
            return Ok(());
        };
        let Some(time) = record.time else {
            fail!("a record without event time cannot wait for others: give its input a `time`");
        };
        let Some(at) = self.inputs.iter().position(|input| *input == record.input) else {
            fail!("a record of an input that was not declared");
        };
        // What is no object should fail now and not when the group is complete.
        self.template.fields(at).pick(value)?;
        let before = match self.group.get(context)? {
            Some(Group::Decided(_)) => {
                self.unused_records.increment(context);
                if let Some(unused) = self.unused {
                    unused.forward(context);
                }
                return Ok(());
            }
            Some(Group::Open(parts)) => parts,
            None => Vec::new(),
        };
        let part = Part { time, value: value.to_vec(), headers: context.headers() };
        self.take(before, at, part, context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        match (timer.tag, self.group.get(context)?) {
            (DECIDE, Some(Group::Open(parts))) if self.deadline(&parts) <= timer.time => {
                self.incomplete.increment(context);
                if let Some(output) = self.partial {
                    self.emit(output, &parts, timer.time, context)?;
                }
                self.decided(timer.time, context)
            }
            (FORGET, Some(Group::Decided(until))) if until <= timer.time => {
                self.group.remove(context);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl AllOf {
    /// Returns when a group is decided: `wait` behind its earliest record.
    fn deadline(&self, parts: &[Option<Part>]) -> i64 {
        let earliest = parts.iter().flatten().map(|part| part.time).min();
        earliest.map_or(i64::MAX, |time| time.saturating_add(self.wait))
    }

    /// Takes a record into its group.
    fn take(
        &mut self,
        mut parts: Vec<Option<Part>>,
        at: usize,
        part: Part,
        context: &mut Context<'_>,
    ) -> Result {
        let before = self.deadline(&parts);
        // A revision may have more inputs than the one that kept them.
        parts.resize(self.names.len(), None);
        match parts[at].replace(part) {
            Some(known) if parts[at].as_ref().is_some_and(|part| part.time < known.time) => {
                let older = parts[at].replace(known);
                self.put_aside(older, context);
            }
            replaced => self.put_aside(replaced, context),
        }
        let deadline = self.deadline(&parts);
        for slot in &mut parts {
            if slot.as_ref().is_some_and(|part| part.time > deadline) {
                let too_far = slot.take();
                self.put_aside(too_far, context);
            }
        }
        if before != deadline && before != i64::MAX {
            context.timers().delete_event_time(before, DECIDE);
        }
        if parts.iter().all(Option::is_some) {
            context.timers().delete_event_time(deadline, DECIDE);
            let latest = parts.iter().flatten().map(|part| part.time).max();
            self.complete.increment(context);
            self.emit(self.main, &parts, latest.unwrap_or(deadline), context)?;
            return self.decided(deadline, context);
        }
        context.timers().register_event_time(deadline, DECIDE);
        self.group.put(context, &Group::Open(parts))
    }

    /// Notes that a group has had its result.
    fn decided(&self, deadline: i64, context: &mut Context<'_>) -> Result {
        let until = deadline.saturating_add(self.remember);
        if until <= context.watermark() {
            self.group.remove(context);
            return Ok(());
        }
        context.timers().register_event_time(until, FORGET);
        self.group.put(context, &Group::Decided(until))
    }

    /// Sends a record that is in no result where those go.
    fn put_aside(&self, part: Option<Part>, context: &mut Context<'_>) {
        let Some(part) = part else { return };
        self.unused_records.increment(context);
        if let Some(unused) = self.unused {
            let message = Message::new(&part.value).headers(&part.headers);
            unused.send(context, message.time(part.time));
        }
    }

    fn emit(
        &mut self,
        output: Output,
        parts: &[Option<Part>],
        time: i64,
        context: &mut Context<'_>,
    ) -> Result {
        let mut picked = Vec::with_capacity(self.names.len());
        let (mut missing, mut headers) = (Vec::new(), Vec::new());
        for at in 0..self.names.len() {
            match parts.get(at).and_then(Option::as_ref) {
                Some(part) => {
                    picked.push(Some(self.template.fields(at).pick(&part.value)?));
                    headers.extend(self.headers[at].filter(&part.headers));
                }
                None => {
                    picked.push(None);
                    missing.push(format!("\"{}\"", self.names[at]));
                }
            }
        }
        let sides: Vec<Side<'_, '_>> =
            picked.iter().map(|fields| fields.as_deref().unwrap_or(&[])).collect();
        let status = if missing.is_empty() { "\"COMPLETE\"" } else { "\"PARTIAL\"" };
        let missing = format!("[{}]", missing.join(","));
        self.template.render(&sides, &[status, &missing], &mut self.out);
        output.send(context, Message::new(&self.out).headers(&headers).time(time));
        Ok(())
    }
}
