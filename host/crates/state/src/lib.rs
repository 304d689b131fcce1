//! Keyed state and timers in RocksDB.
