//! One lane's keyed state in RocksDB, behind core's store port.
//!
//! Without a write-ahead log: an epoch is one write batch with the head inside, and the journal
//! repeats what a crash takes from the memtables. Point reads meet the cache of hot rows first.
//!
//! Knows nothing of Kafka or plugins, and reads no clock: when to flush is judged by the processing
//! time that comes with each epoch.
//!
//! Invariants:
//! - Row keys that begin with 0x00 or 0x01 are the store's own and never reach a reader.
//! - The cache holds what the database holds; when a write fails it is emptied.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use dovetail_core::{
    checkpoint::Frozen,
    state::{
        Clocks, ExpiryTable, StateSize, StateStore, StoreError, StoreReads, Visit,
        row::{BROADCAST_PREFIX, STATE_PREFIX},
    },
    time::ProcessingTime,
};
use rocksdb::{
    DB, FlushOptions, ReadOptions, WriteBatch, WriteOptions,
    checkpoint::Checkpoint,
    properties::{self, PropName},
};

use crate::cache::CacheCounts;
use crate::{
    cache::RowCache,
    checkpoint::frozen::FrozenDatabase,
    directory::StateDirectory,
    expiry_filter::ExpiryTerms,
    failure::{file_error, store_error},
    options,
};

/// The row of the last applied epoch's head.
pub(crate) const HEAD_ROW: &[u8] = b"\x00head";
/// Row keys from here on are core's.
const FIRST_ROW: &[u8] = &[STATE_PREFIX];
/// Folders of frozen copies: `lane-000.frozen-7`.
pub(crate) const FROZEN_EXTENSION: &str = "frozen";
/// Numbers them within the process.
static FROZEN: AtomicU64 = AtomicU64::new(0);
/// After so many ms of applied epochs the memtables are written to files.
const FLUSH_AFTER_MS: i64 = 30_000;
/// After so many applied bytes they are, too: what a kill makes the journal repeat.
const FLUSH_AFTER_BYTES: usize = 64 << 20;

/// How far the files are behind what was applied.
#[derive(Debug, Default)]
struct Lag {
    bytes: usize,
    since: Option<ProcessingTime>,
}

/// Keyed state and timers of one lane, in RocksDB.
///
/// Made by [`StateDirectory::open_lane`]; keeps its directory locked while it lives.
pub struct RocksStore {
    /// `None` only after [`StateStore::clear`] failed half-way.
    database: Option<DB>,
    path: PathBuf,
    directory: StateDirectory,
    expiry: ExpiryTerms,
    cache: RowCache,
    read: ReadOptions,
    write: WriteOptions,
    batch_bytes: usize,
    lag: Lag,
    /// Set while a flush is on its way for the next frozen copy: how many background failures there
    /// had been before.
    freezes: Option<u64>,
}

impl std::fmt::Debug for RocksStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RocksStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Replaces the lengths of expiry of one store, from wherever it is.
///
/// Belongs to the store it came from: one opened later has its own.
#[derive(Debug, Clone)]
pub struct ExpirySetter(ExpiryTerms);

impl ExpirySetter {
    /// Replaces the lengths of expiry, from the next compaction on.
    pub fn set(&self, table: ExpiryTable) {
        self.0.set_table(table);
    }
}

impl RocksStore {
    pub(crate) fn open(directory: StateDirectory, path: PathBuf) -> Result<Self, StoreError> {
        remove_cleared(&path)?;
        let expiry = ExpiryTerms::default();
        let database = Some(open_database(&directory, &path, &expiry)?);
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        let cache = RowCache::new(directory.row_cache_per_lane());
        Ok(Self {
            database,
            path,
            directory,
            expiry,
            cache,
            read: ReadOptions::default(),
            write,
            batch_bytes: 0,
            lag: Lag::default(),
            freezes: None,
        })
    }

    /// Replaces the lengths of expiry, from the next compaction on.
    ///
    /// Until the first call, and until an epoch has been applied, nothing is removed by expiry.
    pub fn set_expiry(&mut self, table: ExpiryTable) {
        self.expiry.set_table(table);
    }

    /// Returns a way to replace the lengths of expiry while somebody else owns the store.
    #[must_use]
    pub fn expiry_setter(&self) -> ExpirySetter {
        ExpirySetter(self.expiry.clone())
    }

