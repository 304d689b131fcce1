//! A state directory as files: what a checkpoint of it holds.
//!
//! As a database does, it never changes a file of rows: what has changed goes into new ones, whose
//! numbers begin again in an empty directory. One file changes with every epoch and names the rest.
//!
//! Invariant: reading what was written gives the same rows and head.

use std::collections::BTreeMap;

use bytes::{Buf as _, Bytes};

use crate::history::{Rows, row_hash};

/// The file that holds the head and is written anew each time.
pub const CURRENT: &str = "CURRENT";
/// The rows are spread over that many files.
const PARTS: usize = 3;

/// Files by name.
pub type Files = BTreeMap<String, Bytes>;

/// The files of rows of one directory.
#[derive(Debug, Default, Clone)]
pub struct Image {
    parts: [Option<(String, Bytes)>; PARTS],
    number: u64,
}

fn put(content: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    content.extend_from_slice(&len.to_be_bytes());
    content.extend_from_slice(bytes);
}

fn take(content: &mut Bytes) -> Option<Bytes> {
    let len = usize::try_from(content.try_get_u32().ok()?).ok()?;
    (len <= content.len()).then(|| content.split_to(len))
}

impl Image {
    /// Writes what has changed; returns all files.
    pub fn write(&mut self, rows: &Rows, head: &Bytes) -> Files {
        let mut contents = vec![Vec::new(); PARTS];
        for (row, value) in &rows.rows {
            let at = usize::try_from(row_hash(row, b"") % PARTS as u64).unwrap_or(0);
            put(&mut contents[at], row);
            put(&mut contents[at], value);
        }
        for (part, content) in self.parts.iter_mut().zip(contents) {
            if content.is_empty() {
                *part = None;
            } else if part.as_ref().is_none_or(|(_, before)| *before != content) {
                self.number += 1;
                *part = Some((format!("{:06}.sst", self.number), content.into()));
            }
        }
        let files = self.parts.iter().flatten().cloned();
        files.chain([(CURRENT.to_owned(), head.clone())]).collect()
    }

    /// Returns rows and head of files, and the directory that they make; `None` when they are not
    /// what [`Self::write`] has written.
    #[must_use]
    pub fn read(files: &Files) -> Option<(Rows, Bytes, Self)> {
        let head = files.get(CURRENT)?.clone();
        let (mut rows, mut image) = (Rows::default(), Self::default());
        let parts = files.iter().filter(|(name, _)| *name != CURRENT);
        for (at, (name, content)) in parts.enumerate() {
            let mut left = content.clone();
            while !left.is_empty() {
                let (row, value) = (take(&mut left)?, take(&mut left)?);
                drop(rows.change(&row, Some(value)));
            }
            *image.parts.get_mut(at)? = Some((name.clone(), content.clone()));
            let number: u64 = name.strip_suffix(".sst")?.parse().ok()?;
            image.number = image.number.max(number);
        }
        Some((rows, head, image))
    }
}
