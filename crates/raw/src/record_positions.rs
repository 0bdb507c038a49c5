//! Where records begin in a file, in little more than a byte each.
//!
//! **Owns**: [`RecordPositions`], ascending byte offsets packed by blocks.
//!
//! **Does not own**: which records (the decoders say), reading them again
//! ([`FileScan::at_positions`](crate::FileScan)).
//!
//! **Invariants**
//! - A full block holds [`BLOCK_COUNT`] offsets: the first as it is, of each further one the step from the one before,
//!   less the least step of the block, in as many bits as the largest takes. What does not fill a block is not packed.
//! - Equal offsets are equal in memory too, however they were pushed and appended.
//!
//! **Concurrency**: a plain value; shared by reading it only.
//!
//! **Paper**: ReCache (PVLDB 2017) §5.2: a *lazily* cached item holds offsets of its records instead of their values.
//! Lengths are not kept: a record's end is found by reading it.

use crate::bit_packing::{pack_joined, unpack, unpack_joined, width_of, word_count};

/// Offsets of a block. The 24 bytes of its head are a fifth of a byte a record, while one record of unusual length
/// widens the steps of only so many others.
pub(crate) const BLOCK_COUNT: usize = 128;

/// Ascending byte offsets of records in a (decompressed) file.
///
/// ```
/// use thermocline_raw::RecordPositions;
/// let mut positions: RecordPositions = [0, 120, 241].into_iter().collect();
/// positions.push(365);
/// positions.extend([480, 600]);
/// assert_eq!(positions.len(), 6);
/// assert_eq!(positions.iter().last(), Some(600));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordPositions {
    blocks: Vec<Block>,
    words: Vec<u64>,
    /// Fewer than [`BLOCK_COUNT`] offsets, behind those of the blocks.
    tail: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    first: u64,
    least_step: u64,
    /// The place of its first word, and in the lowest byte the width of a step.
    place: u64,
}

impl Block {
    fn width(self) -> u32 {
        (self.place & 0xff) as u32
    }
}

impl RecordPositions {
    /// Adds an offset above all others.
    pub fn push(&mut self, offset: u64) {
        self.tail.push(offset);
        if self.tail.len() == BLOCK_COUNT {
            self.pack_tail();
        }
    }

    /// Packs the offsets of a full block, in `self.tail`.
    fn pack_tail(&mut self) {
        debug_assert!(self.tail.is_sorted_by(|before, offset| before < offset), "offsets ascend");
        // With one more at the end, which is 0.
        let mut steps = [0; BLOCK_COUNT];
        for (step, pair) in steps.iter_mut().zip(self.tail.windows(2)) {
            // Wrapping, so that offsets in the wrong order, a fault of the caller, come back as they went in.
            *step = pair[1].wrapping_sub(pair[0]);
        }
        let (least_step, greatest_step) = ends(&steps[..BLOCK_COUNT - 1]);
        let width = width_of(greatest_step - least_step);
        let place = (self.words.len() as u64) << 8 | u64::from(width);
        self.blocks.push(Block { first: self.tail[0], least_step, place });
        steps[..BLOCK_COUNT - 1].iter_mut().for_each(|step| *step -= least_step);
        self.words.reserve(word_count(BLOCK_COUNT, width));
        pack_joined(&mut steps, width, &mut self.words);
        // Of whole words the last one is that one more.
        self.words.truncate((place >> 8) as usize + word_count(BLOCK_COUNT - 1, width));
        self.tail.clear();
    }

