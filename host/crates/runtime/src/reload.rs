//! Takes over new revisions of the plugin while the pipeline runs.
//!
//! Everything here happens off the hot path: the gate (validating, compiling, opening) runs on the
//! watching or the pushing thread, and lanes only ever receive instances that are ready.
//!
//! Invariant: a revision that fails the gate changes nothing; the running one goes on.

use std::{
    fmt, fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::{
    handle::{Handle, lock},
    revisions::{RevisionOrigin, SwapError, short},
    setup::Revision,
    watch::{FileWatch, WatchOptions, digest_of},
};

/// A file that wants to become a revision.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// SHA-256 of the bytes, lower-case hex.
    pub digest: &'a str,
    /// Where the plugin file lies.
    pub path: &'a Path,
}

/// Validates, compiles and tries a candidate, as at start; the error says what to do about it.
pub type Gate = Box<dyn Fn(&Candidate<'_>) -> Result<Arc<dyn Revision>, String> + Send + Sync>;

/// What reloading needs.
pub struct ReloadParts {
    /// The plugin file.
    pub path: PathBuf,
    /// SHA-256 of the file that the pipeline was started with, lower-case hex.
    pub digest: String,
    /// The gate.
    pub gate: Gate,
    /// The pipeline.
    pub handle: Handle,
    /// When changes are noticed.
    pub watch: WatchOptions,
}

impl fmt::Debug for ReloadParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadParts").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why a pushed revision was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// It did not pass the gate.
    #[error("the revision {} is refused: {reason}", short(.digest))]
    Refused {
        /// Its digest.
        digest: String,
        /// The gate's reason.
        reason: String,
    },
    /// The plugin file could not be replaced.
    #[error("the plugin file {} cannot be replaced: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The lanes could not take it over.
    #[error(transparent)]
    Swap(#[from] SwapError),
}

struct Inner {
    path: PathBuf,
    gate: Gate,
    handle: Handle,
    /// The digest last seen, from file or push. Held while a candidate is considered, so that
    /// one is considered at a time.
    seen: Mutex<String>,
}

/// Watches the plugin file and takes pushed revisions. Dropping it ends the watch.
pub struct Reloader {
    inner: Arc<Inner>,
    _watch: FileWatch,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Reloader {
    /// Starts watching.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn spawn(parts: ReloadParts) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            path: parts.path,
            gate: parts.gate,
            handle: parts.handle,
            seen: Mutex::new(parts.digest.clone()),
        });
        let watching = Arc::clone(&inner);
        let watch = FileWatch::spawn(
            inner.path.clone(),
            parts.digest,
            parts.watch,
            move |bytes, digest| {
                watching.file_changed(&bytes, digest);
            },
        )?;
        Ok(Self { inner, _watch: watch })
    }

    /// Takes a pushed revision through the gate, replaces the plugin file and lets every lane take
    /// it over. Returns its digest. Pushing what runs already changes nothing.
    ///
    /// # Errors
    ///
    /// When it is refused, the file cannot be replaced, or lanes could not switch in time.
    pub fn push(&self, bytes: &[u8]) -> Result<String, PushError> {
        self.inner.push(bytes)
    }

    /// Returns [`Reloader::push`] as a function that outlives this value; the watch does not.
    pub fn pusher(&self) -> impl Fn(&[u8]) -> Result<String, PushError> + Send + Sync + 'static {
        let inner = Arc::clone(&self.inner);
        move |bytes| inner.push(bytes)
    }
}

impl Inner {
    fn file_changed(&self, bytes: &[u8], digest: &str) {
        let mut seen = lock(&self.seen);
        if *seen == digest {
            return;
        }
        digest.clone_into(&mut seen);
        tracing::info!(digest, "the plugin file {} has changed", self.path.display());
        let candidate = Candidate { bytes, digest, path: &self.path };
        match (self.gate)(&candidate) {
            Ok(revision) => {
                // What went wrong is logged and in the history of revisions.
                drop(self.handle.swap(&revision, RevisionOrigin::File, || Ok(())));
            }
            Err(reason) => self.handle.refuse(digest, RevisionOrigin::File, reason),
        }
    }

    fn push(&self, bytes: &[u8]) -> Result<String, PushError> {
        let mut seen = lock(&self.seen);
        let digest = digest_of(bytes);
        if *seen == digest && self.handle.running_revision() == digest {
            return Ok(digest);
        }
        let candidate = Candidate { bytes, digest: &digest, path: &self.path };
        let revision = (self.gate)(&candidate).map_err(|reason| {
            self.handle.refuse(&digest, RevisionOrigin::Push, reason.clone());
            PushError::Refused { digest: digest.clone(), reason }
        })?;
        let mut file = Ok(());
        let swapped = self.handle.swap(&revision, RevisionOrigin::Push, || {
            let before = std::mem::replace(&mut *seen, digest.clone());
            replace(&self.path, bytes).map_err(|error| {
                *seen = before;
                let reason = error.to_string();
                file = Err(PushError::File { path: self.path.clone(), error });
                reason
            })
        });
        file?;
        swapped?;
        Ok(digest)
    }
}

/// Replaces a file (where a link points to, not the link) in one step.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = fs::canonicalize(path)?;
    let folder = target.parent().unwrap_or(Path::new("."));
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&new)?;
        file.write_all(bytes)?;
        file.set_permissions(fs::metadata(&target)?.permissions())?;
        file.sync_all()?;
        fs::rename(&new, &target)?;
        fs::File::open(folder)?.sync_all()
    })();
    if written.is_err() && new.exists() {
        fs::remove_file(&new)?;
    }
    written
}
