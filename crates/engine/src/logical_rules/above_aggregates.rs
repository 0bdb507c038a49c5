//! Conditions stay above aggregates and windows where below these they would ask something else.
//!
//! The stock `push_down_filter` puts a condition below an aggregate if all of its columns are grouped by, and below a window
//! if all of them are partitioned by (DataFusion 55.2), whatever else is in it:
//!
//! - one without columns: `SELECT count(*) FROM t HAVING (SELECT min(x) FROM u) > 7` gave a count of no rows instead of no
//!   count;
//! - one that is not the same each time: of `SELECT * FROM (SELECT count(*) OVER () …) WHERE random() < 0.5` the count was
//!   one of the sample.
//!
//! Nor does it put one on outer columns below a projection, which may be there to make a column of what is compared
//! ([`correlated_keys`](super::correlated_keys)), while the subquery is not joined yet.
//!
//! [`KeepAboveAggregates`] stands around it. It sees all filters that lie on each other at once, since the stock rule makes
//! one of them and goes on by itself.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
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
        let (mut predicates, mut input) = (vec![&filter.predicate], &filter.input);
        while let LogicalPlan::Filter(below) = input.as_ref() {
            predicates.push(&below.predicate);
            input = &below.input;
        }
        let stays: fn(&Expr) -> bool = match input.as_ref() {
            LogicalPlan::Aggregate(_) => |part| part.column_refs().is_empty() || part.is_volatile(),
            // Each element of a list draws its own, not each list.
            LogicalPlan::Window(_) | LogicalPlan::Unnest(_) => Expr::is_volatile,
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => Expr::contains_outer,
            _ => return self.inner.rewrite(plan, config),
        };
        let parts = predicates.iter().rev().flat_map(|predicate| split_conjunction(predicate)).cloned();
        let (staying, others): (Vec<_>, Vec<_>) = parts.partition(stays);
        let Some(staying) = conjunction(staying) else { return self.inner.rewrite(plan, config) };
        let was_one = predicates.len() == 1;
        let Some(others) = conjunction(others) else {
            if was_one {
                return Ok(Transformed::no(plan));
            }
            return Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(staying, Arc::clone(input))?)));
        };
        let below = LogicalPlan::Filter(Filter::try_new(others, Arc::clone(input))?);
        let below = self.inner.rewrite(below, config)?;
        if was_one && !below.transformed {
            return Ok(Transformed::no(plan));
        }
        let (predicate, input) = match below.data {
            LogicalPlan::Filter(kept) => (kept.predicate.and(staying), kept.input),
            pushed => (staying, Arc::new(pushed)),
        };
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
    }
}
