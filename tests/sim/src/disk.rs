//! A model of one lane's state directory, and the store port over it.
//!
//! What was applied since the last sync is lost by a crash as a whole suffix: the disk falls back
//! to an earlier applied epoch. It can be full, unreadable for a while, or lost.
//!
//! Invariant: only the process that opened it last changes it.

use std::{
    collections::VecDeque,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dovetail_core::{
    epoch::{LaneId, StoredHead, TimerFloors, codec},
    state::{
        Clocks, ExpiryTable, RowChange, StateSize, StateStore, StoreError, Visit,
        row::order_preserving_time,
    },
    time::NO_WATERMARK,
};
use dovetail_runtime::setup::OpenStore;

use crate::{
    bugs::Bug,
    faults::{DiskFate, Point},
    history::Rows,
    log::Observed,
    rng::Rng,
    world::{Process, Shared},
};

/// What undoes one applied epoch.
#[derive(Debug)]
struct Undo {
    rows: Vec<RowChange>,
    head: Option<Bytes>,
}

/// One state directory.
#[derive(Debug, Default)]
pub struct Disk {
    /// What is stored.
    pub rows: Rows,
    /// The stored head.
    pub head: Option<Bytes>,
    unsynced: VecDeque<Undo>,
    /// Writes to be refused.
    pub full: u32,
    /// Reads to be refused.
    pub unreadable: u32,
    /// The process that may use it.
    pub owner: u64,
    open: u32,
}

/// Applied epochs that may be unsynced.
const UNSYNCED_MAX: usize = 8;

impl Disk {
    /// Applies an epoch.
    pub fn apply(&mut self, changes: &[RowChange], head: Bytes) {
        let rows = changes.iter().map(|(row, value)| {
            let before = self.rows.change(row, value.clone());
            (row.clone(), before)
        });
        let rows = rows.collect();
        self.unsynced.push_back(Undo { rows, head: self.head.replace(head) });
        if self.unsynced.len() > UNSYNCED_MAX {
            self.unsynced.pop_front();
        }
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// The process has died.
    pub fn crash(&mut self, fate: DiskFate, rng: &mut Rng, bug: Option<Bug>) {
        self.open = 0;
        match fate {
            DiskFate::Lost | DiskFate::Damaged => self.clear(),
            DiskFate::Kept => {
                for _ in 0..rng.below(self.unsynced.len() + 1) {
                    let Some(undo) = self.unsynced.pop_back() else { break };
                    self.head = undo.head;
                    if bug == Some(Bug::TornApply) {
                        continue;
                    }
                    for (row, before) in undo.rows.into_iter().rev() {
                        drop(self.rows.change(&row, before));
                    }
                }
            }
        }
        self.sync();
    }

    fn clear(&mut self) {
        self.rows = Rows::default();
        self.head = None;
        self.unsynced.clear();
    }
}

/// A disk that outlives processes.
pub type SharedDisk = Arc<Mutex<Disk>>;

/// Opens a lane's store for one process.
pub struct SimStores {
    /// The simulation.
    pub shared: Arc<Shared>,
    /// The process.
    pub process: Process,
    /// The lane.
    pub lane: u16,
    /// The directory.
    pub disk: SharedDisk,
    /// What the acquisition sees.
    pub observed: Arc<Mutex<Observed>>,
}

impl OpenStore for SimStores {
    fn open(&mut self, _: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.open > 0 {
            self.shared.fail("a state directory is opened twice");
        }
        disk.open += 1;
        drop(disk);
        Ok(Box::new(SimStore {
            shared: Arc::clone(&self.shared),
            process: self.process,
            lane: self.lane,
            disk: Arc::clone(&self.disk),
            observed: Arc::clone(&self.observed),
        }))
    }

    fn set_expiry(&mut self, _: &ExpiryTable) {}
}

/// The store port over a [`Disk`].
struct SimStore {
    shared: Arc<Shared>,
    process: Process,
    lane: u16,
    disk: SharedDisk,
    observed: Arc<Mutex<Observed>>,
}

impl Drop for SimStore {
    fn drop(&mut self) {
        let mut disk = lock(&self.disk);
        if disk.owner == self.process.incarnation {
            disk.open = disk.open.saturating_sub(1);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> StoreError {
    StoreError::Unavailable("this process is dead".to_owned())
}

impl SimStore {
    fn readable(&self) -> Result<MutexGuard<'_, Disk>, StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.unreadable > 0 {
            disk.unreadable -= 1;
            return Err(StoreError::Unavailable("an unreadable block".to_owned()));
        }
        Ok(disk)
    }

    /// Applies to the disk and lets the history look at the result.
    fn put(&self, changes: &[RowChange], head: &[u8]) -> Result<(), StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.full > 0 {
            disk.full -= 1;
            return Err(StoreError::Unavailable("no space is left on the disk".to_owned()));
        }
        disk.apply(changes, Bytes::copy_from_slice(head));
        let rows = &disk.rows;
        if self.shared.applied(self.lane, head, rows) {
            disk.sync();
        }
        Ok(())
    }
}

impl StateStore for SimStore {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.readable()?.rows.rows.get(row).cloned())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.readable()?.rows.rows.range::<[u8], _>(range) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        _: Clocks,
    ) -> Result<(), StoreError> {
        let copy = |(row, value): (&[u8], Option<&[u8]>)| {
            (Bytes::copy_from_slice(row), value.map(Bytes::copy_from_slice))
        };
        let mut changes: Vec<RowChange> = changes.map(copy).collect();
        let is_replay = lock(&self.observed).is_acquiring;
        if is_replay && self.shared.has(Bug::ReplaySkipsChanges) {
            changes.clear();
        }
        self.put(&changes, head)?;
        match self.shared.point(self.process, Point::Applied) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        let head = self.readable()?.head.clone();
        {
            let mut observed = lock(&self.observed);
            (observed.reads, observed.last) = (0, None);
        }
        let Some(bytes) = head else {
            lock(&self.observed).stored = None;
            return Ok(None);
        };
        let mut head =
            codec::decode_stored(&bytes).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        self.shared.spoil_head(self.lane, &mut head);
        lock(&self.observed).stored = Some(head.clone());
        Ok(Some(codec::encode_stored(&head).into()))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        lock(&self.disk).sync();
        Ok(())
    }

    fn size(&self) -> StateSize {
        StateSize { rows: lock(&self.disk).rows.rows.len() as u64, bytes: 0 }
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.shared.note_row(&lock(&self.observed));
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        disk.clear();
        Ok(())
    }
}

