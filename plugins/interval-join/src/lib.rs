//! Joins records of two inputs whose event times lie near each other:
//! `left + lower <= right <= left + upper`.
//!
//! A pair is emitted when the second of its records comes, with the later of both times. What a
//! record without a partner becomes is decided as soon as the watermark reaches the end of its
//! range, with that time, and once.
//!
//! May not know: which fields the join key is made of; the host gives the key.
//!
//! Invariant: a record is kept exactly as long as a partner can come; of a record only the range
//! that its partners can lie in is read.

mod config;

use dovetail_sdk::{
    Context, Counter, Header, HeaderNames, Input, Message, Output, Plugin, Record, Result, Setup,
    Slot, Timer, fail,
    join::{ExpiringBuffer, Interval, JoinKind, Side, Steps},
    json::Kept,
    result::{Shape, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Late, Unmatched};

/// Partners worked through in one call; more go on in the next (`continue`).
const STEP: u32 = 100;

/// Rows that expire in one call.
const EXPIRING: u32 = 100;

/// Tags of the sides' timers; [`GO_ON`] continues with a record's partners.
const EXPIRE: [u8; 2] = [0, 1];
const GO_ON: u64 = 2;

/// The plugin.
#[derive(Debug)]
pub struct IntervalJoin {
    left: Input,
    main: Output,
    unmatched: Output,
    late: Option<Output>,
    overflow: Option<Output>,
    rows: [ExpiringBuffer<Row>; 2],
    steps: Steps<Work>,
    interval: Interval,
    kind: JoinKind,
    template: Template,
    headers: [HeaderNames; 2],
    max_rows: u64,
    has_null_keys: bool,
    matched: Counter,
    without_partner: Counter,
    late_records: Counter,
    overflowed: Counter,
    ignored: Counter,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(IntervalJoin);

/// What is kept of a record: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Row {
    fields: Kept,
    headers: Vec<Header>,
    /// Whether it had a partner; told only where that matters.
    is_matched: bool,
}

/// A record that has more partners than one call takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Work {
    side: Side,
    time: i64,
    row: Row,
    /// The last partner that was met: time and number.
    after: (i64, u64),
}

/// A record that looks for partners.
struct Seeker<'r> {
    side: Side,
    time: i64,
    row: &'r Row,
}

