//! Definition or repetition levels of one column, packed.
//!
//! **Owns**: the packing, and comparing 64 levels with a threshold at once. **Does not own**: what the levels mean.
//!
//! Levels are stored as their distance from the lowest, in as few bits as the highest needs, one *bit plane* a bit: the
//! words of the planes for entries 64·i to 64·i + 63 lie together, the lowest bit first. Levels that are all equal
//! have no planes and take no memory. A comparison reads one word a plane and costs a few operations for 64 entries
//! (BitWeaving/V; Li and Patel, SIGMOD 2013), and a single plane is an Arrow bitmap as it is.

use arrow::buffer::{BooleanBuffer, ScalarBuffer};

/// Entries that one word of a plane holds.
pub(super) const WORD_ENTRIES: usize = 64;

/// The levels of one column's entries.
#[derive(Debug)]
pub(super) struct Levels {
    entry_count: usize,
    lowest: u8,
    highest: u8,
    plane_count: usize,
    /// Words in little-endian order, so that a plane is a bitmap on every machine.
    words: ScalarBuffer<u64>,
}

impl Levels {
    pub(super) fn pack(levels: &[u8]) -> Self {
        let (lowest, highest) =
            levels.iter().fold((u8::MAX, 0), |(low, high), &level| (low.min(level), high.max(level)));
        let lowest = lowest.min(highest);
        let plane_count = (u8::BITS - (highest - lowest).leading_zeros()) as usize;
        let mut words = Vec::with_capacity(levels.len().div_ceil(WORD_ENTRIES) * plane_count);
        if plane_count > 0 {
            for entries in levels.chunks(WORD_ENTRIES) {
                for plane in 0..plane_count {
                    let bits = plane_word(entries, lowest, plane);
                    words.push(bits.to_le());
                }
            }
        }
        Self { entry_count: levels.len(), lowest, highest, plane_count, words: words.into() }
    }

    pub(super) fn entry_count(&self) -> usize {
        self.entry_count
    }

    pub(super) fn word_count(&self) -> usize {
        self.entry_count.div_ceil(WORD_ENTRIES)
    }

    /// The lowest level there is; 0 if there are no entries.
    pub(super) fn lowest(&self) -> u8 {
        self.lowest
    }

    /// The highest level there is; 0 if there are no entries.
    pub(super) fn highest(&self) -> u8 {
        self.highest
    }

    /// Bytes of the planes.
    pub(super) fn size_bytes(&self) -> usize {
        self.words.inner().capacity() + size_of::<Self>()
    }

    /// Ones for the entries that exist among those of word `index`: all but in the last word.
    #[inline]
    pub(super) fn entries(&self, index: usize) -> u64 {
        match self.entry_count - index * WORD_ENTRIES {
            count if count < WORD_ENTRIES => (1 << count) - 1,
            _ => u64::MAX,
        }
    }

    /// A bit for each of the 64 entries of word `index`: is its level `threshold` or higher? Bits beyond the last
    /// entry say nothing.
    #[inline]
    pub(super) fn at_least(&self, threshold: u8, index: usize) -> u64 {
        if threshold <= self.lowest {
            return u64::MAX;
        }
        if threshold > self.highest {
            return 0;
        }
        let first = index * self.plane_count;
        let planes = &self.words[first..first + self.plane_count];
        let distance = threshold - self.lowest;
        let (mut higher, mut equal) = (0, u64::MAX);
        for (plane, word) in planes.iter().enumerate().rev() {
            let word = u64::from_le(*word);
            if distance >> plane & 1 == 1 {
                equal &= word;
            } else {
                higher |= equal & word;
                equal &= !word;
            }
        }
        higher | equal
    }

    /// The answers of [`Levels::at_least`] for all entries, if they lie there as a bitmap already.
    pub(super) fn shared_bitmap(&self, threshold: u8) -> Option<BooleanBuffer> {
        let is_plane = self.plane_count == 1 && threshold == self.highest;
        is_plane.then(|| BooleanBuffer::new(self.words.inner().clone(), 0, self.entry_count))
    }

    /// The levels one by one.
    #[cfg(test)]
    pub(super) fn unpack(&self) -> Vec<u8> {
        let level = |at: usize| {
            let passes = |threshold: &u8| self.at_least(*threshold, at / WORD_ENTRIES) >> (at % WORD_ENTRIES) & 1 == 1;
            (0..=self.highest).rev().find(passes).unwrap_or(0)
        };
        (0..self.entry_count).map(level).collect()
    }
}

/// Bit `plane` of each level's distance from `lowest`, for up to 64 levels.
#[inline]
fn plane_word(levels: &[u8], lowest: u8, plane: usize) -> u64 {
    const LOW_BITS: u64 = 0x0101_0101_0101_0101;
    // Multiplying by this moves the low bit of byte i to bit 56 + i; no two of the products meet below that.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, rest) = levels.as_chunks::<8>();
    let mut word = 0;
    for (at, eight) in eights.iter().enumerate() {
        let distances = u64::from_le_bytes(*eight) - LOW_BITS * u64::from(lowest);
        word |= (((distances >> plane) & LOW_BITS).wrapping_mul(GATHER) >> 56) << (at * 8);
    }
    for (at, level) in rest.iter().enumerate() {
        word |= (u64::from((level - lowest) >> plane) & 1) << (eights.len() * 8 + at);
    }
    word
}

/// The bits of `bits` at the ones of `mask`, moved together to the low end (Warren, Hacker's Delight, §7-4): the same
/// work whatever the bits, where going through them one by one would mispredict.
#[inline]
pub(super) fn compress(bits: u64, mask: u64) -> u64 {
    let (mut bits, mut mask, mut moved) = (bits & mask, mask, !mask << 1);
    for step in 0..6 {
        let mut parity = moved ^ (moved << 1);
        for shift in [2, 4, 8, 16, 32] {
            parity ^= parity << shift;
        }
        let moving_mask = parity & mask;
        mask = (mask ^ moving_mask) | (moving_mask >> (1 << step));
        let moving_bits = bits & moving_mask;
        bits = (bits ^ moving_bits) | (moving_bits >> (1 << step));
        moved &= !parity;
    }
    bits
}

/// A bitmap that grows by up to 64 bits at a time.
#[derive(Debug)]
pub(super) struct BitmapWriter {
    words: Vec<u64>,
    pending: u64,
    pending_count: usize,
}

impl BitmapWriter {
    pub(super) fn with_capacity(bit_count: usize) -> Self {
        Self { words: Vec::with_capacity(bit_count.div_ceil(WORD_ENTRIES)), pending: 0, pending_count: 0 }
    }

    /// Appends the lowest `count` bits, at most 64; those above must be zero.
    #[inline]
    pub(super) fn append(&mut self, bits: u64, count: usize) {
        self.pending |= bits << self.pending_count;
        let total = self.pending_count + count;
        if total < WORD_ENTRIES {
            self.pending_count = total;
            return;
        }
        self.words.push(self.pending.to_le());
        let taken = WORD_ENTRIES - self.pending_count;
        self.pending = if taken < WORD_ENTRIES { bits >> taken } else { 0 };
        self.pending_count = total - WORD_ENTRIES;
    }

    pub(super) fn finish(mut self) -> BooleanBuffer {
        let bit_count = self.words.len() * WORD_ENTRIES + self.pending_count;
        if self.pending_count > 0 {
            self.words.push(self.pending.to_le());
        }
        BooleanBuffer::new(ScalarBuffer::<u64>::from(self.words).into_inner(), 0, bit_count)
    }
}
