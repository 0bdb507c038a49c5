//! The tables that a database's folder holds: the manifest's entries, and the segments of those that were asked for, open.
//!
//! A table is opened when a statement first names it, and again when its segments have changed; segments that are in both
//! stay as they are, with what the pool holds of them. Footers of open segments are counted as query memory.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thermocline_budget::{Account, Budget, Purpose, Reservation};
use thermocline_buffer_pool::{BufferPool, PoolOptions, RegisteredSource, Tuner};
use thermocline_column_store::{Catalog, Entry, EntryName, Manifest, PendingSegment, Segment, SegmentInfo};
use thermocline_hardware::Clock;
use thermocline_medium::{DirectMedium, Medium};
use thermocline_placement::page_cache::{ListKey, PagePolicyName};

use super::pages::SegmentPages;
use crate::error::{Error, Result};
use crate::raw_table::listing::external;

/// How often a table is looked up again that was changed while its segments were being opened. Each time means that
/// a statement has ended in that moment, so it is as many as ever do.
const OPEN_ATTEMPTS: usize = 64;

/// The tables of a database's folder.
pub(crate) struct ColumnTables {
    catalog: Catalog,
    medium: Arc<dyn Medium>,
    pool: Arc<BufferPool>,
    tuner: Arc<Tuner>,
    account: Account,
    open: Mutex<HashMap<EntryName, Arc<OpenTable>>>,
}

impl fmt::Debug for ColumnTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnTables").field("medium", &self.medium).finish_non_exhaustive()
    }
}

/// A column table with all its segments open, as of one version of it.
#[derive(Debug)]
pub(crate) struct OpenTable {
    pub(crate) name: EntryName,
    pub(crate) schema: SchemaRef,
    pub(crate) segments: Vec<Arc<OpenSegment>>,
    /// The pool's list of each column's pages.
    pub(crate) lists: Arc<[ListKey]>,
    /// Where the segments are.
    pub(crate) medium: Arc<dyn Medium>,
    /// Told of every scan.
    pub(crate) tuner: Arc<Tuner>,
}

/// One segment, known to the pool.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) source: RegisteredSource,
    _footer: Reservation,
}

impl OpenTable {
    pub(crate) fn row_count(&self) -> u64 {
        self.segments.iter().map(|open| open.segment.row_count()).sum()
    }

    pub(crate) fn row_group_count(&self) -> usize {
        self.segments.iter().map(|open| open.segment.row_groups().len()).sum()
    }

    fn is_of(&self, segments: &[SegmentInfo]) -> bool {
        self.segments.iter().map(|open| open.segment.info()).eq(segments)
    }
}

impl ColumnTables {
    /// Opens what a folder holds; the folder exists and is this process's alone.
    ///
    /// # Errors
    /// The folder can't be read, or its manifest is damaged or of a newer format.
    pub(crate) fn open(folder: &Path, budget: &Budget, clock: &Arc<dyn Clock>) -> Result<Self> {
        let medium: Arc<dyn Medium> = Arc::new(DirectMedium::open(folder).map_err(external)?);
        let catalog = Catalog::open(Arc::clone(&medium))?;
        let policy = PagePolicyName::default().build();
        let pool = BufferPool::new(PoolOptions::default(), budget, policy, Arc::clone(clock)).map_err(external)?;
        let account = budget.account("column table directories", Purpose::Query);
        let tuner = Tuner::new(Arc::clone(&pool), Arc::clone(clock));
        Ok(Self { catalog, medium, pool, tuner, account, open: Mutex::default() })
    }

    /// Where the tables' files are.
    pub(crate) fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// What holds their pages in memory.
    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// What divides that memory among columns.
    pub(crate) fn tuner(&self) -> &Arc<Tuner> {
        &self.tuner
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

    /// A name for a segment, whose file is removed again unless it becomes part of a table. May write: for a blocking thread.
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
        // Closes what no entry names any more; queries that read it keep it.
        self.open.lock().retain(|name, _| matches!(manifest.entries.get(name), Some(Entry::ColumnTable(_))));
        Ok(result)
    }

    /// The column table of that name, with its segments open; `None` if there is none. Reads footers: for a blocking thread.
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

    fn open_table(&self, name: &EntryName, schema: &SchemaRef, infos: &[SegmentInfo]) -> Result<Arc<OpenTable>> {
        let known = self.open.lock().get(name).cloned();
        if let Some(known) = &known
            && known.schema == *schema
            && known.is_of(infos)
        {
            return Ok(Arc::clone(known));
        }
        let known = known.filter(|known| known.schema == *schema);
        let lists = match &known {
            Some(known) => Arc::clone(&known.lists),
            None => schema.fields().iter().map(|_| self.pool.new_list()).collect(),
        };
        let mut segments = Vec::with_capacity(infos.len());
        for info in infos {
            let same = known.iter().flat_map(|known| &known.segments).find(|open| open.segment.info() == info);
            segments.push(match same {
                Some(open) => Arc::clone(open),
                None => Arc::new(self.open_segment(name, info, schema, &lists)?),
            });
        }
        let (schema, medium) = (Arc::clone(schema), Arc::clone(&self.medium));
        let tuner = Arc::clone(&self.tuner);
        let opened = Arc::new(OpenTable { name: name.clone(), schema, segments, lists, medium, tuner });
        self.open.lock().insert(name.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    fn open_segment(
        &self,
        name: &EntryName,
        info: &SegmentInfo,
        schema: &SchemaRef,
        lists: &Arc<[ListKey]>,
    ) -> Result<OpenSegment> {
        let segment = Segment::open(self.medium.as_ref(), info, schema).map_err(|error| {
            let error = Error::from(external(error));
            Error::new(error.kind(), format!("table {name}: {error}"))
        })?;
        let segment = Arc::new(segment);
        let footer = self.account.reserve_infallible(segment.resident_bytes() as u64);
        let pages = SegmentPages::new(name.clone(), Arc::clone(&self.medium), Arc::clone(&segment), Arc::clone(lists));
        Ok(OpenSegment { segment, source: self.pool.register(Arc::new(pages)), _footer: footer })
    }
}
