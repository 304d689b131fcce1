//! `state.dir`: whose it is, who uses it, and the lanes in it.
//!
//! One process uses a directory at a time (a file lock, released by the system when the process
//! dies), and one pipeline for ever. What is told when that does not hold names the directory, both
//! sides and the ways out.
//!
//! Invariant: nothing is written into a directory that holds something else.

mod claim;
mod token;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use dovetail_core::{checkpoint::Restoring, epoch::LaneId, state::StoreError};

pub use self::claim::Claim;
use crate::{
    budget::{MemoryBudget, MemoryUse, SharedMemory},
    checkpoint::restoring::RestoringLane,
    store::{FROZEN_EXTENSION, RocksStore},
};

/// The format of `state.dir` that this version writes and reads.
pub const FORMAT: u32 = 1;

const LOCK_FILE: &str = "lock";

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process holds its lock.
    #[error(
        "state dir in use by {holder} ({dir}): stop that process, or give this one its own \
         `state.dir`"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Process id and start, as its lock file says.
        holder: String,
    },
    /// It belongs to another pipeline or cluster.
    #[error(
        "state dir {dir} belongs to {found}, not to {expected}: set `state.dir` to another \
         directory; or, if {found} is not needed any more, remove this one"
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// Pipeline and cluster that it was made for.
        found: String,
        /// Pipeline and cluster that want to use it.
        expected: String,
    },
    /// It holds files that are not ours.
    #[error(
        "state dir {dir} holds `{entry}`, which is no state of ours: set `state.dir` to a new or \
         empty directory"
    )]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// The first entry found.
        entry: String,
    },
    /// It was written by a version with another format.
    #[error(
        "state dir {dir} has format {found}, this version reads format {FORMAT}: run the version \
         that wrote it, or remove the directory to have it rebuilt from the journal"
    )]
    Format {
        /// The directory.
        dir: PathBuf,
        /// The format it says.
        found: String,
    },
    /// The file that says whose it is cannot be understood.
    #[error(
        "{file}: expected {expected}, found {found:?}: remove the state directory to have it rebuilt \
         from the journal"
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The file with the admin token holds none.
    #[error("{file}: expected {expected}, found {found}: remove it, and a new one is made")]
    Token {
        /// The file.
        file: PathBuf,
        /// What should be there.
        expected: String,
        /// What is there; the token itself is told nobody.
        found: String,
    },
    /// The file system failed.
    #[error("{path}: {what}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Turns an I/O error into ours, with place and purpose.
pub(crate) fn io_error(
    path: &Path,
    what: &'static str,
) -> impl FnOnce(io::Error) -> DirectoryError {
    move |source| DirectoryError::Io { path: path.to_owned(), what, source }
}

struct Shared {
    path: PathBuf,
    lanes: u16,
    memory: SharedMemory,
    /// Locked while this lives; the system releases it when the process ends.
    _lock: Lock,
}

/// An open `state.dir`. Clones share it; the lock is held until the last clone and store is gone.
#[derive(Clone)]
pub struct StateDirectory(Arc<Shared>);

impl std::fmt::Debug for StateDirectory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("StateDirectory").field(&self.0.path).finish()
    }
}

impl StateDirectory {
    /// Opens or makes the directory of a pipeline with so many lanes, and locks it.
    ///
    /// # Errors
    ///
    /// When another process uses it, when it belongs to another pipeline, is not ours, has another
    /// format or is damaged, and when the file system fails.
    pub fn open(
        path: &Path,
        claim: &Claim,
        lanes: u16,
        budget: MemoryBudget,
    ) -> Result<Self, DirectoryError> {
        // State holds what users' records hold: nobody else needs to read it.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(io_error(path, "making the state directory"))?;
        claim::check_not_foreign(path, claim)?;
        let lock = lock(path, claim)?;
        // Once more under the lock: two first starts may have come this far together.
        claim::check_not_foreign(path, claim)?;
        claim::write_if_absent(path, claim)?;
        remove_frozen(path).map_err(io_error(path, "removing frozen copies"))?;
        let memory = SharedMemory::new(budget);
        Ok(Self(Arc::new(Shared { path: path.to_owned(), lanes, memory, _lock: lock })))
    }

