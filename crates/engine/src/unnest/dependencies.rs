//! Keeps DataFusion from trusting a key after UNNEST has repeated it.
//!
//! DataFusion's `Unnest` node passes the functional dependencies of its input on. After `GROUP BY k` the column `k` is
//! unique; after an unnest beside it `k` is not, nor does `k` determine the element. Yet `SELECT DISTINCT k` would lose
//! its DISTINCT, and `GROUP BY k, element` its second key; and the SQL planner would make `GROUP BY k, element` of
//! `GROUP BY k`, and rows of a window's range. [`without_unnest_dependencies`] empties the dependencies of every UNNEST,
//! and has the nodes above derive theirs anew: of each relation in FROM as it is planned, for later nobody can tell which
//! keys were written. Rules that rebuild an UNNEST bring them back, so [`ForgetUnnestDependencies`] does it twice in each
//! pass: first, and before columns are pruned, which is where dependencies are used.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, FunctionalDependencies, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Empties the functional dependencies that UNNEST inherits.
#[derive(Debug, Default)]
pub(crate) struct ForgetUnnestDependencies;

impl ForgetUnnestDependencies {
    /// Puts the rule first, and again before the pruning of columns.
    pub(crate) fn install_into(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
        let pruning = rules.iter().position(|rule| rule.name() == "optimize_projections").unwrap_or(rules.len());
        rules.insert(pruning, Arc::new(Self));
        rules.insert(0, Arc::new(Self));
    }
}

impl OptimizerRule for ForgetUnnestDependencies {
    fn name(&self) -> &str {
        "forget_unnest_dependencies"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        without_unnest_dependencies(plan)
    }
}

/// The plan, in which no UNNEST has functional dependencies, nor what is above has any from there.
pub(super) fn without_unnest_dependencies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = inherits(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if found { forget(plan) } else { Ok(Transformed::no(plan)) }
}

fn inherits(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Unnest(unnest) if !unnest.schema.functional_dependencies().is_empty())
}

fn forget(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut plan = plan.map_subqueries(forget)?.transform_sibling(|plan| plan.map_children(forget))?;
    if plan.transformed {
        plan.data = plan.data.recompute_schema()?;
    }
    plan.transform_data(|plan| match plan {
        LogicalPlan::Unnest(mut unnest) if !unnest.schema.functional_dependencies().is_empty() => {
            let schema = DFSchema::clone(&unnest.schema);
            unnest.schema = Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
            Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
        }
        plan => Ok(Transformed::no(plan)),
    })
}
