//! The Parquet files whose pages the buffer pool may hold, by path: one version of each.
//!
//! Owns: which versions are known, and which list of the pool each of a file's columns has. A list stays with the
//! column of a path when another version comes, so that what is known of the queries that read it stays of use; pages
//! never do, for they are numbered within a version's own source.
//!
//! Invariants. Pages are of the version that they were read from, and that was not young then: a later write would have
//! shown. When another version of a path is asked for, the pages of the one before go, at the latest with the last
//! query that reads it. At most [`FILES_MOST`] files are known; the one not asked for longest makes way, and its pages
//! go too. What is known of a file is counted in the budget.
//!
//! Concurrency: one lock, for look-ups. Grids are made without it; of two made at once the first stays.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::parquet::file::metadata::ParquetMetaData;
use parking_lot::Mutex;
use thermocline_budget::{Account, Budget, Purpose};
use thermocline_buffer_pool::BufferPool;
use thermocline_hardware::Clock;
use thermocline_placement::page_cache::ListKey;

use super::chunk_grid::ChunkGrid;
use super::file::ParquetFile;
use super::file_pages::{FilePages, PageColumn};
use super::schema;
use crate::page_pool::PagePool;

/// Files that are known at most: folders of thousands of files are, and what is known of each, some kilobytes, stays
/// within some tens of megabytes.
const FILES_MOST: usize = 8192;

/// The Parquet files of a database as sources of pages.
pub(crate) struct ParquetPages {
    pages: Arc<PagePool>,
    account: Account,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Arc<str>, Known>,
    /// Lists that are no column's any more.
    spare_lists: Vec<ListKey>,
    /// Counts uses.
    now: u64,
}

struct Known {
    pages: Arc<FilePages>,
    /// Of what is of no column.
    rest: ListKey,
    last_use: u64,
}

impl ParquetPages {
    /// No file is known; pages go into `pages`.
    pub(crate) fn new(pages: &Arc<PagePool>, budget: &Budget, clock: &Arc<dyn Clock>) -> Arc<Self> {
        let account = budget.account("Parquet page directories", Purpose::Query);
        Arc::new(Self { pages: Arc::clone(pages), account, clock: Arc::clone(clock), state: Mutex::default() })
    }

    /// What holds the pages.
    pub(super) fn pool(&self) -> &PagePool {
        &self.pages
    }

    /// What scans are timed by.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The files that are known, by path.
    pub(crate) fn files(&self) -> Vec<Arc<FilePages>> {
        let mut files: Vec<Arc<FilePages>> =
            self.state.lock().files.values().map(|known| Arc::clone(&known.pages)).collect();
        files.sort_unstable_by(|left, right| left.version().path.cmp(&right.version().path));
        files
    }

    /// The pages of `file`, read from it as long as somebody has it open. `None` if they can't be kept: its version is
    /// young, or its footer makes no sense.
    pub(super) fn of(&self, file: &ParquetFile, footer: &ParquetMetaData) -> Option<Arc<FilePages>> {
        if let Some(known) = self.state.lock().find(file) {
            known.read_from(file);
            return Some(known);
        }
        if file.version().is_young(self.clock.wall_ns()) {
            return None;
        }
        let grid = ChunkGrid::new(footer, file.size_bytes())?;
        let fields = schema::of_file(file, footer).ok()?;
        let stored = schema::by_name(&fields);
        let roots = footer.file_metadata().schema_descr().root_schema().get_fields();
        let bytes = grid.column_bytes(roots.len());
        let directory = self.account.reserve_infallible(
            (grid.heap_bytes() + roots.len() * size_of::<PageColumn>() + size_of::<FilePages>()) as u64,
        );
        let pool = self.pages.pool();
        let mut state = self.state.lock();
        if let Some(known) = state.find(file) {
            known.read_from(file);
            return Some(known);
        }
        let path = file.path();
        let mut lists = Lists::of(state.files.remove(path), pool, &mut state.spare_lists);
        let columns = roots.iter().zip(bytes).map(|(root, size_bytes)| PageColumn {
            name: root.name().into(),
            data_type: stored.get(root.name()).map_or(DataType::Null, |field| field.data_type().clone()),
            size_bytes,
            list: lists.take(Some(root.name())),
        });
        let columns = columns.collect();
        let rest = lists.take(None);
        drop(lists);
        state.make_way();
        let pages = Arc::new(FilePages::new(file.version().clone(), pool, columns, rest, grid, directory));
        pages.read_from(file);
        state.now += 1;
        let known = Known { pages: Arc::clone(&pages), rest, last_use: state.now };
        state.files.insert(Arc::clone(path), known);
        Some(pages)
    }
}

impl State {
    fn find(&mut self, file: &ParquetFile) -> Option<Arc<FilePages>> {
        self.now += 1;
        let known = self.files.get_mut(file.path()).filter(|known| known.pages.version() == file.version())?;
        known.last_use = self.now;
        Some(Arc::clone(&known.pages))
    }

    /// Forgets the file not asked for longest if there is no room for another.
    fn make_way(&mut self) {
        if self.files.len() < FILES_MOST {
            return;
        }
        let oldest = self.files.iter().min_by_key(|(_, known)| known.last_use).map(|(path, _)| Arc::clone(path));
        if let Some(known) = oldest.and_then(|path| self.files.remove(&path)) {
            self.spare_lists.extend(known.lists());
        }
    }
}

impl Known {
    fn lists(&self) -> impl Iterator<Item = ListKey> {
        self.pages.columns().iter().map(|column| column.list).chain(std::iter::once(self.rest))
    }
}

/// Lists for the columns of a version: those that the columns of the version before had, then those that are spare,
/// then new ones.
struct Lists<'a> {
    /// By the column's name, or none.
    before: Vec<(Option<Arc<str>>, ListKey)>,
    pool: &'a BufferPool,
    spare: &'a mut Vec<ListKey>,
}

impl<'a> Lists<'a> {
    fn of(before: Option<Known>, pool: &'a BufferPool, spare: &'a mut Vec<ListKey>) -> Self {
        let before = before.map(|known| {
            let columns = known.pages.columns().iter();
            let named = columns.map(|column| (Some(Arc::clone(&column.name)), column.list));
            named.chain(std::iter::once((None, known.rest))).collect()
        });
        Self { before: before.unwrap_or_default(), pool, spare }
    }

    fn take(&mut self, name: Option<&str>) -> ListKey {
        if let Some(at) = self.before.iter().position(|(of, _)| of.as_deref() == name) {
            return self.before.swap_remove(at).1;
        }
        match self.spare.pop() {
            Some(list) => {
                self.pool.reuse_list(list);
                list
            }
            None => self.pool.new_list(),
        }
    }
}

impl Drop for Lists<'_> {
    fn drop(&mut self) {
        self.spare.extend(self.before.drain(..).map(|(_, list)| list));
    }
}

impl fmt::Debug for ParquetPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetPages").field("pages", &self.pages).finish_non_exhaustive()
    }
}
