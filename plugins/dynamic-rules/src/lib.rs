//! Pairs records of two streams by rules that are data: for each class how long to wait, and which
//! fields must agree. A change of a rule is in force as soon as it is read.
//!
//! A record meets the earliest record of the other side that waits under its key and agrees with it
//! by the rule that the waiting one waits under; else it waits itself, under the rule of its class.
//! The rule that decided is part of every result.
//!
//! May not know: what the fields mean; the host gives the key.
//!
//! Invariant: every record has exactly one outcome: it is in one pair, or in `unmatched`, `unruled`
//! or `overflow`. Which rule that was depends on when the rule arrived, and is committed with it.

mod config;

use dovetail_sdk::{
    BroadcastMap, BroadcastValue, Context, Counter, EventTimeBuffer, Input, Message, Output,
    Plugin, Record, Result, Setup, Slot, Timer, fail,
    json::{Fields, write_string},
    result::{Side, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, Terms};
use crate::config::{Rule, RuleRecord};

/// The names of the sides, in the order of a result.
const SIDES: [&str; 2] = ["left", "right"];
/// What a result can say beside its sides.
const WORDS: [&str; 3] = ["status", "class", "version"];

/// Records of a side whose timer is looked at in one call; more go on in the next (`continue`).
const STEP: u32 = 500;

/// The plugin.
#[derive(Debug)]
pub struct DynamicRules {
    left: Input,
    main: Output,
    unmatched: Output,
    unruled: Option<Output>,
    overflow: Option<Output>,
    /// The rule in force of each class.
    rules: BroadcastMap<String, Rule>,
    /// How many rule records were taken: the version of a rule that names none.
    changes: BroadcastValue<u64>,
    waiting: [EventTimeBuffer<Waiting>; 2],
    matched_total: Counter,
    unmatched_total: Counter,
    unruled_total: Counter,
    changed_rules: Counter,
    stale_rules: Counter,
    ignored: Counter,
    default: Option<Rule>,
    class: Fields,
    template: Template,
    config: Config,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(DynamicRules);

/// A record that waits for its partner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    /// Absent where the record names none.
    class: Option<String>,
    /// The rule that it came under.
    rule: Rule,
    value: Vec<u8>,
    /// When its timer fires.
    timer: i64,
}

impl Plugin for DynamicRules {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        config.check()?;
        let [left, right] = SIDES;
        let left = setup.input(left);
        setup.input(right);
        setup.broadcast_input("rules");
        let shape = config.result.clone();
        let shape = shape.unwrap_or_else(|| dovetail_sdk::result::Shape::whole(&SIDES, &WORDS));
        let mut class = Fields::default();
        class.want(&config.class);
        Ok(Self {
            left,
            main: setup.output("main"),
            unmatched: setup.output("unmatched"),
            unruled: config.default.is_none().then(|| setup.output("unruled")),
            overflow: config.max_waiting_per_key.map(|_| setup.output("overflow")),
            rules: setup.broadcast_state("rules").map(),
            changes: setup.broadcast_state("changes").value(),
            waiting: SIDES.map(|side| setup.state(side).event_time_buffer()),
            matched_total: setup.counter("matched"),
            unmatched_total: setup.counter("unmatched"),
            unruled_total: setup.counter("unruled"),
            changed_rules: setup.counter("changed_rules"),
            stale_rules: setup.counter("stale_rules"),
            ignored: setup.counter("ignored_records"),
            default: config.default.clone().map(|terms| Rule::new(0, terms)),
            class,
            template: shape.compile(&SIDES, &WORDS)?,
            config,
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let Some(value) = record.value else {
            // There is nothing to be paired of a record that is deleted.
            self.ignored.increment(context);
            return Ok(());
        };
        let side = usize::from(record.input != self.left);
        let Some(time) = record.time else {
            let side = SIDES[side];
            fail!("a record without event time cannot wait: give the input `{side}` a `time`");
        };
        let class = self.class_of(value)?;
        if self.pair(side, time, value, context)? {
            return Ok(());
        }
        let Some(rule) = self.in_force(class.as_ref(), context)? else {
            self.unruled_total.increment(context);
            if let Some(unruled) = self.unruled {
                unruled.forward(context);
            }
            return Ok(());
        };
        let value = value.to_vec();
        let waiting = Waiting { class, rule, value, timer: 0 };
        self.wait(side, time, waiting, context)
    }

    fn process_broadcast(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let changes = self.changes.get(context)?.unwrap_or(0) + 1;
        self.changes.put(context, &changes)?;
        let Some(value) = record.value else {
            let class = String::from_utf8(context.key().unwrap_or_default())?;
            self.rules.remove(context, &class);
            self.changed_rules.increment(context);
            return Ok(());
        };
        let rule: RuleRecord = serde_json::from_slice(value)?;
        let known = self.rules.get(context, &rule.class)?;
        let version = rule.version.unwrap_or(changes);
        if known.is_some_and(|known| known.version >= version) {
            self.stale_rules.increment(context);
            return Ok(());
        }
        let terms = Terms { wait: rule.wait, agree: rule.agree };
        self.rules.put(context, &rule.class, &Rule::new(version, terms))?;
        self.changed_rules.increment(context);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        // The tag is the event time of what it is about.
        let time = timer.tag.cast_signed();
        for side in 0..SIDES.len() {
            if !self.look_at_due(side, time, timer.time, context)? {
                context.timers().continue_with(timer.tag);
                return Ok(());
            }
        }
        Ok(())
    }
}

impl DynamicRules {
    fn class_of(&self, value: &[u8]) -> Result<Option<String>> {
        let found = self.class.pick(value)?[0].filter(|raw| *raw != "null");
        let class = found.map(|raw| match raw.strip_prefix('"') {
            Some(_) => serde_json::from_str(raw).map_err(dovetail_sdk::Error::from),
            None => Ok(raw.to_owned()),
        });
        class.transpose()
    }

    /// Returns the rule in force for a class.
    fn in_force(&self, class: Option<&String>, context: &mut Context<'_>) -> Result<Option<Rule>> {
        let rule = class.map(|class| self.rules.get(context, class)).transpose()?.flatten();
        Ok(rule.or_else(|| self.default.clone()))
    }

    /// Returns the rule that a record waits under now. One whose rule was deleted keeps it.
    fn rule_of(&self, item: &Waiting, context: &mut Context<'_>) -> Result<Rule> {
        if !self.config.apply_to_waiting {
            return Ok(item.rule.clone());
        }
        let rule = self.in_force(item.class.as_ref(), context)?;
        Ok(rule.unwrap_or_else(|| item.rule.clone()))
    }

    /// Pairs a record with the first of the other side that waits and agrees; returns whether there
    /// was one.
    fn pair(
        &mut self,
        side: usize,
        time: i64,
        value: &[u8],
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let other = 1 - side;
        for (slot, item) in self.waiting[other].range(context, ..)? {
            let rule = self.rule_of(&item, context)?;
            let is_over = slot.time.saturating_add(rule.wait) <= context.watermark();
            let is_near = time.abs_diff(slot.time) <= rule.wait.unsigned_abs();
            if is_over || !is_near || !agree(&rule.agree, value, &item.value)? {
                continue;
            }
            self.waiting[other].remove(context, slot)?;
            self.delete_timer(slot.time, item.timer, context)?;
            let mut sides: [Option<&[u8]>; 2] = [Some(value); 2];
            sides[other] = Some(&item.value);
            self.matched_total.increment(context);
            let time = time.max(slot.time);
            self.emit(self.main, "MATCHED", sides, (item.class.as_deref(), &rule), time, context)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Deletes the timer of a record that waits no more, unless another of the same time shares it.
    fn delete_timer(&self, time: i64, timer: i64, context: &mut Context<'_>) -> Result {
        for waiting in &self.waiting {
            let same = waiting.range(context, time..=time)?;
            if same.iter().any(|(_, item)| item.timer == timer) {
                return Ok(());
            }
        }
        context.timers().delete_event_time(timer, time.cast_unsigned());
        Ok(())
    }

    /// Lets a record wait for its partner, unless its time is over already.
    fn wait(
        &mut self,
        side: usize,
        time: i64,
        mut item: Waiting,
        context: &mut Context<'_>,
    ) -> Result {
        let deadline = time.saturating_add(item.rule.wait);
        if deadline <= context.watermark() {
            return self.give_up(side, time, &item, &item.rule, context);
        }
        if let (Some(max), Some(overflow)) = (self.config.max_waiting_per_key, self.overflow)
            && self.waiting[side].len(context)? >= max
        {
            overflow.forward(context);
            return Ok(());
        }
        item.timer = self.next_look(deadline, time.max(context.watermark()));
        self.waiting[side].push(context, time, &item)?;
        context.timers().register_event_time(item.timer, time.cast_unsigned());
        Ok(())
    }

    /// Looks at a step of the records of a side and event time whose timer is at `due`; returns
    /// whether none is left. One that was looked at is gone or has a later timer.
    fn look_at_due(
        &mut self,
        side: usize,
        time: i64,
        due: i64,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let mut after = None;
        loop {
            let (mut items, has_more) =
                self.waiting[side].page_after(context, time..=time, after, STEP)?;
            after = items.last().map(|(slot, _)| *slot);
            items.retain(|(_, item)| item.timer == due);
            let is_step = !items.is_empty();
            for (slot, item) in items {
                if context.is_step_full() {
                    return Ok(false);
                }
                self.look_at(side, slot, item, context)?;
            }
            if is_step || !has_more {
                return Ok(!has_more);
            }
        }
    }

    /// A timer is due: the record's time is over by the rule that it waits under now, or it goes on
    /// waiting.
    fn look_at(
        &mut self,
        side: usize,
        slot: Slot,
        mut item: Waiting,
        context: &mut Context<'_>,
    ) -> Result {
        let rule = self.rule_of(&item, context)?;
        let deadline = slot.time.saturating_add(rule.wait);
        if deadline <= context.watermark() {
            self.waiting[side].remove(context, slot)?;
            return self.give_up(side, slot.time, &item, &rule, context);
        }
        item.timer = self.next_look(deadline, item.timer.max(context.watermark()));
        self.waiting[side].replace(context, slot, &item)?;
        context.timers().register_event_time(item.timer, slot.time.cast_unsigned());
        Ok(())
    }

    fn next_look(&self, deadline: i64, now: i64) -> i64 {
        self.config.recheck.map_or(deadline, |every| deadline.min(now.saturating_add(every.0)))
    }

    fn give_up(
        &mut self,
        side: usize,
        time: i64,
        item: &Waiting,
        rule: &Rule,
        context: &mut Context<'_>,
    ) -> Result {
        self.unmatched_total.increment(context);
        let mut sides = [None; 2];
        sides[side] = Some(item.value.as_slice());
        let why = (item.class.as_deref(), rule);
        self.emit(self.unmatched, "UNMATCHED", sides, why, time, context)
    }

    fn emit(
        &mut self,
        output: Output,
        status: &str,
        sides: [Option<&[u8]>; 2],
        (class, rule): (Option<&str>, &Rule),
        time: i64,
        context: &mut Context<'_>,
    ) -> Result {
        let mut name = Vec::new();
        match class {
            Some(class) => write_string(class, &mut name),
            None => name.extend_from_slice(b"null"),
        }
        let words = [format!("\"{status}\""), String::from_utf8(name)?, rule.version.to_string()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let pick = |side: usize| {
            sides[side].map(|value| self.template.fields(side).pick(value)).transpose()
        };
        let (left, right) = (pick(0)?, pick(1)?);
        let sides: [Side<'_, '_>; 2] =
            [left.as_deref().unwrap_or_default(), right.as_deref().unwrap_or_default()];
        self.template.render(&sides, &words, &mut self.out);
        output.send(context, Message::new(&self.out).time(time));
        Ok(())
    }
}

/// Whether two records have the same values in all of these fields; an absent or null one is the same
/// as nothing.
fn agree(names: &[String], one: &[u8], other: &[u8]) -> Result<bool> {
    let mut fields = Fields::default();
    for name in names {
        fields.want(name);
    }
    let (one, other) = (fields.pick(one)?, fields.pick(other)?);
    let is_same = |(one, other): (&Option<&str>, &Option<&str>)| {
        one == other && one.is_some_and(|raw| raw != "null")
    };
    Ok(one.iter().zip(other.iter()).all(is_same))
}
