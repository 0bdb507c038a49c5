//! What pages are pages of: where they lie and whether they are what they should be.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use thermocline_medium::{Medium, MediumFile};
use thermocline_placement::page_cache::{ListKey, PageKey};

use crate::arena::UNIT_BYTES;
use crate::pool::BufferPool;
use crate::{PageReader, ReadOptions};

/// Where a page lies, and which list it belongs to.
#[derive(Debug, Clone)]
pub struct PagePlace {
    /// The file.
    pub file: MediumFile,
    /// Where the page begins there, best a multiple of 4096.
    pub offset_bytes: u64,
    /// What is read, best a multiple of 4096; the file must have it. Pages lie so far apart that one I/O can read
    /// together.
    pub read_bytes: u32,
    /// What of it is the page; no more than `read_bytes`.
    pub size_bytes: u32,
    /// The pages that it shares a quota with, of [`BufferPool::new_list`].
    pub list: ListKey,
    /// Which of its source's rows it has: scans read the pages of all their columns with the same number together, and
    /// policies may keep them together. Pages that are not read so have numbers of their own.
    pub rows: u32,
}

impl PagePlace {
    /// The memory that a page takes of which so much is read.
    pub(crate) fn memory_bytes(read_bytes: u32) -> u64 {
        u64::from(read_bytes.max(1)).next_multiple_of(UNIT_BYTES)
    }

    /// The memory that this page takes.
    pub(crate) fn held_bytes(&self) -> u64 {
        Self::memory_bytes(self.read_bytes)
    }

    /// Whether the other page begins in the file where the memory for this one would end.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.offset_bytes + self.held_bytes() == next.offset_bytes && self.file.is_same(&next.file)
    }
}

/// Something that has pages under numbers: a table's column pages, a Parquet file's chunks, an index.
///
/// A page's place and bytes never change while its source is registered: whatever is written anew is another source.
pub trait PageSource: Send + Sync {
    /// What the files are in.
    fn medium(&self) -> &Arc<dyn Medium>;

    /// Where a page lies. Called for each page that is asked for: no I/O, no search.
    fn place(&self, page: u32) -> PagePlace;

    /// Whether these bytes, as many as the page has, are the page. Called once after each read, on the thread that asks
    /// for the page and with no lock held.
    ///
    /// # Errors
    /// What is wrong; every reader that waits for the page gets it, and the page is read again when it is next asked
    /// for.
    fn check(&self, page: u32, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// The page in errors: table, row group, column.
    fn describe(&self, page: u32) -> String;

    /// Whether its reads show how fast the database's storage is. Not those of other devices, nor those that the
    /// system's page cache may serve.
    fn shows_storage_rate(&self) -> bool {
        true
    }
}

/// A source as the pool knows it.
pub(crate) struct SourceEntry {
    pub(crate) id: u32,
    pub(crate) source: Arc<dyn PageSource>,
}

/// A source whose pages the pool keeps, until this is dropped: then those that nobody has pinned are gone at once, and
/// the others when they are unpinned. Readers that are still at it go on; what they read is not kept.
pub struct RegisteredSource {
    pool: Arc<BufferPool>,
    entry: Arc<SourceEntry>,
}

impl RegisteredSource {
    pub(crate) fn new(pool: Arc<BufferPool>, entry: Arc<SourceEntry>) -> Self {
        Self { pool, entry }
    }

    /// The number by which policies and snapshots know the source. Never given again.
    pub fn id(&self) -> u32 {
        self.entry.id
    }

    /// A reader of these pages, in this order. Nothing is read before it is first polled. Who wants several columns
    /// side by side asks one reader for all their pages in the order of use, rather than a reader for each: they share
    /// what may be read ahead.
    pub fn reader(&self, pages: impl IntoIterator<Item = u32>, options: ReadOptions) -> PageReader {
        PageReader::new(Arc::clone(&self.pool), Arc::clone(&self.entry), pages.into_iter().collect(), options)
    }

    /// Which of these pages are neither in memory nor on their way.
    pub fn missing(&self, pages: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let residents = self.pool.residents.lock();
        let is_missing = |page: &u32| !residents.has(PageKey { source: self.entry.id, page: *page });
        pages.into_iter().filter(is_missing).collect()
    }
}

impl Drop for RegisteredSource {
    fn drop(&mut self) {
        self.pool.unregister(self.entry.id);
    }
}

impl fmt::Debug for RegisteredSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredSource").field("id", &self.entry.id).finish_non_exhaustive()
    }
}
