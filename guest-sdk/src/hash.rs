//! Hash maps whose order is the same in every process.
//!
//! Invariant: a plugin that iterates one gives the same results after a restart and in a replay.
//! A component and the same code compiled natively are two targets, and may differ in the order.

/// A hash map with a fixed seed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

/// A hash set with a fixed seed.
pub type HashSet<T> = std::collections::HashSet<T, foldhash::fast::FixedState>;

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn hashes_are_the_same_in_every_process() {
        let map = HashMap::<u8, u8>::default();
        // Written down once: whatever process comes here, comes to the same numbers.
        let hashes = (map.hasher().hash_one(7_u64), map.hasher().hash_one("order-7"));
        assert_eq!(hashes, (1_980_524_245_637_793_224, 1_096_195_278_341_758_092));
    }

    #[test]
    fn maps_that_were_filled_alike_iterate_alike() {
        let map = || (0..1_000_u32).map(|key| (key, ())).collect::<HashMap<_, _>>();
        let set = || (0..1_000_u32).collect::<HashSet<_>>();
        assert!(map().keys().eq(map().keys()));
        assert!(set().iter().eq(set().iter()));
    }
}
