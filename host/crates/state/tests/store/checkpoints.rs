//! Real databases and a real folder: what is frozen is what was applied, uploads bring what is
//! missing, and what comes back is the same or is refused.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dovetail_core::{
    checkpoint::{
        CheckpointError, CheckpointFile, CheckpointId, CheckpointStore as _, FileHash, Frozen,
        FrozenFile, Manifest, Restoring,
    },
    epoch::{
        Attempt, Epoch, EpochRecord, LaneId, Owner, SourceState, StoredHead, TimerFloors, codec,
    },
    identity::{Identity, InputIdentity, StateIdentity},
    plugin::{StateKind, StateScope},
    record::{InputIndex, Partition, Source},
    state::{StateStore, StoreError},
};
use dovetail_runtime::checkpoint::{
    HashCache, RestoreError, UploadContext, UploadError, Uploaded, restore, tidy, upload, verify,
};
use dovetail_state::{
    RocksStore,
    checkpoint::{
        manifest::{self, ManifestError},
        objects::ObjectCheckpoints,
        owner::{self, OwnerError, StoreOwner},
    },
    identity as kept_identity,
};

use crate::fixture::{Changes, LANE, all, apply, at, open, open_directory};

const GRACE: i64 = 3_600_000;

fn identity() -> Identity {
    Identity {
        pipeline: "ad-attribution".to_owned(),
        cluster_id: "cluster-1".to_owned(),
        lanes: 1,
        inputs: vec![InputIdentity {
            name: "clicks".to_owned(),
            topic: "shop.clicks".to_owned(),
            partitions: 4,
            key_type: "string".to_owned(),
        }],
        states: vec![
            StateIdentity {
                name: "last".into(),
                kind: StateKind::Value,
                scope: StateScope::Keyed,
                schema_version: 1,
            },
            StateIdentity {
                name: "all".into(),
                kind: StateKind::Map,
                scope: StateScope::Keyed,
                schema_version: 2,
            },
        ],
    }
}

fn head(epoch: u64) -> StoredHead {
    let source = Source { input: InputIndex(0), partition: Partition(3) };
    let record = EpochRecord {
        lane: LANE,
        epoch: Epoch(epoch),
        attempt: Attempt(0xa1),
        owner: Owner { host: "here".to_owned(), pid: 1, started_at: 5 },
        previous_hash: epoch,
        identity: None,
        sources: vec![SourceState {
            source,
            position: 17,
            watermark: 1_000,
            is_idle: false,
            is_ended: true,
        }],
        watermark: 1_000,
        processing_time: 2_000,
        firing: None,
        continuation: None,
        timer_floors: TimerFloors::default(),
        revision: "sha256:1".to_owned(),
        outputs: 0,
        timers_fired: 0,
    };
    StoredHead { record, hash: epoch + 100, journal_next: i64::try_from(epoch).unwrap() * 10 }
}

/// Rows that do not compress well.
fn rows(from: u32, count: u32) -> Changes {
    let value = |n: u32| {
        (0..25_u32)
            .flat_map(|at| (n ^ (at * 0x9e37)).wrapping_mul(0x85eb_ca6b).to_be_bytes())
            .collect()
    };
    (from..from + count)
        .map(|n| ([&[2, 0, 1][..], &n.to_be_bytes()].concat(), Some(value(n))))
        .collect()
}

fn apply_epoch(store: &mut RocksStore, epoch: u64, changes: &Changes) {
    apply(store, changes, &codec::encode_stored(&head(epoch)), at(0));
}

/// Asks until what it needs is written, as a lane does after each epoch.
fn freeze(store: &mut RocksStore) -> Box<dyn Frozen> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if let Some(frozen) = store.freeze().unwrap() {
            return frozen;
        }
        std::thread::yield_now();
        // Goes through the database as other work of a lane does.
        store.head().unwrap();
    }
    panic!("the memtables are not written within two minutes");
}

/// Asks until there is an answer that is an error.
fn freeze_in_vain(store: &mut RocksStore) -> StoreError {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if let Err(error) = store.freeze() {
            return error;
        }
        std::thread::yield_now();
        store.head().unwrap();
    }
    panic!("there is no answer within two minutes");
}

