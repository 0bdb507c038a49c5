//! Subqueries of one row, whatever they are asked of.
//!
//! An aggregate without groups has a row of no input too. Where its input is told by columns from outside, DataFusion
//! joins it by groups of what these are compared with, and where there is no input there is no group: of `a NOT IN (SELECT
//! max(b) … WHERE h = g)` it took the NULL for no row at all, and `EXISTS` for false (DataFusion 55.2,
//! `PullUpCorrelatedExpr`). Of a scalar subquery it knows what it is without a group, hence
//!
//! ```text
//! x IN (SELECT max(b) …)                   ─▶  x = (SELECT max(b) …)
//! x NOT IN (SELECT max(b) … HAVING …)      ─▶  NOT (SELECT HAVING …) IS TRUE OR x <> (SELECT max(b) …)
//! EXISTS (SELECT max(b) … HAVING …)        ─▶  (SELECT HAVING …) IS TRUE
//! x > ALL (SELECT max(b) …)                ─▶  x > (SELECT max(b) …)
//! ```
//!
//! Deviations: a `HAVING` that has a subquery, or names columns from outside, and windows over the aggregate are left as
//! they are.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Sort, Subquery,
    binary_expr, lit, not, scalar_subquery,
};

/// What a condition on a single row is called.
const HOLDS: &str = "__holds";

/// The expression, with what it asks of correlated subqueries of one row asked of their values.
pub(super) fn as_values(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|nested| {
        let subquery = match &nested {
            Expr::InSubquery(asked) => &asked.subquery,
            Expr::SetComparison(asked) => &asked.subquery,
            Expr::Exists(asked) => &asked.subquery,
            _ => return Ok(Transformed::no(nested)),
        };
        let Some(row) = SingleRow::of(subquery)? else { return Ok(Transformed::no(nested)) };
        Ok(match nested {
            Expr::InSubquery(InSubquery { expr, negated: false, .. }) => Transformed::yes(row.any(*expr, Operator::Eq)),
            Expr::InSubquery(InSubquery { expr, negated: true, .. }) => {
                Transformed::yes(row.all(*expr, Operator::NotEq))
            }
            Expr::SetComparison(SetComparison { expr, op, quantifier: SetQuantifier::Any, .. }) => {
                Transformed::yes(row.any(*expr, op))
            }
            Expr::SetComparison(SetComparison { expr, op, quantifier: SetQuantifier::All, .. }) => {
                Transformed::yes(row.all(*expr, op))
            }
            Expr::Exists(asked) => {
                let is_there = row.is_there().unwrap_or(lit(true));
                Transformed::yes(if asked.negated { not(is_there) } else { is_there })
            }
            other => Transformed::no(other),
        })
    })
}

/// What a subquery gives whose input always has one row.
struct SingleRow {
    /// The row.
    row: LogicalPlan,
    /// It is there if all of these are true, each of one row and one column.
    conditions: Vec<LogicalPlan>,
}

impl SingleRow {
    /// None if the subquery is not correlated, or of another kind.
    fn of(subquery: &Subquery) -> Result<Option<Self>> {
        if subquery.outer_ref_columns.is_empty() { Ok(None) } else { Self::of_plan(&subquery.subquery) }
    }

    fn of_plan(plan: &LogicalPlan) -> Result<Option<Self>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() && !aggregate.aggr_expr.is_empty() => {
                Ok(Some(Self { row: plan.clone(), conditions: Vec::new() }))
            }
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
                let inputs = plan.inputs();
                let Some(Self { row, conditions }) = inputs.first().map_or(Ok(None), |input| Self::of_plan(input))?
                else {
                    return Ok(None);
                };
                Ok(Some(Self { row: plan.with_new_exprs(plan.expressions(), vec![row])?, conditions }))
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) if !predicate.contains_outer() => {
                let has_subquery = predicate.exists(|nested| {
                    Ok(matches!(
                        nested,
                        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_)
                    ))
                });
                if has_subquery? {
                    return Ok(None);
                }
                let Some(mut single) = Self::of_plan(input)? else { return Ok(None) };
                let holds = predicate.clone().alias(HOLDS);
                single.conditions.push(LogicalPlanBuilder::from(single.row.clone()).project([holds])?.build()?);
                Ok(Some(single))
            }
            // What these do to one row is nothing.
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) | LogicalPlan::Distinct(Distinct::All(input)) => {
                Self::of_plan(input)
            }
            LogicalPlan::Limit(limit) if keeps_one(limit)? => Self::of_plan(&limit.input),
            _ => Ok(None),
        }
    }

    /// Whether the row is there and its value, behind the operator, is true of `expr`.
    fn any(self, expr: Expr, op: Operator) -> Expr {
        let is_there = self.is_there();
        let compared = binary_expr(expr, op, scalar_subquery(Arc::new(self.row)));
        is_there.map_or(compared.clone(), |is_there| is_there.and(compared))
    }

    /// Whether the row is not there or its value, behind the operator, is true of `expr`.
    fn all(self, expr: Expr, op: Operator) -> Expr {
        let is_there = self.is_there();
        let compared = binary_expr(expr, op, scalar_subquery(Arc::new(self.row)));
        is_there.map_or(compared.clone(), |is_there| not(is_there).or(compared))
    }

    /// Whether the row is there; None if it always is.
    fn is_there(&self) -> Option<Expr> {
        conjunction(self.conditions.iter().map(|condition| scalar_subquery(Arc::new(condition.clone())).is_true()))
    }
}

/// Whether at least one row comes through, if there is one.
pub(in super::super) fn keeps_one(limit: &Limit) -> Result<bool> {
    let skips_none = matches!(limit.get_skip_type()?, SkipType::Literal(0));
    Ok(skips_none && matches!(limit.get_fetch_type()?, FetchType::Literal(None | Some(1..))))
}
