//! Joins a header with each of its details: one wide row per pair, emitted again whenever either
//! changes, as upserts keyed by header and detail.
//!
//! A header without details is told alone after a while; the first detail takes that row back.
//!
//! May not know: which fields the join key is made of; the host gives the key.
//!
//! Invariant: what was emitted last for a key of the output is the newest header with the newest
//! detail of that id; a row with an older version never replaces a newer one.

mod config;

use std::ops::Bound;

use dovetail_sdk::{
    Context, Counter, Expiry, Header, HeaderNames, Input, MapState, Message, Output, Plugin,
    Record, Result, Setup, Timer, ValueState, fail,
    join::{Steps, upsert_key},
    json,
    json::Kept as KeptFields,
    result::{Shape, Side, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Kept, Versions};

/// Details worked through in one call; more go on in the next.
const STEP: u32 = 100;

/// The places of the sides in a result.
const HEADER: usize = 0;
const DETAIL: usize = 1;

/// Timers: a header without details is told alone; a change of the header goes on.
const ALONE: u64 = 0;
const GO_ON: u64 = 1;

/// The plugin.
#[derive(Debug)]
pub struct WideRow {
    header: Input,
    main: Output,
    overflow: Option<Output>,
    head: ValueState<Head>,
    details: MapState<String, Detail>,
    steps: Steps<Rest>,
    wait: i64,
    max_details: Option<u32>,
    template: Template,
    id_slot: usize,
    version_slots: [Option<usize>; 2],
    headers: [HeaderNames; 2],
    stale: Counter,
    overflowed: Counter,
    ignored: Counter,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(WideRow);

/// What is kept of a row: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    time: i64,
    version: Option<i64>,
    fields: KeptFields,
    headers: Vec<Header>,
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Its event time, or that of its delete.
    time: i64,
    /// The row; none after a delete.
    row: Option<Row>,
    /// How often it was told alone, and whether that stands.
    told_alone: u32,
    is_alone: bool,
}

/// A detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Detail {
    row: Row,
    /// How many results its key has had, and whether the last one stands.
    told: u32,
    stands: bool,
}

/// Details that a change of their header has not reached yet: those behind this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rest {
    after: String,
}

impl Row {
    /// Returns whether a row of that version and time is newer.
    fn yields_to(&self, version: Option<i64>, time: i64) -> bool {
        match (version, self.version) {
            (Some(new), Some(old)) => new > old,
            (Some(_) | None, None) | (None, Some(_)) => time >= self.time,
        }
    }
}