    /// Returns where the database lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rewrites all files now: expired rows leave the disk. Takes as long as the state is large.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        let database = database(self.database.as_ref(), &self.path)?;
        let mut how = rocksdb::CompactOptions::default();
        // Files that are at the bottom already are rewritten too.
        how.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
        database.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &how);
        Ok(())
    }

    fn flush_now(&mut self, wait: bool) -> Result<(), StoreError> {
        let database = database(self.database.as_ref(), &self.path)?;
        let mut how = FlushOptions::default();
        how.set_wait(wait);
        database.flush_opt(&how).map_err(|error| store_error(&self.path, &error))?;
        self.lag = Lag::default();
        Ok(())
    }

    fn flush_if_due(
        &mut self,
        applied_bytes: usize,
        now: ProcessingTime,
    ) -> Result<(), StoreError> {
        self.lag.bytes += applied_bytes;
        let since = *self.lag.since.get_or_insert(now);
        let is_old = now.saturating_sub(since) >= FLUSH_AFTER_MS;
        if is_old || self.lag.bytes >= FLUSH_AFTER_BYTES {
            self.flush_now(false)?;
        }
        Ok(())
    }

    /// Returns the frozen copy, or `None` while its flush is on its way.
    fn freeze_or_wait(&mut self) -> Result<Option<FrozenDatabase>, StoreError> {
        let failures_before = match self.freezes {
            Some(failures) => failures,
            None => {
                let failures = self.number(properties::BACKGROUND_ERRORS)?;
                self.flush_now(false)?;
                *self.freezes.insert(failures)
            }
        };
        if self.number(properties::NUM_IMMUTABLE_MEM_TABLE)? > 0 {
            self.check_background(failures_before)?;
            return Ok(None);
        }
        let number = FROZEN.fetch_add(1, Ordering::Relaxed);
        let side = self.path.with_extension(format!("{FROZEN_EXTENSION}-{number}"));
        let links =
            Checkpoint::new(database(self.database.as_ref(), &self.path)?).and_then(|checkpoint| {
                // What the files lack came after the flush: it is not waited for.
                checkpoint.create_checkpoint_with_log_size(&side, u64::MAX)
            });
        links.map_err(|error| store_error(&side, &error))?;
        Ok(Some(FrozenDatabase(side)))
    }

    /// A flush in the background tells nobody that it failed: asks whether it did.
    fn check_background(&self, failures_before: u64) -> Result<(), StoreError> {
        let database = database(self.database.as_ref(), &self.path)?;
        // Changes nothing, and is refused with the reason by a database that writes no more.
        database
            .write_opt(WriteBatch::default(), &self.write)
            .map_err(|error| store_error(&self.path, &error))?;
        if self.number(properties::BACKGROUND_ERRORS)? > failures_before {
            return Err(StoreError::Unavailable(format!(
                "{path}: what is in memory could not be written to files; {path}/LOG says why",
                path = self.path.display()
            )));
        }
        Ok(())
    }

    fn number(&self, property: &PropName) -> Result<u64, StoreError> {
        let database = database(self.database.as_ref(), &self.path)?;
        let number = database.property_int_value(property);
        Ok(number.map_err(|error| store_error(&self.path, &error))?.unwrap_or(0))
    }
}

