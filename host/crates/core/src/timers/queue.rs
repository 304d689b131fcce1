//! The timers of one domain: the nearest in memory, the rest found by seek.
//!
//! The store is read forward from the horizon only, never from the start, so fired timers (whose
//! removal leaves tombstones in a log-structured store) are not stepped over again.
//!
//! Invariant: `near` holds exactly the live timers (committed and uncommitted together) up to and
//! including the horizon; uncommitted changes beyond it are found in `changes`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, ControlFlow},
};

use super::{Timer, TimerDomain, prefix};
use crate::state::{StateStore, StoreError, row::order_preserving_time};

/// How many timers are loaded at a time; at most about four times as many are kept near.
const LOAD: usize = 1024;

/// How far the queue has looked into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Horizon {
    /// Nothing has been read below this row key.
    From(Vec<u8>),
    /// Everything up to and including this timer is near.
    Through(Timer),
    /// There is nothing more: everything is near.
    End,
}

#[derive(Debug)]
struct Undo {
    timer: Timer,
    /// The uncommitted change before.
    change: Option<bool>,
    /// Whether the timer was near before.
    near: bool,
}

/// Live timers of one domain.
#[derive(Debug)]
pub struct TimerQueue {
    domain: TimerDomain,
    near: BTreeSet<Timer>,
    horizon: Horizon,
    /// Changes of the open epoch: registered (true) or removed (false).
    changes: BTreeMap<Timer, bool>,
    undo: Vec<Undo>,
    /// While time moves: up to when, and the timers that were registered for it meanwhile.
    moving: Option<(i64, BTreeSet<Timer>)>,
    live: i64,
    live_before_call: i64,
}

impl TimerQueue {
    /// Returns a queue over what a store holds, which has no timer below `floor` (a row key, from
    /// [`TimerQueue::floor`] of the last applied epoch; empty = anything).
    #[must_use]
    pub fn new(domain: TimerDomain, floor: &[u8]) -> Self {
        let first = [prefix(domain)];
        let from = if floor.first() == first.first() { floor.to_vec() } else { first.to_vec() };
        Self {
            domain,
            near: BTreeSet::new(),
            horizon: Horizon::From(from),
            changes: BTreeMap::new(),
            undo: Vec::new(),
            moving: None,
            live: 0,
            live_before_call: 0,
        }
    }

    /// Registers a timer; an equal one is the same.
    pub fn register(&mut self, timer: Timer) {
        let near = self.near.contains(&timer);
        let change = self.changes.insert(timer.clone(), true);
        self.live += i64::from(!near && change != Some(true));
        if let Some((up_to, registered)) = &mut self.moving
            && timer.time <= *up_to
        {
            registered.insert(timer.clone());
        }
        if self.is_within_horizon(&timer) {
            self.near.insert(timer.clone());
        }
        self.undo.push(Undo { timer, change, near });
    }

    /// Removes a timer, fired or deleted; an absent one stays absent.
    pub fn remove(&mut self, timer: &Timer) {
        let near = self.near.remove(timer);
        let change = self.changes.insert(timer.clone(), false);
        self.live -= i64::from(near || change == Some(true));
        self.undo.push(Undo { timer: timer.clone(), change, near });
    }

    /// Time moves: timers registered from here on for a time up to `up_to` are told apart.
    pub fn begin_move(&mut self, up_to: i64) {
        self.moving = Some((up_to, BTreeSet::new()));
    }

    /// Time stands again.
    pub fn end_move(&mut self) {
        self.moving = None;
    }

    /// Returns whether a timer that fires was registered in this very move.
    pub fn take_registered_in_move(&mut self, timer: &Timer) -> bool {
        self.moving.as_mut().is_some_and(|(_, registered)| registered.remove(timer))
    }

    fn is_within_horizon(&self, timer: &Timer) -> bool {
        match &self.horizon {
            Horizon::From(row) => timer.row(self.domain) < *row,
            Horizon::Through(last) => timer <= last,
            Horizon::End => true,
        }
    }

