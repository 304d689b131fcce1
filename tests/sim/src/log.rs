//! The log port over the model of Kafka: what an adapter on librdkafka does, request by request.
//!
//! Every request takes virtual time, during which everything else goes on: other hosts, markers,
//! timeouts, faults. So two owners of a lane really interleave inside their commits.
//!
//! Invariant: after any doubt the producer is never used again.

mod commit;

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use dovetail_core::{
    log::{
        CommittedOffset, Fetched, Log, LogError, Transaction, Trimmer, Waker,
        gap::{self, Gap, OnGap},
    },
    record::{Record, Source, SourceIndex},
};

use self::commit::Failed;
pub(crate) use self::commit::SENDS_MAX;
use crate::{
    bugs::Bug,
    faults::Point,
    job::Calls,
    kafka::{Answer, Place, Request},
    rows::Row,
    workload::RULES,
    world::{Connection, Process, Shared},
};

/// How long an operation outside of transactions is tried, ms.
const PATIENCE: i64 = 15_000;

#[derive(Debug, Clone, Default)]
struct Reader {
    position: i64,
    /// The end that the client knows.
    seen: i64,
    refresh_at: i64,
    has_said_end: bool,
    has_said_unknown: bool,
    last: Vec<Record>,
}

/// The log port of one lane in one process.
pub struct SimLog {
    shared: Arc<Shared>,
    process: Process,
    lane: u16,
    sources: Vec<Source>,
    connection: Connection,
    epoch: Option<u32>,
    sequence: u64,
    /// A request of a commit had to be sent again: it may still arrive.
    is_suspect: bool,
    readers: Vec<Reader>,
    leftover: Vec<(usize, Vec<Record>)>,
    /// Sources that go on behind what is gone, and how much that is; not told yet.
    gaps: Vec<(usize, Gap)>,
    calls: Calls,
    is_acquiring: Arc<AtomicBool>,
}