    /// Adds the offsets of `other`, which lie above all of these. Costs a few nanoseconds each.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        let mut offsets = [0; BLOCK_COUNT];
        for block in &other.blocks {
            other.unpack_block(*block, &mut offsets);
            self.extend_from_slice(&offsets);
        }
        self.extend_from_slice(&other.tail);
    }

    /// Adds ascending offsets above all others, as fast as they are packed.
    fn extend_from_slice(&mut self, mut offsets: &[u64]) {
        while !offsets.is_empty() {
            let (fitting, rest) = offsets.split_at(offsets.len().min(BLOCK_COUNT - self.tail.len()));
            self.tail.extend_from_slice(fitting);
            if self.tail.len() == BLOCK_COUNT {
                self.pack_tail();
            }
            offsets = rest;
        }
    }

    /// All offsets of a full block.
    fn unpack_block(&self, block: Block, offsets: &mut [u64; BLOCK_COUNT]) {
        let start = (block.place >> 8) as usize;
        let words = &self.words[start..];
        let mut steps = [0; BLOCK_COUNT];
        match block.width() {
            // The one more is not there.
            64 => steps[..BLOCK_COUNT - 1].copy_from_slice(&words[..BLOCK_COUNT - 1]),
            width => unpack_joined(words, width, &mut steps),
        }
        let mut offset = block.first;
        for (next, step) in offsets.iter_mut().zip(steps) {
            *next = offset;
            offset = offset.wrapping_add(block.least_step.wrapping_add(step));
        }
    }

    /// Number of offsets.
    pub fn len(&self) -> usize {
        self.blocks.len() * BLOCK_COUNT + self.tail.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tail.is_empty()
    }

    /// The offsets, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.block_count()).flat_map(|block| self.block(block))
    }

    /// Bytes held on the heap, spare room included.
    pub fn size_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + (self.words.capacity() + self.tail.capacity()) * size_of::<u64>()
    }

    /// Gives spare room back.
    pub fn shrink_to_fit(&mut self) {
        self.blocks.shrink_to_fit();
        self.words.shrink_to_fit();
        self.tail.shrink_to_fit();
    }

    /// Of each full block the first offset, the least step and the width of the steps; the words; the offsets behind
    /// the blocks.
    pub(crate) fn parts(&self) -> (impl Iterator<Item = (u64, u64, u8)> + '_, &[u64], &[u64]) {
        let head = |block: &Block| (block.first, block.least_step, block.width() as u8);
        (self.blocks.iter().map(head), &self.words, &self.tail)
    }

    /// From [`parts`](Self::parts) that belong together; that the offsets ascend is not known yet.
    pub(crate) fn from_parts(heads: &[(u64, u64, u8)], words: Vec<u64>, tail: Vec<u64>) -> Self {
        let mut start = 0;
        let mut blocks = Vec::with_capacity(heads.len());
        for &(first, least_step, width) in heads {
            blocks.push(Block { first, least_step, place: start << 8 | u64::from(width) });
            start += word_count(BLOCK_COUNT - 1, u32::from(width)) as u64;
        }
        Self { blocks, words, tail }
    }

    /// How many of the offsets are below `offset`. Costs a search by halving and a walk over one block.
    pub fn count_below(&self, offset: u64) -> usize {
        let full = self.blocks.partition_point(|block| block.first < offset);
        let begins_below = |block: usize| self.block_start(block) < offset;
        // Where the offsets behind the blocks begin below it too, it lies among those.
        let block = if full == self.blocks.len() && !self.tail.is_empty() && begins_below(full) {
            full
        } else {
            match full.checked_sub(1) {
                Some(block) => block,
                None => return 0,
            }
        };
        block * BLOCK_COUNT + self.block(block).take_while(|&at| at < offset).count()
    }

    /// Number of blocks, a last one that is not full included.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len() + usize::from(!self.tail.is_empty())
    }

    /// The first offset of a block below [`block_count`](Self::block_count), in constant time.
    pub(crate) fn block_start(&self, block: usize) -> u64 {
        self.blocks.get(block).map_or_else(|| self.tail[0], |block| block.first)
    }

    /// The highest offset.
    pub(crate) fn last(&self) -> Option<u64> {
        self.tail.last().copied().or_else(|| self.block(self.blocks.len().checked_sub(1)?).last())
    }

    /// The offsets of a block below [`block_count`](Self::block_count).
    pub(crate) fn block(&self, block: usize) -> impl Iterator<Item = u64> + '_ {
        let (head, tail) = match self.blocks.get(block) {
            Some(head) => (Some(*head), &[] as &[u64]),
            None => (None, self.tail.as_slice()),
        };
        let steps = head.into_iter().flat_map(|head| {
            let words = &self.words[(head.place >> 8) as usize..];
            let mut offset = head.first;
            (0..BLOCK_COUNT).map(move |index| {
                if index > 0 {
                    let step = head.least_step.wrapping_add(unpack(words, head.width(), index - 1));
                    offset = offset.wrapping_add(step);
                }
                offset
            })
        });
        steps.chain(tail.iter().copied())
    }
}