    /// Returns the first live timer.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn first(&mut self, store: &mut dyn StateStore) -> Result<Option<&Timer>, StoreError> {
        if self.near.len() > 4 * LOAD {
            self.forget_far();
        }
        while self.near.is_empty() && self.horizon != Horizon::End {
            self.load(store)?;
        }
        Ok(self.near.first())
    }

    /// Keeps memory bounded: timers far away are in the store or in `changes` anyway.
    fn forget_far(&mut self) {
        let Some(bound) = self.near.iter().nth(2 * LOAD).cloned() else {
            return;
        };
        drop(self.near.split_off(&bound));
        if let Some(last) = self.near.last() {
            self.horizon = Horizon::Through(last.clone());
        }
    }

    /// Returns the row key from which on the store has not been read; `None` when all was.
    fn unread(&self) -> Option<Vec<u8>> {
        match &self.horizon {
            Horizon::From(row) => Some(row.clone()),
            Horizon::Through(last) => {
                let mut row = last.row(self.domain);
                row.push(0);
                Some(row)
            }
            Horizon::End => None,
        }
    }

    fn load(&mut self, store: &mut dyn StateStore) -> Result<(), StoreError> {
        let Some(from) = self.unread() else { return Ok(()) };
        let to = [prefix(self.domain) + 1];
        let mut loaded = Vec::new();
        let mut bad = None;
        store.scan(&from, &to, &mut |row, _| {
            match Timer::parse(row) {
                Some((_, timer)) => loaded.push(timer),
                None => bad = Some(row.to_vec()),
            }
            if loaded.len() >= LOAD { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(row) = bad {
            return Err(StoreError::Corrupt(format!("{row:02x?} is not a timer row")));
        }
        let lower = match &self.horizon {
            Horizon::Through(last) => Bound::Excluded(last.clone()),
            Horizon::From(_) | Horizon::End => Bound::Unbounded,
        };
        let next = match loaded.last() {
            Some(last) if loaded.len() >= LOAD => Horizon::Through(last.clone()),
            Some(_) | None => Horizon::End,
        };
        self.near.extend(loaded);
        let upper = match &next {
            Horizon::Through(last) => Bound::Included(last.clone()),
            Horizon::From(_) | Horizon::End => Bound::Unbounded,
        };
        for (timer, is_live) in self.changes.range((lower, upper)) {
            if *is_live {
                self.near.insert(timer.clone());
            } else {
                self.near.remove(timer);
            }
        }
        self.horizon = next;
        Ok(())
    }

    /// Returns the row key below which no live timer lies, to start from after a restore.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn floor(&mut self, store: &mut dyn StateStore) -> Result<Vec<u8>, StoreError> {
        let domain = self.domain;
        Ok(self.first(store)?.map_or_else(|| end_floor(domain), |timer| timer.row(domain)))
    }

    /// Returns up to `limit` live timers in firing order, for people to look at.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn peek(&self, store: &mut dyn StateStore, limit: usize) -> Result<Vec<Timer>, StoreError> {
        let mut found: BTreeSet<Timer> = self.near.iter().take(limit).cloned().collect();
        let added = self.changes.iter().filter(|(_, is_live)| **is_live);
        found.extend(added.map(|(timer, _)| timer.clone()).take(limit));
        if found.len() < limit
            && let Some(from) = self.unread()
        {
            let wanted = limit + self.changes.len();
            let mut seen = 0;
            store.scan(&from, &[prefix(self.domain) + 1], &mut |row, _| {
                if let Some((_, timer)) = Timer::parse(row)
                    && self.changes.get(&timer) != Some(&false)
                {
                    found.insert(timer);
                }
                seen += 1;
                if seen >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(found.into_iter().take(limit).collect())
    }

    /// Starts a call: what happens from here on can be undone.
    pub fn begin_call(&mut self) {
        self.undo.clear();
        self.live_before_call = self.live;
    }

    /// Undoes everything since [`TimerQueue::begin_call`].
    pub fn undo_call(&mut self) {
        self.live = self.live_before_call;
        while let Some(undo) = self.undo.pop() {
            match undo.change {
                Some(change) => self.changes.insert(undo.timer.clone(), change),
                None => self.changes.remove(&undo.timer),
            };
            if undo.near {
                self.near.insert(undo.timer);
            } else {
                self.near.remove(&undo.timer);
            }
        }
    }

    /// Returns the changes of the open epoch in firing order: registered or removed.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&Timer, bool)> {
        self.changes.iter().map(|(timer, is_live)| (timer, *is_live))
    }

    /// Forgets the changes: they are in the store.
    pub fn clear_changes(&mut self) {
        self.changes.clear();
        self.undo.clear();
    }

    /// Returns how many timers wait, as far as this queue has seen them: those of before its time
    /// count once they are near.
    #[must_use]
    pub fn pending_estimate(&self) -> u64 {
        self.live.max(0).cast_unsigned().max(self.near.len() as u64)
    }
}

/// Returns the row key from which on only timers at the end of time could lie.
fn end_floor(domain: TimerDomain) -> Vec<u8> {
    let mut row = vec![prefix(domain)];
    row.extend_from_slice(&order_preserving_time(i64::MAX));
    row
}

#[cfg(test)]
mod tests {
    //! The queue against a plain set, with a store that is applied now and then.
    use super::*;
    use crate::{
        key::Key,
        record::Partition,
        state::{Clocks, MemoryStore},
        timers::TIMER_VALUE,
    };

    fn timer(time: i64) -> Timer {
        Timer { time, key: Key::new("k"), tag: 0, partition: Partition(0) }
    }

    fn apply(queue: &mut TimerQueue, store: &mut MemoryStore) {
        let rows: Vec<_> = queue
            .changes()
            .map(|(timer, is_live)| (timer.row(TimerDomain::Event), is_live.then_some(TIMER_VALUE)))
            .collect();
        let clocks = Clocks { watermark: 0, processing_time: 0 };
        store.apply(&mut rows.iter().map(|(row, value)| (&row[..], *value)), b"", clocks).unwrap();
        queue.clear_changes();
    }

    #[test]
    fn many_timers_come_out_in_order_across_loads_and_epochs() {
        let mut store = MemoryStore::default();
        let mut queue = TimerQueue::new(TimerDomain::Event, &[]);
        for time in (0..10_000).rev() {
            queue.register(timer(time));
            if time % 777 == 0 {
                assert_eq!(queue.first(&mut store).unwrap(), Some(&timer(time)));
                apply(&mut queue, &mut store);
            }
        }
        let floor = queue.floor(&mut store).unwrap();
        let mut queue = TimerQueue::new(TimerDomain::Event, &floor);
        for time in 0..10_000 {
            let first = queue.first(&mut store).unwrap().cloned();
            assert_eq!(first, Some(timer(time)));
            queue.remove(&timer(time));
            if time % 500 == 0 {
                apply(&mut queue, &mut store);
            }
        }
        assert_eq!(queue.first(&mut store).unwrap(), None);
    }

    #[test]
    fn undo_brings_back_removed_and_takes_back_registered_timers() {
        let mut store = MemoryStore::default();
        let mut queue = TimerQueue::new(TimerDomain::Event, &[]);
        queue.register(timer(5));
        apply(&mut queue, &mut store);
        assert_eq!(queue.first(&mut store).unwrap(), Some(&timer(5)));
        queue.begin_call();
        queue.remove(&timer(5));
        queue.register(timer(3));
        queue.register(timer(5));
        queue.remove(&timer(5));
        queue.undo_call();
        assert_eq!(queue.first(&mut store).unwrap(), Some(&timer(5)));
        assert_eq!(queue.changes().count(), 0);
    }
}