#[test]
fn a_flush_that_fails_in_the_background_ends_the_freeze_and_the_next_apply_with_the_reason() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 10));
    drop(freeze(&mut rig.store));
    apply_epoch(&mut rig.store, 2, &rows(0, 10));
    let (lane, gone) = (rig.store.path().to_owned(), rig.path("gone"));
    fs::rename(&lane, &gone).unwrap();
    // Each time that is asked anew, too.
    for _ in 0..2 {
        let error = freeze_in_vain(&mut rig.store).to_string();
        assert!(error.contains("No such file or directory"), "{error}");
    }
    fs::rename(&gone, &lane).unwrap();
    let applied = rig.store.apply(&mut std::iter::empty(), b"head", at(0));
    assert!(matches!(applied, Err(StoreError::Corrupt(_))), "{applied:?}");
}

struct Rig {
    folder: tempfile::TempDir,
    store: RocksStore,
    kept: ObjectCheckpoints,
    cache: HashCache,
    published: Vec<Manifest>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("state"));
        let kept = kept(&folder.path().join("kept"));
        Self { folder, store, kept, cache: HashCache::default(), published: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn upload(&mut self) -> Result<Uploaded, UploadError> {
        self.upload_at(now())
    }

    fn upload_at(&mut self, now: i64) -> Result<Uploaded, UploadError> {
        let mut frozen = freeze(&mut self.store);
        let (identity, published) = (identity(), self.published.clone());
        let context = UploadContext {
            lane: LANE,
            identity: &identity,
            published: &published,
            now,
            grace: GRACE,
            give_up: &|| None,
        };
        let uploaded = upload(&self.kept, frozen.as_mut(), &mut self.cache, &context)?;
        self.published.insert(0, uploaded.manifest.clone());
        Ok(uploaded)
    }

    fn files(&self) -> usize {
        self.kept.files(LANE).unwrap().len()
    }

    /// Restores into another state directory and opens it.
    fn restored(&self, manifest: &Manifest) -> Result<RocksStore, String> {
        let directory = open_directory(&self.path("restored"));
        let into = directory.restore_lane(LANE).map_err(|error| error.to_string())?;
        restore(&self.kept, manifest, into, &mut || {}).map_err(|error| error.to_string())?;
        directory.open_lane(LANE).map_err(|error| error.to_string())
    }
}

fn kept(folder: &Path) -> ObjectCheckpoints {
    ObjectCheckpoints::in_folder(folder, Duration::from_secs(60)).unwrap()
}

fn now() -> i64 {
    dovetail_runtime::clock::now()
}

#[test]
fn what_comes_back_is_the_frozen_epoch_and_nothing_of_a_later_one() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 7, &rows(0, 2_000));
    let before = all(&mut rig.store);
    let mut frozen = freeze(&mut rig.store);
    apply_epoch(&mut rig.store, 8, &rows(5_000, 10));
    assert_eq!(codec::decode_stored(&frozen.head().unwrap()).unwrap(), head(7));
    drop(frozen);
    let left = fs::read_dir(rig.path("state")).unwrap().filter_map(Result::ok);
    assert!(!left.into_iter().any(|entry| entry.path().to_string_lossy().contains("frozen")));

    let uploaded = rig.upload().unwrap();
    assert_eq!(uploaded.manifest.id.epoch, Epoch(8));
    let mut restored = rig.restored(&uploaded.manifest).unwrap();
    assert_eq!(all(&mut restored), all(&mut rig.store));
    assert_ne!(all(&mut restored), before);
    let found = restored.head().unwrap().unwrap();
    assert_eq!(codec::decode_stored(&found).unwrap(), head(8));
    // It is a database like any other: it goes on.
    apply_epoch(&mut restored, 9, &rows(9_000, 1));
    assert_eq!(all(&mut restored).len(), 2_011);
}

