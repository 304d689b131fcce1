//! Taking a checkpoint and bringing one back, over the ports: what is missing is uploaded, the
//! manifest last; what nobody needs any more is removed.
//!
//! Starts no threads and knows no store but the port: the checkpointer's thread, tests and a
//! simulator call the same functions. The rules are [`dovetail_core::checkpoint`]'s.
//!
//! Invariant: a manifest is published only when all of its files were hashed from what was frozen
//! and are in the store in their full size.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
};

use dovetail_core::{
    checkpoint::{
        CheckpointError, CheckpointFile, CheckpointId, CheckpointStore, FileHash, Frozen,
        FrozenFile, Manifest, Restoring, garbage, present, split_kept, trim_before,
    },
    epoch::{LaneId, StoredHead, codec},
    identity::Identity,
    log::LogError,
    state::StoreError,
    time::ProcessingTime,
};
use sha2::{Digest, Sha256};

const BUFFER_BYTES: usize = 128 << 10;

/// Why a checkpoint was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The checkpoint store.
    #[error(transparent)]
    Store(#[from] CheckpointError),
    /// What was frozen cannot be read.
    #[error("the frozen state: {0}")]
    Frozen(String),
    /// It took longer than it may.
    #[error(
        "the checkpoint store {store}: the upload took longer than `checkpoint.timeout` ({ms} ms)"
    )]
    Timeout {
        /// Which store.
        store: String,
        /// The limit.
        ms: i64,
    },
    /// The pipeline is stopping.
    #[error("the upload was given up: the pipeline is stopping")]
    Stopped,
}

/// Hashes of a lane's files that cannot change while its database stays open.
#[derive(Debug, Default)]
pub struct HashCache(HashMap<String, (u64, FileHash)>);

/// What an upload brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The published manifest.
    pub manifest: Manifest,
    /// Bytes that were not in the store before.
    pub new_bytes: u64,
}

/// What an upload needs beside store and frozen state.
pub struct UploadContext<'a> {
    /// The lane.
    pub lane: LaneId,
    /// The committed identity.
    pub identity: &'a Identity,
    /// What this process published before, newest first.
    pub published: &'a [Manifest],
    /// When the upload began, ms.
    pub now: ProcessingTime,
    /// Files younger than this are never collected, ms.
    pub grace: i64,
    /// Asked between two pieces of work: why to give up.
    pub give_up: &'a dyn Fn() -> Option<UploadError>,
}

/// Uploads what the store lacks and publishes the manifest, which is then read back.
///
/// # Errors
///
/// Why there is no new checkpoint; what was uploaded is used by the next try or collected later.
pub fn upload(
    store: &dyn CheckpointStore,
    frozen: &mut dyn Frozen,
    cache: &mut HashCache,
    context: &UploadContext<'_>,
) -> Result<Uploaded, UploadError> {
    let head = frozen_head(frozen)?;
    let found = frozen.files().map_err(UploadError::Frozen)?;
    let before = match context.published {
        [] => newest(store, context)?,
        [_, ..] => None,
    };
    let kept = store.files(context.lane)?;
    let known = context.published.iter().chain(&before);
    let there = present(&kept, known, context.now, context.grace);
    let mut files = Vec::with_capacity(found.len());
    let mut new_bytes = 0;
    for file in &found {
        if let Some(reason) = (context.give_up)() {
            return Err(reason);
        }
        let hash = cache.hash(frozen, file, context.give_up)?;
        let file = CheckpointFile { name: file.name.clone(), bytes: file.bytes, hash };
        if !there.contains(&(file.hash, file.bytes)) {
            let content = frozen.open(&file.name).map_err(UploadError::Frozen)?;
            put(store, &file, content, context)?;
            trace_step(context.lane, "kept");
            new_bytes += file.bytes;
        }
        files.push(file);
    }
    cache.keep(&found);
    let manifest = manifest(head, files, context);
    check_kept(store, &manifest)?;
    let manifest = publish(store, manifest)?;
    tracing::trace!(lane = context.lane.0, step = "published", new_bytes, "{STEP_DONE}");
    Ok(Uploaded { manifest, new_bytes })
}

