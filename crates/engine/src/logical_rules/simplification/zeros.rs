//! Lists of floats with a zero, written out as comparisons.
//!
//! SQL holds `0.0` and `-0.0` to be equal, and so do DataFusion's comparisons. Its lists compare floats bit by bit:
//! `f IN (0, 1, 2, 3)` misses `-0.0`, and so does `f = 0 OR f = 1 OR f = 2 OR f = 3`, of which the stock simplifier
//! makes that list. [`SpellOutZeros`] turns `f IN (0, 1, 2)` into `f = 0 OR f IN (1, 2)` and `f NOT IN (0, 1, 2)` into
//! `f <> 0 AND f NOT IN (1, 2)`, which is what a list means, NULLs on either side included. It stands before the stock
//! simplifier, which computes lists of constants, and behind it, where its lists come from.
//!
//! Other rules compare constants bit by bit too (`f = 0.0 AND f = -0.0` is `false` to them), so that comparisons with
//! `-0.0` become ones with `0.0`. And of a NaN that was computed from constants (`0.0 / 0.0`) the sign is taken away,
//! as of others ([`nans`](crate::stand_ins)).
//!
//! Deviations: an operand that gives another value when it is evaluated again, or is a subquery, keeps its list.

use std::borrow::Cow;

use datafusion::arrow::array::ArrowPrimitiveType;
use datafusion::arrow::datatypes::Float16Type;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::normalize_float_zero_scalar;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, and, binary_expr, or};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::is_evaluated_anew;
use crate::plan_expressions::{any_expression, input_schema, map_expressions};

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// See the module. Stateless, shared freely.
#[derive(Debug)]
pub(super) struct SpellOutZeros;

impl OptimizerRule for SpellOutZeros {
    fn name(&self) -> &str {
        "spell_out_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_concerned =
            |expr: &Expr| matches!(expr, Expr::InList(_)) || compares_with_negative_zero(expr) || is_negative_nan(expr);
        if !any_expression(&plan, |expr| expr.exists(|nested| Ok(is_concerned(nested))))? {
            return Ok(Transformed::no(plan));
        }
        let schema = input_schema(&plan)?;
        map_expressions(plan, |expr| expr.transform_up(|nested| Ok(spelled_out(nested, &schema))))
    }
}

fn spelled_out(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::InList(list) => match comparisons_of(&list, schema) {
            Some(comparisons) => Transformed::yes(comparisons),
            None => Transformed::no(Expr::InList(list)),
        },
        Expr::Literal(value, metadata) => match nan_without_sign(&value) {
            Some(nan) => Transformed::yes(Expr::Literal(nan, metadata)),
            None => Transformed::no(Expr::Literal(value, metadata)),
        },
        expr if compares_with_negative_zero(&expr) => match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                Transformed::yes(binary_expr(with_positive_zero(*left), op, with_positive_zero(*right)))
            }
            other => Transformed::no(other),
        },
        other => Transformed::no(other),
    }
}

/// `list` with the elements that may be zeros compared one by one; `None` where it has none or has to stay.
fn comparisons_of(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let InList { expr: operand, list, negated } = list;
    let (compared, listed): (Vec<&Expr>, Vec<&Expr>) = list.iter().partition(|element| may_be_zero(element, schema));
    if compared.is_empty() || !is_repeatable(operand) {
        return None;
    }
    let (op, join): (_, fn(Expr, Expr) -> Expr) = if *negated { (Operator::NotEq, and) } else { (Operator::Eq, or) };
    let operand = operand.as_ref();
    let others = (!listed.is_empty()).then(|| operand.clone().in_list(listed.into_iter().cloned().collect(), *negated));
    let comparisons =
        compared.into_iter().map(|element| binary_expr(operand.clone(), op, with_positive_zero(element.clone())));
    joined(comparisons.chain(others).collect(), join)
}

/// All of them joined in a tree as low as can be: thousands are planned and worked out level by level.
fn joined(mut expressions: Vec<Expr>, join: fn(Expr, Expr) -> Expr) -> Option<Expr> {
    while expressions.len() > 1 {
        let mut rest = expressions.into_iter();
        let mut pairs = Vec::new();
        while let Some(first) = rest.next() {
            pairs.push(match rest.next() {
                Some(second) => join(first, second),
                None => first,
            });
        }
        expressions = pairs;
    }
    expressions.pop()
}

/// Whether an element of a list is a zero of a float, or may be one in some row or once it is computed.
fn may_be_zero(element: &Expr, schema: &DFSchema) -> bool {
    match constant(element) {
        Some(value) => is_zero(&value),
        // `f IN ((SELECT ..))` is about all rows of the subquery.
        None => is_repeatable(element) && element.get_type(schema).is_ok_and(|data_type| data_type.is_floating()),
    }
}

/// A literal, cast or not: thousands of numbers that are about to become floats are not to be compared one by one.
fn constant(expr: &Expr) -> Option<Cow<'_, ScalarValue>> {
    match expr {
        Expr::Literal(value, _) => Some(Cow::Borrowed(value)),
        Expr::Cast(cast) => constant(&cast.expr)?.cast_to(cast.field.data_type()).ok().map(Cow::Owned),
        _ => None,
    }
}

fn is_repeatable(expr: &Expr) -> bool {
    !expr.exists(|nested| Ok(is_evaluated_anew(nested))).unwrap_or(true)
}

fn compares_with_negative_zero(expr: &Expr) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let is_negative_zero =
        |side: &Expr| matches!(side, Expr::Literal(value, _) if is_zero(value) && *value != positive(value));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }) => {
            is_negative_zero(left) || is_negative_zero(right)
        }
        _ => false,
    }
}

fn is_negative_nan(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if nan_without_sign(value).is_some())
}

/// The positive NaN of the same type; None for all that is no negative one.
fn nan_without_sign(value: &ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Float16(Some(float)) if float.is_nan() && float.is_sign_negative() => {
            Some(ScalarValue::Float16(Some(Half::NAN)))
        }
        ScalarValue::Float32(Some(float)) if float.is_nan() && float.is_sign_negative() => {
            Some(ScalarValue::Float32(Some(f32::NAN)))
        }
        ScalarValue::Float64(Some(float)) if float.is_nan() && float.is_sign_negative() => {
            Some(ScalarValue::Float64(Some(f64::NAN)))
        }
        _ => None,
    }
}

fn with_positive_zero(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) => Expr::Literal(positive(&value), metadata),
        other => other,
    }
}

/// `value`, but `0.0` for `-0.0`.
fn positive(value: &ScalarValue) -> ScalarValue {
    normalize_float_zero_scalar(value.clone())
}

fn is_zero(value: &ScalarValue) -> bool {
    let data_type = value.data_type();
    data_type.is_floating() && ScalarValue::new_zero(&data_type).is_ok_and(|zero| positive(value) == zero)
}
