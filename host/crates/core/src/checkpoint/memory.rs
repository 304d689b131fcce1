//! The reference checkpoint store: manifests and files in memory, with faults on request.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    CheckpointError, CheckpointFile, CheckpointId, CheckpointStore, FileHash, KeptFile, Manifest,
};
use crate::{epoch::LaneId, time::ProcessingTime};

const PLACE: &str = "memory:";

/// How the next writes fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteFault {
    /// They do not.
    #[default]
    None,
    /// They fail and change nothing.
    Refused,
    /// They are done, and answered with an error all the same.
    Ambiguous,
}

#[derive(Debug, Default)]
struct Inner {
    manifests: BTreeMap<(LaneId, String), Manifest>,
    files: BTreeMap<(LaneId, FileHash), (Vec<u8>, ProcessingTime)>,
    now: ProcessingTime,
    fault: WriteFault,
    is_away: bool,
    puts: Vec<FileHash>,
}

/// A checkpoint store in memory; clones share it, as hosts share a bucket.
#[derive(Debug, Clone, Default)]
pub struct MemoryCheckpoints(Arc<Mutex<Inner>>);

impl MemoryCheckpoints {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the store's clock, ms.
    pub fn set_time(&self, now: ProcessingTime) {
        self.inner().now = now;
    }

    /// Lets every write fail like that from now on.
    pub fn fail_writes(&self, fault: WriteFault) {
        self.inner().fault = fault;
    }

    /// Lets every call fail from now on, or answers again.
    pub fn set_away(&self, is_away: bool) {
        self.inner().is_away = is_away;
    }

    /// Returns the files that were put, in order, those that were there already included.
    #[must_use]
    pub fn puts(&self) -> Vec<FileHash> {
        self.inner().puts.clone()
    }

    /// Changes the bytes of a file, as a failing disk does.
    pub fn damage(&self, lane: LaneId, hash: FileHash) {
        if let Some((content, _)) = self.inner().files.get_mut(&(lane, hash)) {
            content.push(0);
        }
    }

    fn read(&self) -> Result<MutexGuard<'_, Inner>, CheckpointError> {
        let inner = self.inner();
        if inner.is_away { Err(unavailable("it does not answer")) } else { Ok(inner) }
    }

    fn write(&self, change: impl FnOnce(&mut Inner)) -> Result<(), CheckpointError> {
        let mut inner = self.read()?;
        match inner.fault {
            WriteFault::Refused => return Err(unavailable("it refuses to write")),
            WriteFault::None | WriteFault::Ambiguous => change(&mut inner),
        }
        match inner.fault {
            WriteFault::Ambiguous => Err(unavailable("the answer was lost")),
            WriteFault::None | WriteFault::Refused => Ok(()),
        }
    }
}

fn unavailable(message: &str) -> CheckpointError {
    CheckpointError::Unavailable { store: PLACE.to_owned(), message: message.to_owned() }
}

fn missing(what: String) -> CheckpointError {
    CheckpointError::Missing { store: PLACE.to_owned(), what }
}

impl CheckpointStore for MemoryCheckpoints {
    fn place(&self) -> &str {
        PLACE
    }

    fn list(&self, lane: LaneId) -> Result<Vec<CheckpointId>, CheckpointError> {
        let inner = self.read()?;
        let of_lane = inner.manifests.iter().filter(|((of, _), _)| *of == lane);
        Ok(of_lane.rev().map(|(_, manifest)| manifest.id).collect())
    }

    fn manifest(&self, id: CheckpointId) -> Result<Manifest, CheckpointError> {
        let inner = self.read()?;
        let found = inner.manifests.get(&(id.lane, id.to_string())).cloned();
        found.ok_or_else(|| missing(format!("manifest {id}")))
    }

    fn publish(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let name = manifest.id.to_string();
        let place = (manifest.id.lane, name.clone());
        if let Some(there) = self.read()?.manifests.get(&place) {
            return match there == manifest {
                true => Ok(()),
                false => Err(CheckpointError::Exists {
                    store: PLACE.to_owned(),
                    what: format!("manifest {name}"),
                }),
            };
        }
        self.write(|inner| {
            inner.manifests.insert(place, manifest.clone());
        })
    }

    fn remove_manifest(&self, id: CheckpointId) -> Result<(), CheckpointError> {
        self.write(|inner| {
            inner.manifests.remove(&(id.lane, id.to_string()));
        })
    }

    fn files(&self, lane: LaneId) -> Result<Vec<KeptFile>, CheckpointError> {
        let inner = self.read()?;
        let of_lane = inner.files.iter().filter(|((of, _), _)| *of == lane);
        let kept = of_lane.map(|((_, hash), (content, written_at))| KeptFile {
            hash: *hash,
            bytes: content.len() as u64,
            written_at: *written_at,
        });
        Ok(kept.collect())
    }

    fn put(
        &self,
        lane: LaneId,
        file: &CheckpointFile,
        content: &mut dyn Read,
    ) -> Result<(), CheckpointError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|error| unavailable(&error.to_string()))?;
        self.write(|inner| {
            let now = inner.now;
            inner.puts.push(file.hash);
            inner.files.insert((lane, file.hash), (bytes, now));
        })
    }

    fn get(
        &self,
        lane: LaneId,
        hash: FileHash,
        into: &mut dyn Write,
    ) -> Result<(), CheckpointError> {
        let inner = self.read()?;
        let found = inner.files.get(&(lane, hash));
        let (content, _) = found.ok_or_else(|| missing(format!("file {hash}")))?;
        into.write_all(content).map_err(|error| unavailable(&error.to_string()))
    }

    fn remove(&self, lane: LaneId, hash: FileHash) -> Result<(), CheckpointError> {
        self.write(|inner| {
            inner.files.remove(&(lane, hash));
        })
    }
}
