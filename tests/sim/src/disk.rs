//! A model of one lane's state directory.
//!
//! What was applied since the last sync is lost by a crash as a whole suffix: the disk falls back
//! to an earlier applied epoch, as a database does whose batches are atomic. Where a crash tears
//! blocks, or they rot, their checksums are wrong: reading them shows damage, never other bytes. It
//! can be full or unreadable for a while, lost, or replaced by an older copy of itself.
//!
//! Invariant: only the process that opened it last changes it.

mod frozen;
pub mod image;
mod store;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use dovetail_core::{
    epoch::{LaneId, StoredHead, TimerFloors, codec},
    state::{
        Clocks, ExpiryTable, RowChange, StoreError,
        row::{EVENT_TIMER_PREFIX, order_preserving_time},
    },
    time::NO_WATERMARK,
};

use self::image::{CURRENT, Files, Image};
pub use self::store::SimStores;
use crate::{bugs::Bug, faults::DiskFate, history::Rows, rng::Rng};

/// A disk that outlives processes.
pub type SharedDisk = Arc<Mutex<Disk>>;

/// What undoes one applied epoch.
#[derive(Debug)]
struct Undo {
    rows: Vec<RowChange>,
    head: Option<Bytes>,
}

/// Blocks whose checksums are wrong.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Damage {
    rows: BTreeSet<Bytes>,
    /// The database cannot even be opened.
    is_whole: bool,
}

/// What is being written down for a checkpoint.
#[derive(Debug)]
struct Freezing {
    rows: Rows,
    head: Bytes,
    /// When it is written.
    ready_at: i64,
    /// Epochs that were applied since.
    behind: usize,
}

/// One state directory.
#[derive(Debug, Default)]
pub struct Disk {
    /// What is stored.
    pub rows: Rows,
    /// The stored head.
    pub head: Option<Bytes>,
    unsynced: VecDeque<Undo>,
    damage: Damage,
    copy: (Rows, Option<Bytes>),
    image: Image,
    freezing: Option<Freezing>,
    /// Writes are refused until then, virtual ms.
    pub full_until: i64,
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
            self.damage.rows.remove(row);
            let before = self.rows.change(row, value.clone());
            (row.clone(), before)
        });
        let rows = rows.collect();
        self.unsynced.push_back(Undo { rows, head: self.head.replace(head) });
        if let Some(freezing) = &mut self.freezing {
            freezing.behind += 1;
        }
        if self.unsynced.len() > UNSYNCED_MAX {
            self.unsynced.pop_front();
        }
    }

    /// Drops the rows that are expired by these clocks, as a compaction does.
    pub fn compact(&mut self, expiry: &ExpiryTable, clocks: Clocks) {
        let rows = &self.rows.rows;
        let expired = rows.iter().filter(|(row, value)| expiry.is_row_expired(row, value, clocks));
        let expired: Vec<Bytes> = expired.map(|(row, _)| row.clone()).collect();
        for row in expired {
            drop(self.rows.change(&row, None));
        }
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// Makes the copy that [`DiskFate::Older`] brings back.
    pub fn copy(&mut self) {
        if self.damage == Damage::default() {
            self.copy = (self.rows.clone(), self.head.clone());
        }
    }

    /// Returns what was applied when this was first asked for, once it is written down, which
    /// takes `ms`; what is written is durable.
    pub fn freeze(&mut self, now: i64, ms: i64, bug: Option<Bug>) -> Option<Files> {
        let Some(freezing) = &self.freezing else {
            let (rows, head, ready_at) = (self.rows.clone(), self.head.clone()?, now + ms);
            self.freezing = Some(Freezing { rows, head, ready_at, behind: 0 });
            return None;
        };
        if freezing.ready_at > now {
            return None;
        }
        let Freezing { rows, head, behind, .. } = self.freezing.take()?;
        let durable = self.unsynced.len().saturating_sub(behind);
        self.unsynced.drain(..durable);
        let mut files = self.image.write(&rows, &head);
        if bug == Some(Bug::HeadFrozenLater) {
            files.insert(CURRENT.to_owned(), self.head.clone()?);
        }
        Some(files)
    }

    /// The process has died.
    pub fn crash(&mut self, fate: DiskFate, rng: &mut Rng, bug: Option<Bug>) {
        self.open = 0;
        self.freezing = None;
        match fate {
            DiskFate::Lost => self.clear(),
            DiskFate::Older => {
                let copy = self.copy.clone();
                self.clear();
                (self.rows, self.head) = copy;
            }
            DiskFate::Kept => drop(self.fall_back(rng, bug)),
            DiskFate::Torn => {
                let lost = self.fall_back(rng, bug);
                self.damage.is_whole |= !lost.is_empty() && rng.percent(20);
                let stored = lost.into_iter().filter(|row| self.rows.rows.contains_key(row));
                self.damage.rows.extend(stored.filter(|_| rng.percent(50)));
            }
        }
        self.sync();
    }

    /// Loses the last part of what is not synced; returns the rows that were changed there.
    fn fall_back(&mut self, rng: &mut Rng, bug: Option<Bug>) -> BTreeSet<Bytes> {
        let mut lost = BTreeSet::new();
        for _ in 0..rng.below(self.unsynced.len() + 1) {
            let Some(undo) = self.unsynced.pop_back() else { break };
            self.head = undo.head;
            lost.extend(undo.rows.iter().map(|(row, _)| row.clone()));
            if bug == Some(Bug::TornApply) {
                continue;
            }
            for (row, before) in undo.rows.into_iter().rev() {
                drop(self.rows.change(&row, before));
            }
        }
        lost
    }

    /// One row in `one_in` rots; returns how many do.
    pub fn rot(&mut self, one_in: u32, rng: &mut Rng) -> u64 {
        let percent = 100 / one_in.max(1);
        let rows: Vec<Bytes> = self.rows.rows.keys().cloned().collect();
        let rotten: Vec<Bytes> = rows.into_iter().filter(|_| rng.percent(percent)).collect();
        let count = rotten.len() as u64;
        self.damage.rows.extend(rotten);
        count
    }

    /// Returns whether it tells what was applied.
    #[must_use]
    pub fn knows(&self) -> bool {
        self.head.is_some() && self.damage == Damage::default()
    }

    /// Returns what reading a row shows.
    fn check(&self, row: &[u8]) -> Result<(), StoreError> {
        match self.damage.rows.contains(row) {
            true => Err(StoreError::Corrupt("a checksum is wrong".to_owned())),
            false => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.rows = Rows::default();
        self.head = None;
        self.damage = Damage::default();
        self.unsynced.clear();
        self.image = Image::default();
        self.freezing = None;
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
            let event = [&[EVENT_TIMER_PREFIX][..], &late[..]].concat();
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
