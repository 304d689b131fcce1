//! Core's checkpoint store port over `object_store`: a folder now, a bucket by the same calls.
//!
//! ```text
//! owner.json                                                      whose they are, created once
//! checkpoints/<lane>/<epoch, 20 digits>-<attempt, 32 hex>.json    manifests, created once
//! files/<lane>/<sha256, 64 hex>                                   files, named by content
//! ```
//!
//! Calls wait on an event loop of their own, each no longer than the timeout; a call that hangs is
//! left behind.
//!
//! Invariant: what is kept is durable before the call returns (a folder: file and folder are
//! synced), since the journal is trimmed behind it. A store that was opened for an owner is neither
//! read nor changed when it is another's.

use std::{
    fmt, fs,
    future::Future,
    io::{Read, Write},
    path::{Path as FilePath, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dovetail_core::{
    checkpoint::{
        CheckpointError, CheckpointFile, CheckpointId, CheckpointStore, FileHash, KeptFile,
        Manifest,
    },
    epoch::LaneId,
};
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload,
    local::LocalFileSystem, path::Path,
};
use tokio::runtime::Runtime;

use super::{
    manifest,
    owner::{self, OwnerError, StoreOwner},
};

const OWNER_FILE: &str = "owner.json";
/// Files are read and written in pieces of this; object stores take no smaller ones but the last.
const PIECE_BYTES: usize = 8 << 20;

/// Checkpoints in a folder.
pub struct ObjectCheckpoints {
    place: String,
    folder: PathBuf,
    timeout: Duration,
    owner: Option<StoreOwner>,
    /// Opened by the first call that can: a folder may come later.
    store: Mutex<Option<Arc<dyn ObjectStore>>>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for ObjectCheckpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectCheckpoints").field(&self.place).finish()
    }
}

