//! What stands in for operations of DataFusion's that answer otherwise than the rest of this engine, or that take memory
//! which nobody counts.
//!
//! - `CASE x WHEN 0.0 …`, `nullif(x, 0.0)`, `count(DISTINCT x)` and `OVER (PARTITION BY x ORDER BY y)` compare floats by
//!   bits and tell `0.0` from `-0.0`, which `=` holds to be equal ([`zeros`]; lists do so too, which
//!   [`logical_rules`](crate::logical_rules) see to);
//! - what is computed of floats gives NaNs of either sign, which are two values to them, the least and the largest of
//!   all ([`nans`]);
//! - `ORDER BY x, y` puts a `-0.0` of `x` before each `0.0`, whatever their `y` are, in aggregates too;
//! - `min` and `max` of groups begin at the largest and least *finite* number and keep no NaN, which in the order of
//!   all values, and in `min` and `max` without groups, is the largest of all ([`extremes`]);
//! - `count(DISTINCT x)` of groups has a table a group for all but integers, of some ten kilobytes for texts, which is
//!   counted after a batch has brought thousands of groups ([`distinct`]);
//! - filters over casts fail, where many values become one and DataFusion guesses how many rows pass ([`casts`]).
//!
//! This is done to the plan that goes to the physical planner, behind all rules of the optimizer: these make lists and
//! calls of their own, and the fusion of pipelines knows the stock functions. What it has DataFusion evaluate of texts
//! is replaced when it is planned.
//!
//! Invariants: names, types and nullability of a plan's columns stay. Stateless, shared freely.

mod aggregate;
mod casts;
mod distinct;
mod distinct_groups;
mod extremes;
mod nans;
mod zeros;

use std::cell::OnceCell;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Sort};

use crate::plan_expressions::{any_expression, input_schema, map_expressions};

/// The plan in which other operations stand in for stock ones; `None` if it has none of those.
pub(crate) fn with_stand_ins(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !has_concerned(plan)? {
        return Ok(None);
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|node| {
        let schema = input_schema(&node)?;
        let is_filter = matches!(node, LogicalPlan::Filter(_));
        let replaced = map_expressions(node, |expr| {
            let replaced = replaced(expr, &schema)?;
            if is_filter { replaced.transform_data(|expr| casts::without_guess(expr, &schema)) } else { Ok(replaced) }
        })?;
        replaced.transform_data(|node| match node {
            LogicalPlan::Sort(sort) => sorted(sort, &schema),
            other => Ok(Transformed::no(other)),
        })
    })?;
    Ok(rewritten.transformed.then_some(rewritten.data))
}

/// Whether there is anything that might have to be rewritten: most plans are not copied.
fn has_concerned(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let is_filter = matches!(node, LogicalPlan::Filter(_));
        let schema = OnceCell::new();
        let is_concerned = |nested: &Expr| {
            is_concerned(nested)
                || (is_filter && casts::is_concerned(nested))
                || (nans::computes(nested)
                    && schema
                        .get_or_init(|| input_schema(node))
                        .as_ref()
                        .is_ok_and(|schema| nans::makes(nested, schema)))
        };
        found = matches!(node, LogicalPlan::Sort(sort) if sort.expr.len() > 1)
            || any_expression(node, |expr| expr.exists(|nested| Ok(is_concerned(nested))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether something else stands for `expr`, if it is of the types for which it does.
fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::Case(case) => case.expr.is_some(),
        Expr::AggregateFunction(call) => {
            extremes::ordered(call).is_some()
                || distinct::in_one_table(call).is_some()
                || call.params.order_by.len() > 1
        }
        Expr::WindowFunction(window) => !(window.params.partition_by.is_empty() && window.params.order_by.is_empty()),
        Expr::ScalarFunction(call) => zeros::is_concerned(call),
        _ => false,
    }
}

/// The expression, over columns of `schema`, in which others stand in for stock operations.
pub(crate) fn replaced(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    // First, as zero added to a column makes no NaN.
    nans::made_one(expr, schema)?.transform_data(|expr| {
        expr.transform_up(|nested| match nested {
            Expr::Case(case) if case.expr.as_ref().is_some_and(|operand| is_float(operand, schema)) => {
                zeros::case(case, schema)
            }
            Expr::ScalarFunction(call) if zeros::is_concerned(&call) => zeros::function(call, schema),
            Expr::AggregateFunction(call) => aggregate_call(call, schema),
            Expr::WindowFunction(window) => windowed(window, schema),
            other => Ok(Transformed::no(other)),
        })
    })
}

/// Where both zeros are peers, what comes after them in the order tells them apart. Behind the last key nothing does.
fn sorted(mut sort: Sort, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let has_floats = with_peers(&mut sort.expr, schema)?;
    let sort = LogicalPlan::Sort(sort);
    Ok(if has_floats { Transformed::yes(sort) } else { Transformed::no(sort) })
}

/// Whether floats are among the keys that others come after: they have one zero then.
fn with_peers(keys: &mut [SortExpr], schema: &DFSchema) -> Result<bool> {
    let mut has_floats = false;
    let Some((_, deciding)) = keys.split_last_mut() else { return Ok(false) };
    for key in deciding {
        if is_float(&key.expr, schema) {
            has_floats = true;
            key.expr = zeros::with_one_zero_if_float(std::mem::take(&mut key.expr), schema)?;
        }
    }
    Ok(has_floats)
}

fn aggregate_call(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_of_floats = call.params.args.iter().all(|argument| is_float(argument, schema));
    let has_peers = with_peers(&mut call.params.order_by, schema)?;
    let stand_in = match distinct::in_one_table(&call) {
        Some(stand_in) => {
            if is_of_floats {
                call.params.args = zeros::all_with_one_zero(call.params.args, schema)?;
            }
            Some(stand_in)
        }
        None if is_of_floats => extremes::ordered(&call),
        None => None,
    };
    Ok(match stand_in {
        Some(func) => Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call })),
        None if has_peers => Transformed::yes(Expr::AggregateFunction(call)),
        None => Transformed::no(Expr::AggregateFunction(call)),
    })
}

/// Rows whose keys are equal are in one partition, and peers of each other.
fn windowed(mut window: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (keys, order) = (&mut window.params.partition_by, &mut window.params.order_by);
    if !keys.iter().chain(order.iter().map(|sort| &sort.expr)).any(|key| is_float(key, schema)) {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    }
    *keys = zeros::all_with_one_zero(std::mem::take(keys), schema)?;
    for sort in order {
        sort.expr = zeros::with_one_zero_if_float(std::mem::take(&mut sort.expr), schema)?;
    }
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}

/// A type that cannot be told is none: then the expression stays as it is.
fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

#[cfg(test)]
mod tests;
