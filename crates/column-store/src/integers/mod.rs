//! Runs of whole numbers, in one of four encodings: a page's values, or what stands for them (codes, starts, scaled
//! floats).
//!
//! **Owns**: the three sections of a run of integers, reading and writing them, the bytes that each encoding would
//! take.
//!
//! **Does not own**: what the numbers mean. All are 64-bit patterns here, signed ones sign-extended, and arithmetic
//! wraps: only the search for the least value must know the order.
//!
//! **Invariants**: a view that could be opened decodes any of its mini-blocks without a further check and without an
//! error; every mini-block decodes without the others.
//!
//! **Concurrency**: plain functions and views.
//!
//! One file for each encoding, each with the same parts: `size_bytes`, `write`, a view with `open` and `decode`.

mod delta;
mod frame_of_reference;
mod native;
mod packed_runs;
mod run_length;
mod statistics;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use delta::Deltas;
pub use frame_of_reference::{Frame, FramesOfReference};
pub use native::Native;
pub use packed_runs::{PackedRuns, RunFrame};
pub use run_length::Runs;
pub(crate) use statistics::IntegerStatistics;

use thermocline_placement::column_encoding::IntegerEncoding;

use crate::{MINI_BLOCK_VALUES, PageError};

/// Sections that a run of integers takes.
pub(crate) const INTEGER_SECTIONS: usize = 3;

/// Where the sections start in the page, for messages, and what they hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Section<'a> {
    pub(crate) fn expect_length(&self, what: &'static str, expected: usize) -> Result<(), PageError> {
        if self.bytes.len() == expected {
            return Ok(());
        }
        Err(PageError::Length { what, found_bytes: self.bytes.len() as u64, expected_bytes: expected as u64 })
    }

    pub(crate) fn field(&self, field: &'static str, at: usize, found: u64, expected: String) -> PageError {
        PageError::Field { field, offset: self.offset + at as u64, found, expected }
    }

    /// The first `count` entries of `N` bytes, and the rest as another section.
    pub(crate) fn split<const N: usize>(&self, count: usize) -> Option<(&'a [[u8; N]], Section<'a>)> {
        let (entries, rest) = self.bytes.split_at_checked(count.checked_mul(N)?)?;
        Some((entries.as_chunks::<N>().0, Section { offset: self.offset + entries.len() as u64, bytes: rest }))
    }
}

/// Whole numbers of a page, encoded.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Integers<'a> {
    /// A base and packed differences to it for each mini-block.
    FrameOfReference(FramesOfReference<'a>),
    /// A first value and packed differences between neighbours for each mini-block.
    Delta(Deltas<'a>),
    /// Runs of equal values.
    RunLength(Runs<'a>),
    /// Runs of equal values, packed.
    PackedRuns(PackedRuns<'a>),
}

impl<'a> Integers<'a> {
    pub(crate) fn open(
        encoding: IntegerEncoding,
        sections: [Section<'a>; INTEGER_SECTIONS],
        value_count: usize,
    ) -> Result<Self, PageError> {
        match encoding {
            IntegerEncoding::FrameOfReference => {
                FramesOfReference::open(sections, value_count).map(Self::FrameOfReference)
            }
            IntegerEncoding::Delta => Deltas::open(sections, value_count).map(Self::Delta),
            IntegerEncoding::RunLength => Runs::open(sections, value_count).map(Self::RunLength),
            IntegerEncoding::PackedRuns => PackedRuns::open(sections, value_count).map(Self::PackedRuns),
        }
    }

    /// Decodes mini-block `index` into `values`, the low bits of each number where `N` is narrower. If `values` has
    /// room for more than the mini-block's, the rest mean nothing; if for fewer, it gets the first ones. Without such a
    /// mini-block nothing is written.
    pub fn decode<N: Native>(&self, index: usize, values: &mut [N]) {
        match self {
            Self::FrameOfReference(frames) => frames.decode(index, values),
            Self::Delta(deltas) => deltas.decode(index, values),
            Self::RunLength(runs) => runs.decode(index, values),
            Self::PackedRuns(runs) => runs.decode(index, values),
        }
    }
}

/// Writes `values` (not empty) into the sections.
pub(crate) fn write(
    encoding: IntegerEncoding,
    values: &[u64],
    signed: bool,
    sections: &mut [Vec<u8>; INTEGER_SECTIONS],
) {
    match encoding {
        IntegerEncoding::FrameOfReference => frame_of_reference::write(values, signed, sections),
        IntegerEncoding::Delta => delta::write(values, sections),
        IntegerEncoding::RunLength => run_length::write(values, signed, sections),
        IntegerEncoding::PackedRuns => packed_runs::write(values, signed, sections),
    }
}

pub(crate) fn mini_block_count(value_count: usize) -> usize {
    value_count.div_ceil(MINI_BLOCK_VALUES)
}

/// What makes the order of 64-bit patterns that of signed numbers, by exclusive or.
fn sign_flip(signed: bool) -> u64 {
    if signed { 1 << 63 } else { 0 }
}

/// The offsets of packed mini-blocks in units of 128 bytes, one more than there are mini-blocks; the difference of two
/// is the width of the mini-block between them.
#[derive(Debug, Clone, Copy)]
struct PackedOffsets<'a>(&'a [[u8; 4]]);

impl<'a> PackedOffsets<'a> {
    /// Checks that the widths are at most 64 and that all the bits are in `packed`.
    fn open(directory: Section<'a>, packed: Section<'a>, block_count: usize) -> Result<Self, PageError> {
        directory.expect_length("the directory of packed mini-blocks", (block_count + 1) * 4)?;
        let offsets = Self(directory.bytes.as_chunks::<4>().0);
        let mut last = 0u32;
        for (index, offset) in offsets.0.iter().enumerate() {
            let offset = u32::from_le_bytes(*offset);
            let least = if index == 0 { 0 } else { last };
            let greatest = if index == 0 { 0 } else { last.saturating_add(64) };
            if offset < least || offset > greatest {
                let expected = format!("{least} to {greatest}");
                return Err(directory.field("the end of a packed mini-block", index * 4, u64::from(offset), expected));
            }
            last = offset;
        }
        packed.expect_length("the packed mini-blocks", last as usize * crate::BYTES_PER_WIDTH)?;
        Ok(offsets)
    }

    #[inline]
    fn bits(&self, packed: &'a [u8], index: usize) -> crate::PackedBits<'a> {
        let at = |index: usize| u32::from_le_bytes(self.0[index]) as usize * crate::BYTES_PER_WIDTH;
        crate::PackedBits::new(&packed[at(index)..at(index + 1)])
    }
}

/// Appends an offset of [`PackedOffsets`]: the end of what is packed so far.
fn push_offset(packed: &[u8], directory: &mut Vec<u8>) {
    directory.extend_from_slice(&((packed.len() / crate::BYTES_PER_WIDTH) as u32).to_le_bytes());
}
