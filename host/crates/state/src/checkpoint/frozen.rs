//! A database frozen by hard links in a folder beside it.
//!
//! Invariant: the folder is gone when this is dropped; what a kill leaves behind is removed when the
//! state directory is opened.

use std::{
    fs::{self, File},
    io::Read,
    path::PathBuf,
};

use bytes::Bytes;
use dovetail_core::checkpoint::{Frozen, FrozenFile};
use rocksdb::{DB, Options};

use super::{is_database_file, is_table};
use crate::store::HEAD_ROW;

/// The folder with the links.
#[derive(Debug)]
pub(crate) struct FrozenDatabase(pub(crate) PathBuf);

impl FrozenDatabase {
    fn error(&self, error: impl std::fmt::Display) -> String {
        format!("{}: {error}", self.0.display())
    }
}

impl Frozen for FrozenDatabase {
    fn head(&mut self) -> Result<Bytes, String> {
        // Opening it also shows that the links make a database.
        let opened = DB::open_for_read_only(&Options::default(), &self.0, false);
        let database = opened.map_err(|error| self.error(error))?;
        let head = database.get(HEAD_ROW).map_err(|error| self.error(error))?;
        head.map(Bytes::from).ok_or_else(|| self.error("no epoch was applied"))
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>, String> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(|error| self.error(error))? {
            let entry = entry.map_err(|error| self.error(error))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !is_database_file(&name) {
                continue;
            }
            let bytes = entry.metadata().map_err(|error| self.error(error))?.len();
            let is_immutable = is_table(&name);
            files.push(FrozenFile { name, bytes, is_immutable });
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }

    fn open(&mut self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        let file = File::open(self.0.join(name)).map_err(|error| self.error(error))?;
        Ok(Box::new(file))
    }
}

impl Drop for FrozenDatabase {
    fn drop(&mut self) {
        // What is left is removed at the next start.
        drop(fs::remove_dir_all(&self.0));
    }
}
