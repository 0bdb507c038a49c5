//! From a key to the number of its row: by a bitmap with ranks where keys lie close together, else by hashing.

use crate::hash::mix;
use crate::kernels::{NO_RANK, ranks};

/// Bits of a bitmap that one row may cost: then it takes the bytes that hashing would.
const DENSE_BITS_PER_ROW: i128 = 64;
/// Bits that are cheap whatever the number of rows: a bitmap of a megabyte, near what second-level caches hold. A bit
/// that has to come from further away still takes no longer than a bucket of keys does.
const DENSE_BITS: i128 = 1 << 23;
/// Keys of a bucket: with their rows and their number they fill a cache line.
const BUCKET_KEYS: usize = 5;
/// Keys for each bucket on average: most buckets are not full, so that most searches end where they start.
const KEYS_PER_BUCKET: usize = 2;

/// Rows by key. Row `i` has the `i`th key in order.
#[derive(Debug)]
pub(crate) enum KeyIndex {
    Dense(DenseKeys),
    Hashed(HashedKeys),
}

impl KeyIndex {
    /// Of sorted distinct keys, fewer than 2^32.
    pub(crate) fn of(keys: &[i64]) -> Self {
        if Self::is_dense(keys) { Self::Dense(DenseKeys::of(keys)) } else { Self::Hashed(HashedKeys::of(keys)) }
    }

    fn is_dense(keys: &[i64]) -> bool {
        let span = span(keys);
        span <= DENSE_BITS || span <= keys.len() as i128 * DENSE_BITS_PER_ROW
    }

    /// Bytes that [`KeyIndex::of`] will take.
    pub(crate) fn size_bytes_of(keys: &[i64]) -> usize {
        if Self::is_dense(keys) {
            (span(keys) as usize).div_ceil(64) * 12
        } else {
            HashedKeys::bucket_count(keys.len()) * size_of::<Bucket>()
        }
    }

    /// The row with each of these keys, [`NO_RANK`] where there is none.
    pub(crate) fn rows(&self, keys: &[i64]) -> Vec<u32> {
        match self {
            Self::Dense(dense) => {
                let places: Vec<u64> = keys.iter().map(|key| key.wrapping_sub(dense.base) as u64).collect();
                let mut rows = Vec::with_capacity(keys.len());
                ranks(&places, &dense.bits, &dense.ranks, &mut rows);
                rows
            }
            Self::Hashed(hashed) => keys.iter().map(|key| hashed.row(*key).unwrap_or(NO_RANK)).collect(),
        }
    }

    /// The row with this key.
    #[inline]
    pub(crate) fn row(&self, key: i64) -> Option<u32> {
        match self {
            Self::Dense(keys) => keys.row(key),
            Self::Hashed(keys) => keys.row(key),
        }
    }
}

/// From the first to the last key, both included.
fn span(keys: &[i64]) -> i128 {
    match (keys.first(), keys.last()) {
        (Some(first), Some(last)) => i128::from(*last) - i128::from(*first) + 1,
        _ => 0,
    }
}

/// A bit for each possible key, and for each 64 of them the number of keys before. A row's number is its key's rank, so
/// that what rows carry lies together however sparse the keys are.
#[derive(Debug)]
pub(crate) struct DenseKeys {
    base: i64,
    bits: Vec<u64>,
    ranks: Vec<u32>,
}

impl DenseKeys {
    fn of(keys: &[i64]) -> Self {
        let base = keys.first().copied().unwrap_or(0);
        let mut bits = vec![0u64; (span(keys) as usize).div_ceil(64)];
        for key in keys {
            let place = key.wrapping_sub(base) as u64;
            bits[(place >> 6) as usize] |= 1 << (place & 63);
        }
        let mut before = 0;
        let ranks = bits
            .iter()
            .map(|word| {
                let rank = before;
                before += word.count_ones();
                rank
            })
            .collect();
        Self { base, bits, ranks }
    }

    /// The key of bit 0.
    pub(crate) fn base(&self) -> i64 {
        self.base
    }

    /// A bit for each key from the base on.
    pub(crate) fn bits(&self) -> &[u64] {
        &self.bits
    }