#[test]
fn a_second_upload_brings_only_what_is_new() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 20_000));
    let first = rig.upload().unwrap();
    assert_eq!(first.new_bytes, first.manifest.bytes());
    let files = rig.files();
    apply_epoch(&mut rig.store, 2, &rows(90_000, 10));
    let second = rig.upload().unwrap();
    let tables = |manifest: &Manifest| -> Vec<FileHash> {
        let tables = manifest.files.iter().filter(|file| file.name.ends_with(".sst"));
        tables.map(|file| file.hash).collect()
    };
    let shared = tables(&first.manifest);
    assert!(shared.iter().all(|hash| tables(&second.manifest).contains(hash)));
    assert!(second.new_bytes * 20 < first.new_bytes, "{} {}", second.new_bytes, first.new_bytes);
    assert!(rig.files() > files);
    assert_eq!(second.manifest.previous, Some((Epoch(1), Attempt(0xa1))));
    // Both can be restored.
    for manifest in [&first.manifest, &second.manifest] {
        verify(&rig.kept, manifest).unwrap();
        let epoch = manifest.id.epoch;
        let found = rig.restored(manifest).unwrap().head().unwrap().unwrap();
        assert_eq!(codec::decode_stored(&found).unwrap().record.epoch, epoch);
    }
}

#[test]
fn the_first_upload_after_a_restart_brings_only_what_is_new_too() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 20_000));
    let first = rig.upload().unwrap();
    // Another process, so late that no file is young any more.
    rig.published.clear();
    rig.cache = HashCache::default();
    apply_epoch(&mut rig.store, 2, &rows(90_000, 10));
    let second = rig.upload_at(now() + 10 * GRACE).unwrap();
    assert!(second.new_bytes * 20 < first.new_bytes, "{} {}", second.new_bytes, first.new_bytes);
    verify(&rig.kept, &second.manifest).unwrap();
}

#[test]
fn files_larger_than_a_piece_travel_whole() {
    let rig = Rig::new();
    let content: Vec<u8> =
        (0..20_000_003_u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let file = CheckpointFile { name: "000001.sst".into(), bytes: 0, hash: FileHash([7; 32]) };
    rig.kept.put(LANE, &file, &mut &content[..]).unwrap();
    let mut found = Vec::new();
    rig.kept.get(LANE, file.hash, &mut found).unwrap();
    assert!(found == content);
    // Exactly one piece, and nothing.
    for size in [8 << 20, 0] {
        rig.kept.put(LANE, &file, &mut &content[..size]).unwrap();
        found.clear();
        rig.kept.get(LANE, file.hash, &mut found).unwrap();
        assert!(found == content[..size]);
    }
}

#[test]
fn a_damaged_cut_or_missing_file_is_found_and_leaves_the_lanes_place_as_it_was() {
    type Harm = fn(&Path);
    let harms: [(Harm, &str); 3] = [
        (
            |path| {
                let mut bytes = fs::read(path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            "expected",
        ),
        (|path| fs::write(path, b"short").unwrap(), "found 5 with"),
        (|path| fs::remove_file(path).unwrap(), "has no"),
    ];
    for (harm, told) in harms {
        let mut rig = Rig::new();
        apply_epoch(&mut rig.store, 1, &rows(0, 1_000));
        let manifest = rig.upload().unwrap().manifest;
        let table = manifest.files.iter().find(|file| file.name.ends_with(".sst")).unwrap();
        harm(&rig.path("kept").join(format!("files/0/{}", table.hash)));
        let error = verify(&rig.kept, &manifest).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        let error = rig.restored(&manifest).unwrap_err();
        assert!(error.contains(told), "{error}");
        let left: Vec<_> =
            fs::read_dir(rig.path("restored")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("lane-")), "{left:?}");
    }
}

/// A place on a disk that takes no byte more.
struct FullDisk;

impl Restoring for FullDisk {
    fn create<'a>(&'a mut self, _: &str) -> Result<Box<dyn io::Write + 'a>, StoreError> {
        // The system's own full disk.
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        full.map(|full| Box::new(full) as Box<dyn io::Write>)
            .map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        panic!("nothing was restored")
    }
}

/// What was frozen, whose files cannot be read.
struct Unreadable(Box<dyn Frozen>);

