//! A model of the checkpoint store: manifests and files that outlive machines and disks.
//!
//! Knows no clients: a call is executed at the moment it arrives ([`SimCheckpoints`] is the client).
//! It can be away, refuse to write, do what it was asked for and say that it did not, be slow; it
//! can lose manifests, let files rot, and be replaced by an older copy of itself.
//!
//! Its clock and those of the machines differ by less than the grace within which nothing is
//! collected: machines' clocks that jump are not shown to it.

mod port;

use std::collections::BTreeMap;

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{CheckpointFile, CheckpointId, FileHash, KeptFile, Manifest},
    epoch::LaneId,
};
use sha2::{Digest as _, Sha256};

pub use self::port::SimCheckpoints;
use crate::{disk::image::Files, rng::Rng};

type ManifestKey = (u16, u64, u128);
type FileKey = (u16, FileHash);

/// What goes wrong with every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// There is no answer.
    Away,
    /// Writes are refused.
    Refuses,
    /// Writes are done and answered with an error.
    Ambiguous,
    /// An answer takes about that long, ms.
    Slow(i64),
}

#[derive(Debug, Clone)]
struct Content {
    /// What it is called in a database's folder.
    name: String,
    bytes: Bytes,
    written_at: i64,
    is_rotten: bool,
}

/// What is kept.
#[derive(Debug, Clone, Default)]
struct Kept {
    manifests: BTreeMap<ManifestKey, Manifest>,
    files: BTreeMap<FileKey, Content>,
}

/// The checkpoint store.
#[derive(Debug, Default)]
pub struct Objects {
    kept: Kept,
    copy: Kept,
    trouble: (Trouble, i64),
    /// Checkpoints that were published since one was lost, by lane; absent while none was lost.
    since_loss: BTreeMap<u16, u32>,
}

/// Returns the name that content must have.
fn hash(bytes: &[u8]) -> FileHash {
    FileHash(Sha256::digest(bytes).into())
}

fn key(id: CheckpointId) -> ManifestKey {
    (id.lane.0, id.epoch.0, id.attempt.0)
}

impl Objects {
    /// Something goes wrong with every call until then, virtual ms.
    pub fn disturb(&mut self, trouble: Trouble, until: i64) {
        self.trouble = (trouble, until);
    }

    /// Returns what goes wrong now.
    #[must_use]
    pub fn trouble(&self, now: i64) -> Trouble {
        if self.trouble.1 > now { self.trouble.0 } else { Trouble::None }
    }

    /// Returns the manifests of a lane, newest first.
    pub fn manifests(&self, lane: u16) -> impl Iterator<Item = &Manifest> {
        self.kept.manifests.range((lane, 0, 0)..=(lane, u64::MAX, u128::MAX)).rev().map(|it| it.1)
    }

    fn manifest(&self, id: CheckpointId) -> Option<&Manifest> {
        self.kept.manifests.get(&key(id))
    }

    fn publish(&mut self, manifest: &Manifest) {
        self.kept.manifests.insert(key(manifest.id), manifest.clone());
        if let Some(count) = self.since_loss.get_mut(&manifest.id.lane.0) {
            *count += 1;
        }
    }

    fn remove_manifest(&mut self, id: CheckpointId) {
        self.kept.manifests.remove(&key(id));
    }

    fn files(&self, lane: LaneId) -> Vec<KeptFile> {
        let of_lane = self.kept.files.iter().filter(|((of, _), _)| *of == lane.0);
        let kept = of_lane.map(|((_, hash), content)| KeptFile {
            hash: *hash,
            bytes: content.bytes.len() as u64,
            written_at: content.written_at,
        });
        kept.collect()
    }

    fn put(&mut self, lane: LaneId, file: &CheckpointFile, bytes: Bytes, written_at: i64) {
        let content = Content { name: file.name.clone(), bytes, written_at, is_rotten: false };
        self.kept.files.insert((lane.0, file.hash), content);
    }

