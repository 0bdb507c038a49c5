//! `IN` with a subquery is NULL where SQL says so.
//!
//! `x IN (SELECT c …)` is true if a `c` equals `x`, else NULL if there is a NULL among them, or `x` is NULL and there is any
//! row, else false. DataFusion knows this of `x NOT IN (…)` as a whole condition, uncorrelated and about a column. Elsewhere
//! it joins, and takes what has no match to be false: `g > 100 OR a NOT IN (SELECT b …)` let all rows through where a `b`
//! is NULL, and so did correlated subqueries, constants on the left, what is NULL of columns that are not (`nullif(a, 1)
//! NOT IN (…)`), and what is asked about the value (`(a IN (…)) IS NULL`). [`SpellOutMembership`] says it by `EXISTS`
//! there, which is never NULL:
//!
//! ```text
//! x NOT IN (SELECT c …)  as a condition   ─▶  NOT EXISTS (… c = x) AND NOT EXISTS (… c IS NULL) AND (x IS NOT NULL OR NOT EXISTS (…))
//! x IN (SELECT c …)      as a value       ─▶  CASE WHEN EXISTS (… c = x) THEN true WHEN EXISTS (… c IS NULL) THEN NULL
//!                                                  WHEN x IS NULL AND EXISTS (…) THEN NULL ELSE false END
//! ```
//!
//! What cannot be NULL is left out, and so are values that cannot be at all. Types have been made alike by then: of a
//! UNION's columns nobody knows them before. Of correlated subqueries of one row, where `EXISTS` is wrong too, it asks the
//! value ([`single_rows`]). What is selected it counts ([`selected`]).
//!
//! Deviations: subqueries in conditions of joins and in `ORDER BY` are left as they are.

mod selected;
mod single_rows;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, exists,
    lit, not, not_exists, when,
};
use datafusion::optimizer::AnalyzerRule;

pub(super) use self::selected::with_asked_below;
pub(super) use self::single_rows::keeps_one;
use super::dependent_joins::names_outer_rows;
use crate::plan_expressions::any_expression;

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct SpellOutMembership;

impl AnalyzerRule for SpellOutMembership {
    fn name(&self) -> &str {
        "spell_out_membership"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_counts = false;
        plan.transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::Filter(filter) if asks_subquery(&filter.predicate)? => filtered(filter)?,
                LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
                    if any_expression(&node, asks_subquery)? =>
                {
                    has_counts = true;
                    Transformed::yes(selected::as_counts(node)?)
                }
                other => Transformed::no(other),
            };
            // What the nodes above know of NULLs they know from this one.
            if has_counts { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
        })
        .data()
    }
}

fn asks_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|nested| Ok(matches!(nested, Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_))))
}

fn filtered(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Filter { predicate, input, .. } = filter;
    let schema = input.schema();
    let predicate = single_rows::as_values(predicate)?.data;
    let parts = split_conjunction(&predicate).into_iter().map(|part| match part {
        Expr::InSubquery(asked) if is_known(asked, schema)? => Ok(part.clone()),
        other => condition(other.clone(), schema),
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(parts).unwrap_or(predicate);
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
}

/// Whether DataFusion does right by it as a whole condition. That an expression can be NULL it tells by its columns alone.
fn is_known(asked: &InSubquery, schema: &DFSchema) -> Result<bool> {
    if !asked.negated {
        return Ok(true);
    }
    let columns = asked.expr.column_refs();
    if columns.is_empty() || names_outer_rows(&asked.subquery.subquery)? {
        return Ok(false);
    }
    let of_nullable = columns.into_iter().any(|column| schema.nullable(column).unwrap_or(true));
    Ok(of_nullable || !asked.expr.nullable(schema)?)
}

/// What is true where `expr` is; false or NULL elsewhere.
fn condition(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (condition(*left, schema)?, condition(*right, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }))
        }
        Expr::InSubquery(asked) if !asked.negated => joinable(asked),
        Expr::InSubquery(asked) => is_none_of(asked, schema),
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(asked) if !asked.negated => is_none_of(InSubquery { negated: true, ..asked }, schema),
            inner => Ok(not(value(inner, schema)?)),
        },
        other => value(other, schema),
    }
}

