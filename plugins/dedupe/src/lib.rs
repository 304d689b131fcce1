//! Keeps the first or last of the records that are the same, per key and span of event time.
//!
//! May not know: which fields the key is made of; the host gives the key.
//!
//! Invariant: of the records of one id in one span exactly one is emitted, unchanged.

mod config;

use dovetail_sdk::{
    Context, Counter, Expiry, Header, Input, MapState, Message, Output, Plugin, Record, Result,
    Setup, Timer, TimerDomain, fail, join::Window, json::Fields,
};
use serde::{Deserialize, Serialize};

use crate::config::Span;
pub use crate::config::{Config, Duplicates, Keep};

/// Records emitted in one call; more go on in the next.
const STEP: u32 = 100;

/// Timers: a window is over; the rest of its records.
const OVER: u64 = 0;

/// The plugin.
#[derive(Debug)]
pub struct Dedupe {
    main: Output,
    duplicates: Option<Output>,
    late: Option<Output>,
    /// By the end of the window (0 with `within`) and the id.
    seen: MapState<(i64, String), Kept>,
    keep: Keep,
    span: Span,
    fields: Fields,
    has_id: bool,
    passed_on: Counter,
    dropped: Counter,
    late_records: Counter,
}

dovetail_sdk::export!(Dedupe);

/// What is kept of a record that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Kept {
    /// It was emitted: of its window, or when no time was noted.
    Emitted,
    /// It is the last one so far, whole.
    Last { time: i64, value: Option<Vec<u8>>, headers: Vec<Header> },
    /// It was emitted: the first of what comes within a length of its event time.
    First { time: i64 },
}

impl Plugin for Dedupe {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let span = config.span()?;
        let _records: Input = setup.input("records");
        let seen = setup.state("seen");
        let (seen, late) = match span {
            Span::Within(length) => (seen.expiry(Expiry::event_time(length)).map(), None),
            Span::Window(_) => (seen.map(), Some(setup.output("late"))),
        };
        let mut fields = Fields::default();
        if let Some(id) = &config.id {
            fields.want(id);
        }
        let has_duplicates = config.duplicates == Duplicates::SideOutput;
        Ok(Self {
            main: setup.output("main"),
            duplicates: has_duplicates.then(|| setup.output("duplicates")),
            late,
            seen,
            keep: config.keep,
            span,
            fields,
            has_id: config.id.is_some(),
            passed_on: setup.counter("kept"),
            dropped: setup.counter("duplicates"),
            late_records: setup.counter("late"),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let id = self.id(record.value)?;
        let Some(time) = record.time else {
            fail!("a record without event time is in no span of it: give the input a `time`");
        };
        let windows = match self.span {
            Span::Window(windows) => windows,
            Span::Within(length) => {
                let entry = (0, id);
                let is_same = match self.seen.get(context, &entry)? {
                    Some(Kept::First { time: first }) => time.saturating_sub(first) <= length.0,
                    Some(Kept::Emitted | Kept::Last { .. }) => true,
                    None => false,
                };
                if is_same {
                    self.drop_duplicate(context);
                    return Ok(());
                }
                self.pass_on(context);
                return self.seen.put(context, &entry, &Kept::First { time });
            }
        };
        let Some(window) = windows.assign(time).next() else { return Ok(()) };
        if window.is_closed(context.watermark(), 0) {
            self.late_records.increment(context);
            if let Some(late) = self.late {
                late.forward(context);
            }
            return Ok(());
        }
        self.take(window, id, (time, record.value), context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let Span::Window(windows) = self.span else { return Ok(()) };
        let end = match timer.domain {
            TimerDomain::Event if timer.tag == OVER => timer.time.saturating_add(1),
            // The tag of a step is the end of its window.
            TimerDomain::Continue => timer.tag.cast_signed(),
            _ => return Ok(()),
        };
        self.end(windows.ending(end), context)
    }
}

impl Dedupe {
    /// Returns what tells a record from others of its key.
    fn id(&self, value: Option<&[u8]>) -> Result<String> {
        let Some(value) = value.filter(|_| self.has_id) else {
            return Ok(String::new());
        };
        match self.fields.pick(value)?[0] {
            Some(raw) if raw != "null" => Ok(raw.to_owned()),
            _ => fail!("a record without its id cannot be told from others of its key"),
        }
    }

    fn take(
        &self,
        window: Window,
        id: String,
        (time, value): (i64, Option<&[u8]>),
        context: &mut Context<'_>,
    ) -> Result {
        let entry = (window.end, id);
        let seen = self.seen.get(context, &entry)?;
        if seen.is_none() {
            context.timers().register_event_time(window.last(), OVER);
        }
        match (self.keep, seen) {
            (Keep::First, None) => {
                self.pass_on(context);
                self.seen.put(context, &entry, &Kept::Emitted)
            }
            (Keep::First, Some(_)) => {
                self.drop_duplicate(context);
                Ok(())
            }
            (Keep::Last, Some(Kept::Last { time: newest, .. })) if newest > time => {
                self.drop_duplicate(context);
                Ok(())
            }
            (Keep::Last, before) => {
                if let Some(Kept::Last { time, value, headers }) = before {
                    // The one that was the last so far is one of the others now.
                    self.dropped.increment(context);
                    let message = value.as_deref().map_or_else(Message::tombstone, Message::new);
                    if let Some(duplicates) = self.duplicates {
                        duplicates.send(context, message.time(time).headers(&headers));
                    }
                }
                let headers = context.headers();
                let value = value.map(<[u8]>::to_vec);
                self.seen.put(context, &entry, &Kept::Last { time, value, headers })
            }
        }
    }

    /// Emits a step of what a window that is over has kept, and forgets it.
    fn end(&self, window: Window, context: &mut Context<'_>) -> Result {
        let range = (window.end, String::new())..(window.end.saturating_add(1), String::new());
        let (page, has_more) = self.seen.page(context, range, STEP)?;
        let (count, mut done) = (page.len(), 0);
        for (entry, kept) in page {
            if let Kept::Last { time, value, headers } = kept {
                self.passed_on.increment(context);
                let message = value.as_deref().map_or_else(Message::tombstone, Message::new);
                self.main.send(context, message.time(time).headers(&headers));
            }
            self.seen.remove(context, &entry);
            done += 1;
            if context.is_step_full() {
                break;
            }
        }
        if has_more || done < count {
            context.timers().continue_with(window.end.cast_unsigned());
        }
        Ok(())
    }

    fn pass_on(&self, context: &mut Context<'_>) {
        self.passed_on.increment(context);
        self.main.forward(context);
    }

    fn drop_duplicate(&self, context: &mut Context<'_>) {
        self.dropped.increment(context);
        if let Some(duplicates) = self.duplicates {
            duplicates.forward(context);
        }
    }
}
