//! The committed offsets of a group: visible once the marker of their transaction is written.

use std::collections::BTreeMap;

/// What a commit of offsets says of one partition: input, partition, position, metadata.
pub type OffsetEntry = ((u16, u16), i64, String);

/// The producer id of another program that uses the group.
const STRANGER: u64 = 1;

/// The offsets of the group.
#[derive(Debug, Default)]
pub struct Group {
    /// What is committed.
    pub committed: BTreeMap<(u16, u16), (i64, String)>,
    /// When each was committed.
    times: BTreeMap<(u16, u16), i64>,
    pub(super) pending: BTreeMap<u64, Vec<OffsetEntry>>,
    /// Committed, but not in the coordinator's cache until it loads again (the broker's
    /// KAFKA-17507).
    unseen: Vec<OffsetEntry>,
    /// The next marker meets that defect.
    pub goes_stale: bool,
}

impl Group {
    pub(super) fn mark(&mut self, now: i64, producer: u64, is_commit: bool) {
        let Some(offsets) = self.pending.remove(&producer) else { return };
        if !is_commit {
            return;
        }
        if std::mem::take(&mut self.goes_stale) && self.unseen.is_empty() {
            self.times.extend(offsets.iter().map(|(source, ..)| (*source, now)));
            self.unseen.extend(offsets);
            return;
        }
        self.times.extend(offsets.iter().map(|(source, ..)| (*source, now)));
        self.unseen.retain(|(source, ..)| offsets.iter().all(|(other, ..)| other != source));
        self.committed.extend(offsets.into_iter().map(|(source, at, text)| (source, (at, text))));
    }

    /// The coordinator loads its partition again.
    pub fn reload(&mut self) {
        let unseen = std::mem::take(&mut self.unseen);
        self.committed.extend(unseen.into_iter().map(|(source, at, text)| (source, (at, text))));
    }

    /// Forgets what was committed before a time.
    pub(super) fn expire(&mut self, before: i64) {
        let times = &self.times;
        let is_young = |source: &(u16, u16)| times.get(source).is_none_or(|at| *at >= before);
        self.committed.retain(|source, _| is_young(source));
        self.unseen.retain(|(source, ..)| is_young(source));
    }

    /// Another program's transaction commits an offset, and does not end.
    pub fn hang(&mut self, source: (u16, u16)) {
        self.pending.insert(STRANGER, vec![(source, 0, String::new())]);
    }

    /// That transaction is aborted.
    pub fn release(&mut self) {
        self.pending.remove(&STRANGER);
    }

    /// Forgets everything that is committed.
    pub fn forget(&mut self) {
        self.unseen.clear();
        self.committed.clear();
    }
}
