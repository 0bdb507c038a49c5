//! DataFusion's Parquet source with what it lacks: errors that name their file, and a meter for the buffer pool's
//! tuner.
//!
//! DataFusion reports damaged pages as the decoder does, without saying in which of the table's files they are.
//! [`ScanSource`] completes the errors of each file's stream, and measures it where the scan goes through the pool;
//! everything else passes through.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::parquet::errors::ParquetError;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;

use super::exact_casts;
use super::reader::OpenFile;
use super::scan::ParquetScan;
use super::scan_meter::{FileMeter, ScanRun};

/// A file whose content the decoder refuses.
#[derive(Debug, thiserror::Error)]
#[error("{path}: damaged Parquet file: {source}")]
struct DamagedFile {
    path: Arc<str>,
    #[source]
    source: ParquetError,
}

/// A file source that names the file in its errors, and is measured.
pub(crate) struct ScanSource {
    inner: Arc<dyn FileSource>,
    /// Absent where nothing comes through the pool.
    scan: Option<Arc<ParquetScan>>,
}

impl ScanSource {
    /// `inner`, measured for `scan` if there is one.
    pub(super) fn new(inner: Arc<dyn FileSource>, scan: Option<Arc<ParquetScan>>) -> Self {
        Self { inner, scan }
    }

    /// The scan, if it goes through the pool.
    pub(crate) fn scan(&self) -> Option<&ParquetScan> {
        self.scan.as_deref()
    }

    /// The table's columns that are read, for the answer or to filter by.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = match self.inner.projection() {
            Some(projection) => projection.column_indices(),
            None => (0..self.table_schema().table_schema().fields().len()).collect(),
        };
        if let Some(filter) = self.inner.filter() {
            columns.extend(collect_columns(&filter).iter().map(Column::index));
        }
        columns
    }

    fn around(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self::new(inner, self.scan.clone()))
    }
}

impl FileSource for ScanSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self.inner.create_morselizer(object_store, base_config, partition)?;
        let thread_count = base_config.file_groups.len();
        let run = self.scan.as_ref().and_then(|scan| scan.run(&self.columns(), thread_count));
        Ok(Box::new(ScanMorselizer { inner, run }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.around(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        // The files' statistics are asked before filters are adapted to a file.
        let schema = self.table_schema().table_schema();
        let filters = filters.into_iter().map(|filter| exact_casts::kept(filter, schema)).collect::<Result<_>>()?;
        let mut pushed = self.inner.try_pushdown_filters(filters, config)?;
        pushed.updated_node = pushed.updated_node.map(|inner| self.around(inner));
        Ok(pushed)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_sort(order, eq_properties)?.map(|inner| self.around(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(|inner| self.around(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

#[derive(Debug)]
struct ScanMorselizer {
    inner: Box<dyn Morselizer>,
    run: Option<Arc<ScanRun>>,
}

impl Morselizer for ScanMorselizer {
    fn plan_file(&self, mut file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let path = file
            .extension::<OpenFile>()
            .map_or_else(|| Arc::from(file.path().as_ref()), |open| Arc::clone(open.path()));
        let meter = self.run.as_ref().map(FileMeter::new);
        if let Some(meter) = &meter {
            // To the reader that is made for this file.
            file = file.with_extension(Arc::clone(meter));
        }
        let inner = self.inner.plan_file(file).map_err(|error| named(error, &path))?;
        Ok(Box::new(ScanPlanner { inner, context: FileContext { path, meter } }))
    }
}

/// What the streams of one file share.
#[derive(Debug, Clone)]
struct FileContext {
    path: Arc<str>,
    meter: Option<Arc<FileMeter>>,
}

#[derive(Debug)]
struct ScanPlanner {
    inner: Box<dyn MorselPlanner>,
    context: FileContext,
}

impl MorselPlanner for ScanPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, context } = *self;
        let Some(mut plan) = inner.plan().map_err(|error| named(error, &context.path))? else {
            return Ok(None);
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| {
            let context = context.clone();
            Box::new(ScanMorsel { inner, context }) as Box<dyn Morsel>
        });
        let planners = plan.take_ready_planners().into_iter().map(|inner| {
            let context = context.clone();
            Box::new(Self { inner, context }) as Box<dyn MorselPlanner>
        });
        let mut planned = MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = plan.take_pending_planner() {
            planned.set_pending_planner(pending.map(move |planner| match planner {
                Ok(inner) => Ok(Box::new(Self { inner, context }) as Box<dyn MorselPlanner>),
                Err(error) => Err(named(error, &context.path)),
            }));
        }
        Ok(Some(planned))
    }
}

#[derive(Debug)]
struct ScanMorsel {
    inner: Box<dyn Morsel>,
    context: FileContext,
}

impl Morsel for ScanMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { inner, context: FileContext { path, meter } } = *self;
        let batches = inner.into_stream().map(move |batch| batch.map_err(|error| named(error, &path))).boxed();
        match meter {
            Some(meter) => meter.measured(batches).boxed(),
            None => batches,
        }
    }
}

/// The error with the file named, if it is the decoder's: reading names it already, and a failing filter is not its
/// fault.
fn named(error: DataFusionError, path: &Arc<str>) -> DataFusionError {
    let source = match error {
        DataFusionError::ParquetError(source) => *source,
        DataFusionError::ArrowError(source, trace) => match *source {
            ArrowError::ParquetError(message) => ParquetError::General(message),
            source => return DataFusionError::ArrowError(Box::new(source), trace),
        },
        error => return error,
    };
    match source {
        ParquetError::External(_) | ParquetError::ArrowError(_) => DataFusionError::ParquetError(Box::new(source)),
        source => DataFusionError::External(Box::new(DamagedFile { path: Arc::clone(path), source })),
    }
}
