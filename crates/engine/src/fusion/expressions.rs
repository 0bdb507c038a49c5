//! From DataFusion's expressions and types to those of pipelines.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use thermocline_pipeline::{Expression, Slot, ValueType};

use super::Refusal;
use super::join_graph::{BaseColumn, JoinGraph};

/// How pipelines know values of a type, if they do.
pub(super) fn value_type(data_type: &DataType) -> Option<ValueType> {
    Some(match data_type {
        DataType::Int8 => ValueType::Int8,
        DataType::Int16 => ValueType::Int16,
        DataType::Int32 => ValueType::Int32,
        DataType::Int64 => ValueType::Int64,
        DataType::UInt8 => ValueType::UInt8,
        DataType::UInt16 => ValueType::UInt16,
        DataType::UInt32 => ValueType::UInt32,
        DataType::Date32 => ValueType::Date,
        DataType::Timestamp(_, _) => ValueType::Timestamp,
        DataType::Decimal128(precision, scale) => {
            ValueType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ValueType::Text,
        _ => return None,
    })
}

/// The arithmetic of an expression, whose columns have the slots that `slot_of` gives.
pub(super) fn expression(
    expr: &Expr,
    graph: &JoinGraph,
    slot_of: &mut dyn FnMut(BaseColumn) -> Result<Slot, Refusal>,
) -> Result<Expression, Refusal> {
    let refused = || Refusal::new(format!("{} is not computed in pipelines", graph.readable(expr)));
    match expr {
        Expr::Column(column) => Ok(Expression::Slot(slot_of(graph.named(column).ok_or_else(refused)?)?)),
        Expr::Literal(value, _) => literal(value).ok_or_else(refused),
        Expr::Alias(alias) => expression(&alias.expr, graph, slot_of),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operator = match op {
                Operator::Plus => thermocline_pipeline::Operator::Add,
                Operator::Minus => thermocline_pipeline::Operator::Subtract,
                Operator::Multiply => thermocline_pipeline::Operator::Multiply,
                _ => return Err(refused()),
            };
            let (left, right) = (expression(left, graph, slot_of)?, expression(right, graph, slot_of)?);
            Ok(Expression::binary(operator, left, right))
        }
        Expr::Cast(Cast { expr: operand, field }) => {
            let to = value_type(field.data_type()).ok_or_else(refused)?;
            Ok(expression(operand, graph, slot_of)?.widen(to))
        }
        _ => Err(refused()),
    }
}

/// A number that is no NULL.
fn literal(value: &ScalarValue) -> Option<Expression> {
    let number = match value {
        ScalarValue::Int8(value) => i128::from((*value)?),
        ScalarValue::Int16(value) => i128::from((*value)?),
        ScalarValue::Int32(value) => i128::from((*value)?),
        ScalarValue::Int64(value) => i128::from((*value)?),
        ScalarValue::UInt8(value) => i128::from((*value)?),
        ScalarValue::UInt16(value) => i128::from((*value)?),
        ScalarValue::UInt32(value) => i128::from((*value)?),
        ScalarValue::Decimal128(value, _, _) => (*value)?,
        _ => return None,
    };
    Some(Expression::Literal { value: number, value_type: value_type(&value.data_type())? })
}

/// The column that a join's side compares: casts to a wider integer change no equality.
pub(super) fn key_column(expr: &Expr, graph: &JoinGraph) -> Option<BaseColumn> {
    match expr {
        Expr::Cast(Cast { expr: operand, field }) => {
            let base = key_column(operand, graph)?;
            let from = value_type(graph.relations[base.relation].table.schema.field(base.column).data_type())?;
            let to = value_type(field.data_type())?;
            let (inner, outer) = (from.range()?, to.range()?);
            let widens = from.is_integer() && to.is_integer() && outer.0 <= inner.0 && inner.1 <= outer.1;
            widens.then_some(base)
        }
        Expr::Alias(alias) => key_column(&alias.expr, graph),
        other => graph.base_column(other),
    }
}

/// What a sum takes: a cast to 64 bits is what it does itself, without a cast for each row.
pub(super) fn summed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(Cast { expr: operand, field })
            if *field.data_type() == DataType::Int64 && !matches!(operand.as_ref(), Expr::Cast(_)) =>
        {
            operand
        }
        Expr::Alias(alias) => summed(&alias.expr),
        other => other,
    }
}

/// What an average of integers takes, which DataFusion turns into floats first.
pub(super) fn averaged(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(Cast { expr: operand, field }) if *field.data_type() == DataType::Float64 => operand,
        Expr::Alias(alias) => averaged(&alias.expr),
        other => other,
    }
}
