//! Tests against a slow, obvious CSV parser (`oracle`).
#![allow(clippy::unwrap_used, clippy::panic)]

mod decoding;
mod errors;
mod inference;
mod oracle;
mod structure;

/// A small seeded generator, so that every failure can be run again.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Seeds are small numbers: spread their bits, and never start at the fixed point zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize) % limit
    }

    /// One in `count`.
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Prints the seed of a failing round.
pub(super) fn for_seeds(rounds: u64, test: impl Fn(&mut Random)) {
    for seed in 0..rounds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut Random::new(seed))));
        if let Err(panic) = outcome {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("failed with seed {seed}");
            }
            std::panic::resume_unwind(panic);
        }
    }
}
