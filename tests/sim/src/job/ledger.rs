//! A job that uses everything a call can reach: value and map state, scans, timers of both
//! domains, deleting timers, bursts of timers, *continue*, calls that fail for good and calls that
//! fail once, and broadcast state, which every result shows.
//!
//! A record's value is `operation:argument:unique`; see `operate`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dovetail_core::{
    context::{Context, ContextError, Subject, emit::OutputKey},
    plugin::{
        CallFailure, CallResult, Expiry, ExpiryDomain, FailureKind, MatchFunction,
        PluginDescriptor, StateDescriptor, StateKind, StateScope,
    },
    record::Headers,
    time::NO_WATERMARK,
    timers::TimerDomain,
};

use super::{Call, CallSubject, DEAD_LETTERS, Expected, Model, Out, TimerSet, timer_of};
use crate::workload::RULES;

const COUNT: u32 = 0;
const MARKS: u32 = 1;
const LEFT: u32 = 2;
const RECENT: u32 = 3;
/// How many rules the lane has taken: broadcast state.
const TAKEN: u32 = 4;
/// How long what is recent lives, ms of event time.
const RECENT_FOR: i64 = 1_500;
const ONE: u64 = 1;
const BURST: u64 = 100;
const PROCESSING: u64 = 2;
const GO_ON: u64 = 7;
/// Timers of one burst.
const BURST_TIMERS: i64 = 12;

/// Returns what the plugin says of itself.
#[must_use]
pub fn descriptor() -> PluginDescriptor {
    let state = |name: &str, kind| StateDescriptor {
        name: name.to_owned(),
        kind,
        scope: StateScope::Keyed,
        schema_version: 1,
        expiry: None,
    };
    PluginDescriptor {
        inputs: vec!["order".to_owned(), "payment".to_owned(), "rules".to_owned()],
        broadcast: vec!["rules".to_owned()],
        outputs: vec!["main".to_owned(), "late".to_owned()],
        states: vec![
            state("count", StateKind::Value),
            state("marks", StateKind::Map),
            state("left", StateKind::Value),
            StateDescriptor {
                expiry: Some(Expiry {
                    after: RECENT_FOR,
                    domain: ExpiryDomain::EventTime,
                    refresh_on_read: false,
                }),
                ..state("recent", StateKind::Value)
            },
            StateDescriptor { scope: StateScope::Broadcast, ..state("taken", StateKind::Value) },
        ],
        metrics: Vec::new(),
    }
}

fn parse(value: &[u8]) -> (u8, i64) {
    let text = String::from_utf8_lossy(value);
    let mut parts = text.split(':');
    let operation = parts.next().and_then(|part| part.bytes().next()).unwrap_or(b'n');
    (operation, parts.next().and_then(|part| part.parse().ok()).unwrap_or(0))
}

/// The plugin.
#[derive(Debug, Default)]
pub struct Ledger {
    revision: u32,
    has_failed: bool,
}

impl Ledger {
    /// Returns a revision of the plugin: what it emits says which.
    #[must_use]
    pub fn new(revision: u32) -> Self {
        Self { revision, has_failed: false }
    }

    fn count(context: &mut Context) -> Result<i64, ContextError> {
        let count = read(context, COUNT)? + 1;
        context.state_put(COUNT, b"", &count.to_be_bytes())?;
        Ok(count)
    }

    fn record(&mut self, context: &mut Context) -> Result<(), ContextError> {
        let count = Self::count(context)?;
        let record = context.record().cloned().unwrap_or_default();
        let value = record.value.unwrap_or_default();
        let time = record.timestamp.unwrap_or(0);
        let (shown, taken) = (String::from_utf8_lossy(&value), taken(context)?);
        emit(context, 0, &format!("{shown}#{count}@{}/{taken}", self.revision))?;
        let (operation, argument) = parse(&value);
        self.operate(context, operation, argument, time)
    }

    /// Takes a rule, and says how many there were; `x` fails.
    fn rule(&self, context: &mut Context) -> Result<(), ContextError> {
        let taken = taken(context)? + 1;
        context.broadcast_put(TAKEN, b"", &taken.to_be_bytes())?;
        let value = context.record().and_then(|record| record.value.clone()).unwrap_or_default();
        let shown = String::from_utf8_lossy(&value);
        emit(context, 0, &format!("{shown}@{}/{taken}", self.revision))?;
        if parse(&value).0 == b'x' {
            let (kind, message) = (FailureKind::Error, "as asked".to_owned());
            return Err(ContextError::Refused(CallFailure { kind, message }));
        }
        Ok(())
    }

