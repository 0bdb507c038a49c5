//! Parquet files as tables, read through pinned files.
//!
//! Owns: reading, remembering and counting footers ([`FooterCache`], `footers_in_use`), one schema for several files ([`schema`]), files as pages
//! of the buffer pool ([`ParquetPages`], `file_pages`, `chunk_grid`, `open_files`), and the reader that DataFusion's
//! Parquet scan gets its bytes from ([`reader`]). Does not own: decoding, pruning by statistics, page index and bloom
//! filter, late materialisation and parallelism by byte range, which are DataFusion's `ParquetSource`; nor listing and
//! opening files (`raw_table`), nor which pages stay in memory (`buffer-pool`, `placement`).
//!
//! Invariants. A [`ParquetTable`] is made for one query from files that are already open, and answers from these:
//! another file under the same name is not noticed, a change of the open file itself is an error. A footer is kept
//! under the version of its file and never if that version was young when it was read; so are pages. Every error names
//! its file.
//!
//! Concurrency: a table is shared by all partitions of its scan. Footers are parsed once per version, also when several
//! queries ask at the same time, and pages are read once. Local reads run on the runtime's blocking threads, as
//! DataFusion's own do.
//!
//! Paper: HPCache (DaMoN 2022), whose pages are of column tables; here a column chunk's bytes are, as they are stored.

mod chunk_grid;
mod exact_casts;
mod facts;
mod file;
mod file_pages;
mod footer;
mod footer_cache;
mod footers_in_use;
mod leaves;
mod open_files;
mod page_store;
mod reader;
mod row_groups;
mod scan;
mod scan_meter;
mod scan_source;
mod schema;
mod statistics;
mod trust;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use thermocline_budget::{Account, BudgetError};

use exact_casts::ExactCastAdapters;
pub(crate) use facts::ParquetFacts;
pub(crate) use file::ParquetFile;
pub(crate) use file_pages::{FilePages, PageColumn, PageCounts, Served};
pub(crate) use footer_cache::FooterCache;
use footers_in_use::{HeldFooter, NoRoomForFooters};
pub(crate) use page_store::ParquetPages;
use reader::{OpenFile, OpenFileReaders};
pub(crate) use row_groups::RowGroups;
pub(crate) use scan::ParquetScan;
pub(crate) use scan_source::ScanSource;

use crate::query::QueryContext;
use crate::raw_table::listing::external;
use crate::settings::ThermoclineConfig;

/// Footers read at the same time: enough to hide a store's latency, few enough for its rate limits.
const CONCURRENT_FOOTERS: usize = 16;

/// The Parquet files of one query as one table.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    files: Vec<(ParquetFile, Arc<HeldFooter>)>,
    schema: SchemaRef,
    /// What scans reserve from.
    account: Account,
    /// Where what is read is kept; nowhere when absent.
    store: Option<Arc<ParquetPages>>,
}

impl ParquetTable {
    /// The table over `files`, with their merged schema unless one is declared. Reads the footers that `footers` does
    /// not have.
    ///
    /// # Errors
    /// No file; a file that is not Parquet; footers that do not fit into memory together; one column with types that do not go together, or not into the declared
    /// one.
    pub(crate) async fn try_new(
        files: Vec<ParquetFile>,
        declared_schema: Option<SchemaRef>,
        footers: Arc<FooterCache>,
    ) -> Result<Self> {
        if files.is_empty() {
            return plan_err!("a Parquet table needs at least one file");
        }
        let account = footers.scans().clone();
        let files = with_footers(files, footers).await?;
        let schema = match declared_schema {
            Some(declared) => {
                schema::check_declared(&files, &declared)?;
                declared
            }
            None => schema::merged(&files)?,
        };
        Ok(Self { files, schema, account, store: None })
    }

    /// The same table, read through `store` by sessions that use caches.
    pub(crate) fn through(self, store: &Arc<ParquetPages>) -> Self {
        Self { store: Some(Arc::clone(store)), ..self }
    }

    /// The columns of the table.
    pub(crate) fn table_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What the footers tell.
    pub(crate) fn facts(&self) -> ParquetFacts {
        ParquetFacts::new(self.table_schema(), self.files.iter().map(|(_, footer)| Arc::clone(footer)).collect())
    }