const STEP_DONE: &str = "a step of a checkpoint is done";

/// Says which step of a checkpoint or of a restore is done.
pub(crate) fn trace_step(lane: LaneId, step: &str) {
    tracing::trace!(lane = lane.0, step, "{STEP_DONE}");
}

/// Returns the newest checkpoint of an earlier process that can be read. Whatever an older one shares
/// with the lane's state it holds too, and it is the last that another process would remove.
fn newest(
    store: &dyn CheckpointStore,
    context: &UploadContext<'_>,
) -> Result<Option<Manifest>, CheckpointError> {
    for id in store.list(context.lane)? {
        match store.manifest(id) {
            Ok(manifest) if manifest.identity == *context.identity => return Ok(Some(manifest)),
            Ok(_) | Err(CheckpointError::Corrupt { .. } | CheckpointError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Keeps a file; a failure of reading it is not the store's.
fn put(
    store: &dyn CheckpointStore,
    file: &CheckpointFile,
    content: Box<dyn Read + Send>,
    context: &UploadContext<'_>,
) -> Result<(), UploadError> {
    let mut content = Guarded { content, give_up: context.give_up, failed: None };
    let put = store.put(context.lane, file, &mut content);
    match content.failed {
        Some(error) => Err(unreadable(&file.name, &error, context.give_up)),
        None => Ok(put?),
    }
}

/// Returns why a frozen file could not be read to its end.
fn unreadable(
    name: &str,
    error: &io::Error,
    give_up: &dyn Fn() -> Option<UploadError>,
) -> UploadError {
    give_up().unwrap_or_else(|| UploadError::Frozen(format!("{name}: {error}")))
}

fn frozen_head(frozen: &mut dyn Frozen) -> Result<StoredHead, UploadError> {
    let bytes = frozen.head().map_err(UploadError::Frozen)?;
    codec::decode_stored(&bytes).map_err(|error| UploadError::Frozen(format!("its head: {error}")))
}

fn manifest(head: StoredHead, files: Vec<CheckpointFile>, context: &UploadContext<'_>) -> Manifest {
    let record = head.record;
    let previous = context.published.first().map(|newest| (newest.id.epoch, newest.id.attempt));
    Manifest {
        id: CheckpointId { lane: context.lane, epoch: record.epoch, attempt: record.attempt },
        hash: head.hash,
        journal_next: head.journal_next,
        identity: context.identity.clone(),
        sources: record.sources,
        watermark: record.watermark,
        revision: record.revision,
        created_at: context.now,
        previous,
        files,
    }
}

/// Publishes, reads back and returns what is there. A manifest of the same record that is there
/// already was published by an earlier try whose answer was lost: it counts.
fn publish(store: &dyn CheckpointStore, manifest: Manifest) -> Result<Manifest, UploadError> {
    let published = store.publish(&manifest);
    if let Err(error) = published
        && !matches!(error, CheckpointError::Exists { .. })
    {
        return Err(error.into());
    }
    let read = store.manifest(manifest.id)?;
    if read == manifest || (read.fact() == manifest.fact() && check_kept(store, &read).is_ok()) {
        return Ok(read);
    }
    let what = format!("manifest {} reads differently than it was written", manifest.id);
    Err(CheckpointError::Corrupt { store: store.place().to_owned(), what }.into())
}

/// Every file of a manifest must be in the store in its full size.
fn check_kept(store: &dyn CheckpointStore, manifest: &Manifest) -> Result<(), CheckpointError> {
    let kept: HashMap<FileHash, u64> =
        store.files(manifest.id.lane)?.into_iter().map(|file| (file.hash, file.bytes)).collect();
    for file in &manifest.files {
        let what = match kept.get(&file.hash) {
            Some(bytes) if *bytes == file.bytes => continue,
            Some(bytes) => format!("{} has {bytes} bytes, expected {}", file.name, file.bytes),
            None => format!("{} ({}) is not there", file.name, file.hash),
        };
        return Err(CheckpointError::Corrupt { store: store.place().to_owned(), what });
    }
    Ok(())
}

/// Removes what a newer checkpoint has made superfluous: manifests beyond `keep`, files that none
/// reaches, and the journal behind the second newest. Only for whoever owns the lane. A manifest of
/// another identity stays, with its files.
///
/// `published` are those of this process, newest first: only they are known to be verified.
///
/// # Errors
///
/// The first failure; the rest is done the next time.
pub fn tidy(
    store: &dyn CheckpointStore,
    lane: LaneId,
    published: &[Manifest],
    (keep, now, grace): (usize, ProcessingTime, i64),
    trim: Option<&dyn Fn(i64) -> Result<(), TidyError>>,
) -> Result<(), TidyError> {
    let Some(newest) = published.first() else { return Ok(()) };
    let Found { ids, foreign } = find(store, lane, &newest.identity)?;
    // Ahead of us there can be none but a successor's: then the lane is not ours any more.
    if ids.first().is_some_and(|id| id.epoch > newest.id.epoch) {
        return Ok(());
    }
    let (kept, gone) = split_kept(&ids, keep);
    for id in gone {
        store.remove_manifest(*id)?;
        trace_step(lane, "unlisted");
    }
    let kept: Vec<Manifest> =
        kept.iter().map(|id| store.manifest(*id)).collect::<Result<_, _>>()?;
    for hash in garbage(&store.files(lane)?, kept.iter().chain(&foreign), now, grace) {
        store.remove(lane, hash)?;
    }
    // A manifest may have got lost since it was verified.
    let there: Vec<&Manifest> =
        published.iter().filter(|manifest| ids.contains(&manifest.id)).take(2).collect();
    if let (Some(trim), Some(before)) = (trim, trim_before(there.iter().copied())) {
        for manifest in there {
            check_kept(store, manifest)?;
        }
        trim(before)?;
        trace_step(lane, "trimmed");
    }
    Ok(())
}

/// What lies among a lane's manifests.
struct Found {
    /// Ours, newest first, and what cannot be read: in a store that is claimed it was ours.
    ids: Vec<CheckpointId>,
    /// Those of another identity.
    foreign: Vec<Manifest>,
}

fn find(
    store: &dyn CheckpointStore,
    lane: LaneId,
    identity: &Identity,
) -> Result<Found, CheckpointError> {
    let mut found = Found { ids: Vec::new(), foreign: Vec::new() };
    for id in store.list(lane)? {
        match store.manifest(id) {
            Ok(manifest) if manifest.identity != *identity => found.foreign.push(manifest),
            Ok(_) | Err(CheckpointError::Corrupt { .. }) => found.ids.push(id),
            Err(CheckpointError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Why tidying ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TidyError {
    /// The checkpoint store.
    #[error(transparent)]
    Store(#[from] CheckpointError),
    /// The journal must not be trimmed now.
    #[error("the journal is not trimmed: {0}")]
    Objection(String),
    /// The journal was not trimmed.
    #[error("trimming the journal: {0}")]
    Trim(#[from] LogError),
}

/// Why a checkpoint could not be brought back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The checkpoint store.
    #[error(transparent)]
    Store(#[from] CheckpointError),
    /// The local disk.
    #[error(transparent)]
    Local(#[from] StoreError),
}

/// Writes a checkpoint's files into an empty place, comparing size and hash of each.
///
/// # Errors
///
/// When the store or the disk fails, or a file is not what the manifest says.
pub fn restore(
    store: &dyn CheckpointStore,
    manifest: &Manifest,
    mut into: Box<dyn Restoring + '_>,
    progress: &mut dyn FnMut(),
) -> Result<(), RestoreError> {
    for file in &manifest.files {
        progress();
        let mut target = Hashing::new(into.create(&file.name)?);
        let fetched = fetch(store, manifest.id.lane, file, &mut target);
        if let Some(error) = target.failed {
            let what = format!("{}: restoring it from a checkpoint: {error}", file.name);
            return Err(StoreError::Unavailable(what).into());
        }
        fetched?;
        trace_step(manifest.id.lane, "fetched");
    }
    into.finish()?;
    Ok(())
}

/// Reads every file of a checkpoint and compares size and hash.
///
/// # Errors
///
/// The first file that is missing or damaged, or the store's failure.
pub fn verify(store: &dyn CheckpointStore, manifest: &Manifest) -> Result<(), CheckpointError> {
    manifest.files.iter().try_for_each(|file| {
        fetch(store, manifest.id.lane, file, &mut Hashing::new(Box::new(io::sink())))
    })
}

fn fetch(
    store: &dyn CheckpointStore,
    lane: LaneId,
    file: &CheckpointFile,
    into: &mut Hashing<'_>,
) -> Result<(), CheckpointError> {
    store.get(lane, file.hash, into)?;
    let (hash, bytes) = (FileHash(into.hash.finalize_reset().into()), into.bytes);
    if (hash, bytes) == (file.hash, file.bytes) {
        return Ok(());
    }
    Err(CheckpointError::Corrupt {
        store: store.place().to_owned(),
        what: format!(
            "{} of lane {}: expected {} bytes with hash {}, found {bytes} with {hash}",
            file.name, lane.0, file.bytes, file.hash
        ),
    })
}

impl HashCache {
    fn hash(
        &mut self,
        frozen: &mut dyn Frozen,
        file: &FrozenFile,
        give_up: &dyn Fn() -> Option<UploadError>,
    ) -> Result<FileHash, UploadError> {
        if let Some((bytes, hash)) = self.0.get(&file.name)
            && *bytes == file.bytes
        {
            return Ok(*hash);
        }
        let content = frozen.open(&file.name).map_err(UploadError::Frozen)?;
        let mut content = Guarded { content, give_up, failed: None };
        let mut hash = Sha256::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => hash.update(&buffer[..read]),
                Err(error) => return Err(unreadable(&file.name, &error, give_up)),
            }
        }
        let hash = FileHash(hash.finalize().into());
        if file.is_immutable {
            self.0.insert(file.name.clone(), (file.bytes, hash));
        }
        Ok(hash)
    }

    /// Forgets files that are gone.
    fn keep(&mut self, found: &[FrozenFile]) {
        self.0.retain(|name, _| found.iter().any(|file| file.name == *name));
    }
}

/// Stops to be readable when the work is given up.
struct Guarded<'a> {
    content: Box<dyn Read + Send>,
    give_up: &'a dyn Fn() -> Option<UploadError>,
    /// Why the reader, not whoever reads, has failed.
    failed: Option<io::Error>,
}

impl Read for Guarded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match (self.give_up)() {
            Some(reason) => Err(io::Error::other(reason.to_string())),
            None => self.content.read(buffer),
        };
        read.map_err(|error| note(error, &mut self.failed))
    }
}

/// Notes an error that whoever reads or writes through us takes for its own.
fn note(error: io::Error, failed: &mut Option<io::Error>) -> io::Error {
    let (kind, told) = (error.kind(), error.to_string());
    if kind != io::ErrorKind::Interrupted {
        *failed = Some(error);
    }
    io::Error::new(kind, told)
}

struct Hashing<'a> {
    inner: Box<dyn Write + 'a>,
    hash: Sha256,
    bytes: u64,
    /// Why the writer, not whoever writes, has failed.
    failed: Option<io::Error>,
}

impl<'a> Hashing<'a> {
    fn new(inner: Box<dyn Write + 'a>) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0, failed: None }
    }
}

impl Write for Hashing<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer);
        let written = written.map_err(|error| note(error, &mut self.failed))?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
