//! Keeps DataFusion from trusting keys that are none.
//!
//! DataFusion's `Unnest` node passes the functional dependencies of its input on. After `GROUP BY k` the column `k` is
//! unique; after an unnest beside it `k` is not, nor does `k` determine the element. Yet `SELECT DISTINCT k` would lose
//! its DISTINCT, and `GROUP BY k, element` its second key; and the SQL planner would make `GROUP BY k, element` of
//! `GROUP BY k`, and rows of a window's range.
//!
//! Its `Aggregate` node takes a key of its input, which a join has repeated since, for a key of its groups if they are by
//! that key and by others (55.2, `aggregate_functional_dependencies`): of `SELECT DISTINCT k FROM (SELECT d.k, e.v, count(*)
//! FROM (SELECT DISTINCT k FROM d) d JOIN e … GROUP BY d.k, e.v)` each `k` came as often as it has `e.v`s.
//!
//! [`without_wrong_keys`] empties the dependencies of every UNNEST, leaves to every aggregate those of keys that determine its
//! groups, and has the nodes above derive theirs anew: of each relation in FROM as it is planned, for later nobody can tell
//! which keys were written. Rules that rebuild a node bring them back, so [`ForgetWrongKeys`] does it wherever a pass uses
//! dependencies next: first, and before columns are pruned; and [`WithRightKeys`] where `DISTINCT` is replaced.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Empties the functional dependencies that an UNNEST inherits, and leaves to aggregates what is true of their groups.
#[derive(Debug, Default)]
pub(crate) struct ForgetWrongKeys;

impl ForgetWrongKeys {
    /// Puts the rule first, and again before the pruning of columns; and [`WithRightKeys`] around the rule that replaces
    /// `DISTINCT`.
    pub(crate) fn install_into(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
        for rule in rules.iter_mut().filter(|rule| rule.name() == "replace_distinct_aggregate") {
            *rule = Arc::new(WithRightKeys { inner: Arc::clone(rule) });
        }
        let pruning = rules.iter().position(|rule| rule.name() == "optimize_projections").unwrap_or(rules.len());
        rules.insert(pruning, Arc::new(Self));
        rules.insert(0, Arc::new(Self));
    }
}

impl OptimizerRule for ForgetWrongKeys {
    fn name(&self) -> &str {
        "forget_wrong_keys"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        without_wrong_keys(plan)
    }
}

/// Shows a rule, which makes aggregates with keys of what is below, right ones.
#[derive(Debug)]
struct WithRightKeys {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for WithRightKeys {
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
        match plan {
            LogicalPlan::Distinct(_) => {
                plan.map_children(without_wrong_keys)?.transform_data(|plan| self.inner.rewrite(plan, config))
            }
            plan => self.inner.rewrite(plan, config),
        }
    }
}

/// The plan, in which no UNNEST has functional dependencies, no aggregate those that are none, nor what is above has any from
/// there.
pub(crate) fn without_wrong_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = right_keys(node).is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if found { forget(plan) } else { Ok(Transformed::no(plan)) }
}

fn forget(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut plan = plan.map_subqueries(forget)?.transform_sibling(|plan| plan.map_children(forget))?;
    if plan.transformed {
        plan.data = plan.data.recompute_schema()?;
    }
    plan.transform_data(|plan| {
        let Some(keys) = right_keys(&plan) else { return Ok(Transformed::no(plan)) };
        let with_keys = |schema: &DFSchema| schema.clone().with_functional_dependencies(keys).map(Arc::new);
        Ok(match plan {
            LogicalPlan::Unnest(mut unnest) => {
                unnest.schema = with_keys(&unnest.schema)?;
                Transformed::yes(LogicalPlan::Unnest(unnest))
            }
            LogicalPlan::Aggregate(mut aggregate) => {
                aggregate.schema = with_keys(&aggregate.schema)?;
                Transformed::yes(LogicalPlan::Aggregate(aggregate))
            }
            plan => Transformed::no(plan),
        })
    })
}

/// The dependencies of the node that are true; None if all are.
fn right_keys(node: &LogicalPlan) -> Option<FunctionalDependencies> {
    match node {
        LogicalPlan::Unnest(unnest) if !unnest.schema.functional_dependencies().is_empty() => {
            Some(FunctionalDependencies::empty())
        }
        LogicalPlan::Aggregate(aggregate) => keys_of_groups(aggregate),
        _ => None,
    }
}

fn keys_of_groups(aggregate: &Aggregate) -> Option<FunctionalDependencies> {
    let keys = aggregate.schema.functional_dependencies();
    let column_count = aggregate.schema.fields().len();
    let group_count = column_count.checked_sub(aggregate.aggr_expr.len())?;
    let all: Vec<usize> = (0..group_count).collect();
    let is_whole = |key: &FunctionalDependence| key.source_indices == all;
    let right = |key: &&FunctionalDependence| is_whole(key) || determines_groups(aggregate, &key.source_indices);
    let mut kept: Vec<FunctionalDependence> = keys.iter().filter(right).cloned().collect();
    if kept.len() == keys.len() {
        return None;
    }
    if !kept.iter().any(is_whole) {
        let is_nullable = aggregate.schema.fields().iter().take(group_count).any(|field| field.is_nullable());
        kept.push(FunctionalDependence::new(all, (0..column_count).collect(), is_nullable));
    }
    Some(FunctionalDependencies::new(kept))
}

/// Whether groups of some of the columns are those of all: by what the input's dependencies say of columns.
fn determines_groups(aggregate: &Aggregate, groups: &[usize]) -> bool {
    let input = aggregate.input.schema();
    let place = |group: &Expr| match group {
        Expr::Column(column) => input.index_of_column(column).ok(),
        _ => None,
    };
    let Some(source) = groups.iter().map(|group| place(aggregate.group_expr.get(*group)?)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    input.functional_dependencies().iter().any(|key| {
        let is_determined = |place: usize| source.contains(&place) || key.target_indices.contains(&place);
        key.source_indices.iter().all(|place| source.contains(place))
            && aggregate.group_expr.iter().all(|group| place(group).is_some_and(is_determined))
    })
}
