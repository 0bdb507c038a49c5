//! A node that passes everything on and lets rules know less of its input than there is to know.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// What is hidden of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hidden {
    /// Nobody's filters come to it.
    Filters,
    /// Nobody's filters come to it that name one of these columns.
    FiltersOf(BTreeSet<usize>),
    /// No filters come to it, nor is it known which order its rows have, and which of its columns are constant or equal.
    Order,
}

/// See the module.
#[derive(Debug)]
pub(super) struct VeilExec {
    input: Arc<dyn ExecutionPlan>,
    hidden: Hidden,
    properties: Arc<PlanProperties>,
}

impl VeilExec {
    pub(super) fn over(input: Arc<dyn ExecutionPlan>, hidden: Hidden) -> Self {
        let known = input.properties();
        let properties = match hidden {
            Hidden::Filters | Hidden::FiltersOf(_) => Arc::clone(known),
            Hidden::Order => Arc::new(
                PlanProperties::new(
                    EquivalenceProperties::new(input.schema()),
                    known.partitioning.clone(),
                    known.emission_type,
                    known.boundedness,
                )
                .with_scheduling_type(known.scheduling_type)
                .with_evaluation_type(known.evaluation_type),
            ),
        };
        Self { input, hidden, properties }
    }

    /// Whether it hides its input from filters alone.
    pub(super) fn is_of_filters(&self) -> bool {
        self.hidden != Hidden::Order
    }

    pub(super) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for VeilExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VeilExec")
    }
}

impl ExecutionPlan for VeilExec {
    fn name(&self) -> &str {
        "VeilExec"
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.is_of_filters()]
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
        let (Some(input), 0) = (children.pop(), children.len()) else {
            return plan_err!("VeilExec has one child");
        };
        Ok(Arc::new(Self::over(input, self.hidden.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
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

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let Hidden::FiltersOf(hidden) = &self.hidden else {
            return Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()));
        };
        let seen = (0..self.schema().fields().len()).filter(|column| !hidden.contains(column)).collect();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, seen, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
}
