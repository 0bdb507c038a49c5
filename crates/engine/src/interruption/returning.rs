//! Returning to the runtime around joins.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

/// Where in a plan batches pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Above a join: a batch costs a unit of the runtime's budget, as if it were read from outside.
    Output,
    /// Below a join, where it probes: the task returns between any two batches. The runtime's budget is too coarse
    /// here, for what a join makes of one batch may take it seconds.
    ProbeSide,
}

/// Hands batches on, and returns to the runtime now and then.
#[derive(Debug)]
pub(super) struct ReturningExec {
    input: Arc<dyn ExecutionPlan>,
    place: Place,
    properties: Arc<PlanProperties>,
}

impl ReturningExec {
    /// `properties` are the input's. If they are those of the node whose place this takes, to the pointer, then the
    /// nodes above stay as they are, and so do the filters that they update while they run.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, place: Place, properties: Arc<PlanProperties>) -> Self {
        Self { input, place, properties }
    }
}

impl DisplayAs for ReturningExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReturningExec")
    }
}

impl ExecutionPlan for ReturningExec {
    fn name(&self) -> &str {
        "ReturningExec"
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), 0) = (children.pop(), children.len()) else {
            return plan_err!("ReturningExec has one child");
        };
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&self.properties),
            ChildrenPropertiesMode::Recompute => Arc::clone(input.properties()),
        };
        Ok(Arc::new(Self::new(input, self.place, properties)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(match self.place {
            Place::Output => make_cooperative(input),
            Place::ProbeSide => Box::pin(ReturningStream { input, owes_return: false }),
        })
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

/// A stream that is pending once between any two batches.
struct ReturningStream {
    input: SendableRecordBatchStream,
    owes_return: bool,
}

impl Stream for ReturningStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.owes_return) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = self.input.poll_next_unpin(context);
        self.owes_return = matches!(polled, Poll::Ready(Some(_)));
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for ReturningStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
