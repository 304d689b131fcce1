//! What the order-payment plugin should do: of any order of calls, call by call; and of inputs
//! that are never late, from the inputs alone.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{Call, CallSubject, Expected, Model, Out, TimerSet, timer_of};

/// Returns the plugin's configuration in a revision: results say which.
#[must_use]
pub fn config(revision: u32) -> String {
    format!(
        r#"{{"within":"3s","result":{{"order":"order.id","amount":"order.amount","paid_r{revision}":"payment.paid"}}}}"#
    )
}

/// Returns a result as revision 0 would have written it.
#[must_use]
pub fn as_first_revision(result: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(result);
    match text.split_once("\"paid_r").and_then(|(head, rest)| Some((head, rest.split_once('"')?.1)))
    {
        Some((head, rest)) => format!("{head}\"paid_r0\"{rest}").into(),
        None => Bytes::copy_from_slice(result),
    }
}

/// `within` and `before`, ms.
pub const WITHIN: i64 = 3_000;

const DECIDE: u64 = 0;
const FORGET: u64 = 1;
const GIVE_UP: u64 = 2;
const MAIN: u16 = 0;
const LATE: u16 = 1;

/// Returns an order's value.
#[must_use]
pub fn order_value(id: &str, amount: u64) -> String {
    format!(r#"{{"id":"{id}","amount":{amount}}}"#)
}

/// Returns a payment's value.
#[must_use]
pub fn payment_value(paid: u64) -> String {
    format!(r#"{{"paid":{paid}}}"#)
}

fn field<'v>(value: &'v str, name: &str) -> &'v str {
    let start = format!("\"{name}\":");
    let rest = value.split_once(&start).map_or("", |(_, rest)| rest);
    rest.split([',', '}']).next().unwrap_or("")
}

/// Returns the result of an order and the payment that pays it.
#[must_use]
pub fn result(revision: u32, order: &[u8], payment: Option<&[u8]>) -> Bytes {
    let order = String::from_utf8_lossy(order);
    let payment = payment.map(String::from_utf8_lossy);
    let paid = payment.as_deref().map_or("null", |payment| field(payment, "paid"));
    format!(
        r#"{{"order":{},"amount":{},"paid_r{revision}":{paid}}}"#,
        field(&order, "id"),
        field(&order, "amount")
    )
    .into()
}

#[derive(Debug, Clone)]
enum Decision {
    Open { time: i64, value: Bytes },
    Decided,
}

/// A payment that waits: by time, then by arrival.
type Waiting = BTreeMap<(i64, u64), Bytes>;

/// What the plugin should do.
#[derive(Debug, Default)]
pub struct PaymentModel {
    orders: BTreeMap<(u16, Bytes), Decision>,
    payments: BTreeMap<(u16, Bytes), Waiting>,
    arrivals: u64,
}

struct Step<'a> {
    call: &'a Call,
    timers: &'a mut TimerSet,
    expected: Expected,
}

impl Step<'_> {
    fn register(&mut self, time: i64, tag: u64) {
        self.timers.event.insert(timer_of(self.call, time, tag));
    }

    fn delete(&mut self, time: i64, tag: u64) {
        self.timers.event.remove(&timer_of(self.call, time, tag));
    }

    fn emit(&mut self, output: u16, value: Bytes) {
        let key = self.call.key.clone();
        self.expected.outputs.push(Out { output, key, value });
    }
}

impl PaymentModel {
    fn place(call: &Call) -> (u16, Bytes) {
        (call.partition, call.key.clone())
    }

    fn order(&mut self, step: &mut Step<'_>, time: i64, value: &Bytes) {
        let place = Self::place(step.call);
        if self.orders.contains_key(&place) {
            return;
        }
        let waiting = self.payments.entry(place.clone()).or_default();
        let range = (time - WITHIN, 0)..=(time + WITHIN, u64::MAX);
        let first = waiting.range(range).next().map(|(at, payment)| (*at, payment.clone()));
        let deadline = time + WITHIN;
        if let Some((at, payment)) = first {
            waiting.remove(&at);
            step.delete(at.0 + WITHIN, GIVE_UP);
            step.emit(MAIN, result(step.call.revision, value, Some(&payment)));
            self.decided(step, deadline);
            self.release(step, i64::MAX);
        } else if deadline <= step.call.watermark {
            step.emit(MAIN, result(step.call.revision, value, None));
            self.decided(step, deadline + WITHIN);
            self.release(step, i64::MAX);
        } else {
            step.register(deadline, DECIDE);
            self.orders.insert(place, Decision::Open { time, value: value.clone() });
        }
    }

