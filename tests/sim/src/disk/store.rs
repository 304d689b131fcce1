//! The store port over a [`Disk`].

use std::{
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{Frozen, Restoring},
    epoch::codec,
    recovery::{Facts, Plan},
    state::{Clocks, ExpiryTable, RowChange, StateSize, StateStore, StoreError, Visit},
};
use dovetail_runtime::setup::OpenStore;

use super::{
    Damage, Disk, SharedDisk,
    frozen::{SimFrozen, SimRestoring},
};
use crate::{
    bugs::Bug,
    faults::Point,
    rows::Row,
    world::{Process, Shared},
};

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
    /// Whether the lane is being acquired.
    pub is_acquiring: Arc<AtomicBool>,
}

impl OpenStore for SimStores {
    fn open(&mut self, expiry: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.open > 0 {
            self.shared.fail("a state directory is opened twice");
        }
        if disk.damage.is_whole {
            return Err(StoreError::Corrupt("it cannot be opened".to_owned()));
        }
        disk.open += 1;
        drop(disk);
        // A store is opened to be filled: what is applied until the log reads on is a replay.
        self.is_acquiring.store(true, Ordering::Relaxed);
        Ok(Box::new(SimStore {
            shared: Arc::clone(&self.shared),
            process: self.process,
            lane: self.lane,
            disk: Arc::clone(&self.disk),
            is_acquiring: Arc::clone(&self.is_acquiring),
            expiry: expiry.clone(),
        }))
    }

    fn set_expiry(&mut self, _: &ExpiryTable) {}

    fn set_aside(&mut self, why: &str) -> Result<(), StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.open > 0 {
            self.shared.fail("a state directory is moved aside while it is open");
        }
        disk.clear();
        drop(disk);
        if why.starts_with("keyed state is damaged") {
            self.shared.count_row(Row::StoreDamaged);
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<Box<dyn Restoring + '_>, StoreError> {
        let disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.open > 0 {
            self.shared.fail("a state directory is restored while it is open");
        }
        Ok(Box::new(SimRestoring {
            shared: Arc::clone(&self.shared),
            process: self.process,
            lane: self.lane,
            disk: Arc::clone(&self.disk),
            files: std::collections::BTreeMap::new(),
        }))
    }

    fn decided(&mut self, facts: &Facts, plan: &Plan) {
        self.shared.decided(self.lane, facts, plan);
    }
}

/// The store port over a [`Disk`].
struct SimStore {
    shared: Arc<Shared>,
    process: Process,
    lane: u16,
    disk: SharedDisk,
    is_acquiring: Arc<AtomicBool>,
    expiry: ExpiryTable,
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

/// Returns bytes of which one has changed.
fn rotten(value: &Bytes) -> Bytes {
    let mut bytes = value.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes.into()
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
    fn put(&self, changes: &[RowChange], head: &[u8], clocks: Clocks) -> Result<(), StoreError> {
        let now = self.shared.now();
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        if disk.full_until > now {
            return Err(StoreError::Unavailable("no space is left on the disk".to_owned()));
        }
        disk.apply(changes, Bytes::copy_from_slice(head));
        let rows = &disk.rows;
        let next = self.shared.applied(self.lane, head, rows);
        if next.syncs {
            disk.sync();
        }
        if next.compacts {
            disk.compact(&self.expiry, clocks);
        }
        Ok(())
    }
}

impl StateStore for SimStore {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let is_blind = self.shared.has(Bug::RotNotNoticed);
        let disk = self.readable()?;
        match disk.check(row) {
            Err(_) if is_blind => Ok(disk.rows.rows.get(row).map(rotten)),
            checked => checked.map(|()| disk.rows.rows.get(row).cloned()),
        }
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let is_blind = self.shared.has(Bug::RotNotNoticed);
        let disk = self.readable()?;
        for (key, value) in disk.rows.rows.range::<[u8], _>(range) {
            if !is_blind {
                disk.check(key)?;
            }
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
        clocks: Clocks,
    ) -> Result<(), StoreError> {
        let copy = |(row, value): (&[u8], Option<&[u8]>)| {
            (Bytes::copy_from_slice(row), value.map(Bytes::copy_from_slice))
        };
        let mut changes: Vec<RowChange> = changes.map(copy).collect();
        let is_replay = self.is_acquiring.load(Ordering::Relaxed);
        if is_replay && self.shared.has(Bug::ReplaySkipsChanges) {
            changes.clear();
        }
        self.put(&changes, head, clocks)?;
        match self.shared.point(self.process, Point::Applied) {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some(bytes) = self.readable()?.head.clone() else { return Ok(None) };
        let mut head =
            codec::decode_stored(&bytes).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        self.shared.spoil_head(self.lane, &mut head);
        Ok(Some(codec::encode_stored(&head).into()))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        lock(&self.disk).sync();
        Ok(())
    }

    fn size(&self) -> StateSize {
        StateSize { rows: lock(&self.disk).rows.rows.len() as u64, bytes: 0 }
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        let (now, ms, bug) = self.shared.freezes();
        let mut disk = self.readable()?;
        // What a database does that links blocks which have rotted is not modelled.
        if disk.damage != Damage::default() {
            return Err(StoreError::Corrupt("a checksum is wrong".to_owned()));
        }
        let hides_changes = bug == Some(Bug::ChangedFileNotHashed);
        let files = disk.freeze(now, ms, bug);
        Ok(files.map(|files| Box::new(SimFrozen { files, hides_changes }) as Box<dyn Frozen>))
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        let mut disk = lock(&self.disk);
        if disk.owner != self.process.incarnation {
            return Err(gone());
        }
        disk.clear();
        Ok(())
    }
}
