//! Joins a stream of behaviours with the version of a dimension that was valid at each one's own
//! event time.
//!
//! Versions are sorted in by their event time whenever they come; a tombstone ends validity. A
//! behaviour waits until the watermark has reached its time, or is decided at once and corrected.
//! Its result has its own time.
//!
//! May not know: which fields the join key is made of; the host gives the key.
//!
//! Invariant: what is forgotten can decide nothing that waits: the version valid at the watermark,
//! and every later one, is kept.

mod config;

use dovetail_sdk::{
    Context, Counter, Header, HeaderNames, Input, Message, Output, Plugin, Record, Result, Setup,
    Slot, Timer, TimerDomain, fail,
    join::{ExpiringBuffer, Steps, Version, VersionedTable},
    json::Kept,
    result::{Shape, Side, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Mode, Unmatched};

/// Behaviours worked through in one call: each is a result, of any size.
const STEP: u32 = 100;

/// The places of the sides in a result.
const BEHAVIOUR: usize = 0;
const DIMENSION: usize = 1;

/// Tags: of behaviours whose time has come, of versions that are over, of corrections.
const DECIDE: u8 = 0;
const FORGET: u64 = 1;
const CORRECT: u64 = 2;

/// The plugin.
#[derive(Debug)]
pub struct AsOf {
    dimension: Input,
    main: Output,
    unmatched: Option<Output>,
    overflow: Option<Output>,
    versions: VersionedTable<DimensionRow>,
    waiting: ExpiringBuffer<BehaviourRow>,
    corrections: Steps<Correction>,
    matched: Counter,
    without_version: Counter,
    corrected: Counter,
    ignored: Counter,
    template: Template,
    dimension_headers: HeaderNames,
    behaviour_headers: HeaderNames,
    config: Config,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(AsOf);

/// A version: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DimensionRow {
    fields: Kept,
    headers: Vec<Header>,
}

/// A behaviour that waits, or may be corrected: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BehaviourRow {
    fields: Kept,
    headers: Vec<Header>,
    /// How many results it has had.
    emissions: u32,
}

/// Behaviours that a version corrects: those from its time on, behind the last one that was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Correction {
    from: i64,
    to: Option<i64>,
    after: Option<(i64, u64)>,
}

impl Plugin for AsOf {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let dimension = setup.input("dimension");
        setup.input("behaviour");
        config.headers.check(setup)?;
        let (sides, words) = (["behaviour", "dimension"], ["status", "valid_from", "emission"]);
        let shape = config.result.clone().unwrap_or_else(|| Shape::whole(&sides, &words[..1]));
        let is_side_output = config.unmatched == Unmatched::SideOutput;
        let waiting = setup.state("waiting").event_time_buffer();
        Ok(Self {
            dimension,
            main: setup.output("main"),
            unmatched: is_side_output.then(|| setup.output("unmatched")),
            overflow: config.max_waiting_per_key.map(|_| setup.output("overflow")),
            versions: setup.state("versions").versioned_table(),
            waiting: ExpiringBuffer::new(waiting, 0, DECIDE),
            corrections: Steps::new(setup.state("correction").value(), CORRECT),
            matched: setup.counter("matched"),
            without_version: setup.counter("unmatched"),
            corrected: setup.counter("corrected"),
            ignored: setup.counter("ignored_records"),
            template: shape.compile(&sides, &words)?,
            dimension_headers: config.headers.of("dimension"),
            behaviour_headers: config.headers.of("behaviour"),
            config,
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let is_dimension = record.input == self.dimension;
        let has_key = !self.config.null_keys || context.has_key();
        if (is_dimension && !has_key) || (!is_dimension && record.value.is_none()) {
            // A null key equals nothing, and nothing is emitted of a behaviour that is deleted.
            self.ignored.increment(context);
            return Ok(());
        }
        let Some(time) = record.time else {
            fail!("a record without event time meets no version: give both inputs a `time`");
        };
        if is_dimension {
            return self.on_dimension(record.value, time, context);
        }
        let fields = self.template.fields(BEHAVIOUR);
        let fields = fields.keep(&fields.pick(record.value.unwrap_or_default())?);
        let headers = self.behaviour_headers.read(context);
        let row = BehaviourRow { fields, headers, emissions: 0 };
        if !has_key {
            self.emit(&row, time, None, context);
            return Ok(());
        }
        self.on_behaviour(row, time, context)
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        if let Some(correction) = self.corrections.take(context, timer)? {
            return self.correct(correction, context);
        }
        if self.waiting.is_own(timer) {
            return self.decide(timer, context);
        }
        if (timer.domain, timer.tag) == (TimerDomain::Event, FORGET) {
            return self.forget_behind(timer.time, context);
        }
        Ok(())
    }
}

impl AsOf {
    fn on_behaviour(
        &mut self,
        mut row: BehaviourRow,
        time: i64,
        context: &mut Context<'_>,
    ) -> Result {
        let is_full = match self.config.max_waiting_per_key {
            Some(max) if self.config.mode != Mode::AtOnce => {
                self.waiting.items().len(context)? >= u64::from(max)
            }
            _ => false,
        };
        if is_full {
            if let Some(overflow) = self.overflow {
                overflow.forward(context);
            }
            return Ok(());
        }
        if self.config.mode != Mode::WaitForWatermark {
            let version = self.versions.as_of(context, time)?;
            self.emit(&row, time, version.as_ref(), context);
            if self.config.mode == Mode::AtOnce || time <= context.watermark() {
                return Ok(());
            }
            row.emissions = 1;
        }
        self.waiting.push(context, time, &row)?;
        Ok(())
    }