    fn payment(&mut self, step: &mut Step<'_>, time: i64, value: &Bytes) {
        let place = Self::place(step.call);
        match self.orders.get(&place).cloned() {
            Some(Decision::Open { time: ordered, value: order })
                if (ordered - WITHIN..=ordered + WITHIN).contains(&time) =>
            {
                step.emit(MAIN, result(step.call.revision, &order, Some(value)));
                step.delete(ordered + WITHIN, DECIDE);
                self.decided(step, ordered + WITHIN);
            }
            Some(Decision::Decided | Decision::Open { .. }) => step.emit(LATE, value.clone()),
            None if time + WITHIN <= step.call.watermark => step.emit(LATE, value.clone()),
            None => {
                self.arrivals += 1;
                let waiting = self.payments.entry(place).or_default();
                waiting.insert((time, self.arrivals), value.clone());
                step.register(time + WITHIN, GIVE_UP);
            }
        }
    }

    fn decided(&mut self, step: &mut Step<'_>, until: i64) {
        let place = Self::place(step.call);
        if until > step.call.watermark {
            step.register(until, FORGET);
            self.orders.insert(place, Decision::Decided);
        } else {
            self.orders.remove(&place);
        }
    }

    fn release(&mut self, step: &mut Step<'_>, up_to: i64) {
        let Some(waiting) = self.payments.get_mut(&Self::place(step.call)) else { return };
        let is_due = |(time, _): &(i64, u64)| time.saturating_add(WITHIN) <= up_to;
        let due: Vec<_> = waiting.keys().copied().filter(is_due).collect();
        for at in due {
            let value = waiting.remove(&at).unwrap_or_default();
            step.delete(at.0 + WITHIN, GIVE_UP);
            step.emit(LATE, value);
        }
    }
}

impl Model for PaymentModel {
    fn call(&mut self, call: &Call, timers: &mut TimerSet) -> Expected {
        let mut step = Step { call, timers, expected: Expected::default() };
        match &call.subject {
            CallSubject::Record { input: 0, time, value, .. } => {
                self.order(&mut step, *time, value);
            }
            CallSubject::Record { time, value, .. } => self.payment(&mut step, *time, value),
            CallSubject::Timer { time, tag: GIVE_UP, .. } => {
                self.release(&mut step, time.unwrap_or(i64::MAX));
            }
            CallSubject::Timer { tag: FORGET, .. } => {
                self.orders.remove(&Self::place(call));
            }
            CallSubject::Timer { .. } => {
                if let Some(Decision::Open { time, value }) =
                    self.orders.get(&Self::place(call)).cloned()
                {
                    step.emit(MAIN, result(call.revision, &value, None));
                    self.decided(&mut step, time + WITHIN + WITHIN);
                }
            }
        }
        step.expected
    }
}

/// One record of an input: input, key, event time, value.
pub type Given = (u16, Bytes, i64, Bytes);

/// Returns what comes of inputs that are never late and have at most one order and one payment per
/// key, once event time has passed everything but what is open at the end.
#[must_use]
pub fn offline(given: &[Given]) -> BTreeSet<Out> {
    let mut sides: BTreeMap<Bytes, [Option<(i64, Bytes)>; 2]> = BTreeMap::new();
    for (input, key, time, value) in given {
        sides.entry(key.clone()).or_default()[usize::from(*input)] = Some((*time, value.clone()));
    }
    let mut outs = BTreeSet::new();
    for (key, [order, payment]) in sides {
        let mut emit = |output, value| {
            outs.insert(Out { output, key: key.clone(), value });
        };
        match (order, payment) {
            (Some((ordered, order)), Some((paid, payment))) if (ordered - paid).abs() <= WITHIN => {
                emit(MAIN, result(0, &order, Some(&payment)));
            }
            (order, payment) => {
                if let Some((_, order)) = order {
                    emit(MAIN, result(0, &order, None));
                }
                if let Some((_, payment)) = payment {
                    emit(LATE, payment);
                }
            }
        }
    }
    outs
}
