//! The log of one partition: records, control markers, open transactions.

use std::collections::BTreeMap;

use dovetail_core::record::Record;

#[derive(Debug, Clone)]
struct Entry {
    /// `None` for a control marker.
    record: Option<Record>,
    is_aborted: bool,
}

/// The log of one partition.
#[derive(Debug, Clone, Default)]
pub struct PartitionLog {
    entries: Vec<Entry>,
    /// The first offset that is kept.
    pub start: i64,
    /// Open transactions: producer to first offset, and the offsets it has written.
    open: BTreeMap<u64, Vec<i64>>,
    /// Without a leader until then.
    pub up_at: i64,
    /// The last sequence number of each producer epoch, against doubled requests.
    pub(super) sequences: BTreeMap<(u64, u32), (u64, i64)>,
}

impl PartitionLog {
    /// Returns the offset behind the last entry.
    #[must_use]
    pub fn end(&self) -> i64 {
        i64::try_from(self.entries.len()).unwrap_or(i64::MAX)
    }

    /// Returns the last stable offset.
    #[must_use]
    pub fn stable_end(&self) -> i64 {
        let open = self.open.values().filter_map(|offsets| offsets.first());
        open.copied().min().unwrap_or_else(|| self.end())
    }

    /// Appends records, of a transaction or of none; returns the first's offset.
    pub fn append(&mut self, producer: Option<u64>, records: Vec<Record>) -> i64 {
        let first = self.end();
        for mut record in records {
            let offset = self.end();
            record.offset = offset;
            if let Some(producer) = producer {
                self.open.entry(producer).or_default().push(offset);
            }
            self.entries.push(Entry { record: Some(record), is_aborted: false });
        }
        first
    }

    /// Writes a transaction's marker.
    pub fn mark(&mut self, producer: u64, is_commit: bool) {
        for offset in self.open.remove(&producer).unwrap_or_default() {
            if !is_commit
                && let Some(entry) =
                    usize::try_from(offset).ok().and_then(|at| self.entries.get_mut(at))
            {
                entry.is_aborted = true;
            }
        }
        self.entries.push(Entry { record: None, is_aborted: false });
    }

    /// Returns the records with offsets in `from..to`, at most `max`, and where to read on.
    /// A read-committed reader passes a `to` not beyond [`Self::stable_end`].
    #[must_use]
    pub fn read(&self, from: i64, to: i64, max: usize, is_committed: bool) -> (Vec<Record>, i64) {
        let mut records = Vec::new();
        let mut at = from.max(self.start);
        while at < to.min(self.end()) && records.len() < max {
            let entry = usize::try_from(at).ok().and_then(|at| self.entries.get(at));
            if let Some(Entry { record: Some(record), is_aborted }) = entry
                && !(is_committed && *is_aborted)
            {
                records.push(record.clone());
            }
            at += 1;
        }
        (records, at)
    }

    /// Deletes what lies before an offset.
    pub fn trim(&mut self, before: i64) {
        self.start = self.start.max(before.min(self.stable_end()));
    }

    /// Loses the first record from an offset on.
    pub fn punch(&mut self, from: i64) {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let is_record = |entry: &&mut Entry| entry.record.is_some() && !entry.is_aborted;
        if let Some(entry) = self.entries.iter_mut().skip(from).find(is_record) {
            entry.record = None;
        }
    }

    /// Forgets everything from an offset on: an unclean leader election.
    pub fn truncate(&mut self, to: i64) {
        self.entries.truncate(usize::try_from(to).unwrap_or(0));
        self.start = self.start.min(self.end());
        self.open.clear();
    }
}
