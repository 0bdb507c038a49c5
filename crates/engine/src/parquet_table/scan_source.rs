//! Names the file in errors of the Parquet decoder.
//!
//! DataFusion reports damaged pages as the decoder does, without saying in which of the table's files they are.
//! [`NamedErrors`] is the Parquet source with the errors of each file's stream completed; everything else passes through.

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
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;

use super::reader::OpenFile;

/// A file whose content the decoder refuses.
#[derive(Debug, thiserror::Error)]
#[error("{path}: damaged Parquet file: {source}")]
struct DamagedFile {
    path: Arc<str>,
    #[source]
    source: ParquetError,
}

/// A file source that names the file in its errors.
pub(super) struct NamedErrors {
    inner: Arc<dyn FileSource>,
}

impl NamedErrors {
    pub(super) fn around(inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner })
    }
}

impl FileSource for NamedErrors {
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
        Ok(Box::new(NamingMorselizer { inner }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Self::around(self.inner.with_batch_size(batch_size))
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
        let mut pushed = self.inner.try_pushdown_filters(filters, config)?;
        pushed.updated_node = pushed.updated_node.map(Self::around);
        Ok(pushed)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_sort(order, eq_properties)?.map(Self::around))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(Self::around))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

#[derive(Debug)]
struct NamingMorselizer {
    inner: Box<dyn Morselizer>,
}

impl Morselizer for NamingMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let path = file
            .extension::<OpenFile>()
            .map_or_else(|| Arc::from(file.path().as_ref()), |open| Arc::clone(open.path()));
        let inner = self.inner.plan_file(file).map_err(|error| named(error, &path))?;
        Ok(Box::new(NamingPlanner { inner, path }))
    }
}

#[derive(Debug)]
struct NamingPlanner {
    inner: Box<dyn MorselPlanner>,
    path: Arc<str>,
}

impl MorselPlanner for NamingPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, path } = *self;
        let Some(mut plan) = inner.plan().map_err(|error| named(error, &path))? else {
            return Ok(None);
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| {
            let path = Arc::clone(&path);
            Box::new(NamingMorsel { inner, path }) as Box<dyn Morsel>
        });
        let planners = plan.take_ready_planners().into_iter().map(|inner| {
            let path = Arc::clone(&path);
            Box::new(Self { inner, path }) as Box<dyn MorselPlanner>
        });
        let mut named_plan = MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = plan.take_pending_planner() {
            named_plan.set_pending_planner(pending.map(move |planner| match planner {
                Ok(inner) => Ok(Box::new(Self { inner, path }) as Box<dyn MorselPlanner>),
                Err(error) => Err(named(error, &path)),
            }));
        }
        Ok(Some(named_plan))
    }
}

#[derive(Debug)]
struct NamingMorsel {
    inner: Box<dyn Morsel>,
    path: Arc<str>,
}

impl Morsel for NamingMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { inner, path } = *self;
        inner.into_stream().map(move |batch| batch.map_err(|error| named(error, &path))).boxed()
    }
}

/// The error with the file named, if it is the decoder's: reading names it already, and a failing filter is not its fault.
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
