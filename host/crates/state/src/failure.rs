//! RocksDB's errors in the terms of the store port: where, what, and what to do.
//!
//! Invariant: what only a rebuild can cure is `Corrupt`, everything else is `Unavailable`.

use std::path::Path;

use dovetail_core::state::StoreError;
use rocksdb::{Error, ErrorKind};

/// Returns a store's error for a failure of the database at `path`.
pub(crate) fn store_error(path: &Path, error: &Error) -> StoreError {
    classify(path, error.kind(), error.as_ref())
}

/// Returns a store's error for a failed file operation at `path`.
pub(crate) fn file_error(path: &Path, what: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {what}: {error}", path.display()))
}

fn classify(path: &Path, kind: ErrorKind, text: &str) -> StoreError {
    let path = path.display();
    let is_missing_file = text.contains("No such file or directory");
    if text.contains("No space left on device") || text.contains("Disk quota exceeded") {
        StoreError::Unavailable(format!(
            "disk full at {path}: free space there, or set `state.dir` to a larger disk ({text})"
        ))
    } else if kind == ErrorKind::Corruption || (kind == ErrorKind::IOError && is_missing_file) {
        StoreError::Corrupt(format!(
            "{path}: {text}; it must be moved aside and rebuilt from the journal"
        ))
    } else {
        StoreError::Unavailable(format!("{path}: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(kind: ErrorKind, text: &str) -> StoreError {
        classify(Path::new("state/lane-003"), kind, text)
    }

    #[test]
    fn a_full_disk_is_told_with_its_path_and_a_way_out() {
        let text = "IO error: No space left on device: While appending to file: 000012.sst";
        let error = classified(ErrorKind::IOError, text);
        assert!(matches!(error, StoreError::Unavailable(_)));
        let told = error.to_string();
        assert!(told.contains("disk full at state/lane-003: free space"), "{told}");
    }

    #[test]
    fn damage_and_missing_files_call_for_a_rebuild_and_a_held_lock_does_not() {
        let damaged = classified(ErrorKind::Corruption, "Corruption: block checksum mismatch");
        assert!(matches!(damaged, StoreError::Corrupt(_)));
        let missing = classified(ErrorKind::IOError, "IO error: No such file or directory: x.sst");
        assert!(matches!(missing, StoreError::Corrupt(_)));
        let locked = classified(ErrorKind::IOError, "IO error: lock hold by current process");
        assert!(matches!(locked, StoreError::Unavailable(_)));
    }
}
