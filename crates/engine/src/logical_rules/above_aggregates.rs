//! Conditions without columns stay above aggregates.
//!
//! The stock `push_down_filter` puts a condition below an aggregate if all of its columns are grouped by, which holds
//! where it has none: `SELECT count(*) FROM t HAVING (SELECT min(x) FROM u) > 7` gave a count of no rows instead of no
//! count (DataFusion 55.2). [`KeepAboveAggregates`] stands around it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::utils::split_conjunction;
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
        if let LogicalPlan::Filter(filter) = &plan
            && matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_))
            && split_conjunction(&filter.predicate).iter().any(|part| part.column_refs().is_empty())
        {
            return Ok(Transformed::no(plan));
        }
        self.inner.rewrite(plan, config)
    }
}