/// What is as `expr`, NULL included.
fn value(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let spelled_out = expr.transform_up(|nested| match nested {
        Expr::InSubquery(asked) => {
            let asks = Asked::of(&asked, schema, MOST_IN_CONDITIONS)?;
            if asks.has_null.is_none() && asks.is_null.is_none() {
                return Ok(Transformed::yes(joinable(asked)?));
            }
            let is_one_of = is_one_of(asks, |rows| Ok(exists(rows)))?;
            Ok(Transformed::yes(if asked.negated { not(is_one_of) } else { is_one_of }))
        }
        other => Ok(Transformed::no(other)),
    });
    spelled_out.data()
}

/// What is as `IN`, NULL included, where `has_row` tells whether there is a row.
fn is_one_of(asked: Asked, has_row: impl Fn(Arc<LogicalPlan>) -> Result<Expr>) -> Result<Expr> {
    let found = has_row(asked.has_equal)?;
    if asked.has_null.is_none() && asked.is_null.is_none() {
        return Ok(found);
    }
    let unknown = || lit(ScalarValue::Boolean(None));
    let mut is_one_of = when(found, lit(true));
    if let Some(has_null) = asked.has_null {
        is_one_of = is_one_of.when(has_row(has_null)?, unknown());
    }
    if let Some(is_null) = asked.is_null {
        is_one_of = is_one_of.when(is_null.and(has_row(asked.has_row)?), unknown());
    }
    is_one_of.otherwise(lit(false))
}

/// The same. Within another condition it becomes a join of its column and of those that make it up, and fails where one of
/// these has its name.
fn joinable(asked: InSubquery) -> Result<Expr> {
    let subquery = asked.subquery.with_plan(Arc::new(members(&asked.subquery.subquery)?));
    Ok(Expr::InSubquery(InSubquery { subquery, ..asked }))
}

/// What is true where it is true that `asked.expr` is none of the values.
fn is_none_of(asked: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let Asked { has_equal, has_null, has_row, is_null } = Asked::of(&asked, schema, MOST_IN_CONDITIONS)?;
    let mut is_none = not_exists(has_equal);
    if let Some(has_null) = has_null {
        is_none = is_none.and(not_exists(has_null));
    }
    if let Some(is_null) = is_null {
        is_none = is_none.and(not(is_null).or(not_exists(has_row)));
    }
    Ok(is_none)
}

/// What is to be known of an `IN`: whether there are rows of its subquery.
struct Asked {
    /// That equal the value.
    has_equal: Arc<LogicalPlan>,
    /// That are NULL, if any can be.
    has_null: Option<Arc<LogicalPlan>>,
    /// At all.
    has_row: Arc<LogicalPlan>,
    /// Whether the value is NULL, if it can be.
    is_null: Option<Expr>,
}

impl Asked {
    /// With so many subqueries in it at most.
    fn of(asked: &InSubquery, schema: &DFSchema, most: usize) -> Result<Self> {
        check_size(asked, most)?;
        let InSubquery { expr, subquery: Subquery { subquery, .. }, .. } = asked;
        let rows = members(subquery)?;
        let member = Expr::Column(Column::new_unqualified(MEMBER));
        let is_nullable = rows.schema().field(0).is_nullable();
        let rows_where = |condition: Expr| -> Result<Arc<LogicalPlan>> {
            Ok(Arc::new(LogicalPlanBuilder::from(rows.clone()).filter(condition)?.build()?))
        };
        Ok(Self {
            has_equal: rows_where(member.clone().eq(from_within(expr.as_ref().clone(), schema)?))?,
            has_null: is_nullable.then(|| rows_where(member.is_null())).transpose()?,
            has_row: Arc::clone(subquery),
            is_null: expr.nullable(schema)?.then(|| expr.as_ref().clone().is_null()),
        })
    }
}

