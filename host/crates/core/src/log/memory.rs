//! The reference log: one lane's inputs, outputs, journal and offsets in memory.
//!
//! Used by the sandbox, by tests and by the simulator. A [`MemoryCluster`] outlives the logs made
//! from it, as a broker outlives its clients; [`Log::acquire`] ends every earlier log of it.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;

use super::{CommittedOffset, Fetched, Log, LogError, Transaction, Trimmer, Waker};
use crate::{
    output::Target,
    record::{Headers, Record, SourceIndex},
    time::EventTime,
};

/// A record that was committed to an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedRecord {
    /// Where it went.
    pub target: Target,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
    /// The event time.
    pub time: Option<EventTime>,
}

#[derive(Debug, Default)]
struct Inner {
    sources: Vec<MemorySource>,
    journal: Vec<Bytes>,
    /// The first journal offset that is kept.
    journal_start: i64,
    /// Of the sources of keyed inputs.
    committed: Vec<Option<CommittedOffset>>,
    outputs: Vec<CommittedRecord>,
    attempt: u64,
}

#[derive(Debug, Default)]
struct MemorySource {
    records: Vec<Record>,
    is_ended: bool,
}

/// How many records each source held, and whether it had ended.
#[derive(Debug, Clone, Default)]
pub struct Arrived(Vec<(usize, bool)>);

/// What a lane's topics hold. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryCluster(Arc<Mutex<Inner>>);

impl MemoryCluster {
    /// Returns empty topics for that many sources of keyed inputs.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self::with_broadcast(sources, 0)
    }

    /// Returns empty topics for that many sources of keyed inputs, and behind them for those of
    /// broadcast inputs.
    #[must_use]
    pub fn with_broadcast(keyed: usize, broadcast: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            sources: (0..keyed + broadcast).map(|_| MemorySource::default()).collect(),
            committed: vec![None; keyed],
            ..Inner::default()
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record to a source, whose offset it gets; returns that offset.
    pub fn append(&self, source: SourceIndex, mut record: Record) -> i64 {
        let records = &mut self.inner().sources[usize::from(source.0)].records;
        let offset = i64::try_from(records.len()).expect("a test has fewer than 2^63 records");
        record.offset = offset;
        records.push(record);
        offset
    }

    /// Ends a source: nothing follows.
    pub fn end(&self, source: SourceIndex) {
        self.inner().sources[usize::from(source.0)].is_ended = true;
    }

    /// Returns what has arrived so far.
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        let of = |source: &MemorySource| (source.records.len(), source.is_ended);
        Arrived(self.inner().sources.iter().map(of).collect())
    }

    /// Takes back what has arrived since: it is not there yet, and may arrive again.
    pub fn take_back(&self, until: &Arrived) {
        for (source, (records, is_ended)) in self.inner().sources.iter_mut().zip(&until.0) {
            source.records.truncate(*records);
            source.is_ended = *is_ended;
        }
    }

    /// Forgets the committed offsets, as a broker does after their retention.
    pub fn forget_offsets(&self) {
        self.inner().committed.fill(None);
    }

    /// Loses the last journal records, as a broker does after an unclean election of its leader.
    pub fn lose_journal_end(&self, records: usize) {
        let journal = &mut self.inner().journal;
        journal.truncate(journal.len().saturating_sub(records));
    }

    /// Returns the first journal offset that is kept.
    #[must_use]
    pub fn journal_start(&self) -> i64 {
        self.inner().journal_start
    }

    /// Returns everything that was committed, in order.
    #[must_use]
    pub fn outputs(&self) -> Vec<CommittedRecord> {
        self.inner().outputs.clone()
    }

    /// Returns a log over these topics.
    #[must_use]
    pub fn log(&self) -> MemoryLog {
        MemoryLog { cluster: self.clone(), attempt: 0, sources: VecDeque::new() }
    }
}

/// How far a log has read one source.
#[derive(Debug, Clone, Copy)]
struct Reading {
    position: usize,
    has_said_end: bool,
}

/// The log port over a [`MemoryCluster`].
#[derive(Debug)]
pub struct MemoryLog {
    cluster: MemoryCluster,
    attempt: u64,
    sources: VecDeque<Reading>,
}

impl Log for MemoryLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        let mut inner = self.cluster.inner();
        inner.attempt += 1;
        self.attempt = inner.attempt;
        Ok(())
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        Ok(self.cluster.inner().committed.clone())
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        let journal = self.cluster.inner().journal.clone();
        let end = journal_offset(journal.len());
        let start = self.cluster.inner().journal_start;
        let from = usize::try_from(from.max(start)).unwrap_or(0);
        for (at, chunk) in journal.into_iter().enumerate().skip(from) {
            if visit(journal_offset(at), chunk).is_break() {
                break;
            }
        }
        Ok(end)
    }

    fn start_positions(&mut self) -> Result<Vec<i64>, LogError> {
        Ok(vec![0; self.cluster.inner().sources.len()])
    }

    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError> {
        let reading = |position: &i64| Reading {
            position: usize::try_from(*position).unwrap_or(0),
            has_said_end: false,
        };
        self.sources = positions.iter().map(reading).collect();
        Ok(())
    }

    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        let inner = self.cluster.inner();
        for (at, reading) in self.sources.iter_mut().enumerate() {
            if !wanted[at] {
                continue;
            }
            let source = SourceIndex(u16::try_from(at).unwrap_or(u16::MAX));
            let memory = &inner.sources[at];
            let records = memory.records.get(reading.position..).unwrap_or_default().to_vec();
            if !records.is_empty() {
                reading.position += records.len();
                reading.has_said_end = false;
                take(Fetched::Records { source, records });
            }
            if !reading.has_said_end {
                reading.has_said_end = true;
                take(Fetched::AtEnd { source, position: journal_offset(reading.position) });
            }
            if memory.is_ended {
                take(Fetched::Ended { source });
            }
        }
        Ok(())
    }

    fn wait(&mut self, _at_most: Duration) {}

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn trimmer(&self) -> Option<Trimmer> {
        let cluster = self.cluster.clone();
        Some(Arc::new(move |before| {
            let mut inner = cluster.inner();
            let end = journal_offset(inner.journal.len());
            inner.journal_start = inner.journal_start.max(before.min(end));
            Ok(())
        }))
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        let mut inner = self.cluster.inner();
        if inner.attempt != self.attempt {
            return Err(LogError::Fenced("a later attempt has acquired the lane".to_owned()));
        }
        let mut metadata = transaction.metadata;
        metadata.journal_offset = journal_offset(inner.journal.len());
        inner.journal.extend(transaction.chunks.iter().map(|chunk| Bytes::from(chunk.clone())));
        let keyed = inner.committed.len();
        inner.committed = transaction
            .positions
            .iter()
            .take(keyed)
            .map(|position| {
                let metadata = metadata.to_string();
                Some(CommittedOffset { position: *position, metadata })
            })
            .collect();
        let outputs = transaction.outputs.iter().map(|record| CommittedRecord {
            target: record.target,
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            headers: record.headers.clone(),
            time: record.time,
        });
        inner.outputs.extend(outputs);
        Ok(journal_offset(inner.journal.len()))
    }
}

fn journal_offset(at: usize) -> i64 {
    i64::try_from(at).expect("memory holds fewer than 2^63 records")
}
