//! One execution of a fused plan: tables first, then the scan that probes them. Blocks its thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use thermocline_budget::{Purpose, Reservation};
use thermocline_pipeline::{
    BatchConsumer, BatchSize, BuiltTable, GroupWay, InstructionSet, Outcome, PageSource, PipelineError, Rowset,
    RunOptions, RunReport, run as run_pipeline, run_in_batches, run_over_batches,
};
use thermocline_placement::fusion;
use tokio::runtime::Handle;

use super::arrays::Arrays;
use super::batches::{Cancellation, PlanBatches};
use super::chunks::ScanChunks;
use super::exec::StageInput;
use super::output;
use super::pages::ScanPages;
use super::star::{FusedPlan, Grouped};
use crate::parquet_table::PageCounts;

/// What is counted of a run, for `EXPLAIN ANALYZE`.
#[derive(Debug)]
pub(super) struct Counters {
    metrics: ExecutionPlanMetricsSet,
    pub(super) pages_from_memory: Count,
    pub(super) pages_read: Count,
    pub(super) waited: Time,
    row_groups_scanned: Count,
    row_groups_skipped: Count,
    rows_kept: Count,
}

impl Counters {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).global_counter(name);
        Self {
            metrics: metrics.clone(),
            pages_from_memory: count("pages_from_memory"),
            pages_read: count("pages_read"),
            waited: MetricBuilder::new(metrics).subset_time("time_waiting_for_pages", 0),
            row_groups_scanned: count("row_groups_scanned"),
            row_groups_skipped: count("row_groups_skipped"),
            rows_kept: count("rows_kept"),
        }
    }

    fn add(&self, table: &str, report: RunReport, took_ns: u64) {
        self.row_groups_scanned.add(report.row_groups_scanned as usize);
        self.row_groups_skipped.add(report.row_groups_skipped as usize);
        self.rows_kept.add(report.rows_kept as usize);
        let time = MetricBuilder::new(&self.metrics).subset_time(format!("time_{table}"), 0);
        time.add_duration(Duration::from_nanos(took_ns));
    }
}

/// See the module.
pub(super) struct Run {
    plan: Arc<FusedPlan>,
    inputs: Vec<StageInput>,
    thread_count: usize,
    counters: Counters,
    context: Arc<TaskContext>,
}

impl Run {
    pub(super) fn new(
        plan: Arc<FusedPlan>,
        inputs: Vec<StageInput>,
        thread_count: usize,
        counters: Counters,
        context: Arc<TaskContext>,
    ) -> Self {
        Self { plan, inputs, thread_count, counters, context }
    }

    pub(super) fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// The memory of the database whose rows the last pipeline gives.
    pub(super) fn limit_bytes(&self) -> u64 {
        let last = self.plan.stages.last();
        last.map_or(u64::MAX, |last| last.relation.database().budget().limit_bytes())
    }

    /// The groups that the last pipeline ends in, and their memory.
    ///
    /// # Errors
    /// What pipelines meet.
    pub(super) fn groups(
        &self,
        runtime: &Handle,
        cancellation: &Cancellation,
    ) -> Result<(Rowset, Reservation), PipelineError> {
        // The last stage's sink is groups.
        self.stages(runtime, cancellation, None)?.ok_or(PipelineError::Cancelled)
    }

