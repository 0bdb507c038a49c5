//! What `UNNEST(..)` in FROM is called, and which fields its argument may name.
//!
//! DataFusion resolves the table factor, but names its column after the expression (`UNNEST(outer_ref(t.items))`) and
//! cannot follow a field of an outer column (`UNNEST(x.b)` where `x` is an earlier unnested struct). Both are repaired
//! on the syntax tree, one table factor at a time, before DataFusion plans it:
//!
//! - `UNNEST(list) AS i` becomes `UNNEST(list) AS i(i)`, so that `i`, `i.field` and `i['field']` all resolve; without
//!   an alias both names are `unnest`. An alias with a column list, or over several arguments or a struct, stays as
//!   written.
//! - `a.b.c` inside the argument is tried as a column first, then as fields of the longest prefix that is a column.
//! - `LATERAL UNNEST(..)` means `UNNEST(..)`.
//!
//! Derived tables, views and common table expressions are planned by DataFusion, and then lose the keys that are none, such
//! as those that an UNNEST inside has repeated ([`wrong_keys`](crate::logical_rules::wrong_keys)), before the query around
//! them goes by these.
//!
//! **Concurrency**: a statement is planned by one thread without a pause, which is what the note of a relation that is
//! handed on relies on.

use std::cell::RefCell;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr as SqlExpr, FunctionArg, FunctionArgExpr, Ident, TableAlias, TableAliasColumnDef, TableFactor,
    Value, visit_expressions_mut,
};
use std::ops::ControlFlow;

use crate::logical_rules::wrong_keys::without_wrong_keys;

thread_local! {
    /// The relation that is planned by all planners, this one among them, which is to leave it to those behind it.
    static HANDED_ON: RefCell<Option<TableFactor>> = const { RefCell::new(None) };
}

/// Prepares `UNNEST` table factors for DataFusion's own planner. Register it in the session's list of relation
/// planners.
#[derive(Debug, Default)]
pub(crate) struct UnnestRelationPlanner;

impl RelationPlanner for UnnestRelationPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if HANDED_ON.with_borrow_mut(|handed_on| handed_on.take_if(|other| *other == relation)).is_some() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let mut relation = without_lateral(relation);
        if let TableFactor::UNNEST { alias, array_exprs, .. } = &mut relation {
            for expr in array_exprs.iter_mut() {
                let _: ControlFlow<()> = visit_expressions_mut(expr, |nested| {
                    resolve_fields(nested, context);
                    ControlFlow::Continue(())
                });
            }
            if let [list] = array_exprs.as_slice()
                && alias.as_ref().is_none_or(|alias| alias.columns.is_empty())
                && !is_struct(list, context)
            {
                let name = alias.as_ref().map_or_else(|| Ident::new("unnest"), |alias| alias.name.clone());
                let column = TableAliasColumnDef { name: name.clone(), data_type: None };
                match alias {
                    Some(alias) => alias.columns = vec![column],
                    None => *alias = Some(TableAlias { explicit: true, name, columns: vec![column], at: None }),
                }
            }
        }
        if !matches!(relation, TableFactor::Table { .. } | TableFactor::Derived { .. }) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let mut plan = handed_on(relation, context)?;
        if !plan.schema().functional_dependencies().is_empty() {
            plan = without_wrong_keys(plan)?.data;
        }
        // It has its alias already.
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// The relation as it is planned without this planner.
fn handed_on(relation: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    // Another planner before this one may plan relations of its own in between.
    let outer = HANDED_ON.replace(Some(relation.clone()));
    let planned = context.plan(relation);
    HANDED_ON.set(outer);
    planned
}

/// `LATERAL UNNEST(..)`, which is parsed as a call of an unknown table function, as the table factor `UNNEST(..)`.
fn without_lateral(relation: TableFactor) -> TableFactor {
    let TableFactor::Function { lateral, name, args, with_ordinality, alias } = relation else {
        return relation;
    };
    let is_unnest = matches!(name.0.as_slice(), [part]
        if part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case("unnest")));
    let array_exprs: Option<Vec<SqlExpr>> = args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect();
    match array_exprs {
        Some(array_exprs) if is_unnest => {
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_offset_alias: None, with_ordinality }
        }
        _ => TableFactor::Function { lateral, name, args, with_ordinality, alias },
    }
}

/// Turns `a.b.c` into a field access on the longest prefix that names a column, unless the whole already does.
fn resolve_fields(expr: &mut SqlExpr, context: &mut dyn RelationPlannerContext) {
    let SqlExpr::CompoundIdentifier(idents) = &*expr else {
        return;
    };
    let idents = idents.clone();
    if planned(expr.clone(), context).is_some() {
        return;
    }
    for column_len in (1..idents.len()).rev() {
        let access_chain = idents[column_len..]
            .iter()
            .map(|ident| {
                let field = context.normalize_ident(ident.clone());
                AccessExpr::Dot(SqlExpr::value(Value::SingleQuotedString(field)))
            })
            .collect();
        let root = match &idents[..column_len] {
            [column] => SqlExpr::Identifier(column.clone()),
            column => SqlExpr::CompoundIdentifier(column.to_vec()),
        };
        let candidate = SqlExpr::CompoundFieldAccess { root: Box::new(root), access_chain };
        if planned(candidate.clone(), context).is_some() {
            *expr = candidate;
            return;
        }
    }
}

/// The expression with its type, if it resolves in the scopes around the table factor, the only ones it can see.
fn planned(expr: SqlExpr, context: &mut dyn RelationPlannerContext) -> Option<(Expr, DataType)> {
    let schema = DFSchema::empty();
    let expr = context.sql_to_expr(expr, &schema).ok()?;
    let data_type = expr.get_type(&schema).ok()?;
    Some((expr, data_type))
}

/// Whether the argument is a struct, which UNNEST turns into one column per field: these keep the fields' names.
fn is_struct(expr: &SqlExpr, context: &mut dyn RelationPlannerContext) -> bool {
    matches!(planned(expr.clone(), context), Some((_, DataType::Struct(_))))
}
