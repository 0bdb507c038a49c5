//! Which correlated subqueries DataFusion joins, and rightly.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, Filter, Join, LogicalPlan, Projection, SkipType, Sort, SubqueryAlias,
};

use super::super::correlated_keys::compared_with_outer;
use super::super::subquery_nulls::keeps_one;
use super::outer_columns;

/// What is asked of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The value of its row.
    Value,
    /// Whether there are rows.
    Rows,
    /// Whether one of its rows is a value.
    Member,
    /// Its rows.
    Lateral,
}

/// Whether it is right to leave a correlated subquery to DataFusion, once keys are made of what its aggregate's input
/// compares ([`correlated_keys`](super::super::correlated_keys)).
pub(super) fn joins(plan: &LogicalPlan, asked: Asked) -> Result<bool> {
    if outer_columns::are_in_subqueries(plan)? {
        return Ok(false);
    }
    match asked {
        Asked::Value => Ok(gives_one_row(plan)? && pulls_up(plan, asked, false)?),
        Asked::Rows => pulls_up(without_limit(plan)?, asked, false),
        Asked::Member | Asked::Lateral => pulls_up(plan, asked, false),
    }
}

/// A plan that has rows where this one has.
fn without_limit(plan: &LogicalPlan) -> Result<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(Projection { input, .. }) if !plan.contains_outer_reference() => without_limit(input),
        LogicalPlan::Limit(limit) if keeps_one(limit)? => without_limit(&limit.input),
        plan => Ok(plan),
    }
}

/// Whether all that the plan names of outer rows can be asked above it, where `is_grouped` by the values of what it compares.
fn pulls_up(plan: &LogicalPlan, asked: Asked, is_grouped: bool) -> Result<bool> {
    if !is_correlated(plan)? {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let is_pulled = |part: &Expr| !part.contains_outer() || compared_with_outer(part).is_some();
            // What is asked of an aggregate is asked of groups that are not there too.
            let is_having = is_aggregate(input) && is_correlated(input)?;
            let all_pulled = !is_grouped || split_conjunction(predicate).into_iter().all(is_pulled);
            Ok(all_pulled && !is_having && pulls_up(input, asked, is_grouped)?)
        }
        LogicalPlan::Aggregate(Aggregate { input, group_expr, .. }) => Ok(asked == Asked::Value
            && !is_grouped
            && group_expr.is_empty()
            && !plan.contains_outer_reference()
            && pulls_up(input, asked, true)?),
        LogicalPlan::Join(Join { left, right, join_type: JoinType::Inner, .. }) => Ok(!plan.contains_outer_reference()
            && pulls_up(left, asked, is_grouped)?
            && pulls_up(right, asked, is_grouped)?),
        LogicalPlan::Projection(Projection { input, .. }) | LogicalPlan::Sort(Sort { input, fetch: None, .. }) => {
            Ok(!plan.contains_outer_reference() && pulls_up(input, asked, is_grouped)?)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Ok(matches!(asked, Asked::Rows | Asked::Member) && pulls_up(input, asked, is_grouped)?)
        }
        _ => Ok(false),
    }
}

/// Whether the plan itself names columns from outside; its subqueries name none by now.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(node.contains_outer_reference()))
}

fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => is_aggregate(input),
        plan => matches!(plan, LogicalPlan::Aggregate(_)),
    }
}

/// Whether there is a row at most for each outer one, by the shape of the plan.
pub(super) fn gives_one_row(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0 | 1)))
                && !matches!(limit.get_skip_type()?, SkipType::UnsupportedExpr)
                || gives_one_row(&limit.input)?
        }
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::Sort(Sort { input, .. })
        | LogicalPlan::Distinct(Distinct::All(input))
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => gives_one_row(input)?,
        LogicalPlan::Window(window) => gives_one_row(&window.input)?,
        LogicalPlan::Join(Join { left, right, join_type: JoinType::Inner, .. }) => {
            gives_one_row(left)? && gives_one_row(right)?
        }
        _ => false,
    })
}
