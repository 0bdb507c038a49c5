//! An aggregate below which rows are told by an expression is grouped by that expression.
//!
//! DataFusion joins a correlated subquery that aggregates by groups of the columns that are compared with the outer ones.
//! Where a column is cast first it takes the column all the same (DataFusion 55.2, `can_pullup_over_aggregation`): of
//! `(SELECT count(*) … WHERE CAST(time AS DATE) = day)` there was a group for each `time`, and an outer row came once for
//! each of these. Where types differ such casts are there unasked: `'1'` and `'01'` are one number. [`GroupByKeys`] makes
//! columns of what is compared:
//!
//! ```text
//! Alias: s                                                   Projection: s.time, s.kind
//!   Filter: kind = 'a' AND CAST(time AS DATE) = outer(day) ─▶  Filter: s.__key_1 = outer(day)
//!     …                                                          Alias: s
//!                                                                  Projection: time, kind, CAST(time AS DATE) AS __key_1
//!                                                                    Filter: kind = 'a'
//!                                                                      …
//! ```
//!
//! Comparisons go up as far as there are projections, filters and names of tables: what pulls them out of the subquery
//! later makes no column known to the latter.
//!
//! Casts under which different values stay different are left: groups of the column are those of the cast. Other
//! expressions, which DataFusion would not take, become keys too.
//!
//! Deviations: a scalar subquery that says itself to be grouped by such an expression is refused.
//!
//! Invariants: the schema of every node that was there stays. Names of keys are one analysis' own.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Projection, SubqueryAlias,
};
use datafusion::optimizer::AnalyzerRule;

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct GroupByKeys;

impl AnalyzerRule for GroupByKeys {
    fn name(&self) -> &str {
        "group_by_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let keyed = plan.transform_down_with_subqueries(|node| match &node {
            LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
                names.grouped = group_expr.clone();
                node.map_children(|child| settled(child, &mut names))
            }
            LogicalPlan::Distinct(_) => {
                names.grouped.clear();
                node.map_children(|child| settled(child, &mut names))
            }
            _ => Ok(Transformed::no(node)),
        });
        keyed.data()
    }
}

/// What keys are called, and what the aggregate is grouped by anyway.
#[derive(Default)]
struct Names {
    key_count: usize,
    grouped: Vec<Expr>,
}

/// A key, and what it is compared with.
type Comparison = (Column, Expr);

/// The plan with the same columns, in which keys are compared. What pulls these comparisons further up knows columns that
/// are new of projections and filters alone.
fn settled(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let (keyed, comparisons) = lifted(plan, names)?;
    let compared = comparisons.into_iter().map(|(key, outer)| Expr::Column(key).eq(outer));
    let Some(mut compared) = conjunction(compared) else { return Ok(keyed) };
    let input = match keyed.data {
        // Of two filters on each other the columns of the lower one would be looked for in vain.
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            compared = predicate.and(compared);
            input
        }
        other => Arc::new(other),
    };
    let filtered = LogicalPlan::Filter(Filter::try_new(compared, input)?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(filtered))?)))
}

/// The plan with keys behind its columns, and what is to be compared with them above it.
fn lifted(plan: LogicalPlan, names: &mut Names) -> Result<(Transformed<LogicalPlan>, Vec<Comparison>)> {
    match plan {
        LogicalPlan::Filter(filter) => with_keys(filter, names),
        LogicalPlan::Projection(Projection { mut expr, input, schema, .. }) => {
            let (input, keys) = lifted(Arc::unwrap_or_clone(input), names)?;
            let is_new = input.transformed;
            let input = Arc::new(input.data);
            let projection = if keys.is_empty() {
                Projection::try_new_with_schema(expr, input, schema)?
            } else {
                expr.extend(keys.iter().map(|(key, _)| Expr::Column(key.clone())));
                Projection::try_new(expr, input)?
            };
            Ok((Transformed::new_transformed(LogicalPlan::Projection(projection), is_new), keys))
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let (input, keys) = lifted(Arc::unwrap_or_clone(input), names)?;
            let named = SubqueryAlias::try_new(Arc::new(input.data), alias.clone())?;
            let keys = keys.into_iter().map(|(key, outer)| (Column::new(Some(alias.clone()), key.name), outer));
            let named = LogicalPlan::SubqueryAlias(named);
            Ok((Transformed::new_transformed(named, input.transformed), keys.collect()))
        }
        // They have their own turn.
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => Ok((Transformed::no(plan), Vec::new())),
        other => Ok((other.map_children(|child| settled(child, names))?, Vec::new())),
    }
}

