//! Delta: of each mini-block the first value, the least step from one value to the next, and what each step is more,
//! packed.
//!
//! Sections: the first values and the least steps (8 bytes each for each mini-block, in turn), then the offsets of
//! packed mini-blocks; the packed mini-blocks, in which the first value of each is a zero; nothing.
//!
//! The least step is subtracted rather than steps written zigzag, so that rising and falling values with steps of any
//! size take the bits of the steps' spread alone: an arithmetic sequence takes none.

use super::frame_of_reference::frame;
use super::{INTEGER_SECTIONS, Native, PackedOffsets, Section, mini_block_count, push_offset};
use crate::bit_packing::{WithUnpacked, pack, width_of};
use crate::{MINI_BLOCK_VALUES, PackedBits, PageError, Word};

/// The steps of a mini-block, in as many of `steps` as it has, and the least of them and their spread; both 0 if it has
/// one value.
pub(super) fn steps<'s>(block: &[u64], steps: &'s mut [u64; MINI_BLOCK_VALUES]) -> (&'s mut [u64], u64, u64) {
    let steps = &mut steps[..block.len().saturating_sub(1)];
    for (step, pair) in steps.iter_mut().zip(block.array_windows::<2>()) {
        *step = pair[1].wrapping_sub(pair[0]);
    }
    let (least, spread) = if steps.is_empty() { (0, 0) } else { frame(steps, true) };
    (steps, least, spread)
}

pub(super) fn write(values: &[u64], sections: &mut [Vec<u8>; INTEGER_SECTIONS]) {
    let [directory, packed, _] = sections;
    let mut offsets = Vec::new();
    push_offset(packed, &mut offsets);
    let mut scratch = [0; MINI_BLOCK_VALUES];
    for block in values.chunks(MINI_BLOCK_VALUES) {
        let (steps, least, spread) = steps(block, &mut scratch);
        let mut excesses = [0; MINI_BLOCK_VALUES];
        for (excess, step) in excesses[1..].iter_mut().zip(steps) {
            *excess = step.wrapping_sub(least);
        }
        pack(&excesses, width_of(spread), packed);
        directory.extend_from_slice(&block[0].to_le_bytes());
        directory.extend_from_slice(&least.to_le_bytes());
        push_offset(packed, &mut offsets);
    }
    directory.extend_from_slice(&offsets);
}

/// Whole numbers as packed differences between neighbours.
#[derive(Debug, Clone, Copy)]
pub struct Deltas<'a> {
    /// First value and least step of each mini-block.
    starts: &'a [[u8; 16]],
    offsets: PackedOffsets<'a>,
    packed: &'a [u8],
}

impl<'a> Deltas<'a> {
    pub(crate) fn open(sections: [Section<'a>; INTEGER_SECTIONS], value_count: usize) -> Result<Self, PageError> {
        let [directory, packed, nothing] = sections;
        let block_count = mini_block_count(value_count);
        nothing.expect_length("the third section of deltas", 0)?;
        let Some((starts, directory)) = directory.split::<16>(block_count) else {
            return Err(PageError::Length {
                what: "the first values and steps of mini-blocks",
                found_bytes: directory.bytes.len() as u64,
                expected_bytes: (block_count * 20 + 4) as u64,
            });
        };
        let offsets = PackedOffsets::open(directory, packed, block_count)?;
        Ok(Self { starts, offsets, packed: packed.bytes })
    }

    /// The first value of mini-block `index`, as a 64-bit pattern; `None` if there is none.
    pub fn first(&self, index: usize) -> Option<u64> {
        let start = self.starts.get(index)?.first_chunk()?;
        Some(u64::from_le_bytes(*start))
    }

    /// The least step and the steps' excesses of mini-block `index`: each value is its neighbour's plus the step plus
    /// the excess, modulo 2^64. `None` if there is no such mini-block.
    pub fn steps(&self, index: usize) -> Option<(u64, PackedBits<'a>)> {
        let step = self.starts.get(index)?.last_chunk()?;
        Some((u64::from_le_bytes(*step), self.offsets.bits(self.packed, index)))
    }

    pub(crate) fn decode<N: Native>(&self, index: usize, values: &mut [N]) {
        if let (Some(first), Some((step, excesses))) = (self.first(index), self.steps(index)) {
            excesses.with_unpacked(Sum { first, step, values });
        }
    }
}

struct Sum<'a, N> {
    first: u64,
    step: u64,
    values: &'a mut [N],
}

impl<N: Native> WithUnpacked<()> for Sum<'_, N> {
    #[inline(always)]
    fn call<W: Word>(self, excesses: &[W; MINI_BLOCK_VALUES]) {
        // The first value's own step is taken back, which keeps the loop without a special case.
        let mut sum = self.first.wrapping_sub(self.step);
        for (value, excess) in self.values.iter_mut().zip(excesses) {
            sum = sum.wrapping_add(self.step).wrapping_add((*excess).into());
            *value = N::from_pattern(sum);
        }
    }
}
