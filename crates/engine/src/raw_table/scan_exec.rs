//! The leaf of a physical plan that reads a raw table, from its files or from the operator cache.
//!
//! Everything that costs anything happens in `execute`: planning, also under `EXPLAIN`, only describes. All partitions
//! of one scan draw from one queue of work ([`ScanRun`]), so that a slow partition never holds back the others.
//!
//! A projection of columns and `get_field` chains is absorbed, so that of a nested column only the asked-for fields are
//! parsed and cached. Of one that computes from such fields the fields are.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::expressions::{Column, LambdaExpr, Literal};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, TryStreamExt};
use thermocline_pipeline::SourceBatch;
use thermocline_predicate::FieldPath;

use super::scan_run::{Scan, ScanRun};
use crate::filters;
use crate::runs::Runs;

/// Below this many bytes a partition, another one costs more than it helps.
const PARTITION_MIN_BYTES: u64 = 1 << 20;

/// Reads a raw table.
#[derive(Debug)]
pub(crate) struct RawScanExec {
    scan: Arc<Scan>,
    /// Path of each output column.
    paths: Vec<FieldPath>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    runs: Runs<ScanRun>,
    metrics: ExecutionPlanMetricsSet,
}

impl RawScanExec {
    pub(crate) fn new(
        scan: Arc<Scan>,
        columns: Vec<(FieldPath, FieldRef)>,
        limit: Option<usize>,
        target_partitions: usize,
    ) -> Self {
        let partition_count = (scan.total_bytes() / PARTITION_MIN_BYTES).clamp(1, target_partitions.max(1) as u64);
        let (paths, fields): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Self::with_schema(scan, paths, Arc::new(Schema::new(fields)), limit, partition_count as usize)
    }

    fn with_schema(
        scan: Arc<Scan>,
        paths: Vec<FieldPath>,
        schema: SchemaRef,
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
            paths,
            limit,
            properties: Arc::new(properties),
            runs: Runs::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same with nothing read yet, which counts where this one counts.
    pub(crate) fn another_run(&self) -> Self {
        Self {
            scan: Arc::clone(&self.scan),
            paths: self.paths.clone(),
            limit: self.limit,
            properties: Arc::clone(&self.properties),
            runs: Runs::default(),
            metrics: self.metrics.clone(),
        }
    }

    /// What [`execute`](ExecutionPlan::execute) gives, but that rows which fail may be left among the others, and values
    /// in narrow forms of their types (`thermocline_narrow`). A node does the one or the other.
    pub(crate) fn kept_batches(&self, partition: usize) -> impl Stream<Item = Result<SourceBatch>> + Send + use<> {
        self.run(partition, self.limit.is_none()).partition_stream(partition, self.limit, &self.metrics)
    }

    fn run(&self, partition: usize, as_kept: bool) -> Arc<ScanRun> {
        self.runs.of(partition, || {
            let outputs = (self.paths.clone(), self.schema());
            Arc::new(ScanRun::new(Arc::clone(&self.scan), outputs, self.limit, as_kept, &self.metrics))
        })
    }

    /// The scan behind the node.
    pub(crate) fn scan(&self) -> &Arc<Scan> {
        &self.scan
    }

    /// The output columns by path, with their types.
    pub(crate) fn columns(&self) -> Vec<(FieldPath, DataType)> {
        let schema = self.schema();
        self.paths.iter().cloned().zip(schema.fields().iter().map(|field| field.data_type().clone())).collect()
    }

    /// The same of other columns.
    fn with_columns(&self, paths: Vec<FieldPath>, schema: SchemaRef) -> Self {
        let partition_count = self.properties.output_partitioning().partition_count();
        Self::with_schema(Arc::clone(&self.scan), paths, schema, self.limit, partition_count)
    }

    /// The projection above a scan of the fields alone that its expressions read, where that spares a struct of which
    /// they read no more. Of what this gives no struct is left to spare.
    fn try_narrowing(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = self.schema();
        if !schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Struct(_))) {
            return Ok(None);
        }
        let (mut paths, mut fields) = (Vec::<FieldPath>::new(), Vec::<FieldRef>::new());
        let mut has_lambda = false;
        let mut exprs = Vec::with_capacity(projection.expr().len());
        for ProjectionExpr { expr, alias } in projection.expr() {
            let expr = Arc::clone(expr).transform_down(|expr| {
                has_lambda |= expr.is::<LambdaExpr>();
                let Some((path, _)) = self.path_of(&expr) else { return Ok(Transformed::no(expr)) };
                let known = paths.iter().position(|other| *other == path);
                let index = known.unwrap_or(paths.len());
                if known.is_none() {
                    let field = expr.return_field(&schema)?;
                    fields.push(match expr.is::<Column>() {
                        true => field,
                        false => Arc::new(field.as_ref().clone().with_name(path.to_string())),
                    });
                    paths.push(path);
                }
                let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(fields[index].name(), index));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            });
            exprs.push(ProjectionExpr { expr: expr.data()?, alias: alias.clone() });
        }
        let is_in_part = |path: &FieldPath| paths.iter().any(|read| read.starts_with(path)) && !paths.contains(path);
        // The variables of a lambda are numbered behind the columns.
        if has_lambda || !self.paths.iter().any(is_in_part) {
            return Ok(None);
        }
        let scan = self.with_columns(paths, Arc::new(Schema::new(fields)));
        let above: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(exprs, Arc::new(scan))?);
        Ok(Some(above).filter(|above| above.schema() == projection.schema()))
    }

    /// The path that a physical expression over this node's output names, with its type.
    fn path_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(FieldPath, DataType)> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            let schema = self.schema();
            return Some((self.paths.get(column.index())?.clone(), schema.field(column.index()).data_type().clone()));
        }
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        if call.name() != "get_field" {
            return None;
        }
        let (base, names) = call.args().split_first()?;
        let (mut path, mut data_type) = self.path_of(base)?;
        for name in names {
            let name = name.downcast_ref::<Literal>()?;
            (path, data_type) = filters::child(&path, &data_type, name.value().try_as_str()??)?;
        }
        Some((path, data_type))
    }
}

