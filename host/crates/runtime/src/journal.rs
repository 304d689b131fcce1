//! Reading a lane's journal: chunks put together, decoded, and kept as far as memory allows.
//!
//! Invariant: an epoch record counts only when its set of chunks is complete, and only when it is
//! this lane's.

use std::ops::ControlFlow;

use bytes::Bytes;
use dovetail_core::{
    epoch::{
        Epoch, EpochRecord, JournaledEpoch, LaneId, StoredHead,
        chunk::{self, Assembler},
        codec,
    },
    identity::Identity,
    log::{Log, LogError},
    recovery::{JournalFact, JournalFacts},
    state::{StateStore, StoreError},
};

/// Bytes of epoch records that are kept between looking and replaying, so that a short journal is
/// read once.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// What the journal holds from an offset on.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The records.
    pub(crate) facts: JournalFacts,
    /// Where the journal ends.
    pub(crate) end: i64,
    /// The records with the offset behind each; empty when they are too many to keep.
    kept: Vec<(JournaledEpoch, i64)>,
    /// The last record, where none is kept.
    last: Option<EpochRecord>,
    /// Bytes of all records.
    pub(crate) bytes: usize,
}

/// Reads the journal from an offset to its end; `progress` hears of every record.
pub(crate) fn scan(
    log: &mut dyn Log,
    lane: LaneId,
    from: i64,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Scan, LogError> {
    scan_keeping(log, lane, from, KEPT_BYTES_MAX, progress)
}

fn scan_keeping(
    log: &mut dyn Log,
    lane: LaneId,
    from: i64,
    kept_bytes_max: usize,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Scan, LogError> {
    let mut scan = Scan::default();
    scan.end = visit(log, lane, from, &mut |epoch, next, size| {
        progress(epoch.record.epoch);
        scan.facts.add(fact(&epoch));
        scan.bytes += size;
        if scan.bytes <= kept_bytes_max {
            scan.kept.push((epoch, next));
        } else {
            scan.kept = Vec::new();
            scan.last = Some(epoch.record);
        }
        ControlFlow::Continue(())
    })?;
    Ok(scan)
}

pub(crate) fn fact(epoch: &JournaledEpoch) -> JournalFact {
    JournalFact {
        epoch: epoch.record.epoch,
        attempt: epoch.record.attempt,
        hash: epoch.hash,
        previous_hash: epoch.record.previous_hash,
    }
}

/// Returns the journal's last record, where nothing lies behind an offset that a store knows.
pub(crate) fn last(
    log: &mut dyn Log,
    lane: LaneId,
    end: i64,
    progress: &mut dyn FnMut(Epoch),
) -> Result<Option<JournaledEpoch>, LogError> {
    if let Some(last) = ending_at(log, lane, end)? {
        return Ok(Some(last));
    }
    // Whatever lies there is not what the store knew.
    let mut last = None;
    visit(log, lane, 0, &mut |epoch, _, _| {
        progress(epoch.record.epoch);
        last = Some(epoch);
        ControlFlow::Continue(())
    })?;
    Ok(last)
}

/// Returns the record whose last chunk lies right before an offset, or before the control marker
/// there.
///
/// Its chunks follow each other, since one transaction wrote them all: the last says how many.
fn ending_at(
    log: &mut dyn Log,
    lane: LaneId,
    end: i64,
) -> Result<Option<JournaledEpoch>, LogError> {
    let mut last = None;
    log.read_journal(end.saturating_sub(2).max(0), &mut |offset, chunk| {
        if offset >= end {
            return ControlFlow::Break(());
        }
        last = chunk::count(&chunk).ok().map(|count| (offset + 1, count));
        ControlFlow::Continue(())
    })?;
    let first = |(next, count): (i64, usize)| {
        let from = next.checked_sub(i64::try_from(count).ok()?)?;
        (from >= 0).then_some((from, next))
    };
    let Some((from, next)) = last.and_then(first) else { return Ok(None) };
    let mut found = None;
    visit(log, lane, from, &mut |epoch, behind, _| {
        found = (behind == next).then_some(epoch);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// How a journal begins.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// It is empty.
    Nothing,
    /// With the genesis record, which holds the identity.
    Genesis(Identity),
    /// With a later epoch: the records before were trimmed.
    Trimmed(Epoch),
}

/// Returns how the journal begins.
pub(crate) fn beginning(log: &mut dyn Log, lane: LaneId) -> Result<Beginning, LogError> {
    let mut first = None;
    visit(log, lane, 0, &mut |epoch, _, _| {
        first = Some(epoch.record);
        ControlFlow::Break(())
    })?;
    match first {
        None => Ok(Beginning::Nothing),
        Some(record) if record.epoch != Epoch::GENESIS => Ok(Beginning::Trimmed(record.epoch)),
        Some(record) => record.identity.map(Beginning::Genesis).ok_or_else(|| {
            LogError::Corrupt(format!("the genesis record of lane {} has no identity", lane.0))
        }),
    }
}

/// Visits complete epoch records with the offset behind each and their size in bytes; returns where
/// the journal ends.
pub(crate) fn visit(
    log: &mut dyn Log,
    lane: LaneId,
    from: i64,
    take: &mut dyn FnMut(JournaledEpoch, i64, usize) -> ControlFlow<()>,
) -> Result<i64, LogError> {
    let mut assembler = Assembler::default();
    let mut failure = None;
    let end = log.read_journal(from, &mut |offset, chunk| match next_record(
        &mut assembler,
        lane,
        offset,
        &chunk,
    ) {
        Ok(None) => ControlFlow::Continue(()),
        Ok(Some((epoch, size))) => take(epoch, offset + 1, size),
        Err(error) => {
            failure = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failure.map_or(Ok(end), Err)
}

fn next_record(
    assembler: &mut Assembler,
    lane: LaneId,
    offset: i64,
    chunk: &Bytes,
) -> Result<Option<(JournaledEpoch, usize)>, LogError> {
    let corrupt = |what: String| {
        LogError::Corrupt(format!("the journal of lane {} at offset {offset}: {what}", lane.0))
    };
    let Some(bytes) = assembler.add(chunk).map_err(|error| corrupt(error.to_string()))? else {
        return Ok(None);
    };
    let epoch = codec::decode(&bytes).map_err(|error| corrupt(error.to_string()))?;
    if epoch.record.lane != lane {
        return Err(corrupt(format!("a record of lane {}", epoch.record.lane.0)));
    }
    Ok(Some((epoch, bytes.len())))
}

/// Why a replay stopped.
#[derive(Debug)]
pub(crate) enum ReplayError {
    Log(LogError),
    Store(StoreError),
}

impl Scan {
    /// Returns the last record.
    pub(crate) fn last(&self) -> Option<&EpochRecord> {
        self.kept.last().map(|(epoch, _)| &epoch.record).or(self.last.as_ref())
    }

    /// Applies every record of the scan; returns the head of the last one.
    pub(crate) fn replay(
        self,
        log: &mut dyn Log,
        lane: LaneId,
        from: i64,
        store: &mut dyn StateStore,
        progress: &mut dyn FnMut(Epoch),
    ) -> Result<Option<StoredHead>, ReplayError> {
        let mut head = None;
        if self.kept.len() as u64 == self.facts.count {
            for (epoch, next) in self.kept {
                progress(epoch.record.epoch);
                head = Some(apply(store, epoch, next).map_err(ReplayError::Store)?);
            }
            return Ok(head);
        }
        let mut again = JournalFacts::default();
        let mut failure = None;
        visit(log, lane, from, &mut |epoch, next, _| {
            progress(epoch.record.epoch);
            again.add(fact(&epoch));
            // Each record holds its predecessor's hash: a chain that begins alike is the same.
            if again.first != self.facts.first || again.broken.is_some() {
                let what = format!("epoch {} read differently later", epoch.record.epoch.0);
                // Unless an owner trims it meanwhile: then the next look tells.
                failure = Some(ReplayError::Log(LogError::Doubt(what)));
                return ControlFlow::Break(());
            }
            match apply(store, epoch, next) {
                Ok(applied) => head = Some(applied),
                Err(error) => failure = Some(ReplayError::Store(error)),
            }
            match failure.is_some() || again.count == self.facts.count {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
        .map_err(ReplayError::Log)?;
        match failure {
            Some(failure) => Err(failure),
            None if again == self.facts => Ok(head),
            None => {
                let what = "the journal was another one the second time".to_owned();
                Err(ReplayError::Log(LogError::Doubt(what)))
            }
        }
    }
}

fn apply(
    store: &mut dyn StateStore,
    epoch: JournaledEpoch,
    journal_next: i64,
) -> Result<StoredHead, StoreError> {
    let head = StoredHead { record: epoch.record, hash: epoch.hash, journal_next };
    let bytes = codec::encode_stored(&head);
    let mut changes = epoch.changes.iter().map(|(row, value)| (row.as_ref(), value.as_deref()));
    store.apply(&mut changes, &bytes, head.record.clocks())?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use dovetail_core::{
        epoch::{Attempt, Owner, TimerFloors, metadata::CommitMetadata},
        log::{
            Transaction,
            memory::{MemoryCluster, MemoryLog},
        },
        output::OutputBuffer,
        state::MemoryStore,
        time::NO_WATERMARK,
    };

    use super::*;

    const LANE: LaneId = LaneId(0);

    fn record(epoch: u64, previous_hash: u64) -> EpochRecord {
        EpochRecord {
            lane: LANE,
            epoch: Epoch(epoch),
            attempt: Attempt(1),
            owner: Owner { host: String::new(), pid: 0, started_at: 0 },
            previous_hash,
            identity: None,
            sources: Vec::new(),
            watermark: NO_WATERMARK,
            processing_time: 0,
            firing: None,
            continuation: None,
            timer_floors: TimerFloors::default(),
            revision: String::new(),
            outputs: 0,
            timers_fired: 0,
        }
    }

    /// A journal in which each epoch writes a row of that many bytes, named by its number.
    fn journal(epochs: u64, row_bytes: usize) -> MemoryLog {
        let mut log = MemoryCluster::new(0).log();
        log.acquire().unwrap();
        let mut previous_hash = 0;
        for epoch in 0..epochs {
            let (row, value) = (epoch.to_be_bytes(), vec![b'x'; row_bytes]);
            let changes: [(&[u8], Option<&[u8]>); 1] = [(&row, Some(&value))];
            let (bytes, hash) = codec::encode(&record(epoch, previous_hash), changes.into_iter());
            let chunks = chunk::split(LANE, Epoch(epoch), Attempt(1), &bytes);
            let metadata = CommitMetadata {
                lane: LANE,
                epoch: Epoch(epoch),
                attempt: Attempt(1),
                journal_offset: 0,
                hash,
            };
            let outputs = OutputBuffer::default();
            log.commit(&Transaction {
                outputs: &outputs,
                chunks: &chunks,
                positions: &[],
                metadata,
            })
            .unwrap();
            previous_hash = hash;
        }
        log
    }

    #[test]
    fn a_journal_too_long_to_keep_is_read_twice_with_the_same_result() {
        let rows = 5;
        for row_bytes in [10, 2 * chunk::PAYLOAD_BYTES_MAX] {
            let mut heads = Vec::new();
            for kept_bytes_max in [usize::MAX, 3 * row_bytes, 0] {
                let mut log = journal(rows, row_bytes);
                let mut store = MemoryStore::default();
                let mut seen = 0;
                let scan =
                    scan_keeping(&mut log, LANE, 0, kept_bytes_max, &mut |_| seen += 1).unwrap();
                assert_eq!((scan.facts.count, seen), (rows, rows));
                assert_eq!(scan.kept.is_empty(), kept_bytes_max != usize::MAX);
                let mut seen = 0;
                let mut progress = |_| seen += 1;
                let head = scan.replay(&mut log, LANE, 0, &mut store, &mut progress).unwrap();
                assert_eq!(seen, rows);
                assert_eq!(store.size().rows, rows);
                heads.push(head.unwrap());
            }
            assert!(heads.windows(2).all(|pair| pair[0] == pair[1]));
            assert_eq!(heads[0].record.epoch, Epoch(rows - 1));
        }
    }

    #[test]
    fn what_is_no_journal_is_named_with_lane_and_offset() {
        let mut log = MemoryCluster::new(0).log();
        log.acquire().unwrap();
        let outputs = OutputBuffer::default();
        let metadata = CommitMetadata {
            lane: LANE,
            epoch: Epoch(0),
            attempt: Attempt(1),
            journal_offset: 0,
            hash: 0,
        };
        let chunks = [b"something else".to_vec()];
        log.commit(&Transaction { outputs: &outputs, chunks: &chunks, positions: &[], metadata })
            .unwrap();
        let error = scan(&mut log, LANE, 0, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("lane 0 at offset 0"), "{error}");
    }

    #[test]
    fn the_last_record_is_looked_up_from_where_the_store_says_it_ends() {
        for row_bytes in [10, 2 * chunk::PAYLOAD_BYTES_MAX] {
            let mut log = journal(4, row_bytes);
            let end = scan(&mut log, LANE, 0, &mut |_| {}).unwrap().end;
            let mut seen = Vec::new();
            let mut progress = |epoch: Epoch| seen.push(epoch.0);
            let found = last(&mut log, LANE, end, &mut progress).unwrap().unwrap();
            assert_eq!(found.record.epoch, Epoch(3));
            // A control marker may lie behind it.
            assert_eq!(
                last(&mut log, LANE, end + 1, &mut progress).unwrap().as_ref(),
                Some(&found)
            );
            // Where no record ends there, the journal is read from its start.
            assert_eq!(last(&mut log, LANE, end + 2, &mut progress).unwrap(), Some(found));
            assert_eq!(seen, [0, 1, 2, 3]);
            let empty = &mut MemoryCluster::new(0).log();
            assert_eq!(last(empty, LANE, 7, &mut |_| {}).unwrap(), None);
        }
    }
}