/// Does to a stored head what a bug does.
pub fn spoil(head: &mut StoredHead, bug: Option<Bug>) {
    match bug {
        Some(Bug::WatermarkResetAtRestore) => {
            head.record.watermark = NO_WATERMARK;
            for source in &mut head.record.sources {
                source.watermark = NO_WATERMARK;
            }
        }
        Some(Bug::TimersLostAtRestore) => {
            let late = order_preserving_time(head.record.watermark.saturating_add(1_500));
            let event = [&[dovetail_core::state::row::EVENT_TIMER_PREFIX][..], &late[..]].concat();
            let floor = Bytes::from(event);
            let processing = head.record.timer_floors.processing.clone();
            let event = head.record.timer_floors.event.clone().max(floor);
            head.record.timer_floors = TimerFloors { event, processing };
        }
        Some(Bug::ContinuationForgotten) => head.record.continuation = None,
        Some(Bug::FiringForgotten) => head.record.firing = None,
        Some(_) | None => {}
    }
}

/// Makes a directory that belongs to another history, or is ahead of this one.
pub fn falsify(disk: &mut Disk, is_ahead: bool) -> bool {
    let Some(mut head) = disk.head.as_ref().and_then(|head| codec::decode_stored(head).ok()) else {
        return false;
    };
    if is_ahead {
        head.record.epoch = head.record.epoch.next();
        head.record.previous_hash = head.hash;
        head.journal_next += 2;
    }
    head.hash ^= 0x5555;
    disk.rows.change(&Bytes::from_static(b"\xf0foreign"), Some(Bytes::from_static(b"row")));
    disk.head = Some(codec::encode_stored(&head).into());
    disk.sync();
    true
}

/// Returns the lane that a directory says it belongs to.
#[must_use]
pub fn lane_of(disk: &Disk) -> Option<LaneId> {
    let head = disk.head.as_ref()?;
    codec::decode_stored(head).ok().map(|head| head.record.lane)
}
