//! Checkpoints of a lane's database: frozen by hard links, kept in an object store, restored into an
//! empty place.
//!
//! - [`manifest`]: the format of what says which files belong together.
//! - [`owner`]: the format of what says whose checkpoints a store holds.
//! - [`objects`]: core's checkpoint store port over `object_store`.
//! - `frozen` and `restoring`: the two ends on the local disk.
//!
//! Invariant: only files of a database travel: a name from a manifest never leads out of a lane's
//! folder.

pub(crate) mod frozen;
pub mod manifest;
pub mod objects;
pub mod owner;
pub(crate) mod restoring;

/// Returns whether a file of this name is part of a database and belongs into a checkpoint.
///
/// Left out are the lock, RocksDB's own diary, and write-ahead logs, which nothing is written to.
fn is_database_file(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    is_plain
        && (name == "CURRENT"
            || name.starts_with("MANIFEST-")
            || name.starts_with("OPTIONS-") && !name.ends_with(".dbtmp")
            || is_table(name))
}

/// Returns whether a file of this name is a table: written once, never changed.
fn is_table(name: &str) -> bool {
    name.strip_suffix(".sst").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_database_travel() {
        for name in ["CURRENT", "MANIFEST-000005", "OPTIONS-000007", "000012.sst"] {
            assert!(is_database_file(name), "{name}");
        }
        for name in ["LOCK", "LOG", "LOG.old.17", "000004.log", "IDENTITY", "", ".sst", "..", "/a"]
        {
            assert!(!is_database_file(name), "{name}");
        }
        for name in ["MANIFEST-/../../x", "../000012.sst", "OPTIONS-1/x", "OPTIONS-000007.dbtmp"] {
            assert!(!is_database_file(name), "{name}");
        }
    }
}
