//! The rules about what stays, what is trimmed and what is collected; names; the reference store.
use super::{memory::WriteFault, *};

const LANE: LaneId = LaneId(3);

fn hash(of: u8) -> FileHash {
    FileHash([of; 32])
}

fn manifest(epoch: u64, files: &[u8]) -> Manifest {
    let identity = Identity {
        pipeline: "p".into(),
        cluster_id: "c".into(),
        lanes: 4,
        inputs: Vec::new(),
        states: Vec::new(),
    };
    Manifest {
        id: CheckpointId { lane: LANE, epoch: Epoch(epoch), attempt: Attempt(7) },
        hash: epoch + 100,
        journal_next: i64::try_from(epoch).unwrap() * 10,
        identity,
        sources: Vec::new(),
        watermark: 0,
        revision: String::new(),
        created_at: 0,
        previous: None,
        files: files
            .iter()
            .map(|of| CheckpointFile { name: format!("{of}.sst"), bytes: 1, hash: hash(*of) })
            .collect(),
    }
}

fn kept(of: u8, written_at: i64) -> KeptFile {
    KeptFile { hash: hash(of), bytes: 1, written_at }
}

#[test]
fn names_sort_by_epoch_and_come_back_exactly() {
    let id = CheckpointId { lane: LANE, epoch: Epoch(4711), attempt: Attempt(0xab) };
    let name = id.to_string();
    assert_eq!(name, "00000000000000004711-000000000000000000000000000000ab");
    assert_eq!(CheckpointId::parse(LANE, &name), Ok(id));
    for foreign in ["", "4711-ab", "x", &name[1..], &name.to_uppercase(), &format!("{name}.json")] {
        assert!(CheckpointId::parse(LANE, foreign).is_err(), "{foreign}");
    }
    let text = hash(0x0f).to_string();
    assert_eq!(text.parse(), Ok(hash(0x0f)));
    let unicode = "\u{e9}".repeat(32);
    for foreign in ["", "0f", &text.to_uppercase(), &format!("{text}0"), &unicode] {
        assert!(foreign.parse::<FileHash>().is_err(), "{foreign}");
    }
}

#[test]
fn the_journal_is_trimmed_behind_the_second_newest_checkpoint_and_never_for_one_alone() {
    let (one, two, three) = (manifest(5, &[]), manifest(8, &[]), manifest(9, &[]));
    assert_eq!(trim_before([]), None);
    assert_eq!(trim_before([&one]), None);
    assert_eq!(trim_before([&one, &one]), None);
    assert_eq!(trim_before([&two, &one]), Some(50));
    assert_eq!(trim_before([&one, &three, &two]), Some(80));
}

#[test]
fn the_newest_stay_and_never_fewer_than_two() {
    assert_eq!(split_kept(&[9, 8, 7, 6], 3), (&[9, 8, 7][..], &[6][..]));
    assert_eq!(split_kept(&[9, 8, 7], 1), (&[9, 8][..], &[7][..]));
    assert_eq!(split_kept(&[9], 3), (&[9][..], &[][..]));
}

#[test]
fn only_what_no_manifest_reaches_and_is_old_is_collected() {
    let manifests = [manifest(5, &[1, 2]), manifest(6, &[2, 3])];
    let files = [kept(1, 0), kept(2, 0), kept(3, 0), kept(4, 0), kept(5, 901), kept(6, 900)];
    assert_eq!(garbage(&files, &manifests, 1_000, 100), [hash(4)]);
    // A file of the future, by a clock that differs, is not old.
    assert_eq!(garbage(&[kept(9, 5_000)], &manifests, 1_000, 100), []);
}

#[test]
fn a_file_that_may_be_collected_meanwhile_is_brought_again() {
    let manifests = [manifest(5, &[1])];
    let files = [kept(1, 0), kept(2, 0), kept(3, 960), kept(4, 940)];
    let present = present(&files, &manifests, 1_000, 100);
    assert_eq!(present.into_iter().collect::<Vec<_>>(), [(hash(1), 1), (hash(3), 1)]);
}

#[test]
fn the_reference_store_creates_manifests_once() {
    let store = MemoryCheckpoints::default();
    let first = manifest(5, &[1]);
    store.publish(&first).unwrap();
    store.publish(&first).unwrap();
    let other = Manifest { hash: 1, ..first.clone() };
    assert!(matches!(store.publish(&other), Err(CheckpointError::Exists { .. })));
    assert_eq!(store.manifest(first.id), Ok(first.clone()));
    store.publish(&manifest(12, &[])).unwrap();
    let listed: Vec<u64> = store.list(LANE).unwrap().iter().map(|id| id.epoch.0).collect();
    assert_eq!(listed, [12, 5]);
    assert_eq!(store.list(LaneId(0)), Ok(Vec::new()));
    store.remove_manifest(first.id).unwrap();
    assert!(matches!(store.manifest(first.id), Err(CheckpointError::Missing { .. })));
}

#[test]
fn the_reference_store_can_refuse_lose_answers_and_be_away() {
    let store = MemoryCheckpoints::default();
    let file = CheckpointFile { name: "1.sst".into(), bytes: 2, hash: hash(1) };
    store.fail_writes(WriteFault::Refused);
    assert!(store.put(LANE, &file, &mut &b"ab"[..]).is_err());
    assert_eq!(store.files(LANE), Ok(Vec::new()));
    store.fail_writes(WriteFault::Ambiguous);
    assert!(store.put(LANE, &file, &mut &b"ab"[..]).is_err());
    store.fail_writes(WriteFault::None);
    let mut content = Vec::new();
    store.get(LANE, hash(1), &mut content).unwrap();
    assert_eq!(content, b"ab");
    store.set_away(true);
    assert!(store.list(LANE).is_err() && store.get(LANE, hash(1), &mut content).is_err());
    store.set_away(false);
    store.remove(LANE, hash(1)).unwrap();
    let gone = store.get(LANE, hash(1), &mut content);
    assert!(matches!(gone, Err(CheckpointError::Missing { .. })));
}
