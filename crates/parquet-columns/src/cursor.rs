//! Reading on in a chunk: some rows as an array, others not at all.
//!
//! **Concurrency**: one thread at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::ArrayRef;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::ChunkError;
use crate::chunk::{ChunkBytes, ColumnChunk};
use crate::dictionary::Dictionary;
use crate::page::OpenPage;
use crate::slice::Slice;

/// A place in a chunk.
pub struct Cursor {
    chunk: Arc<ColumnChunk>,
    pages: SerializedPageReader<ChunkBytes>,
    page: Option<OpenPage>,
    next_row: usize,
}

impl Cursor {
    pub(crate) fn new(chunk: Arc<ColumnChunk>) -> Result<Self, ChunkError> {
        let pages = SerializedPageReader::new(Arc::clone(&chunk.bytes), &chunk.metadata, chunk.row_count, None)?;
        Ok(Self { chunk, pages, page: None, next_row: 0 })
    }

    /// The row that is read next.
    pub fn next_row(&self) -> usize {
        self.next_row
    }

    /// Leaves out the next rows. Pages that hold nothing else are not decompressed.
    ///
    /// # Errors
    /// Damaged bytes; a chunk with fewer rows.
    pub fn skip(&mut self, count: usize) -> Result<(), ChunkError> {
        let mut missing = count;
        while missing > 0 {
            if let Some(page) = &mut self.page
                && page.rows_left() > 0
            {
                let rows = page.rows_left().min(missing);
                page.skip(rows)?;
                missing -= rows;
                continue;
            }
            self.page = None;
            let header = self.next_header()?.ok_or_else(|| self.ends_early())?;
            let rows = header.num_rows.or(header.num_levels).filter(|rows| *rows <= missing && !header.is_dict);
            match rows {
                Some(rows) => {
                    self.pages.skip_next_page()?;
                    missing -= rows;
                }
                None => self.open_next()?,
            }
        }
        self.next_row += count;
        Ok(())
    }

    /// The next rows as an array: of the column's type, of a form of it that takes fewer bytes (of integers a shorter
    /// one with the same sign, `Decimal32` and `Decimal64` of decimals), or one with a dictionary of any of these.
    ///
    /// # Errors
    /// Damaged bytes; a chunk with fewer rows.
    pub fn take(&mut self, count: usize) -> Result<ArrayRef, ChunkError> {
        let chunk = Arc::clone(&self.chunk);
        let mut slice = Slice::new(&chunk.kind, count);
        let mut missing = count;
        while missing > 0 {
            match &mut self.page {
                Some(page) if page.rows_left() > 0 => {
                    let rows = page.rows_left().min(missing);
                    page.take(rows, chunk.dictionary(), &mut slice)?;
                    missing -= rows;
                }
                _ => self.open_next()?,
            }
        }
        self.next_row += count;
        slice.finish(chunk.dictionary())
    }

    /// Opens the next page of rows, reading a dictionary before it.
    fn open_next(&mut self) -> Result<(), ChunkError> {
        self.page = None;
        loop {
            match self.pages.get_next_page()?.ok_or_else(|| self.ends_early())? {
                Page::DictionaryPage { .. } if self.chunk.dictionary().is_some() => {}
                Page::DictionaryPage { buf, num_values, .. } => {
                    self.chunk.set_dictionary(Dictionary::read(&self.chunk.kind, buf, num_values as usize)?);
                }
                page => {
                    self.page = Some(OpenPage::new(&self.chunk.kind, page, self.chunk.row_count)?);
                    return Ok(());
                }
            }
        }
    }

    /// What is said of the next page.
    fn next_header(&mut self) -> Result<Option<PageMetadata>, ChunkError> {
        // The crate unwraps what damaged headers lack, here alone.
        let peeked = catch_unwind(AssertUnwindSafe(|| self.pages.peek_next_page()));
        peeked
            .unwrap_or_else(|_| Err(ParquetError::General("a page's header lacks a part".to_owned())))
            .map_err(Into::into)
    }

    fn ends_early(&self) -> ChunkError {
        ChunkError::damaged(format!(
            "a column chunk has fewer values than the {} of its row group",
            self.chunk.row_count
        ))
    }
}