impl Plugin for IntervalJoin {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let interval = config.interval()?;
        let left = setup.input("left");
        setup.input("right");
        config.headers.check(setup)?;
        let (sides, words) = (["left", "right"], ["match"]);
        let shape = config.result.unwrap_or_else(|| Shape::whole(&sides, &words));
        let main = setup.output("main");
        let buffer = |setup: &mut Setup, name, side: Side| {
            let items = setup.state(name).event_time_buffer();
            ExpiringBuffer::new(items, interval.reach(side), EXPIRE[side.index()])
        };
        Ok(Self {
            left,
            main,
            unmatched: match config.unmatched {
                Unmatched::Main => main,
                Unmatched::SideOutput => setup.output("unmatched"),
            },
            late: (config.late == Late::SideOutput).then(|| setup.output("late")),
            overflow: config.max_rows_per_key.map(|_| setup.output("overflow")),
            rows: [buffer(setup, "left", Side::Left), buffer(setup, "right", Side::Right)],
            steps: Steps::new(setup.state("work").value(), GO_ON),
            interval,
            kind: config.kind,
            template: shape.compile(&sides, &words)?,
            headers: sides.map(|side| config.headers.of(side)),
            max_rows: config.max_rows_per_key.map_or(u64::MAX, u64::from),
            has_null_keys: config.null_keys,
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
            // A pair that was emitted stays: there is nothing to be deleted.
            self.ignored.increment(context);
            return Ok(());
        };
        let Some(time) = record.time else {
            fail!("a record without event time cannot be joined: give both inputs a `time`");
        };
        let side = if record.input == self.left { Side::Left } else { Side::Right };
        if time < context.watermark() {
            self.late_records.increment(context);
            if let Some(late) = self.late {
                late.forward(context);
            }
            return Ok(());
        }
        let has_key = !self.has_null_keys || context.has_key();
        if has_key && self.max_rows < u64::MAX {
            let items = self.rows[side.index()].items();
            if items.len(context)? >= self.max_rows {
                self.overflowed.increment(context);
                if let Some(overflow) = self.overflow {
                    overflow.forward(context);
                }
                return Ok(());
            }
        }
        let fields = self.template.fields(side.index());
        let fields = fields.keep(&fields.pick(value)?);
        let headers = self.headers[side.index()].read(context);
        let row = Row { fields, headers, is_matched: false };
        if !has_key {
            // A null key equals nothing, so no partner will ever come.
            if self.kind.keeps(side) {
                self.emit_unmatched(side, &row, time, context);
            }
            return Ok(());
        }
        self.take(side, time, row, context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        if let Some(work) = self.steps.take(context, timer)? {
            return self.go_on(work, context);
        }
        for side in [Side::Left, Side::Right] {
            if self.rows[side.index()].is_own(timer) {
                self.expire(side, timer, context)?;
            }
        }
        Ok(())
    }
}

impl IntervalJoin {
    /// Takes a record in: lets it meet its partners, and keeps it for those that are to come.
    fn take(&mut self, side: Side, time: i64, mut row: Row, context: &mut Context<'_>) -> Result {
        if self.kind.emits_pairs() {
            let seeker = Seeker { side, time, row: &row };
            let (is_matched, rest) = self.meet(&seeker, None, context)?;
            if let Some(slot) = rest {
                let after = (slot.time, slot.sequence);
                self.steps.go_on(context, &Work { side, time, row: row.clone(), after })?;
            }
            row.is_matched = is_matched;
            self.rows[side.index()].push(context, time, &row)?;
            return Ok(());
        }
        match side {
            Side::Left => self.take_left(time, &row, context),
            Side::Right => {
                // Of a right record only its time matters.
                self.rows[Side::Right.index()].push(context, time, &Row::default())?;
                self.decide_lefts(time, None, context)
            }
        }
    }

    /// Emits a step of a record's pairs; returns whether there was one, and the last partner met
    /// where there may be more.
    fn meet(
        &mut self,
        seeker: &Seeker<'_>,
        after: Option<Slot>,
        context: &mut Context<'_>,
    ) -> Result<(bool, Option<Slot>)> {
        let other = seeker.side.other();
        let items = *self.rows[other.index()].items();
        let range = self.interval.partners(seeker.side, seeker.time);
        let (partners, has_more) = items.page_after(context, range, after, STEP)?;
        let is_matched = !partners.is_empty();
        let count = partners.len();
        let mut rest = None;
        for (at, (slot, mut partner)) in partners.into_iter().enumerate() {
            let time = seeker.time.max(slot.time);
            let pair = match seeker.side {
                Side::Left => [Some(seeker.row), Some(&partner)],
                Side::Right => [Some(&partner), Some(seeker.row)],
            };
            self.emit(self.main, pair, time, context);
            if self.kind.keeps(other) && !partner.is_matched {
                partner.is_matched = true;
                items.replace(context, slot, &partner)?;
            }
            let is_last = at + 1 == count;
            if (is_last && has_more) || (!is_last && context.is_step_full()) {
                rest = Some(slot);
                break;
            }
        }
        Ok((is_matched, rest))
    }

    /// Goes on with the partners of a record.
    fn go_on(&mut self, mut work: Work, context: &mut Context<'_>) -> Result {
        let after = Slot { time: work.after.0, sequence: work.after.1 };
        if !self.kind.emits_pairs() {
            return self.decide_lefts(work.time, Some(after), context);
        }
        let seeker = Seeker { side: work.side, time: work.time, row: &work.row };
        let (_, rest) = self.meet(&seeker, Some(after), context)?;
        let Some(slot) = rest else { return Ok(()) };
        work.after = (slot.time, slot.sequence);
        self.steps.go_on(context, &work)
    }

