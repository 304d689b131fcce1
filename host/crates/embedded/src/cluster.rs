//! The directory: its lock, its topics, and the one way to commit.
//!
//! Invariant: what is in memory as committed is in the commit file; a failure that leaves that in
//! doubt stops the cluster, and opening the directory again settles it.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use dovetail_core::{
    epoch::LaneId,
    key::murmur2_partition,
    record::{Headers, Partition, Record},
};

use crate::{
    commits::{self, Changes, Committed, Extent, Lines, PartitionName, Position, SourceName},
    directory::{
        Lock, check_not_foreign, check_topic_name, cluster_id_bytes, commits_path, create_commits,
        lock, partition_path, recover_follow, recover_partition, replace_commits, write_lines,
    },
    error::{During as _, EmbeddedError},
    format::{PARTITION_HEADER, push_frame, write_record},
    reader::{PartitionReader, header_bytes},
    signal::Signal,
    sync,
};

/// The commit file is written anew when it is longer than this, in bytes.
const COMMITS_BYTES_MAX: u64 = 16 << 20;

/// At a start it is written anew when it is longer than this, in bytes, or empty.
const COMMITS_BYTES_AT_START: u64 = 64 << 10;

/// A directory with topics, open in this process. All lanes of it share one.
#[derive(Debug)]
pub struct EmbeddedCluster {
    dir: PathBuf,
    sync: bool,
    cluster_id: String,
    inner: Mutex<Inner>,
    /// Locked for as long as it is open.
    _lock: Lock,
}

#[derive(Debug)]
pub(crate) struct Inner {
    committed: Committed,
    commits: File,
    commits_length: u64,
    attempts: BTreeMap<(String, LaneId), u64>,
    signals: Vec<Weak<Signal>>,
    broken: Option<String>,
    files: BTreeMap<PartitionName, File>,
}

/// A record to be appended by [`EmbeddedCluster::append`].
#[derive(Debug, Clone, Default)]
pub struct NewRecord {
    /// The partition; `None`: by the key, as Kafka's Java clients do, and 0 without key.
    pub partition: Option<Partition>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// The headers.
    pub headers: Headers,
    /// The timestamp in ms.
    pub timestamp: Option<i64>,
}

/// A record to be appended, borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Append<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: u16,
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a Headers,
}

/// What one transaction is made of.
#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    pub(crate) appends: Vec<Append<'a>>,
    /// Lines by the absolute path of the followed file.
    pub(crate) lines: BTreeMap<String, Vec<u8>>,
    pub(crate) positions: BTreeMap<SourceName, Position>,
}

impl EmbeddedCluster {
    /// Opens a directory, making it where it is not there, and cuts off what was never committed.
    /// With `sync` every commit is on the disk before it counts; without, it survives the death of
    /// the process but not a power cut.
    ///
    /// # Errors
    ///
    /// When another process has the directory, it holds something else, it cannot be written, or
    /// its files are damaged.
    pub fn open(dir: &Path, sync: bool) -> Result<Arc<Self>, EmbeddedError> {
        check_not_foreign(dir)?;
        fs::create_dir_all(dir.join("topics")).during("create", dir)?;
        if sync && let Some(parent) = dir.parent() {
            sync::names(parent)?;
        }
        let lock = lock(dir)?;
        let path = commits_path(dir);
        if !path.exists() {
            create_commits(dir)?;
        }
        let mut file = Vec::new();
        let mut commits =
            OpenOptions::new().read(true).write(true).open(&path).during("open", &path)?;
        commits.read_to_end(&mut file).during("read", &path)?;
        let mut replayed = commits::replay(&path, &file.into())?;
        commits.set_len(bytes64(replayed.length)).during("cut", &path)?;
        let mut files = BTreeMap::new();
        for (name, extent) in &replayed.committed.partitions {
            files.insert(name.clone(), recover_partition(dir, name, *extent)?);
        }
        for (path, end) in &mut replayed.committed.follows {
            let lines = replayed.lines.get(path).map_or(&[][..], Vec::as_slice);
            *end = recover_follow(Path::new(path), *end, lines)?;
        }
        let mut inner = Inner {
            committed: replayed.committed,
            commits,
            commits_length: bytes64(replayed.length),
            attempts: BTreeMap::new(),
            signals: Vec::new(),
            broken: None,
            files,
        };
        let is_new = replayed.length == commits::COMMITS_START;
        if is_new || inner.commits_length > COMMITS_BYTES_AT_START {
            inner.compact(dir, replayed.cluster_id)?;
        }
        Ok(Arc::new(Self {
            dir: dir.to_owned(),
            sync,
            cluster_id: hex(replayed.cluster_id),
            inner: Mutex::new(inner),
            _lock: lock,
        }))
    }