/// The least and the greatest of some steps.
fn ends(steps: &[u64]) -> (u64, u64) {
    // Of 32 bits with a sign, as nearly all are, every processor compares several at once; of more, few do.
    let all_bits = steps.iter().fold(0, |bits, step| bits | step);
    if all_bits <= i32::MAX as u64 {
        let (least, greatest) = steps
            .iter()
            .fold((i32::MAX, 0), |(least, greatest), &step| (least.min(step as i32), greatest.max(step as i32)));
        return (least as u64, greatest as u64);
    }
    steps.iter().fold((u64::MAX, 0), |(least, greatest), &step| (least.min(step), greatest.max(step)))
}

impl Extend<u64> for RecordPositions {
    /// By ascending offsets above all others.
    fn extend<I: IntoIterator<Item = u64>>(&mut self, offsets: I) {
        let mut offsets = offsets.into_iter();
        loop {
            // A block at a time, so that whether it is full is asked once for it.
            self.tail.extend(offsets.by_ref().take(BLOCK_COUNT - self.tail.len()));
            if self.tail.len() < BLOCK_COUNT {
                return;
            }
            self.pack_tail();
        }
    }
}

impl FromIterator<u64> for RecordPositions {
    /// Of ascending offsets.
    fn from_iter<I: IntoIterator<Item = u64>>(offsets: I) -> Self {
        let mut positions = Self::default();
        positions.extend(offsets);
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator of random numbers.
    fn below(state: &mut u64, bound: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) % bound
    }

    fn offsets(state: &mut u64) -> Vec<u64> {
        let count = below(state, 700);
        let longest = [1, 2, 50, 5000, 1 << 40][below(state, 5) as usize];
        let mut offset = below(state, 1000);
        (0..count)
            .map(|_| {
                let at = offset;
                offset += 1 + below(state, longest);
                at
            })
            .collect()
    }

    #[test]
    fn offsets_come_back_whatever_their_steps() {
        for seed in 1..=500_u64 {
            let state = &mut seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let offsets = offsets(state);
            let positions: RecordPositions = offsets.iter().copied().collect();
            assert_eq!(positions.iter().collect::<Vec<_>>(), offsets, "seed {seed}");
            assert_eq!(positions.len(), offsets.len());
            assert_eq!(positions.is_empty(), offsets.is_empty());
            assert_eq!(positions.last(), offsets.last().copied());
            let beyond = offsets.last().copied().unwrap_or(0) + 2;
            for offset in offsets.iter().flat_map(|&at| [at.saturating_sub(1), at, at + 1]).chain([0, beyond]) {
                let below = offsets.partition_point(|&at| at < offset);
                assert_eq!(positions.count_below(offset), below, "seed {seed}, offset {offset}");
            }
            for block in 0..positions.block_count() {
                assert_eq!(positions.block_start(block), offsets[block * BLOCK_COUNT], "seed {seed}");
            }
        }
    }

    #[test]
    fn steps_of_every_width_come_back() {
        for bits in 0..56 {
            let step = |index: u64| (1 << bits) - u64::from(bits > 0 && index.is_multiple_of(3));
            let offsets: Vec<u64> = (0..200)
                .scan(7, |offset, index| {
                    *offset += step(index);
                    Some(*offset)
                })
                .collect();
            let positions: RecordPositions = offsets.iter().copied().collect();
            assert_eq!(positions.iter().collect::<Vec<_>>(), offsets, "{bits} bits");
            let mut behind: RecordPositions = [1].into_iter().collect();
            behind.append(&positions);
            assert_eq!(behind.iter().skip(1).collect::<Vec<_>>(), offsets, "{bits} bits");
        }
    }

    #[test]
    fn appended_pieces_equal_the_whole() {
        for seed in 1..=300_u64 {
            let state = &mut seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let offsets = offsets(state);
            let mut appended = RecordPositions::default();
            let mut rest = offsets.as_slice();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(below(state, rest.len() as u64 + 1) as usize);
                appended.append(&piece.iter().copied().collect());
                rest = behind;
            }
            assert_eq!(appended, offsets.into_iter().collect(), "seed {seed}");
        }
    }

    #[test]
    fn records_of_like_length_take_little_more_than_a_byte_each() {
        let state = &mut 1;
        let mut offset = 0;
        let mut positions = RecordPositions::default();
        for _ in 0..100_000 {
            positions.push(offset);
            offset += 90 + below(state, 75);
        }
        positions.shrink_to_fit();
        let bytes = positions.size_bytes() as f64 / positions.len() as f64;
        assert!(bytes < 1.2, "{bytes} bytes a record");
    }
}
