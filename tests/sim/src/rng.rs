//! The one source of randomness: `SplitMix64` from a seed.
//!
//! Invariant: the same seed gives the same draws, on every machine.

/// A generator; a fork of it draws on its own.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// Draws 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a generator whose draws do not touch this one's.
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }

    /// Draws from `from..=to`.
    pub fn range(&mut self, from: i64, to: i64) -> i64 {
        let span = to.saturating_sub(from).max(0).cast_unsigned() + 1;
        from + (self.draw() % span).cast_signed()
    }

    /// Draws an index below `len`; 0 when `len` is 0.
    pub fn below(&mut self, len: usize) -> usize {
        usize::try_from(self.draw() % (len.max(1) as u64)).unwrap_or(0)
    }

    /// Draws true in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.draw() % 100 < u64::from(percent)
    }

    /// Draws one of these.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
