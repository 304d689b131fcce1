//! Which totals a window has.

use std::collections::BTreeMap;

use dovetail_sdk::{
    Error, Result,
    join::{Measure, Side, Total},
    json::Fields,
};

use crate::{SIDES, content::Totals};

/// What is computed, and of which fields.
#[derive(Debug)]
pub(crate) struct Measured {
    totals: Vec<(String, Measure, Of)>,
    fields: [Fields; 2],
}

/// What one total is of.
#[derive(Debug)]
struct Of {
    side: Side,
    /// The field's slot; none counts records.
    slot: Option<usize>,
}

impl Measured {
    /// Reads the configuration's `totals`.
    pub(crate) fn new(
        totals: &BTreeMap<String, BTreeMap<Measure, String>>,
        is_wanted: bool,
    ) -> Result<Self> {
        if is_wanted == totals.is_empty() {
            return Err(Error::new(
                "plugin config: `emit: totals` and `totals` go together: say what is computed, \
                 such as `totals: { amount: { sum: left.amount } }`",
            ));
        }
        let mut measured = Self { totals: Vec::new(), fields: Default::default() };
        for (name, total) in totals {
            let mut parts = total.iter();
            let (Some((measure, of)), None) = (parts.next(), parts.next()) else {
                return Err(Error::new(format!(
                    "plugin config: total `{name}` should be one of count, sum, min and max, such \
                     as `{{ sum: left.amount }}`"
                )));
            };
            let (side, field) =
                of.split_once('.').map_or((of.as_str(), None), |(side, field)| (side, Some(field)));
            let side = match SIDES.iter().position(|known| *known == side) {
                Some(0) => Side::Left,
                Some(_) => Side::Right,
                None => {
                    return Err(Error::new(format!(
                        "plugin config: total `{name}`: `{of}` is no field of `left` or `right`"
                    )));
                }
            };
            if field.is_none() && *measure != Measure::Count {
                return Err(Error::new(format!(
                    "plugin config: total `{name}`: only records are counted as a whole; name a \
                     field: `{of}.<field>`"
                )));
            }
            let slot = field.map(|field| measured.fields[side.index()].want(field));
            measured.totals.push((name.clone(), *measure, Of { side, slot }));
        }
        Ok(measured)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.totals.iter().map(|(name, _, _)| name.as_str())
    }

    /// Adds a record.
    pub(crate) fn add(&self, to: &mut Totals, side: Side, value: &[u8]) -> Result {
        let fields = self.fields[side.index()].pick(value)?;
        to.has[side.index()] = true;
        to.values.resize(self.totals.len(), Total::default());
        for (total, (name, measure, of)) in to.values.iter_mut().zip(&self.totals) {
            if of.side != side {
                continue;
            }
            let raw = of.slot.map_or(Some("true"), |slot| fields[slot]);
            if let Some(raw) = raw {
                total
                    .add(*measure, raw)
                    .map_err(|error| error.context(format!("total `{name}`")))?;
            }
        }
        Ok(())
    }

    /// Adds what a pane or session has.
    pub(crate) fn merge(&self, to: &mut Totals, other: &Totals) -> Result {
        to.values.resize(self.totals.len(), Total::default());
        for (has, other) in to.has.iter_mut().zip(other.has) {
            *has |= other;
        }
        for ((total, (name, measure, _)), other) in
            to.values.iter_mut().zip(&self.totals).zip(&other.values)
        {
            total
                .merge(*measure, other)
                .map_err(|error| error.context(format!("total `{name}`")))?;
        }
        Ok(())
    }

    /// Returns the totals as JSON, in the order of the names.
    pub(crate) fn texts(&self, totals: &Totals) -> Vec<String> {
        let of = |(at, (_, measure, _)): (usize, &(String, Measure, Of))| {
            totals.values.get(at).copied().unwrap_or_default().text(*measure)
        };
        self.totals.iter().enumerate().map(of).collect()
    }
}
