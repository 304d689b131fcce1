//! Joins records of two inputs that lie in the same window of event time.
//!
//! A window's results come when the watermark has reached its last millisecond, with that time. Late
//! records that it still takes give results at once.
//!
//! May not know: which fields the join key is made of; the host gives the key.
//!
//! Invariants: a record is kept once, in however many windows it lies, until the last of them is
//! closed. While a key keeps records of a window that has not fired, timers of that window or of
//! one before it are registered. A window that cannot fire holds up no other.

mod config;
mod content;
mod firing;
mod totals;

use dovetail_sdk::{
    Context, Counter, HeaderNames, Input, Output, Plugin, Record, Result, Setup, Timer,
    TimerDomain, fail,
    join::{JoinKind, Sessions, Side, Steps, Window, Windows},
    result::{Shape, Template},
};

pub use crate::config::{Config, Emit, Late, LateFiring};
use crate::{
    content::{Content, Firing, Row, Session, Told, Totals},
    totals::Measured,
};

/// Timers: a window's time has come; a window closes; a firing goes on; a window's time has come,
/// and its firing has failed, since that deletes this one.
const FIRE: u64 = 0;
const CLOSE: u64 = 1;
const GO_ON: u64 = 2;
const FAILED: u64 = 3;

const SIDES: [&str; 2] = ["left", "right"];
const WORDS: [&str; 3] = ["match", "window_start", "window_end"];

