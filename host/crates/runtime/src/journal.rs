//! Reading a lane's journal: chunks put together, decoded, and kept as far as memory allows.
//!
//! Invariant: an epoch record counts only when its set of chunks is complete, and only when it is
//! this lane's.

use std::ops::ControlFlow;

use bytes::Bytes;
use dovetail_core::{
    epoch::{Epoch, JournaledEpoch, LaneId, StoredHead, chunk::Assembler, codec},
    identity::Identity,
    log::{Log, LogError},
    recovery::JournalFact,
    state::{StateStore, StoreError},
};

/// Bytes of epoch records that are kept between looking and replaying, so that a short journal is
/// read once.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// What the journal holds from an offset on.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Every record, in order.
    pub(crate) facts: Vec<JournalFact>,
    /// Where the journal ends.
    pub(crate) end: i64,
    /// The records with the offset behind each; empty when they are too many to keep.
    kept: Vec<(JournaledEpoch, i64)>,
    kept_bytes: usize,
}

/// Reads the journal from an offset to its end.
pub(crate) fn scan(log: &mut dyn Log, lane: LaneId, from: i64) -> Result<Scan, LogError> {
    scan_keeping(log, lane, from, KEPT_BYTES_MAX)
}

fn scan_keeping(
    log: &mut dyn Log,
    lane: LaneId,
    from: i64,
    kept_bytes_max: usize,
) -> Result<Scan, LogError> {
    let mut scan = Scan::default();
    scan.end = visit(log, lane, from, &mut |epoch, next, size| {
        scan.facts.push(fact(&epoch));
        scan.kept_bytes += size;
        if scan.kept_bytes <= kept_bytes_max {
            scan.kept.push((epoch, next));
        } else {
            scan.kept = Vec::new();
        }
        ControlFlow::Continue(())
    })?;
    Ok(scan)
}

fn fact(epoch: &JournaledEpoch) -> JournalFact {
    JournalFact {
        epoch: epoch.record.epoch,
        attempt: epoch.record.attempt,
        hash: epoch.hash,
        previous_hash: epoch.record.previous_hash,
    }
}

/// Returns the journal's last record.
pub(crate) fn last(log: &mut dyn Log, lane: LaneId) -> Result<Option<JournalFact>, LogError> {
    let mut last = None;
    visit(log, lane, 0, &mut |epoch, _, _| {
        last = Some(fact(&epoch));
        ControlFlow::Continue(())
    })?;
    Ok(last)
}

/// Returns the identity that the genesis record holds; `None` when the journal is empty.
pub(crate) fn identity(log: &mut dyn Log, lane: LaneId) -> Result<Option<Identity>, LogError> {
    let mut first = None;
    visit(log, lane, 0, &mut |epoch, _, _| {
        first = Some(epoch.record);
        ControlFlow::Break(())
    })?;
    match first {
        None => Ok(None),
        Some(record) if record.epoch == Epoch::GENESIS && record.identity.is_some() => {
            Ok(record.identity)
        }
        Some(record) => Err(LogError::Corrupt(format!(
            "the journal of lane {} begins at epoch {} and not with the genesis record, which \
             holds the pipeline's identity; was the topic trimmed, or its retention not unlimited? \
             Restore the journal topic, or start under another name",
            lane.0, record.epoch.0
        ))),
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
        if self.kept.len() == self.facts.len() {
            for (epoch, next) in self.kept {
                progress(epoch.record.epoch);
                head = Some(apply(store, epoch, next).map_err(ReplayError::Store)?);
            }
            return Ok(head);
        }
        let mut facts = self.facts.iter();
        let mut failure = None;
        visit(log, lane, from, &mut |epoch, next, _| {
            let Some(fact) = facts.next() else {
                return ControlFlow::Break(());
            };
            if (fact.epoch, fact.hash) != (epoch.record.epoch, epoch.hash) {
                let what = format!("epoch {} read differently the second time", fact.epoch.0);
                failure = Some(ReplayError::Log(LogError::Corrupt(what)));
                return ControlFlow::Break(());
            }
            progress(epoch.record.epoch);
            match apply(store, epoch, next) {
                Ok(applied) => head = Some(applied),
                Err(error) => failure = Some(ReplayError::Store(error)),
            }
            if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(ReplayError::Log)?;
        let is_whole = facts.next().is_none();
        match failure {
            Some(failure) => Err(failure),
            None if is_whole => Ok(head),
            None => {
                let what = "the journal was shorter the second time".to_owned();
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
        epoch::{Attempt, EpochRecord, Owner, TimerFloors, chunk, metadata::CommitMetadata},
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
                let scan = scan_keeping(&mut log, LANE, 0, kept_bytes_max).unwrap();
                assert_eq!(scan.facts.len() as u64, rows);
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
        let error = scan(&mut log, LANE, 0).unwrap_err().to_string();
        assert!(error.contains("lane 0 at offset 0"), "{error}");
    }
}
