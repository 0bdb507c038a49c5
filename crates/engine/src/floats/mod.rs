//! Has DataFusion's operators compare floats as SQL does, and as the rest of this engine does.
//!
//! Of two operations the stock operators take other values to be equal, or to come first:
//!
//! - `CASE x WHEN 0.0 …` compares by bits and tells `0.0` from `-0.0`, which `=` holds to be equal ([`zeros`]; lists do so
//!   too, which [`simplification`](crate::simplification) sees to);
//! - `min` and `max` of groups begin at the largest and least *finite* number and keep no NaN, which in the order of
//!   all values, and in `min` and `max` without groups, is the largest of all ([`extremes`]).
//!
//! This is done to the plan that goes to the physical planner, behind all rules of the optimizer: these make lists and
//! calls of their own, and the fusion of pipelines knows the stock functions.
//!
//! Invariants: names, types and nullability of a plan's columns stay. Stateless, shared freely.

mod extremes;
mod zeros;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

/// The plan whose operators compare floats as they should; `None` if they do as it is.
pub(crate) fn compared_as_sql_does(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !has_concerned(plan)? {
        return Ok(None);
    }
    let rewritten = plan.clone().transform_up_with_subqueries(|node| {
        let schema = schema_below(&node)?;
        let names = NamePreserver::new(&node);
        let renamed = |expr: Expr| {
            let name = names.save(&expr);
            Ok(compared(expr, &schema)?.update_data(|expr| name.restore(expr)))
        };
        // Grouping sets have no name, their members do.
        node.map_expressions(|expr| match expr {
            Expr::GroupingSet(_) => expr.map_children(renamed),
            _ => renamed(expr),
        })
    })?;
    Ok(rewritten.transformed.then_some(rewritten.data))
}

/// Whether there is anything that might have to be rewritten: most plans are not copied.
fn has_concerned(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let stop_if = |found: bool| if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue };
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = found || expr.exists(|nested| Ok(zeros::is_concerned(nested) || extremes::is_concerned(nested)))?;
            Ok(stop_if(found))
        })?;
        Ok(stop_if(found))
    })?;
    Ok(found)
}

/// What the node's expressions are about: the columns of its inputs, or of a scan's table.
fn schema_below(node: &LogicalPlan) -> Result<DFSchema> {
    match node {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        _ => Ok(merge_schema(&node.inputs())),
    }
}

fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|nested| match nested {
        Expr::Case(case) if case.expr.as_ref().is_some_and(|operand| is_float(operand, schema)) => {
            zeros::case(case, schema)
        }
        Expr::AggregateFunction(call) if call.params.args.iter().all(|argument| is_float(argument, schema)) => {
            Ok(extremes::call(call))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// A type that cannot be told is none: then the expression stays as it is.
fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating())
}

#[cfg(test)]
mod tests;
