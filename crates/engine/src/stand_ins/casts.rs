//! Conditions over casts that make many values one, without a guess at how many rows they let through.
//!
//! DataFusion guesses by the ranges of a filter's columns. Of `CAST(time AS DATE) < DATE '2020-01-02'` it takes the times
//! of the days for a range that the times are in: where that is longer than theirs, more rows than there are would pass,
//! and the query fails (`Selectivity is out of limit`). In a call of [`apart`](crate::logical_rules::apart) nothing is
//! guessed.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable};

use crate::logical_rules::apart;

/// Whether `expr` is a cast, of whatever.
pub(super) fn is_concerned(expr: &Expr) -> bool {
    cast_of(expr).is_some()
}

/// A filter's condition, its comparisons of such casts apart.
pub(super) fn without_guess(condition: Expr, schema: &DFSchema) -> datafusion::common::Result<Transformed<Expr>> {
    condition.transform_up(|expr| match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation() && (makes_one(left, schema) || makes_one(right, schema)) =>
        {
            Ok(Transformed::yes(apart::call(expr)))
        }
        _ => Ok(Transformed::no(expr)),
    })
}

fn cast_of(expr: &Expr) -> Option<(&Expr, &DataType)> {
    match expr {
        Expr::Cast(cast) => Some((&cast.expr, cast.field.data_type())),
        Expr::TryCast(cast) => Some((&cast.expr, cast.field.data_type())),
        _ => None,
    }
}

/// Whether there is a cast within that gives one value for several.
fn makes_one(expr: &Expr, schema: &DFSchema) -> bool {
    let is_many_to_one = |nested: &Expr| {
        cast_of(nested).is_some_and(|(of, to)| of.get_type(schema).is_ok_and(|from| are_many_to_one(&from, to)))
    };
    expr.exists(|nested| Ok(is_many_to_one(nested))).unwrap_or(true)
}

fn are_many_to_one(from: &DataType, to: &DataType) -> bool {
    match from {
        DataType::Timestamp(from, _) => !matches!(to, DataType::Timestamp(to, _) if to >= from),
        from if from.is_floating() => !to.is_floating(),
        from if from.is_decimal() => !matches!((scale(from), scale(to)), (Some(from), Some(to)) if to >= from),
        from => from.is_numeric() && *to == DataType::Boolean,
    }
}

/// Of a decimal.
fn scale(data_type: &DataType) -> Option<i8> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}
