//! The cache of hot rows between the overlay and RocksDB: bounded, compact, for reads by key.
//!
//! Two flat arrays. The index (open addressing, linear probing) has a 32-bit hash and a place for
//! each entry, so a hit costs about two misses of the processor's caches: one line of the index, one
//! or two of the entry. It doubles as entries come, from the hashes it has, so that few entries lie
//! close together. The ring holds entries one behind the other, oldest first; to make room the oldest
//! go, but one that was read since it was written gets a second chance at the ring's head.
//!
//! ```text
//! entry   slot u16 (of 8 bytes) · key length u16 · value length and flags u32 · key · value · unused
//! ```
//!
//! Entries also say that a row does not exist. Knows bytes only.
//!
//! Invariants:
//! - What the cache answers is what was last given to it for that row.
//! - Index and ring together never take more than the budget.
//! - Live entries and used slots of the index are one to one; the index is at most 4/5 full.

use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::FixedState;

/// Entries are placed and sized in units of this.
const UNIT: usize = 8;
const HEADER: usize = 8;
/// The largest entry taken, header included, in bytes: its slot must fit into a u16 of units.
const ENTRY_MAX: usize = 32 << 10;
/// Slots of the index of an empty cache.
const INDEX_START: usize = 1 << 10;
/// Below this a budget buys nothing.
const BUDGET_MIN: usize = 4 << 10;
/// So many entries at most get a second chance while room is made for one: bounds the time it takes
/// to a few microseconds. Over time there is no more than one for each hit.
const SECOND_CHANCES: u32 = 64;

const LIVE: u32 = 1 << 31;
/// The row is known not to exist.
const ABSENT: u32 = 1 << 30;
/// Read since it was written or got its last second chance.
const READ: u32 = 1 << 29;
const FLAGS: u32 = LIVE | ABSENT | READ;

/// What the cache did since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CacheCounts {
    /// Reads it answered.
    pub hits: u64,
    /// Reads it could not answer.
    pub misses: u64,
    /// Entries that went to make room.
    pub evictions: u64,
    /// Entries it holds.
    pub entries: u64,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    /// Bytes of the whole slot.
    slot: usize,
    key: usize,
    value: usize,
    flags: u32,
}

impl Header {
    fn is(self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn size(self) -> usize {
        HEADER + self.key + self.value
    }
}

/// One slot of the index: hash, and place in the ring in units plus one; all zero when free.
type Slot = [u32; 2];
const FREE: Slot = [0, 0];

/// A bounded cache of rows by key.
#[derive(Debug)]
pub(crate) struct RowCache {
    index: Vec<Slot>,
    /// What the index may grow to.
    index_max: usize,
    entries: usize,
    ring: Vec<u8>,
    /// Where the next entry goes, in bytes.
    head: usize,
    /// Where the oldest entry is.
    tail: usize,
    /// Bytes between tail and head.
    used: usize,
    hasher: FixedState,
    counts: CacheCounts,
    /// For an entry on its way from tail to head.
    scratch: Vec<u8>,
}

impl RowCache {
    /// Returns a cache that takes at most so many bytes, all included; off below 4 KiB.
    pub(crate) fn new(budget: usize) -> Self {
        let (index_max, ring) = if budget < BUDGET_MIN {
            (0, 0)
        } else {
            // An eighth for the index: enough for entries of 64 bytes on average.
            let index_max = 1 << (budget / 8 / size_of::<Slot>()).ilog2();
            let ring = budget - index_max * size_of::<Slot>();
            // Places are u32 in units, plus one.
            (index_max, (ring / UNIT).min(u32::MAX as usize - 1) * UNIT)
        };
        Self {
            index: vec![FREE; index_max.min(INDEX_START)],
            index_max,
            entries: 0,
            ring: vec![0; ring],
            head: 0,
            tail: 0,
            used: 0,
            hasher: FixedState::default(),
            counts: CacheCounts::default(),
            scratch: Vec::new(),
        }
    }

