//! From a key to the number of its row: by a bitmap with ranks where keys lie close together, by a directory where they
//! lie evenly, else by hashing.

use super::ordered_keys::OrderedKeys;
use crate::hash::mix;
use crate::kernels::{NO_RANK, prefetch_value, ranks};
use crate::threads::Threads;

/// Bits of a bitmap that one row may cost: then it takes the bytes that hashing would.
const DENSE_BITS_PER_ROW: i128 = 64;
/// Bits that are cheap whatever the number of rows: a bitmap of a megabyte, near what second-level caches hold. A bit
/// that has to come from further away still takes no longer than a bucket of keys does.
const DENSE_BITS: i128 = 1 << 23;
/// Keys of a bucket: with their rows and their number they fill a cache line.
const BUCKET_KEYS: usize = 5;
/// So many keys are in parts.
const MANY_KEYS: usize = if cfg!(test) { 512 } else { 1 << 16 };
/// Parts of a table of many keys: as many as four bits tell apart.
const PARTS: usize = 16;
/// Keys whose buckets are brought near together before any is looked into.
const KEYS_AT_ONCE: usize = 32;
/// Keys for each bucket on average: most buckets are not full, so that most searches end where they start.
const KEYS_PER_BUCKET: usize = 2;

/// Rows by key.
#[derive(Debug)]
pub(crate) enum KeyIndex {
    Dense(DenseKeys),
    Ordered(OrderedKeys),
    Hashed(HashedKeys),
}

impl KeyIndex {
    /// Of sorted distinct keys, fewer than 2^32: row `i` has the `i`th.
    pub(crate) fn of(keys: &[i64], threads: Threads) -> Self {
        let range = keys.first().copied().zip(keys.last().copied());
        if Self::is_dense(range, keys.len()) {
            return Self::Dense(DenseKeys::of(keys, range));
        }
        match range.and_then(|range| OrderedKeys::of(keys, range, threads)) {
            // Their order is the order that they have.
            Some((ordered, ..)) => Self::Ordered(ordered),
            None => Self::Hashed(HashedKeys::of(keys, threads).0),
        }
    }

    /// Of keys in no order that lie in `range`, fewer than 2^32, and which of them each row has; `None` if two are the
    /// same.
    pub(crate) fn of_distinct(keys: &[i64], range: Option<(i64, i64)>, threads: Threads) -> Option<(Self, Vec<u32>)> {
        if !Self::is_dense(range, keys.len()) {
            if let Some((ordered, order, are_distinct)) = range.and_then(|range| OrderedKeys::of(keys, range, threads))
            {
                return are_distinct.then_some((Self::Ordered(ordered), order));
            }
            let (hashed, are_distinct) = HashedKeys::of(keys, threads);
            return are_distinct.then(|| (Self::Hashed(hashed), (0..keys.len() as u32).collect()));
        }
        let dense = DenseKeys::of(keys, range);
        if dense.key_count() < keys.len() {
            return None;
        }
        let mut order = vec![0; keys.len()];
        for (place, key) in keys.iter().enumerate() {
            if let Some(row) = dense.row(*key) {
                order[row as usize] = place as u32;
            }
        }
        Some((Self::Dense(dense), order))
    }

    /// Of keys in no order that lie in `range`, fewer than 2^32, of which some are the same: where the rows of each key
    /// start, and the last end, and which of the keys each row has. `None` if they do not lie close together.
    pub(crate) fn of_repeated(keys: &[i64], range: Option<(i64, i64)>) -> Option<(Self, Vec<u32>, Vec<u32>)> {
        if !Self::is_dense(range, keys.len()) {
            return None;
        }
        let dense = DenseKeys::of(keys, range);
        let rank = |key: &i64| dense.row(*key).unwrap_or(0) as usize;
        let mut starts = vec![0u32; dense.key_count() + 1];
        keys.iter().for_each(|key| starts[rank(key) + 1] += 1);
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        let mut next = starts.clone();
        let mut order = vec![0; keys.len()];
        for (place, key) in keys.iter().enumerate() {
            let row = &mut next[rank(key)];
            order[*row as usize] = place as u32;
            *row += 1;
        }
        Some((Self::Dense(dense), starts, order))
    }

    fn is_dense(range: Option<(i64, i64)>, key_count: usize) -> bool {
        let span = span(range);
        span <= DENSE_BITS || span <= key_count as i128 * DENSE_BITS_PER_ROW
    }

