//! A state directory of format 1, as it was written once, is read by every later version.
//!
//! `DOVETAIL_WRITE_FIXTURES=1 cargo test -p dovetail-state golden` writes it anew: for a new format
//! only, beside the old one.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use dovetail_core::state::StateStore;

use crate::fixture::{Changes, Rows, all, apply, at, open};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/state/format-1")
}

fn rows(numbers: impl Iterator<Item = u8>) -> Rows {
    numbers.map(|n| (vec![2, 0, n, 0, 1, 0, 3], vec![1, 0, 0, 1, n, n, n])).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Keeps of a database what it needs, and nothing that names the machine it was made on.
fn keep_essentials(lane: &Path) {
    for entry in fs::read_dir(lane).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_essential =
            name.ends_with(".sst") || name.starts_with("MANIFEST") || name == "CURRENT";
        if !is_essential {
            fs::remove_file(path).unwrap();
        }
    }
}

fn write_fixture(to: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let put = |rows: Rows| -> Changes {
        rows.into_iter().map(|(row, value)| (row, Some(value))).collect()
    };
    apply(&mut store, &put(rows(0..100)), b"head of epoch 1", at(0));
    store.flush().unwrap();
    let removed = rows(10..20).into_iter().map(|(row, _)| (row, None)).collect();
    apply(&mut store, &removed, b"head of epoch 2", at(0));
    store.flush().unwrap();
    drop(store);
    keep_essentials(&dir.path().join("lane-000"));
    fs::remove_file(dir.path().join("lock")).unwrap();
    copy(dir.path(), to);
}

#[test]
fn a_directory_of_format_1_opens_with_its_rows_and_head() {
    if env::var_os("DOVETAIL_WRITE_FIXTURES").is_some() {
        write_fixture(&fixture());
    }
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(), dir.path());
    let mut store = open(dir.path());
    assert_eq!(store.head().unwrap().as_deref(), Some(&b"head of epoch 2"[..]));
    let expected = rows((0..10).chain(20..100));
    assert_eq!(all(&mut store), expected);
    let [row, value] = [&expected[50].0, &expected[50].1];
    assert_eq!(store.get(row).unwrap().as_deref(), Some(&value[..]));
    assert_eq!(store.get(&rows(10..11)[0].0).unwrap(), None);
}