    /// Whether there is such a key.
    #[inline(always)]
    pub(crate) fn contains(&self, key: i64) -> bool {
        let place = key.wrapping_sub(self.base) as u64;
        self.bits.get((place >> 6) as usize).is_some_and(|word| word >> (place & 63) & 1 != 0)
    }

    #[inline(always)]
    fn row(&self, key: i64) -> Option<u32> {
        let place = key.wrapping_sub(self.base) as u64;
        let word = *self.bits.get((place >> 6) as usize)?;
        let below = word & ((1 << (place & 63)) - 1);
        (word >> (place & 63) & 1 != 0).then(|| self.ranks[(place >> 6) as usize] + below.count_ones())
    }
}

/// A cache line of keys and their rows.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    keys: [i64; BUCKET_KEYS],
    rows: [u32; BUCKET_KEYS],
    used: u32,
}

/// Buckets of a cache line each; what does not fit one goes on in the next.
#[derive(Debug)]
pub(crate) struct HashedKeys {
    buckets: Vec<Bucket>,
}

impl HashedKeys {
    fn bucket_count(key_count: usize) -> usize {
        (key_count / KEYS_PER_BUCKET + 1).next_power_of_two()
    }

    fn of(keys: &[i64]) -> Self {
        let mut table = Self { buckets: vec![Bucket::default(); Self::bucket_count(keys.len())] };
        for (row, key) in keys.iter().enumerate() {
            let mut at = table.start(*key);
            while table.buckets[at].used as usize == BUCKET_KEYS {
                at = (at + 1) & (table.buckets.len() - 1);
            }
            let bucket = &mut table.buckets[at];
            bucket.keys[bucket.used as usize] = *key;
            bucket.rows[bucket.used as usize] = row as u32;
            bucket.used += 1;
        }
        table
    }

    #[inline(always)]
    fn start(&self, key: i64) -> usize {
        mix(key as u64) as usize & (self.buckets.len() - 1)
    }

    /// The row with this key. There are more places than keys, so that every search ends.
    #[inline]
    pub(crate) fn row(&self, key: i64) -> Option<u32> {
        let mut at = self.start(key);
        loop {
            let bucket = &self.buckets[at];
            let used = bucket.used as usize;
            if let Some(found) = bucket.keys[..used.min(BUCKET_KEYS)].iter().position(|held| *held == key) {
                return Some(bucket.rows[found]);
            }
            if used < BUCKET_KEYS {
                return None;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn every_key_has_its_row_and_no_other_key_has_one() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let spread = [10, 1000, 1 << 22, u64::MAX][seed as usize % 4];
            let base = if seed % 3 == 0 { i64::MAX - 5 } else { random.next_u64() as i64 };
            let step = if random.one_in(3) { 1 << 20 } else { 1 };
            let mut keys: Vec<i64> = (0..random.below(2000))
                .map(|_| base.wrapping_add((random.next_u64() % spread).wrapping_mul(step) as i64))
                .collect();
            keys.sort_unstable();
            keys.dedup();
            let index = KeyIndex::of(&keys);
            for (row, key) in keys.iter().enumerate() {
                assert_eq!(index.row(*key), Some(row as u32), "seed {seed}, key {key}");
            }
            for _ in 0..1000 {
                let near = keys.get(random.below(keys.len() + 1)).copied().unwrap_or(0);
                let key = near.wrapping_add(random.below(9) as i64 - 4);
                let expected = keys.binary_search(&key).ok().map(|row| row as u32);
                assert_eq!(index.row(key), expected, "seed {seed}, key {key}");
                assert_eq!(index.rows(&[key]), [expected.unwrap_or(NO_RANK)], "seed {seed}, key {key}");
                if let KeyIndex::Dense(dense) = &index {
                    assert_eq!(dense.contains(key), expected.is_some(), "seed {seed}, key {key}");
                }
            }
        }
    }

    #[test]
    fn close_keys_are_a_bitmap_and_far_ones_are_hashed() {
        assert!(matches!(KeyIndex::of(&[19_920_101, 19_981_231]), KeyIndex::Dense(_)));
        assert!(matches!(KeyIndex::of(&[0, 1 << 40]), KeyIndex::Hashed(_)));
        assert!(matches!(KeyIndex::of(&[i64::MIN, i64::MAX]), KeyIndex::Hashed(_)));
    }
}
