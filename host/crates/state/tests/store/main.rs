//! RocksDB as a store: the same as the reference in memory, through kills and across versions.
//!
//! Modules are marked `cfg(test)` so that clippy knows their helpers as test code too.

#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod kill;
