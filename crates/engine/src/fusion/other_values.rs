//! `EXISTS` and `NOT EXISTS` of a row with the same key and another value: there is one if the least or the greatest
//! value of the key is another one. So the rows are grouped by their keys, and joined as any other groups.
//!
//! ```text
//! g: Aggregate: groupBy=[l2.k], aggr=[min(l2.s) AS least, max(l2.s) AS greatest]
//!
//! LeftSemi Join: l1.k = l2.k Filter: l2.s != l1.s
//!   ─▶ Inner Join: l1.k = g.k, and g.least != l1.s OR g.greatest != l1.s
//! LeftAnti Join, likewise
//!   ─▶ Left Join:  l1.k = g.k, and g.least IS NULL OR l1.s IS NULL OR g.least = l1.s AND g.greatest = l1.s
//! ```
//!
//! **Invariants**: of a NULL nothing is known to be different: aggregates pass over NULLs, a group of these alone has no
//! least value, and neither has a key without a group.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use thermocline_pipeline::ValueType;

use super::Refusal;
use super::expressions::value_type;

/// A condition that two values, of the inner and of the outer side of a join, are different.
#[derive(Debug)]
pub(super) struct Inequality {
    inner: Expr,
    pub(super) outer: Expr,
}

impl Inequality {
    /// What a join's filter is, if it is nothing else.
    pub(super) fn of(filter: &Expr, inner: &DFSchema, outer: &DFSchema) -> Option<Self> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::NotEq, right }) = filter else { return None };
        let is_of = |expr: &Expr, schema: &DFSchema| matches!(expr, Expr::Column(column) if schema.has_column(column));
        let (of_inner, of_outer) = match (is_of(left, inner), is_of(right, inner)) {
            (true, false) => (left, right),
            (false, true) => (right, left),
            _ => return None,
        };
        let (data_type, other) = (of_inner.get_type(inner).ok()?, of_outer.get_type(outer).ok()?);
        // Of floats some are equal that order tells apart.
        let is_ordered = value_type(&data_type).is_some_and(|made| !made.is_float() && made != ValueType::Text);
        let is_one_type = data_type == other && is_of(of_outer, outer);
        (is_ordered && is_one_type).then(|| Self { inner: of_inner.as_ref().clone(), outer: of_outer.as_ref().clone() })
    }

    /// The groups of the inner side by its keys: these first, then the least and the greatest value.
    pub(super) fn groups(&self, plan: &LogicalPlan, keys: Vec<Expr>) -> Result<Aggregate, Refusal> {
        let ends = vec![min(self.inner.clone()), max(self.inner.clone())];
        Ok(Aggregate::try_new(Arc::new(plan.clone()), keys, ends)?)
    }
}

/// That a group whose ends these are has a value other than `value`, or that it has none.
pub(super) fn has_another(least: Expr, greatest: Expr, value: Expr, exists: bool) -> Expr {
    if exists {
        return least.not_eq(value.clone()).or(greatest.not_eq(value));
    }
    let has_no_value = least.clone().is_null().or(value.clone().is_null());
    has_no_value.or(least.eq(value.clone()).and(greatest.eq(value)))
}
