//! Choices that a seed determines, for simulations that can be replayed.

/// The sequence of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every seed gives a good one, neighbours too.
#[derive(Debug, Clone)]
pub(super) struct Seeded(u64);

impl Seeded {
    /// The sequence of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0. The bias is far below what any test could see.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
