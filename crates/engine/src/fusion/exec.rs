//! The part of a physical plan that runs pipelines, one after the other, and gives out the last one's groups or rows.
//! Scans of raw files are its children, and so are the plans of subqueries.

use std::fmt;
use std::sync::Arc;
use std::thread;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use thermocline_budget::BudgetError;
use thermocline_buffer_pool::PoolError;
use thermocline_pipeline::{BatchSize, PipelineError, WORKER_STACK_BYTES};
use thermocline_placement::fusion;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::batches::Cancellation;
use super::chunks::TooLong;
use super::fallback::Fallback;
use super::giving::{Given, Giving};
use super::output;
use super::run::{Counters, Run};
use super::star::FusedPlan;
use super::subqueries;
use crate::column_table::ColumnScan;
use crate::own_batch::own;
use crate::parquet_table::{ParquetScan, RowGroups};
use crate::raw_table::listing::external;
use crate::raw_table::scan_exec::RawScanExec;

/// What a stage reads.
#[derive(Debug, Clone)]
pub(super) enum StageInput {
    Pages(Arc<ColumnScan>),
    /// The stage's columns, in their order.
    Batches(Arc<dyn ExecutionPlan>),
    /// The same.
    Chunks(Arc<RowGroups>),
    Arrays(Arc<[RecordBatch]>),
    /// The groups of a stage before.
    Groups,
}

