//! What is committed, and the commit file that says it.
//!
//! Invariant: [`Committed`] is what the frames of the commit file add up to.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use dovetail_core::wire::{Reader, WireError, Writer};

use crate::{
    error::EmbeddedError,
    format::{COMMITS_HEADER, Frame, front_frame, push_frame},
};

/// Bytes of the commit file before its first frame.
pub(crate) const COMMITS_START: usize = COMMITS_HEADER.len() + 16;

const SNAPSHOT: u8 = 0;
const TRANSACTION: u8 = 1;

/// A partition of a topic.
pub(crate) type PartitionName = (String, u16);

/// A source of a group: group, topic or file, partition.
pub(crate) type SourceName = (String, String, u16);

/// How much of a partition file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes, the header included.
    pub(crate) length: u64,
    /// Records; the offset of the next one.
    pub(crate) records: u64,
}

/// Lines of a followed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Where they begin in the file.
    pub(crate) start: u64,
    /// The lines, each with its end.
    pub(crate) bytes: Bytes,
}

impl Lines {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::try_from(self.bytes.len()).unwrap_or(u64::MAX / 2)
    }
}

/// Where a group stands in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The next offset.
    pub(crate) next: i64,
    /// The string beside it.
    pub(crate) metadata: String,
    /// The size of a file that was read to its end.
    pub(crate) finished: Option<i64>,
}

/// What one transaction changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) partitions: BTreeMap<PartitionName, Extent>,
    pub(crate) follows: BTreeMap<String, Lines>,
    pub(crate) positions: BTreeMap<SourceName, Position>,
}

/// What all transactions add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) partitions: BTreeMap<PartitionName, Extent>,
    /// Followed files and the end of their committed lines.
    pub(crate) follows: BTreeMap<String, u64>,
    pub(crate) positions: BTreeMap<SourceName, Position>,
}

impl Committed {
    /// Adds a transaction.
    pub(crate) fn apply(&mut self, changes: Changes) {
        self.partitions.extend(changes.partitions);
        self.follows
            .extend(changes.follows.iter().map(|(path, lines)| (path.clone(), lines.end())));
        self.positions.extend(changes.positions);
    }

    /// Returns how many partitions a topic has; 0 where there is no such topic.
    pub(crate) fn partition_count(&self, topic: &str) -> u16 {
        let all = (topic.to_owned(), 0)..=(topic.to_owned(), u16::MAX);
        u16::try_from(self.partitions.range(all).count()).unwrap_or(u16::MAX)
    }

    /// Appends the frame that says all of it.
    pub(crate) fn push_snapshot(&self, to: &mut Vec<u8>) -> Result<(), WireError> {
        let follows = self
            .follows
            .iter()
            .map(|(path, end)| (path.clone(), Lines { start: *end, bytes: Bytes::new() }));
        let all = Changes {
            partitions: self.partitions.clone(),
            follows: follows.collect(),
            positions: self.positions.clone(),
        };
        push_frame(to, |writer| write(writer, SNAPSHOT, &all))
    }
}

/// Appends the frame of a transaction.
pub(crate) fn push_transaction(to: &mut Vec<u8>, changes: &Changes) -> Result<(), WireError> {
    push_frame(to, |writer| write(writer, TRANSACTION, changes))
}

/// Returns the beginning of a commit file.
pub(crate) fn start(cluster_id: [u8; 16]) -> Vec<u8> {
    let mut bytes = COMMITS_HEADER.to_vec();
    bytes.extend_from_slice(&cluster_id);
    bytes
}

/// A commit file as it was found.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) cluster_id: [u8; 16],
    pub(crate) committed: Committed,
    /// Lines of followed files since the last snapshot, oldest first.
    pub(crate) lines: BTreeMap<String, Vec<Lines>>,
    /// Bytes that count; what follows never happened.
    pub(crate) length: usize,
}