impl DisplayAs for RawScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.paths.iter().map(ToString::to_string).collect();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "RawScanExec: {}, columns=[{}]", self.scan.describe_files(), columns.join(", "))?;
                if !self.scan.predicate.is_all() {
                    write!(f, ", predicate={}", self.scan.predicate)?;
                }
                if let Some(list) = &self.scan.unnest {
                    write!(f, ", unnest={list}")?;
                }
                if let Some(limit) = self.limit {
                    write!(f, ", limit={limit}")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "files={}", self.scan.describe_files())?;
                writeln!(f, "columns={}", columns.join(", "))?;
                if !self.scan.predicate.is_all() {
                    writeln!(f, "predicate={}", self.scan.predicate)?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for RawScanExec {
    fn name(&self) -> &str {
        "RawScanExec"
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
        if children.is_empty() { Ok(self) } else { internal_err!("RawScanExec is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("RawScanExec is a leaf") }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with_columns(self.paths.clone(), self.schema())))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stream = self.run(partition, false).partition_stream(partition, self.limit, &self.metrics);
        let stream = stream.map_ok(|rows| rows.batch);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let partition_count = self.properties.output_partitioning().partition_count();
        let share = if args.partition().is_some() { partition_count } else { 1 };
        if let Some(rows) = self.scan.estimated_rows() {
            statistics.num_rows = Precision::Inexact((rows as usize / share).max(1));
        }
        statistics.column_statistics = vec![ColumnStatistics::new_unknown(); self.paths.len()];
        Ok(Arc::new(statistics))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self::with_schema(
            Arc::clone(&self.scan),
            self.paths.clone(),
            self.schema(),
            limit,
            self.properties.output_partitioning().partition_count(),
        )))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut paths = Vec::with_capacity(projection.expr().len());
        for expr in projection.expr() {
            match self.path_of(&expr.expr) {
                // Rules know that a projection's two columns of one input are equal, of a scan's they do not.
                Some((path, _)) if !paths.contains(&path) => paths.push(path),
                _ => return self.try_narrowing(projection),
            }
        }
        Ok(Some(Arc::new(self.with_columns(paths, projection.schema()))))
    }
}
