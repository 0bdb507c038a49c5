//! Expressions followed through the nodes of a logical plan down to what they are computed from.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator};

/// `expr`, which reads columns of a node of this schema, over what these columns are themselves. None if it holds a
/// subquery, whose outer references would have to be followed as well.
pub(crate) fn over_columns(expr: &Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Option<Expr>> {
    let mut has_subquery = false;
    let expr = expr.clone().unalias().transform_up(|nested| match &nested {
        Expr::Column(column) => Ok(Transformed::yes(columns[schema.index_of_column(column)?].clone())),
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            has_subquery = true;
            Ok(Transformed::no(nested))
        }
        Expr::OuterReferenceColumn(..) => {
            has_subquery = true;
            Ok(Transformed::no(nested))
        }
        _ => Ok(Transformed::no(nested)),
    })?;
    Ok((!has_subquery).then_some(expr.data))
}

/// Whether two plans have the same columns by name, qualifier, type and nullability, so that one may take the other's
/// place.
pub(crate) fn is_same_schema(left: &DFSchema, right: &DFSchema) -> bool {
    left.fields().len() == right.fields().len() && left.iter().eq(right.iter())
}

/// Whether `expr` is NULL where every column of its input is. Knows columns, casts, struct fields and arithmetic.
pub(crate) fn is_null_of_nulls(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_null_of_nulls(&alias.expr),
        Expr::Cast(cast) => is_null_of_nulls(&cast.expr),
        Expr::TryCast(cast) => is_null_of_nulls(&cast.expr),
        Expr::Negative(operand) | Expr::Not(operand) => is_null_of_nulls(operand),
        Expr::BinaryExpr(binary) => {
            let is_distinct = matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
            (binary.op.is_numerical_operators() || binary.op.supports_propagation() && !is_distinct)
                && (is_null_of_nulls(&binary.left) || is_null_of_nulls(&binary.right))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            func.name() == "get_field" && args.first().is_some_and(is_null_of_nulls)
        }
        _ => false,
    }
}
