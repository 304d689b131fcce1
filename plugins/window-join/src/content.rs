//! What is kept of a key's windows, and which of it a firing tells.
//!
//! Invariant: a record is kept once, in however many windows it lies.

use dovetail_sdk::{
    Context, EventTimeBuffer, Header, MapState, Result, Slot,
    join::{Side, Total, Window},
    json::Kept,
};
use serde::{Deserialize, Serialize};

/// What is kept of a record: only what results need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) fields: Kept,
    pub(crate) headers: Vec<Header>,
    /// The end of the session that last fired with it, where that matters.
    pub(crate) told: Option<i64>,
}

/// The totals of a pane or session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Whether a side has records at all.
    pub(crate) has: [bool; 2],
    pub(crate) values: Vec<Total>,
}

/// What a session is besides its ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) totals: Totals,
}

/// What a firing tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// All that the window holds.
    All,
    /// What its session has not told yet.
    Untold,
    /// What one record brings: its side, time and number.
    Row(Side, i64, u64),
}

impl Told {
    /// Returns whether a row is new in this firing.
    pub(crate) fn is_new(&self, side: Side, slot: Slot, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Untold => row.told.is_none(),
            Self::Row(of, time, sequence) => {
                *of == side && slot == Slot { time: *time, sequence: *sequence }
            }
        }
    }

    /// Returns whether a pair is new: of sessions that have fired apart and are one now, it is.
    pub(crate) fn is_new_pair(&self, (left, l): (Slot, &Row), (right, r): (Slot, &Row)) -> bool {
        match self {
            Self::Untold => l.told.is_none() || l.told != r.told,
            Self::All | Self::Row(..) => {
                self.is_new(Side::Left, left, l) || self.is_new(Side::Right, right, r)
            }
        }
    }
}

/// Windows that fire, one after the other, in as many calls as it takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Firing {
    pub(crate) windows: Vec<Window>,
    pub(crate) told: Told,
    /// Whether their time has come, and not only a late record.
    pub(crate) is_due: bool,
    /// Within the first window: the last left row that is done with, and the last right one that
    /// the next left row has met.
    pub(crate) after: [Option<(i64, u64)>; 2],
    /// Whether all of it has been told; then `after` are the last rows that are noted as told.
    pub(crate) is_told: bool,
    /// Whether all its right rows are new, once that is known.
    pub(crate) has_new_rights: Option<bool>,
}

impl Firing {
    pub(crate) fn new(windows: Vec<Window>, told: Told, is_due: bool) -> Self {
        let after = [None; 2];
        Self { windows, told, is_due, after, is_told: false, has_new_rights: None }
    }

    /// Goes on with the next window.
    pub(crate) fn end_window(&mut self) {
        self.windows.remove(0);
        self.after = [None; 2];
        self.is_told = false;
        self.has_new_rights = None;
    }

    /// All of the first window has been told.
    pub(crate) fn end_telling(&mut self) {
        self.after = [None; 2];
        self.is_told = true;
    }
}

/// The states of a plugin: rows, or totals by pane.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    Rows([EventTimeBuffer<Row>; 2]),
    Panes(MapState<i64, Totals>),
}

impl Content {
    /// Forgets what has event times in a range; `None` as its start is all before its end.
    pub(crate) fn release(&self, context: &mut Context<'_>, from: Option<i64>, to: i64) -> Result {
        let from = from.unwrap_or(i64::MIN);
        match self {
            Self::Rows(sides) => {
                for rows in sides {
                    rows.remove_range(context, from..=to)?;
                }
            }
            Self::Panes(panes) => panes.remove_range(context, from..=to),
        }
        Ok(())
    }

    /// Returns the earliest event time behind another, of a record or pane.
    pub(crate) fn first_behind(&self, context: &mut Context<'_>, time: i64) -> Result<Option<i64>> {
        let Some(from) = time.checked_add(1) else { return Ok(None) };
        match self {
            Self::Rows(sides) => {
                let mut first: Option<i64> = None;
                for rows in sides {
                    let (found, _) = rows.page(context, from.., 1)?;
                    let time = found.first().map(|(slot, _)| slot.time);
                    first = first.into_iter().chain(time).min();
                }
                Ok(first)
            }
            Self::Panes(panes) => {
                let (found, _) = panes.page(context, from.., 1)?;
                Ok(found.first().map(|(start, _)| *start))
            }
        }
    }
}
