//! Which values of a page are NULL: none, all, or those whose bit is clear.
//!
//! **Invariants**: the bitmap has as many clear bits as the header counts NULLs, and zeros past the page's end.

use std::ops::Range;

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::header::{Header, ValidityKind};
use crate::integers::Section;
use crate::{MINI_BLOCK_VALUES, PageError};

/// Which values of a page are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity<'a> {
    /// None.
    NoneNull,
    /// All.
    AllNull,
    /// Those whose bit is 0, lowest bits first.
    Bitmap(&'a [u8]),
}

impl<'a> Validity<'a> {
    pub(crate) fn open(header: &Header, section: Section<'a>) -> Result<Self, PageError> {
        let expected_bytes = match header.validity {
            ValidityKind::Bitmap => header.value_count.div_ceil(8),
            _ => 0,
        };
        section.expect_length("the bitmap of values that are not NULL", expected_bytes)?;
        match header.validity {
            ValidityKind::NoneNull => return Ok(Self::NoneNull),
            ValidityKind::AllNull => return Ok(Self::AllNull),
            ValidityKind::Bitmap => {}
        }
        expect_zero_tail(&section, header.value_count)?;
        let valid: usize = section.bytes.iter().map(|byte| byte.count_ones() as usize).sum();
        if valid + header.null_count != header.value_count {
            let expected = (header.value_count - header.null_count).to_string();
            return Err(section.field("the number of values that are not NULL", 0, valid as u64, expected));
        }
        Ok(Self::Bitmap(section.bytes))
    }

    /// Of mini-blocks whose values are `rows` of the page.
    pub(crate) fn nulls(&self, rows: &Range<usize>) -> Option<NullBuffer> {
        match self {
            Self::NoneNull => None,
            Self::AllNull => Some(NullBuffer::new_null(rows.len())),
            Self::Bitmap(bytes) => Some(NullBuffer::new(bits(bytes, rows))),
        }
    }
}

/// Bits past the last value must be zeros.
pub(crate) fn expect_zero_tail(section: &Section<'_>, value_count: usize) -> Result<(), PageError> {
    match section.bytes.last() {
        Some(last) if !value_count.is_multiple_of(8) && last >> (value_count % 8) != 0 => {
            let expected = format!("zeros after bit {value_count}");
            Err(section.field("the last byte of a bitmap", section.bytes.len() - 1, u64::from(*last), expected))
        }
        _ => Ok(()),
    }
}

/// Copies the bits `rows`, which start at a mini-block, out of `bytes`.
pub(crate) fn bits(bytes: &[u8], rows: &Range<usize>) -> BooleanBuffer {
    debug_assert!(rows.start.is_multiple_of(MINI_BLOCK_VALUES));
    let copied = Buffer::from(&bytes[rows.start / 8..rows.end.div_ceil(8)]);
    BooleanBuffer::new(copied, 0, rows.len())
}

/// The bytes of a bitmap, zeros behind its last bit.
pub(crate) fn bitmap_bytes(bits: &BooleanBuffer) -> Vec<u8> {
    let mut bytes = bits.sliced().as_slice()[..bits.len().div_ceil(8)].to_vec();
    if let Some(last) = bytes.last_mut()
        && !bits.len().is_multiple_of(8)
    {
        *last &= 0xff >> (8 - bits.len() % 8);
    }
    bytes
}
