//! Random draws that a seed, a table and a row's number settle: the same ones on every machine and thread.
//!
//! Owns the generator. Not for cryptography. A stream starts anywhere at the cost of two mixes, which is what lets
//! parts of a table be produced apart; dbgen skips ahead in one stream for each column instead.

/// Draws for one row, or one order with its lines.
#[derive(Debug, Clone)]
pub(crate) struct Draws(u64);

/// Odd, and with its bits spread: what splitmix64 counts by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draws {
    /// What [`Self::of_row`] starts from for every row of a table; `stream` tells tables of one seed apart.
    pub(crate) fn key_of(seed: u64, stream: u64) -> u64 {
        mixed(mixed(seed.wrapping_add(STEP)) ^ stream)
    }

    /// The draws of row `index`.
    pub(crate) fn of_row(key: u64, index: u64) -> Self {
        // Neighbouring states would overlap as sequences; mixed ones lie far apart.
        Self(mixed(key.wrapping_add(index.wrapping_mul(STEP))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number from 0 to `count` - 1, each as often as the others; 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included; `low` is not above `high`.
    pub(crate) fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below(u64::from(high.abs_diff(low)) + 1) as i32
    }

    /// One of `choices`, each as often as the others. There is at least one.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The finalizer of splitmix64: every bit of the input moves half of the output's.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_reach_both_ends_of_their_range_and_go_no_further() {
        let mut draws = Draws::of_row(Draws::key_of(7, 1), 0);
        let mut seen = [false; 11];
        for _ in 0..10_000 {
            seen[(draws.between(-5, 5) + 5) as usize] = true;
            assert_eq!(draws.below(0), 0);
        }
        assert_eq!(seen, [true; 11]);
    }

    #[test]
    fn neighbouring_rows_streams_and_seeds_draw_apart() {
        let first = |seed, stream, row| Draws::of_row(Draws::key_of(seed, stream), row).next();
        let drawn: std::collections::HashSet<u64> = (0..10)
            .flat_map(|seed| (0..10).flat_map(move |stream| (0..100).map(move |row| first(seed, stream, row))))
            .collect();
        assert_eq!(drawn.len(), 10_000);
    }
}