    /// Returns what is known of a row: `None` = nothing, `Some(None)` = it does not exist.
    pub(crate) fn get(&mut self, row: &[u8]) -> Option<Option<Bytes>> {
        let Some((at, header)) = self.find(row) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        if !header.is(READ) {
            self.set_header(at, Header { flags: header.flags | READ, ..header });
        }
        if header.is(ABSENT) {
            return Some(None);
        }
        let value = at + HEADER + header.key;
        Some(Some(Bytes::copy_from_slice(&self.ring[value..value + header.value])))
    }

    /// Says what a row is now; `None` = it does not exist.
    pub(crate) fn insert(&mut self, row: &[u8], value: Option<&[u8]>) {
        let size = value.map_or(0, <[u8]>::len);
        let mut flags = if value.is_some() { LIVE } else { LIVE | ABSENT };
        let mut slack = 0;
        if let Some((at, header)) = self.find(row) {
            flags |= header.flags & READ;
            if HEADER + header.key + size <= header.slot {
                self.set_header(at, Header { value: size, flags, ..header });
                let start = at + HEADER + header.key;
                self.ring[start..start + size].copy_from_slice(value.unwrap_or_default());
                return;
            }
            // It grew once, so it may again.
            slack = size / 4;
            self.kill(at, header);
        }
        let fits = HEADER + row.len() + size;
        if fits > self.largest_entry() {
            return;
        }
        let slot = (fits + slack).min(self.largest_entry()).next_multiple_of(UNIT);
        let mut chances = SECOND_CHANCES;
        if self.is_full() && self.index.len() < self.index_max {
            self.grow_index();
        }
        while self.is_full() || !self.has_room(slot) {
            self.evict_oldest(&mut chances);
        }
        let at = self.take_room(slot);
        self.set_header(at, Header { slot, key: row.len(), value: size, flags });
        let key = at + HEADER;
        self.ring[key..key + row.len()].copy_from_slice(row);
        let start = key + row.len();
        self.ring[start..start + size].copy_from_slice(value.unwrap_or_default());
        self.link([self.hash(row), place(at)]);
        self.entries += 1;
    }

