//! Random choices that a seed determines: a test that fails prints its seed, and the seed runs it again.
//!
//! **Owns**: the sequence ([`Random`]) and plain choices made of it. **Does not own**: what a test draws beyond that,
//! which it makes of these choices itself. For tests alone: nothing that is shipped depends on it.
//!
//! **Invariants**: a seed gives the same sequence and the same choices on every machine and in every version, since a
//! seed that found something is worth keeping. Neighbouring seeds give sequences that have nothing to do with each
//! other.
//!
//! **Paper**: Marsaglia, *Xorshift RNGs* (2003), with the multiplication of Vigna's xorshift64* (2016).
//!
//! ```
//! use thermocline_seeded::Random;
//!
//! for seed in 0..100 {
//!     let mut random = Random::new(seed);
//!     let length = random.below(10);
//!     let numbers: Vec<u64> = (0..length).map(|_| random.next_u64()).collect();
//!     let mut sorted = numbers.clone();
//!     sorted.sort_unstable();
//!     assert!(sorted.iter().all(|number| numbers.contains(number)), "seed {seed}: {numbers:?}");
//! }
//! ```

/// A sequence of choices.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        // Seeds are small numbers: their bits are spread, and no seed is the fixed point zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// All 64 bits are random.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which is neither 0 nor more than 2⁴⁸. The bias is far below what any test could see.
    ///
    /// # Panics
    /// There is no such number, or there are more of them than could come.
    pub fn below_u64(&mut self, end: u64) -> u64 {
        assert!((1..=1 << 48).contains(&end), "a number below {end}, expected an end from 1 to 2^48");
        // The low bits of a product are the least random.
        (self.next_u64() >> 16) % end
    }

    /// As [`below_u64`](Self::below_u64), for lengths and indexes.
    pub fn below(&mut self, end: usize) -> usize {
        self.below_u64(end as u64) as usize
    }

    /// True once in `chances` times.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of these, of which there is one at least.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// From 0 to 1, 1 left out.
    pub fn unit(&mut self) -> f64 {
        self.below_u64(1 << 32) as f64 / (1_u64 << 32) as f64
    }

    /// Between two bounds, every order of magnitude alike.
    pub fn magnitude(&mut self, low: f64, high: f64) -> u64 {
        (low * (high / low).powf(self.unit())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_for_ever() {
        let first = |seed| Random::new(seed).next_u64();
        assert_eq!(
            [first(0), first(1), first(2)],
            [0xbafa_cf62_4f01_c45d, 0x7403_d1a2_8c9a_2599, 0x9c73_7f6f_2053_810f]
        );
        let mut random = Random::new(7);
        let choices: Vec<usize> = (0..12).map(|_| random.below(10)).collect();
        assert_eq!(choices, [8, 8, 5, 8, 3, 1, 9, 0, 3, 1, 0, 1]);
    }

    #[test]
    fn neighbouring_seeds_have_nothing_to_do_with_each_other() {
        for seed in 0..200 {
            let draws = |seed| {
                let mut random = Random::new(seed);
                (0..1000).map(|_| random.below(100)).collect::<Vec<_>>()
            };
            let (one, other) = (draws(seed), draws(seed + 1));
            let same_count = one.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!(same_count < 40, "seeds {seed} and {}: {same_count} of 1000 alike, expected 10", seed + 1);
        }
    }

    #[test]
    fn every_choice_comes_about_as_often() {
        let mut random = Random::new(1);
        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[random.below(7)] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let hits = (0..50_000).filter(|_| random.one_in(5)).count();
        assert!((9_500..10_500).contains(&hits), "{hits} of 50,000, one in five");
        let sum: f64 = (0..10_000).map(|_| random.unit()).sum();
        assert!((4_800.0..5_200.0).contains(&sum), "{sum}");
        let large = (0..10_000).filter(|_| random.magnitude(1.0, 1e6) >= 1000).count();
        assert!((4_700..5_300).contains(&large), "{large} of 10,000 in the upper three of six orders of magnitude");
        let seen: std::collections::BTreeSet<_> = (0..100).map(|_| *random.pick(&["a", "b", "c"])).collect();
        assert_eq!(seen.len(), 3);
    }
}
