//! The leaf of a physical plan that runs pipelines, one after the other, and gives out the last one's groups.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use thermocline_pipeline::PipelineError;
use tokio::task::spawn_blocking;

use super::fallback::Fallback;
use super::output;
use super::run::{Counters, Run};
use super::star::FusedPlan;
use crate::column_table::ColumnScan;
use crate::raw_table::listing::external;

/// See the module.
#[derive(Debug)]
pub(crate) struct PipelineExec {
    plan: Arc<FusedPlan>,
    /// What each stage reads.
    scans: Vec<Arc<ColumnScan>>,
    fallback: Arc<Fallback>,
    /// All columns that the pipelines make.
    made: SchemaRef,
    /// Those that are given out.
    projection: Vec<usize>,
    thread_count: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PipelineExec {
    /// Runs `plan` over `scans`, one for each of its stages, on so many threads.
    ///
    /// # Errors
    /// A projection to columns that there are not.
    pub(super) fn new(
        plan: Arc<FusedPlan>,
        scans: Vec<Arc<ColumnScan>>,
        fallback: Fallback,
        made: &SchemaRef,
        projection: Option<&Vec<usize>>,
        thread_count: usize,
    ) -> Result<Self> {
        let projection = projection.cloned().unwrap_or_else(|| (0..made.fields().len()).collect());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(made.project(&projection)?)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Self {
            plan,
            scans,
            fallback: Arc::new(fallback),
            made: Arc::clone(made),
            projection,
            thread_count,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// What each pipeline reads: the scan, and the columns of it.
    pub(crate) fn scans(&self) -> impl Iterator<Item = (&Arc<ColumnScan>, &[usize])> {
        self.scans.iter().zip(&self.plan.stages).map(|(scan, stage)| (scan, stage.columns.as_slice()))
    }
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(format, DisplayFormatType::TreeRender) {
            f.write_str("PipelineExec: ")?;
        }
        for (number, (stage, scan)) in self.plan.stages.iter().zip(&self.scans).enumerate() {
            let shown = stage.pipeline.to_string();
            let (groups, all) = (scan.groups.len(), scan.table.row_group_count());
            match format {
                DisplayFormatType::TreeRender => writeln!(f, "{}", shown.lines().last().unwrap_or_default())?,
                _ => {
                    let separator = if number == 0 { "" } else { "; " };
                    let steps = shown.lines().collect::<Vec<_>>().join(", ");
                    write!(f, "{separator}{} (row_groups={groups} of {all}): {steps}", scan.table.name)?;
                }
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &str {
        "PipelineExec"
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
        if children.is_empty() { Ok(self) } else { internal_err!("PipelineExec is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("PipelineExec is a leaf") }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            plan: Arc::clone(&self.plan),
            scans: self.scans.clone(),
            fallback: Arc::clone(&self.fallback),
            made: Arc::clone(&self.made),
            projection: self.projection.clone(),
            thread_count: self.thread_count,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PipelineExec has one partition, and none with the number {partition}");
        }
        let counters = Counters::new(&self.metrics);
        let run = Run::new(Arc::clone(&self.plan), self.scans.clone(), self.thread_count, counters);
        let fallbacks = MetricBuilder::new(&self.metrics).global_counter("fallbacks");
        let (fallback, made, projection) =
            (Arc::clone(&self.fallback), Arc::clone(&self.made), self.projection.clone());
        let plan = Arc::clone(&self.plan);
        let batches = async move {
            let cancelled = CancelOnDrop::default();
            let flag = Arc::clone(&cancelled.0);
            let answered = spawn_blocking(move || run.answer(&flag)).await.map_err(external)?;
            let answered = match answered {
                Ok((rowset, reservation)) => match output::batch(&rowset, &plan.outputs, &made) {
                    Ok(batch) => Ok((batch, reservation)),
                    // An average that does not fit: the operators say it in their words.
                    Err(DataFusionError::Execution(_)) => Err(None),
                    Err(error) => return Err(error),
                },
                Err(error) => Err(Some(error)),
            };
            let batch_rows = context.session_config().batch_size();
            match answered {
                Ok((batch, reservation)) => {
                    let batch = batch.project(&projection)?;
                    let starts = (0..batch.num_rows()).step_by(batch_rows.max(1));
                    let slices: Vec<RecordBatch> =
                        starts.map(|start| batch.slice(start, batch_rows.min(batch.num_rows() - start))).collect();
                    // The memory is counted until the last of it was given out.
                    let given_out = stream::iter(slices).map(move |slice| {
                        let _ = &reservation;
                        Ok(slice)
                    });
                    Ok(given_out.boxed())
                }
                Err(Some(error)) if !goes_on(&error) => Err(failure(error)),
                Err(_) => {
                    fallbacks.add(1);
                    let rows = fallback.stream(context).await?;
                    Ok(rows.map(move |batch| Ok(batch?.project(&projection)?)).boxed())
                }
            }
        };
        let batches = stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let (most_rows, is_exact) = self.plan.most_rows;
        statistics.num_rows = match is_exact {
            true => Precision::Exact(most_rows as usize),
            false => Precision::Inexact(most_rows as usize),
        };
        Ok(Arc::new(statistics))
    }
}

/// Ends a run whose answer nobody waits for any more.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether DataFusion's operators may have an answer where pipelines have none.
fn goes_on(error: &PipelineError) -> bool {
    !matches!(
        error,
        PipelineError::Source { .. }
            | PipelineError::Page { .. }
            | PipelineError::PageMismatch { .. }
            | PipelineError::Cancelled
    )
}

fn failure(error: PipelineError) -> DataFusionError {
    match error {
        // The source names file and page itself.
        PipelineError::Source { source, .. } => DataFusionError::External(source),
        other => external(other),
    }
}