impl SimLog {
    /// Returns the log of a lane in a process.
    #[must_use]
    pub fn new(
        shared: Arc<Shared>,
        process: Process,
        lane: u16,
        sources: Vec<Source>,
        calls: Calls,
        is_acquiring: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shared,
            process,
            lane,
            sources,
            connection: Connection::default(),
            epoch: None,
            sequence: 0,
            is_suspect: false,
            readers: Vec::new(),
            leftover: Vec::new(),
            gaps: Vec::new(),
            calls,
            is_acquiring,
        }
    }

    /// The sources whose positions are the group's offsets.
    fn keyed(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.input.0 != RULES)
    }

    fn has(&self, bug: Bug) -> bool {
        self.shared.has(bug)
    }

    fn drop_clients(&mut self) {
        self.connection = Connection::default();
        self.epoch = None;
        self.is_suspect = false;
    }

    /// Asks until there is an answer that is not "ask again"; `None` when time is over.
    fn ask(&mut self, request: &Request) -> Option<Answer> {
        let is_ignored =
            self.has(Bug::ReadErrorsIgnored) && !matches!(request, Request::Init { .. });
        let patience = if is_ignored { 1 } else { PATIENCE };
        let until = self.shared.now() + patience;
        while self.shared.now() < until && self.shared.is_alive(self.process) {
            match self.shared.call(self.process, &mut self.connection, request.clone()) {
                None => self.connection = Connection::default(),
                Some(Answer::Unstable) => {
                    self.shared.count_row(Row::OffsetsPending);
                    self.shared.sleep(self.process, 500);
                }
                Some(Answer::Away | Answer::Concurrent) => {
                    self.shared.sleep(self.process, 50);
                }
                Some(answer) => return Some(answer),
            }
        }
        None
    }

    fn error(&self, failed: &Failed) -> LogError {
        match failed {
            Failed::Fenced if !self.has(Bug::FencedFightsBack) => {
                LogError::Fenced("an old producer epoch".to_owned())
            }
            Failed::Fenced => LogError::Doubt("fenced".to_owned()),
            Failed::Doubt(what) => LogError::Doubt((*what).to_owned()),
        }
    }

    fn fence(&mut self) -> Result<(), LogError> {
        let known = self.shared.epoch_of(self.lane).filter(|_| self.has(Bug::SkipFencing));
        let answer = match known {
            Some(epoch) => Some(Answer::Epoch(epoch)),
            None => self.ask(&Request::Init { lane: self.lane }),
        };
        let Some(Answer::Epoch(epoch)) = answer else {
            return Err(LogError::Doubt("the coordinator did not answer".to_owned()));
        };
        self.epoch = Some(epoch);
        self.sequence = 0;
        self.reach(Point::Fenced).map_err(|failed| self.error(&failed))
    }

    fn expect_no_transaction(&self) {
        if let Some(epoch) = self.epoch {
            self.shared.expect_no_transaction(self.lane, epoch);
        }
    }

    /// Looks whether what was committed can be continued; goes on behind gaps, where it may.
    fn find_gaps(&mut self, positions: &mut [i64]) -> Result<(), LogError> {
        let on_gap = if self.shared.knobs().skips_gaps { OnGap::Earliest } else { OnGap::Fail };
        self.gaps.clear();
        let sources = self.sources.clone().into_iter().zip(positions);
        for (at, (source, position)) in sources.enumerate() {
            let place = Place::Input(source.input.0, source.partition.0);
            let bounds = self.ask(&Request::Bounds { place, is_committed: false });
            let Some(Answer::Bounds(start, end)) = bounds else {
                if self.has(Bug::ReadErrorsIgnored) {
                    continue;
                }
                return Err(LogError::Doubt("the inputs' bounds were not answered".to_owned()));
            };
            if *position < start {
                self.shared.count_row(Row::InputTrimmed);
            } else if *position > end {
                self.shared.count_row(Row::InputRecreated);
            }
            let topic = format!("input {}", source.input.0);
            let named = (topic.as_str(), source.partition.0);
            if let Some(gap) = gap::find(named, on_gap, *position, (start, end))? {
                *position = gap.position;
                self.gaps.push((at, gap));
            }
        }
        Ok(())
    }

    /// Fetches one source; returns when more may be seen.
    fn fetch_source(&mut self, at: usize, found: &mut Vec<Fetched>) -> Option<i64> {
        let source = SourceIndex(u16::try_from(at).unwrap_or(u16::MAX));
        let place = Place::Input(self.sources[at].input.0, self.sources[at].partition.0);
        let (ends_early, goes_too_far) =
            (self.has(Bug::EndToldTooEarly), self.has(Bug::InputReadUncommitted));
        let reader = &mut self.readers[at];
        let view = self.shared.view(self.process, place, &mut reader.refresh_at, &mut reader.seen);
        let Some(view) = view else {
            if !std::mem::replace(&mut reader.has_said_unknown, true) {
                found.push(Fetched::Unknown { source });
            }
            reader.has_said_end = false;
            return None;
        };
        reader.has_said_unknown = false;
        let (records, next) = self.shared.read(place, reader.position, reader.seen, !goes_too_far);
        let was_at = reader.position;
        reader.position = next.max(was_at);
        if !records.is_empty() {
            reader.last.clone_from(&records);
            reader.has_said_end = false;
            found.push(Fetched::Records { source, records });
            if ends_early {
                found.push(Fetched::AtEnd { source, position: reader.seen });
            }
        }
        if reader.position >= reader.seen && (!reader.has_said_end || reader.position > was_at) {
            reader.has_said_end = true;
            found.push(Fetched::AtEnd { source, position: reader.position });
        }
        if view.is_ended && reader.position >= view.end {
            found.push(Fetched::Ended { source });
        }
        (view.end > reader.position).then_some(reader.refresh_at)
    }
}