/// The plugin.
#[derive(Debug)]
pub struct WindowJoin {
    left: Input,
    main: Output,
    late: Option<Output>,
    overflow: Option<Output>,
    content: Content,
    sessions: Option<Sessions<Session>>,
    steps: Steps<Firing>,
    windows: Windows,
    kind: JoinKind,
    emit: Emit,
    lateness: i64,
    late_firing: LateFiring,
    template: Template,
    measured: Measured,
    headers: [HeaderNames; 2],
    max_rows: u64,
    matched: Counter,
    without_partner: Counter,
    late_records: Counter,
    overflowed: Counter,
    ignored: Counter,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(WindowJoin);

impl Plugin for WindowJoin {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let windows = config.window.checked().map_err(|error| error.context("plugin config"))?;
        let is_session = matches!(windows, Windows::Session { .. });
        let left = setup.input(SIDES[0]);
        setup.input(SIDES[1]);
        config.headers.check(setup)?;
        let is_totals = config.emit == Emit::Totals;
        let measured = Measured::new(&config.totals, is_totals)?;
        let template = template(config.result, &measured, is_totals)?;
        let content = if is_totals {
            Content::Panes(setup.state("panes").map())
        } else {
            Content::Rows(SIDES.map(|side| setup.state(side).event_time_buffer()))
        };
        let has_cap = config.max_rows_per_key.filter(|_| !is_totals);
        Ok(Self {
            left,
            main: setup.output("main"),
            late: (config.late == Late::SideOutput).then(|| setup.output("late")),
            overflow: has_cap.map(|_| setup.output("overflow")),
            content,
            sessions: is_session.then(|| Sessions::new(setup.state("sessions").map())),
            steps: Steps::new(setup.state("firing").value(), GO_ON),
            windows,
            kind: config.kind,
            emit: config.emit,
            lateness: config.allowed_lateness.0,
            late_firing: config.late_firing.unwrap_or(match config.emit {
                Emit::Pairs => LateFiring::New,
                Emit::Groups | Emit::Totals => LateFiring::All,
            }),
            template,
            measured,
            headers: SIDES.map(|side| config.headers.of(side)),
            max_rows: has_cap.map_or(u64::MAX, u64::from),
            matched: setup.counter("matched"),
            without_partner: setup.counter("unmatched"),
            late_records: setup.counter("late"),
            overflowed: setup.counter("overflowed"),
            ignored: setup.counter("ignored_records"),
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let Some(value) = record.value else {
            self.ignored.increment(context);
            return Ok(());
        };
        let Some(time) = record.time else {
            fail!("a record without event time is in no window: give both inputs a `time`");
        };
        let side = if record.input == self.left { Side::Left } else { Side::Right };
        match self.sessions {
            Some(sessions) => self.take_into_session(sessions, side, time, value, context),
            None => self.take(side, time, value, context),
        }
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        if let Some(firing) = self.steps.take(context, timer)? {
            return self.fire(firing, context);
        }
        match (timer.domain, timer.tag) {
            (TimerDomain::Event, FIRE) => {
                let Some(window) = self.ending(timer.time.saturating_add(1), context)? else {
                    return Ok(());
                };
                self.fire(Firing::new(vec![window], self.told_when_due(), true), context)
            }
            (TimerDomain::Event, FAILED) => {
                self.steps.clear(context);
                match self.ending(timer.time.saturating_add(1), context)? {
                    Some(window) => self.after_due(window, context),
                    None => Ok(()),
                }
            }
            (TimerDomain::Event, CLOSE) => {
                let last = timer.time.saturating_sub(self.lateness);
                match self.ending(last.saturating_add(1), context)? {
                    Some(window) => self.close(window, context),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn template(shape: Option<Shape>, measured: &Measured, is_totals: bool) -> Result<Template> {
    if !is_totals {
        let shape = shape.unwrap_or_else(|| Shape::whole(&SIDES, &WORDS));
        return shape.compile(&SIDES, &WORDS);
    }
    let words: Vec<&str> = WORDS.into_iter().chain(measured.names()).collect();
    shape.unwrap_or_else(|| Shape::whole(&[], &words)).compile(&[], &words)
}

impl WindowJoin {
    /// Takes a record into the windows of a grid, or those that were given.
    fn take(&mut self, side: Side, time: i64, value: &[u8], context: &mut Context<'_>) -> Result {
        let watermark = context.watermark();
        let Some(last) = self.windows.assign(time).last() else {
            // Between windows that leave gaps.
            self.ignored.increment(context);
            return Ok(());
        };
        let lateness = self.lateness;
        let open = self.windows.assign(time).filter(|it| !it.is_closed(watermark, lateness));
        let (passed, to_come): (Vec<Window>, Vec<Window>) =
            open.partition(|window| window.last() <= watermark);
        if passed.is_empty() && to_come.is_empty() {
            self.send_late(context);
            return Ok(());
        }
        if self.is_overflow(side, context)? {
            return Ok(());
        }
        let row = self.keep(side, time, value, context)?;
        if let Some(next) = to_come.first() {
            Self::await_window(*next, context);
        }
        if passed.is_empty() {
            return Ok(());
        }
        if to_come.is_empty() {
            // No window of this record is to fire any more, and so none to be followed by this.
            context.timers().register_event_time(last.closes(self.lateness), CLOSE);
        }
        if self.emit == Emit::Totals && self.late_firing == LateFiring::New {
            let mut single = Totals::default();
            self.measured.add(&mut single, side, value)?;
            passed.into_iter().for_each(|window| self.emit_totals(window, &single, context));
            return Ok(());
        }
        let told = match self.late_firing {
            LateFiring::All => Told::All,
            LateFiring::New => row,
        };
        self.fire(Firing::new(passed, told, false), context)
    }

    /// Takes a record into its session, which may make one of several.
    fn take_into_session(
        &mut self,
        sessions: Sessions<Session>,
        side: Side,
        time: i64,
        value: &[u8],
        context: &mut Context<'_>,
    ) -> Result {
        let watermark = context.watermark();
        let Some(own) = self.windows.assign(time).next() else { return Ok(()) };
        if self.is_overflow(side, context)? {
            return Ok(());
        }
        let absorbed = sessions.absorb(context, own)?;
        let merged = absorbed.merged;
        // What it has become one with is open, and so it is itself.
        if absorbed.sessions.is_empty() && own.is_closed(watermark, self.lateness) {
            self.send_late(context);
            return Ok(());
        }
        let mut session = Session::default();
        for (window, before) in absorbed.sessions {
            self.measured.merge(&mut session.totals, &before.totals)?;
            if window.end != merged.end {
                context.timers().delete_event_time(window.last(), FIRE);
                context.timers().delete_event_time(window.last(), FAILED);
                context.timers().delete_event_time(window.closes(self.lateness), CLOSE);
            }
        }
        match self.content {
            Content::Rows(_) => {
                self.keep(side, time, value, context)?;
            }
            Content::Panes(_) => self.measured.add(&mut session.totals, side, value)?,
        }
        sessions.put(context, merged, &session)?;
        if merged.last() > watermark {
            Self::await_window(merged, context);
            return Ok(());
        }
        context.timers().register_event_time(merged.closes(self.lateness), CLOSE);
        self.fire(Firing::new(vec![merged], self.told_when_due(), false), context)
    }

    /// Returns what a firing tells that no late record has caused: of a session, which records
    /// may make fire again, only what is new where that is wanted.
    fn told_when_due(&self) -> Told {
        match (self.sessions, self.late_firing) {
            (Some(_), LateFiring::New) => Told::Untold,
            _ => Told::All,
        }
    }

    /// Returns whether a record is one too many; then it has gone to the overflow.
    fn is_overflow(&self, side: Side, context: &mut Context<'_>) -> Result<bool> {
        let (Some(overflow), Content::Rows(sides)) = (self.overflow, self.content) else {
            return Ok(false);
        };
        let is_full = sides[side.index()].len(context)? >= self.max_rows;
        if is_full {
            self.overflowed.increment(context);
            overflow.forward(context);
        }
        Ok(is_full)
    }

    /// Keeps a record; returns it as what a late firing tells of it.
    fn keep(
        &mut self,
        side: Side,
        time: i64,
        value: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Told> {
        let sides = match self.content {
            Content::Rows(sides) => sides,
            Content::Panes(panes) => {
                let start = self.windows.pane_start(time);
                let mut totals = panes.get(context, &start)?.unwrap_or_default();
                self.measured.add(&mut totals, side, value)?;
                panes.put(context, &start, &totals)?;
                return Ok(Told::All);
            }
        };
        let fields = self.template.fields(side.index());
        let fields = fields.keep(&fields.pick(value)?);
        let headers = self.headers[side.index()].read(context);
        let row = Row { fields, headers, told: None };
        let slot = sides[side.index()].push(context, time, &row)?;
        Ok(Told::Row(side, slot.time, slot.sequence))
    }

    fn send_late(&self, context: &mut Context<'_>) {
        self.late_records.increment(context);
        if let Some(late) = self.late {
            late.forward(context);
        }
    }

    /// Returns the window that ends at a time; a session only where there is one.
    fn ending(&self, end: i64, context: &mut Context<'_>) -> Result<Option<Window>> {
        match self.sessions {
            Some(sessions) => Ok(sessions.ending(context, end)?.map(|(window, _)| window)),
            None => Ok(Some(self.windows.ending(end))),
        }
    }

    /// Registers the timers of a window whose time is to come.
    fn await_window(window: Window, context: &mut Context<'_>) {
        for tag in [FIRE, FAILED] {
            context.timers().register_event_time(window.last(), tag);
        }
    }

    /// Does what follows when a window's time has come and its results are told, or cannot be.
    fn after_due(&mut self, window: Window, context: &mut Context<'_>) -> Result {
        context.timers().delete_event_time(window.last(), FAILED);
        if self.sessions.is_none() {
            let released = self.windows.released_by(window);
            let next = self.content.first_behind(context, released)?;
            let next = next.and_then(|time| self.windows.first_behind(window, time));
            if let Some(next) = next {
                Self::await_window(next, context);
            }
        }
        if self.lateness == 0 {
            return self.close(window, context);
        }
        context.timers().register_event_time(window.closes(self.lateness), CLOSE);
        Ok(())
    }

    /// Forgets what no window needs any more once this one is closed.
    fn close(&mut self, window: Window, context: &mut Context<'_>) -> Result {
        match self.sessions {
            Some(sessions) => {
                sessions.remove(context, window);
                self.content.release(context, Some(window.start), window.last())
            }
            None => self.content.release(context, None, self.windows.released_by(window)),
        }
    }
}
