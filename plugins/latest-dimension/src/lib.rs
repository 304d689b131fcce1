//! Joins a stream of behaviours with the newest row of a slowly changing dimension.
//!
//! A behaviour that meets a dimension is emitted at once with the dimension valid now. Otherwise
//! it waits, at most `wait` of event time; when the dimension comes, all that waits is emitted in
//! time order. A result has the behaviour's own time. No record is ever too late for this join.
//!
//! May not know: which fields the join key is made of; the host gives the key.
//!
//! Invariant: every behaviour gives exactly one first result, or one place in `timeouts` or
//! `overflow`, or one count of a drop.

mod config;
mod row;

use std::time::Duration;

use dovetail_sdk::{
    Context, Counter, EventTimeBuffer, Header, HeaderNames, Histogram, Input, Message, Output,
    Plugin, Record, Result, Setup, Slot, Timer, TimerDomain, ValueState,
    codec::{decode, encode},
    fail,
    json::integer,
    result::{Shape, Side, Template},
};

pub use crate::config::{Config, OnTimeout};
use crate::row::{BehaviourRow, Cursor, Dimension, DimensionRow, KeyRow};

/// Behaviours worked through in one call; more go on in the next (`continue`).
const STEP: u32 = 500;

/// The places of the sides in a result.
const BEHAVIOUR: usize = 0;
const DIMENSION: usize = 1;

/// Tags that are no event time: of the continuation that emits, and of what forgets emitted rows.
const EMIT: u64 = 1 << 63;
const FORGET: u64 = EMIT + 1;

/// The plugin.
#[derive(Debug)]
pub struct LatestDimension {
    dimension: Input,
    main: Output,
    timeouts: Option<Output>,
    overflow: Option<Output>,
    latest: ValueState<KeyRow<'static>>,
    waiting: EventTimeBuffer<BehaviourRow>,
    emitted: EventTimeBuffer<BehaviourRow>,
    timed_out: Counter,
    stale: Counter,
    ignored: Counter,
    match_delay: Histogram,
    template: Template,
    version_slot: Option<usize>,
    dimension_headers: HeaderNames,
    behaviour_headers: HeaderNames,
    /// The text of `reason` where there is no dimension.
    reason: String,
    config: Config,
    /// Holds a result while it is made; empty between calls as far as anyone can tell.
    out: Vec<u8>,
}

dovetail_sdk::export!(LatestDimension);

