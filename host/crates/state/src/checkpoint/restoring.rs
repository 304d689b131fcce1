//! A lane's place while it is filled with the files of a checkpoint.
//!
//! Invariant: the lane's folder is either what it was or all of the checkpoint.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use dovetail_core::{checkpoint::Restoring, state::StoreError};

use super::is_database_file;
use crate::failure::file_error;

/// A folder beside the lane's, which it replaces in the end.
#[derive(Debug)]
pub(crate) struct RestoringLane {
    lane: PathBuf,
    side: PathBuf,
    names: Vec<String>,
}

impl RestoringLane {
    pub(crate) fn begin(lane: PathBuf) -> Result<Self, StoreError> {
        let side = lane.with_extension("restoring");
        remove(&side)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&side)
            .map_err(|error| file_error(&side, "making a folder to restore into", &error))?;
        Ok(Self { lane, side, names: Vec::new() })
    }
}

impl Restoring for RestoringLane {
    fn create<'a>(&'a mut self, name: &str) -> Result<Box<dyn Write + 'a>, StoreError> {
        if !is_database_file(name) {
            return Err(StoreError::Corrupt(format!("{name:?} is no file of a database")));
        }
        let path = self.side.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| file_error(&path, "restoring it", &error))?;
        self.names.push(name.to_owned());
        Ok(Box::new(file))
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        for path in self.names.iter().map(|name| self.side.join(name)).chain([self.side.clone()]) {
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(|error| file_error(&path, "making it durable", &error))?;
        }
        // It was closed and held nothing applied.
        remove(&self.lane)?;
        fs::rename(&self.side, &self.lane)
            .map_err(|error| file_error(&self.side, "moving it into its place", &error))
    }
}

impl Drop for RestoringLane {
    fn drop(&mut self) {
        // Nothing is left of it after `finish`; else it is removed when the next one begins.
        drop(fs::remove_dir_all(&self.side));
    }
}

fn remove(folder: &PathBuf) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error(folder, "removing it", &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