impl Frozen for Unreadable {
    fn head(&mut self) -> Result<bytes::Bytes, String> {
        self.0.head()
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>, String> {
        self.0.files()
    }

    fn open(&mut self, _: &str) -> Result<Box<dyn io::Read + Send>, String> {
        // A folder: every read of it fails.
        let folder = fs::File::open("/");
        folder
            .map(|folder| Box::new(folder) as Box<dyn io::Read + Send>)
            .map_err(|error| error.to_string())
    }
}

#[test]
fn a_local_disk_that_fails_is_not_told_as_the_checkpoint_stores_failure() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 10));
    let manifest = rig.upload().unwrap().manifest;
    let error = restore(&rig.kept, &manifest, Box::new(FullDisk), &mut || {}).unwrap_err();
    let RestoreError::Local(StoreError::Unavailable(told)) = &error else { panic!("{error}") };
    assert!(told.contains("No space left"), "{told}");
    assert!(!error.to_string().contains("the checkpoint store"), "{error}");

    // Hashes are known, so that only the upload itself reads.
    apply_epoch(&mut rig.store, 2, &rows(10, 10));
    rig.upload().unwrap();
    let emptied = kept(&rig.path("another"));
    let mut frozen = Unreadable(freeze(&mut rig.store));
    let context = UploadContext {
        lane: LANE,
        identity: &identity(),
        published: &[],
        now: now(),
        grace: GRACE,
        give_up: &|| None,
    };
    let error = upload(&emptied, &mut frozen, &mut rig.cache, &context).unwrap_err();
    assert!(matches!(error, UploadError::Frozen(_)), "{error}");
    let tables = frozen.files().unwrap().into_iter().find(|file| file.is_immutable).unwrap();
    // The first of them by name is a table, whose hash was known.
    assert!(error.to_string().contains(&tables.name), "{error}");
}

#[test]
fn a_manifest_is_created_once_and_a_repeated_try_counts() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 10));
    let manifest = rig.upload().unwrap().manifest;
    rig.kept.publish(&manifest).unwrap();
    let other = Manifest { hash: 1, ..manifest.clone() };
    let error = rig.kept.publish(&other).unwrap_err();
    assert!(matches!(error, CheckpointError::Exists { .. }), "{error}");
    assert_eq!(rig.kept.manifest(manifest.id), Ok(manifest.clone()));
    // The same epoch again, as after a lost answer.
    assert_eq!(rig.upload().unwrap().manifest, manifest);
    let file = rig.path("kept").join(format!("checkpoints/0/{}.json", manifest.id));
    fs::write(&file, "{}").unwrap();
    let error = rig.kept.manifest(manifest.id).unwrap_err();
    assert!(matches!(error, CheckpointError::Corrupt { .. }), "{error}");
    fs::write(rig.path("kept/checkpoints/0/notes.txt"), "").unwrap();
    assert_eq!(rig.kept.list(LANE), Ok(vec![manifest.id]));
}

#[test]
fn a_folder_that_cannot_be_used_is_named_and_heals() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 10));
    // A file in its place: what even the superuser cannot write into.
    fs::write(rig.path("kept"), "").unwrap();
    let error = rig.upload().unwrap_err();
    assert!(error.to_string().contains("kept"), "{error}");
    assert!(matches!(error, UploadError::Store(CheckpointError::Unavailable { .. })), "{error}");
    fs::remove_file(rig.path("kept")).unwrap();
    let first = rig.upload().unwrap().manifest;
    // And once it was used.
    fs::rename(rig.path("kept"), rig.path("away")).unwrap();
    fs::write(rig.path("kept"), "").unwrap();
    apply_epoch(&mut rig.store, 2, &rows(10, 10));
    rig.upload().unwrap_err();
    fs::remove_file(rig.path("kept")).unwrap();
    fs::rename(rig.path("away"), rig.path("kept")).unwrap();
    let second = rig.upload().unwrap().manifest;
    assert_eq!(rig.kept.list(LANE), Ok(vec![second.id, first.id]));
}

