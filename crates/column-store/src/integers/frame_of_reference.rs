//! Frame of reference: of each mini-block the least value, and the differences to it packed.
//!
//! Sections: the bases (8 bytes for each mini-block), then the offsets of packed mini-blocks; the packed mini-blocks;
//! nothing.

use super::{INTEGER_SECTIONS, Native, PackedOffsets, Section, mini_block_count, push_offset, sign_flip};
use crate::bit_packing::{WithUnpacked, pack, width_of};
use crate::{MINI_BLOCK_VALUES, PackedBits, PageError, Word};

/// Least pattern and range of some numbers, which are not none.
pub(super) fn frame(numbers: &[u64], signed: bool) -> (u64, u64) {
    let flip = sign_flip(signed);
    // Several of each, so that comparisons need not wait for each other.
    let mut bounds = [(u64::MAX, 0); 4];
    let (quads, rest) = numbers.as_chunks::<4>();
    let mut widen = |at: usize, number: u64| {
        let (least, greatest) = &mut bounds[at];
        *least = (number ^ flip).min(*least);
        *greatest = (number ^ flip).max(*greatest);
    };
    for quad in quads {
        (0..4).for_each(|at| widen(at, quad[at]));
    }
    rest.iter().for_each(|number| widen(0, *number));
    let (least, greatest) = bounds.into_iter().fold((u64::MAX, 0), |all, some| (some.0.min(all.0), some.1.max(all.1)));
    (least ^ flip, greatest.wrapping_sub(least))
}

pub(super) fn write(values: &[u64], signed: bool, sections: &mut [Vec<u8>; INTEGER_SECTIONS]) {
    let [directory, packed, _] = sections;
    let mut offsets = Vec::new();
    push_offset(packed, &mut offsets);
    for block in values.chunks(MINI_BLOCK_VALUES) {
        let (base, range) = frame(block, signed);
        let mut differences = [0; MINI_BLOCK_VALUES];
        for (difference, value) in differences.iter_mut().zip(block) {
            *difference = value.wrapping_sub(base);
        }
        pack(&differences, width_of(range), packed);
        directory.extend_from_slice(&base.to_le_bytes());
        push_offset(packed, &mut offsets);
    }
    directory.extend_from_slice(&offsets);
}

/// Whole numbers as packed differences to the least of each mini-block.
#[derive(Debug, Clone, Copy)]
pub struct FramesOfReference<'a> {
    bases: &'a [[u8; 8]],
    offsets: PackedOffsets<'a>,
    packed: &'a [u8],
}

/// A mini-block: each value is the base plus the packed difference, modulo 2^64.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The least value, as a 64-bit pattern.
    pub base: u64,
    /// The differences to it.
    pub differences: PackedBits<'a>,
}

impl<'a> FramesOfReference<'a> {
    pub(super) fn open(sections: [Section<'a>; INTEGER_SECTIONS], value_count: usize) -> Result<Self, PageError> {
        let [directory, packed, nothing] = sections;
        let block_count = mini_block_count(value_count);
        nothing.expect_length("the third section of frames of reference", 0)?;
        let Some((bases, directory)) = directory.split::<8>(block_count) else {
            return Err(PageError::Length {
                what: "the bases of mini-blocks",
                found_bytes: directory.bytes.len() as u64,
                expected_bytes: (block_count * 12 + 4) as u64,
            });
        };
        let offsets = PackedOffsets::open(directory, packed, block_count)?;
        Ok(Self { bases, offsets, packed: packed.bytes })
    }

    /// How many mini-blocks there are.
    pub fn mini_block_count(&self) -> usize {
        self.bases.len()
    }

    /// Mini-block `index`; `None` if there is none.
    // Through memory it would take longer to hand over than to make.
    #[inline]
    pub fn frame(&self, index: usize) -> Option<Frame<'a>> {
        let base = u64::from_le_bytes(*self.bases.get(index)?);
        Some(Frame { base, differences: self.offsets.bits(self.packed, index) })
    }

    pub(super) fn decode<N: Native>(&self, index: usize, values: &mut [N]) {
        if let Some(frame) = self.frame(index) {
            frame.differences.with_unpacked(AddBase { base: frame.base, values });
        }
    }
}

struct AddBase<'a, N> {
    base: u64,
    values: &'a mut [N],
}

impl<N: Native> WithUnpacked<()> for AddBase<'_, N> {
    #[inline(always)]
    fn call<W: Word>(self, differences: &[W; MINI_BLOCK_VALUES]) {
        for (value, difference) in self.values.iter_mut().zip(differences) {
            *value = N::from_pattern(self.base.wrapping_add((*difference).into()));
        }
    }
}
