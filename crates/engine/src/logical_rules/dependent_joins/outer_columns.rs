//! The columns of outer queries that a plan names, its subqueries included.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::lateral;
use crate::plan_expressions::{input_schema, map_expressions};

/// Those that the schema has, each once.
pub(super) fn of(plan: &LogicalPlan, schema: &DFSchema) -> Result<Vec<(Column, FieldRef)>> {
    let mut columns: Vec<(Column, FieldRef)> = Vec::new();
    visit(plan, &[], &mut |field, column, _| {
        if schema.has_column(column) && !columns.iter().any(|(known, _)| known == column) {
            columns.push((column.clone(), Arc::clone(field)));
        }
    })?;
    Ok(columns)
}

/// The same of an expression's subqueries.
pub(super) fn of_subqueries(expr: &Expr, schema: &DFSchema) -> Result<Vec<(Column, FieldRef)>> {
    let mut columns: Vec<(Column, FieldRef)> = Vec::new();
    expr.apply(|nested| {
        if let Some(subquery) = subquery(nested) {
            for named in of(&subquery.subquery, schema)? {
                if !columns.contains(&named) {
                    columns.push(named);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// Whether the plan names one of them.
pub(super) fn names_any(plan: &LogicalPlan, columns: &[(Column, FieldRef)]) -> Result<bool> {
    let mut found = false;
    visit(plan, &[], &mut |_, column, _| found |= columns.iter().any(|(known, _)| known == column))?;
    Ok(found)
}

/// Whether the plan names any column that is not its own.
pub(in super::super) fn is_any_named(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    visit(plan, &[], &mut |_, _, _| found = true)?;
    Ok(found)
}

/// Whether a subquery of the plan, or a side of a join that is asked of each row of the other, names any.
pub(super) fn are_in_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    visit(plan, &[], &mut |_, _, depth| found |= depth > 0)?;
    Ok(found)
}

/// Calls `found` with each column that is not one of the queries in between, and how many of these there are.
fn visit(
    plan: &LogicalPlan,
    between: &[Arc<DFSchema>],
    found: &mut dyn FnMut(&FieldRef, &Column, usize),
) -> Result<()> {
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|nested| {
                match nested {
                    Expr::OuterReferenceColumn(field, column)
                        if !between.iter().any(|schema| schema.has_column(column)) =>
                    {
                        found(field, column, between.len());
                    }
                    other => {
                        if let Some(subquery) = subquery(other) {
                            let within = with_schema(between, input_schema(node)?);
                            visit(&subquery.subquery, &within, found)?;
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if let LogicalPlan::Join(join) = node
            && lateral(&join.right).is_some()
        {
            visit(&join.left, between, found)?;
            visit(&join.right, &with_schema(between, join.left.schema().as_ref().clone()), found)?;
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

fn with_schema(between: &[Arc<DFSchema>], schema: DFSchema) -> Vec<Arc<DFSchema>> {
    between.iter().cloned().chain([Arc::new(schema)]).collect()
}

/// Columns of an outer query, and those of a plan's own that have their values.
pub(super) struct Replaced<'a> {
    pub(super) outer: &'a [(Column, FieldRef)],
    pub(super) own: &'a [Column],
}

impl Replaced<'_> {
    fn own(&self, outer: &Column) -> Option<(&Column, &FieldRef)> {
        let place = self.outer.iter().position(|(column, _)| column == outer)?;
        Some((self.own.get(place)?, &self.outer.get(place)?.1))
    }

    /// An expression over rows with the columns, where there were those of `schema` alone.
    pub(super) fn in_expr(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        let replaced = expr.transform_up(|nested| match nested {
            Expr::OuterReferenceColumn(_, ref column) => Ok(match self.own(column) {
                Some((own, _)) => Transformed::yes(Expr::Column(own.clone())),
                None => Transformed::no(nested),
            }),
            other => self.in_subquery(other, &with_schema(&[], schema.clone())),
        });
        replaced.data()
    }

    /// A plan that is asked of each row with the columns, where there were those of `schema` alone.
    pub(super) fn in_lateral(&self, plan: &LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
        self.in_plan(plan.clone(), &with_schema(&[], schema.clone()))
    }

    fn in_subquery(&self, expr: Expr, between: &[Arc<DFSchema>]) -> Result<Transformed<Expr>> {
        let of = |subquery: Subquery| -> Result<Subquery> {
            let plan = self.in_plan(Arc::unwrap_or_clone(subquery.subquery), between)?;
            let outer_ref_columns = plan.all_out_ref_exprs();
            Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans })
        };
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(of(subquery)?)),
            Expr::Exists(asked) => {
                Transformed::yes(Expr::Exists(Exists { subquery: of(asked.subquery)?, negated: asked.negated }))
            }
            Expr::InSubquery(asked) => {
                Transformed::yes(Expr::InSubquery(InSubquery { subquery: of(asked.subquery)?, ..asked }))
            }
            Expr::SetComparison(asked) => {
                Transformed::yes(Expr::SetComparison(SetComparison { subquery: of(asked.subquery)?, ..asked }))
            }
            other => Transformed::no(other),
        })
    }

    /// The plan of a query within others, which see the columns from outside too.
    fn in_plan(&self, plan: LogicalPlan, between: &[Arc<DFSchema>]) -> Result<LogicalPlan> {
        let schema = input_schema(&plan)?;
        let asked_of = match &plan {
            LogicalPlan::Join(join) if lateral(&join.right).is_some() => {
                Some(with_schema(between, join.left.schema().as_ref().clone()))
            }
            _ => None,
        };
        let mut is_first = true;
        let plan = plan.map_children(|child| {
            let between = if is_first { between } else { asked_of.as_deref().unwrap_or(between) };
            is_first = false;
            self.in_plan(child, between).map(Transformed::yes)
        })?;
        let plan = map_expressions(plan.data, |expr| {
            expr.transform_up(|nested| match nested {
                Expr::OuterReferenceColumn(_, ref column) => Ok(match self.own(column) {
                    Some((own, field)) if !between.iter().any(|schema| schema.has_column(column)) => {
                        Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), own.clone()))
                    }
                    _ => Transformed::no(nested),
                }),
                other => self.in_subquery(other, &with_schema(between, schema.clone())),
            })
        })?;
        Ok(match plan.data {
            LogicalPlan::Subquery(asked) => {
                let outer_ref_columns = asked.subquery.all_out_ref_exprs();
                LogicalPlan::Subquery(Subquery { outer_ref_columns, ..asked })
            }
            other => other,
        })
    }
}
