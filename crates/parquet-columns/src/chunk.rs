//! A chunk's bytes, and its dictionary once that was read.
//!
//! **Concurrency**: shared; the dictionary is read by whoever comes to it first.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
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
    /// The chunk of `row_count` rows whose bytes these pieces are: those of `metadata`'s
    /// [`byte_range`](ColumnChunkMetaData::byte_range).
    pub fn new(kind: Kind, metadata: ColumnChunkMetaData, pieces: Vec<Bytes>, row_count: usize) -> Arc<Self> {
        let (start, _) = metadata.byte_range();
        let bytes = Arc::new(ChunkBytes::new(start, pieces));
        Arc::new(Self { kind, metadata, bytes, row_count, dictionary: OnceLock::new() })
    }

    /// A cursor before the first row.
    ///
    /// # Errors
    /// Compression that is not known.
    pub fn cursor(self: &Arc<Self>) -> Result<Cursor, ChunkError> {
        Cursor::new(Arc::clone(self))
    }

    /// Memory that its dictionary takes; 0 until a cursor has read one.
    pub fn dictionary_bytes(&self) -> u64 {
        self.dictionary().map_or(0, |dictionary| dictionary.heap_bytes() as u64)
    }

    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.get()
    }

    /// Notes the dictionary, which is the same for all who read it.
    pub(crate) fn set_dictionary(&self, dictionary: Dictionary) {
        self.dictionary.get_or_init(|| Arc::new(dictionary));
    }
}

/// Bytes of a file from a place on, in pieces.
#[derive(Debug)]
pub(crate) struct ChunkBytes {
    /// Each with where it begins in the file.
    pieces: Arc<[(u64, Bytes)]>,
    end: u64,
}

impl ChunkBytes {
    fn new(start: u64, pieces: Vec<Bytes>) -> Self {
        let mut end = start;
        // With an empty one at the beginning, that every place has a piece.
        let placed = std::iter::once(Bytes::new()).chain(pieces).map(|piece| {
            let begin = end;
            end += piece.len() as u64;
            (begin, piece)
        });
        Self { pieces: placed.collect(), end }
    }

    /// The bytes from an offset in the file on.
    fn from(&self, start: u64) -> ParquetResult<PiecesReader> {
        let first = self.pieces.partition_point(|(begin, _)| *begin <= start).checked_sub(1);
        match first.filter(|_| start <= self.end) {
            Some(piece) => {
                let within = (start - self.pieces[piece].0) as usize;
                Ok(PiecesReader { pieces: Arc::clone(&self.pieces), piece, within })
            }
            None => Err(ParquetError::EOF(format!("byte {start} is not in the column chunk"))),
        }
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for ChunkBytes {
    type T = PiecesReader;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        self.from(start)
    }

    /// Copies what is not in one piece.
    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut reader = self.from(start)?;
        if self.end - start < length as u64 {
            return Err(ParquetError::EOF(format!("{length} bytes from byte {start} on are not in the column chunk")));
        }
        let (_, piece) = &self.pieces[reader.piece];
        if let Some(bytes) = reader.within.checked_add(length).filter(|end| *end <= piece.len()) {
            return Ok(piece.slice(reader.within..bytes));
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads pieces one after the other.
pub(crate) struct PiecesReader {
    pieces: Arc<[(u64, Bytes)]>,
    piece: usize,
    /// Of the next byte in its piece.
    within: usize,
}

impl Read for PiecesReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some((_, piece)) = self.pieces.get(self.piece) {
            let left = &piece[self.within..];
            if left.is_empty() {
                (self.piece, self.within) = (self.piece + 1, 0);
                continue;
            }
            let count = left.len().min(to.len());
            to[..count].copy_from_slice(&left[..count]);
            self.within += count;
            return Ok(count);
        }
        Ok(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use thermocline_seeded::Random;

    use super::*;

    #[test]
    fn pieces_read_as_the_whole_that_they_are_of() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let whole: Vec<u8> = (0..random.below(50)).map(|byte| byte as u8).collect();
            let (mut pieces, mut from) = (Vec::new(), 0);
            while from < whole.len() {
                let piece = random.below(whole.len() - from + 1);
                pieces.push(Bytes::copy_from_slice(&whole[from..from + piece]));
                from += piece;
            }
            let start = random.below(9) as u64;
            let bytes = ChunkBytes::new(start, pieces);
            assert_eq!(bytes.len(), start + whole.len() as u64);
            for _ in 0..30 {
                let (at, length) = (random.below(70) as u64, random.below(60));
                let expected = at.checked_sub(start).and_then(|at| whole.get(at as usize..)?.get(..length));
                assert_eq!(bytes.get_bytes(at, length).ok().as_deref(), expected, "seed {seed}");
                let expected = at.checked_sub(start).and_then(|at| whole.get(at as usize..));
                let mut read = Vec::new();
                let found = bytes.get_read(at).map(|mut reader| reader.read_to_end(&mut read).unwrap());
                assert_eq!(found.is_ok().then_some(read.as_slice()), expected, "seed {seed}");
            }
        }
    }
}