impl Log for SimLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        self.drop_clients();
        self.lock_calls().clear();
        self.is_acquiring.store(true, Ordering::Relaxed);
        if self.has(Bug::ReadBeforeFencing) {
            return Ok(());
        }
        self.fence()
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        let sources: Vec<(u16, u16)> =
            self.keyed().map(|source| (source.input.0, source.partition.0)).collect();
        let count = sources.len();
        let answer = self.ask(&Request::FetchOffsets { sources, is_stable: true });
        let committed = match answer {
            Some(Answer::Committed(committed)) => committed,
            _ if self.has(Bug::ReadErrorsIgnored) => vec![None; count],
            _ => return Err(LogError::Doubt("committed offsets were not answered".to_owned())),
        };
        Ok(committed)
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        let place = Place::Journal(self.lane);
        let is_committed = !self.has(Bug::JournalReadUncommitted);
        let doubt = || LogError::Doubt("the journal was not answered".to_owned());
        let bounds = self.ask(&Request::Bounds { place, is_committed });
        let Some(Answer::Bounds(start, end)) = bounds else {
            return if self.has(Bug::ReadErrorsIgnored) { Ok(from) } else { Err(doubt()) };
        };
        let mut at = from.max(start);
        while at < end {
            let request = Request::Fetch { place, from: at, to: end, max: 20, is_committed };
            let Some(Answer::Records(records, next)) = self.ask(&request) else {
                return if self.has(Bug::ReadErrorsIgnored) { Ok(end) } else { Err(doubt()) };
            };
            for record in records {
                let chunk = record.value.unwrap_or_default();
                if visit(record.offset, chunk).is_break() {
                    return Ok(end);
                }
            }
            at = next;
        }
        Ok(end)
    }

    fn start_positions(&mut self) -> Result<Vec<i64>, LogError> {
        let mut positions = Vec::new();
        for source in self.sources.clone() {
            let place = Place::Input(source.input.0, source.partition.0);
            let bounds = self.ask(&Request::Bounds { place, is_committed: true });
            let Some(Answer::Bounds(start, _)) = bounds else {
                return Err(LogError::Doubt("start offsets were not answered".to_owned()));
            };
            positions.push(start);
        }
        Ok(positions)
    }

    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError> {
        let mut positions = positions.to_vec();
        self.find_gaps(&mut positions)?;
        self.is_acquiring.store(false, Ordering::Relaxed);
        self.expect_no_transaction();
        if self.has(Bug::ReadBeforeFencing) {
            self.fence()?;
        }
        if self.has(Bug::StaleFetch) {
            let last = self.readers.iter_mut().map(|reader| std::mem::take(&mut reader.last));
            self.leftover = last.enumerate().filter(|(_, last)| !last.is_empty()).collect();
        }
        let shift =
            i64::from(self.has(Bug::PositionsOffByOne) && positions.iter().any(|at| *at > 0));
        let is_read_anew = self.has(Bug::BroadcastReadAnew);
        let reader = |(position, source): (&i64, &Source)| match source.input.0 {
            RULES if is_read_anew => Reader::default(),
            _ => Reader { position: position + shift, ..Reader::default() },
        };
        self.readers = positions.iter().zip(&self.sources).map(reader).collect();
        Ok(())
    }

    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        if self.is_suspect {
            return Err(LogError::Doubt("a connection was lost while it committed".to_owned()));
        }
        self.expect_no_transaction();
        let mut found = Vec::new();
        self.gaps.retain(|(at, gap)| {
            let is_told = wanted.get(*at).copied().unwrap_or(false);
            if is_told {
                let source = SourceIndex(u16::try_from(*at).unwrap_or(u16::MAX));
                found.push(Fetched::Gap { source, position: gap.position, lost: gap.lost });
            }
            !is_told
        });
        for (at, records) in std::mem::take(&mut self.leftover) {
            let source = SourceIndex(u16::try_from(at).unwrap_or(u16::MAX));
            found.push(Fetched::Records { source, records });
        }
        let mut news_at = None;
        for (at, is_wanted) in wanted.iter().enumerate() {
            if *is_wanted && let Some(at) = self.fetch_source(at, &mut found) {
                news_at = Some(news_at.map_or(at, |earlier: i64| earlier.min(at)));
            }
        }
        if let Some(at) = news_at {
            self.shared.wake(self.process, self.lane, at);
        }
        for fetched in found {
            take(fetched);
        }
        Ok(())
    }

    fn wait(&mut self, _: Duration) {}

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn trimmer(&self) -> Option<Trimmer> {
        let (shared, process, lane) = (Arc::clone(&self.shared), self.process, self.lane);
        Some(Arc::new(move |before| {
            let trims_all = shared.has(Bug::TrimsToTheEnd);
            let before = if trims_all { shared.journal_end(lane) } else { before };
            let request = Request::Trim { lane, before };
            match shared.call(process, &mut Connection::default(), request) {
                Some(Answer::Done) => Ok(()),
                _ => Err(LogError::Doubt("the journal was not trimmed".to_owned())),
            }
        }))
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        let result = self.commit_with_bugs(transaction);
        result.map_err(|failed| {
            let error = self.error(&failed);
            self.drop_clients();
            error
        })
    }
}