/// Reads a commit file.
///
/// # Errors
///
/// When it is not a commit file of this format, or damaged before its last frame.
pub(crate) fn replay(path: &Path, file: &Bytes) -> Result<Replayed, EmbeddedError> {
    let head: Option<&[u8; COMMITS_START]> = file.first_chunk();
    let Some((&COMMITS_HEADER, id)) = head.and_then(|head| head.split_first_chunk()) else {
        return Err(EmbeddedError::corrupt(
            path,
            "expected a commit file of format 1; was it written by a newer version?",
        ));
    };
    let mut cluster_id = [0; 16];
    cluster_id.copy_from_slice(id);
    let mut replayed = Replayed {
        cluster_id,
        committed: Committed::default(),
        lines: BTreeMap::new(),
        length: COMMITS_START,
    };
    loop {
        let rest = file.slice(replayed.length..);
        match front_frame(&rest) {
            Frame::Body(body) if !body.is_empty() => {
                let whole = body.len() + crate::format::FRAME_HEADER_BYTES;
                let at = u64::try_from(replayed.length).unwrap_or(u64::MAX);
                let (kind, changes) =
                    read(body).map_err(|error| EmbeddedError::wire(path, at, error))?;
                replayed.take(kind, changes);
                replayed.length += whole;
            }
            // The end, or a commit that was cut off, with nothing behind it.
            Frame::Body(_) | Frame::Bad(_) | Frame::Needs(_) => {
                let Some(next) = next_commit(&rest) else { return Ok(replayed) };
                return Err(EmbeddedError::corrupt(
                    path,
                    format!(
                        "the commit at byte {} is damaged, and another follows it at byte {}; \
                         restore the directory from a copy, or remove it and run again from the \
                         start",
                        replayed.length,
                        replayed.length + next
                    ),
                ));
            }
        }
    }
}

/// Returns where the next whole commit begins behind one that cannot be read. A commit is written
/// when the one before it is whole, so it proves damage; its length may be what is damaged, so
/// every place is looked at.
fn next_commit(rest: &Bytes) -> Option<usize> {
    let is_commit = |at: &usize| match front_frame(&rest.slice(*at..)) {
        Frame::Body(body) => !body.is_empty() && read(body).is_ok(),
        Frame::Bad(_) | Frame::Needs(_) => false,
    };
    (1..rest.len()).find(is_commit)
}

impl Replayed {
    fn take(&mut self, kind: u8, changes: Changes) {
        if kind == SNAPSHOT {
            self.committed = Committed::default();
            self.lines.clear();
        }
        for (path, lines) in &changes.follows {
            self.lines.entry(path.clone()).or_default().push(lines.clone());
        }
        self.committed.apply(changes);
    }
}

fn write(writer: &mut Writer, kind: u8, changes: &Changes) {
    writer.u8(kind);
    writer.len(changes.partitions.len());
    for ((topic, partition), extent) in &changes.partitions {
        writer.bytes(topic.as_bytes());
        writer.u64((*partition).into());
        writer.u64(extent.length);
        writer.u64(extent.records);
    }
    writer.len(changes.follows.len());
    for (path, lines) in &changes.follows {
        writer.bytes(path.as_bytes());
        writer.u64(lines.start);
        writer.bytes(&lines.bytes);
    }
    writer.len(changes.positions.len());
    for ((group, source, partition), position) in &changes.positions {
        writer.bytes(group.as_bytes());
        writer.bytes(source.as_bytes());
        writer.u64((*partition).into());
        writer.i64(position.next);
        writer.bytes(position.metadata.as_bytes());
        writer.optional_i64(position.finished);
    }
}

fn read(body: Bytes) -> Result<(u8, Changes), WireError> {
    let mut reader = Reader(body);
    let kind = reader.u8("a commit's kind")?;
    if kind > TRANSACTION {
        return Err(WireError("a commit's kind: this host knows 0 and 1"));
    }
    let mut changes = Changes::default();
    for _ in 0..reader.count("a commit's partitions")? {
        let name = (reader.text("a topic")?, reader.u16("a partition")?);
        let extent =
            Extent { length: reader.u64("a length")?, records: reader.u64("a record count")? };
        changes.partitions.insert(name, extent);
    }
    for _ in 0..reader.count("a commit's followed files")? {
        let path = reader.text("a path")?;
        let lines =
            Lines { start: reader.u64("where lines begin")?, bytes: reader.bytes("lines")? };
        changes.follows.insert(path, lines);
    }
    for _ in 0..reader.count("a commit's positions")? {
        let name = (reader.text("a group")?, reader.text("a source")?, reader.u16("a partition")?);
        let position = Position {
            next: reader.i64("a position")?,
            metadata: reader.text("metadata")?,
            finished: reader.optional_i64("the size of a finished file")?,
        };
        changes.positions.insert(name, position);
    }
    Ok((kind, changes))
}
