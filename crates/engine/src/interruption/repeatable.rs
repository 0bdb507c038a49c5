//! Executing the same side of a join once more.
//!
//! A nested loop join whose left side does not fit into memory gives up what it has gathered of it and executes that
//! side again. Nodes of it whose partitions share work (scans) or keep what they built would go on where the first
//! execution was given up: each further one gets nodes of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, plan_err, resources_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

/// The side of a join that is gathered: of one partition.
#[derive(Debug)]
pub(super) struct RepeatableExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    was_executed: AtomicBool,
}

impl RepeatableExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, properties, was_executed: AtomicBool::new(false) }
    }

    /// The input for another execution.
    fn another(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut narrows_as_it_goes, mut is_narrowed) = (false, false);
        self.input.apply(|node| {
            // What a hash join leaves out is the same each time.
            narrows_as_it_goes |= !node.is::<HashJoinExec>() && !node.dynamic_expressions_produced().is_empty();
            // Other scans take no filters that change.
            is_narrowed |= node.is::<DataSourceExec>();
            Ok(TreeNodeRecursion::Continue)
        })?;
        if narrows_as_it_goes && is_narrowed {
            // Scans below a top-k or an extreme leave out rows by what the execution before has found.
            return resources_err!("not enough memory for one side of a join whose rows cannot be computed twice");
        }
        reset_plan_states(Arc::clone(&self.input))
    }
}

impl DisplayAs for RepeatableExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RepeatableExec")
    }
}

impl ExecutionPlan for RepeatableExec {
    fn name(&self) -> &str {
        "RepeatableExec"
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
            return plan_err!("RepeatableExec has one child");
        };
        let mut replaced = Self::new(input);
        if let ChildrenPropertiesMode::Keep = options.children_properties {
            replaced.properties = Arc::clone(&self.properties);
        }
        Ok(Arc::new(replaced))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.was_executed.swap(true, Ordering::AcqRel) {
            false => self.input.execute(partition, context),
            true => self.another()?.execute(partition, context),
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::physical_plan::{collect, execute_stream};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::StreamExt;

    use super::*;

    async fn side(sql: &str) -> (Arc<dyn ExecutionPlan>, Arc<TaskContext>) {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
        for statement in [
            "CREATE TABLE a AS SELECT value AS x FROM range(0, 40000)",
            "CREATE TABLE b AS SELECT value AS x FROM range(0, 40000, 5)",
        ] {
            context.sql(statement).await.unwrap().collect().await.unwrap();
        }
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        (Arc::new(RepeatableExec::new(plan)), context.task_ctx())
    }

    #[tokio::test]
    async fn each_execution_has_nodes_of_its_own() {
        // A repartitioning hands each batch to one of those who have asked for its partition, ever.
        let (side, context) =
            side("SELECT count(*), sum(n) FROM (SELECT x % 7 AS k, count(*) AS n FROM a GROUP BY k)").await;
        let first = execute_stream(Arc::clone(&side), Arc::clone(&context)).unwrap();
        drop(first);
        for _ in 0..2 {
            let found = collect(Arc::clone(&side), Arc::clone(&context)).await.unwrap();
            let shown = datafusion::arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string();
            assert!(shown.contains("| 7        | 40000"), "{shown}");
        }
    }

    #[tokio::test]
    async fn what_narrows_as_it_goes_is_not_executed_again() {
        let (side, context) = side("SELECT x FROM a ORDER BY x DESC LIMIT 3").await;
        let mut first = execute_stream(Arc::clone(&side), Arc::clone(&context)).unwrap();
        assert_eq!(first.next().await.unwrap().unwrap().num_rows(), 3);
        let error = side.execute(0, context).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("cannot be computed twice"), "{error}");
    }
}
