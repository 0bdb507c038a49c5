//! The tables that a database's folder holds: the manifest's entries, and the segments of those that were asked for,
//! open.
//!
//! A table is opened when a statement first names it, and again when its segments have changed; segments that are in
//! both stay as they are, with what the pool holds of them. Footers of open segments are counted as query memory.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::{Mutex, RwLock};
use thermocline_budget::{Account, Budget, Purpose, Reservation};
use thermocline_buffer_pool::{BufferPool, RegisteredSource, Tuner};
use thermocline_column_store::{Catalog, Entry, EntryName, Manifest, PendingSegment, RowGroup, Segment, SegmentInfo};
use thermocline_hardware::Clock;
use thermocline_medium::{DirectMedium, DirectOptions, Medium, SystemSleep, Throttle, ThrottledMedium};
use thermocline_placement::page_cache::{ListKey, PagePolicyName};

use super::pages::SegmentPages;
use super::statistics;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::page_pool::PagePool;
use crate::raw_table::listing::external;

/// How often a table is looked up again that was changed while its segments were being opened. Each time means that
/// a statement has ended in that moment, so it is as many as ever do.
const OPEN_ATTEMPTS: usize = 64;

/// How pages are read, and which of them stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) policy: PagePolicyName,
    /// Reads take as long as from a device of so many bytes a second, or as long as they take.
    pub(crate) simulated_bytes_per_s: Option<u64>,
}

/// The tables of a database's folder.
pub(crate) struct ColumnTables {
    catalog: Catalog,
    /// Locked for as long as somebody may look at or change what is in it: threads that write outlive a query that is
    /// dropped, and its database.
    folder: Arc<Folder>,
    /// Where tables are written.
    medium: Arc<dyn Medium>,
    /// Where they are read from now: the same files.
    reading: RwLock<(Reading, Arc<dyn Medium>)>,
    clock: Arc<dyn Clock>,
    pages: Arc<PagePool>,
    account: Account,
    /// By name. Whoever adds one looks first whether it is still what the catalog and `reading` say.
    open: Mutex<HashMap<EntryName, Arc<OpenTable>>>,
    /// The pool's lists of tables that are gone.
    spare_lists: Arc<Mutex<Vec<ListKey>>>,
}

impl fmt::Debug for ColumnTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnTables").field("medium", &self.medium).finish_non_exhaustive()
    }
}

/// A column table that cannot be opened, as the catalog knows it.
#[derive(Debug)]
pub(crate) struct UnreadableTable {
    pub(crate) name: EntryName,
    pub(crate) schema: SchemaRef,
    /// Why.
    pub(crate) error: String,
}

/// A column table with all its segments open, as of one version of it.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) name: EntryName,
    pub(crate) schema: SchemaRef,
    pub(crate) segments: Vec<Arc<OpenSegment>>,
    /// The pool's list of each column's pages.
    pub(crate) lists: Arc<ColumnLists>,
    /// Where the segments are.
    pub(crate) medium: Arc<dyn Medium>,
    /// What holds their pages, and is told of every scan.
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) tuner: Arc<Tuner>,
    /// Of each column, how many different values it has at most, once that was asked for.
    most_values: Vec<OnceLock<u64>>,
}

/// The pool's lists of a table's columns, in their order. Once nobody has them any more they are other tables'.
#[derive(Debug)]
pub(crate) struct ColumnLists {
    lists: Box<[ListKey]>,
    spare: Arc<Mutex<Vec<ListKey>>>,
}

impl Deref for ColumnLists {
    type Target = [ListKey];

    fn deref(&self) -> &[ListKey] {
        &self.lists
    }
}

impl Drop for ColumnLists {
    fn drop(&mut self) {
        // Taken from the end: a table that replaces another has each column's list for its own column.
        self.spare.lock().extend(self.lists.iter().rev());
    }
}

/// One segment, known to the pool.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) source: RegisteredSource,
    _footer: Reservation,
}

impl OpenTable {
    /// Bytes of one column's pages.
    pub(crate) fn column_bytes(&self, column: usize) -> u64 {
        self.row_groups().map(|group| group.pages()[column].stored_bytes() as u64).sum()
    }

    /// What the catalog says of the segments.
    pub(crate) fn segment_infos(&self) -> impl Iterator<Item = &SegmentInfo> {
        self.segments.iter().map(|open| open.segment.info())
    }

    fn row_groups(&self) -> impl Iterator<Item = &RowGroup> {
        self.segments.iter().flat_map(|open| open.segment.row_groups())
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.row_groups().map(|group| group.row_count() as u64).sum()
    }

    /// How many different values a column has at most, NULL among them.
    pub(crate) fn most_values(&self, column: usize) -> u64 {
        *self.most_values[column].get_or_init(|| self.count_most_values(column))
    }

    fn count_most_values(&self, column: usize) -> u64 {
        let row_count = self.row_count();
        match statistics::bounds(self.row_groups(), column) {
            (_, Some((least, greatest))) => most_values_between(least, greatest, row_count),
            _ => row_count,
        }
    }

