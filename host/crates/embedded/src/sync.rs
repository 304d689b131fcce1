//! Putting bytes and names on the disk: the one place that asks the system to.
//!
//! In this crate's tests it notes what was asked for, so that they can play a power cut
//! ([`model`]).

use std::{fs::File, path::Path};

use crate::error::{During as _, EmbeddedError};

/// Puts the bytes of a file on the disk.
pub(crate) fn bytes(file: &File, path: &Path) -> Result<(), EmbeddedError> {
    file.sync_data().during("sync", path)?;
    #[cfg(test)]
    model::note_bytes(path);
    Ok(())
}

/// Puts the names in a directory on the disk.
pub(crate) fn names(dir: &Path) -> Result<(), EmbeddedError> {
    File::open(dir).and_then(|dir| dir.sync_all()).during("sync", dir)?;
    #[cfg(test)]
    model::note_names(dir);
    Ok(())
}

/// A disk that keeps what it was asked to keep and loses every other byte and name: the harshest
/// power cut there can be. It knows files by inode, so that a renamed one keeps its bytes.
///
/// It does not tear: that a commit may be cut off at any byte has tests of its own.
#[cfg(test)]
pub(crate) mod model {
    use std::{
        cell::RefCell,
        collections::BTreeMap,
        fs,
        os::unix::fs::MetadataExt as _,
        path::{Path, PathBuf},
    };

    /// What is on the disk.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Disk {
        bytes: BTreeMap<u64, Vec<u8>>,
        /// The inodes of what each directory holds.
        names: BTreeMap<PathBuf, BTreeMap<PathBuf, u64>>,
    }

    thread_local! {
        /// The disk after each request.
        static DISKS: RefCell<Vec<Disk>> = const { RefCell::new(Vec::new()) };
    }

    fn note(change: impl FnOnce(&mut Disk)) {
        DISKS.with_borrow_mut(|disks| {
            let mut disk = disks.last().cloned().unwrap_or_default();
            change(&mut disk);
            disks.push(disk);
        });
    }

    pub(super) fn note_bytes(path: &Path) {
        let inode = fs::metadata(path).unwrap().ino();
        let bytes = fs::read(path).unwrap();
        note(|disk| drop(disk.bytes.insert(inode, bytes)));
    }

    pub(super) fn note_names(dir: &Path) {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let names = entries.map(|entry| (entry.path(), entry.metadata().unwrap().ino()));
        let names = names.collect();
        note(|disk| drop(disk.names.insert(dir.to_owned(), names)));
    }

    /// The disks after each request of this thread so far, oldest first.
    pub(crate) fn disks() -> Vec<Disk> {
        DISKS.with_borrow(Vec::clone)
    }

    impl Disk {
        /// Writes what survives below `dir` into another folder.
        pub(crate) fn restore(&self, dir: &Path, to: &Path) {
            let parent = dir.parent().unwrap();
            let is_there = self.names.get(parent).is_some_and(|names| names.contains_key(dir));
            if is_there {
                self.restore_folder(dir, to);
            }
        }

        fn restore_folder(&self, dir: &Path, to: &Path) {
            fs::create_dir_all(to).unwrap();
            for (path, inode) in self.names.get(dir).into_iter().flatten() {
                let to = to.join(path.file_name().unwrap());
                if path.is_dir() {
                    self.restore_folder(path, &to);
                } else {
                    fs::write(to, self.bytes.get(inode).map_or(&[][..], Vec::as_slice)).unwrap();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use super::model;
    use crate::{EmbeddedCluster, EmbeddedError, NewRecord};

    fn record(key: &str, value: &str) -> NewRecord {
        let (key, value) = (Some(key.to_owned().into()), Some(value.to_owned().into()));
        NewRecord { key, value, ..NewRecord::default() }
    }

    /// The values of a topic; none where it is not there.
    fn values(cluster: &EmbeddedCluster, topic: &str) -> Vec<String> {
        if cluster.partitions(topic).is_none() {
            return Vec::new();
        }
        let records = cluster.read_topic(topic).unwrap().into_iter();
        let mut values: Vec<String> = records
            .map(|(_, record)| String::from_utf8(record.value.unwrap().to_vec()).unwrap())
            .collect();
        values.sort();
        values
    }

    fn opened(dir: &Path) -> Result<Arc<EmbeddedCluster>, EmbeddedError> {
        EmbeddedCluster::open(dir, true)
    }

    /// Makes a directory and commits to it; returns for each commit how many requests there had
    /// been when it was acknowledged.
    fn work(dir: &Path, sync: bool, commits: usize) -> Vec<usize> {
        let cluster = EmbeddedCluster::open(dir, sync).unwrap();
        cluster.ensure_topic("one", 2).unwrap();
        let mut acknowledged = Vec::new();
        for number in 0..commits {
            let key = format!("k{number}");
            cluster.append("one", &[record(&key, &format!("v{number:02}"))]).unwrap();
            acknowledged.push(model::disks().len());
            if number == commits / 2 {
                cluster.ensure_topic("two", 1).unwrap();
            }
        }
        acknowledged
    }

    #[test]
    fn power_cut_after_any_request_keeps_every_commit_that_was_acknowledged() {
        const COMMITS: usize = 8;
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new").join("log");
        fs::create_dir(folder.path().join("new")).unwrap();
        let acknowledged = work(&dir, true, COMMITS);
        let disks = model::disks();
        assert_eq!(acknowledged.last(), Some(&disks.len()));
        let expected: Vec<String> = (0..COMMITS).map(|number| format!("v{number:02}")).collect();
        for (requests, disk) in (1..).zip(&disks) {
            let trial = folder.path().join("trial");
            disk.restore(&dir, &trial);
            let cluster = opened(&trial).unwrap_or_else(|error| panic!("{requests}: {error}"));
            let kept = values(&cluster, "one");
            let least = acknowledged.iter().filter(|at| **at <= requests).count();
            // One more may be on the disk before its answer was heard.
            assert!(kept.len() >= least && kept.len() <= least + 1, "{requests}: {kept:?}");
            assert_eq!(kept, expected[..kept.len()], "{requests}");
            // And it goes on.
            cluster.ensure_topic("one", 2).unwrap();
            cluster.append("one", &[record("k", "w")]).unwrap();
            assert_eq!(values(&cluster, "one").len(), kept.len() + 1);
            drop(cluster);
            fs::remove_dir_all(&trial).unwrap();
        }
    }

    #[test]
    fn power_cut_without_sync_loses_commits_and_the_model_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("log");
        work(&dir, false, 4);
        let trial = folder.path().join("trial");
        model::disks().last().unwrap().restore(&dir, &trial);
        let kept = opened(&trial).map(|cluster| values(&cluster, "one"));
        assert!(kept.is_err() || kept.unwrap().is_empty());
    }
}
