//! Keeps DataFusion's expression simplifier from merging tests of one column in ways that change answers.
//!
//! The stock `simplify_expressions` intersects and subtracts lists: `k IN (1, 2) AND k IN (8, 9)` becomes `false`, and
//! `k NOT IN (1, 2) OR k NOT IN (3, 4)` becomes `true`, although both are NULL where `k` is NULL. Elements are compared
//! as text, so that `k IN (a, 1) AND k IN (b, 1)` loses the rows where `a` equals `b`, `1 IN (a, b) AND 1 IN (c, d)`
//! loses all, and NULL elements count as values. `random()` counts as one value wherever it stands. Only uniting lists
//! of the same values (`k = 1 OR k IN (2, 3)`, `k <> 1 AND k NOT IN (2, 3)`) is right.
//!
//! [`KeepTestsApart`] stands around the stock rule. Where an expression tests the same columns in several *units*
//! ([`units`]: as much as may be united), it puts each unit into a call of [`apart`], which the stock rule simplifies
//! inside but cannot look through, and takes the calls away afterwards. Everything else passes through untouched.
//! [`zeros`] stands before and behind: in lists, the zeros of floats are two values. Casts that constants must not be cast
//! against are put into such calls as well, and those of timestamps unwrapped behind ([`casts`]).
//!
//! Invariants: names, types and nullability of a plan's columns stay; no call of [`apart`] leaves the rule. Stateless,
//! shared freely.

pub(crate) mod apart;
pub(crate) mod casts;
mod units;
mod zeros;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use casts::UnwrapTimestamps;
use zeros::SpellOutZeros;

use crate::plan_expressions::{any_expression, input_schema, map_expressions};

/// Puts [`KeepTestsApart`] around each rule that runs the stock simplifier over a query's expressions, and
/// [`SpellOutZeros`] before and behind it, [`UnwrapTimestamps`] behind.
pub(super) fn install(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
    for rule in std::mem::take(rules) {
        if rule.name() == "simplify_expressions" {
            rules.push(Arc::new(SpellOutZeros));
            rules.push(Arc::new(KeepTestsApart { inner: rule }));
            rules.push(Arc::new(SpellOutZeros));
            rules.push(Arc::new(UnwrapTimestamps));
        } else {
            rules.push(rule);
        }
    }
}

/// Runs another rule on expressions in which it finds no two tests to merge wrongly, nor a cast to take away wrongly.
#[derive(Debug)]
struct KeepTestsApart {
    inner: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for KeepTestsApart {
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
        let casts = schema_of_casts(&plan)?;
        if casts.is_none() && !has_separable_tests(&plan)? {
            return self.inner.rewrite(plan, config);
        }
        let plan = map_expressions(plan, |expr| {
            let separated = units::separate(expr)?;
            match &casts {
                Some(schema) => separated.transform_data(|expr| casts::hide(expr, schema)),
                None => Ok(separated),
            }
        })?
        .data;
        let simplified = self.inner.rewrite(plan, config)?;
        // A projection may have come between the node and its inputs.
        simplified.transform_data(|plan| {
            plan.transform_up(|node| {
                if has_calls(&node)? { map_expressions(node, apart::rejoin) } else { Ok(Transformed::no(node)) }
            })
        })
    }
}

/// Whether the node's own expressions have tests to keep apart.
fn has_separable_tests(plan: &LogicalPlan) -> Result<bool> {
    any_expression(plan, |expr| Ok(!units::separable(expr)?.is_empty()))
}

/// What the node's own expressions are about, if they have casts to hide.
fn schema_of_casts(plan: &LogicalPlan) -> Result<Option<DFSchema>> {
    let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(_) | Expr::TryCast(_));
    if !any_expression(plan, |expr| expr.exists(|nested| Ok(is_cast(nested))))? {
        return Ok(None);
    }
    let schema = input_schema(plan)?;
    let has_concerned = any_expression(plan, |expr| expr.exists(|nested| Ok(casts::is_concerned(nested, &schema))))?;
    Ok(has_concerned.then_some(schema))
}

/// Whether the node's own expressions have calls of [`apart`].
fn has_calls(plan: &LogicalPlan) -> Result<bool> {
    any_expression(plan, |expr| expr.exists(|nested| Ok(apart::is_call(nested))))
}

/// Whether the node `expr` itself may have another value each time that it is evaluated. What subqueries are made of is
/// not looked at.
fn is_evaluated_anew(expr: &Expr) -> bool {
    expr.is_volatile_node()
        || matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
}

#[cfg(test)]
mod tests;
