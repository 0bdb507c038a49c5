//! One version of a Parquet file as a source of pages: what of it is in the buffer pool, and ranges of it read through
//! there.
//!
//! Owns: the pages of a version ([`FilePages`]), and how ranges are put together from them. Does not own: which bytes
//! are which page (`chunk_grid`), how they are read (`open_files`), which versions are known (`page_store`).
//!
//! What is kept are the file's bytes, as they are stored: encoded and compressed. DataFusion's reader gets ranges that
//! are copied out of the pages, so that these are pinned for that moment only: what is decoded from uncompressed text
//! refers to the bytes that it was decoded from, for as long as a query keeps its rows, and the pool could not yield
//! that memory to queries meanwhile. Pipelines, which decode into memory of their own, read pages where they are.
//!
//! There is nothing to check a block by: checksums of Parquet are of data pages, which begin and end anywhere, and
//! optional; the decoder, which knows where they are, is built without verifying them. Bytes that are damaged are
//! found, if they are, by the decoder, whose error names the file.
//!
//! Invariants: pages are only of this version, read while the file was unwritten. A page that neither the pool nor the
//! query has memory for is read past the pool.

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use thermocline_budget::Reservation;
use thermocline_buffer_pool::{
    BufferPool, PagePlace, PageReader, PageSource, PinnedPage, PoolError, ReadOptions, RegisteredSource,
};
use thermocline_medium::{FileVersion, Medium, MediumFile};
use thermocline_placement::page_cache::ListKey;

use super::chunk_grid::{BLOCK_BYTES, ChunkGrid};
use super::file::ParquetFile;
use super::open_files::{OpenFiles, OpenHandles};
use crate::raw_table::listing::external;

/// A pool that can have no more than this has blocks enough for a few readers at a time only: reading past it, in
/// pieces as large as the scan likes, is faster than what so little saves.
const LEAST_POOL_BYTES: u64 = 16 * BLOCK_BYTES;

/// What part of the pool one scan holds pages in at most.
const MOST_HELD_PART: u64 = 8;

/// A top-level column of a file, as the pool knows it.
#[derive(Debug, Clone)]
pub(crate) struct PageColumn {
    pub(crate) name: Arc<str>,
    pub(crate) data_type: DataType,
    /// Of its chunks, as they are stored.
    pub(crate) size_bytes: u64,
    /// That its pages are in.
    pub(crate) list: ListKey,
}

/// The pages of one version of a file.
#[derive(Debug)]
pub(crate) struct FilePages {
    version: FileVersion,
    pool: Arc<BufferPool>,
    columns: Arc<[PageColumn]>,
    grid: Arc<ChunkGrid>,
    handles: Arc<OpenHandles>,
    source: RegisteredSource,
    /// For what is known of it.
    _directory: Reservation,
}

/// How many pages a scan found in memory, and how many it read.
#[derive(Debug, Clone)]
pub(crate) struct PageCounts {
    hits: Count,
    misses: Count,
}

/// What a read through the pool has brought.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Served {
    /// Bytes that were not in memory.
    pub(crate) read_bytes: u64,
    /// Bytes of what was brought that lie in memory of its own, not in the pool.
    pub(crate) copied_bytes: u64,
}

impl PageCounts {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            hits: MetricBuilder::new(metrics).counter("pages_from_memory", partition),
            misses: MetricBuilder::new(metrics).counter("pages_read", partition),
        }
    }
}

impl FilePages {
    /// The pages of `version`, registered with `pool`. The last of `lists`, one more than there are columns, is for
    /// what is of no column.
    pub(super) fn new(
        version: FileVersion,
        pool: &Arc<BufferPool>,
        columns: Arc<[PageColumn]>,
        rest: ListKey,
        grid: ChunkGrid,
        directory: Reservation,
    ) -> Self {
        let (grid, handles) = (Arc::new(grid), Arc::<OpenHandles>::default());
        let blocks = FileBlocks {
            medium: Arc::new(OpenFiles),
            file: OpenFiles::handle(&version.path, &handles),
            grid: Arc::clone(&grid),
            columns: Arc::clone(&columns),
            rest,
        };
        let source = pool.register(Arc::new(blocks));
        Self { version, pool: Arc::clone(pool), columns, grid, handles, source, _directory: directory }
    }

    /// The version that they are of.
    pub(crate) fn version(&self) -> &FileVersion {
        &self.version
    }

    /// The file's columns, in its order.
    pub(crate) fn columns(&self) -> &[PageColumn] {
        &self.columns
    }

    /// Has what is not in memory read from `file`, which is of this version, for as long as somebody has it open.
    pub(super) fn read_from(&self, file: &ParquetFile) {
        debug_assert_eq!(file.version(), &self.version);
        self.handles.add(file);
    }

    /// The bytes of each range, in their order. `file` is of this version.
    ///
    /// # Errors
    /// As [`ParquetFile::read`].
    pub(super) async fn read(
        &self,
        file: &ParquetFile,
        ranges: Vec<Range<u64>>,
        counts: &PageCounts,
    ) -> Result<(Vec<Bytes>, Served)> {
        let Some(mut pages) = self.pages_of(file, &ranges, counts)? else {
            let read_bytes = ranges.iter().map(|range| range.end - range.start).sum();
            return Ok((file.read(ranges).await?, Served { read_bytes, copied_bytes: read_bytes }));
        };
        let mut read = Vec::with_capacity(ranges.len());
        for range in ranges {
            // Of a file of this machine's size limits, and within it.
            let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
            for page in self.grid.pages(&range) {
                match pages.part_of(page, &range).await? {
                    Part::Page(page, within) => bytes.extend_from_slice(&page[within]),
                    Part::Copy(pieces) => pieces.iter().for_each(|piece| bytes.extend_from_slice(piece)),
                }
            }
            pages.served.copied_bytes += bytes.len() as u64;
            read.push(Bytes::from(bytes));
        }
        Ok((read, pages.served))
    }

