//! The leaf of a physical plan that reads a column table.
//!
//! Planning only describes; pages are asked for when the first partition is polled. All partitions of one scan draw row
//! groups from one queue, so that a slow partition never holds back the others.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::scan_run::{ColumnScan, ColumnScanRun};
use super::statistics;
use crate::runs::Runs;

/// Reads a column table.
#[derive(Debug)]
pub(crate) struct ColumnScanExec {
    scan: Arc<ColumnScan>,
    /// Index in the table of each output column.
    columns: Vec<usize>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    runs: Runs<ColumnScanRun>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnScanExec {
    /// Reads `columns` in up to `partition_count` partitions.
    ///
    /// # Errors
    /// A column that the table does not have.
    pub(super) fn new(
        scan: Arc<ColumnScan>,
        columns: Vec<usize>,
        limit: Option<usize>,
        partition_count: usize,
    ) -> Result<Self> {
        let schema = Arc::new(scan.table.schema.project(&columns)?);
        let partition_count = scan.groups.len().clamp(1, partition_count.max(1));
        Ok(Self::with_schema(scan, columns, schema, limit, partition_count))
    }

    fn with_schema(
        scan: Arc<ColumnScan>,
        columns: Vec<usize>,
        schema: Arc<Schema>,
        limit: Option<usize>,
        partition_count: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partition_count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            scan,
            columns,
            limit,
            properties: Arc::new(properties),
            runs: Runs::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn partition_count(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// What is read.
    pub(crate) fn scan(&self) -> &Arc<ColumnScan> {
        &self.scan
    }

    /// Index in the table of each column that is read.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn column_names(&self) -> String {
        self.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl DisplayAs for ColumnScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = &self.scan;
        let groups = format!("{} of {}", scan.groups.len(), scan.table.row_group_count());
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "ColumnScanExec: table={}, columns=[{}], row_groups={groups}",
                    scan.table.name,
                    self.column_names()
                )?;
                if !scan.predicate.is_all() {
                    write!(f, ", predicate={}", scan.predicate)?;
                }
                if let Some(limit) = self.limit {
                    write!(f, ", limit={limit}")?;
                }
                if let Some(reason) = &scan.unfused {
                    write!(f, ", unfused=[{reason}]")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "table={}", scan.table.name)?;
                writeln!(f, "columns={}", self.column_names())?;
                writeln!(f, "row_groups={groups}")
            }
        }
    }
}

impl ExecutionPlan for ColumnScanExec {
    fn name(&self) -> &str {
        "ColumnScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("ColumnScanExec is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("ColumnScanExec is a leaf") }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::with_schema(
            Arc::clone(&self.scan),
            self.columns.clone(),
            self.schema(),
            self.limit,
            self.partition_count(),
        )))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = self.runs.of(partition, || {
            ColumnScanRun::new(&self.scan, &self.columns, self.schema(), self.partition_count(), &self.metrics)
        });
        let batch_rows = context.session_config().batch_size();
        let stream = run.partition_stream(partition, self.limit, batch_rows, &self.metrics);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let schema = self.schema();
        let mut statistics = Statistics::new_unknown(&schema);
        let row_count = self.scan.row_count();
        if args.partition().is_some() {
            // Who takes which row group is only known when it is taken.
            statistics.num_rows = Precision::Inexact((row_count as usize / self.partition_count()).max(1));
            return Ok(Arc::new(statistics));
        }
        if self.limit.is_some() {
            statistics.num_rows = Precision::Inexact(row_count as usize);
            return Ok(Arc::new(statistics));
        }
        statistics.num_rows = Precision::Exact(row_count as usize);
        statistics.column_statistics = self
            .columns
            .iter()
            .zip(schema.fields())
            .map(|(&column, field)| statistics::of_column(self.scan.row_groups(), column, field.data_type()))
            .collect();
        Ok(Arc::new(statistics))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self::with_schema(
            Arc::clone(&self.scan),
            self.columns.clone(),
            self.schema(),
            limit,
            self.partition_count(),
        )))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut columns = Vec::with_capacity(projection.expr().len());
        for expr in projection.expr() {
            let Some(column) = expr.expr.downcast_ref::<Column>() else { return Ok(None) };
            let Some(&index) = self.columns.get(column.index()) else { return Ok(None) };
            columns.push(index);
        }
        Ok(Some(Arc::new(Self::with_schema(
            Arc::clone(&self.scan),
            columns,
            projection.schema(),
            self.limit,
            self.partition_count(),
        ))))
    }
}