    /// Opens a lane's database, making it when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when it is damaged: [`StateDirectory::quarantine`] moves it aside.
    /// [`StoreError::Unavailable`] when the disk fails, or the lane is open already.
    pub fn open_lane(&self, lane: LaneId) -> Result<RocksStore, StoreError> {
        RocksStore::open(self.clone(), self.lane_path(lane))
    }

    /// Begins to fill the place of a lane's closed and empty database with a checkpoint's files.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    pub fn restore_lane(&self, lane: LaneId) -> Result<Box<dyn Restoring>, StoreError> {
        Ok(Box::new(RestoringLane::begin(self.lane_path(lane))?))
    }

    /// Moves a lane's closed database aside, so that an empty one can be opened and filled from the
    /// journal; returns where it went.
    ///
    /// # Errors
    ///
    /// When the file system fails.
    pub fn quarantine(&self, lane: LaneId) -> Result<PathBuf, DirectoryError> {
        let from = self.lane_path(lane);
        let mut number = 1_u32;
        let to = loop {
            let to = from.with_extension(format!("broken-{number}"));
            match fs::symlink_metadata(&to) {
                Ok(_) => number += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break to,
                Err(error) => return Err(io_error(&to, "looking for a free name")(error)),
            }
        };
        fs::rename(&from, &to).map_err(io_error(&from, "moving a damaged database aside"))?;
        Ok(to)
    }

    /// Returns the token that allows changes through the admin API, making it the first time.
    ///
    /// The file `admin-token` can be read by its owner only.
    ///
    /// # Errors
    ///
    /// When the file holds something else, and when the file system fails.
    pub fn admin_token(&self) -> Result<String, DirectoryError> {
        token::read_or_make(&self.0.path)
    }

    /// Returns where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns how much of the shared memory is used, by all lanes together.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        self.0.memory.in_use()
    }

    /// Returns where a lane's database is.
    #[must_use]
    pub fn lane_path(&self, lane: LaneId) -> PathBuf {
        self.0.path.join(format!("lane-{:03}", lane.0))
    }

    pub(crate) fn memory(&self) -> &SharedMemory {
        &self.0.memory
    }

    pub(crate) fn row_cache_per_lane(&self) -> usize {
        self.0.memory.budget.row_cache / usize::from(self.0.lanes.max(1))
    }
}

/// Removes the frozen copies that a killed process has left.
fn remove_frozen(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_frozen = extension.is_some_and(|extension| extension.starts_with(FROZEN_EXTENSION));
        if is_frozen {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// The lock of a directory, released when this is dropped.
///
/// Closing the file would release it too, but not while a child that is just being started has a
/// copy of it.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where it fails the system releases the lock with the last copy of the file.
        self.0.unlock().ok();
    }
}

fn lock(dir: &Path, claim: &Claim) -> Result<Lock, DirectoryError> {
    let path = dir.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(io_error(&path, "opening the lock file"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let holder = match text.trim() {
                // It has locked and not yet written.
                "" => "another process",
                holder => holder,
            };
            return Err(DirectoryError::InUse { dir: dir.to_owned(), holder: holder.to_owned() });
        }
        Err(TryLockError::Error(error)) => {
            return Err(io_error(&path, "locking the state directory")(error));
        }
    }
    let holder = format!("pid {} since {}\n", std::process::id(), claim.since);
    file.set_len(0)
        .and_then(|()| file.write_all(holder.as_bytes()))
        .map_err(io_error(&path, "writing who holds the lock"))?;
    Ok(Lock(file))
}

/// Writes a file so that it is there entirely or not at all, after a crash too.
pub(crate) fn write_whole(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