impl StageInput {
    /// Scans that end with the run that reads them: those of a run that failed must not hold up the operators. What
    /// they count is counted here.
    fn of_one_run(&self) -> Result<Self> {
        let Self::Batches(plan) = self else { return Ok(self.clone()) };
        let plan = Arc::clone(plan).transform_up(|node| match node.downcast_ref::<RawScanExec>() {
            Some(scan) => Ok(Transformed::yes(Arc::new(scan.another_run()))),
            None => node.reset_state().map(Transformed::yes),
        });
        plan.data().map(Self::Batches)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PipelineExec {
    plan: Arc<FusedPlan>,
    /// What each stage reads.
    inputs: Vec<StageInput>,
    /// The plans of the subqueries that pipelines have parameters for.
    subqueries: Vec<Arc<dyn ExecutionPlan>>,
    fallback: Arc<Fallback>,
    /// All columns that the pipelines make.
    made: SchemaRef,
    /// Those that are given out.
    projection: Vec<usize>,
    thread_count: usize,
    /// With how many rows nobody asks for more, if that is known.
    enough: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PipelineExec {
    /// Runs `plan` over the inputs, one for each of its stages, with the values of its subqueries, on so many threads.
    ///
    /// # Errors
    /// A projection to columns that there are not.
    pub(super) fn new(
        plan: Arc<FusedPlan>,
        (inputs, subqueries): (Vec<StageInput>, Vec<Arc<dyn ExecutionPlan>>),
        fallback: Fallback,
        made: &SchemaRef,
        projection: Option<&Vec<usize>>,
        thread_count: usize,
    ) -> Result<Self> {
        let projection = projection.cloned().unwrap_or_else(|| (0..made.fields().len()).collect());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(made.project(&projection)?)),
            Partitioning::UnknownPartitioning(1),
            if plan.gives_rows() { EmissionType::Incremental } else { EmissionType::Final },
            Boundedness::Bounded,
        );
        Ok(Self {
            plan,
            inputs,
            subqueries,
            fallback: Arc::new(fallback),
            made: Arc::clone(made),
            projection,
            thread_count,
            enough: None,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same where so many rows will do: more may come.
    pub(super) fn with_enough(self, enough: Option<usize>) -> Self {
        Self { enough, ..self }
    }

    /// What pipelines read of column tables: the scan, and the columns of it.
    pub(crate) fn column_scans(&self) -> impl Iterator<Item = (&Arc<ColumnScan>, &[usize])> {
        self.inputs.iter().zip(&self.plan.stages).filter_map(|(input, stage)| match input {
            StageInput::Pages(scan) => Some((scan, stage.columns.as_slice())),
            _ => None,
        })
    }

    /// What they read of Parquet files through the pool: the scan, and the columns of it.
    pub(crate) fn parquet_scans(&self) -> impl Iterator<Item = (&ParquetScan, &[usize])> {
        self.inputs.iter().filter_map(|input| match input {
            StageInput::Chunks(row_groups) => Some((row_groups.scan.as_ref()?, row_groups.columns.as_slice())),
            _ => None,
        })
    }

    /// The same over other children.
    fn over(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.children().len() {
            return internal_err!("PipelineExec with {} children instead of {}", children.len(), self.children().len());
        }
        let mut children = children.into_iter();
        let inputs = self.inputs.iter().map(|input| match input {
            StageInput::Batches(_) => children.next().map_or_else(|| input.clone(), StageInput::Batches),
            _ => input.clone(),
        });
        let inputs = inputs.collect();
        Ok(Arc::new(self.anew(inputs, children.collect())))
    }

    /// The same over other inputs and subqueries, with nothing counted yet.
    fn anew(&self, inputs: Vec<StageInput>, subqueries: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        Self {
            plan: Arc::clone(&self.plan),
            inputs,
            subqueries,
            fallback: Arc::clone(&self.fallback),
            made: Arc::clone(&self.made),
            projection: self.projection.clone(),
            thread_count: self.thread_count,
            enough: self.enough,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(format, DisplayFormatType::TreeRender) {
            f.write_str("PipelineExec: ")?;
        }
        for (number, (stage, input)) in self.plan.stages.iter().zip(&self.inputs).enumerate() {
            let shown = stage.pipeline.to_string();
            match format {
                DisplayFormatType::TreeRender => writeln!(f, "{}", shown.lines().last().unwrap_or_default())?,
                _ => {
                    let separator = if number == 0 { "" } else { "; " };
                    let steps = shown.lines().collect::<Vec<_>>().join(", ");
                    write!(f, "{separator}")?;
                    match input {
                        StageInput::Pages(scan) => {
                            let (groups, all) = (scan.groups.len(), scan.table.row_group_count());
                            write!(f, "{} (row_groups={groups} of {all})", scan.table.name)?;
                        }
                        StageInput::Chunks(row_groups) => {
                            write!(f, "{} (row_groups={})", stage.relation.name, row_groups.groups.len())?;
                        }
                        StageInput::Batches(_) | StageInput::Arrays(_) | StageInput::Groups => {
                            write!(f, "{}", stage.relation.name)?;
                        }
                    }
                    write!(f, ": {steps}")?;
                }
            }
        }
        if !self.subqueries.is_empty() && !matches!(format, DisplayFormatType::TreeRender) {
            write!(f, ", subqueries={}", self.subqueries.len())?;
        }
        if let (Some(enough), false) = (self.enough, matches!(format, DisplayFormatType::TreeRender)) {
            write!(f, ", fetch={enough}")?;
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
        let batches = self.inputs.iter().filter_map(|input| match input {
            StageInput::Batches(plan) => Some(plan),
            _ => None,
        });
        batches.chain(&self.subqueries).collect()
    }

    /// Its threads drive partitions that there are; more would not be driven at the same time.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
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
        self.over(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = self.children().into_iter().map(|child| Arc::clone(child).reset_state());
        let children = children.collect::<Result<Vec<_>>>()?;
        self.over(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("PipelineExec has one partition, and none with the number {partition}");
        }
        let counters = Counters::new(&self.metrics);
        let inputs = self.inputs.iter().map(StageInput::of_one_run).collect::<Result<Vec<_>>>()?;
        let (thread_count, subqueries) = (self.thread_count, self.subqueries.clone());
        let fallbacks = MetricBuilder::new(&self.metrics).global_counter("fallbacks");
        let (fallback, made, projection) =
            (Arc::clone(&self.fallback), Arc::clone(&self.made), self.projection.clone());
        let (plan, enough) = (Arc::clone(&self.plan), self.enough);
        let batches = async move {
            let mut values = Vec::with_capacity(subqueries.len());
            for subquery in &subqueries {
                values.push(subqueries::value(subquery, &context).await?);
            }
            let bound = if values.is_empty() { Ok(plan) } else { plan.bound(&values).map(Arc::new) };
            let batch_rows = context.session_config().batch_size().max(1);
            let run = |plan: &Arc<FusedPlan>| {
                Run::new(Arc::clone(plan), inputs, thread_count, counters, Arc::clone(&context))
            };
            let begun = match bound {
                Ok(plan) if plan.gives_rows() => rows(run(&plan), &plan, made, enough, batch_rows).await?,
                Ok(plan) => groups(run(&plan), &plan, made).await?,
                Err(error) => Begun::Refused(error),
            };
            match begun {
                Begun::Going(batches) => {
                    let given_out = batches.map_ok(move |given| slices(given, batch_rows, &projection)).try_flatten();
                    Ok(given_out.boxed())
                }
                Begun::Refused(error) if !goes_on(&error) => Err(failure(error)),
                Begun::Refused(_) => {
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
        let (row_count, is_exact) = self.plan.expected_rows;
        statistics.num_rows = match is_exact {
            true => Precision::Exact(row_count as usize),
            false => Precision::Inexact(row_count as usize),
        };
        Ok(Arc::new(statistics))
    }
}

/// A run of which something is known.
enum Begun {
    /// Rows have come, or all of none.
    Going(BoxStream<'static, Result<Given>>),
    /// It has ended before.
    Refused(PipelineError),
}

/// Has a run worked on by a thread of its own. A run waits for reads, which the runtime's blocking threads do, and for
/// whoever takes its rows: were its own thread one of those, enough runs at once would leave none for what they wait for,
/// and the runtime, which waits for its threads when it ends, would wait for them too. It is the first of the run's workers.
fn on_own_thread<T: Send + 'static>(work: impl FnOnce(&Handle) -> T + Send + 'static) -> Result<thread::JoinHandle<T>> {
    let runtime = Handle::current();
    let named = thread::Builder::new().name("thermocline-run".to_owned()).stack_size(WORKER_STACK_BYTES);
    let running = named.spawn(move || {
        let _entered = runtime.enter();
        work(&runtime)
    })?;
    Ok(running)
}

/// The groups of a run, once they are all there.
async fn groups(run: Run, plan: &FusedPlan, made: SchemaRef) -> Result<Begun> {
    let cancelled = CancelOnDrop::default();
    let cancellation = Arc::clone(&cancelled.0);
    let (answer, answered) = oneshot::channel();
    on_own_thread(move |runtime| {
        let ended = run.groups(runtime, &cancellation);
        // Tables and pages are free before the groups are taken.
        drop(run);
        // Whoever asked may have gone.
        let _ = answer.send(ended);
    })?;
    let Ok(answered) = answered.await else { return internal_err!("a pipeline has panicked") };
    let (rowset, reservation) = match answered {
        Ok(answered) => answered,
        Err(error) => return Ok(Begun::Refused(error)),
    };
    Ok(match output::reserved_batch((rowset, reservation), &plan.outputs, &made) {
        Ok(given) => Begun::Going(stream::iter([Ok(given)]).boxed()),
        Err(error) => Begun::Refused(error),
    })
}

/// The rows of a run, so many a batch, once the first have come.
async fn rows(run: Run, plan: &FusedPlan, made: SchemaRef, enough: Option<usize>, batch_rows: usize) -> Result<Begun> {
    let cancelled = CancelOnDrop::default();
    let cancellation = Arc::clone(&cancelled.0);
    let computes = plan.stages.last().is_some_and(|last| last.pipeline.computes());
    let limit_bytes = run.limit_bytes();
    let most_held_bytes = fusion::most_held_bytes(limit_bytes);
    let (giving, mut given) = Giving::new(plan.outputs.clone(), made, computes, enough, most_held_bytes);
    let size = BatchSize { bytes: fusion::given_bytes(enough, limit_bytes, run.thread_count()), rows: batch_rows };
    let running = on_own_thread(move |runtime| {
        let consumer = |rowset, reservation| giving.take(rowset, reservation);
        let ended = run.rows(runtime, &cancellation, (size, &consumer));
        // Tables and pages are free before the last rows are taken.
        drop(run);
        giving.end(ended);
    })?;
    let first = match given.recv().await {
        Some(Ok(first)) => Some(first),
        Some(Err(error)) => return Ok(Begun::Refused(error)),
        None => None,
    };
    let rest = stream::unfold(Some((given, running, cancelled)), |going| async move {
        let (mut given, running, cancelled) = going?;
        match given.recv().await {
            Some(next) => Some((next.map_err(failure), Some((given, running, cancelled)))),
            // It has ended, perhaps by a panic, which is said where it was met.
            None => running.join().err().map(|_| (internal_err!("a pipeline has panicked"), None)),
        }
    });
    Ok(Begun::Going(stream::iter(first.map(Ok)).chain(rest).boxed()))
}

/// A batch piece by piece, if it is larger than a batch should be, as groups are. Each has memory of its own: whoever counts
/// what a piece points to would count all of the batch for each. Its memory is counted until the last of it was given out.
fn slices(
    (batch, reservation): Given,
    batch_rows: usize,
    projection: &[usize],
) -> impl Stream<Item = Result<RecordBatch>> + use<> {
    let projected = batch.project(projection);
    let starts = (0..batch.num_rows()).step_by(batch_rows);
    let slices: Vec<Result<RecordBatch>> = match projected {
        Ok(batch) => starts.map(|start| Ok(batch.slice(start, batch_rows.min(batch.num_rows() - start)))).collect(),
        Err(error) => vec![Err(error.into())],
    };
    stream::iter(slices).map(move |slice| {
        let _ = &reservation;
        Ok(own(slice?)?)
    })
}

/// Ends a run whose answer nobody waits for any more.
#[derive(Default)]
struct CancelOnDrop(Arc<Cancellation>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Whether DataFusion's operators may have an answer where pipelines have none.
fn goes_on(error: &PipelineError) -> bool {
    // Operators hold less of a file or table at a time, and can spill.
    if let PipelineError::Source { source, .. } = error
        && (source.is::<BudgetError>()
            || source.is::<TooLong>()
            || matches!(source.downcast_ref(), Some(PoolError::Memory { .. })))
    {
        return true;
    }
    !matches!(
        error,
        PipelineError::Source { .. }
            | PipelineError::Batches { .. }
            | PipelineError::Page { .. }
            | PipelineError::PageMismatch { .. }
            | PipelineError::Cancelled
    )
}

fn failure(error: PipelineError) -> DataFusionError {
    match error {
        PipelineError::Consumer(source) => {
            source.downcast::<DataFusionError>().map_or_else(DataFusionError::External, |error| *error)
        }
        // Sources name file and page themselves.
        PipelineError::Source { source, .. } | PipelineError::Batches { source } => {
            source.downcast::<DataFusionError>().map_or_else(DataFusionError::External, |error| *error)
        }
        other => external(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_go_on_where_pipelines_have_no_memory_and_not_where_a_file_cannot_be_read() {
        let no_memory = || BudgetError::CacheMemory { account: "pages".to_owned(), asked_bytes: 2, free_bytes: 1 };
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            goes_on(&PipelineError::Source { row_group: 0, column: "a".to_owned(), source })
        };
        assert!(goes_on(&PipelineError::Memory(no_memory())));
        assert!(failed(no_memory().into()));
        assert!(failed(PoolError::Memory { page: "page 1".to_owned(), source: no_memory() }.into()));
        assert!(!failed(PoolError::Dropped { page: "page 1".to_owned() }.into()));
    }
}