    fn on_dimension(
        &mut self,
        value: Option<&[u8]>,
        time: i64,
        context: &mut Context<'_>,
    ) -> Result {
        let row = match value {
            Some(value) => {
                let fields = self.template.fields(DIMENSION);
                let fields = fields.keep(&fields.pick(value)?);
                Some(DimensionRow { fields, headers: self.dimension_headers.read(context) })
            }
            None => None,
        };
        let to = self.versions.put(context, time, row.as_ref())?;
        // When it has been valid for long enough, what it replaced is forgotten.
        let over = time.saturating_add(self.config.keep_versions.0);
        context.timers().register_event_time(over, FORGET);
        if let (None, Some(length)) = (value, self.config.forget_deletes_after) {
            let over = time.max(context.watermark()).saturating_add(length.0);
            context.timers().register_event_time(over, FORGET);
        }
        if self.config.mode == Mode::Eager {
            return self.correct(Correction { from: time, to, after: None }, context);
        }
        Ok(())
    }

    /// Decides a step of the behaviours of the time that has come.
    fn decide(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        let (waiting, versions) = (self.waiting, self.versions);
        // Of one timer all have the same time, and so the same version.
        let mut known = None;
        waiting.expire(context, timer, STEP, |slot, row, context| {
            if self.config.mode == Mode::WaitForWatermark {
                let version = match known.take() {
                    Some(version) => version,
                    None => versions.as_of(context, slot.time)?,
                };
                self.emit(&row, slot.time, version.as_ref(), context);
                known = Some(version);
            }
            Ok(())
        })?;
        self.forget_behind(timer.time, context)
    }

    /// Forgets versions where no behaviour from a time on is still to be decided: what is due needs
    /// its versions, and they are forgotten behind the last of it. Timers come in order, so that
    /// what lies before has had its turn.
    fn forget_behind(&self, time: i64, context: &mut Context<'_>) -> Result {
        let due = time..=context.watermark();
        if due.is_empty() {
            return self.forget(context);
        }
        let (first, _) = self.waiting.items().page(context, due, 1)?;
        if first.is_empty() { self.forget(context) } else { Ok(()) }
    }

    /// Emits a step of the behaviours again that a new version is valid for.
    fn correct(&mut self, correction: Correction, context: &mut Context<'_>) -> Result {
        let Correction { from, to, after } = correction;
        let after = after.map(|(time, sequence)| Slot { time, sequence });
        let items = *self.waiting.items();
        let range = (
            std::ops::Bound::Included(from),
            match to {
                Some(to) => std::ops::Bound::Excluded(to),
                None => std::ops::Bound::Unbounded,
            },
        );
        let (rows, has_more) = items.page_after(context, range, after, STEP)?;
        if rows.is_empty() {
            return Ok(());
        }
        let version = self.versions.as_of(context, from)?;
        let (count, mut done, mut last) = (rows.len(), 0, None);
        for (slot, mut row) in rows {
            self.corrected.increment(context);
            self.emit(&row, slot.time, version.as_ref(), context);
            row.emissions += 1;
            items.replace(context, slot, &row)?;
            last = Some((slot.time, slot.sequence));
            done += 1;
            if context.is_step_full() {
                break;
            }
        }
        if has_more || done < count {
            let after = last;
            self.corrections.go_on(context, &Correction { from, to, after })?;
        }
        Ok(())
    }

    /// Forgets versions that can decide nothing any more.
    fn forget(&self, context: &mut Context<'_>) -> Result {
        let watermark = context.watermark();
        let time = watermark.saturating_sub(self.config.keep_versions.0);
        self.versions.forget_before(context, time)?;
        let Some(length) = self.config.forget_deletes_after else { return Ok(()) };
        let Some(latest) = self.versions.latest(context)? else { return Ok(()) };
        let is_over = latest.time.saturating_add(length.0) <= watermark;
        if latest.value.is_none()
            && is_over
            && self.versions.earliest(context)? == Some(latest.time)
        {
            self.versions.clear(context);
        }
        Ok(())
    }

    /// Emits a behaviour with the version that is valid at its time, or without one.
    fn emit(
        &mut self,
        row: &BehaviourRow,
        time: i64,
        version: Option<&Version<DimensionRow>>,
        context: &mut Context<'_>,
    ) {
        let found = version.and_then(|version| Some((version.time, version.value.as_ref()?)));
        let output = match (found, row.emissions, self.config.unmatched) {
            (Some(_), _, _) => self.main,
            // A correction that takes the dimension away must reach whoever has the result.
            (None, 1.., _) | (None, 0, Unmatched::EmitWithout) => self.main,
            (None, 0, Unmatched::SideOutput) => self.unmatched.unwrap_or(self.main),
            (None, 0, Unmatched::Drop) => {
                self.without_version.increment(context);
                return;
            }
        };
        match found {
            Some(_) => self.matched.increment(context),
            None => self.without_version.increment(context),
        }
        let behaviour = self.template.fields(BEHAVIOUR).restore(row.fields.borrow());
        let fields = self.template.fields(DIMENSION);
        let dimension = found.map(|(_, row)| fields.restore(row.fields.borrow()));
        let dimension: Side<'_, '_> = dimension.as_deref().unwrap_or(&[]);
        let status = if found.is_some() { "\"OK\"" } else { "\"NO_VERSION\"" };
        let valid_from = found.map_or("null".to_owned(), |(time, _)| time.to_string());
        let emission = (row.emissions + 1).to_string();
        self.template.render(
            &[&behaviour, dimension],
            &[status, &valid_from, &emission],
            &mut self.out,
        );
        let message = Message::new(&self.out).time(time);
        match found {
            Some((_, version)) if !version.headers.is_empty() => {
                let headers = [row.headers.as_slice(), &version.headers].concat();
                output.send(context, message.headers(&headers));
            }
            _ => output.send(context, message.headers(&row.headers)),
        }
    }
}
