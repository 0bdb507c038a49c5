//! `x IN (SELECT …)` and `EXISTS (SELECT …)` where they are no conditions, as among what is selected.
//!
//! DataFusion joins these two for conditions alone, and scalar subqueries wherever there are rows. So it is counted
//! whether there are any:
//!
//! ```text
//! EXISTS (…)             ─▶  (SELECT count(1) > 0 FROM …)
//! x IN (SELECT c …)      ─▶  CASE WHEN (SELECT count(1) > 0 FROM … c = x) THEN true … END, as a condition has it
//! ```
//!
//! Deviations: a value that asks a subquery itself is refused, unless that is a scalar one that knows no outer row.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    Distinct, Expr, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SubqueryAlias, Window, lit, not,
    scalar_subquery,
};

use super::single_rows::{self, keeps_one};
use super::{Asked, MOST_SELECTED, asks_subquery, is_one_of};
use crate::plan_expressions::{input_schema, map_expressions};

/// The node, with what it asks of subqueries' rows asked of their counts. An aggregate or window has it from a projection
/// below: DataFusion joins no scalar subqueries for these.
///
/// # Errors
/// When a value cannot be asked for.
pub(super) fn as_counts(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Projection(_) => counted(node),
        other => with_asked_below(other, |expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_))), counted),
    }
}

/// The node over a projection of those of its subqueries that `is_asked` is true of, as `answered` has it.
pub(in super::super) fn with_asked_below(
    node: LogicalPlan,
    is_asked: impl Fn(&Expr) -> Result<bool>,
    answered: impl FnOnce(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let [input] = node.inputs()[..] else { return plan_err!("a subquery is asked where it cannot be joined") };
    let mut below: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let column_count = below.len();
    let input = Arc::new(input.clone());
    let mut asking = |expr: Expr| {
        expr.transform_down(|nested| {
            if !is_asked(&nested)? {
                return Ok(Transformed::no(nested));
            }
            let name = format!("__asked_{}", below.len() - column_count + 1);
            below.push(nested.alias(name.as_str()));
            let column = Expr::Column(Column::new_unqualified(name));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })
    };
    let schema = Arc::clone(node.schema());
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        exprs.push(asking(expr)?.data);
    }
    let asked = answered(LogicalPlan::Projection(Projection::try_new(below, input)?))?;
    let node = node.with_new_exprs(exprs, vec![asked])?.recompute_schema()?;
    let mut made = node.schema().columns();
    if matches!(node, LogicalPlan::Window(_)) {
        // It has its input's columns too, those that were asked for among them.
        made.drain(column_count..made.len() - (schema.fields().len() - column_count));
    }
    let named = made.into_iter().zip(schema.iter()).map(|(column, (qualifier, field))| {
        let is_same = column.name == *field.name() && column.relation.as_ref() == qualifier;
        let column = Expr::Column(column);
        if is_same { column } else { column.alias_qualified(qualifier.cloned(), field.name()) }
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(node))?))
}

fn counted(node: LogicalPlan) -> Result<LogicalPlan> {
    let schema = input_schema(&node)?;
    let counted = map_expressions(node, |expr| {
        if !asks_subquery(&expr)? {
            return Ok(Transformed::no(expr));
        }
        check_values(&expr)?;
        single_rows::as_values(expr)?.data.transform_up(|nested| match nested {
            Expr::Exists(Exists { subquery, negated }) => {
                let has_row = has_row(&subquery.subquery)?;
                Ok(Transformed::yes(if negated { not(has_row) } else { has_row }))
            }
            Expr::InSubquery(asked) => {
                let is_one_of = is_one_of(Asked::of(&asked, &schema, MOST_SELECTED)?, |rows| has_row(&rows))?;
                Ok(Transformed::yes(if asked.negated { not(is_one_of) } else { is_one_of }))
            }
            other => Ok(Transformed::no(other)),
        })
    });
    // What could not be NULL by its columns can be now.
    counted?.data.recompute_schema()
}

/// Refuses values that would be subqueries within subqueries, which see no further than one query out.
fn check_values(expr: &Expr) -> Result<()> {
    let asks_itself = expr.exists(|nested| match nested {
        Expr::InSubquery(InSubquery { expr: value, .. }) => value.exists(|part| {
            Ok(match part {
                Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_) => true,
                Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                _ => false,
            })
        }),
        _ => Ok(false),
    })?;
    if asks_itself {
        return plan_err!(
            "IN (SELECT …) is not supported among what is selected of a value that asks a subquery: name the value first, as \
             in SELECT v IN (SELECT …) FROM (SELECT … AS v FROM t)"
        );
    }
    Ok(())
}

fn has_row(rows: &Arc<LogicalPlan>) -> Result<Expr> {
    let rows = Arc::clone(told_by(rows)?);
    let counted = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), [count(lit(1_i64))])?.build()?;
    let row_count = Expr::Column(Column::from(counted.schema().qualified_field(0)));
    let has_row = LogicalPlanBuilder::from(counted).project([row_count.gt(lit(0_i64))])?.build()?;
    Ok(scalar_subquery(Arc::new(has_row)))
}

/// What tells whether there is a row. The rest only says what is in it, and in whose names outer columns are in the way.
fn told_by(rows: &Arc<LogicalPlan>) -> Result<&Arc<LogicalPlan>> {
    match rows.as_ref() {
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Sort(Sort { input, fetch: None, .. })
        | LogicalPlan::Distinct(Distinct::All(input))
        | LogicalPlan::Window(Window { input, .. }) => told_by(input),
        LogicalPlan::Limit(limit @ Limit { input, .. }) if keeps_one(limit)? => told_by(input),
        _ => Ok(rows),
    }
}