    /// Semi and anti join: a left record is decided by its first partner, else it waits for one.
    fn take_left(&mut self, time: i64, row: &Row, context: &mut Context<'_>) -> Result {
        let range = self.interval.partners(Side::Left, time);
        let (partners, _) = self.rows[Side::Right.index()].items().page(context, range, 1)?;
        let Some((partner, _)) = partners.first() else {
            self.rows[Side::Left.index()].push(context, time, row)?;
            return Ok(());
        };
        if self.kind == JoinKind::Semi {
            self.emit(self.main, [Some(row), None], time.max(partner.time), context);
        }
        Ok(())
    }

    /// Semi and anti join: a right record decides the left ones that wait for it.
    fn decide_lefts(
        &mut self,
        time: i64,
        after: Option<Slot>,
        context: &mut Context<'_>,
    ) -> Result {
        let lefts = *self.rows[Side::Left.index()].items();
        let range = self.interval.partners(Side::Right, time);
        let (decided, has_more) = lefts.page_after(context, range, after, STEP)?;
        let (count, mut done) = (decided.len(), Vec::with_capacity(decided.len()));
        for (slot, row) in decided {
            if self.kind == JoinKind::Semi {
                self.emit(self.main, [Some(&row), None], time.max(slot.time), context);
            }
            done.push(slot);
            if context.is_step_full() {
                break;
            }
        }
        let is_rest = has_more || done.len() < count;
        let last = done.last().filter(|_| is_rest).map(|slot| (slot.time, slot.sequence));
        lefts.remove_all(context, done)?;
        if let Some(after) = last {
            let row = Row::default();
            self.steps.go_on(context, &Work { side: Side::Right, time, row, after })?;
        }
        Ok(())
    }

    /// Lets go of rows that no partner can meet any more.
    fn expire(&mut self, side: Side, timer: Timer, context: &mut Context<'_>) -> Result {
        let rows = self.rows[side.index()];
        let is_result = self.kind.keeps(side);
        rows.expire(context, timer, EXPIRING, |slot, row, context| {
            if is_result && !row.is_matched {
                self.emit_unmatched(side, &row, rows.due(slot.time), context);
            }
            Ok(())
        })
    }

    fn emit_unmatched(&mut self, side: Side, row: &Row, time: i64, context: &mut Context<'_>) {
        let rows = match side {
            Side::Left => [Some(row), None],
            Side::Right => [None, Some(row)],
        };
        self.without_partner.increment(context);
        self.emit(self.unmatched, rows, time, context);
    }

    fn emit(
        &mut self,
        output: Output,
        [left, right]: [Option<&Row>; 2],
        time: i64,
        context: &mut Context<'_>,
    ) {
        let word = match (left, right) {
            (_, None) => "\"LEFT\"",
            (None, _) => "\"RIGHT\"",
            (Some(_), Some(_)) => {
                self.matched.increment(context);
                "\"BOTH\""
            }
        };
        let lefts = left.map(|row| self.template.fields(0).restore(row.fields.borrow()));
        let rights = right.map(|row| self.template.fields(1).restore(row.fields.borrow()));
        self.template.render(
            &[lefts.as_deref().unwrap_or(&[]), rights.as_deref().unwrap_or(&[])],
            &[word],
            &mut self.out,
        );
        let message = Message::new(&self.out).time(time);
        match (headers_of(left), headers_of(right)) {
            (headers, []) | ([], headers) => output.send(context, message.headers(headers)),
            (left, right) => output.send(context, message.headers(&[left, right].concat())),
        }
    }
}

fn headers_of(row: Option<&Row>) -> &[Header] {
    row.map_or(&[], |row| &row.headers)
}