impl Plugin for WideRow {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let header = setup.input("header");
        setup.input("detail");
        config.headers.check(setup)?;
        let (sides, words) = (["header", "detail"], ["version", "match"]);
        let shape = config.result.unwrap_or_else(|| Shape::whole(&sides, &words));
        let mut template = shape.compile(&sides, &words)?;
        let id_slot = template.fields_mut(DETAIL).want(&config.detail_id);
        let versions = [config.version.header, config.version.detail];
        let mut slot =
            |at: usize| versions[at].as_ref().map(|name| template.fields_mut(at).want(name));
        let version_slots = [slot(HEADER), slot(DETAIL)];
        let (for_header, for_detail) = (config.keep.header, config.keep.detail);
        Ok(Self {
            header,
            main: setup.output("main"),
            overflow: config.max_details_per_key.map(|_| setup.output("overflow")),
            head: setup.state("header").expiry(Expiry::event_time(for_header)).value(),
            details: setup.state("details").expiry(Expiry::event_time(for_detail)).map(),
            steps: Steps::new(setup.state("rest").value(), GO_ON),
            wait: config.wait.0,
            max_details: config.max_details_per_key,
            template,
            id_slot,
            version_slots,
            headers: sides.map(|side| config.headers.of(side)),
            stale: setup.counter("stale"),
            overflowed: setup.counter("overflowed"),
            ignored: setup.counter("ignored_records"),
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let Some(time) = record.time else {
            fail!("a row without event time is neither new nor old: give both inputs a `time`");
        };
        match (record.input == self.header, record.value) {
            (true, value) => self.on_header(value, time, context),
            (false, Some(value)) => self.on_detail(value, time, context),
            (false, None) => {
                // A tombstone does not tell which detail it is of.
                self.ignored.increment(context);
                Ok(())
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        if let Some(rest) = self.steps.take(context, timer)? {
            let Some(head) = self.head.get(context)? else { return Ok(()) };
            return self.tell_details(&head, Some(rest.after), context);
        }
        let Some(mut head) = self.head.get(context)? else { return Ok(()) };
        let is_time = head.time.saturating_add(self.wait) <= timer.time;
        if timer.tag != ALONE || !is_time || head.is_alone || head.row.is_none() {
            return Ok(());
        }
        let (first, _) = self.details.page(context, .., 1)?;
        if !first.is_empty() {
            return Ok(());
        }
        self.tell_alone(&mut head, timer.time, context);
        self.head.put(context, &head)
    }
}

impl WideRow {
    fn on_header(&mut self, value: Option<&[u8]>, time: i64, context: &mut Context<'_>) -> Result {
        let row = value.map(|value| self.row(HEADER, value, time, context)).transpose()?;
        let before = self.head.get(context)?;
        let is_newer = match (&before, &row) {
            (Some(Head { row: Some(known), .. }), Some(row)) => known.yields_to(row.version, time),
            (Some(head), _) => time >= head.time,
            (None, _) => true,
        };
        if !is_newer {
            self.stale.increment(context);
            return Ok(());
        }
        let (told_alone, is_alone) =
            before.map_or((0, false), |head| (head.told_alone, head.is_alone));
        let mut head = Head { time, row, told_alone, is_alone };
        if head.is_alone {
            self.tell_alone(&mut head, time, context);
        }
        self.head.put(context, &head)?;
        if head.row.is_some() {
            context.timers().register_event_time(time.saturating_add(self.wait), ALONE);
        }
        self.tell_details(&head, None, context)
    }

    fn on_detail(&mut self, value: &[u8], time: i64, context: &mut Context<'_>) -> Result {
        let id = match self.template.fields(DETAIL).pick(value)?[self.id_slot] {
            Some(raw) if raw != "null" => raw.to_owned(),
            _ => fail!("a detail without its id cannot be told from others of its header"),
        };
        let row = self.row(DETAIL, value, time, context)?;
        let before = self.details.get(context, &id)?;
        let (told, stands) = match before {
            Some(detail) if !detail.row.yields_to(row.version, time) => {
                self.stale.increment(context);
                return Ok(());
            }
            Some(detail) => (detail.told, detail.stands),
            None => (0, false),
        };
        if let (Some(max), 0, Some(overflow)) = (self.max_details, told, self.overflow) {
            let is_known = self.details.get(context, &id)?.is_some();
            if !is_known && self.has_details(max, context)? {
                self.overflowed.increment(context);
                overflow.forward(context);
                return Ok(());
            }
        }
        let mut detail = Detail { row, told, stands };
        if let Some(mut head) = self.head.get(context)?.filter(|head| head.row.is_some()) {
            if head.is_alone {
                // Its own row takes the place of the one that was told alone.
                head.is_alone = false;
                let key = upsert_key(context, None);
                let message = Message::tombstone().key(&key).time(time.max(head.time));
                self.main.send(context, message);
                self.head.put(context, &head)?;
            }
            self.tell(&head, &id, &mut detail, context);
        }
        self.details.put(context, &id, &detail)
    }

    /// Returns whether there are so many details; a page may be cut before it is full.
    fn has_details(&self, count: u32, context: &mut Context<'_>) -> Result<bool> {
        let mut left = count;
        let mut from = Bound::Unbounded;
        while left > 0 {
            let (page, has_more) = self.details.page(context, (from, Bound::Unbounded), left)?;
            left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
            match page.into_iter().next_back() {
                Some((id, _)) if has_more => from = Bound::Excluded(id),
                _ => break,
            }
        }
        Ok(left == 0)
    }

    /// Returns what is kept of a record.
    fn row(&self, side: usize, value: &[u8], time: i64, context: &Context<'_>) -> Result<Row> {
        let fields = self.template.fields(side);
        let found = fields.pick(value)?;
        let version = match self.version_slots[side].map(|slot| found[slot]) {
            None => None,
            Some(raw) => match raw.and_then(json::integer) {
                Some(version) => Some(version),
                None => fail!(
                    "the version of a {} should be an integer, found {}",
                    ["header", "detail"][side],
                    raw.unwrap_or("nothing")
                ),
            },
        };
        let headers = self.headers[side].read(context);
        Ok(Row { time, version, fields: fields.keep(&found), headers })
    }

    /// Tells a step of the details of a header that has changed.
    fn tell_details(
        &mut self,
        head: &Head,
        after: Option<String>,
        context: &mut Context<'_>,
    ) -> Result {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (page, has_more) = self.details.page(context, (from, Bound::Unbounded), STEP)?;
        let (count, mut done) = (page.len(), 0);
        let mut last = None;
        for (id, mut detail) in page {
            self.tell(head, &id, &mut detail, context);
            self.details.put(context, &id, &detail)?;
            done += 1;
            last = Some(id);
            if context.is_step_full() {
                break;
            }
        }
        match last {
            Some(after) if has_more || done < count => self.steps.go_on(context, &Rest { after }),
            _ => Ok(()),
        }
    }

    /// Tells a header with a detail, or that there is no such row any more.
    fn tell(&mut self, head: &Head, id: &str, detail: &mut Detail, context: &mut Context<'_>) {
        let time = head.time.max(detail.row.time);
        let key = upsert_key(context, Some(id));
        self.out.clear();
        let Some(header) = &head.row else {
            if detail.stands {
                self.main.send(context, Message::tombstone().key(&key).time(time));
            }
            detail.stands = false;
            return;
        };
        detail.told = detail.told.saturating_add(1);
        detail.stands = true;
        let left = self.template.fields(HEADER).restore(header.fields.borrow());
        let right = self.template.fields(DETAIL).restore(detail.row.fields.borrow());
        let version = detail.told.to_string();
        self.template.render(&[&left, &right], &[&version, "\"BOTH\""], &mut self.out);
        let headers = [header.headers.as_slice(), &detail.row.headers].concat();
        let message = Message::new(&self.out).key(&key).headers(&headers).time(time);
        self.main.send(context, message);
    }

    /// Tells a header without details, or that it is there no more.
    fn tell_alone(&mut self, head: &mut Head, time: i64, context: &mut Context<'_>) {
        let key = upsert_key(context, None);
        let Some(header) = &head.row else {
            head.is_alone = false;
            self.main.send(context, Message::tombstone().key(&key).time(time));
            return;
        };
        head.told_alone = head.told_alone.saturating_add(1);
        head.is_alone = true;
        let fields = self.template.fields(HEADER).restore(header.fields.borrow());
        let nothing: Side<'_, '_> = &[];
        let version = head.told_alone.to_string();
        self.template.render(&[&fields, nothing], &[&version, "\"HEADER\""], &mut self.out);
        let message = Message::new(&self.out).key(&key).headers(&header.headers).time(time);
        self.main.send(context, message);
    }
}
