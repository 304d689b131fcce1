//! Checkpoints: a lane's applied state at an epoch, kept in a store outside of this machine's state
//! directory, so that the loss of the local disk costs a restore.
//!
//! Here are the port to that store and the pure rules: which checkpoints stay, how far the journal
//! may be trimmed, which files may be collected. Which one may be restored is
//! [`crate::recovery::decide`]'s. Knows neither how a manifest is written nor where files lie.
//!
//! Invariants:
//! - A file is named by the hash of its content, and a manifest by its epoch and attempt: nothing
//!   is ever replaced by something else.
//! - A manifest is published after all of its files, so what a manifest names is there.
//! - Only applied epochs are frozen, so every manifest is of a committed epoch.

pub mod memory;

use std::{
    collections::BTreeSet,
    fmt,
    io::{Read, Write},
    str::FromStr,
};

use crate::{
    epoch::{Attempt, Epoch, LaneId, SourceState},
    identity::Identity,
    recovery::CheckpointFact,
    state::StoreError,
    time::{EventTime, ProcessingTime},
};

pub use self::memory::MemoryCheckpoints;

/// The SHA-256 of a file's content: its name in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHash(pub [u8; 32]);

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is no hash or checkpoint name of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} was not written by this kind of host")]
pub struct ForeignName(pub String);

impl FromStr for FileHash {
    type Err = ForeignName;

    fn from_str(text: &str) -> Result<Self, ForeignName> {
        let foreign = || ForeignName(text.to_owned());
        let is_ours = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 64 || !text.bytes().all(is_ours) {
            return Err(foreign());
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_not_text| foreign())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_not_hex| foreign())?;
        }
        Ok(Self(hash))
    }
}

/// The name of a checkpoint within its lane: `<epoch, 20 digits>-<attempt, 32 hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CheckpointId {
    /// The lane.
    pub lane: LaneId,
    /// The epoch whose end it holds.
    pub epoch: Epoch,
    /// Who wrote that epoch.
    pub attempt: Attempt,
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:032x}", self.epoch.0, self.attempt.0)
    }
}

impl CheckpointId {
    /// Reads a name; the lane is said by where it lies.
    ///
    /// # Errors
    ///
    /// When it is not exactly what [`Self`]'s `Display` writes.
    pub fn parse(lane: LaneId, name: &str) -> Result<Self, ForeignName> {
        let read = || {
            let (epoch, attempt) = name.split_once('-')?;
            let epoch = Epoch(epoch.parse().ok()?);
            let attempt = Attempt(u128::from_str_radix(attempt, 16).ok()?);
            Some(Self { lane, epoch, attempt })
        };
        read().filter(|id| id.to_string() == name).ok_or_else(|| ForeignName(name.to_owned()))
    }
}

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFile {
    /// Its name in the database's folder.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it holds.
    pub hash: FileHash,
}

/// What a checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub id: CheckpointId,
    /// The hash of the epoch record: what must be on the journal's chain.
    pub hash: u64,
    /// The journal offset behind that record: where replay goes on.
    pub journal_next: i64,
    /// The pipeline's identity: a trimmed journal has lost its genesis record.
    pub identity: Identity,
    /// Where the sources stood.
    pub sources: Vec<SourceState>,
    /// The lane's watermark.
    pub watermark: EventTime,
    /// The plugin revision that decided the epoch.
    pub revision: String,
    /// When it was frozen, ms.
    pub created_at: ProcessingTime,
    /// The manifest that this process published before.
    pub previous: Option<(Epoch, Attempt)>,
    /// Its files, by name.
    pub files: Vec<CheckpointFile>,
}

impl Manifest {
    /// Returns the size of all of its files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns what the decision needs of it.
    #[must_use]
    pub fn fact(&self) -> CheckpointFact {
        CheckpointFact { epoch: self.id.epoch, attempt: self.id.attempt, hash: self.hash }
    }
}

/// A file as it lies in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptFile {
    /// Its name.
    pub hash: FileHash,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written, ms, by the store's clock.
    pub written_at: ProcessingTime,
}

/// Why a checkpoint store could not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It cannot be reached, is full, refuses or is too slow; the outcome of a write is unknown.
    #[error("the checkpoint store {store}: {message}")]
    Unavailable {
        /// Which store.
        store: String,
        /// What it was asked for and what it answered.
        message: String,
    },
    /// There is no such manifest or file.
    #[error("the checkpoint store {store} has no {what}")]
    Missing {
        /// Which store.
        store: String,
        /// What is not there.
        what: String,
    },
    /// What is there is not what it must be.
    #[error("the checkpoint store {store} holds damage: {what}")]
    Corrupt {
        /// Which store.
        store: String,
        /// What was expected, and found.
        what: String,
    },
    /// It is another pipeline's.
    #[error(
        "the checkpoint store {store} belongs to {found}, not to {expected}: set \
         `checkpoint.store` to another folder; or, if {found} is not needed any more, remove this one"
    )]
    Foreign {
        /// Which store.
        store: String,
        /// Whose it is.
        found: String,
        /// Who wants to use it.
        expected: String,
    },
    /// Under that name lies something else.
    #[error("the checkpoint store {store} already has another {what}")]
    Exists {
        /// Which store.
        store: String,
        /// Which name.
        what: String,
    },
}

/// The checkpoint store port: manifests and files of every lane of one pipeline.
///
/// Invariant: a call that returned an error may have done all, some or nothing of what it was asked
/// for; doing it again is always right.
pub trait CheckpointStore: Send + Sync {
    /// Returns where it is, for messages.
    fn place(&self) -> &str;