    /// Bytes that they take.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Dense(keys) => keys.bits.len() * 12,
            Self::Ordered(keys) => keys.size_bytes(),
            Self::Hashed(keys) => keys.size_bytes(),
        }
    }

    /// Bytes that so many keys will take, about; less if they lie evenly.
    pub(crate) fn size_bytes_of(range: Option<(i64, i64)>, key_count: usize) -> usize {
        if Self::is_dense(range, key_count) {
            (span(range) as usize).div_ceil(64) * 12
        } else {
            HashedKeys::size_bytes_of(key_count)
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
            Self::Ordered(ordered) => ordered.rows(keys),
            Self::Hashed(hashed) => hashed.rows(keys),
        }
    }

    /// The row with this key.
    #[inline]
    pub(crate) fn row(&self, key: i64) -> Option<u32> {
        match self {
            Self::Dense(keys) => keys.row(key),
            Self::Ordered(keys) => keys.row(key),
            Self::Hashed(keys) => keys.row(key),
        }
    }
}

/// From the first to the last key, both included.
fn span(range: Option<(i64, i64)>) -> i128 {
    range.map_or(0, |(first, last)| i128::from(last) - i128::from(first) + 1)
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
    fn of(keys: &[i64], range: Option<(i64, i64)>) -> Self {
        let base = range.map_or(0, |(first, _)| first);
        let mut bits = vec![0u64; (span(range) as usize).div_ceil(64)];
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

    fn key_count(&self) -> usize {
        let last = self.bits.last().map_or(0, |word| word.count_ones());
        self.ranks.last().map_or(0, |before| (before + last) as usize)
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

/// Keys by their hashes: in a part by the highest bits, in a bucket of it by the lowest. Parts can be made at the same
/// time.
#[derive(Debug)]
pub(crate) struct HashedKeys {
    /// One, or [`PARTS`].
    parts: Vec<Part>,
}

/// Buckets of a cache line each; what does not fit one goes on in the next.
#[derive(Debug)]
struct Part {
    buckets: Vec<Bucket>,
}

impl Part {
    /// With room for more than so many keys.
    fn with_room(key_count: usize) -> Self {
        Self { buckets: vec![Bucket::default(); Self::bucket_count(key_count)] }
    }

    fn bucket_count(key_count: usize) -> usize {
        (key_count / KEYS_PER_BUCKET + 1).next_power_of_two()
    }

    #[inline(always)]
    fn start(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// Adds a key and its row; whether the key is new, as far as its bucket and those it went on to tell.
    fn insert(&mut self, hash: u64, key: i64, row: u32) -> bool {
        let mut at = self.start(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let used = bucket.used as usize;
            if bucket.keys[..used.min(BUCKET_KEYS)].contains(&key) {
                return false;
            }
            if used < BUCKET_KEYS {
                bucket.keys[used] = key;
                bucket.rows[used] = row;
                bucket.used += 1;
                return true;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// The row with this key. There are more places than keys, so that every search ends.
    #[inline]
    fn row(&self, hash: u64, key: i64) -> Option<u32> {
        let mut at = self.start(hash);
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

impl HashedKeys {
    fn part_count(key_count: usize) -> usize {
        if key_count < MANY_KEYS { 1 } else { PARTS }
    }

    /// Where each part has as many keys as the others.
    fn size_bytes_of(key_count: usize) -> usize {
        let part_count = Self::part_count(key_count);
        part_count * Part::bucket_count(key_count / part_count) * size_of::<Bucket>()
    }

    fn size_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.buckets.len() * size_of::<Bucket>()).sum()
    }

    /// Of distinct keys, row `i` having the `i`th; and whether they are distinct: if not, some are missing.
    fn of(keys: &[i64], threads: Threads) -> (Self, bool) {
        let part_count = Self::part_count(keys.len());
        let parts = threads.each_of_few(part_count, |parts| {
            // Keys that were chosen for it may all be of one part.
            let mut key_counts = vec![0; parts.len()];
            for part in keys.iter().map(|key| part_of(mix(*key as u64), part_count)).filter(|part| parts.contains(part))
            {
                key_counts[part - parts.start] += 1;
            }
            let mut made: Vec<Part> = key_counts.into_iter().map(Part::with_room).collect();
            let mut hashes = Vec::with_capacity(KEYS_AT_ONCE);
            for (at, keys) in keys.chunks(KEYS_AT_ONCE).enumerate() {
                hashes.clear();
                let hashed =
                    keys.iter().enumerate().map(|(row, key)| (mix(*key as u64), *key, at * KEYS_AT_ONCE + row));
                hashes.extend(hashed.filter(|(hash, ..)| parts.contains(&part_of(*hash, part_count))));
                for (hash, ..) in &hashes {
                    let part = &made[part_of(*hash, part_count) - parts.start];
                    prefetch_value(&part.buckets[part.start(*hash)]);
                }
                for (hash, key, row) in &hashes {
                    let part = &mut made[part_of(*hash, part_count) - parts.start];
                    if !part.insert(*hash, *key, *row as u32) {
                        return (made, false);
                    }
                }
            }
            (made, true)
        });
        let are_distinct = parts.iter().all(|(_, are_distinct)| *are_distinct);
        (Self { parts: parts.into_iter().flat_map(|(parts, _)| parts).collect() }, are_distinct)
    }

    /// The row with each of some keys, [`NO_RANK`] where there is none.
    fn rows(&self, keys: &[i64]) -> Vec<u32> {
        let mut rows = Vec::with_capacity(keys.len());
        for keys in keys.chunks(KEYS_AT_ONCE) {
            for key in keys {
                let hash = mix(*key as u64);
                let part = self.part(hash);
                prefetch_value(&part.buckets[part.start(hash)]);
            }
            rows.extend(keys.iter().map(|key| self.row(*key).unwrap_or(NO_RANK)));
        }
        rows
    }

    #[inline(always)]
    fn part(&self, hash: u64) -> &Part {
        &self.parts[part_of(hash, self.parts.len())]
    }

    /// The row with this key.
    #[inline]
    pub(crate) fn row(&self, key: i64) -> Option<u32> {
        let hash = mix(key as u64);
        self.part(hash).row(hash, key)
    }
}

/// Which of so many parts, a power of two, has the keys of this hash.
#[inline(always)]
fn part_of(hash: u64, part_count: usize) -> usize {
    (hash >> 60) as usize & (part_count - 1)
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
            let index = KeyIndex::of(&keys, Threads(2));
            let mut shuffled = keys.clone();
            for at in (1..shuffled.len()).rev() {
                shuffled.swap(at, random.below(at + 1));
            }
            let range = keys.first().copied().zip(keys.last().copied());
            let (of_shuffled, order) = KeyIndex::of_distinct(&shuffled, range, Threads(1 + seed as usize % 3)).unwrap();
            for (place, key) in shuffled.iter().enumerate() {
                let row = of_shuffled.row(*key).unwrap();
                assert_eq!(order[row as usize], place as u32, "seed {seed}, key {key}");
            }
            if let Some(again) = shuffled.first().copied() {
                shuffled.push(again);
                assert!(
                    KeyIndex::of_distinct(&shuffled, range, Threads(1 + seed as usize % 3)).is_none(),
                    "seed {seed}: {again} twice"
                );
                shuffled.extend_from_within(..random.below(shuffled.len()));
                if let Some((index, starts, order)) = KeyIndex::of_repeated(&shuffled, range) {
                    let rows_of = |row: u32| starts[row as usize] as usize..starts[row as usize + 1] as usize;
                    for key in &keys {
                        let found: Vec<u32> = order[rows_of(index.row(*key).unwrap())].to_vec();
                        let places = (0..shuffled.len() as u32).filter(|place| shuffled[*place as usize] == *key);
                        assert_eq!(found, places.collect::<Vec<_>>(), "seed {seed}, key {key}");
                    }
                }
            }
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
    fn keys_that_were_chosen_to_fall_into_one_part_are_found_too() {
        let is_chosen = |key: &i64| part_of(mix(*key as u64), PARTS) == 3;
        let keys: Vec<i64> = (0..).map(|number: i64| number << 40).filter(is_chosen).take(4 * MANY_KEYS).collect();
        let index = KeyIndex::of(&keys, Threads(2));
        assert!(matches!(index, KeyIndex::Hashed(_)));
        assert!(keys.iter().enumerate().all(|(row, key)| index.row(*key) == Some(row as u32)));
        assert!(index.size_bytes() > KeyIndex::size_bytes_of(Some((0, i64::MAX)), keys.len()));
        let others = (0..).map(|number: i64| number << 40 | 1).filter(is_chosen).take(1000).collect::<Vec<_>>();
        assert!(index.rows(&others).iter().all(|row| *row == NO_RANK));
    }

    #[test]
    fn close_keys_are_a_bitmap_even_ones_in_order_and_others_hashed() {
        assert!(matches!(KeyIndex::of(&[19_920_101, 19_981_231], Threads(2)), KeyIndex::Dense(_)));
        assert!(matches!(KeyIndex::of(&[0, 1 << 40], Threads(2)), KeyIndex::Hashed(_)));
        assert!(matches!(KeyIndex::of(&[i64::MIN, i64::MAX], Threads(2)), KeyIndex::Hashed(_)));
        let even: Vec<i64> = (0..10_000).map(|number| number * 10_000 + number * 7919 % 10_000).collect();
        assert!(matches!(KeyIndex::of(&even, Threads(2)), KeyIndex::Ordered(_)));
        let far: Vec<i64> = (-500..500).map(|number| number << 40).collect();
        assert!(matches!(KeyIndex::of(&far, Threads(2)), KeyIndex::Hashed(_)), "their lowest bits take more than 32");
        let crowded: Vec<i64> = (0..10_000).chain([1 << 34]).collect();
        assert!(matches!(KeyIndex::of(&crowded, Threads(2)), KeyIndex::Hashed(_)));
    }
}