    /// Returns what is kept under a name and has a size, whatever its hash.
    fn of_name_and_size(&self, lane: LaneId, name: &str, bytes: usize) -> Option<Bytes> {
        let of_lane = self.kept.files.iter().filter(|((of, _), _)| *of == lane.0);
        let mut contents = of_lane.map(|(_, content)| content);
        contents
            .find(|content| content.name == name && content.bytes.len() == bytes)
            .map(|content| content.bytes.clone())
    }

    fn file(&self, lane: LaneId, hash: FileHash) -> Option<&Bytes> {
        self.kept.files.get(&(lane.0, hash)).map(|content| &content.bytes)
    }

    fn remove(&mut self, lane: LaneId, hash: FileHash) {
        self.kept.files.remove(&(lane.0, hash));
    }

    /// Returns the files of a manifest by name, as far as they are there in their full size.
    #[must_use]
    pub fn files_of(&self, manifest: &Manifest) -> Files {
        let files = manifest.files.iter().filter_map(|file| {
            let bytes = self.file(manifest.id.lane, file.hash)?;
            (bytes.len() as u64 == file.bytes).then(|| (file.name.clone(), bytes.clone()))
        });
        files.collect()
    }

    /// Returns whether a file of a manifest has rotted.
    #[must_use]
    pub fn has_rot(&self, manifest: &Manifest) -> bool {
        let mut files = manifest.files.iter();
        let lane = manifest.id.lane.0;
        files.any(|file| {
            self.kept.files.get(&(lane, file.hash)).is_some_and(|content| content.is_rotten)
        })
    }

    /// Returns whether a file can be reached from one of the two newest manifests.
    #[must_use]
    pub fn is_reachable(&self, lane: LaneId, hash: FileHash) -> bool {
        let mut newest = self.manifests(lane.0).take(2);
        newest.any(|manifest| manifest.files.iter().any(|file| file.hash == hash))
    }

    /// Makes the copy that [`Self::fall_back`] brings back.
    pub fn copy(&mut self) {
        self.copy = self.kept.clone();
    }

    /// Becomes the copy.
    pub fn fall_back(&mut self) {
        self.kept = self.copy.clone();
    }

    /// Loses the manifest of a lane that comes after so many newer ones; returns whether there was
    /// one.
    pub fn lose_manifest(&mut self, lane: u16, newer: usize) -> bool {
        let id = self.manifests(lane).nth(newer).map(|manifest| manifest.id);
        if let Some(id) = id {
            self.remove_manifest(id);
        }
        id.is_some()
    }

    /// Lets one file of a lane's newest checkpoint rot; returns whether there was one.
    pub fn rot(&mut self, lane: u16, rng: &mut Rng) -> bool {
        let Some(newest) = self.manifests(lane).next() else { return false };
        let hashes: Vec<FileHash> = newest.files.iter().map(|file| file.hash).collect();
        let at = rng.below(hashes.len());
        let file = hashes.get(at).and_then(|hash| self.kept.files.get_mut(&(lane, *hash)));
        let Some(file) = file else { return false };
        let mut bytes = file.bytes.to_vec();
        let Some(last) = bytes.last_mut() else { return false };
        *last ^= 1;
        (file.bytes, file.is_rotten) = (bytes.into(), true);
        true
    }

    /// Makes a lane's newest manifest one of another history.
    pub fn falsify(&mut self, lane: u16) {
        let id = self.manifests(lane).next().map(|manifest| manifest.id);
        if let Some(id) = id
            && let Some(manifest) = self.kept.manifests.get_mut(&key(id))
        {
            manifest.hash ^= 0x5555;
        }
    }

    /// Notes that a lane lost a checkpoint; returns whether another one was lost before two were
    /// published since: then none may be left that the journal continues.
    pub fn note_loss(&mut self, lane: u16) -> bool {
        self.since_loss.insert(lane, 0).is_some_and(|published| published < 2)
    }
}
