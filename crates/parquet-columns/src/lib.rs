//! Column chunks of Parquet files as arrays that pipelines work on: numbers in as few bytes as a chunk's dictionary
//! allows, texts as codes of it.
//!
//! **Owns**: which columns can be read so ([`Kind::of`]), a chunk's bytes and its dictionary ([`ColumnChunk`]), reading
//! on in it ([`Cursor`]). **Does not own**: where bytes come from, which rows are read, headers of pages and
//! decompression (the `parquet` crate's).
//!
//! What is read are columns without nesting, of numbers, dates, timestamps, decimals, truth values and texts, plain or
//! with a dictionary: what writers make unless told otherwise. For the rest there is the `parquet` crate's own reader.
//! That one gives rows in batches, every value in the width of its type and every text spelt out; here a quantity
//! between 1 and 50 takes a byte, as its dictionary has no more to tell, and a condition on it looks at a quarter of
//! the bytes.
//!
//! **Invariants**: values are those that the `parquet` crate reads, in the order of the file. Bytes that are damaged are
//! an error, and never a panic; of damage that leaves pages well-formed nothing is noticed.
//!
//! **Concurrency**: a chunk is shared by any number of cursors; a cursor belongs to one thread at a time.

mod chunk;
mod cursor;
mod dictionary;
mod hybrid;
mod kind;
mod page;
mod plain;
mod slice;
#[cfg(test)]
mod tests;

pub use chunk::ColumnChunk;
pub use cursor::Cursor;
pub use kind::Kind;

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

/// What is damaged in a chunk, so that it cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// Bytes that mean nothing.
    #[error("{0}")]
    Damaged(String),
    /// Texts that one array cannot hold, or that take much more memory than the file has of them, though a reader of
    /// fewer rows at once may.
    #[error("texts of too many bytes in a few rows")]
    TooLong,
    /// A value that its column's type does not have.
    #[error(transparent)]
    Value(#[from] ArrowError),
    /// What the `parquet` crate says of a page.
    #[error(transparent)]
    Page(#[from] ParquetError),
}

impl ChunkError {
    fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(what.into())
    }

    /// Whether nothing is wrong, but that there are too many bytes in the rows that were asked for.
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::TooLong | Self::Value(ArrowError::OffsetOverflowError(_)))
    }
}
