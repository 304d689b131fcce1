//! What can go wrong with a directory, and how the log port says it.

use std::{io, path::PathBuf};

use dovetail_core::{log::LogError, wire::WireError};

/// Why the embedded log could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Another process has the directory.
    #[error(
        "{} is in use by process {holder}: stop that process, or give this pipeline a directory \
         of its own (`embedded.dir`)", dir.display()
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The process id, as the holder wrote it.
        holder: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The bytes on disk contradict the format or each other.
    #[error("{} is damaged: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was expected, what was found, what to do.
        message: String,
    },
    /// The operator must change something.
    #[error("{0}")]
    Config(String),
    /// An earlier failure left the outcome of a commit open; opening the directory again settles it.
    #[error("the embedded log stopped after an earlier failure, start again: {0}")]
    Broken(String),
}

impl EmbeddedError {
    pub(crate) fn corrupt(path: &std::path::Path, message: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), message: message.into() }
    }

    pub(crate) fn wire(path: &std::path::Path, at: u64, error: WireError) -> Self {
        Self::corrupt(path, format!("{error}, in the frame at byte {at}"))
    }
}

impl From<EmbeddedError> for LogError {
    fn from(error: EmbeddedError) -> Self {
        match &error {
            EmbeddedError::Locked { .. } | EmbeddedError::Config(_) => {
                Self::Config(error.to_string())
            }
            EmbeddedError::Corrupt { .. } => Self::Corrupt(error.to_string()),
            EmbeddedError::Io { .. } | EmbeddedError::Broken(_) => Self::Failed(error.to_string()),
        }
    }
}

/// Adds what was tried, and on which file.
pub(crate) trait During<T> {
    /// Returns the result with that said.
    fn during(self, action: &'static str, path: &std::path::Path) -> Result<T, EmbeddedError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &std::path::Path) -> Result<T, EmbeddedError> {
        self.map_err(|source| EmbeddedError::Io { action, path: path.to_owned(), source })
    }
}
