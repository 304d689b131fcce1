//! Joins two tables: inputs whose newest record per key is the row, and whose tombstone deletes it.
//!
//! Every change of a row that changes the key's result emits it: an upsert, or a tombstone where
//! there is a result no more. The newest is what came last; on a versioned side, what has the
//! latest event time.
//!
//! May not know: which fields the key is made of; the host gives the key.
//!
//! Invariant: what was emitted last for a key is its result, and nothing was emitted for a key
//! that has never had one.

mod config;

use dovetail_sdk::{
    Context, Counter, Header, HeaderNames, Input, Message, Output, Plugin, Record, Result, Setup,
    Timer, ValueState, fail,
    join::{JoinKind, Side},
    json::Kept,
    result::{Shape, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Versioned};

/// The plugin.
#[derive(Debug)]
pub struct TableJoin {
    left: Input,
    main: Output,
    rows: ValueState<Rows>,
    kind: JoinKind,
    is_versioned: [bool; 2],
    forget_after: Option<i64>,
    template: Template,
    headers: [HeaderNames; 2],
    upserts: Counter,
    deletes: Counter,
    ignored: Counter,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(TableJoin);

/// Both sides of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Rows([Latest; 2]);

/// The newest of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Latest {
    /// Its event time; of a delete on a versioned side too.
    time: Option<i64>,
    /// The row; none where there is none, or it was deleted.
    row: Option<Row>,
}

/// What is kept of a row: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    fields: Kept,
    headers: Vec<Header>,
}

impl Plugin for TableJoin {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let left = setup.input("left");
        setup.input("right");
        config.headers.check(setup)?;
        let (sides, words) = (["left", "right"], ["match"]);
        let shape = config.result.unwrap_or_else(|| Shape::whole(&sides, &words));
        Ok(Self {
            left,
            main: setup.output("main"),
            rows: setup.state("rows").value(),
            kind: config.kind,
            is_versioned: [Side::Left, Side::Right].map(|side| config.versioned.has(side)),
            forget_after: config.forget_deletes_after.map(|length| length.0),
            template: shape.compile(&sides, &words)?,
            headers: sides.map(|side| config.headers.of(side)),
            upserts: setup.counter("upserts"),
            deletes: setup.counter("deletes"),
            ignored: setup.counter("ignored_records"),
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let side = if record.input == self.left { Side::Left } else { Side::Right };
        let is_versioned = self.is_versioned[side.index()];
        if is_versioned && record.time.is_none() {
            fail!(
                "a row without event time has no version: give the input a `time`, or take its \
                 side out of `versioned`"
            );
        }
        let mut rows = self.rows.get(context)?.unwrap_or_default();
        let latest = &mut rows.0[side.index()];
        if is_versioned && record.time < latest.time {
            self.ignored.increment(context);
            return Ok(());
        }
        let fields = self.template.fields(side.index());
        let row = match record.value {
            Some(value) => {
                let headers = self.headers[side.index()].read(context);
                Some(Row { fields: fields.keep(&fields.pick(value)?), headers })
            }
            None => None,
        };
        let had_row = latest.row.is_some();
        let had_result = self.is_result(&rows);
        rows.0[side.index()] = Latest { time: record.time, row };
        self.keep(side, &mut rows, context)?;
        if !had_row && record.value.is_none() {
            // What was not there stays away: no result has changed.
            return Ok(());
        }
        if side == Side::Right && !self.kind.emits_pairs() && had_result == self.is_result(&rows) {
            // Semi and anti join: of the right row only its being there is told.
            return Ok(());
        }
        self.tell(had_result, &rows, record.time, side, context);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let (Some(mut rows), Some(length)) = (self.rows.get(context)?, self.forget_after) else {
            return Ok(());
        };
        for latest in &mut rows.0 {
            let is_over = latest.time.is_some_and(|time| time.saturating_add(length) <= timer.time);
            if latest.row.is_none() && is_over {
                *latest = Latest::default();
            }
        }
        self.write(&rows, context)
    }
}

impl TableJoin {
    /// Returns whether a key with these rows has a result.
    fn is_result(&self, rows: &Rows) -> bool {
        let [left, right] = [0, 1].map(|at: usize| rows.0[at].row.is_some());
        match self.kind {
            JoinKind::Inner | JoinKind::Semi => left && right,
            JoinKind::Left => left,
            JoinKind::Right => right,
            JoinKind::Full => left || right,
            JoinKind::Anti => left && !right,
        }
    }

    /// Writes the rows after a change of one side.
    fn keep(&self, side: Side, rows: &mut Rows, context: &mut Context<'_>) -> Result {
        let latest = &mut rows.0[side.index()];
        if latest.row.is_none() {
            match (self.is_versioned[side.index()], latest.time, self.forget_after) {
                (false, _, _) => *latest = Latest::default(),
                (true, Some(time), Some(length)) => {
                    let over = time.max(context.watermark()).saturating_add(length);
                    context.timers().register_event_time(over, 0);
                }
                (true, _, _) => {}
            }
        }
        self.write(rows, context)
    }

    fn write(&self, rows: &Rows, context: &mut Context<'_>) -> Result {
        if *rows == Rows::default() {
            self.rows.remove(context);
            return Ok(());
        }
        self.rows.put(context, rows)
    }

    /// Emits a key's result, or that there is none any more.
    fn tell(
        &mut self,
        had_result: bool,
        rows: &Rows,
        changed: Option<i64>,
        side: Side,
        context: &mut Context<'_>,
    ) {
        let other = &rows.0[side.other().index()];
        let time = if other.row.is_some() { changed.max(other.time) } else { changed };
        if !self.is_result(rows) {
            if had_result {
                self.deletes.increment(context);
                self.main.send(context, Message::tombstone().time(time));
            }
            return;
        }
        let [left, right] = [&rows.0[0].row, &rows.0[1].row];
        let right = if self.kind.emits_pairs() { right.as_ref() } else { None };
        let word = match (left, right) {
            (Some(_), Some(_)) => "\"BOTH\"",
            (Some(_), None) => "\"LEFT\"",
            (None, _) => "\"RIGHT\"",
        };
        let lefts = left.as_ref().map(|row| self.template.fields(0).restore(row.fields.borrow()));
        let rights = right.map(|row| self.template.fields(1).restore(row.fields.borrow()));
        let sides = [lefts.as_deref().unwrap_or(&[]), rights.as_deref().unwrap_or(&[])];
        self.template.render(&sides, &[word], &mut self.out);
        let headers: Vec<Header> =
            left.iter().chain(right).flat_map(|row| row.headers.iter().cloned()).collect();
        self.upserts.increment(context);
        self.main.send(context, Message::new(&self.out).headers(&headers).time(time));
    }
}