    /// Returns the checkpoints of a lane, newest epoch first; foreign names are left out.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    fn list(&self, lane: LaneId) -> Result<Vec<CheckpointId>, CheckpointError>;

    /// Returns a manifest.
    ///
    /// # Errors
    ///
    /// `Missing`; `Corrupt` when it cannot be understood or is of another name.
    fn manifest(&self, id: CheckpointId) -> Result<Manifest, CheckpointError>;

    /// Publishes a manifest: created, never replaced. One that is there already and equal is
    /// success, because an earlier try may have reached the store.
    ///
    /// # Errors
    ///
    /// `Exists` when another one lies under its name.
    fn publish(&self, manifest: &Manifest) -> Result<(), CheckpointError>;

    /// Takes a manifest away. One that is not there is success.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    fn remove_manifest(&self, id: CheckpointId) -> Result<(), CheckpointError>;

    /// Returns the files of a lane, by hash.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    fn files(&self, lane: LaneId) -> Result<Vec<KeptFile>, CheckpointError>;

    /// Keeps a file under its hash, as a whole or not at all, durably. One that is there is written
    /// again, which makes it young.
    ///
    /// # Errors
    ///
    /// When content cannot be read to its end, or the store does not take it.
    fn put(
        &self,
        lane: LaneId,
        file: &CheckpointFile,
        content: &mut dyn Read,
    ) -> Result<(), CheckpointError>;

    /// Writes a file's content into `into`. Whoever asks compares the hash.
    ///
    /// # Errors
    ///
    /// `Missing`, or when `into` fails.
    fn get(
        &self,
        lane: LaneId,
        hash: FileHash,
        into: &mut dyn Write,
    ) -> Result<(), CheckpointError>;

    /// Takes a file away. One that is not there is success.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    fn remove(&self, lane: LaneId, hash: FileHash) -> Result<(), CheckpointError>;
}

/// The applied state of a store at one epoch, frozen in files; dropping it removes them.
pub trait Frozen: Send {
    /// Returns the head of the epoch whose end it holds, as it was given to `apply`.
    ///
    /// # Errors
    ///
    /// Why the files cannot be read, in words.
    fn head(&mut self) -> Result<bytes::Bytes, String>;

    /// Returns names and sizes of the files, by name.
    ///
    /// # Errors
    ///
    /// Why the files cannot be read, in words.
    fn files(&mut self) -> Result<Vec<FrozenFile>, String>;

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, in words.
    fn open(&mut self, name: &str) -> Result<Box<dyn Read + Send>, String>;
}

/// A place that is being filled with the files of a checkpoint; dropping it unfinished leaves
/// nothing behind.
pub trait Restoring {
    /// Makes a file. Names come from manifests: one that could leave the place is refused.
    ///
    /// # Errors
    ///
    /// When the disk fails or the name is none of a database's.
    fn create<'a>(&'a mut self, name: &str) -> Result<Box<dyn Write + 'a>, StoreError>;

    /// Puts the files in the place of the lane's state, which must be closed and empty.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// A file of frozen state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether a file of this name never changes while the database stays open, so that its hash
    /// needs to be found once.
    pub is_immutable: bool,
}

/// Splits a lane's published checkpoints, newest first, into those that stay and those whose
/// manifests may go: the newest `keep`, but never fewer than two.
///
/// A pipeline that restores the newest one and finds it damaged has another one to go back to.
#[must_use]
pub fn split_kept<T>(published: &[T], keep: usize) -> (&[T], &[T]) {
    published.split_at(keep.max(2).min(published.len()))
}

/// Returns the journal offset before which nothing is needed any more: what lies behind the second
/// newest verified checkpoint stays, so that either of two can be restored.
#[must_use]
pub fn trim_before<'a>(verified: impl IntoIterator<Item = &'a Manifest>) -> Option<i64> {
    let mut newest: Vec<(Epoch, i64)> =
        verified.into_iter().map(|manifest| (manifest.id.epoch, manifest.journal_next)).collect();
    newest.sort_unstable();
    // The same epoch twice is one checkpoint.
    newest.dedup_by_key(|(epoch, _)| *epoch);
    newest.iter().rev().nth(1).map(|(_, journal_next)| *journal_next)
}

/// Returns the files that may be collected: reachable from none of the manifests that are there,
/// and written longer than `grace` ms ago, so that no upload in progress, of whoever, is counting
/// on them.
#[must_use]
pub fn garbage<'a>(
    kept: &[KeptFile],
    manifests: impl IntoIterator<Item = &'a Manifest>,
    now: ProcessingTime,
    grace: i64,
) -> Vec<FileHash> {
    let reachable = reachable(manifests);
    kept.iter()
        .filter(|file| {
            !reachable.contains(&file.hash) && now.saturating_sub(file.written_at) > grace
        })
        .map(|file| file.hash)
        .collect()
}

/// Returns the hashes that an upload need not bring: there in full, and either reachable from a
/// manifest or so young that nobody collects them before the upload's own manifest is published.
#[must_use]
pub fn present<'a>(
    kept: &[KeptFile],
    manifests: impl IntoIterator<Item = &'a Manifest>,
    now: ProcessingTime,
    grace: i64,
) -> BTreeSet<(FileHash, u64)> {
    let reachable = reachable(manifests);
    kept.iter()
        .filter(|file| {
            let age = now.saturating_sub(file.written_at);
            reachable.contains(&file.hash) || age <= grace / 2
        })
        .map(|file| (file.hash, file.bytes))
        .collect()
}

fn reachable<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> BTreeSet<FileHash> {
    manifests.into_iter().flat_map(|manifest| &manifest.files).map(|file| file.hash).collect()
}

#[cfg(test)]
mod tests;
