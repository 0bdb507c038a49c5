//! A Parquet file as pages of the buffer pool: pieces of its column chunks, numbered in the order of the file.
//!
//! Owns: which bytes are which page, and of which column. A chunk is cut into blocks of [`BLOCK_BYTES`] from its first
//! byte on, the last one shorter; so is what lies between chunks (bloom filters, indexes, the footer), which is of no
//! column. So any range that a reader asks for, a whole chunk or the few data pages that a page index leaves of it, is
//! that of some blocks, and what is read beyond it is less than two of them. Data pages would fit exactly, but are not
//! known without a page index, and there are writers that make them a few bytes or many megabytes long.
//!
//! Invariants: every byte of the file is in one page, and pages of one column hold nothing of another. Neighbouring
//! full blocks are neighbours in the pool's memory too, so that they are read together.
//!
//! Pure. Finding the pages of a range is a binary search, the place of a page a look-up.

use std::ops::Range;

use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Of a page that is not the last of its chunk: a multiple of what the pool's memory is divided by. What a page index
/// selects of a chunk is a few hundred kilobytes, so larger ones would waste memory and reads; a page's notes and its
/// look-up are as nothing beside decoding so much.
pub(super) const BLOCK_BYTES: u64 = 256 << 10;

/// Which bytes are which page; see the module.
#[derive(Debug)]
pub(super) struct ChunkGrid {
    /// In the order of the file, without gaps.
    regions: Vec<Region>,
    /// The region of each page.
    region_of_page: Vec<u32>,
}

/// A column chunk, or what lies between two.
#[derive(Debug, Clone, Copy)]
struct Region {
    start_bytes: u64,
    end_bytes: u64,
    first_page: u32,
    /// Index of the top-level column; that behind the last for what is of none.
    column: u32,
}

impl ChunkGrid {
    /// The grid of a file of `size_bytes` with this footer. `None` if the footer has chunks that lie outside of the
    /// file or over each other: whoever reads such a file is to find out what it is worth.
    pub(super) fn new(footer: &ParquetMetaData, size_bytes: u64) -> Option<Self> {
        let schema = footer.file_metadata().schema_descr();
        let no_column = schema.root_schema().get_fields().len();
        let mut chunks = Vec::new();
        for row_group in footer.row_groups() {
            for (leaf, chunk) in row_group.columns().iter().enumerate() {
                let range = chunk_range(chunk)?;
                if !range.is_empty() {
                    chunks.push((range, schema.get_column_root_idx(leaf)));
                }
            }
        }
        chunks.sort_unstable_by_key(|(range, _)| range.start);
        let mut grid = Self { regions: Vec::new(), region_of_page: Vec::new() };
        let mut end_bytes = 0;
        for (range, column) in chunks {
            if range.start < end_bytes || range.end > size_bytes {
                return None;
            }
            grid.push(end_bytes..range.start, no_column)?;
            end_bytes = range.end;
            grid.push(range, column)?;
        }
        grid.push(end_bytes..size_bytes, no_column)?;
        grid.regions.shrink_to_fit();
        grid.region_of_page.shrink_to_fit();
        Some(grid)
    }

    /// `None` if there are more pages than numbers for them.
    fn push(&mut self, range: Range<u64>, column: usize) -> Option<()> {
        if range.is_empty() {
            return Some(());
        }
        let first_page = u32::try_from(self.region_of_page.len()).ok()?;
        let page_count = usize::try_from((range.end - range.start).div_ceil(BLOCK_BYTES)).ok()?;
        let end_page = self.region_of_page.len().checked_add(page_count)?;
        u32::try_from(end_page).ok()?;
        let region = u32::try_from(self.regions.len()).ok()?;
        self.region_of_page.resize(end_page, region);
        let column = u32::try_from(column).ok()?;
        self.regions.push(Region { start_bytes: range.start, end_bytes: range.end, first_page, column });
        Some(())
    }

    /// The pages that hold `range`, which is within the file.
    pub(super) fn pages(&self, range: &Range<u64>) -> Range<u32> {
        if range.is_empty() {
            return 0..0;
        }
        self.page_at(range.start)..self.page_at(range.end - 1) + 1
    }

    fn page_at(&self, offset_bytes: u64) -> u32 {
        let at = self.regions.partition_point(|region| region.start_bytes <= offset_bytes).saturating_sub(1);
        let Region { start_bytes, first_page, .. } = self.regions[at];
        // A page of the region, whose pages were counted with 32 bits.
        first_page + ((offset_bytes - start_bytes) / BLOCK_BYTES) as u32
    }

