//! Every order gives exactly one result: *paid*, when a payment lies within `within` of it, or
//! *unpaid*, as soon as event time has passed the order's time + `within`.
//!
//! Either may come first: a payment without an order waits until no order in time can come. A
//! payment for an order that is decided goes to `late`.
//!
//! The time of a paid result is the later of both records, that of an unpaid one the order's time
//! + `within`.
//!
//! May not know: which field the order's id is; the host gives the key. One key is one order: of
//! orders that repeat a key the first is decided, the others are counted.
//!
//! Invariant: a key has an order row from the order's arrival until its deadline (unpaid: until
//! no payment in its range can come, however early), and never two results.

mod config;

use std::time::Duration;

use dovetail_sdk::{
    Context, Counter, EventTimeBuffer, Header, HeaderNames, Histogram, Input, Message, Output,
    Plugin, Record, Result, Setup, Timer, ValueState, fail,
    json::Kept,
    result::{Shape, Side, Template},
};
use serde::{Deserialize, Serialize};

pub use crate::config::{Config, WithoutOrder};

/// The places of the sides in a result.
const ORDER: usize = 0;
const PAYMENT: usize = 1;

/// What a timer is for.
const DECIDE: u64 = 0;
const FORGET: u64 = 1;
const GIVE_UP: u64 = 2;
/// Only a continuation has it: the order is decided, so every payment goes.
const RELEASE: u64 = 3;

/// Payments released in one call; more go on in the next (`continue`).
const STEP: u32 = 500;

/// The plugin.
#[derive(Debug)]
pub struct OrderPayment {
    order: Input,
    main: Output,
    late: Output,
    decision: ValueState<OrderRow>,
    payments: EventTimeBuffer<PaymentRow>,
    paid: Counter,
    unpaid: Counter,
    late_payments: Counter,
    dropped_payments: Counter,
    repeated_orders: Counter,
    ignored: Counter,
    match_delay: Histogram,
    template: Template,
    order_headers: HeaderNames,
    payment_headers: HeaderNames,
    within: i64,
    before: i64,
    without_order: WithoutOrder,
    /// Holds a result while it is made.
    out: Vec<u8>,
}

dovetail_sdk::export!(OrderPayment);

/// What is kept of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum OrderRow {
    /// It has no result yet.
    Open {
        /// Its event time.
        time: i64,
        /// Its fields that results need.
        fields: Kept,
        /// Its headers that results carry.
        headers: Vec<Header>,
    },
    /// It has had its result.
    Decided,
}

/// A payment that waits for its order: whole, since it may end in `late`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PaymentRow {
    value: Vec<u8>,
    headers: Vec<Header>,
    /// Until when an order in time can come.
    deadline: i64,
}

/// One side of a result.
struct Half<'a, 'v> {
    fields: Side<'a, 'v>,
    headers: &'a [Header],
}

impl Plugin for OrderPayment {
    type Config = Config;

    fn open(config: Config, setup: &mut Setup) -> Result<Self> {
        let order = setup.input("order");
        setup.input("payment");
        config.headers.check(setup)?;
        let (sides, words) = (["order", "payment"], ["status"]);
        let shape = config.result.unwrap_or_else(|| Shape::whole(&sides, &words));
        Ok(Self {
            order,
            main: setup.output("main"),
            late: setup.output("late"),
            decision: setup.state("order").value(),
            payments: setup.state("payments").event_time_buffer(),
            paid: setup.counter("paid"),
            unpaid: setup.counter("unpaid"),
            late_payments: setup.counter("late_payments"),
            dropped_payments: setup.counter("dropped_payments"),
            repeated_orders: setup.counter("repeated_orders"),
            ignored: setup.counter("ignored_records"),
            match_delay: setup.histogram("match_delay_seconds"),
            template: shape.compile(&sides, &words)?,
            order_headers: config.headers.of("order"),
            payment_headers: config.headers.of("payment"),
            within: config.within.0,
            before: config.before.unwrap_or(config.within).0,
            without_order: config.without_order,
            out: Vec::new(),
        })
    }

    fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
        let Some(value) = record.value else {
            // A delete decides nothing: its order has its result, or will have it.
            self.ignored.increment(context);
            return Ok(());
        };
        let Some(time) = record.time else {
            fail!("a record without event time cannot be joined: give both inputs a `time`");
        };
        if record.input == self.order {
            self.on_order(value, time, context)
        } else {
            self.on_payment(value, time, context)
        }
    }

    fn on_timer(&mut self, timer: Timer, context: &mut Context<'_>) -> Result {
        match timer.tag {
            GIVE_UP => self.release(timer.time, GIVE_UP, context),
            RELEASE => self.release(i64::MAX, RELEASE, context),
            FORGET => {
                self.decision.remove(context);
                Ok(())
            }
            _ => self.decide_unpaid(context),
        }
    }
}

impl OrderPayment {
    fn on_order(&mut self, value: &[u8], time: i64, context: &mut Context<'_>) -> Result {
        let fields = self.template.fields(ORDER).pick(value)?;
        let headers = self.order_headers.read(context);
        let half = Half { fields: &fields, headers: &headers };
        if !context.has_key() {
            // A null key equals nothing, so no payment will ever come.
            self.emit_unpaid(&half, time, context);
            return Ok(());
        }
        if self.decision.get(context)?.is_some() {
            self.repeated_orders.increment(context);
            return Ok(());
        }
        let deadline = time.saturating_add(self.within);
        let has_payments = !self.payments.is_empty(context)?;
        if has_payments && self.pay_from_kept(&half, time, context)? {
            self.decided(deadline, context)?;
            return self.release(i64::MAX, RELEASE, context);
        }
        if deadline <= context.watermark() {
            self.emit_unpaid(&half, time, context);
            self.decided(deadline.saturating_add(self.before), context)?;
            return if has_payments { self.release(i64::MAX, RELEASE, context) } else { Ok(()) };
        }
        let fields = self.template.fields(ORDER).keep(&fields);
        context.timers().register_event_time(deadline, DECIDE);
        self.decision.put(context, &OrderRow::Open { time, fields, headers })
    }

    /// Pays an order with the earliest payment in its range that waits; returns whether there is
    /// one.
    fn pay_from_kept(
        &mut self,
        order: &Half<'_, '_>,
        ordered: i64,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let range = ordered.saturating_sub(self.before)..=ordered.saturating_add(self.within);
        let (first, _) = self.payments.page(context, range, 1)?;
        let Some((slot, payment)) = first.into_iter().next() else { return Ok(false) };
        self.payments.remove(context, slot)?;
        context.timers().delete_event_time(payment.deadline, GIVE_UP);
        let fields = self.template.fields(PAYMENT).pick(&payment.value)?;
        let headers = self.payment_headers.filter(&payment.headers);
        let paying = Half { fields: &fields, headers: &headers };
        self.match_delay.record(context, seconds_between(ordered, slot.time));
        self.emit_paid(order, &paying, ordered.max(slot.time), context);
        Ok(true)
    }

    fn on_payment(&mut self, value: &[u8], time: i64, context: &mut Context<'_>) -> Result {
        let fields = self.template.fields(PAYMENT).pick(value)?;
        if !context.has_key() {
            self.send_late(context);
            return Ok(());
        }
        match self.decision.get(context)? {
            Some(OrderRow::Decided) => {
                self.send_late(context);
                Ok(())
            }
            Some(OrderRow::Open { time: ordered, fields: order, headers })
                if self.is_in_range(ordered, time) =>
            {
                let order = self.template.fields(ORDER).restore(order.borrow());
                let order = Half { fields: &order, headers: &headers };
                let headers = self.payment_headers.read(context);
                let payment = Half { fields: &fields, headers: &headers };
                let deadline = ordered.saturating_add(self.within);
                self.match_delay.record(context, seconds_between(ordered, time));
                self.emit_paid(&order, &payment, ordered.max(time), context);
                context.timers().delete_event_time(deadline, DECIDE);
                self.decided(deadline, context)
            }
            // One key is one order: this payment will never have another.
            Some(OrderRow::Open { .. }) => {
                self.send_late(context);
                Ok(())
            }
            None => self.keep_payment(value, time, context),
        }
    }

