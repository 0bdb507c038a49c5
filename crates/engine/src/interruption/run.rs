//! Whether somebody still reads what a plan puts out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use thermocline_hardware::Clock;

/// The streams of one plan.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) clock: Arc<dyn Clock>,
    has_begun: AtomicBool,
    stream_count: AtomicUsize,
}

impl Run {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, has_begun: AtomicBool::new(false), stream_count: AtomicUsize::new(0) }
    }

    /// Whether there were streams and all of them are dropped. A plan that is executed again is not over any more.
    pub(super) fn is_over(&self) -> bool {
        // Nothing is read on the strength of these: seeing them late only means stopping late.
        self.has_begun.load(Ordering::Relaxed) && self.stream_count.load(Ordering::Relaxed) == 0
    }

    fn begin(self: &Arc<Self>) -> Reader {
        self.stream_count.fetch_add(1, Ordering::Relaxed);
        self.has_begun.store(true, Ordering::Relaxed);
        Reader(Arc::clone(self))
    }
}

/// Somebody who reads a stream of the plan.
struct Reader(Arc<Run>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.stream_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Hands on what its input puts out, which is computed in a task of its own: the reader never waits inside a poll, and
/// can drop the stream while a join is at work.
#[derive(Debug)]
pub(super) struct RunExec {
    input: Arc<dyn ExecutionPlan>,
    run: Arc<Run>,
}

impl RunExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, run: Arc<Run>) -> Self {
        Self { input, run }
    }
}

impl DisplayAs for RunExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunExec")
    }
}

impl ExecutionPlan for RunExec {
    fn name(&self) -> &str {
        "RunExec"
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.len()) {
            (Some(input), 0) => Ok(Arc::new(Self::new(input, Arc::clone(&self.run)))),
            (_, others) => plan_err!("RunExec has one child, not {}", others + 1),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reader = self.run.begin();
        let mut input = self.input.execute(partition, context)?;
        // One batch waits while the next is computed.
        let mut builder = RecordBatchReceiverStream::builder(self.schema(), 1);
        let sender = builder.tx();
        builder.spawn(async move {
            while let Some(batch) = input.next().await {
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        let batches = builder.build().inspect(move |_| {
            // The closure keeps the reader as long as there is a stream.
            let _ = &reader;
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_statistics: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input_statistics[0]))
    }
}
