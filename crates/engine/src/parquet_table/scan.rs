//! A scan of Parquet files as the buffer pool's tuner and `EXPLAIN CACHE` know it.

use std::sync::{Arc, Weak};

use datafusion::arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thermocline_buffer_pool::{PipelineStart, Watcher};
use xxhash_rust::xxh3::xxh3_64;

use super::file_pages::FilePages;
use super::page_store::ParquetPages;
use super::scan_meter::ScanRun;
use crate::page_pool::PagePool;
use crate::query::Progress;

/// What a query reads of Parquet files through the pool.
#[derive(Debug)]
pub(crate) struct ParquetScan {
    store: Arc<ParquetPages>,
    /// The table's columns.
    schema: SchemaRef,
    /// Of the first file, by which the scan is called.
    first_path: Arc<str>,
    file_count: usize,
    /// Of those files whose pages the pool may keep.
    pages: Vec<Arc<FilePages>>,
    uses_pool: bool,
    /// Of the query that it is part of: what is done with its rows.
    plan_signature: u64,
    /// Of that query.
    progress: Arc<Progress>,
    /// The execution that goes on, if one does.
    run: Mutex<Weak<ScanRun>>,
}

impl ParquetScan {
    /// A scan of so many files, of which those of `pages` come through the pool, if any may.
    pub(super) fn new(
        store: &Arc<ParquetPages>,
        schema: &SchemaRef,
        (first_path, file_count): (&Arc<str>, usize),
        pages: Option<Vec<Arc<FilePages>>>,
        (plan_signature, progress): (u64, &Arc<Progress>),
    ) -> Self {
        Self {
            store: Arc::clone(store),
            schema: Arc::clone(schema),
            first_path: Arc::clone(first_path),
            file_count,
            uses_pool: pages.is_some(),
            pages: pages.unwrap_or_default(),
            plan_signature,
            progress: Arc::clone(progress),
            run: Mutex::default(),
        }
    }

    /// Whether files may come through the pool.
    pub(crate) fn uses_pool(&self) -> bool {
        self.uses_pool
    }

    /// Of how many files pages may be kept.
    pub(crate) fn kept_file_count(&self) -> usize {
        self.pages.len()
    }

    /// What holds the pages.
    pub(crate) fn pool(&self) -> &PagePool {
        self.store.pool()
    }

    /// By what the scan is called: its file, or the first of several.
    pub(crate) fn name(&self) -> String {
        match self.file_count {
            1 => self.first_path.to_string(),
            count => format!("{} and {} more", self.first_path, count - 1),
        }
    }

    /// The names of these columns of the table, each once and in its order.
    pub(crate) fn column_names(&self, columns: &[usize]) -> Vec<&str> {
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        columns.iter().map(|&column| self.schema.field(column).name().as_str()).collect()
    }

    /// The scan as the tuner knows it, when it reads these of the table's columns.
    pub(crate) fn pipeline(&self, columns: &[usize], thread_count: usize) -> PipelineStart {
        let names = self.column_names(columns);
        let listed = names.join(", ");
        let of_file = |pages: &Arc<FilePages>| {
            let read = pages.columns().iter().filter(|column| names.contains(&&*column.name));
            read.map(|column| (column.list, column.size_bytes)).collect::<Vec<_>>()
        };
        PipelineStart {
            // Without the number of files, which changes while a folder grows.
            signature: xxh3_64(format!("{} ({listed})", self.first_path).as_bytes()) ^ self.plan_signature,
            label: format!("{} ({listed})", self.name()).into(),
            columns: self.pages.iter().flat_map(of_file).collect(),
            thread_count: u32::try_from(thread_count).unwrap_or(u32::MAX),
            shows_storage: false,
            watcher: Some(Arc::clone(&self.progress) as Arc<dyn Watcher>),
        }
    }

    /// The execution that goes on, or else one that begins; none if it has nothing to tell of.
    pub(super) fn run(&self, columns: &[usize], thread_count: usize) -> Option<Arc<ScanRun>> {
        let mut run = self.run.lock();
        if let Some(run) = run.upgrade() {
            return Some(run);
        }
        let start = self.pipeline(columns, thread_count);
        if start.columns.is_empty() {
            return None;
        }
        let begun = ScanRun::begin(self.pool().tuner(), start, self.store.clock());
        *run = Arc::downgrade(&begun);
        Some(begun)
    }
}
