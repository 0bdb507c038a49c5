//! The expressions of a node of a logical plan.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether one of the node's own expressions is such.
pub(crate) fn any_expression(plan: &LogicalPlan, matches: impl Fn(&Expr) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = matches(expr)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Rewrites the node's own expressions under the names they have. Grouping sets have none, their members do.
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let renamed = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    plan.map_expressions(|expr| match expr {
        Expr::GroupingSet(_) => expr.map_children(renamed),
        _ => renamed(expr),
    })
}

/// The columns that the node's own expressions are about. Those of a scan's filters need not be in its output.
pub(crate) fn input_schema(plan: &LogicalPlan) -> Result<DFSchema> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        plan => Ok(merge_schema(&plan.inputs())),
    }
}