/// The rows of a subquery that equal an expression of the outer row.
pub(super) fn has_member(subquery: &Arc<LogicalPlan>, expr: Expr, schema: &DFSchema) -> Result<LogicalPlan> {
    let member = Expr::Column(Column::new_unqualified(MEMBER));
    LogicalPlanBuilder::from(members(subquery)?).filter(member.eq(from_within(expr, schema)?))?.build()
}

/// Subqueries of what a condition asks three times, at most. `IN`s within each other are asked nine times, and so on: with
/// five of them it takes a quarter of a second to plan, and each more three times as long.
const MOST_IN_CONDITIONS: usize = 400;
/// The same of what is selected, of which DataFusion makes joins: four take a second, and each more seven times as long.
const MOST_SELECTED: usize = 40;

/// Refuses what would take for ever to plan.
fn check_size(asked: &InSubquery, most: usize) -> Result<()> {
    let mut count = 0;
    let mut count_within = |expr: &Expr| {
        expr.apply(|nested| {
            count += usize::from(matches!(
                nested,
                Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_) | Expr::ScalarSubquery(_)
            ));
            Ok(if count > most { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    };
    asked.subquery.subquery.apply_with_subqueries(|node| node.apply_expressions(&mut count_within))?;
    if count > most {
        return plan_err!(
            "IN (SELECT …) within each other, or of a query with many, would ask more than {most} subqueries: put what is \
             asked for into tables first"
        );
    }
    Ok(())
}

/// What the values of a subquery are called.
const MEMBER: &str = "__member";

/// The subquery's values under a name that nothing outside has, nor the subquery: what is pulled out of it goes by its
/// columns' names.
fn members(subquery: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    if let LogicalPlan::Projection(Projection { expr, input, .. }) = subquery.as_ref()
        && let [value] = expr.as_slice()
    {
        return LogicalPlanBuilder::from(Arc::clone(input)).project([value.clone().unalias().alias(MEMBER)])?.build();
    }
    let column = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    LogicalPlanBuilder::from(Arc::clone(subquery)).project([column.alias(MEMBER)])?.build()
}

/// An expression as a subquery sees it.
fn from_within(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|nested| match nested {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    outer.data()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// Tables `t` of `a` and `g`, and `u` of `b` and `h`, of which `a` and `b` may be NULL.
    fn session(t: &[(Option<i64>, i64)], u: &[(Option<i64>, i64)]) -> SessionContext {
        let state = SessionStateBuilder::new().with_default_features().build();
        let mut rules = state.analyzer().rules.clone();
        crate::logical_rules::install_analyzer(&mut rules);
        let state = SessionStateBuilder::new_from_existing(state).with_analyzer_rules(rules).build();
        let session = SessionContext::new_with_state(state);
        for (table, (value, key), rows) in [("t", ("a", "g"), t), ("u", ("b", "h"), u)] {
            let values = Arc::new(Int64Array::from_iter(rows.iter().map(|(value, _)| *value)));
            let keys = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, key)| *key)));
            let columns = [(value, values as _, true), (key, keys as _, false)];
            session.register_batch(table, RecordBatch::try_from_iter_with_nullable(columns).unwrap()).unwrap();
        }
        session
    }

    async fn keys(session: &SessionContext, condition: &str) -> Vec<i64> {
        let sql = format!("SELECT g FROM t WHERE {condition} ORDER BY g");
        let answer = session.sql(&sql).await.unwrap().collect().await;
        assert!(answer.is_ok(), "{sql}: {answer:?}");
        answer.unwrap().iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    /// As SQL defines it, over the values of `u` that `is_of` leaves.
    fn is_in(value: Option<i64>, members: &[Option<i64>]) -> Option<bool> {
        match value {
            Some(value) if members.contains(&Some(value)) => Some(true),
            _ if members.is_empty() => Some(false),
            Some(_) if !members.contains(&None) => Some(false),
            _ => None,
        }
    }

    #[tokio::test]
    async fn types_are_those_of_all_parts_of_a_union() {
        let session = session(&[(Some(1), 1), (Some(2), 2)], &[(Some(2), 1), (None, 2)]);
        for (half, cents) in
            [("0.5", "CAST(a AS DECIMAL(12, 4))"), ("CAST('0.5' AS DECIMAL(5, 2))", "CAST(a AS DECIMAL(10, 2))")]
        {
            let t = format!("(SELECT {cents} AS a, g FROM t UNION ALL SELECT a + {half}, g + 10 FROM t)");
            let u = "(SELECT CAST(b AS DECIMAL(10, 2)) FROM u)";
            for (condition, expected) in
                [(format!("a NOT IN {u} OR g = 1"), vec![1]), (format!("(a IN {u}) IS NULL"), vec![1, 11, 12])]
            {
                let sql = format!("SELECT g FROM {t} WHERE {condition} ORDER BY g");
                let answer = session.sql(&sql).await.unwrap().collect().await;
                let found = answer.map(|rows| {
                    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
                    rows.iter().flat_map(column).collect::<Vec<i64>>()
                });
                assert!(found.as_ref().is_ok_and(|found| *found == expected), "{sql}: {found:?}");
            }
        }
    }

    #[tokio::test]
    async fn membership_is_null_where_it_is_not_known() {
        let values = [None, Some(1), Some(2), Some(5)];
        let t: Vec<_> = values.into_iter().zip(1..).collect();
        for u in
            [vec![], vec![(None, 1)], vec![(Some(2), 1), (Some(9), 2)], vec![(Some(2), 1), (None, 2), (Some(1), 3)]]
        {
            let session = session(&t, &u);
            let all: Vec<Option<i64>> = u.iter().map(|(value, _)| *value).collect();
            let of_key = |key: i64| -> Vec<Option<i64>> {
                u.iter().filter(|(_, of)| *of == key).map(|(value, _)| *value).collect()
            };
            type Holds<'a> = Box<dyn Fn(Option<i64>, i64) -> Option<bool> + 'a>;
            let or = |left: Option<bool>, right: Option<bool>| match (left, right) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            let negated = |known: Option<bool>| known.map(|known| !known);
            let asked: Vec<(&str, Holds<'_>)> = vec![
                ("a IN (SELECT b FROM u)", Box::new(|a, _| is_in(a, &all))),
                ("a NOT IN (SELECT b FROM u)", Box::new(|a, _| negated(is_in(a, &all)))),
                ("NOT (a IN (SELECT b FROM u))", Box::new(|a, _| negated(is_in(a, &all)))),
                ("5 NOT IN (SELECT b FROM u)", Box::new(|_, _| negated(is_in(Some(5), &all)))),
                ("a NOT IN (SELECT b FROM u WHERE h = g)", Box::new(|a, g| negated(is_in(a, &of_key(g))))),
                ("a IN (SELECT b FROM u WHERE h = g)", Box::new(|a, g| is_in(a, &of_key(g)))),
                ("g = 4 OR a NOT IN (SELECT b FROM u)", Box::new(|a, g| or(Some(g == 4), negated(is_in(a, &all))))),
                ("g = 4 OR a IN (SELECT b FROM u)", Box::new(|a, g| or(Some(g == 4), is_in(a, &all)))),
                ("(a IN (SELECT b FROM u)) IS NULL", Box::new(|a, _| Some(is_in(a, &all).is_none()))),
                ("NOT (a IN (SELECT b FROM u) AND g < 3)", Box::new(|a, g| or(negated(is_in(a, &all)), Some(g >= 3)))),
                (
                    "CASE WHEN a NOT IN (SELECT b FROM u) THEN g > 2 ELSE g < 3 END",
                    Box::new(|a, g| Some(if is_in(a, &all) == Some(false) { g > 2 } else { g < 3 })),
                ),
                ("a NOT IN (SELECT a FROM t AS o WHERE a > 3)", Box::new(|a, _| negated(is_in(a, &[Some(5)])))),
                ("g > 1 OR a NOT IN (SELECT a FROM t)", Box::new(|_, g| Some(g > 1))),
            ];
            for (condition, holds) in asked {
                let expected: Vec<i64> =
                    t.iter().filter(|(a, g)| holds(*a, *g) == Some(true)).map(|(_, g)| *g).collect();
                assert_eq!(keys(&session, condition).await, expected, "{condition} where u is {u:?}");
            }
        }
    }
}
