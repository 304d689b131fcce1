//! How a lane's database is set up.
//!
//! Chosen for small rows that are mostly looked up by key: bloom filters in files and memtables, a
//! hash index in data blocks, and indexes and filters inside the memory budget.

use rocksdb::{BlockBasedOptions, DBCompressionType, DataBlockIndexType, LogLevel, Options};

use crate::{
    budget::SharedMemory,
    expiry_filter::{ExpiryFilterFactory, ExpiryTerms},
};

/// Files that no write touches are compacted this often, so that expired rows leave them too.
const PERIODIC_COMPACTION_SECONDS: u64 = 6 * 60 * 60;
const MEMTABLE_MIN: usize = 1 << 20;
/// More than is applied between two flushes.
const MEMTABLE_MAX: usize = 128 << 20;

pub(crate) fn database(memory: &SharedMemory, expiry: &ExpiryTerms) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table(memory));
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_compaction_filter_factory(ExpiryFilterFactory(expiry.clone()));
    options.set_periodic_compaction_seconds(PERIODIC_COMPACTION_SECONDS);

    // The manager bounds all lanes together; one memtable may take up to half of that.
    options.set_write_buffer_manager(&memory.memtables);
    let memtable = (memory.budget.memtables / 2).clamp(MEMTABLE_MIN, MEMTABLE_MAX);
    options.set_write_buffer_size(memtable);
    options.set_max_write_buffer_number(4);
    options.set_memtable_prefix_bloom_ratio(0.05);
    options.set_memtable_whole_key_filtering(true);
    options.set_max_background_jobs(2);

    // One writer per database.
    options.set_allow_concurrent_memtable_write(false);

    // RocksDB's own diary, small.
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options
}

fn table(memory: &SharedMemory) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&memory.blocks);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(10.0, false);
    table.set_optimize_filters_for_memory(true);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(0.75);
    // Written down, so that files do not change with a library's default.
    table.set_format_version(6);
    table
}