impl StateStore for RocksStore {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if is_own(row) {
            return Ok(None);
        }
        let is_cached = is_cached(row);
        if is_cached && let Some(known) = self.cache.get(row) {
            return Ok(known);
        }
        let database = database(self.database.as_ref(), &self.path)?;
        let found = database
            .get_pinned_opt(row, &self.read)
            .map_err(|error| store_error(&self.path, &error))?;
        if is_cached {
            self.cache.insert(row, found.as_deref());
        }
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let from = from.max(FIRST_ROW);
        if from >= to {
            return Ok(());
        }
        let database = database(self.database.as_ref(), &self.path)?;
        let mut bounds = ReadOptions::default();
        // The bound keeps RocksDB from walking over removed rows behind the range.
        bounds.set_iterate_upper_bound(to);
        let mut rows = database.raw_iterator_opt(bounds);
        rows.seek(from);
        while let Some((row, value)) = rows.item() {
            if visit(row, value).is_break() {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| store_error(&self.path, &error))
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        clocks: Clocks,
    ) -> Result<(), StoreError> {
        let database = database(self.database.as_ref(), &self.path)?;
        let mut batch = WriteBatch::with_capacity_bytes(self.batch_bytes);
        // In order, RocksDB's memtable takes rows in half the time: each is near the one before.
        let mut sorted: Vec<_> = changes.collect();
        sorted.sort_by(|one, other| one.0.cmp(other.0));
        for (row, value) in sorted {
            if is_own(row) {
                self.cache.clear();
                return Err(StoreError::Corrupt(format!(
                    "row key {row:02x?} begins with a byte that belongs to the store"
                )));
            }
            match value {
                Some(value) => batch.put(row, value),
                None => batch.delete(row),
            }
            match value {
                _ if !is_cached(row) => {}
                Some(_) => self.cache.insert(row, value),
                None => self.cache.remove(row),
            }
        }
        batch.put(HEAD_ROW, head);
        let bytes = batch.size_in_bytes();
        if let Err(error) = database.write_opt(batch, &self.write) {
            self.cache.clear();
            return Err(store_error(&self.path, &error));
        }
        // Room for an epoch like this one, without keeping that of the largest one for ever.
        self.batch_bytes = bytes.midpoint(self.batch_bytes);
        self.expiry.set_clocks(clocks);
        self.flush_if_due(bytes, clocks.processing_time)
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        let database = database(self.database.as_ref(), &self.path)?;
        let head = database.get_opt(HEAD_ROW, &self.read);
        Ok(head.map_err(|error| store_error(&self.path, &error))?.map(Bytes::from))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.flush_now(true)
    }

    fn reads(&self) -> StoreReads {
        let CacheCounts { hits, misses, .. } = self.cache.counts();
        StoreReads { hits, misses }
    }

    fn size(&self) -> StateSize {
        let Some(database) = &self.database else {
            return StateSize::default();
        };
        // A property that cannot be had counts as nothing: the size is for people to look at.
        let property = |name| database.property_int_value(name).ok().flatten().unwrap_or(0);
        StateSize {
            rows: property(properties::ESTIMATE_NUM_KEYS),
            bytes: property(properties::TOTAL_SST_FILES_SIZE)
                + property(properties::CUR_SIZE_ALL_MEM_TABLES),
        }
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        let frozen = self.freeze_or_wait();
        if !matches!(frozen, Ok(None)) {
            self.freezes = None;
        }
        Ok(frozen?.map(|frozen| Box::new(frozen) as Box<dyn Frozen>))
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.freezes = None;
        self.cache.clear();
        self.expiry.forget_clocks();
        self.lag = Lag::default();
        // Closed first: files of an open database must not be moved.
        drop(self.database.take());
        // Moved in one step: a crash leaves either all of it or nothing under the lane's name.
        let cleared = cleared_path(&self.path);
        remove_cleared(&self.path)?;
        match fs::rename(&self.path, &cleared) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file_error(&self.path, "moving it away to clear it", &error));
            }
            Ok(()) | Err(_) => {}
        }
        remove_cleared(&self.path)?;
        self.database = Some(open_database(&self.directory, &self.path, &self.expiry)?);
        Ok(())
    }
}

/// Returns the open database, borrowing only that field.
fn database<'a>(database: Option<&'a DB>, path: &Path) -> Result<&'a DB, StoreError> {
    database.ok_or_else(|| {
        StoreError::Unavailable(format!(
            "{}: closed after a failed clear: reopen it",
            path.display()
        ))
    })
}

fn open_database(
    directory: &StateDirectory,
    path: &Path,
    expiry: &ExpiryTerms,
) -> Result<DB, StoreError> {
    let options = options::database(directory.memory(), expiry);
    DB::open(&options, path).map_err(|error| store_error(path, &error))
}

/// Returns whether a row key belongs to the store itself.
fn is_own(row: &[u8]) -> bool {
    row < FIRST_ROW
}

/// Returns whether a row may be read by its key: timers are only scanned.
fn is_cached(row: &[u8]) -> bool {
    matches!(row.first(), Some(&STATE_PREFIX | &BROADCAST_PREFIX))
}

fn cleared_path(path: &Path) -> PathBuf {
    path.with_extension("cleared")
}

fn remove_cleared(path: &Path) -> Result<(), StoreError> {
    let cleared = cleared_path(path);
    match fs::remove_dir_all(&cleared) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error(&cleared, "removing it", &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
