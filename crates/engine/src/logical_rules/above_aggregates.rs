//! Conditions without columns stay above aggregates.
//!
//! The stock `push_down_filter` puts a condition below an aggregate if all of its columns are grouped by, which holds
//! where it has none: `SELECT count(*) FROM t HAVING (SELECT min(x) FROM u) > 7` gave a count of no rows instead of no
//! count (DataFusion 55.2). [`KeepAboveAggregates`] stands around it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Filter, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Puts [`KeepAboveAggregates`] around the rule that pushes filters down.
pub(super) fn install(rules: &mut [Arc<dyn OptimizerRule + Send + Sync>]) {
    for rule in rules.iter_mut().filter(|rule| rule.name() == "push_down_filter") {
        *rule = Arc::new(KeepAboveAggregates { inner: Arc::clone(rule) });
    }
}

/// See the module. Stateless, shared freely.
#[derive(Debug)]
struct KeepAboveAggregates {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for KeepAboveAggregates {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return self.inner.rewrite(plan, config) };
        let of_aggregate = matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_));
        let parts = split_conjunction(&filter.predicate).into_iter().cloned();
        let (staying, others): (Vec<_>, Vec<_>) = parts.partition(|part| of_aggregate && part.column_refs().is_empty());
        let Some(staying) = conjunction(staying) else { return self.inner.rewrite(plan, config) };
        let Some(others) = conjunction(others) else { return Ok(Transformed::no(plan)) };
        let below = LogicalPlan::Filter(Filter::try_new(others, Arc::clone(&filter.input))?);
        let below = self.inner.rewrite(below, config)?.data;
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(staying, Arc::new(below))?)))
    }
}