    /// Keeps a payment until no order in time can come.
    fn keep_payment(&mut self, value: &[u8], time: i64, context: &mut Context<'_>) -> Result {
        let deadline = time.saturating_add(self.before);
        if deadline <= context.watermark() {
            self.send_late(context);
            return Ok(());
        }
        let headers = context.headers();
        let payment = PaymentRow { value: value.to_vec(), headers, deadline };
        self.payments.push(context, time, &payment)?;
        context.timers().register_event_time(deadline, GIVE_UP);
        Ok(())
    }

    fn is_in_range(&self, ordered: i64, paid: i64) -> bool {
        paid >= ordered.saturating_sub(self.before) && paid <= ordered.saturating_add(self.within)
    }

    /// Notes that the order has its result, so that payments up to `until` find it decided.
    fn decided(&mut self, until: i64, context: &mut Context<'_>) -> Result {
        if until > context.watermark() {
            context.timers().register_event_time(until, FORGET);
            self.decision.put(context, &OrderRow::Decided)?;
        } else {
            self.decision.remove(context);
        }
        Ok(())
    }

    fn decide_unpaid(&mut self, context: &mut Context<'_>) -> Result {
        let Some(OrderRow::Open { time, fields, headers }) = self.decision.get(context)? else {
            return Ok(());
        };
        let fields = self.template.fields(ORDER).restore(fields.borrow());
        self.emit_unpaid(&Half { fields: &fields, headers: &headers }, time, context);
        let until = time.saturating_add(self.within).saturating_add(self.before);
        self.decided(until, context)
    }

    /// Sends a step of the payments with a deadline up to `up_to` where payments without an order
    /// go; goes on with `tag`. An order's result may have filled this call before the first.
    fn release(&mut self, up_to: i64, tag: u64, context: &mut Context<'_>) -> Result {
        let (mut items, has_more) = self.payments.page(context, .., STEP)?;
        items.retain(|(_, payment)| payment.deadline <= up_to);
        let (count, mut done) = (items.len(), Vec::with_capacity(items.len()));
        for (slot, payment) in items {
            if context.is_step_full() {
                break;
            }
            done.push(slot);
            context.timers().delete_event_time(payment.deadline, GIVE_UP);
            match self.without_order {
                WithoutOrder::Late => {
                    self.late_payments.increment(context);
                    let message = Message::new(&payment.value).headers(&payment.headers);
                    self.late.send(context, message.time(slot.time));
                }
                WithoutOrder::Drop => self.dropped_payments.increment(context),
            }
        }
        if done.len() < count || (has_more && count > 0) {
            context.timers().continue_with(tag);
        }
        self.payments.remove_all(context, done)
    }

    fn send_late(&self, context: &mut Context<'_>) {
        self.late_payments.increment(context);
        self.late.forward(context);
    }

    fn emit_paid(
        &mut self,
        order: &Half<'_, '_>,
        payment: &Half<'_, '_>,
        time: i64,
        context: &mut Context<'_>,
    ) {
        self.paid.increment(context);
        let sides = [order.fields, payment.fields];
        self.template.render(&sides, &["\"PAID\""], &mut self.out);
        let headers = [order.headers, payment.headers].concat();
        self.main.send(context, Message::new(&self.out).headers(&headers).time(time));
    }

    fn emit_unpaid(&mut self, order: &Half<'_, '_>, ordered: i64, context: &mut Context<'_>) {
        self.unpaid.increment(context);
        self.template.render(&[order.fields, &[]], &["\"UNPAID\""], &mut self.out);
        let time = ordered.saturating_add(self.within);
        self.main.send(context, Message::new(&self.out).headers(order.headers).time(time));
    }
}

/// Returns how far two event times are apart, s.
fn seconds_between(one: i64, other: i64) -> f64 {
    Duration::from_millis(one.abs_diff(other)).as_secs_f64()
}