    /// The bytes of a range in pieces, which are pages, or parts of them, that stay in memory for as long as the pieces
    /// are held. `file` is of this version.
    ///
    /// # Errors
    /// As [`ParquetFile::read`].
    pub(super) async fn read_in_place(
        &self,
        file: &ParquetFile,
        range: Range<u64>,
        counts: &PageCounts,
    ) -> Result<(Vec<Bytes>, Served)> {
        let ranges = [range];
        let Some(mut pages) = self.pages_of(file, &ranges, counts)? else {
            let read_bytes = ranges[0].end - ranges[0].start;
            return Ok((file.read(ranges.to_vec()).await?, Served { read_bytes, copied_bytes: read_bytes }));
        };
        let mut read = Vec::new();
        for page in self.grid.pages(&ranges[0]) {
            match pages.part_of(page, &ranges[0]).await? {
                Part::Page(page, within) => read.push(Bytes::from_owner(page).slice(within)),
                Part::Copy(pieces) => {
                    pages.served.copied_bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    read.extend(pieces);
                }
            }
        }
        Ok((read, pages.served))
    }

    /// Whether pages of so many bytes can be held for a while without keeping others from theirs.
    pub(super) fn may_hold(&self, bytes: u64) -> bool {
        bytes <= self.pool.capacity_bytes() / MOST_HELD_PART
    }

    /// The pages of these ranges on their way; none if the pool is too small.
    fn pages_of<'a>(
        &'a self,
        file: &'a ParquetFile,
        ranges: &[Range<u64>],
        counts: &'a PageCounts,
    ) -> Result<Option<Pages<'a>>> {
        file.check_ranges(ranges)?;
        if self.pool.capacity_bytes() < LEAST_POOL_BYTES {
            return Ok(None);
        }
        let mut numbers: Vec<u32> = ranges.iter().flat_map(|range| self.grid.pages(range)).collect();
        numbers.dedup();
        let reader = self.source.reader(numbers, ReadOptions::default());
        Ok(Some(Pages { pages: self, file, reader, last: None, served: Served::default(), counts }))
    }
}

/// Pages on their way, in the order of the ranges that they are wanted for.
struct Pages<'a> {
    pages: &'a FilePages,
    file: &'a ParquetFile,
    reader: PageReader,
    /// The page that came last, for the next range may begin in it; none if it had to be read past the pool.
    last: Option<(u32, Option<PinnedPage>)>,
    served: Served,
    counts: &'a PageCounts,
}

/// What a page has of a range.
enum Part {
    /// These bytes of it.
    Page(PinnedPage, Range<usize>),
    /// Read past the pool.
    Copy(Vec<Bytes>),
}

impl Pages<'_> {
    /// What `page` has of `range`.
    async fn part_of(&mut self, page: u32, range: &Range<u64>) -> Result<Part> {
        if self.last.as_ref().is_none_or(|(number, _)| *number != page) {
            let pinned = self.next().await?;
            self.last = Some((page, pinned));
        }
        let (place, _) = self.pages.grid.place(page);
        let part = range.start.max(place.start)..range.end.min(place.end);
        match &self.last {
            Some((_, Some(pinned))) => {
                // Distances within a block.
                let within = (part.start - place.start) as usize..(part.end - place.start) as usize;
                Ok(Part::Page(pinned.clone(), within))
            }
            _ => {
                self.served.read_bytes += part.end - part.start;
                Ok(Part::Copy(self.file.read(std::iter::once(part).collect()).await?))
            }
        }
    }

    /// The next page; none if there is no memory for it.
    async fn next(&mut self) -> Result<Option<PinnedPage>> {
        match self.reader.next().await {
            Some(Ok(page)) => {
                if page.was_hit() {
                    self.counts.hits.add(1);
                } else {
                    self.counts.misses.add(1);
                    self.served.read_bytes += page.len() as u64;
                }
                Ok(Some(page))
            }
            Some(Err(PoolError::Memory { .. })) | None => {
                self.counts.misses.add(1);
                Ok(None)
            }
            Some(Err(error)) => Err(external(error)),
        }
    }
}

/// The file as the pool knows it.
#[derive(Debug)]
struct FileBlocks {
    medium: Arc<dyn Medium>,
    file: MediumFile,
    grid: Arc<ChunkGrid>,
    columns: Arc<[PageColumn]>,
    rest: ListKey,
}

impl PageSource for FileBlocks {
    fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    fn place(&self, page: u32) -> PagePlace {
        let (range, column) = self.grid.place(page);
        // At most a block.
        let size_bytes = (range.end - range.start) as u32;
        PagePlace {
            file: self.file.clone(),
            offset_bytes: range.start,
            read_bytes: size_bytes,
            size_bytes,
            list: self.columns.get(column).map_or(self.rest, |column| column.list),
            // A row group has many blocks of a column, too many to be kept or read as one.
            rows: page,
        }
    }

    fn check(&self, _page: u32, _bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }

    fn describe(&self, page: u32) -> String {
        match self.columns.get(self.grid.place(page).1) {
            Some(column) => format!("column '{}'", column.name),
            None => "what lies between columns".to_owned(),
        }
    }

    fn shows_storage_rate(&self) -> bool {
        false
    }
}
