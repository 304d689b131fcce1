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

/// Timers: the time of a group is over; a decided key is forgotten; a group whose time is over has
/// had no result, since its timer failed.
const DECIDE: u64 = 0;
const FORGET: u64 = 1;
const GIVE_UP: u64 = 2;

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
    /// It waits for the rest: a part per input in the order of the configuration. Read only.
    Unnamed(Vec<Option<Part>>),
    /// It has had its result; remembered until then.
    Decided(i64),
    /// It waits for the rest: a part per input that has had one, by its name.
    Open(Vec<(String, Part)>),
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
            Some(Group::Unnamed(parts)) => self.named(parts),
            None => Vec::new(),
        };
        let part = Part { time, value: value.to_vec(), headers: context.headers() };
        self.take(before, at, part, context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let parts = match self.group.get(context)? {
            Some(Group::Open(parts)) => parts,
            Some(Group::Unnamed(parts)) => self.named(parts),
            Some(Group::Decided(until)) => {
                if timer.tag == FORGET && until <= timer.time {
                    self.group.remove(context);
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        if timer.tag == FORGET || self.deadline(&parts) > timer.time {
            return Ok(());
        }
        let parts = self.by_input(parts, context);
        if timer.tag == GIVE_UP {
            parts.into_iter().for_each(|part| self.put_aside(part, context));
        } else {
            self.wait_until(None, timer.time, context);
            self.decide(&parts, timer.time, context)?;
        }
        self.decided(timer.time, context)
    }
}

impl AllOf {
    /// Returns when a group is decided: `wait` behind its earliest record.
    fn deadline(&self, parts: &[(String, Part)]) -> i64 {
        let earliest = parts.iter().map(|(_, part)| part.time).min();
        earliest.map_or(i64::MAX, |time| time.saturating_add(self.wait))
    }

    /// Names parts that lie in the order of the configuration.
    fn named(&self, parts: Vec<Option<Part>>) -> Vec<(String, Part)> {
        let named = self.names.iter().cloned().zip(parts);
        named.filter_map(|(name, part)| Some((name, part?))).collect()
    }

    /// Returns a part per input; those of inputs that are no more are put aside.
    fn by_input(&self, parts: Vec<(String, Part)>, context: &mut Context<'_>) -> Vec<Option<Part>> {
        let mut by_input = vec![None; self.names.len()];
        for (name, part) in parts {
            match self.names.iter().position(|known| *known == name) {
                Some(at) => by_input[at] = Some(part),
                None => self.put_aside(Some(part), context),
            }
        }
        by_input
    }

    /// Moves a group's timers. What the first has done is undone where it fails; then the second
    /// ends the group.
    fn wait_until(&self, deadline: Option<i64>, before: i64, context: &mut Context<'_>) {
        let mut timers = context.timers();
        for tag in [DECIDE, GIVE_UP] {
            if deadline != Some(before) {
                timers.delete_event_time(before, tag);
            }
            if let Some(deadline) = deadline {
                timers.register_event_time(deadline, tag);
            }
        }
    }

    /// Emits what has come of a group whose time is over.
    fn decide(&mut self, parts: &[Option<Part>], time: i64, context: &mut Context<'_>) -> Result {
        self.incomplete.increment(context);
        match self.partial {
            Some(output) => self.emit(output, parts, time, context),
            None => Ok(()),
        }
    }

    /// Takes a record into its group.
    fn take(
        &mut self,
        parts: Vec<(String, Part)>,
        at: usize,
        part: Part,
        context: &mut Context<'_>,
    ) -> Result {
        let before = self.deadline(&parts);
        let mut parts = self.by_input(parts, context);
        match parts[at].replace(part) {
            Some(known) if parts[at].as_ref().is_some_and(|part| part.time < known.time) => {
                let older = parts[at].replace(known);
                self.put_aside(older, context);
            }
            replaced => self.put_aside(replaced, context),
        }
        let earliest = parts.iter().flatten().map(|part| part.time).min();
        let deadline = earliest.map_or(i64::MAX, |time| time.saturating_add(self.wait));
        for slot in &mut parts {
            if slot.as_ref().is_some_and(|part| part.time > deadline) {
                let too_far = slot.take();
                self.put_aside(too_far, context);
            }
        }
        if parts.iter().all(Option::is_some) {
            self.wait_until(None, before, context);
            let latest = parts.iter().flatten().map(|part| part.time).max();
            self.complete.increment(context);
            self.emit(self.main, &parts, latest.unwrap_or(deadline), context)?;
            return self.decided(deadline, context);
        }
        self.wait_until(Some(deadline), before, context);
        self.group.put(context, &Group::Open(self.named(parts)))
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
