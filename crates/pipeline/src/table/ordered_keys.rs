//! Keys in order, found by a directory of their highest bits.
//!
//! Keys that are too far apart for a bitmap often lie evenly all the same: combinations of two columns, numbers with
//! gaps. Then as many buckets of equal width as halve the keys have about two keys each, and what tells a bucket's keys
//! apart takes 32 bits. That is six bytes a key, of which a search reads two places; a hash table's cache line for every
//! other key is five times as much, and most of it further away.
//!
//! Keys that were chosen otherwise crowd in few buckets: then there is no such index.

use std::ops::Range;

use crate::kernels::{NO_RANK, WINDOW, first_equal, prefetch_value};
use crate::threads::Threads;

/// Keys of a bucket on average, at most.
const KEYS_PER_BUCKET: u64 = 2;
/// Keys of a bucket at most.
const MOST_KEYS: u32 = 32;
/// Keys that are looked up together, each step for all of them before the next one.
const KEYS_AT_ONCE: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct OrderedKeys {
    /// The least key.
    base: i64,
    /// How far the greatest key is from it.
    span: u64,
    /// Bits of that distance that are no part of the bucket's number.
    shift: u32,
    /// Where each bucket's keys begin, and the last one's end; twice, for there is a bucket for all that is no key.
    starts: Vec<u32>,
    /// Those bits of each key, and behind the last of them as many again as are compared at once.
    low: Vec<u32>,
}

/// Buckets that one thread has made.
struct Part {
    /// How many keys each has.
    counts: Vec<u32>,
    low: Vec<u32>,
    /// Which key each is.
    order: Vec<u32>,
    are_distinct: bool,
}

impl OrderedKeys {
    /// Of keys in any order, fewer than 2^32, that lie in `range`; which of them each row has, and whether they are
    /// distinct. `None` if they lie too unevenly.
    pub(super) fn of(keys: &[i64], (least, greatest): (i64, i64), threads: Threads) -> Option<(Self, Vec<u32>, bool)> {
        let span = greatest.wrapping_sub(least) as u64;
        let most_buckets = (keys.len() as u64 / KEYS_PER_BUCKET).max(1);
        let shift = (0..=32).find(|shift| span >> shift < most_buckets)?;
        let bucket_count = (span >> shift) as usize + 1;
        let parts = threads.each(bucket_count, |buckets| Part::of(keys, least, shift, buckets));
        let parts: Vec<Part> = parts.into_iter().collect::<Option<_>>()?;
        let mut starts = Vec::with_capacity(bucket_count + 2);
        let mut end = 0;
        for count in parts.iter().flat_map(|part| &part.counts) {
            starts.push(end);
            end += count;
        }
        starts.extend([end; 2]);
        let are_distinct = parts.iter().all(|part| part.are_distinct);
        let (mut low, order): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.low, part.order)).unzip();
        low.push(vec![0; WINDOW]);
        Some((Self { base: least, span, shift, starts, low: threads.joined(low) }, threads.joined(order), are_distinct))
    }

    pub(super) fn size_bytes(&self) -> usize {
        (self.starts.len() + self.low.len()) * size_of::<u32>()
    }

    /// Where the keys of a key's bucket are, and its lowest bits.
    #[inline(always)]
    fn bucket(&self, key: i64) -> (Range<u32>, u32) {
        let place = key.wrapping_sub(self.base) as u64;
        let behind = self.starts.len() - 2;
        let bucket = if place <= self.span { (place >> self.shift) as usize } else { behind };
        // As many bits as are left of 64 when the bucket's are gone, at most 32.
        let low = place & ((1 << self.shift) - 1);
        (self.starts[bucket]..self.starts[bucket + 1], low as u32)
    }

    /// The row with a key of which [`bucket`](Self::bucket) says this, [`NO_RANK`] if there is none.
    #[inline(always)]
    fn found(&self, keys: Range<u32>, low: u32) -> u32 {
        let start = keys.start as usize;
        let window = self.low[start..].first_chunk::<WINDOW>();
        let at = keys.start + window.map_or(0, |window| first_equal(window, low));
        if keys.len() <= WINDOW {
            return if at < keys.end { at } else { NO_RANK };
        }
        let found = self.low[start..keys.end as usize].iter().position(|held| *held == low);
        found.map_or(NO_RANK, |at| keys.start + at as u32)
    }

    /// The row with each of some keys, [`NO_RANK`] where there is none.
    pub(super) fn rows(&self, keys: &[i64]) -> Vec<u32> {
        let mut rows = Vec::with_capacity(keys.len());
        let mut buckets = [const { (0..0, 0) }; KEYS_AT_ONCE];
        for keys in keys.chunks(KEYS_AT_ONCE) {
            for (bucket, key) in buckets.iter_mut().zip(keys) {
                *bucket = self.bucket(*key);
                prefetch_value(&self.low[bucket.0.start as usize]);
            }
            rows.extend(buckets.iter().zip(keys).map(|((keys, low), _)| self.found(keys.clone(), *low)));
        }
        rows
    }

    /// The row with this key.
    #[inline]
    pub(super) fn row(&self, key: i64) -> Option<u32> {
        let (keys, low) = self.bucket(key);
        Some(self.found(keys, low)).filter(|row| *row != NO_RANK)
    }
}

impl Part {
    /// `None` if a bucket has too many keys.
    fn of(keys: &[i64], base: i64, shift: u32, buckets: Range<usize>) -> Option<Self> {
        let mask = ((1u64 << shift) - 1) as u32;
        // The bucket, counted from the first, and the lowest bits of each key that is in one of them.
        let places = || {
            keys.iter().enumerate().filter_map(|(row, key)| {
                let place = key.wrapping_sub(base) as u64;
                let bucket = ((place >> shift) as usize).wrapping_sub(buckets.start);
                (bucket < buckets.len()).then_some((row as u32, bucket, place as u32 & mask))
            })
        };
        let mut counts = vec![0u32; buckets.len()];
        places().for_each(|(_, bucket, _)| counts[bucket] += 1);
        if counts.iter().any(|count| *count > MOST_KEYS) {
            return None;
        }
        let mut key_count = 0;
        let mut next: Vec<u32> = Vec::with_capacity(counts.len());
        for count in &counts {
            next.push(key_count);
            key_count += count;
        }
        let (mut low, mut order) = (vec![0; key_count as usize], vec![0; key_count as usize]);
        for (row, bucket, bits) in places() {
            let at = &mut next[bucket];
            (low[*at as usize], order[*at as usize]) = (bits, row);
            *at += 1;
        }
        let mut are_distinct = true;
        for (count, end) in counts.iter().zip(&next) {
            let bucket = (*end - *count) as usize..*end as usize;
            are_distinct &= sort(&mut low[bucket.clone()], &mut order[bucket]);
        }
        Some(Self { counts, low, order, are_distinct })
    }
}

/// Sorts a few words and moves others along; whether the words are distinct. Equal ones keep their order.
#[inline(always)]
fn sort(words: &mut [u32], others: &mut [u32]) -> bool {
    let mut are_distinct = true;
    for end in 1..words.len() {
        let mut at = end;
        while at > 0 && words[at - 1] > words[at] {
            words.swap(at - 1, at);
            others.swap(at - 1, at);
            at -= 1;
        }
        are_distinct &= at == 0 || words[at - 1] != words[at];
    }
    are_distinct
}