impl Drop for ObjectCheckpoints {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl ObjectCheckpoints {
    /// Returns the store in a folder, which is made by the first call; none may take longer than
    /// the timeout.
    ///
    /// # Errors
    ///
    /// When the system gives no event loop.
    pub fn in_folder(folder: &FilePath, timeout: Duration) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self {
            place: format!("file://{}", folder.display()),
            folder: folder.to_owned(),
            timeout,
            owner: None,
            store: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    /// Makes this the store of a pipeline: the first call that can claims it, and every call fails
    /// when it is another's.
    #[must_use]
    pub fn owned_by(mut self, owner: StoreOwner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Claims the store for its owner, as every other call does before anything else.
    ///
    /// # Errors
    ///
    /// `Foreign` when it is another's, `Corrupt` when what says whose it is cannot be understood,
    /// or when it does not answer.
    pub fn claim(&self) -> Result<(), CheckpointError> {
        self.store().map(|_| ())
    }

    /// Writes whose it is, if nobody did, and compares.
    fn claim_for(&self, mine: &StoreOwner, store: &dyn ObjectStore) -> Result<(), CheckpointError> {
        let path = Path::from(OWNER_FILE);
        let payload = PutPayload::from(owner::encode(mine));
        let bytes = self.wait("claiming it", async {
            match store.put_opts(&path, payload, PutMode::Create.into()).await {
                Ok(_) | Err(Error::AlreadyExists { .. }) => store.get(&path).await?.bytes().await,
                Err(error) => Err(error),
            }
        })?;
        let found = owner::decode(&bytes).map_err(|error| self.unreadable_owner(mine, &error))?;
        if found == *mine {
            return Ok(());
        }
        let (store, found) = (self.place.clone(), found.to_string());
        Err(CheckpointError::Foreign { store, found, expected: mine.to_string() })
    }

    fn unreadable_owner(&self, mine: &StoreOwner, error: &OwnerError) -> CheckpointError {
        let file = self.folder.join(OWNER_FILE);
        let way_out = match error {
            OwnerError::Format(_) => String::new(),
            OwnerError::Damaged(_) => format!(
                "; if the checkpoints there are those of {mine}, remove this file: it is written anew"
            ),
        };
        let file = file.display();
        self.corrupt(format!("{file}, which says whose they are: {error}{way_out}"))
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>, CheckpointError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = store.as_ref() {
            return Ok(Arc::clone(store));
        }
        let opened =
            fs::create_dir_all(&self.folder).map_err(|error| error.to_string()).and_then(|()| {
                LocalFileSystem::new_with_prefix(&self.folder).map_err(|error| error.to_string())
            });
        let opened = opened.map_err(|error| self.unavailable("opening it", error))?;
        let opened: Arc<dyn ObjectStore> = Arc::new(opened.with_fsync(true));
        if let Some(owner) = &self.owner {
            self.claim_for(owner, opened.as_ref())?;
        }
        Ok(Arc::clone(store.insert(opened)))
    }

    fn unavailable(&self, doing: &str, error: impl fmt::Display) -> CheckpointError {
        let (store, message) = (self.place.clone(), format!("{doing}: {error}"));
        CheckpointError::Unavailable { store, message }
    }

    fn corrupt(&self, what: String) -> CheckpointError {
        CheckpointError::Corrupt { store: self.place.clone(), what }
    }

    fn failed(&self, doing: &str, error: Error) -> CheckpointError {
        match error {
            Error::NotFound { path, .. } => {
                CheckpointError::Missing { store: self.place.clone(), what: path }
            }
            error => self.unavailable(doing, error),
        }
    }

    /// Waits for one call.
    fn wait<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CheckpointError> {
        let Some(runtime) = &self.runtime else {
            return Err(self.unavailable(doing, "it is closed"));
        };
        let limit = self.timeout;
        match runtime.block_on(async { tokio::time::timeout(limit, call).await }) {
            Ok(result) => result.map_err(|error| self.failed(doing, error)),
            Err(_elapsed) => {
                let what = format!("no answer within {} s", limit.as_secs());
                Err(self.unavailable(doing, what))
            }
        }
    }

    fn objects(&self, folder: &Path) -> Result<Vec<ObjectMeta>, CheckpointError> {
        let store = self.store()?;
        let listed = self.wait("listing", store.list_with_delimiter(Some(folder)));
        match listed {
            Ok(listed) => Ok(listed.objects),
            Err(CheckpointError::Missing { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), CheckpointError> {
        let store = self.store()?;
        match self.wait("removing", store.delete(path)) {
            Ok(()) | Err(CheckpointError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn put_in_pieces(
        &self,
        path: &Path,
        first: Vec<u8>,
        content: &mut dyn Read,
    ) -> Result<(), CheckpointError> {
        let store = self.store()?;
        let mut upload = self.wait("beginning a file", store.put_multipart(path))?;
        let mut piece = first;
        let result = loop {
            let put = self.wait("writing a file", upload.put_part(PutPayload::from(piece)));
            let next = put.and_then(|()| self.piece(content));
            match next {
                Ok(next) if next.is_empty() => break self.wait("ending a file", upload.complete()),
                Ok(next) => piece = next,
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => {
                // Frees what a bucket would keep; the first failure is the one to tell.
                drop(self.wait("giving up a file", upload.abort()));
                Err(error)
            }
        }
    }

    fn piece(&self, content: &mut dyn Read) -> Result<Vec<u8>, CheckpointError> {
        let mut piece = Vec::new();
        let read = content.take(PIECE_BYTES as u64).read_to_end(&mut piece);
        read.map_err(|error| self.unavailable("reading what is to be kept", error))?;
        Ok(piece)
    }
}

fn manifests(lane: LaneId) -> Path {
    Path::from(format!("checkpoints/{}", lane.0))
}

fn manifest_path(id: CheckpointId) -> Path {
    Path::from(format!("checkpoints/{}/{id}.json", id.lane.0))
}

fn files(lane: LaneId) -> Path {
    Path::from(format!("files/{}", lane.0))
}

fn file_path(lane: LaneId, hash: FileHash) -> Path {
    Path::from(format!("files/{}/{hash}", lane.0))
}

impl CheckpointStore for ObjectCheckpoints {
    fn place(&self) -> &str {
        &self.place
    }

    fn list(&self, lane: LaneId) -> Result<Vec<CheckpointId>, CheckpointError> {
        let found = self.objects(&manifests(lane))?;
        let id = |object: &ObjectMeta| {
            CheckpointId::parse(lane, object.location.filename()?.strip_suffix(".json")?).ok()
        };
        let mut ids: Vec<CheckpointId> = found.iter().filter_map(id).collect();
        ids.sort_by_key(|id| std::cmp::Reverse((id.epoch, id.attempt.0)));
        Ok(ids)
    }

    fn manifest(&self, id: CheckpointId) -> Result<Manifest, CheckpointError> {
        let store = self.store()?;
        let path = manifest_path(id);
        let bytes =
            self.wait("reading a manifest", async { store.get(&path).await?.bytes().await })?;
        let manifest = manifest::decode(&bytes)
            .map_err(|error| self.corrupt(format!("manifest {path}: {error}")))?;
        if manifest.id == id {
            return Ok(manifest);
        }
        Err(self.corrupt(format!("manifest {path} says that it is {}", manifest.id)))
    }

    fn publish(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let store = self.store()?;
        let path = manifest_path(manifest.id);
        let payload = PutPayload::from(manifest::encode(manifest));
        let put = self.wait("publishing a manifest", async {
            match store.put_opts(&path, payload, PutMode::Create.into()).await {
                Ok(_) => Ok(true),
                Err(Error::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        if put || self.manifest(manifest.id)? == *manifest {
            return Ok(());
        }
        let (store, what) = (self.place.clone(), format!("manifest {path}"));
        Err(CheckpointError::Exists { store, what })
    }

    fn remove_manifest(&self, id: CheckpointId) -> Result<(), CheckpointError> {
        self.delete(&manifest_path(id))
    }

    fn files(&self, lane: LaneId) -> Result<Vec<KeptFile>, CheckpointError> {
        let kept = |object: ObjectMeta| {
            let hash = object.location.filename()?.parse().ok()?;
            let written_at = object.last_modified.timestamp_millis();
            Some(KeptFile { hash, bytes: object.size, written_at })
        };
        Ok(self.objects(&files(lane))?.into_iter().filter_map(kept).collect())
    }

    fn put(
        &self,
        lane: LaneId,
        file: &CheckpointFile,
        content: &mut dyn Read,
    ) -> Result<(), CheckpointError> {
        let path = file_path(lane, file.hash);
        let first = self.piece(content)?;
        if first.len() == PIECE_BYTES {
            return self.put_in_pieces(&path, first, content);
        }
        let store = self.store()?;
        self.wait("writing a file", store.put(&path, PutPayload::from(first))).map(|_| ())
    }

    fn get(
        &self,
        lane: LaneId,
        hash: FileHash,
        into: &mut dyn Write,
    ) -> Result<(), CheckpointError> {
        let store = self.store()?;
        let path = file_path(lane, hash);
        let size = self.wait("looking for a file", store.head(&path))?.size;
        let mut at = 0;
        while at < size {
            let end = size.min(at + PIECE_BYTES as u64);
            let piece = self.wait("reading a file", store.get_range(&path, at..end))?;
            into.write_all(&piece)
                .map_err(|error| self.unavailable("writing what was read", error))?;
            at = end;
        }
        Ok(())
    }

    fn remove(&self, lane: LaneId, hash: FileHash) -> Result<(), CheckpointError> {
        self.delete(&file_path(lane, hash))
    }
}
