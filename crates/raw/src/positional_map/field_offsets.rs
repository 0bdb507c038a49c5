//! Where one field's value begins in each record.
//!
//! **Owns**: [`FieldOffsets`], one code a record, packed by blocks.
//!
//! **Invariants**: a code is [`UNKNOWN`], [`ABSENT`], or the value's offset from its record's first byte plus
//! [`FIRST_OFFSET`]; a JSON value may have white space before it. Blocks are those of the records' positions: block `b`
//! belongs to records `128 b` on. In a full block the least offset is subtracted from all of them, and the two other
//! codes stay. Equal codes are equal in memory.
//!
//! **Concurrency**: a plain value.

use crate::bit_packing::{pack, unpack, width_of, word_count};
use crate::record_positions::BLOCK_COUNT;

/// The scan did not look for the field in this record.
pub(crate) const UNKNOWN: u32 = 0;
/// The record lacks the field.
pub(crate) const ABSENT: u32 = 1;
/// The code of offset zero.
pub(crate) const FIRST_OFFSET: u32 = 2;

/// The code of a value so many bytes behind its record's first.
#[inline]
pub(crate) fn code_of(offset: usize) -> u32 {
    // Records are shorter than 2^28 bytes; what is not is looked for.
    u32::try_from(offset).ok().and_then(|offset| offset.checked_add(FIRST_OFFSET)).unwrap_or(UNKNOWN)
}

/// A code a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldOffsets {
    blocks: Vec<Block>,
    words: Vec<u64>,
    /// Fewer than [`BLOCK_COUNT`] codes, behind those of the blocks.
    tail: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    /// Place of its first word.
    start: usize,
    /// The least code that is an offset.
    least: u32,
    width: u32,
}

/// Whether a code of this block was shortened, and what it stands for.
#[inline(always)]
fn widened(packed: u64, least: u32) -> u32 {
    let packed = packed as u32;
    if packed < FIRST_OFFSET { packed } else { packed.wrapping_add(least - FIRST_OFFSET) }
}

impl FieldOffsets {
    pub(crate) fn push(&mut self, code: u32) {
        self.tail.push(code);
        if self.tail.len() == BLOCK_COUNT {
            self.pack_tail();
        }
    }

    fn pack_tail(&mut self) {
        let is_offset = |code: &u32| *code >= FIRST_OFFSET;
        let least = self.tail.iter().copied().filter(is_offset).min().unwrap_or(FIRST_OFFSET);
        let shorten = |code: u32| u64::from(if code < FIRST_OFFSET { code } else { code - least + FIRST_OFFSET });
        let width = width_of(self.tail.iter().map(|&code| shorten(code)).max().unwrap_or(0));
        self.blocks.push(Block { start: self.words.len(), least, width });
        pack(self.tail.iter().map(|&code| shorten(code)), width, &mut self.words);
        self.tail.clear();
    }

    pub(crate) fn append(&mut self, other: &Self) {
        if self.len() == 0 {
            self.clone_from(other);
            return;
        }
        (0..other.len()).for_each(|record| self.push(other.get(record)));
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK_COUNT + self.tail.len()
    }

    /// The code of a record below [`len`](Self::len).
    #[inline]
    pub(crate) fn get(&self, record: usize) -> u32 {
        match self.blocks.get(record / BLOCK_COUNT) {
            Some(block) => widened(unpack(&self.words[block.start..], block.width, record % BLOCK_COUNT), block.least),
            None => self.tail[record % BLOCK_COUNT],
        }
    }

    /// Writes the codes of `records` to every `stride`-th of `codes`, from the first.
    pub(crate) fn read(&self, records: std::ops::Range<usize>, codes: &mut [u32], stride: usize) {
        for (record, code) in records.zip(codes.iter_mut().step_by(stride)) {
            *code = self.get(record);
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.words.capacity() * 8 + self.tail.capacity() * 4
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.blocks.shrink_to_fit();
        self.words.shrink_to_fit();
        self.tail.shrink_to_fit();
    }

    /// Of each full block the least code and the width; the words; the codes behind the blocks.
    pub(crate) fn parts(&self) -> (impl Iterator<Item = (u32, u32)> + '_, &[u64], &[u32]) {
        (self.blocks.iter().map(|block| (block.least, block.width)), &self.words, &self.tail)
    }

    /// From [`parts`](Self::parts); `None` where they do not belong together.
    pub(crate) fn from_parts(heads: impl Iterator<Item = (u32, u32)>, words: Vec<u64>, tail: Vec<u32>) -> Option<Self> {
        let mut start = 0;
        let mut blocks = Vec::with_capacity(heads.size_hint().0);
        for (least, width) in heads {
            if least < FIRST_OFFSET || width > 32 {
                return None;
            }
            blocks.push(Block { start, least, width });
            start += word_count(BLOCK_COUNT, width);
        }
        (start == words.len() && tail.len() < BLOCK_COUNT).then_some(Self { blocks, words, tail })
    }
}
