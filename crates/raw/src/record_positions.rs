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

use crate::bit_packing::{pack, unpack, width_of, word_count};

/// Offsets of a block. The 24 bytes of its head are a fifth of a byte a record, while one record of unusual length
/// widens the steps of only so many others.
pub(crate) const BLOCK_COUNT: usize = 128;

/// Ascending byte offsets of records in a (decompressed) file.
///
/// ```
/// use thermocline_raw::RecordPositions;
/// let mut positions: RecordPositions = [0, 120, 241].into_iter().collect();
/// positions.push(365);
/// assert_eq!(positions.len(), 4);
/// assert_eq!(positions.iter().last(), Some(365));
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
        debug_assert!(self.tail.last().is_none_or(|&last| last < offset), "offsets ascend");
        self.tail.push(offset);
        if self.tail.len() == BLOCK_COUNT {
            self.pack_tail();
        }
    }

    fn pack_tail(&mut self) {
        // Wrapping, so that offsets in the wrong order, a fault of the caller, come back as they went in.
        let step = |pair: &[u64]| pair[1].wrapping_sub(pair[0]);
        let steps = || self.tail.windows(2).map(step);
        let least_step = steps().min().unwrap_or(0);
        let width = width_of(steps().max().unwrap_or(0) - least_step);
        let place = (self.words.len() as u64) << 8 | u64::from(width);
        self.blocks.push(Block { first: self.tail[0], least_step, place });
        pack(steps().map(|step| step - least_step), width, &mut self.words);
        self.tail.clear();
    }

    /// Adds the offsets of `other`, which lie above all of these. Costs some nanoseconds each.
    pub fn append(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        other.iter().for_each(|offset| self.push(offset));
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

impl FromIterator<u64> for RecordPositions {
    /// Of ascending offsets.
    fn from_iter<I: IntoIterator<Item = u64>>(offsets: I) -> Self {
        let mut positions = Self::default();
        offsets.into_iter().for_each(|offset| positions.push(offset));
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
