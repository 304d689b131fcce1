//! How much memory keyed state may use, shared by the lanes of one directory.
//!
//! Invariant: block cache and memtables are bounded for all lanes together, whatever one lane does;
//! the cache of hot rows is bounded per lane, an equal part each.

use rocksdb::{Cache, WriteBufferManager};

/// Bytes for the parts of keyed state that live in memory, for all lanes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Blocks of RocksDB's files, their indexes and filters included.
    pub block_cache: usize,
    /// Rows applied and not yet written to files.
    pub memtables: usize,
    /// Hot rows in front of RocksDB; 0 switches that cache off.
    pub row_cache: usize,
}

impl MemoryBudget {
    /// Splits bytes: half for hot rows, a quarter each for blocks and memtables.
    #[must_use]
    pub fn split(bytes: usize) -> Self {
        let quarter = bytes / 4;
        Self { block_cache: quarter, memtables: quarter, row_cache: bytes - 2 * quarter }
    }
}

/// Bytes that are used of the parts shared by all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// In the block cache.
    pub block_cache: usize,
    /// In memtables, those being written to files included.
    pub memtables: usize,
}

/// What the lanes share.
pub(crate) struct SharedMemory {
    pub(crate) budget: MemoryBudget,
    pub(crate) blocks: Cache,
    pub(crate) memtables: WriteBufferManager,
}

impl SharedMemory {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self {
            budget,
            // Entries of unknown size: the variant that grows its table.
            blocks: Cache::new_hyper_clock_cache(budget.block_cache, 0),
            // No stalls: a lane must never wait for the memory of another one.
            memtables: WriteBufferManager::new_write_buffer_manager(budget.memtables, false),
        }
    }

    pub(crate) fn in_use(&self) -> MemoryUse {
        MemoryUse { block_cache: self.blocks.get_usage(), memtables: self.memtables.get_usage() }
    }
}
