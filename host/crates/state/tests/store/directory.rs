//! What `state.dir` refuses, and what it says then.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use dovetail_core::state::{StateStore, StoreError};
use dovetail_state::{Claim, DirectoryError, StateDirectory};

use crate::fixture::{BUDGET, Changes, LANE, all, apply, at, claim, open, open_directory};

fn refusal(path: &Path, claim: &Claim) -> String {
    StateDirectory::open(path, claim, 1, BUDGET).unwrap_err().to_string()
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// Pain P35.
#[test]
fn a_directory_in_use_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let held = open_directory(dir.path());
    let text = refusal(dir.path(), &claim());
    let holder = format!("state dir in use by pid {} since 10:00:02", std::process::id());
    assert_says(&text, &[&holder, "stop that process"]);
    // A store keeps the lock after its directory's handle is gone.
    let store = held.open_lane(LANE).unwrap();
    drop(held);
    assert_says(&refusal(dir.path(), &claim()), &["in use by pid"]);
    drop(store);
    open_directory(dir.path());
}

/// Pain P35.
#[test]
fn a_directory_of_another_pipeline_or_cluster_is_refused_with_both_names() {
    let dir = tempfile::tempdir().unwrap();
    open_directory(dir.path());
    let other = Claim { pipeline: "payments".to_owned(), ..claim() };
    let text = refusal(dir.path(), &other);
    assert_says(
        &text,
        &[
            "belongs to pipeline `ad-attribution` on cluster `cluster-1`",
            "not to pipeline `payments` on cluster `cluster-1`",
            "set `state.dir` to another directory",
        ],
    );
    let other = Claim { cluster_id: "cluster-2".to_owned(), ..claim() };
    assert_says(
        &refusal(dir.path(), &other),
        &["on cluster `cluster-1`", "on cluster `cluster-2`"],
    );
    open_directory(dir.path());
}

#[test]
fn a_directory_with_something_else_in_it_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "text").unwrap();
    assert_says(&refusal(dir.path(), &claim()), &["holds `thesis.txt`", "new or empty directory"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_of_another_format_names_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    open_directory(dir.path());
    let file = dir.path().join("pipeline");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "dovetail state, format 1\npipeline: ad-attribution\ncluster: cluster-1\n");
    fs::write(&file, text.replace("format 1", "format 2")).unwrap();
    assert_says(&refusal(dir.path(), &claim()), &["has format 2", "reads format 1"]);
    fs::write(&file, "nonsense\n").unwrap();
    assert_says(&refusal(dir.path(), &claim()), &["expected a line", "found \"nonsense\""]);
    fs::write(&file, b"dovetail state, format 1\npipeline: \xff\n").unwrap();
    let told = refusal(dir.path(), &claim());
    assert_says(&told, &[file.to_str().unwrap(), "expected text in UTF-8", "remove the state"]);
}

#[test]
fn the_admin_token_is_private_and_stays_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open_directory(dir.path());
    let token = directory.admin_token().unwrap();
    assert_eq!(token.len(), 64);
    let file = dir.path().join("admin-token");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(directory.admin_token().unwrap(), token);
    assert_eq!(mode(), 0o600);
    fs::write(&file, "").unwrap();
    let other = directory.admin_token().unwrap();
    assert!(other.len() == 64 && other != token, "an empty token is replaced");
}

#[test]
fn an_admin_token_that_is_cut_or_no_text_is_refused_with_its_path_and_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open_directory(dir.path());
    let token = directory.admin_token().unwrap();
    let file = dir.path().join("admin-token");
    let strange = [&[0xff, 0xfe], token.as_bytes()].concat();
    let broken = [&token.as_bytes()[..32], b"\n", token.as_bytes()].concat();
    for damaged in [&token.as_bytes()[..1], &token.as_bytes()[..31], &strange, &broken[..]] {
        fs::write(&file, damaged).unwrap();
        let told = directory.admin_token().unwrap_err().to_string();
        assert_says(&told, &[file.to_str().unwrap(), "at least 32", "remove it, and a new one"]);
        assert!(!told.contains(&token[..31]), "{told}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(directory.admin_token().unwrap().len(), 64);
}

fn written(path: &Path) -> PathBuf {
    let mut store = open(path);
    let rows: Changes = (0..200_u8).map(|n| (vec![2, n], Some(vec![n; 300]))).collect();
    apply(&mut store, &rows, b"head", at(0));
    store.flush().unwrap();
    store.path().to_owned()
}

fn files(lane: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(lane).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| is_wanted(path.file_name().unwrap().to_str().unwrap())).collect()
}

