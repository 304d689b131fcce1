//! The checkpoint store port over [`super::Objects`]: calls take virtual time, and may fail.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{
        CheckpointError, CheckpointFile, CheckpointId, CheckpointStore, FileHash, KeptFile,
        Manifest,
    },
    epoch::LaneId,
};

use super::Trouble;
use crate::{
    bugs::Bug,
    rows::Row,
    workload::BASE,
    world::{Process, Shared, World},
};

const PLACE: &str = "model:";

/// The checkpoint store as one process sees it.
pub struct SimCheckpoints {
    /// The simulation.
    pub shared: Arc<Shared>,
    /// The process.
    pub process: Process,
    /// How long a call may take, ms.
    pub timeout: i64,
}

fn unavailable(message: &str) -> CheckpointError {
    CheckpointError::Unavailable { store: PLACE.to_owned(), message: message.to_owned() }
}

fn missing(what: String) -> CheckpointError {
    CheckpointError::Missing { store: PLACE.to_owned(), what }
}

/// How a call goes: how long until it arrives, and until its answer does.
struct Travel {
    there: i64,
    back: i64,
}

impl SimCheckpoints {
    fn travel(&self) -> Travel {
        let mut world = self.shared.lock();
        let now = world.now;
        let (shortest, longest) = match world.objects.trouble(now) {
            Trouble::Slow(ms) => (ms / 2, ms),
            // Whoever asks waits as long as it may.
            Trouble::Away => (self.timeout, self.timeout),
            Trouble::None | Trouble::Refuses | Trouble::Ambiguous => (1, 10),
        };
        let there = world.rng.range(shortest, longest);
        Travel { there, back: world.rng.range(1, 10) }
    }

    fn call<T>(
        &self,
        what: &str,
        is_write: bool,
        execute: impl FnOnce(&mut World) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        if !self.shared.is_alive(self.process) {
            return Err(unavailable("this process is dead"));
        }
        let Travel { there, back } = self.travel();
        self.shared.sleep(self.process, there.min(self.timeout));
        // What is on its way arrives, whatever has become of the process.
        let answer = self.arrive(what, is_write, there, execute);
        self.shared.sleep(self.process, back);
        match self.shared.is_alive(self.process) {
            true => answer,
            false => Err(unavailable("this process is dead")),
        }
    }

    fn arrive<T>(
        &self,
        what: &str,
        is_write: bool,
        there: i64,
        execute: impl FnOnce(&mut World) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        let mut world = self.shared.lock();
        let (now, machine) = (world.now, self.process.machine);
        let trouble = world.objects.trouble(now);
        let is_late = there > self.timeout;
        let is_done = !is_late || world.rng.percent(50);
        let refused = match trouble {
            Trouble::Away => Some("it does not answer"),
            Trouble::Refuses if is_write => Some("it refuses to write"),
            _ if !is_done => Some("it took too long"),
            _ => None,
        };
        if let Some(why) = refused {
            world.counts.store_errors += 1;
            world.note(&format!("m{machine} store {what}: {why}"));
            return Err(unavailable(why));
        }
        let answer = execute(&mut world);
        world.note(&format!("m{machine} store {what}: {}", answer.is_ok()));
        let is_lost = is_late || (is_write && trouble == Trouble::Ambiguous);
        if is_lost {
            world.counts.store_errors += 1;
            world.counts.unknown_puts += u64::from(is_write);
            return Err(unavailable("the answer was lost"));
        }
        answer
    }
}

impl CheckpointStore for SimCheckpoints {
    fn place(&self) -> &str {
        PLACE
    }

    fn list(&self, lane: LaneId) -> Result<Vec<CheckpointId>, CheckpointError> {
        let max = if self.shared.has(Bug::CollectsReachable) { 1 } else { usize::MAX };
        self.call(&format!("list {}", lane.0), false, |world| {
            Ok(world.objects.manifests(lane.0).map(|manifest| manifest.id).take(max).collect())
        })
    }

    fn manifest(&self, id: CheckpointId) -> Result<Manifest, CheckpointError> {
        self.call(&format!("manifest {}/{id}", id.lane.0), false, |world| {
            let found = world.objects.manifest(id).cloned();
            found.ok_or_else(|| missing(format!("manifest {id}")))
        })
    }

    fn publish(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let id = manifest.id;
        self.call(&format!("publish {}/{id}", id.lane.0), true, |world| {
            match world.objects.manifest(id) {
                Some(there) if there == manifest => Ok(()),
                Some(_) => {
                    let what = format!("manifest {id}");
                    Err(CheckpointError::Exists { store: PLACE.to_owned(), what })
                }
                None => {
                    world.objects.publish(manifest);
                    world.published(manifest);
                    Ok(())
                }
            }
        })
    }

    fn remove_manifest(&self, id: CheckpointId) -> Result<(), CheckpointError> {
        self.call(&format!("remove manifest {}/{id}", id.lane.0), true, |world| {
            world.removes_manifest(id);
            world.objects.remove_manifest(id);
            Ok(())
        })
    }

    fn files(&self, lane: LaneId) -> Result<Vec<KeptFile>, CheckpointError> {
        self.call(&format!("files {}", lane.0), false, |world| Ok(world.objects.files(lane)))
    }

    fn put(
        &self,
        lane: LaneId,
        file: &CheckpointFile,
        content: &mut dyn Read,
    ) -> Result<(), CheckpointError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|error| unavailable(&error.to_string()))?;
        let by_name = self.shared.has(Bug::FileByNameAndSize);
        self.call(&format!("put {}/{}", lane.0, file.name), true, |world| {
            let objects = &mut world.objects;
            let known = objects.of_name_and_size(lane, &file.name, bytes.len());
            let bytes = known.filter(|_| by_name).unwrap_or_else(|| Bytes::from(bytes));
            let now = BASE + world.now;
            world.objects.put(lane, file, bytes, now);
            Ok(())
        })
    }

    fn get(
        &self,
        lane: LaneId,
        hash: FileHash,
        into: &mut dyn Write,
    ) -> Result<(), CheckpointError> {
        let found = self.call(&format!("get {}", lane.0), false, |world| {
            let found = world.objects.file(lane, hash).cloned();
            let is_sound = found.as_ref().is_some_and(|bytes| crate::objects::hash(bytes) == hash);
            if !is_sound {
                world.count_row(Row::CheckpointDamaged);
            }
            found.ok_or_else(|| missing(format!("file {hash}")))
        })?;
        into.write_all(&found).map_err(|error| unavailable(&error.to_string()))
    }

    fn remove(&self, lane: LaneId, hash: FileHash) -> Result<(), CheckpointError> {
        self.call(&format!("remove {}", lane.0), true, |world| {
            world.removes_file(lane, hash);
            world.objects.remove(lane, hash);
            Ok(())
        })
    }
}
