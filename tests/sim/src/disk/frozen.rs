//! A directory's files for a checkpoint, and from one: the ports that runtime uploads from and
//! restores into.

use std::{
    io::{Cursor, Read, Write},
    sync::{Arc, PoisonError},
};

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{Frozen, FrozenFile, Restoring},
    state::StoreError,
};

use super::{
    SharedDisk,
    image::{CURRENT, Files, Image},
};
use crate::{
    bugs::Bug,
    world::{Process, Shared},
};

/// Files as they were when they were frozen.
pub(super) struct SimFrozen {
    pub(super) files: Files,
    /// Whether the file that changes passes for one that does not.
    pub(super) hides_changes: bool,
}

impl Frozen for SimFrozen {
    fn head(&mut self) -> Result<Bytes, String> {
        self.files.get(CURRENT).cloned().ok_or_else(|| "there is no head".to_owned())
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>, String> {
        let file = |(name, content): (&String, &Bytes)| FrozenFile {
            name: name.clone(),
            bytes: content.len() as u64,
            is_immutable: self.hides_changes || name != CURRENT,
        };
        Ok(self.files.iter().map(file).collect())
    }

    fn open(&mut self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        let content = self.files.get(name).cloned().ok_or_else(|| format!("no file {name}"))?;
        Ok(Box::new(Cursor::new(content)))
    }
}

/// A directory that is being filled.
pub(super) struct SimRestoring {
    pub(super) shared: Arc<Shared>,
    pub(super) process: Process,
    pub(super) lane: u16,
    pub(super) disk: SharedDisk,
    pub(super) files: std::collections::BTreeMap<String, Vec<u8>>,
}

impl Restoring for SimRestoring {
    fn create<'a>(&'a mut self, name: &str) -> Result<Box<dyn Write + 'a>, StoreError> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if disk.full_until > self.shared.now() {
            return Err(StoreError::Unavailable("no space is left on the disk".to_owned()));
        }
        drop(disk);
        Ok(Box::new(self.files.entry(name.to_owned()).or_default()))
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let mut files: Files =
            self.files.into_iter().map(|(name, content)| (name, content.into())).collect();
        if self.shared.has(Bug::RestoreLeavesOut)
            && let Some(name) = files.keys().find(|name| *name != CURRENT).cloned()
        {
            files.remove(&name);
        }
        let Some((rows, head, image)) = Image::read(&files) else {
            return Err(StoreError::Corrupt("a checkpoint's files cannot be read".to_owned()));
        };
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if disk.owner != self.process.incarnation {
            return Err(StoreError::Unavailable("this process is dead".to_owned()));
        }
        disk.clear();
        (disk.rows, disk.head, disk.image) = (rows, Some(head.clone()), image);
        self.shared.restored(self.lane, &head, &disk.rows);
        Ok(())
    }
}
