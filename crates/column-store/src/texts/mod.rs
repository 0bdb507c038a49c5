//! Texts and binaries: plain, by a sorted dictionary, or in symbols.
//!
//! **Owns**: where texts start (a run of integers, delta-encoded, so that a start costs the bits of the texts'
//! lengths), their bytes, dictionaries. **Does not own**: whether text is UTF-8, which the array made of it checks.
//!
//! **Invariants**: texts lie one behind the other in the order of the values; a mini-block's texts end where the next
//! one's start.
//!
//! **Concurrency**: plain functions and views.

pub(crate) mod dictionary;
mod distinct;
pub(crate) mod symbols;
mod text;
mod values;

pub use dictionary::Dictionary;
pub(crate) use distinct::DistinctTexts;
pub use symbols::SymbolTexts;
pub(crate) use text::Text;
pub(crate) use values::TextValues;

use std::ops::Range;

use arrow::buffer::NullBuffer;
use thermocline_placement::column_encoding::IntegerEncoding;

use crate::integers::{self, Deltas, INTEGER_SECTIONS, Section, mini_block_count};
use crate::{MINI_BLOCK_VALUES, PageError};

/// Decoded texts: text `i` is the bytes from offset `i` to the next.
#[derive(Debug, Default)]
pub(crate) struct DecodedTexts {
    /// One more than there are texts, rising, the first 0.
    pub(crate) offsets: Vec<i32>,
    pub(crate) bytes: Vec<u8>,
}

impl DecodedTexts {
    pub(crate) fn with_capacity(text_count: usize) -> Self {
        let mut offsets = Vec::with_capacity(text_count + 1);
        offsets.push(0);
        Self { offsets, bytes: Vec::new() }
    }

    /// Ends a text after the bytes that there are.
    pub(crate) fn end_text(&mut self) -> Result<(), PageError> {
        self.offsets.push(checked_size(self.bytes.len())?);
        Ok(())
    }

    /// The same text, `count` times; of NULLs nothing.
    pub(crate) fn repeated(text: &[u8], count: usize, nulls: Option<&NullBuffer>) -> Result<Self, PageError> {
        let valid_count = count - nulls.map_or(0, NullBuffer::null_count);
        checked_size(text.len().saturating_mul(valid_count))?;
        let mut decoded = Self::with_capacity(count);
        decoded.bytes = text.repeat(valid_count);
        let mut end = 0;
        decoded.offsets.extend((0..count).map(|index| {
            end += if nulls.is_none_or(|nulls| nulls.is_valid(index)) { text.len() } else { 0 };
            end as i32
        }));
        Ok(decoded)
    }
}

/// Bytes of decoded texts as an offset.
pub(crate) fn checked_size(size_bytes: usize) -> Result<i32, PageError> {
    i32::try_from(size_bytes).map_err(|_| PageError::TooLong {
        what: "an array of texts",
        size_bytes: size_bytes as u64,
        limit_bytes: i32::MAX as u64,
    })
}

/// Writes where texts start.
pub(crate) fn write_starts(starts: &[u64], sections: &mut [Vec<u8>; INTEGER_SECTIONS]) {
    integers::write(IntegerEncoding::Delta, starts, false, sections);
}

/// Texts one after another, as they are or in symbols.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    starts: Deltas<'a>,
    bytes: Section<'a>,
    value_count: usize,
}

impl<'a> Texts<'a> {
    pub(crate) fn open(
        starts: [Section<'a>; INTEGER_SECTIONS],
        bytes: Section<'a>,
        value_count: usize,
    ) -> Result<Self, PageError> {
        Ok(Self { starts: Deltas::open(starts, value_count)?, bytes, value_count })
    }

    /// The texts of mini-block `index`: calls `each` with every text in order, NULLs included.
    ///
    /// # Errors
    /// A start that is less than the one before or outside the bytes; whatever `each` returns.
    pub fn for_each(
        &self,
        index: usize,
        mut each: impl FnMut(&'a [u8]) -> Result<(), PageError>,
    ) -> Result<(), PageError> {
        let mut starts = [0; MINI_BLOCK_VALUES + 1];
        for ends in self.starts_of(index, &mut starts)?.array_windows::<2>() {
            each(&self.bytes.bytes[ends[0] as usize..ends[1] as usize])?;
        }
        Ok(())
    }

    /// Some of the texts of mini-block `index`, by their places in it: calls `each` with every one of these in this order.
    ///
    /// # Errors
    /// Those of [`Texts::for_each`]; a place behind the last text.
    pub fn for_each_of(
        &self,
        index: usize,
        places: &[u16],
        mut each: impl FnMut(&'a [u8]) -> Result<(), PageError>,
    ) -> Result<(), PageError> {
        let mut starts = [0; MINI_BLOCK_VALUES + 1];
        let starts = self.starts_of(index, &mut starts)?;
        for place in places {
            let place = usize::from(*place);
            let Some([start, end]) = starts.get(place..place + 2) else {
                let mini_block_count = mini_block_count(self.value_count);
                return Err(PageError::Range { asked: index..index + 1, mini_block_count });
            };
            each(&self.bytes.bytes[*start as usize..*end as usize])?;
        }
        Ok(())
    }

    /// Where the texts of a mini-block start, and where the last one ends; all in order and within the bytes.
    fn starts_of<'s>(
        &self,
        index: usize,
        starts: &'s mut [u64; MINI_BLOCK_VALUES + 1],
    ) -> Result<&'s [u64], PageError> {
        let first = index * MINI_BLOCK_VALUES;
        let count = self.value_count.saturating_sub(first).min(MINI_BLOCK_VALUES);
        if count == 0 {
            return Err(PageError::Range {
                asked: index..index + 1,
                mini_block_count: mini_block_count(self.value_count),
            });
        }
        self.starts.decode(index, &mut starts[..count]);
        starts[count] = self.starts.first(index + 1).unwrap_or(self.bytes.bytes.len() as u64);
        let starts = &starts[..=count];
        let rising = starts.array_windows::<2>().fold(true, |rising, pair| rising & (pair[0] <= pair[1]));
        // The first mini-block starts with the bytes: otherwise some of them belong to no text.
        let first_right = index > 0 || starts[0] == 0;
        if rising && first_right && starts[count] <= self.bytes.bytes.len() as u64 {
            return Ok(starts);
        }
        let expected = format!("rising numbers from 0 to {}", self.bytes.bytes.len());
        Err(self.bytes.field("where a text of a mini-block starts", 0, starts[0], expected))
    }

    /// Decodes these mini-blocks of `text_count` plain texts.
    pub(crate) fn decode(&self, mini_blocks: Range<usize>, text_count: usize) -> Result<DecodedTexts, PageError> {
        let mut decoded = DecodedTexts::with_capacity(text_count);
        let mut starts = [0; MINI_BLOCK_VALUES + 1];
        for index in mini_blocks {
            let starts = self.starts_of(index, &mut starts)?;
            let (start, end) = (starts[0] as usize, starts[starts.len() - 1] as usize);
            let before = decoded.bytes.len();
            checked_size(before + (end - start))?;
            decoded.bytes.extend_from_slice(&self.bytes.bytes[start..end]);
            decoded.offsets.extend(starts[1..].iter().map(|end| (before + (*end as usize - start)) as i32));
        }
        Ok(decoded)
    }
}
