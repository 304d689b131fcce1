//! One lane's log on a directory.
//!
//! Invariant: only the newest attempt of a lane commits, and a commit holds outputs, journal and
//! positions together.

use std::{
    collections::BTreeMap, ops::ControlFlow, path::Path, path::PathBuf, sync::Arc, time::Duration,
};

use bytes::Bytes;
use dovetail_core::{
    epoch::LaneId,
    log::{CommittedOffset, Fetched, Log, LogError, Transaction, Waker},
    output::{OutputRecord, Target},
    record::{Headers, Partition, SourceIndex},
};

use crate::{
    cluster::{Append, Batch, EmbeddedCluster, partition_of},
    commits::{Position, SourceName},
    error::EmbeddedError,
    follow::push_line,
    ndjson::{self, FileRead, FileReader},
    reader::PartitionReader,
    signal::Signal,
};

/// Where the records of an input come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A topic of the directory: more may always come.
    Topic(String),
    /// An NDJSON file: it ends. The file is one partition of its input.
    File(PathBuf),
}

/// Where a topic is read from when the pipeline has never run. A file is read from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The first record.
    Earliest,
    /// Behind the last record.
    Latest,
}

/// One source of a lane.
#[derive(Debug, Clone)]
pub struct SourceSpec {
    /// Where the records come from.
    pub place: Place,
    /// The partition: of the topic, or the place of the file in the input's list.
    pub partition: Partition,
    /// Where it starts.
    pub start: Start,
    /// Whether every lane reads it: its position is not kept here, and a file may grow between two
    /// runs. Such sources are the last ones of a lane.
    pub is_broadcast: bool,
}

/// Where the records of an output go.
#[derive(Debug, Clone)]
pub struct OutputSpec {
    /// The topic; it must be there.
    pub topic: String,
    /// A file that gets a line of JSON per record, for people.
    pub follow: Option<PathBuf>,
}

/// What one lane reads and writes.
#[derive(Debug, Clone)]
pub struct LaneSpec {
    /// The pipeline; its journal is the topic `<pipeline>.journal`.
    pub pipeline: String,
    /// The lane.
    pub lane: LaneId,
    /// How many lanes the pipeline has: the partitions of its journal.
    pub lanes: u16,
    /// The sources in lane order.
    pub sources: Vec<SourceSpec>,
    /// The outputs in the order of the plugin's `describe`.
    pub outputs: Vec<OutputSpec>,
    /// Where dead letters go.
    pub dead_letters: OutputSpec,
}

/// One lane's log on an [`EmbeddedCluster`].
#[derive(Debug)]
pub struct EmbeddedLog {
    cluster: Arc<EmbeddedCluster>,
    spec: LaneSpec,
    group: String,
    journal: (String, u16),
    /// 0 until acquired.
    attempt: u64,
    sources: Vec<SourceReader>,
    signal: Arc<Signal>,
    /// Whether the last wait did not wait, because more could be read.
    has_skipped_wait: bool,
}

#[derive(Debug, Default)]
struct SourceReader {
    reader: Option<Reader>,
    /// The end that was last told.
    told_end: Option<u64>,
    /// The size of the file, once its end was told.
    finished: Option<u64>,
    /// The last line of the file, once its end was told.
    last_line: Option<u64>,
}

#[derive(Debug)]
enum Reader {
    Topic(PartitionReader),
    File(FileReader),
}