    /// Returns the id drawn when the directory was made: 32 hexadecimal digits.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the topics and how many partitions each has.
    #[must_use]
    pub fn topics(&self) -> BTreeMap<String, u16> {
        topics_of(&self.lock().committed)
    }

    /// Returns how many partitions a topic has; `None` where there is no such topic.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Option<u16> {
        let count = self.lock().committed.partition_count(topic);
        (count > 0).then_some(count)
    }

    /// Makes a topic where there is none of that name; returns how many partitions it has, which
    /// may not be what was asked for.
    ///
    /// # Errors
    ///
    /// When the name is not one that Kafka would take, or the disk refuses.
    pub fn ensure_topic(&self, topic: &str, partitions: u16) -> Result<u16, EmbeddedError> {
        check_topic_name(topic)?;
        if partitions == 0 {
            return Err(EmbeddedError::Config(format!("topic {topic}: at least one partition")));
        }
        let mut inner = self.lock();
        let present = inner.committed.partition_count(topic);
        if present > 0 {
            return Ok(present);
        }
        let folder = self.dir.join("topics").join(topic);
        fs::create_dir_all(&folder).during("create", &folder)?;
        let mut changes = Changes::default();
        for partition in 0..partitions {
            let name = (topic.to_owned(), partition);
            let path = partition_path(&self.dir, &name);
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .during("create", &path)?;
            file.write_all(&PARTITION_HEADER).during("write", &path)?;
            self.sync_file(&file, &path)?;
            inner.files.insert(name.clone(), file);
            changes.partitions.insert(name, Extent { length: header_bytes(), records: 0 });
        }
        if self.sync {
            sync::names(&folder)?;
            sync::names(&self.dir.join("topics"))?;
        }
        self.commit_changes(&mut inner, changes)?;
        Ok(partitions)
    }

    /// Appends records to a topic, all or none.
    ///
    /// # Errors
    ///
    /// When there is no such topic or partition, or the disk refuses.
    pub fn append(&self, topic: &str, records: &[NewRecord]) -> Result<(), EmbeddedError> {
        let mut inner = self.lock();
        let count = inner.committed.partition_count(topic);
        let mut batch = Batch::default();
        for record in records {
            let partition = match record.partition {
                Some(partition) => partition.0,
                None => partition_of(record.key.as_deref(), count),
            };
            batch.appends.push(Append {
                topic,
                partition,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &record.headers,
            });
        }
        self.commit(&mut inner, batch)
    }

    /// Returns the committed records of a topic, by partition, then offset.
    ///
    /// # Errors
    ///
    /// When there is no such topic, or its files are damaged.
    pub fn read_topic(&self, topic: &str) -> Result<Vec<(Partition, Record)>, EmbeddedError> {
        let committed = self.lock().committed.clone();
        records_of(&self.dir, &committed, topic)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open_reader(
        &self,
        name: &PartitionName,
        offset: u64,
    ) -> Result<PartitionReader, EmbeddedError> {
        let extent = self.lock().extent(name)?;
        PartitionReader::open(&partition_path(&self.dir, name), extent, offset)
    }

    /// Commits a batch: the records, then the commit, then the lines.
    pub(crate) fn commit(&self, inner: &mut Inner, batch: Batch<'_>) -> Result<(), EmbeddedError> {
        inner.check()?;
        let mut changes = Changes { positions: batch.positions, ..Changes::default() };
        let mut written: BTreeMap<PartitionName, Vec<u8>> = BTreeMap::new();
        for append in &batch.appends {
            let name = (append.topic.to_owned(), append.partition);
            let extent = match changes.partitions.get(&name) {
                Some(extent) => *extent,
                None => inner.extent(&name)?,
            };
            let bytes = written.entry(name.clone()).or_default();
            let before = bytes.len();
            let Append { timestamp, key, value, headers, .. } = *append;
            push_frame(bytes, |writer| {
                write_record(writer, extent.records, timestamp, key, value, headers);
            })
            .map_err(|error| EmbeddedError::Config(format!("{}: {error}", append.topic)))?;
            let length = extent.length + bytes64(bytes.len() - before);
            changes.partitions.insert(name, Extent { length, records: extent.records + 1 });
        }
        for (name, bytes) in &written {
            let path = partition_path(&self.dir, name);
            let at = inner.extent(name)?.length;
            let Some(file) = inner.files.get(name) else {
                return Err(EmbeddedError::corrupt(&path, "a committed partition without file"));
            };
            file.write_all_at(bytes, at).during("write", &path)?;
            self.sync_file(file, &path)?;
        }
        for (path, bytes) in batch.lines {
            let start = match inner.committed.follows.get(&path) {
                Some(end) => *end,
                // What somebody else has put there stays.
                None => fs::metadata(&path).map_or(0, |file| file.len()),
            };
            changes.follows.insert(path, Lines { start, bytes: bytes.into() });
        }
        self.commit_changes(inner, changes)
    }

    pub(crate) fn commit_changes(
        &self,
        inner: &mut Inner,
        changes: Changes,
    ) -> Result<(), EmbeddedError> {
        inner.check()?;
        let path = commits_path(&self.dir);
        let mut frame = Vec::new();
        commits::push_transaction(&mut frame, &changes)
            .map_err(|error| EmbeddedError::Config(format!("a commit is too large: {error}")))?;
        let at = inner.commits_length;
        let written = inner
            .commits
            .write_all_at(&frame, at)
            .during("write", &path)
            .and_then(|()| self.sync_file(&inner.commits, &path));
        if let Err(error) = written {
            // Whether it counts must not depend on luck: take it back, or stop.
            if inner.commits.set_len(at).is_err() || self.sync {
                inner.broken = Some(error.to_string());
            }
            return Err(error);
        }
        inner.commits_length += bytes64(frame.len());
        let follows = changes.follows.clone();
        inner.committed.apply(changes);
        for (path, lines) in &follows {
            // The commit stands; the next start repairs the file.
            if let Err(error) = write_lines(Path::new(path), lines) {
                inner.broken = Some(error.to_string());
                return Err(error);
            }
        }
        inner.wake();
        if inner.commits_length > COMMITS_BYTES_MAX {
            let id = cluster_id_bytes(&inner.commits).during("read", &path)?;
            if let Err(error) = inner.compact(&self.dir, id) {
                inner.broken = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    fn sync_file(&self, file: &File, path: &Path) -> Result<(), EmbeddedError> {
        if self.sync { sync::bytes(file, path) } else { Ok(()) }
    }
}

impl Inner {
    pub(crate) fn committed(&self) -> &Committed {
        &self.committed
    }

    pub(crate) fn check(&self) -> Result<(), EmbeddedError> {
        match &self.broken {
            Some(why) => Err(EmbeddedError::Broken(why.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn extent(&self, name: &PartitionName) -> Result<Extent, EmbeddedError> {
        let (topic, partition) = name;
        self.committed.partitions.get(name).copied().ok_or_else(|| {
            EmbeddedError::Config(match self.committed.partition_count(topic) {
                0 => format!("there is no topic {topic}"),
                count => format!("topic {topic} has {count} partitions, there is no {partition}"),
            })
        })
    }

    /// Begins a new attempt of a lane: every earlier one is fenced.
    pub(crate) fn begin_attempt(&mut self, pipeline: &str, lane: LaneId) -> u64 {
        let attempt = self.attempts.entry((pipeline.to_owned(), lane)).or_insert(0);
        *attempt += 1;
        *attempt
    }

    pub(crate) fn attempt(&self, pipeline: &str, lane: LaneId) -> u64 {
        self.attempts.get(&(pipeline.to_owned(), lane)).copied().unwrap_or(0)
    }

    pub(crate) fn register(&mut self, signal: &Arc<Signal>) {
        self.signals.retain(|signal| signal.strong_count() > 0);
        self.signals.push(Arc::downgrade(signal));
    }

    fn wake(&self) {
        for signal in self.signals.iter().filter_map(Weak::upgrade) {
            signal.raise();
        }
    }

    /// Writes the commit file anew, as one snapshot.
    fn compact(&mut self, dir: &Path, cluster_id: [u8; 16]) -> Result<(), EmbeddedError> {
        // The lines are gone from the commit file afterwards.
        for path in self.committed.follows.keys() {
            match File::open(path) {
                Ok(file) => sync::bytes(&file, Path::new(path))?,
                Err(error) => tracing::warn!(path, %error, "a followed file is gone"),
            }
        }
        let mut bytes = commits::start(cluster_id);
        self.committed.push_snapshot(&mut bytes).map_err(|error| {
            EmbeddedError::Config(format!("what is committed does not fit in a file: {error}"))
        })?;
        self.commits = replace_commits(dir, &bytes)?;
        self.commits_length = bytes64(bytes.len());
        Ok(())
    }
}

/// Returns the partition of an output record: by its key as Kafka's Java clients do, 0 without.
pub(crate) fn partition_of(key: Option<&[u8]>, partitions: u16) -> u16 {
    match key {
        Some(key) if partitions > 0 => murmur2_partition(key, partitions),
        _ => 0,
    }
}

/// Returns the committed records of a topic of a directory that may be open elsewhere.
///
/// # Errors
///
/// As [`EmbeddedCluster::read_topic`].
pub fn read_topic(dir: &Path, topic: &str) -> Result<Vec<(Partition, Record)>, EmbeddedError> {
    records_of(dir, &committed_in(dir)?, topic)
}

/// Returns the topics of a directory that may be open elsewhere, and how many partitions each has.
///
/// # Errors
///
/// When it is not the directory of an embedded log.
pub fn topics(dir: &Path) -> Result<BTreeMap<String, u16>, EmbeddedError> {
    Ok(topics_of(&committed_in(dir)?))
}

fn committed_in(dir: &Path) -> Result<Committed, EmbeddedError> {
    let path = commits_path(dir);
    let file = fs::read(&path).during("read", &path)?;
    Ok(commits::replay(&path, &file.into())?.committed)
}

fn topics_of(committed: &Committed) -> BTreeMap<String, u16> {
    let mut topics = BTreeMap::new();
    for (topic, _) in committed.partitions.keys() {
        *topics.entry(topic.clone()).or_insert(0) += 1;
    }
    topics
}

fn records_of(
    dir: &Path,
    committed: &Committed,
    topic: &str,
) -> Result<Vec<(Partition, Record)>, EmbeddedError> {
    let count = committed.partition_count(topic);
    if count == 0 {
        return Err(EmbeddedError::Config(format!("there is no topic {topic}")));
    }
    let mut records = Vec::new();
    for partition in 0..count {
        let name = (topic.to_owned(), partition);
        let Some(extent) = committed.partitions.get(&name) else { continue };
        let mut reader = PartitionReader::open(&partition_path(dir, &name), *extent, 0)?;
        loop {
            let some = reader.read(*extent)?;
            if some.is_empty() {
                break;
            }
            records.extend(some.into_iter().map(|record| (Partition(partition), record)));
        }
    }
    Ok(records)
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes64(length: usize) -> u64 {
    u64::try_from(length).expect("lengths fit in 64 bits")
}
