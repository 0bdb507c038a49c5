//! Both zeros as one value, where operators compare by bits.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, Operator, binary_expr};

/// No value that is compared is a negative zero, unless none of the others can be a zero.
pub(super) fn case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let may_be_zero = |when: &Expr| constant(when).is_none_or(is_zero);
    if !case.when_then_expr.iter().any(|(when, _)| may_be_zero(when)) {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    case.expr = case.expr.map(|operand| with_one_zero(*operand, schema).map(Box::new)).transpose()?;
    for (when, _) in &mut case.when_then_expr {
        **when = with_one_zero(std::mem::take(when.as_mut()), schema)?;
    }
    Ok(Transformed::yes(Expr::Case(case)))
}

/// Whether the function compares its arguments by bits, if they are floats.
pub(super) fn is_concerned(call: &ScalarFunction) -> bool {
    call.func.name() == "nullif"
}

/// The call with one zero.
pub(super) fn function(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !call.args.iter().any(|argument| super::is_float(argument, schema)) {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    }
    let args = all_with_one_zero(call.args, schema)?;
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { args, ..call })))
}

/// The same expressions, floats among them with one zero.
pub(super) fn all_with_one_zero(expressions: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    expressions.into_iter().map(|expr| with_one_zero_if_float(expr, schema)).collect()
}

/// The same expression, if it is a float with one zero.
pub(super) fn with_one_zero_if_float(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    if super::is_float(&expr, schema) { with_one_zero(expr, schema) } else { Ok(expr) }
}

/// The same value, but zero where it is the negative zero: that is what zero added to it gives.
fn with_one_zero(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match constant(&expr) {
        Some(value) if !is_zero(value) => Ok(expr),
        Some(value) => Ok(Expr::Literal(ScalarValue::new_zero(&value.data_type())?, None)),
        None => {
            let zero = ScalarValue::new_zero(&expr.get_type(schema)?)?;
            Ok(binary_expr(expr, Operator::Plus, Expr::Literal(zero, None)))
        }
    }
}

fn constant(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => constant(&alias.expr),
        _ => None,
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => f32::from(*value) == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    }
}