/// The filter without what it compares that is no column; that is behind the columns.
fn with_keys(filter: Filter, names: &mut Names) -> Result<(Transformed<LogicalPlan>, Vec<Comparison>)> {
    let (input, mut comparisons) = lifted(Arc::unwrap_or_clone(filter.input), names)?;
    let is_new = input.transformed;
    let input = Arc::new(input.data);
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let column_count = columns.len();
    let (mut own, mut correlated) = (Vec::new(), Vec::new());
    let parts = split_conjunction(&filter.predicate);
    let mut needs_keys = false;
    for (key, _) in parts.iter().filter_map(|part| compared_with_outer(part)) {
        needs_keys |= !is_grouped_alike(key, input.schema(), &names.grouped)?;
    }
    for part in parts {
        match compared_with_outer(part) {
            Some((key, outer)) if needs_keys => {
                names.key_count += 1;
                let name = format!("__key_{}", names.key_count);
                columns.push(key.clone().alias(name.as_str()));
                comparisons.push((Column::new_unqualified(name), outer.clone()));
            }
            _ if part.contains_outer() => correlated.push(part.clone()),
            _ => own.push(part.clone()),
        }
    }
    if columns.len() == column_count {
        let filter = LogicalPlan::Filter(Filter::try_new(filter.predicate, input)?);
        return Ok((Transformed::new_transformed(filter, is_new), comparisons));
    }
    // Expressions that fail of some rows are not asked of those that other conditions leave out.
    let input = match conjunction(own) {
        Some(own) => Arc::new(LogicalPlan::Filter(Filter::try_new(own, input)?)),
        None => input,
    };
    let keyed = LogicalPlan::Projection(Projection::try_new(columns, input)?);
    let keyed = match conjunction(correlated) {
        Some(correlated) => LogicalPlan::Filter(Filter::try_new(correlated, Arc::new(keyed))?),
        None => keyed,
    };
    Ok((Transformed::yes(keyed), comparisons))
}

/// What a condition compares of the subquery, and with what of the outer query.
pub(super) fn compared_with_outer(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let is_inner = |side: &Expr| side.any_column_refs() && !side.contains_outer() && !has_subquery(side);
    let is_outer = |side: &Expr| side.contains_outer() && !side.any_column_refs() && !has_subquery(side);
    let (left, right) = (left.as_ref(), right.as_ref());
    match (is_inner(left) && is_outer(right), is_inner(right) && is_outer(left)) {
        (true, _) => Some((left, right)),
        (_, true) => Some((right, left)),
        _ => None,
    }
}

pub(super) fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |nested: &Expr| {
        matches!(nested, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
    };
    let found = expr.exists(|nested| Ok(is_subquery(nested)));
    found.expect("nothing above fails")
}

/// Whether groups of the column that an expression has are the groups of its values.
fn is_grouped_alike(expr: &Expr, schema: &DFSchema, grouped: &[Expr]) -> Result<bool> {
    match expr {
        Expr::Column(_) => Ok(true),
        Expr::Cast(Cast { expr: inner, .. }) if matches!(inner.as_ref(), Expr::Column(_)) => {
            let (from, to) = (inner.get_type(schema)?, expr.get_type(schema)?);
            // Of numbers beyond 2^53 alone two are one float. A scalar subquery may be grouped by what it compares.
            let is_counted = from.is_integer() && to.is_floating() && grouped.contains(inner);
            Ok(is_counted || keeps_apart(&from, &to))
        }
        _ => Ok(false),
    }
}

/// Whether a cast makes different values of different ones, or fails.
fn keeps_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Float32, Float64, Int8, Int16, Int32,
        LargeUtf8, Timestamp, UInt8, UInt16, UInt32, Utf8, Utf8View,
    };
    let scale = |of: &DataType| match of {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => Some(*scale),
        other => other.is_integer().then_some(0),
    };
    if let (Some(from), Some(to)) = (scale(from), scale(to)) {
        return from <= to;
    }
    match (from, to) {
        (Dictionary(_, from), to) => keeps_apart(from, to),
        (from, Dictionary(_, to)) => keeps_apart(from, to),
        (Int8 | Int16 | UInt8 | UInt16, Float32 | Float64) | (Int32 | UInt32 | Float32, Float64) => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Date32, Date64 | Timestamp(_, None)) => true,
        (Timestamp(from, zone), Timestamp(to, other)) => from <= to && zone == other,
        (from, to) => from == to,
    }
}
