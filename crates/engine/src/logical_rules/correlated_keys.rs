//! An aggregate below which rows are told by an expression is grouped by that expression.
//!
//! DataFusion joins a correlated subquery that aggregates by groups of the columns that are compared with the outer ones.
//! Where a column is cast first it takes the column all the same (DataFusion 55.2, `can_pullup_over_aggregation`): of
//! `(SELECT count(*) … WHERE CAST(time AS DATE) = day)` there was a group for each `time`, and an outer row came once for
//! each of these. Where types differ such casts are there unasked: `'1'` and `'01'` are one number. [`GroupByKeys`] makes
//! columns of what is compared:
//!
//! ```text
//! Filter: kind = 'a' AND CAST(time AS DATE) = outer(day)   ─▶  Projection: time, kind
//!   …                                                            Filter: __key_1 = outer(day)
//!                                                                  Projection: time, kind, CAST(time AS DATE) AS __key_1
//!                                                                    Filter: kind = 'a'
//!                                                                      …
//! ```
//!
//! Casts under which different values stay different are left: groups of the column are those of the cast. Other
//! expressions, which DataFusion would not take, become keys too.
//!
//! Invariants: the schema of every node that was there stays. Names of keys are one analysis' own.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Projection};
use datafusion::optimizer::AnalyzerRule;

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct GroupByKeys;

impl AnalyzerRule for GroupByKeys {
    fn name(&self) -> &str {
        "group_by_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut key_count = 0;
        let keyed = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => node.transform_down(|below| match below {
                LogicalPlan::Filter(filter) => with_keys(filter, &mut key_count),
                other => Ok(Transformed::no(other)),
            }),
            other => Ok(Transformed::no(other)),
        });
        keyed.data()
    }
}

/// The filter, with columns for the expressions that it compares with outer ones.
fn with_keys(filter: Filter, key_count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let (correlated, own): (Vec<&Expr>, Vec<&Expr>) =
        split_conjunction(&filter.predicate).into_iter().partition(|part| part.contains_outer());
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let mut keys = columns.clone();
    let mut compared = Vec::new();
    for part in correlated {
        compared.push(match compared_with_outer(part) {
            Some((key, outer)) if !is_grouped_alike(key, &schema)? => {
                *key_count += 1;
                let name = format!("__key_{key_count}");
                keys.push(key.clone().alias(name.as_str()));
                Expr::Column(Column::new_unqualified(name)).eq(outer.clone())
            }
            _ => part.clone(),
        });
    }
    let Some(compared) = conjunction(compared).filter(|_| keys.len() > columns.len()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    // Expressions that fail of some rows are not asked of those that other conditions leave out.
    let input = match conjunction(own.into_iter().cloned()) {
        Some(own) => Arc::new(LogicalPlan::Filter(Filter::try_new(own, filter.input)?)),
        None => filter.input,
    };
    let keyed = LogicalPlan::Projection(Projection::try_new(keys, input)?);
    let filtered = LogicalPlan::Filter(Filter::try_new(compared, Arc::new(keyed))?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(filtered))?)))
}

/// What a condition compares of the subquery, and with what of the outer query.
fn compared_with_outer(condition: &Expr) -> Option<(&Expr, &Expr)> {
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

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |nested: &Expr| {
        matches!(nested, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
    };
    let found = expr.exists(|nested| Ok(is_subquery(nested)));
    found.expect("nothing above fails")
}

/// Whether groups of the column that an expression has are the groups of its values.
fn is_grouped_alike(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    match expr {
        Expr::Column(_) => Ok(true),
        Expr::Cast(Cast { expr: inner, .. }) if matches!(inner.as_ref(), Expr::Column(_)) => {
            Ok(keeps_apart(&inner.get_type(schema)?, &expr.get_type(schema)?))
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