    /// Where a page lies in the file, and of which column it is: a number one beyond the last column's if of none.
    pub(super) fn place(&self, page: u32) -> (Range<u64>, usize) {
        let Region { start_bytes, end_bytes, first_page, column } =
            self.regions[self.region_of_page[page as usize] as usize];
        let start = start_bytes + u64::from(page - first_page) * BLOCK_BYTES;
        (start..end_bytes.min(start + BLOCK_BYTES), column as usize)
    }

    /// Bytes of the chunks of each of `column_count` columns.
    pub(super) fn column_bytes(&self, column_count: usize) -> Vec<u64> {
        let mut bytes = vec![0; column_count];
        for region in &self.regions {
            if let Some(of_column) = bytes.get_mut(region.column as usize) {
                *of_column += region.end_bytes - region.start_bytes;
            }
        }
        bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.regions.capacity() * size_of::<Region>() + self.region_of_page.capacity() * size_of::<u32>()
    }
}

/// Where a column chunk lies; `None` if that is nowhere.
fn chunk_range(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let start = u64::try_from(start).ok()?;
    let end = start.checked_add(u64::try_from(chunk.compressed_size()).ok()?)?;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray};
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::parquet::arrow::ArrowWriter;
    use datafusion::parquet::file::properties::WriterProperties;

    use super::*;

    /// Two row groups of a wide column, a narrow one and a struct of both; the file's size and footer.
    fn file() -> (u64, ParquetMetaData) {
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(0..80_000));
        let narrow: ArrayRef = Arc::new(Int64Array::from_iter_values((0..80_000).map(|_| 1)));
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
        let both = StructArray::from(vec![(field("w"), Arc::clone(&wide)), (field("n"), Arc::clone(&narrow))]);
        let columns = [("wide", wide), ("narrow", narrow), ("both", Arc::new(both))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(50_000)).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        let footer = writer.close().unwrap();
        (bytes.len() as u64, footer)
    }

    fn page_count(grid: &ChunkGrid) -> u32 {
        u32::try_from(grid.region_of_page.len()).unwrap()
    }

    #[test]
    fn pages_follow_each_other_through_the_file_and_are_of_one_column_each() {
        let (size_bytes, footer) = file();
        let grid = ChunkGrid::new(&footer, size_bytes).unwrap();
        let mut end_bytes = 0;
        let mut bytes_of_column = [0; 4];
        for page in 0..page_count(&grid) {
            let (range, column) = grid.place(page);
            assert_eq!(range.start, end_bytes);
            assert!(range.end > range.start && range.end - range.start <= BLOCK_BYTES);
            end_bytes = range.end;
            bytes_of_column[column] += range.end - range.start;
        }
        assert_eq!(end_bytes, size_bytes);
        let chunks = footer.row_groups().iter().flat_map(|group| group.columns().iter().enumerate());
        let mut expected = [0; 3];
        for (leaf, chunk) in chunks {
            let (start, length) = chunk.byte_range();
            let column = [0, 1, 2, 2][leaf];
            expected[column] += length;
            let pages = grid.pages(&(start..start + length));
            assert_eq!((grid.place(pages.start).0.start, grid.place(pages.end - 1).0.end), (start, start + length));
            assert!(pages.clone().all(|page| grid.place(page).1 == column));
            assert_eq!(u64::from(pages.end - pages.start), length.div_ceil(BLOCK_BYTES));
        }
        assert_eq!(grid.column_bytes(3), expected);
        assert_eq!(bytes_of_column[..3], expected);
    }

    #[test]
    fn a_range_is_that_of_the_pages_that_hold_it_and_no_others() {
        let (size_bytes, footer) = file();
        let grid = ChunkGrid::new(&footer, size_bytes).unwrap();
        for start in (0..size_bytes).step_by(997) {
            for length in [1, 5000, BLOCK_BYTES, 3 * BLOCK_BYTES] {
                let range = start..size_bytes.min(start + length);
                let pages = grid.pages(&range);
                let (first, last) = (grid.place(pages.start).0, grid.place(pages.end - 1).0);
                assert!(first.contains(&range.start) && last.contains(&(range.end - 1)), "{range:?}: {pages:?}");
            }
        }
        assert!(grid.pages(&(7..7)).is_empty());
    }

    #[test]
    fn a_footer_whose_chunks_lie_elsewhere_has_no_grid() {
        let (size_bytes, footer) = file();
        let last = footer.row_groups().last().unwrap().columns().last().unwrap().byte_range();
        assert!(ChunkGrid::new(&footer, last.0 + last.1 - 1).is_none());
        assert!(ChunkGrid::new(&footer, size_bytes).is_some());
    }
}