    pub(crate) fn row_group_count(&self) -> usize {
        self.segments.iter().map(|open| open.segment.row_groups().len()).sum()
    }

    fn shares_with(&self, segments: &[SegmentInfo]) -> bool {
        self.segments.iter().any(|open| segments.contains(open.segment.info()))
    }

    fn is_of(&self, segments: &[SegmentInfo]) -> bool {
        self.segment_infos().eq(segments)
    }
}

/// How many whole numbers there are from the least to the greatest, both included, and NULL; no more than rows.
fn most_values_between(least: i128, greatest: i128, row_count: u64) -> u64 {
    // Two decimals of 38 digits can lie further apart than a number of 128 bits can say.
    let span = greatest.checked_sub(least).and_then(|span| u64::try_from(span).ok());
    span.map_or(row_count, |span| row_count.min(span.saturating_add(2)))
}

impl ColumnTables {
    /// The files of a database's folder.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(crate) fn medium_of(folder: &Folder) -> Result<Arc<dyn Medium>> {
        Ok(Arc::new(DirectMedium::open(folder.tables_path()).map_err(external)?))
    }

    /// Opens the tables of a database's folder, whose files are on `medium`, to be read through `pages`.
    ///
    /// # Errors
    /// The medium can't be read, or its manifest is damaged or of a newer format.
    pub(crate) fn open(
        folder: &Arc<Folder>,
        medium: Arc<dyn Medium>,
        budget: &Budget,
        clock: &Arc<dyn Clock>,
        pages: &Arc<PagePool>,
    ) -> Result<Self> {
        let catalog = match folder.is_read_only() {
            true => Catalog::open_read_only(Arc::clone(&medium))?,
            false => Catalog::open_locked(Arc::clone(&medium), Arc::<Folder>::clone(folder))?,
        };
        let account = budget.account("column table directories", Purpose::Query);
        Ok(Self {
            catalog,
            folder: Arc::clone(folder),
            reading: RwLock::new((Reading::default(), Arc::clone(&medium))),
            medium,
            clock: Arc::clone(clock),
            pages: Arc::clone(pages),
            account,
            open: Mutex::default(),
            spare_lists: Arc::default(),
        })
    }

    /// How pages are read now.
    pub(crate) fn reading(&self) -> Reading {
        self.reading.read().0
    }

    /// Has pages read otherwise from now on; what is in memory is forgotten. Queries that run go on as they began.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(crate) fn set_reading(&self, reading: Reading) -> Result<()> {
        let mut medium = match reading.policy {
            // Who leaves caching to the system must not read past its cache.
            PagePolicyName::Os => {
                let options = DirectOptions { past_page_cache: false, ..DirectOptions::default() };
                Arc::new(DirectMedium::open_with(self.folder.tables_path(), options).map_err(external)?)
                    as Arc<dyn Medium>
            }
            _ => Arc::clone(&self.medium),
        };
        if let Some(bytes_per_s) = reading.simulated_bytes_per_s {
            let throttle = Throttle { bytes_per_s, latency_ns: 0 };
            let throttled = ThrottledMedium::new(medium, throttle, Arc::clone(&self.clock), Arc::new(SystemSleep));
            medium = Arc::new(throttled.map_err(external)?);
        }
        *self.reading.write() = (reading, medium);
        self.open.lock().clear();
        self.pages.set_policy(reading.policy);
        Ok(())
    }

    /// Where the tables' files are.
    pub(crate) fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// All entries as of now.
    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        self.catalog.snapshot()
    }

    /// The schemas that have entries, each once.
    pub(crate) fn schemas(&self) -> Vec<String> {
        let mut schemas: Vec<String> = self.manifest().entries.keys().map(|name| name.schema.clone()).collect();
        schemas.dedup();
        schemas
    }

    /// A name for a segment, whose file is removed again unless it becomes part of a table. May write: for a blocking
    /// thread.
    ///
    /// # Errors
    /// When the manifest cannot be written.
    pub(crate) fn new_segment(&self) -> Result<PendingSegment> {
        Ok(self.catalog.new_segment()?)
    }

    /// Changes the entries, durably. What is asked for is checked within `edit`, under the catalog's lock.
    ///
    /// # Errors
    /// `edit`'s; when the manifest cannot be written.
    pub(crate) fn commit<R>(&self, edit: impl FnOnce(&mut Manifest) -> Result<R>) -> Result<R> {
        let result = self.catalog.commit(edit)?;
        let manifest = self.catalog.snapshot();
        // Closes what has no segment left that is named, so that its room on disk is free; queries that read it keep
        // it.
        self.open.lock().retain(|name, open| match manifest.entries.get(name) {
            Some(Entry::ColumnTable(table)) => open.shares_with(&table.segments),
            _ => false,
        });
        Ok(result)
    }

    /// The column table of that name, with its segments open; `None` if there is none. Reads footers: for a blocking
    /// thread.
    ///
    /// # Errors
    /// A segment that is damaged, missing, or cannot be read.
    pub(crate) fn table(&self, name: &EntryName) -> Result<Option<Arc<OpenTable>>> {
        let mut attempt = 0;
        loop {
            let manifest = self.catalog.snapshot();
            let Some(Entry::ColumnTable(table)) = manifest.entries.get(name) else { return Ok(None) };
            match self.open_table(name, &table.columns, &table.segments) {
                // Dropped or replaced since: its files may be gone.
                Err(_) if self.catalog.snapshot().version() != manifest.version() && attempt < OPEN_ATTEMPTS => {
                    attempt += 1
                }
                opened => return opened.map(Some),
            }
        }
    }

    /// All column tables, with their segments open, and those that cannot be opened. For a blocking thread.
    pub(crate) fn open_all(&self) -> (Vec<Arc<OpenTable>>, Vec<UnreadableTable>) {
        let manifest = self.catalog.snapshot();
        let (mut open, mut unreadable) = (Vec::new(), Vec::new());
        for (name, entry) in &manifest.entries {
            let Entry::ColumnTable(table) = entry else { continue };
            match self.table(name) {
                Ok(table) => open.extend(table),
                Err(error) => unreadable.push(UnreadableTable {
                    name: name.clone(),
                    schema: Arc::clone(&table.columns),
                    error: error.to_string(),
                }),
            }
        }
        (open, unreadable)
    }

    fn open_table(&self, name: &EntryName, schema: &SchemaRef, infos: &[SegmentInfo]) -> Result<Arc<OpenTable>> {
        let medium = Arc::clone(&self.reading.read().1);
        let known = self.open.lock().get(name).filter(|known| Arc::ptr_eq(&known.medium, &medium)).cloned();
        if let Some(known) = &known
            && Arc::ptr_eq(&known.schema, schema)
            && known.is_of(infos)
        {
            return Ok(Arc::clone(known));
        }
        let known = known.filter(|known| known.schema == *schema);
        let lists = match &known {
            Some(known) => Arc::clone(&known.lists),
            None => Arc::new(self.new_lists(schema.fields().len())),
        };
        let mut segments = Vec::with_capacity(infos.len());
        for info in infos {
            let same = known.iter().flat_map(|known| &known.segments).find(|open| open.segment.info() == info);
            segments.push(match same {
                Some(open) => Arc::clone(open),
                None => Arc::new(self.open_segment(&medium, name, info, schema, &lists)?),
            });
        }
        let schema = Arc::clone(schema);
        let (pool, tuner) = (Arc::clone(self.pages.pool()), Arc::clone(self.pages.tuner()));
        let most_values = schema.fields().iter().map(|_| OnceLock::new()).collect();
        let opened =
            Arc::new(OpenTable { name: name.clone(), schema, segments, lists, medium, pool, tuner, most_values });
        self.keep(&opened);
        Ok(opened)
    }

    /// Has whoever asks for the table next find it open. One that was dropped, or is read otherwise, since it began to be
    /// opened would stay open for nothing, or be read as before.
    fn keep(&self, opened: &Arc<OpenTable>) {
        // Those who change either close tables afterwards, under this lock: what is kept before that is closed then.
        let mut open = self.open.lock();
        let is_read_so = Arc::ptr_eq(&opened.medium, &self.reading.read().1);
        let manifest = self.catalog.snapshot();
        let is_named = match manifest.entries.get(&opened.name) {
            Some(Entry::ColumnTable(table)) => opened.is_of(&table.segments) || opened.shares_with(&table.segments),
            _ => false,
        };
        if is_read_so && is_named {
            open.insert(opened.name.clone(), Arc::clone(opened));
        }
    }

    /// The pool's lists of something that is gone, or new ones.
    fn new_lists(&self, column_count: usize) -> ColumnLists {
        let pool = self.pages.pool();
        let unused = || {
            let spare = self.spare_lists.lock().pop();
            spare.inspect(|list| pool.reuse_list(*list)).unwrap_or_else(|| pool.new_list())
        };
        let lists = (0..column_count).map(|_| unused()).collect();
        ColumnLists { lists, spare: Arc::clone(&self.spare_lists) }
    }

    fn open_segment(
        &self,
        medium: &Arc<dyn Medium>,
        name: &EntryName,
        info: &SegmentInfo,
        schema: &SchemaRef,
        lists: &Arc<ColumnLists>,
    ) -> Result<OpenSegment> {
        let segment = Segment::open(medium.as_ref(), info, schema).map_err(|error| {
            let error = Error::from(external(error));
            Error::new(error.kind(), format!("table {name}: {error}"))
        })?;
        let segment = Arc::new(segment);
        let footer = self.account.reserve_infallible(segment.resident_bytes() as u64);
        let pages = SegmentPages::new(name.clone(), Arc::clone(medium), Arc::clone(&segment), Arc::clone(lists));
        Ok(OpenSegment { segment, source: self.pages.pool().register(Arc::new(pages)), _footer: footer })
    }
}

#[cfg(test)]
mod tests;