#[test]
fn tidying_keeps_what_two_manifests_reach_and_what_is_young() {
    let mut rig = Rig::new();
    for epoch in 1..=4 {
        apply_epoch(&mut rig.store, epoch, &rows(u32::try_from(epoch).unwrap() * 1_000, 500));
        rig.upload().unwrap();
    }
    let before = rig.files();
    tidy(&rig.kept, LANE, &rig.published, (2, now(), GRACE), None).unwrap();
    assert_eq!(rig.files(), before, "young files stay");
    let left: Vec<u64> = rig.kept.list(LANE).unwrap().iter().map(|id| id.epoch.0).collect();
    assert_eq!(left, [4, 3]);
    tidy(&rig.kept, LANE, &rig.published, (2, now() + 10 * GRACE, GRACE), None).unwrap();
    assert!(rig.files() < before);
    for manifest in &rig.published[..2] {
        verify(&rig.kept, manifest).unwrap();
    }
    // A successor has gone on: the lane is not ours any more.
    let mut ahead = rig.published[0].clone();
    ahead.id.epoch = Epoch(9);
    rig.kept.publish(&ahead).unwrap();
    tidy(&rig.kept, LANE, &rig.published[2..], (2, now(), GRACE), None).unwrap();
    assert_eq!(rig.kept.list(LANE).unwrap().len(), 3);
}

#[test]
fn tidying_removes_nothing_of_another_identity() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 500));
    let mut foreign = rig.upload().unwrap().manifest;
    rig.kept.remove_manifest(foreign.id).unwrap();
    // Ahead of ours, and the only one that reaches its files.
    foreign.id.epoch = Epoch(99);
    foreign.identity.pipeline = "another".to_owned();
    rig.kept.publish(&foreign).unwrap();
    rig.published.clear();
    for epoch in 2..=4 {
        apply_epoch(&mut rig.store, epoch, &rows(u32::try_from(epoch).unwrap() * 1_000, 500));
        rig.upload().unwrap();
    }
    tidy(&rig.kept, LANE, &rig.published, (2, now() + 10 * GRACE, GRACE), None).unwrap();
    let left: Vec<u64> = rig.kept.list(LANE).unwrap().iter().map(|id| id.epoch.0).collect();
    assert_eq!(left, [99, 4, 3]);
    verify(&rig.kept, &foreign).unwrap();
}

fn owner_of(pipeline: &str) -> StoreOwner {
    StoreOwner { pipeline: pipeline.to_owned(), cluster_id: "cluster-1".to_owned() }
}

#[test]
fn a_store_belongs_to_the_first_pipeline_that_uses_it_and_no_other_reads_or_changes_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = |pipeline| kept(folder.path()).owned_by(owner_of(pipeline));
    let first = store("ad-attribution");
    first.claim().unwrap();
    let other = store("sessions");
    let error = other.claim().unwrap_err();
    assert!(matches!(error, CheckpointError::Foreign { .. }), "{error}");
    let told = error.to_string();
    for part in ["`ad-attribution`", "`sessions`", "`cluster-1`", "set `checkpoint.store`"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(other.list(LANE), Err(error.clone()));
    let file = CheckpointFile { name: "000001.sst".into(), bytes: 1, hash: FileHash([7; 32]) };
    assert_eq!(other.put(LANE, &file, &mut &b"x"[..]), Err(error.clone()));
    assert_eq!(other.remove(LANE, file.hash), Err(error));
    // A later process of the same pipeline goes on.
    assert_eq!(store("ad-attribution").list(LANE), Ok(Vec::new()));
}

#[test]
fn a_damaged_owner_file_is_told_with_its_path_and_what_may_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = || kept(folder.path()).owned_by(owner_of("ad-attribution"));
    let file = folder.path().join("owner.json");
    for damaged in [&b""[..], b"{\"format\": 1, \"pipe", b"{}", b"\xff\xfe"] {
        fs::write(&file, damaged).unwrap();
        let error = store().claim().unwrap_err();
        assert!(matches!(error, CheckpointError::Corrupt { .. }), "{error}");
        let told = error.to_string();
        for part in [file.to_str().unwrap(), "`ad-attribution`", "remove this file"] {
            assert!(told.contains(part), "{told}");
        }
    }
    fs::remove_file(&file).unwrap();
    store().claim().unwrap();
    // What a later version wrote is no damage.
    fs::write(&file, "{\"format\": 2}").unwrap();
    let told = store().claim().unwrap_err().to_string();
    assert!(told.contains("use the version that wrote it") && !told.contains("remove"), "{told}");
}

