//! Hash maps whose order is the same on every machine.
//!
//! Invariant: a plugin that iterates one gives the same results after a restart and in a replay.

/// A hash map with a fixed seed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

/// A hash set with a fixed seed.
pub type HashSet<T> = std::collections::HashSet<T, foldhash::fast::FixedState>;
