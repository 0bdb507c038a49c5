//! Random draws that a seed, a data set and a record's number settle: the same ones on every machine and thread.
//!
//! Owns the generator and the shapes of its draws. Not for cryptography, and not for statistics beyond "looks random".

/// Draws for one record.
pub(super) struct Draws(u64);

impl Draws {
    /// `stream` tells data sets of one seed apart.
    pub(super) fn new(seed: u64, stream: u64, record: u64) -> Self {
        // Xorshift must not begin at 0, and neighbouring states would give neighbouring draws: mix first.
        let mixed = mixed(mixed(mixed(seed) ^ stream) ^ record);
        Self(mixed | 1)
    }

    fn next(&mut self) -> u64 {
        // xorshift64*: the upper bits are the good ones.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 to `count` - 1; 0 if `count` is 0.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included; they are less than 2^63 apart.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// A number in [0, 1).
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True in `percent` of a hundred draws.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, each as often as the others. There is at least one.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// One of `choices`, the first ones far more often: a quarter of the draws falls on the first 1/16.
    pub(super) fn pick_skewed<T: Copy>(&mut self, choices: &[T]) -> T {
        let share = self.share();
        choices[(share * share * choices.len() as f64) as usize]
    }

    /// A count with a long tail: `middle` is about the median, few are beyond `10 * middle`, none beyond `most`.
    pub(super) fn long_tailed(&mut self, middle: f64, most: u64) -> u64 {
        // Pareto's distribution of shape 1.3 less its least value: median about 0.7 of the scale.
        let scale = middle / 0.704;
        let tail = (1.0 - self.share()).powf(-1.0 / 1.3) - 1.0;
        ((scale * tail) as u64).min(most)
    }
}

/// The finalizer of splitmix64: every bit of the input moves half of the output's.
fn mixed(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_their_bounds_and_reach_both_ends() {
        let mut draws = Draws::new(7, 1, 0);
        let mut seen = [false; 11];
        for _ in 0..10_000 {
            seen[(draws.between(-5, 5) + 5) as usize] = true;
            assert!((0.0..1.0).contains(&draws.share()));
            assert!(draws.long_tailed(10.0, 40) <= 40);
            assert_eq!(draws.below(0), 0);
        }
        assert_eq!(seen, [true; 11]);
    }

    #[test]
    fn half_of_a_long_tail_is_below_its_middle() {
        let below = (0..10_000).filter(|&record| Draws::new(3, 2, record).long_tailed(100.0, 100_000) < 100).count();
        assert!((4_800..5_200).contains(&below), "{below} of 10,000");
    }

    #[test]
    fn neighbouring_records_and_streams_draw_apart() {
        let first = |stream, record| Draws::new(1, stream, record).next();
        let drawn: std::collections::HashSet<u64> =
            (0..100).flat_map(|stream| (0..100).map(move |record| first(stream, record))).collect();
        // The lowest bit is set, so that two of ten thousand begin alike is as good as impossible.
        assert_eq!(drawn.len(), 10_000);
    }
}