    /// Gives the rows that the last pipeline finds to a consumer, from all threads and so many at a time.
    ///
    /// # Errors
    /// What pipelines meet.
    pub(super) fn rows(
        &self,
        runtime: &Handle,
        cancellation: &Cancellation,
        consumer: (BatchSize, &BatchConsumer<'_>),
    ) -> Result<(), PipelineError> {
        self.stages(runtime, cancellation, Some(consumer)).map(|_| ())
    }

    /// Runs one pipeline after the other. What the last one ends in, unless `consumer` takes it.
    fn stages(
        &self,
        runtime: &Handle,
        cancellation: &Cancellation,
        consumer: Option<(BatchSize, &BatchConsumer<'_>)>,
    ) -> Result<Option<(Rowset, Reservation)>, PipelineError> {
        let mut tables: HashMap<usize, Arc<BuiltTable>> = HashMap::new();
        // The groups of stages that are not the last, and their memory.
        let mut groups: HashMap<usize, (RecordBatch, Reservation)> = HashMap::new();
        for (number, (stage, input)) in self.plan.stages.iter().zip(&self.inputs).enumerate() {
            let database = stage.relation.database();
            let _busy = database.idle_work().busy();
            let clock = database.clock();
            let account = database.budget().account("pipelines", Purpose::Query);
            let options = RunOptions {
                thread_count: self.thread_count,
                instructions: InstructionSet::detect(),
                clock: clock.as_ref(),
                account: &account,
                cancelled: cancellation.flag(),
                groups: match stage.group_way {
                    fusion::GroupWay::Together => GroupWay::Together,
                    fusion::GroupWay::AtMost(limit) => GroupWay::AtMost(limit),
                    fusion::GroupWay::Parted => GroupWay::Parted,
                },
            };
            let inputs: Vec<Arc<BuiltTable>> =
                stage.inputs.iter().filter_map(|input| tables.get(input).cloned()).collect();
            let begun_ns = clock.monotonic_ns();
            let consumer = consumer.filter(|_| number + 1 == self.plan.stages.len());
            let run_over_pages = |pages: &dyn PageSource| match consumer {
                Some((size, consumer)) => run_in_batches(&stage.pipeline, pages, &inputs, &options, size, consumer)
                    .map(|report| (None, report)),
                None => run_pipeline(&stage.pipeline, pages, &inputs, &options)
                    .map(|(outcome, report)| (Some(outcome), report)),
            };
            let (outcome, report) = match input {
                StageInput::Pages(scan) => {
                    let pages = ScanPages::new(scan, &stage.columns, self.thread_count, &self.counters);
                    let ended = run_over_pages(&pages)?;
                    pages.finish();
                    ended
                }
                StageInput::Chunks(row_groups) => {
                    let counts = PageCounts::new(&self.counters.metrics, 0);
                    let held_from = (&account, clock.as_ref(), runtime);
                    let chunks = ScanChunks::new(row_groups, self.thread_count, counts, held_from, cancellation);
                    let ended = run_over_pages(&chunks)?;
                    chunks.finish();
                    ended
                }
                StageInput::Arrays(batches) => run_over_pages(&Arrays::new(batches))?,
                StageInput::Groups => {
                    let of_stage = stage.groups_of.and_then(|number| groups.get(&number));
                    let batches = of_stage.map(|(batch, _)| std::slice::from_ref(batch)).unwrap_or_default();
                    let ended = run_over_pages(&Arrays::new(batches))?;
                    let are_needed_on =
                        self.plan.stages[number + 1..].iter().any(|later| later.groups_of == stage.groups_of);
                    if let (Some(of_stage), false) = (stage.groups_of, are_needed_on) {
                        groups.remove(&of_stage);
                    }
                    ended
                }
                StageInput::Batches(plan) => {
                    let from = (&self.context, runtime);
                    let batches =
                        PlanBatches::new(plan.as_ref(), &stage.columns, from, cancellation, self.thread_count);
                    let (outcome, report) = run_over_batches(&stage.pipeline, &batches, &inputs, &options)?;
                    (Some(outcome), report)
                }
            };
            self.counters.add(&stage.relation.name, report, clock.monotonic_ns().saturating_sub(begun_ns));
            match outcome {
                None => return Ok(None),
                Some(Outcome::Rows { rowset, reservation }) => match &stage.grouped {
                    Some(Grouped { outputs, schema }) => {
                        groups.insert(number, output::reserved_batch((rowset, reservation), outputs, schema)?);
                    }
                    None => return Ok(Some((rowset, reservation))),
                },
                Some(Outcome::Table(table)) => {
                    if let Some(limit) = stage.most_keys.filter(|limit| table.key_count() as u64 > *limit) {
                        return Err(PipelineError::TooManyKeys { limit });
                    }
                    tables.insert(number, table);
                }
            }
        }
        Ok(None)
    }
}