/// Does harm to a closed database.
type Damage = fn(&Path);

/// Opens and reads everything: damage inside a file shows when it is read.
fn open_and_read(directory: &StateDirectory) -> Result<(), StoreError> {
    let mut store = directory.open_lane(LANE)?;
    store.scan(&[2], &[9], &mut |_, _| std::ops::ControlFlow::Continue(()))
}

#[test]
fn a_damaged_database_is_told_apart_moved_aside_and_made_anew() {
    let damages: [(&str, Damage); 4] = [
        ("a table file is missing", |lane| {
            files(lane, |name| name.ends_with(".sst"))
                .iter()
                .for_each(|f| fs::remove_file(f).unwrap());
        }),
        ("a table file has other bytes", |lane| {
            for file in files(lane, |name| name.ends_with(".sst")) {
                let mut bytes = fs::read(&file).unwrap();
                bytes.iter_mut().take(600).for_each(|byte| *byte ^= 0x5a);
                fs::write(file, bytes).unwrap();
            }
        }),
        ("the manifest is missing", |lane| {
            let found = files(lane, |name| name.starts_with("MANIFEST"));
            found.iter().for_each(|f| fs::remove_file(f).unwrap());
        }),
        ("the pointer to the manifest is empty", |lane| {
            fs::write(lane.join("CURRENT"), "").unwrap();
        }),
    ];
    for (damage, make) in damages {
        let dir = tempfile::tempdir().unwrap();
        let lane = written(dir.path());
        make(&lane);
        let directory = open_directory(dir.path());
        let error = open_and_read(&directory).expect_err(damage);
        assert!(matches!(error, StoreError::Corrupt(_)), "{damage}: {error}");
        assert_says(&error.to_string(), &["lane-000", "rebuilt from the journal"]);
        let aside = directory.quarantine(LANE).unwrap();
        assert_eq!(aside, dir.path().join("lane-000.broken-1"));
        let mut store = directory.open_lane(LANE).unwrap();
        assert_eq!(store.head().unwrap(), None, "{damage}");
        drop(store);
        assert_eq!(directory.quarantine(LANE).unwrap(), dir.path().join("lane-000.broken-2"));
    }
}

#[test]
fn a_lane_that_is_open_already_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let directory = open_directory(dir.path());
    let store = directory.open_lane(LANE).unwrap();
    let error = directory.open_lane(LANE).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    drop(store);
}

#[test]
fn what_a_clear_left_behind_when_it_was_killed_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let lane = written(dir.path());
    let cleared = lane.with_extension("cleared");
    fs::rename(&lane, &cleared).unwrap();
    let mut store = open(dir.path());
    assert!(all(&mut store).is_empty());
    assert!(!cleared.exists());
}

#[test]
fn a_file_where_the_directory_should_be_is_told_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    fs::write(&file, "").unwrap();
    let error = StateDirectory::open(&file, &claim(), 1, BUDGET).unwrap_err();
    assert!(matches!(error, DirectoryError::Io { .. }));
    assert_says(&error.to_string(), &[file.to_str().unwrap(), "making the state directory"]);
}

#[test]
fn a_flipped_byte_in_a_table_file_is_found_by_the_read_that_meets_it() {
    let dir = tempfile::tempdir().unwrap();
    let lane = written(dir.path());
    for file in files(&lane, |name| name.ends_with(".sst")) {
        let mut bytes = fs::read(&file).unwrap();
        bytes[5] ^= 1;
        fs::write(file, bytes).unwrap();
    }
    let directory = open_directory(dir.path());
    // Opening reads what lies at a table's end only.
    let mut store = directory.open_lane(LANE).unwrap();
    let scanned = store.scan(&[], &[0xff; 8], &mut |_, _| std::ops::ControlFlow::Continue(()));
    assert!(matches!(scanned, Err(StoreError::Corrupt(_))), "{scanned:?}");
    // It is moved aside while its directory goes on being used.
    drop(store);
    directory.quarantine(LANE).unwrap();
    assert!(all(&mut directory.open_lane(LANE).unwrap()).is_empty());
}