#[test]
fn the_bytes_of_identity_format_1_are_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identity.json");
    assert_eq!(kept_identity::read(folder.path()), Ok(None));
    // What a crash has left of an earlier try is no obstacle.
    fs::write(folder.path().join("identity.unfinished"), "{").unwrap();
    kept_identity::keep(folder.path(), &Identity { lanes: 7, ..identity() }).unwrap();
    kept_identity::keep(folder.path(), &identity()).unwrap();
    let golden = include_str!("../fixtures/identity-1.json");
    assert_eq!(fs::read_to_string(&file).unwrap(), golden);
    assert_eq!(kept_identity::read(folder.path()), Ok(Some(identity())));
    for (from, to, told) in [
        ("\"format\": 1", "\"format\": 2", "format 2"),
        ("\"map\"", "\"list\"", "no kind of state"),
    ] {
        fs::write(&file, golden.replace(from, to)).unwrap();
        let error = kept_identity::read(folder.path()).unwrap_err();
        assert!(error.contains(told) && error.contains("identity.json"), "{error}");
    }
}

#[test]
fn the_bytes_of_owner_format_1_are_fixed() {
    let golden = include_bytes!("../fixtures/owner-1.json");
    let owner = owner_of("ad-attribution");
    assert_eq!(owner::encode(&owner), golden);
    assert_eq!(owner::decode(golden), Ok(owner));
    let later = String::from_utf8_lossy(golden).replace("\"format\": 1", "\"format\": 2");
    assert_eq!(owner::decode(later.as_bytes()), Err(OwnerError::Format(2)));
    let error = owner::decode(b"{\"format\": 1}").unwrap_err();
    assert!(matches!(error, OwnerError::Damaged(_)), "{error}");
}

#[test]
fn an_upload_is_given_up_when_it_is_told_to() {
    let mut rig = Rig::new();
    apply_epoch(&mut rig.store, 1, &rows(0, 10));
    let mut frozen = freeze(&mut rig.store);
    let context = UploadContext {
        lane: LANE,
        identity: &identity(),
        published: &[],
        now: now(),
        grace: GRACE,
        give_up: &|| Some(UploadError::Stopped),
    };
    let given_up = upload(&rig.kept, frozen.as_mut(), &mut rig.cache, &context);
    assert_eq!(given_up, Err(UploadError::Stopped));
    assert_eq!(rig.kept.list(LANE), Ok(Vec::new()));
}

#[test]
fn the_bytes_of_manifest_format_1_are_fixed() {
    let id = CheckpointId { lane: LaneId(3), epoch: Epoch(4711), attempt: Attempt(0xab) };
    let manifest = Manifest {
        id,
        hash: 0xcd,
        journal_next: 88_213,
        identity: identity(),
        sources: head(0).record.sources,
        watermark: 1_767_225_600_000,
        revision: "5e1f".to_owned(),
        created_at: 1_767_225_601_000,
        previous: Some((Epoch(4_700), Attempt(0xab))),
        files: vec![CheckpointFile {
            name: "000012.sst".to_owned(),
            bytes: 1_234,
            hash: FileHash([0x5a; 32]),
        }],
    };
    let golden = include_bytes!("../fixtures/manifest-1.json");
    let written = manifest::encode(&manifest);
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(golden));
    assert_eq!(manifest::decode(golden), Ok(manifest));
    let text = String::from_utf8_lossy(golden);
    let later = text.replace("\"format\": 1", "\"format\": 2");
    assert_eq!(manifest::decode(later.as_bytes()), Err(ManifestError::Format(2)));
    for (from, to) in [("\"attempt\"", "\"attempts\""), ("5a5a", "zz5a"), ("\"value\"", "\"list\"")]
    {
        let damaged = text.replacen(from, to, 1);
        let error = manifest::decode(damaged.as_bytes()).unwrap_err();
        assert!(matches!(error, ManifestError::Damaged(_)), "{from}: {error}");
    }
}