impl EmbeddedLog {
    /// Returns the log of a lane; makes the journal where there is none. A followed file whose
    /// topic is still empty is emptied, once: it begins with its topic.
    ///
    /// # Errors
    ///
    /// When a topic, partition or file is missing, or the journal has another number of lanes.
    pub fn new(cluster: &Arc<EmbeddedCluster>, spec: LaneSpec) -> Result<Self, EmbeddedError> {
        let journal = format!("{}.journal", spec.pipeline);
        let lanes = cluster.ensure_topic(&journal, spec.lanes)?;
        if lanes != spec.lanes || spec.lane.0 >= lanes {
            return Err(EmbeddedError::Config(format!(
                "topic {journal} has {lanes} partitions, one per lane; this pipeline has {} lanes \
                 and asks for lane {}: `lanes` is fixed at the first start",
                spec.lanes, spec.lane.0
            )));
        }
        for source in &spec.sources {
            match &source.place {
                Place::Topic(topic) => {
                    let name = (topic.clone(), source.partition.0);
                    cluster.lock().extent(&name)?;
                }
                Place::File(path) => {
                    ndjson::size(path)?;
                }
            }
        }
        for output in spec.outputs.iter().chain([&spec.dead_letters]) {
            if cluster.partitions(&output.topic).is_none() {
                return Err(EmbeddedError::Config(format!(
                    "there is no topic {} to write to in {}",
                    output.topic,
                    cluster.dir().display()
                )));
            }
            if let Some(path) = &output.follow {
                cluster.begin_follow(&output.topic, path)?;
            }
        }
        let signal = Arc::new(Signal::default());
        cluster.lock().register(&signal);
        Ok(Self {
            cluster: Arc::clone(cluster),
            group: format!("{}.state", spec.pipeline),
            journal: (journal, spec.lane.0),
            attempt: 0,
            sources: spec.sources.iter().map(|_| SourceReader::default()).collect(),
            signal,
            has_skipped_wait: false,
            spec,
        })
    }

    fn source_name(&self, source: &SourceSpec) -> SourceName {
        let place = match &source.place {
            Place::Topic(topic) => topic.clone(),
            Place::File(path) => format!("file:{}", path.display()),
        };
        (self.group.clone(), place, source.partition.0)
    }

    fn output(&self, target: Target) -> Result<&OutputSpec, LogError> {
        match target {
            Target::DeadLetters => Ok(&self.spec.dead_letters),
            Target::Output(at) => {
                self.spec.outputs.get(usize::from(at)).ok_or_else(|| LogError::Refused {
                    topic: String::new(),
                    partition: -1,
                    message: format!("there is no output number {at}"),
                })
            }
        }
    }

    /// Whether a file has been read to its end, as far as `position` says.
    fn finished(&self, at: usize, position: i64) -> Option<i64> {
        let source = self.sources.get(at)?;
        let size = source.finished?;
        let position = u64::try_from(position).ok()?;
        let is_done = source.last_line.is_none_or(|last_line| position > last_line);
        is_done.then(|| i64::try_from(size).ok()).flatten()
    }