    /// Says that a row does not exist any more; nothing is remembered of a row that was not known.
    pub(crate) fn remove(&mut self, row: &[u8]) {
        if let Some((at, header)) = self.find(row) {
            self.set_header(at, Header { value: 0, flags: LIVE | ABSENT, ..header });
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.index.fill(FREE);
        self.entries = 0;
        (self.head, self.tail, self.used) = (0, 0, 0);
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        CacheCounts { entries: self.entries as u64, ..self.counts }
    }

    fn largest_entry(&self) -> usize {
        // An eighth, so that room for it can be made wherever head and tail are.
        ENTRY_MAX.min(self.ring.len() / 8 / UNIT * UNIT)
    }

    fn hash(&self, row: &[u8]) -> u32 {
        (self.hasher.hash_one(row) >> 32) as u32
    }

    // --- The index ---

    /// Returns whether the index has no room for one more entry.
    fn is_full(&self) -> bool {
        self.entries >= self.index.len() / 5 * 4
    }

    fn grow_index(&mut self) {
        let slots = self.index.len() * 2;
        let old = std::mem::replace(&mut self.index, vec![FREE; slots]);
        for used in old.into_iter().filter(|slot| *slot != FREE) {
            self.link(used);
        }
    }

    fn find(&self, row: &[u8]) -> Option<(usize, Header)> {
        if self.index.is_empty() {
            return None;
        }
        let hash = self.hash(row);
        let mask = self.index.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let [found, place] = self.index[slot];
            if place == 0 {
                return None;
            }
            if found == hash
                && let Some(header) = self.entry_of(row, position(place))
            {
                return Some((position(place), header));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the header at a place when the entry there is the row's.
    fn entry_of(&self, row: &[u8], at: usize) -> Option<Header> {
        let header = self.header(at);
        let key = at + HEADER;
        (self.ring[key..key + header.key] == *row).then_some(header)
    }

    fn link(&mut self, entry: Slot) {
        let mask = self.index.len() - 1;
        let mut slot = entry[0] as usize & mask;
        while self.index[slot] != FREE {
            slot = (slot + 1) & mask;
        }
        self.index[slot] = entry;
    }

    /// Returns the slot of the index that points to an entry.
    fn slot_of(&self, at: usize, header: Header) -> usize {
        let mask = self.index.len() - 1;
        let key = at + HEADER;
        let mut slot = self.hash(&self.ring[key..key + header.key]) as usize & mask;
        while self.index[slot][1] != place(at) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Frees a slot and moves those behind it up, so that no probe ends too early.
    fn unlink(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            if self.index[slot] == FREE {
                break;
            }
            let home = self.index[slot][0] as usize & mask;
            // It may move to the hole when its home is not between the hole and where it is.
            let from_home = slot.wrapping_sub(home) & mask;
            let from_hole = slot.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.index[hole] = self.index[slot];
                hole = slot;
            }
        }
        self.index[hole] = FREE;
        self.entries -= 1;
    }

    // --- The ring ---

    fn header(&self, at: usize) -> Header {
        let bytes: [u8; HEADER] =
            self.ring[at..at + HEADER].try_into().expect("the slice has the header's length");
        let [a, b, c, d, tail @ ..] = bytes;
        let tail = u32::from_le_bytes(tail);
        Header {
            slot: usize::from(u16::from_le_bytes([a, b])) * UNIT,
            key: usize::from(u16::from_le_bytes([c, d])),
            value: (tail & !FLAGS) as usize,
            flags: tail & FLAGS,
        }
    }

    fn set_header(&mut self, at: usize, header: Header) {
        let short = |size| u16::try_from(size).expect("an entry has at most 32 KiB");
        let value = u32::try_from(header.value).expect("an entry has at most 32 KiB");
        let bytes = &mut self.ring[at..at + HEADER];
        bytes[..2].copy_from_slice(&short(header.slot / UNIT).to_le_bytes());
        bytes[2..4].copy_from_slice(&short(header.key).to_le_bytes());
        bytes[4..].copy_from_slice(&(value | header.flags).to_le_bytes());
    }

    /// Makes an entry unknown; its bytes stay until they are the oldest.
    fn kill(&mut self, at: usize, header: Header) {
        self.unlink(self.slot_of(at, header));
        self.set_header(at, Header { flags: 0, ..header });
    }

    fn has_room(&self, slot: usize) -> bool {
        let free = self.ring.len() - self.used;
        let to_end = self.ring.len() - self.head;
        if slot <= to_end { slot <= free } else { to_end + slot <= free }
    }

    /// Takes room at the head, behind a filler when the end of the ring is too near.
    fn take_room(&mut self, slot: usize) -> usize {
        let to_end = self.ring.len() - self.head;
        if slot > to_end {
            self.set_header(self.head, Header { slot: to_end, key: 0, value: 0, flags: 0 });
            self.used += to_end;
            self.head = 0;
        }
        let at = self.head;
        self.head = (self.head + slot) % self.ring.len();
        self.used += slot;
        at
    }

    fn evict_oldest(&mut self, chances: &mut u32) {
        let at = self.tail;
        let header = self.header(at);
        self.tail = (at + header.slot) % self.ring.len();
        self.used -= header.slot;
        if !header.is(LIVE) {
            return;
        }
        let slot_of_index = self.slot_of(at, header);
        if header.is(READ) && *chances > 0 && self.has_room(header.slot) {
            *chances -= 1;
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.clear();
            scratch.extend_from_slice(&self.ring[at..at + header.size()]);
            let to = self.take_room(header.slot);
            self.ring[to..to + scratch.len()].copy_from_slice(&scratch);
            self.set_header(to, Header { flags: header.flags & !READ, ..header });
            self.index[slot_of_index][1] = place(to);
            self.scratch = scratch;
        } else {
            self.unlink(slot_of_index);
            self.counts.evictions += 1;
        }
    }
}

fn place(at: usize) -> u32 {
    u32::try_from(at / UNIT + 1).expect("the ring is made no larger than places can say")
}

fn position(place: u32) -> usize {
    (place as usize - 1) * UNIT
}

#[cfg(test)]
mod tests;