impl Plugin for LatestDimension {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let dimension = setup.input("dimension");
        setup.input("behaviour");
        config.headers.check(setup)?;
        let words = ["status", "reason", "emission"];
        let sides = ["behaviour", "dimension"];
        let shape = config.result.clone().unwrap_or_else(|| Shape::whole(&sides, &words[..2]));
        let mut template = shape.compile(&sides, &words)?;
        let version_slot =
            config.version.as_ref().map(|name| template.fields_mut(DIMENSION).want(name));
        let reason = match config.wait.0 {
            0 => "\"no dimension\"".to_owned(),
            _ => format!("\"no dimension within {}\"", config.wait),
        };
        let is_side_output = config.on_timeout == OnTimeout::SideOutput;
        Ok(Self {
            dimension,
            main: setup.output("main"),
            timeouts: is_side_output.then(|| setup.output("timeouts")),
            overflow: config.max_waiting_per_key.map(|_| setup.output("overflow")),
            latest: setup.state("latest").value(),
            waiting: setup.state("waiting").event_time_buffer(),
            emitted: setup.state("emitted").event_time_buffer(),
            timed_out: setup.counter("timed_out"),
            stale: setup.counter("stale_dimensions"),
            ignored: setup.counter("ignored_records"),
            match_delay: setup.histogram("match_delay_seconds"),
            template,
            version_slot,
            dimension_headers: config.headers.of("dimension"),
            behaviour_headers: config.headers.of("behaviour"),
            reason,
            config,
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        if record.input == self.dimension {
            return self.on_dimension(record, context);
        }
        match record.value {
            Some(value) => self.on_behaviour(value, record.time, context),
            // There is nothing to be emitted of a behaviour that is deleted.
            None => {
                self.ignored.increment(context);
                Ok(())
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let bytes = self.latest.get_bytes(context).unwrap_or_default();
        let mut row = read(&bytes)?;
        match (timer.domain, timer.tag) {
            (TimerDomain::Continue, EMIT) => self.emit_step(&mut row, context)?,
            (_, FORGET) => return self.forget(timer, context),
            _ => self.end_waiting(&mut row, timer, context)?,
        }
        self.write(&row, context)
    }
}

/// A behaviour on its way to a result.
struct Behaviour<'b, 'v> {
    fields: Side<'b, 'v>,
    headers: &'b [Header],
    time: Option<i64>,
}

impl LatestDimension {
    fn on_behaviour(
        &mut self,
        value: &[u8],
        time: Option<i64>,
        context: &mut Context<'_>,
    ) -> Result {
        let fields = self.template.fields(BEHAVIOUR).pick(value)?;
        let headers = self.behaviour_headers.read(context);
        let behaviour = Behaviour { fields: &fields, headers: &headers, time };
        if self.config.null_keys && !context.has_key() {
            // A null key equals nothing, so no dimension will ever come.
            self.time_out(&behaviour, context);
            return Ok(());
        }
        let bytes = self.latest.get_bytes(context).unwrap_or_default();
        let mut row = read(&bytes)?;
        if matches!(row.dimension, Dimension::Known(_)) || self.config.wait.0 == 0 {
            return self.conclude(&behaviour, &row.dimension, context);
        }
        let Some(time) = time else {
            fail!(
                "a behaviour without event time cannot wait for its dimension: \
                 give the input `behaviour` a `time`, or set `wait: 0`"
            );
        };
        if self.config.max_waiting_per_key.is_some_and(|max| row.waiting >= max) {
            if let Some(overflow) = self.overflow {
                overflow.forward(context);
            }
            return Ok(());
        }
        let deadline = time.max(context.watermark()).saturating_add(self.config.wait.0);
        let fields = self.template.fields(BEHAVIOUR).keep(&fields);
        let waiting = BehaviourRow { deadline, emissions: 0, fields, headers };
        self.waiting.push(context, time, &waiting)?;
        context.timers().register_event_time(deadline, time.cast_unsigned());
        row.waiting += 1;
        self.write(&row, context)
    }

    fn on_dimension(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        if self.config.null_keys && !context.has_key() {
            self.ignored.increment(context);
            return Ok(());
        }
        let bytes = self.latest.get_bytes(context).unwrap_or_default();
        let mut row = read(&bytes)?;
        let Some(value) = record.value else {
            if row.dimension.is_deleted_by(record.time) {
                row.dimension = Dimension::Deleted { time: record.time };
                return self.write(&row, context);
            }
            self.stale.increment(context);
            return Ok(());
        };
        let fields = self.template.fields(DIMENSION).pick(value)?;
        let version = self.version(&fields)?;
        if !row.dimension.yields_to(version, record.time) {
            self.stale.increment(context);
            return Ok(());
        }
        let kept = self.template.fields(DIMENSION).keep(&fields);
        row.dimension = Dimension::Known(DimensionRow {
            version,
            time: record.time,
            fields: kept.borrow(),
            headers: self.dimension_headers.read(context),
        });
        if self.config.reemit_on_update.is_some() {
            row.reemit = Some(Cursor { time: i64::MIN, sequence: 0 });
        }
        self.emit_step(&mut row, context)?;
        self.write(&row, context)
    }

    fn version(&self, fields: Side<'_, '_>) -> Result<Option<i64>> {
        let Some(slot) = self.version_slot else {
            return Ok(None);
        };
        let Some(version) = fields[slot].and_then(integer) else {
            let name = self.config.version.as_deref().unwrap_or("");
            let found = fields[slot].unwrap_or("nothing");
            fail!("the dimension's version field `{name}` should be an integer, found {found}");
        };
        Ok(Some(version))
    }

    /// Emits a step of what a dimension that came makes due: first what is emitted again, then
    /// what waits.
    fn emit_step(&mut self, row: &mut KeyRow<'_>, context: &mut Context<'_>) -> Result {
        let is_over = match row.reemit {
            Some(cursor) => self.emit_again(row, cursor, context)?,
            None => row.waiting == 0 || self.emit_waiting(row, context)?,
        };
        if !is_over || (row.reemit.is_none() && row.waiting > 0) {
            context.timers().continue_with(EMIT);
        }
        Ok(())
    }

    /// Returns whether nothing more is to be emitted again.
    fn emit_again(
        &mut self,
        row: &mut KeyRow<'_>,
        cursor: Cursor,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let Dimension::Known(dimension) = &row.dimension else {
            row.reemit = None;
            return Ok(true);
        };
        let after = Slot { time: cursor.time, sequence: cursor.sequence };
        let (items, has_more) = self.emitted.page_after(context, .., Some(after), STEP)?;
        let (count, mut done, mut last) = (items.len(), 0, None);
        for (slot, mut item) in items {
            item.emissions += 1;
            let fields = self.template.fields(BEHAVIOUR).restore(item.fields.borrow());
            let behaviour =
                Behaviour { fields: &fields, headers: &item.headers, time: Some(slot.time) };
            self.emit(&behaviour, dimension, item.emissions, context);
            self.emitted.replace(context, slot, &item)?;
            last = Some(slot);
            done += 1;
            if context.is_step_full() {
                break;
            }
        }
        row.reemit = last
            .filter(|_| has_more || done < count)
            .map(|slot| Cursor { time: slot.time, sequence: slot.sequence });
        Ok(row.reemit.is_none())
    }

    /// Returns whether nothing waits any more.
    fn emit_waiting(&mut self, row: &mut KeyRow<'_>, context: &mut Context<'_>) -> Result<bool> {
        let (items, has_more) = self.waiting.page(context, .., STEP)?;
        let is_over = self.settle(row, items, context)?;
        Ok(is_over && !has_more)
    }

    /// Ends the waiting of what a timer is about: the items of one time and deadline.
    fn end_waiting(
        &mut self,
        row: &mut KeyRow<'_>,
        timer: Timer,
        context: &mut Context<'_>,
    ) -> Result {
        if row.waiting == 0 {
            return Ok(());
        }
        let time = timer.tag.cast_signed();
        let mut after = None;
        loop {
            let (mut items, has_more) =
                self.waiting.page_after(context, time..=time, after, STEP)?;
            after = items.last().map(|(slot, _)| *slot);
            items.retain(|(_, item)| item.deadline == timer.time);
            let is_step = !items.is_empty();
            let is_over = self.settle(row, items, context)?;
            if is_step && (has_more || !is_over) {
                context.timers().continue_with(timer.tag);
            }
            if is_step || !has_more {
                return Ok(());
            }
        }
    }

    /// Gives items that wait their result, and takes them out of the buffer; returns whether all of
    /// them fitted into this call.
    fn settle(
        &mut self,
        row: &mut KeyRow<'_>,
        items: Vec<(Slot, BehaviourRow)>,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let (count, mut done) = (items.len(), Vec::with_capacity(items.len()));
        for (slot, item) in items {
            if context.is_step_full() {
                break;
            }
            done.push(slot);
            context.timers().delete_event_time(item.deadline, slot.time.cast_unsigned());
            let fields = self.template.fields(BEHAVIOUR).restore(item.fields.borrow());
            let behaviour =
                Behaviour { fields: &fields, headers: &item.headers, time: Some(slot.time) };
            if let Dimension::Known(DimensionRow { time: Some(time), .. }) = row.dimension {
                // What is known when the behaviour comes has no delay, and is not measured.
                let delay = time.saturating_sub(slot.time).max(0).unsigned_abs();
                self.match_delay.record(context, Duration::from_millis(delay).as_secs_f64());
            }
            self.conclude(&behaviour, &row.dimension, context)?;
        }
        row.waiting = row.waiting.saturating_sub(u32::try_from(done.len())?);
        let is_over = done.len() == count;
        self.waiting.remove_all(context, done)?;
        Ok(is_over)
    }

    /// Gives a behaviour its first result, and keeps it where it can be emitted again.
    fn conclude(
        &mut self,
        behaviour: &Behaviour<'_, '_>,
        dimension: &Dimension<'_>,
        context: &mut Context<'_>,
    ) -> Result {
        let is_emitted = match dimension {
            Dimension::Known(dimension) => {
                self.emit(behaviour, dimension, 1, context);
                true
            }
            Dimension::Unknown | Dimension::Deleted { .. } => self.time_out(behaviour, context),
        };
        let (Some(length), Some(time), true) =
            (self.config.reemit_on_update, behaviour.time, is_emitted)
        else {
            return Ok(());
        };
        let deadline = time.saturating_add(length.0);
        if deadline <= context.watermark() {
            return Ok(());
        }
        let fields = self.template.fields(BEHAVIOUR).keep(behaviour.fields);
        let headers = behaviour.headers.to_vec();
        let item = BehaviourRow { deadline, emissions: 1, fields, headers };
        self.emitted.push(context, time, &item)?;
        context.timers().register_event_time(deadline, FORGET);
        Ok(())
    }

    fn emit(
        &mut self,
        behaviour: &Behaviour<'_, '_>,
        dimension: &DimensionRow<'_>,
        emission: u32,
        context: &mut Context<'_>,
    ) {
        let fields = self.template.fields(DIMENSION).restore(dimension.fields);
        // Most are the first: they need no text made.
        let later = (emission > 1).then(|| emission.to_string());
        let words = ["\"OK\"", "null", later.as_deref().unwrap_or("1")];
        self.template.render(&[behaviour.fields, &fields], &words, &mut self.out);
        let message = Message::new(&self.out).time(behaviour.time);
        if dimension.headers.is_empty() {
            self.main.send(context, message.headers(behaviour.headers));
        } else {
            let headers = [behaviour.headers, &dimension.headers].concat();
            self.main.send(context, message.headers(&headers));
        }
    }

    /// Does with a behaviour that has no dimension what was configured; returns whether it went
    /// to `main`.
    fn time_out(&mut self, behaviour: &Behaviour<'_, '_>, context: &mut Context<'_>) -> bool {
        self.timed_out.increment(context);
        let output = match (self.config.on_timeout, self.timeouts) {
            (OnTimeout::Drop, _) => return false,
            (OnTimeout::SideOutput, Some(timeouts)) => timeouts,
            (OnTimeout::EmitWithout, _) | (OnTimeout::SideOutput, None) => self.main,
        };
        let words = ["\"TIMEOUT\"", &self.reason, "1"];
        self.template.render(&[behaviour.fields, &[]], &words, &mut self.out);
        let message = Message::new(&self.out).time(behaviour.time).headers(behaviour.headers);
        output.send(context, message);
        output == self.main
    }

    /// Forgets emitted behaviours that are not emitted again any more.
    fn forget(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let (mut items, has_more) = self.emitted.page(context, .., STEP)?;
        items.retain(|(_, item)| item.deadline <= timer.time);
        let is_step = !items.is_empty();
        self.emitted.remove_all(context, items.into_iter().map(|(slot, _)| slot))?;
        if is_step && has_more {
            context.timers().continue_with(FORGET);
        }
        Ok(())
    }

    fn write(&self, row: &KeyRow<'_>, context: &mut Context<'_>) -> Result {
        if *row == KeyRow::default() {
            // Nothing waits and nothing is known: nothing of the key stays behind.
            self.latest.remove(context);
        } else {
            self.latest.put_bytes(context, &encode(row)?);
        }
        Ok(())
    }
}

/// Reads a key's row; no bytes are the row of a new key.
fn read(bytes: &[u8]) -> Result<KeyRow<'_>> {
    if bytes.is_empty() { Ok(KeyRow::default()) } else { decode(bytes) }
}
