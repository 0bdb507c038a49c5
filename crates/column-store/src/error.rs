//! What can go wrong with a page's bytes, or with values that are to become one.

use std::ops::Range;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Errors of column pages. A page knows neither its file nor its column: whoever read it adds these, and the page's
/// offset. Offsets in messages count from the page's first byte.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The bytes end too early, or go on after the page.
    #[error("{what}: {found_bytes} bytes, expected {expected_bytes}")]
    Length {
        /// Which part of the page.
        what: &'static str,
        /// Bytes that there are.
        found_bytes: u64,
        /// Bytes that there should be.
        expected_bytes: u64,
    },
    /// The bytes are not a column page.
    #[error("the page starts with {found:02x?}, expected {expected:02x?}: these bytes are no column page")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
        /// The four bytes of a column page.
        expected: [u8; 4],
    },
    /// The page was written by a version of the format that this program does not know.
    #[error("the page has version {found} of its format, expected {expected}; read it with a newer program")]
    Version {
        /// The page's version.
        found: u16,
        /// The version this program reads.
        expected: u16,
    },
    /// The bytes are not those that were written.
    #[error("the page's checksum is {found:016x}, expected {expected:016x} as its header says: the page is damaged")]
    Checksum {
        /// Hash of the bytes.
        found: u64,
        /// The hash in the header.
        expected: u64,
    },
    /// A field of the page contradicts the format or another field.
    #[error("offset {offset}: {field} is {found}, expected {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Where it is, in bytes from the page's start.
        offset: u64,
        /// What it says.
        found: u64,
        /// What it may say.
        expected: String,
    },
    /// Values of this type cannot be in column pages.
    #[error("a column page cannot hold values of type {data_type}")]
    Type {
        /// The type.
        data_type: DataType,
    },
    /// The page holds values of another type than the one asked for.
    #[error("the page holds {page} values, expected those of a column of type {asked}")]
    TypeMismatch {
        /// The page's type of values.
        page: &'static str,
        /// The column's type.
        asked: DataType,
    },
    /// Too few or too many values for a page.
    #[error("{found} values for a page, expected 1 to {limit}")]
    ValueCount {
        /// Values given.
        found: u64,
        /// Most values of a page.
        limit: u64,
    },
    /// The values cannot be written in this way.
    #[error("values of type {data_type} cannot be written with encoding {encoding}: {reason}")]
    NotApplicable {
        /// The encoding.
        encoding: String,
        /// The values' type.
        data_type: DataType,
        /// Why not.
        reason: &'static str,
    },
    /// The page, or the array, would be too long.
    #[error("{what} would take {size_bytes} bytes, expected at most {limit_bytes}; take fewer values at once")]
    TooLong {
        /// What would be too long.
        what: &'static str,
        /// Its length.
        size_bytes: u64,
        /// The longest possible.
        limit_bytes: u64,
    },
    /// Mini-blocks that the page does not have were asked for.
    #[error("mini-blocks {asked:?} asked for, expected a range within 0..{mini_block_count}")]
    Range {
        /// What was asked for.
        asked: Range<usize>,
        /// What there is.
        mini_block_count: usize,
    },
    /// Packed values do not fit the word they were to be unpacked to.
    #[error("values of {width} bits unpacked to words of {word}, expected at least as many")]
    TooWide {
        /// Bits of a value.
        width: u32,
        /// Bits of a word.
        word: u32,
    },
    /// The decoded values make no valid array: text that is not UTF-8, decimals or times that do not fit their type.
    #[error("the page's values make no valid array: {0}")]
    Array(#[from] ArrowError),
}
