//! Aggregates over the matches of an outer join: rows are looked up in groups, each of which is all the matches of a key.
//!
//! ```text
//! Aggregate: groupBy=[c.k], aggr=[count(o.x), count(*)]
//!   Left Join: c.k = o.k
//!     ─▶
//! g: Aggregate: groupBy=[o.k], aggr=[count(o.x) AS x, count(*) AS n]
//!
//! Aggregate: groupBy=[c.k], aggr=[sum(CASE WHEN g.x IS NULL THEN 0 ELSE g.x END), sum(CASE WHEN g.n IS NULL THEN 1 ELSE g.n END)]
//!   Left Join: c.k = g.k
//! ```
//!
//! **Invariants**: whatever the rows are grouped by, and however often a key comes on the outer side: each of its rows
//! has all matches of its key. Aggregates take columns of the matches alone, which are NULL where there are none; an
//! expression of them need not be.
//!
//! After *Eager Aggregation and Lazy Aggregation* (Yan and Larson, VLDB 1995), of which this is the eager count and
//! group-by; deviations: always, since pipelines do not multiply rows by large tables, and for outer joins.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Aggregate, Case, Expr, ExprSchemable, Join, LogicalPlan, lit};

use super::Refusal;
use super::calls::{Call, Function};
use crate::lineage::over_columns;

/// The aggregate over groups of the matches; `None` if it is not over matches, or takes other things of them.
pub(super) fn grouped(aggregate: &Aggregate) -> Result<Option<Aggregate>, Refusal> {
    let Some((join, exprs)) = over_join(aggregate)? else { return Ok(None) };
    let is_plain = join.filter.is_none() && join.null_equality == NullEquality::NullEqualsNothing;
    let (outer, inner) = match join.join_type {
        JoinType::Left if is_plain && !join.on.is_empty() => (&join.left, &join.right),
        JoinType::Right if is_plain && !join.on.is_empty() => (&join.right, &join.left),
        _ => return Ok(None),
    };
    if matches!(inner.as_ref(), LogicalPlan::Aggregate(_)) {
        return Ok(None);
    }
    let (groups, calls) = exprs.split_at(aggregate.group_expr.len());
    let is_of_outer = |expr: &Expr| expr.column_refs().iter().all(|column| outer.schema().has_column(column));
    if calls.is_empty() || !groups.iter().all(is_of_outer) {
        return Ok(None);
    }
    let schema = &join.schema;
    let as_it_is = |expr: &Expr| Ok(expr.clone());
    let mut functions = Vec::with_capacity(calls.len());
    for expr in calls {
        let Ok(call) = Call::of(expr, schema, &as_it_is) else { return Ok(None) };
        let is_of_inner = match &call.argument {
            None => true,
            Some(Expr::Column(column)) => inner.schema().has_column(column) && !outer.schema().has_column(column),
            Some(_) => false,
        };
        // Of floats the sum depends on the order.
        let is_exact = !expr.get_type(schema)?.is_floating() || call.function != Function::Sum;
        if !is_of_inner || !is_exact {
            return Ok(None);
        }
        functions.push((call.function, call.argument.is_none()));
    }
    // Of no rows the count is 0 and the sum NULL, where there is a group all the same.
    let may_be_of_none = groups.is_empty() || groups.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
    if may_be_of_none && functions.iter().any(|(function, _)| *function == Function::Count) {
        return Ok(None);
    }
    let is_left = Arc::ptr_eq(outer, &join.left);
    let keys = join.on.iter().map(|(left, right)| if is_left { right } else { left }).cloned().collect();
    let matches = Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(inner), keys, calls.to_vec())?));
    let column = |number: usize| Expr::Column(Column::from(matches.schema().qualified_field(number)));
    let on = join.on.iter().enumerate().map(|(number, (left, right))| match is_left {
        true => (left.clone(), column(number)),
        false => (column(number), right.clone()),
    });
    let on: Vec<(Expr, Expr)> = on.collect();
    let added_up = functions.iter().zip(on.len()..).map(|((function, counts_rows), number)| {
        let value = column(number);
        match function {
            // A row without matches is a row.
            Function::Count => Some(sum(or_else(value, if *counts_rows { 1 } else { 0 }))),
            Function::Sum => Some(sum(value)),
            Function::Minimum => Some(min(value)),
            Function::Maximum => Some(max(value)),
            Function::Average | Function::AverageOfFloats => None,
        }
    });
    let Some(added_up) = added_up.collect::<Option<Vec<Expr>>>() else { return Ok(None) };
    let (left, right) = if is_left { (Arc::clone(outer), matches) } else { (matches, Arc::clone(outer)) };
    let join = Join::try_new(
        left,
        right,
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let join = Arc::new(LogicalPlan::Join(join));
    for (made, asked) in added_up.iter().zip(calls) {
        // Sums of decimals become longer each time.
        if made.get_type(join.schema())? != asked.get_type(schema)? {
            return Ok(None);
        }
    }
    Ok(Some(Aggregate::try_new(join, groups.to_vec(), added_up)?))
}

/// The join that an aggregate is over, but for projections, and the aggregate's expressions over its columns.
fn over_join(aggregate: &Aggregate) -> Result<Option<(&Join, Vec<Expr>)>, Refusal> {
    let mut exprs: Vec<Expr> = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).cloned().collect();
    let mut plan = aggregate.input.as_ref();
    loop {
        match plan {
            LogicalPlan::Join(join) => return Ok(Some((join, exprs))),
            LogicalPlan::Projection(projection) => {
                for expr in &mut exprs {
                    let Some(over) = over_columns(expr, &projection.schema, &projection.expr)? else {
                        return Ok(None);
                    };
                    *expr = over;
                }
                plan = &projection.input;
            }
            _ => return Ok(None),
        }
    }
}

fn or_else(value: Expr, number: i64) -> Expr {
    let (is_missing, number) = (Box::new(value.clone().is_null()), Box::new(lit(number)));
    Expr::Case(Case::new(None, vec![(is_missing, number)], Some(Box::new(value))))
}