    /// `e` and `d` register and delete an event timer, `p` a processing timer, `b` a burst, `c`
    /// continues, `m` marks, `s` shows the marks, `r` counts what is recent, `x` fails, `f` fails
    /// once.
    fn operate(
        &mut self,
        context: &mut Context,
        operation: u8,
        argument: i64,
        time: i64,
    ) -> Result<(), ContextError> {
        match operation {
            b'e' => context.timer_register(TimerDomain::Event, time + argument, ONE),
            b'd' => context.timer_delete(TimerDomain::Event, time + argument, ONE),
            b'p' => {
                let due = context.processing_time() + argument;
                context.timer_register(TimerDomain::Processing, due, PROCESSING)
            }
            b'b' => (0..BURST_TIMERS).try_for_each(|at| {
                let tag = BURST + at.cast_unsigned();
                context.timer_register(TimerDomain::Event, time + argument, tag)
            }),
            b'c' => {
                context.state_put(LEFT, b"", &argument.to_be_bytes())?;
                context.continue_with(GO_ON)
            }
            b'm' => context.state_put(MARKS, &argument.to_be_bytes(), &time.to_be_bytes()),
            b's' => show_marks(context),
            b'r' => count_recent(context),
            b'x' | b'f' => {
                context.timer_register(TimerDomain::Event, time + argument, 99)?;
                context.state_put(MARKS, &argument.to_be_bytes(), b"undone?")?;
                let is_transient = operation == b'f';
                let fails = !is_transient || !self.has_failed;
                self.has_failed |= is_transient;
                if fails {
                    let kind = if is_transient { FailureKind::Trap } else { FailureKind::Error };
                    let message = "as asked".to_owned();
                    return Err(ContextError::Refused(CallFailure { kind, message }));
                }
                self.has_failed = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn timer(
        &self,
        context: &mut Context,
        domain: TimerDomain,
        tag: u64,
    ) -> Result<(), ContextError> {
        if domain != TimerDomain::Continue {
            let count = Self::count(context)?;
            return emit(context, 1, &format!("timer {tag}#{count}@{}", self.revision));
        }
        let left = read(context, LEFT)? - 1;
        emit(context, 0, &format!("left {left}"))?;
        if left > 0 {
            context.state_put(LEFT, b"", &left.to_be_bytes())?;
            return context.continue_with(GO_ON);
        }
        context.state_remove(LEFT, b"")
    }
}

fn read(context: &mut Context, state: u32) -> Result<i64, ContextError> {
    let bytes = context.state_get(state, b"")?;
    Ok(bytes.and_then(|bytes| bytes[..].try_into().ok()).map_or(0, i64::from_be_bytes))
}

fn taken(context: &mut Context) -> Result<i64, ContextError> {
    let bytes = context.broadcast_get(TAKEN, b"")?;
    Ok(bytes.and_then(|bytes| bytes[..].try_into().ok()).map_or(0, i64::from_be_bytes))
}

fn emit(context: &mut Context, output: u32, text: &str) -> Result<(), ContextError> {
    context.emit(output, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
}

fn count_recent(context: &mut Context) -> Result<(), ContextError> {
    let count = read(context, RECENT)? + 1;
    context.state_put(RECENT, b"", &count.to_be_bytes())?;
    emit(context, 0, &format!("recent {count}"))
}

fn show_marks(context: &mut Context) -> Result<(), ContextError> {
    let page = context.state_scan(MARKS, b"", None, None, 100)?;
    let text = format!("marks {}", page.entries.len());
    emit(context, 0, &text)?;
    context.state_remove_range(MARKS, b"", None)?;
    Ok(())
}

fn ended(context: Box<Context>, result: Result<(), ContextError>) -> (Box<Context>, CallResult) {
    let result = result.map_err(|error| match error {
        ContextError::Refused(failure) => failure,
        ContextError::Store(error) => {
            CallFailure { kind: FailureKind::Trap, message: error.to_string() }
        }
    });
    (context, result)
}

impl MatchFunction for Ledger {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = self.record(&mut context);
        ended(context, result)
    }

    fn process_broadcast(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = self.rule(&mut context);
        ended(context, result)
    }

    fn on_timer(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = match context.current().subject {
            Subject::Timer { domain, tag, .. } => self.timer(&mut context, domain, tag),
            Subject::None | Subject::Record { .. } => Ok(()),
        };
        ended(context, result)
    }

    fn renew(&mut self) {}
}

#[derive(Debug, Default)]
struct Account {
    count: i64,
    marks: BTreeSet<i64>,
    left: i64,
    /// A count, and the time from which on it lives.
    recent: Option<(i64, i64)>,
}

impl Account {
    /// Counts what is recent.
    fn count_recent(&mut self, time: i64, watermark: i64) -> i64 {
        let is_alive = |since: i64| {
            watermark == NO_WATERMARK
                || since.checked_add(RECENT_FOR).is_none_or(|end| end > watermark)
        };
        let count = self.recent.filter(|(_, since)| is_alive(*since)).map_or(0, |(count, _)| count);
        self.recent = Some((count + 1, time.max(watermark)));
        count + 1
    }
}

/// What the ledger should do.
#[derive(Debug, Default)]
pub struct LedgerModel {
    accounts: BTreeMap<(u16, Bytes), Account>,
    /// Rules that the lane has taken.
    taken: i64,
    /// The record whose first call has failed.
    failed: Option<(u16, u16, i64)>,
}

impl LedgerModel {
    fn record(
        &mut self,
        call: &Call,
        place: (u16, u16, i64),
        time: i64,
        value: &Bytes,
        timers: &mut TimerSet,
    ) -> Expected {
        let (operation, argument) = parse(value);
        let is_second = self.failed.take() == Some(place);
        if matches!(operation, b'x' | b'f') && !is_second {
            self.failed = Some(place);
            return Expected { is_retried: true, ..Expected::default() };
        }
        if operation == b'x' {
            let (key, value) = (call.key.clone(), value.clone());
            return Expected {
                outputs: vec![Out { output: DEAD_LETTERS, key, value }],
                ..Expected::default()
            };
        }
        let shown = String::from_utf8_lossy(value);
        if place.0 == RULES {
            self.taken += 1;
            let text = format!("{shown}@{}/{}", call.revision, self.taken);
            return Expected { outputs: vec![out(call, 0, text)], ..Expected::default() };
        }
        let account = self.accounts.entry((call.partition, call.key.clone())).or_default();
        account.count += 1;
        let text = format!("{shown}#{}@{}/{}", account.count, call.revision, self.taken);
        let mut expected = Expected { outputs: vec![out(call, 0, text)], ..Expected::default() };
        let due = timer_of(call, time + argument, ONE);
        match operation {
            b'e' => {
                timers.event.insert(due);
            }
            b'd' => {
                timers.event.remove(&due);
            }
            b'p' => {
                let due = timer_of(call, call.processing_time + argument, PROCESSING);
                timers.processing.insert(due);
            }
            b'b' => {
                for at in 0..BURST_TIMERS {
                    let tag = BURST + at.cast_unsigned();
                    timers.event.insert(timer_of(call, time + argument, tag));
                }
            }
            b'c' => {
                account.left = argument;
                expected.continues = Some(GO_ON);
            }
            b'm' => {
                account.marks.insert(argument);
            }
            b's' => {
                expected.outputs.push(out(call, 0, format!("marks {}", account.marks.len())));
                account.marks.clear();
            }
            b'r' => {
                let count = account.count_recent(time, call.watermark);
                expected.outputs.push(out(call, 0, format!("recent {count}")));
            }
            b'f' => {
                timers.event.insert(timer_of(call, time + argument, 99));
                account.marks.insert(argument);
            }
            _ => {}
        }
        expected
    }
}

fn out(call: &Call, output: u16, text: String) -> Out {
    Out { output, key: call.key.clone(), value: text.into() }
}

impl Model for LedgerModel {
    fn call(&mut self, call: &Call, timers: &mut TimerSet) -> Expected {
        let (domain, tag) = match &call.subject {
            CallSubject::Record { input, offset, time, value } => {
                let place = (*input, call.partition, *offset);
                return self.record(call, place, *time, value, timers);
            }
            CallSubject::Timer { domain, tag, .. } => (*domain, *tag),
        };
        let account = self.accounts.entry((call.partition, call.key.clone())).or_default();
        if domain == TimerDomain::Continue {
            account.left -= 1;
            let left = account.left;
            let outputs = vec![out(call, 0, format!("left {left}"))];
            let continues = (left > 0).then_some(GO_ON);
            account.left = left.max(0);
            return Expected { outputs, continues, is_retried: false };
        }
        account.count += 1;
        let outputs =
            vec![out(call, 1, format!("timer {tag}#{}@{}", account.count, call.revision))];
        Expected { outputs, ..Expected::default() }
    }
}
