//! A chunk's bytes, and its dictionary once that was read.
//!
//! **Concurrency**: shared; the dictionary is read by whoever comes to it first.

use std::io::Cursor as BytesCursor;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::ChunkError;
use crate::cursor::Cursor;
use crate::dictionary::Dictionary;
use crate::kind::Kind;

/// A column of a row group.
#[derive(Debug)]
pub struct ColumnChunk {
    pub(crate) kind: Kind,
    pub(crate) metadata: ColumnChunkMetaData,
    pub(crate) bytes: Arc<ChunkBytes>,
    pub(crate) row_count: usize,
    dictionary: OnceLock<Arc<Dictionary>>,
}

impl ColumnChunk {
    /// The chunk of `row_count` rows whose bytes these are: those of `metadata`'s
    /// [`byte_range`](ColumnChunkMetaData::byte_range).
    pub fn new(kind: Kind, metadata: ColumnChunkMetaData, bytes: Bytes, row_count: usize) -> Arc<Self> {
        let (start, _) = metadata.byte_range();
        let bytes = Arc::new(ChunkBytes { start, bytes });
        Arc::new(Self { kind, metadata, bytes, row_count, dictionary: OnceLock::new() })
    }

    /// A cursor before the first row.
    ///
    /// # Errors
    /// Compression that is not known.
    pub fn cursor(self: &Arc<Self>) -> Result<Cursor, ChunkError> {
        Cursor::new(Arc::clone(self))
    }

    /// Bytes that it holds.
    pub fn size_bytes(&self) -> usize {
        self.bytes.bytes.len()
    }

    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.get()
    }

    /// Notes the dictionary, which is the same for all who read it.
    pub(crate) fn set_dictionary(&self, dictionary: Dictionary) {
        self.dictionary.get_or_init(|| Arc::new(dictionary));
    }
}

/// Bytes of a file from a place on.
#[derive(Debug)]
pub(crate) struct ChunkBytes {
    start: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    /// The bytes from an offset in the file on, `length` of them if that is given.
    fn slice(&self, start: u64, length: Option<usize>) -> ParquetResult<Bytes> {
        let begin = start.checked_sub(self.start).and_then(|begin| usize::try_from(begin).ok());
        let end = |begin: usize| length.map_or(Some(self.bytes.len()), |length| begin.checked_add(length));
        match begin.and_then(|begin| Some(begin..end(begin)?)) {
            Some(range) if range.start <= range.end && range.end <= self.bytes.len() => Ok(self.bytes.slice(range)),
            _ => Err(ParquetError::EOF(format!("byte {start} is not in the column chunk, or too near to its end"))),
        }
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<BytesCursor<Bytes>>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BytesCursor::new(self.slice(start, None)?).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.slice(start, Some(length))
    }
}