    /// Of each file, where what is read of it is kept.
    fn pages(&self, uses_pool: bool) -> Vec<Option<Arc<FilePages>>> {
        let pages_of = |(file, footer): &(ParquetFile, Arc<HeldFooter>)| {
            self.store.as_ref().filter(|_| uses_pool).and_then(|store| store.of(file, footer))
        };
        self.files.iter().map(pages_of).collect()
    }

    /// A scan of these pages as the pool's tuner knows it.
    fn scan_of(&self, session: &dyn Session, uses_pool: bool, pages: &[Option<Arc<FilePages>>]) -> Option<ParquetScan> {
        self.store.as_ref().zip(self.files.first()).map(|(store, (first, _))| {
            let context = session.config().get_extension::<QueryContext>().unwrap_or_default();
            let kept = uses_pool.then(|| pages.iter().flatten().cloned().collect());
            let query = (context.plan_signature(), context.progress());
            ParquetScan::new(store, &self.schema, (first.path(), self.files.len()), kept, query)
        })
    }
}

/// The files with their footers, which stay counted for as long as they are held.
async fn with_footers(
    files: Vec<ParquetFile>,
    footers: Arc<FooterCache>,
) -> Result<Vec<(ParquetFile, Arc<HeldFooter>)>> {
    let file_count = files.len();
    let mut reading = futures::stream::iter(files)
        .map(|file| {
            let footers = Arc::clone(&footers);
            async move { footers.hold(&file).await.map(|held| (file, held)) }
        })
        .buffered(CONCURRENT_FOOTERS);
    let mut read: Vec<(ParquetFile, Arc<HeldFooter>)> = Vec::with_capacity(file_count);
    while let Some((file, held)) = reading.try_next().await? {
        match held {
            Ok(footer) => read.push((file, footer)),
            Err(source) => {
                let BudgetError::QueryMemory { asked_bytes, .. } = &source else { return Err(external(source)) };
                let read_bytes = asked_bytes + read.iter().map(|(_, footer)| footer.size_bytes()).sum::<u64>();
                let needed_bytes = read_bytes / (read.len() + 1) as u64 * file_count as u64;
                let first_path = Arc::clone(read.first().map_or(&file, |(first, _)| first).path());
                return Err(external(NoRoomForFooters { first_path, file_count, needed_bytes, source }));
            }
        }
    }
    Ok(read)
}

/// Whether a session's scans go through the pool.
fn uses_pool(session: &dyn Session) -> bool {
    session.config_options().extensions.get::<ThermoclineConfig>().is_none_or(|config| config.cache)
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        self.table_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters stay in the plan at this point; the physical optimizer then moves what the reader can evaluate into the
    /// scan, where it prunes files, row groups and pages and selects rows.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let of_files = statistics::of_files(&self.files, &self.schema)?;
        let of_table = statistics::merged(&of_files, &self.schema)?;
        let uses_pool = uses_pool(session);
        let pages = self.pages(uses_pool);
        let scan = self.scan_of(session, uses_pool, &pages);
        let files = self
            .files
            .iter()
            .zip(of_files)
            .zip(pages)
            .map(|(((file, footer), statistics), pages)| {
                PartitionedFile::new(file.path().as_ref(), file.size_bytes())
                    .with_statistics(Arc::new(statistics))
                    .with_extension(OpenFile::new(file.clone(), Arc::clone(footer), pages))
            })
            .collect();
        let mut options = TableParquetOptions {
            global: session.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        (options.global.coerce_int96, options.global.coerce_int96_tz) = (Some(schema::INT96_UNIT.to_owned()), None);
        let source = ParquetSource::new(TableSchema::from(Arc::clone(&self.schema)))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(OpenFileReaders(self.account.clone())))
            .with_pushdown_filters(true);
        // Bytes come from the open files; the store is only what DataFusion wants to have looked up.
        let source = Arc::new(ScanSource::new(Arc::new(source), scan.map(Arc::new)));
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(FileGroup::new(files).split_files(session.config().target_partitions()))
            .with_statistics(of_table)
            .with_expr_adapter(Some(Arc::new(ExactCastAdapters)))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

#[cfg(test)]
mod tests;