    fn fetch_one(
        &mut self,
        at: usize,
        index: SourceIndex,
        take: &mut dyn FnMut(Fetched),
    ) -> Result<(), LogError> {
        let spec = &self.spec.sources[at];
        let source = &mut self.sources[at];
        match (&mut source.reader, &spec.place) {
            (Some(Reader::Topic(reader)), Place::Topic(topic)) => {
                let name = (topic.clone(), spec.partition.0);
                let extent = self.cluster.lock().extent(&name)?;
                let records = reader.read(extent)?;
                if !records.is_empty() {
                    source.told_end = None;
                    take(Fetched::Records { source: index, records });
                }
                let position = reader.position();
                if position == extent.records && source.told_end != Some(position) {
                    source.told_end = Some(position);
                    let position = i64::try_from(position).unwrap_or(i64::MAX);
                    take(Fetched::AtEnd { source: index, position });
                }
            }
            (Some(Reader::File(reader)), Place::File(_)) if source.told_end.is_none() => {
                match reader.read()? {
                    FileRead::Records(records) => take(Fetched::Records { source: index, records }),
                    FileRead::End(size) => {
                        source.told_end = Some(size);
                        source.finished = Some(size);
                        source.last_line = reader.last_line();
                        take(Fetched::Ended { source: index });
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether a fetch of all sources would bring anything.
    fn has_more(&self) -> bool {
        let inner = self.cluster.lock();
        self.spec.sources.iter().zip(&self.sources).any(|(spec, source)| {
            match (&source.reader, &spec.place) {
                (Some(Reader::Topic(reader)), Place::Topic(topic)) => {
                    let extent = inner.extent(&(topic.clone(), spec.partition.0));
                    extent.is_ok_and(|extent| reader.position() < extent.records)
                }
                (Some(Reader::File(_)), _) => source.told_end.is_none(),
                _ => false,
            }
        })
    }

    fn open_topic(
        &self,
        topic: &str,
        partition: Partition,
        offset: u64,
    ) -> Result<PartitionReader, LogError> {
        let name = (topic.to_owned(), partition.0);
        let end = self.cluster.lock().extent(&name)?.records;
        if offset > end {
            return Err(LogError::Gap {
                topic: name.0,
                partition: name.1,
                message: format!(
                    "committed up to offset {offset}, but the topic ends at {end}: was the \
                     directory replaced?"
                ),
            });
        }
        Ok(self.cluster.open_reader(&name, offset)?)
    }

    /// Refuses a file that has grown since it was finished.
    fn check_finished(&self, source: &SourceSpec, finished: Option<i64>) -> Result<(), LogError> {
        let (Some(finished), Place::File(path)) = (finished, &source.place) else { return Ok(()) };
        let size = ndjson::size(path)?;
        if i64::try_from(size) == Ok(finished) {
            return Ok(());
        }
        Err(LogError::Config(format!(
            "{} had {finished} bytes when pipeline {} read it to its end, now it has {size}; a \
             finished file is never read again. {}",
            path.display(),
            self.spec.pipeline,
            ways_to_read_anew(self.cluster.dir())
        )))
    }
}

/// Says how all of a file can be read once more.
pub(crate) fn ways_to_read_anew(dir: &Path) -> String {
    format!(
        "To read all of it anew, remove {} (and `state.dir` where that lies elsewhere); the files \
         that follow its topics begin anew with it. To keep what is there, give the pipeline another \
         name and another `state.dir`: its results are added to the same topics",
        dir.display()
    )
}

impl Log for EmbeddedLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        let mut inner = self.cluster.lock();
        inner.check()?;
        self.attempt = inner.begin_attempt(&self.spec.pipeline, self.spec.lane);
        drop(inner);
        self.sources = self.spec.sources.iter().map(|_| SourceReader::default()).collect();
        Ok(())
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        let mut offsets = Vec::with_capacity(self.spec.sources.len());
        let keyed = self.spec.sources.iter().enumerate();
        for (at, source) in keyed.filter(|(_, source)| !source.is_broadcast) {
            let name = self.source_name(source);
            let position = self.cluster.lock().committed().positions.get(&name).cloned();
            let finished = position.as_ref().and_then(|position| position.finished);
            self.check_finished(source, finished)?;
            self.sources[at].finished = finished.and_then(|size| u64::try_from(size).ok());
            offsets.push(position.map(|position| CommittedOffset {
                position: position.next,
                metadata: position.metadata,
            }));
        }
        Ok(offsets)
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        let extent = self.cluster.lock().extent(&self.journal)?;
        let end = i64::try_from(extent.records).unwrap_or(i64::MAX);
        let from = u64::try_from(from).unwrap_or(0);
        let mut reader = self.cluster.open_reader(&self.journal, from)?;
        loop {
            let records = reader.read(extent)?;
            if records.is_empty() {
                return Ok(end);
            }
            let flow = records
                .into_iter()
                .try_for_each(|record| visit(record.offset, record.value.unwrap_or_default()));
            if flow.is_break() {
                return Ok(end);
            }
        }
    }

    fn start_positions(&mut self) -> Result<Vec<i64>, LogError> {
        let mut positions = Vec::with_capacity(self.spec.sources.len());
        for source in &self.spec.sources {
            positions.push(match (&source.place, source.start) {
                (Place::File(_), _) | (_, Start::Earliest) => 0,
                (Place::Topic(topic), Start::Latest) => {
                    let name = (topic.clone(), source.partition.0);
                    let extent = self.cluster.lock().extent(&name)?;
                    i64::try_from(extent.records).unwrap_or(i64::MAX)
                }
            });
        }
        Ok(positions)
    }

    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError> {
        if positions.len() != self.spec.sources.len() {
            return Err(LogError::Corrupt(format!(
                "{} positions for {} sources",
                positions.len(),
                self.spec.sources.len()
            )));
        }
        for (at, position) in positions.iter().enumerate() {
            let spec = &self.spec.sources[at];
            let offset = u64::try_from(*position).unwrap_or(0);
            let reader = match &spec.place {
                Place::File(path) => Reader::File(FileReader::open(path, offset)?),
                Place::Topic(topic) => {
                    Reader::Topic(self.open_topic(topic, spec.partition, offset)?)
                }
            };
            let source = &mut self.sources[at];
            source.reader = Some(reader);
            source.told_end = None;
        }
        Ok(())
    }

    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        let mut has_fetched = false;
        let mut take = |fetched| {
            has_fetched = true;
            take(fetched);
        };
        for (at, is_wanted) in wanted.iter().take(self.sources.len()).enumerate() {
            if *is_wanted {
                let index = u16::try_from(at)
                    .map_err(|_too_many| LogError::Config("more than 65,536 sources".to_owned()))?;
                self.fetch_one(at, SourceIndex(index), &mut take)?;
            }
        }
        if has_fetched {
            self.has_skipped_wait = false;
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Duration) {
        // A read brings a part of what is there, so the rest must not wait for a commit. Once only:
        // if nobody wants it now, it does.
        if !self.has_skipped_wait && self.has_more() {
            self.has_skipped_wait = true;
            return;
        }
        self.signal.wait(at_most);
        self.has_skipped_wait = false;
    }

    fn waker(&self) -> Waker {
        let signal = Arc::clone(&self.signal);
        Arc::new(move || signal.raise())
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        let cluster = Arc::clone(&self.cluster);
        let mut inner = cluster.lock();
        let newest = inner.attempt(&self.spec.pipeline, self.spec.lane);
        if self.attempt == 0 || self.attempt != newest {
            return Err(LogError::Fenced(format!(
                "lane {} of {} was acquired again (attempt {newest}, this is attempt {})",
                self.spec.lane.0, self.spec.pipeline, self.attempt
            )));
        }
        let journal_offset = inner.extent(&self.journal)?.records;
        let journal_offset = i64::try_from(journal_offset).unwrap_or(i64::MAX);
        let mut batch = Batch::default();
        let mut partitions: BTreeMap<&str, u16> = BTreeMap::new();
        for record in transaction.outputs.iter() {
            let output = self.output(record.target)?;
            let count = *partitions
                .entry(&output.topic)
                .or_insert_with(|| inner.committed().partition_count(&output.topic));
            let OutputRecord { key, value, headers, time, .. } = record;
            let partition = partition_of(key, count);
            let topic = &output.topic;
            batch.appends.push(Append { topic, partition, timestamp: time, key, value, headers });
            if let Some(path) = &output.follow {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let lines = batch.lines.entry(path.display().to_string()).or_default();
                push_line(lines, &record);
            }
        }
        let none = Headers::default();
        for chunk in transaction.chunks {
            batch.appends.push(Append {
                topic: &self.journal.0,
                partition: self.journal.1,
                timestamp: None,
                key: None,
                value: Some(chunk),
                headers: &none,
            });
        }
        let mut metadata = transaction.metadata;
        metadata.journal_offset = journal_offset;
        let metadata = metadata.to_string();
        let sources = self.spec.sources.iter().zip(transaction.positions).enumerate();
        for (at, (source, next)) in sources.filter(|(_, (source, _))| !source.is_broadcast) {
            let finished = self.finished(at, *next);
            let position = Position { next: *next, metadata: metadata.clone(), finished };
            batch.positions.insert(self.source_name(source), position);
        }
        cluster.commit(&mut inner, batch)?;
        Ok(journal_offset + i64::try_from(transaction.chunks.len()).unwrap_or(0))
    }
}
