//! From DataFusion's expressions, conditions and types to those of pipelines.

use std::str::FromStr;

use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, Operator};
use thermocline_pipeline::{self as pipeline, Comparison, Condition, DatePart, Expression, Slot, ValueType};

use super::Refusal;
use super::join_graph::{BaseColumn, JoinGraph};
use super::text_functions::text_test;
use crate::filters::{self, Fields};

/// How pipelines know values of a type, if they do.
pub(super) fn value_type(data_type: &DataType) -> Option<ValueType> {
    Some(match data_type {
        DataType::Boolean => ValueType::Boolean,
        DataType::Int8 => ValueType::Int8,
        DataType::Int16 => ValueType::Int16,
        DataType::Int32 => ValueType::Int32,
        DataType::Int64 => ValueType::Int64,
        DataType::UInt8 => ValueType::UInt8,
        DataType::UInt16 => ValueType::UInt16,
        DataType::UInt32 => ValueType::UInt32,
        DataType::UInt64 => ValueType::UInt64,
        DataType::Float32 => ValueType::Float32,
        DataType::Float64 => ValueType::Float64,
        DataType::Date32 => ValueType::Date,
        DataType::Timestamp(_, _) => ValueType::Timestamp,
        DataType::Decimal128(precision, scale) => {
            ValueType::Decimal { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ValueType::Text,
        _ => return None,
    })
}

/// Where a column's values are.
pub(super) type SlotOf<'a> = &'a mut dyn FnMut(BaseColumn) -> Result<Slot, Refusal>;

fn refused(expr: &Expr, graph: &JoinGraph) -> Refusal {
    Refusal::new(format!("{} is not computed in pipelines", graph.readable(expr)))
}

/// The arithmetic of an expression.
pub(super) fn expression(expr: &Expr, graph: &JoinGraph, slot_of: SlotOf<'_>) -> Result<Expression, Refusal> {
    match expr {
        Expr::Column(column) => {
            let base = graph.named(column).ok_or_else(|| refused(expr, graph))?;
            Ok(Expression::Slot(slot_of(base)?))
        }
        Expr::Literal(value, _) => literal(value).ok_or_else(|| refused(expr, graph)),
        Expr::Placeholder(placeholder) => graph.planning.parameter(placeholder).ok_or_else(|| refused(expr, graph)),
        Expr::Alias(alias) => expression(&alias.expr, graph, slot_of),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operator = match op {
                Operator::Plus => pipeline::Operator::Add,
                Operator::Minus => pipeline::Operator::Subtract,
                Operator::Multiply => pipeline::Operator::Multiply,
                Operator::Divide => pipeline::Operator::Divide,
                Operator::Modulo => pipeline::Operator::Remainder,
                _ => return Err(refused(expr, graph)),
            };
            let (left, right) = (expression(left, graph, slot_of)?, expression(right, graph, slot_of)?);
            Ok(Expression::binary(operator, left, right))
        }
        Expr::Cast(Cast { expr: operand, field }) => {
            let to = value_type(field.data_type()).ok_or_else(|| refused(expr, graph))?;
            Ok(expression(operand, graph, slot_of)?.cast(to))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if *func == date_part() => match args.as_slice() {
            [Expr::Literal(part, _), date] => {
                let part = part.try_as_str().flatten().and_then(known_part).ok_or_else(|| refused(expr, graph))?;
                Ok(Expression::date_part(part, expression(date, graph, slot_of)?))
            }
            _ => Err(refused(expr, graph)),
        },
        Expr::Case(case) => cases(case, graph, slot_of),
        _ => Err(refused(expr, graph)),
    }
}

/// What `date_part` takes of dates, by the names that it knows them by.
fn known_part(name: &str) -> Option<DatePart> {
    let is_quote = |c: char| matches!(c, '\'' | '"');
    let name = name.strip_prefix(is_quote).and_then(|rest| rest.strip_suffix(is_quote)).unwrap_or(name);
    match IntervalUnit::from_str(name) {
        Ok(IntervalUnit::Year) => Some(DatePart::Year),
        Ok(IntervalUnit::Month) => Some(DatePart::Month),
        Ok(IntervalUnit::Day) => Some(DatePart::Day),
        Ok(_) => None,
        Err(_) => match name.to_lowercase().as_str() {
            "qtr" | "quarter" => Some(DatePart::Quarter),
            "doy" => Some(DatePart::DayOfYear),
            "dow" => Some(DatePart::DayOfWeek),
            _ => None,
        },
    }
}

fn cases(case: &Case, graph: &JoinGraph, slot_of: SlotOf<'_>) -> Result<Expression, Refusal> {
    let mut branches = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in &case.when_then_expr {
        let condition = match &case.expr {
            // A CASE tells 0.0 from -0.0, which `=` does not.
            Some(of) if is_exact_column(of, graph) || is_constant_but_no_zero(when) => {
                condition(&of.as_ref().clone().eq(when.as_ref().clone()), graph, slot_of, false)?
            }
            Some(_) => return Err(refused(when, graph)),
            None => condition(when, graph, slot_of, false)?,
        };
        branches.push((condition, expression(then, graph, slot_of)?));
    }
    let otherwise = match case.else_expr.as_deref() {
        Some(Expr::Literal(value, _)) if value.is_null() => None,
        Some(value) => Some(Box::new(expression(value, graph, slot_of)?)),
        None => None,
    };
    Ok(Expression::Case { branches, otherwise })
}

fn is_exact_column(expr: &Expr, graph: &JoinGraph) -> bool {
    graph.base_column(expr).is_some_and(|base| !graph.field(base).data_type().is_floating())
}

/// As far as floats have zeros of two signs.
fn is_constant_but_no_zero(value: &Expr) -> bool {
    match value {
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value != 0.0,
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value != 0.0,
        Expr::Literal(ScalarValue::Float16(_), _) => false,
        Expr::Literal(..) => true,
        _ => false,
    }
}

/// A number that is no NULL.
pub(super) fn literal(value: &ScalarValue) -> Option<Expression> {
    let value_type = value_type(&value.data_type())?;
    let number = match value {
        ScalarValue::Boolean(value) => i128::from((*value)?),
        ScalarValue::Int8(value) => i128::from((*value)?),
        ScalarValue::Int16(value) => i128::from((*value)?),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => i128::from((*value)?),
        ScalarValue::Int64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _) => i128::from((*value)?),
        ScalarValue::UInt8(value) => i128::from((*value)?),
        ScalarValue::UInt16(value) => i128::from((*value)?),
        ScalarValue::UInt32(value) => i128::from((*value)?),
        ScalarValue::UInt64(value) => i128::from((*value)?),
        ScalarValue::Decimal128(value, _, _) => (*value)?,
        ScalarValue::Float32(value) => return Some(Expression::float(f64::from((*value)?), value_type)),
        ScalarValue::Float64(value) => return Some(Expression::float((*value)?, value_type)),
        _ => return None,
    };
    Some(Expression::Literal { value: number, value_type })
}

/// A condition. `is_negated` if rows are wanted of which it is false: then what is false and what is unknown must not
/// be taken for one another.
pub(super) fn condition(
    expr: &Expr,
    graph: &JoinGraph,
    slot_of: SlotOf<'_>,
    is_negated: bool,
) -> Result<Condition, Refusal> {
    if let Some(condition) = one_set(expr, graph, slot_of, is_negated)? {
        return Ok(condition);
    }
    compound(expr, graph, slot_of, is_negated).or_else(|refusal| match text_test(expr, graph) {
        Some((base, test)) => Ok(Condition::Text { slot: slot_of(base)?, test }),
        None => Err(refusal),
    })
}

/// A condition by its parts.
fn compound(expr: &Expr, graph: &JoinGraph, slot_of: SlotOf<'_>, is_negated: bool) -> Result<Condition, Refusal> {
    match expr {
        Expr::Alias(alias) => condition(&alias.expr, graph, slot_of, is_negated),
        Expr::Not(inner) => Ok(Condition::Not(Box::new(condition(inner, graph, slot_of, !is_negated)?))),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
            let base = null_with(inner, graph).ok_or_else(|| refused(expr, graph))?;
            let is_null = Condition::IsNull(slot_of(base)?);
            Ok(if matches!(expr, Expr::IsNull(_)) { is_null } else { Condition::Not(Box::new(is_null)) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if matches!(op, Operator::And | Operator::Or) {
                let mut parts = Vec::new();
                // However they are nested: thousands of alternatives are one condition, not one within another.
                let mut open = vec![right.as_ref(), left.as_ref()];
                while let Some(part) = open.pop() {
                    match part {
                        Expr::BinaryExpr(joined) if joined.op == *op => {
                            match one_set(part, graph, slot_of, is_negated)? {
                                Some(set) => parts.push(set),
                                None => open.extend([joined.right.as_ref(), joined.left.as_ref()]),
                            }
                        }
                        part => parts.push(condition(part, graph, slot_of, is_negated)?),
                    }
                }
                return Ok(if *op == Operator::And { Condition::All(parts) } else { Condition::Any(parts) });
            }
            let comparison = match op {
                Operator::Eq => Comparison::Equal,
                Operator::NotEq => Comparison::NotEqual,
                Operator::Lt => Comparison::Less,
                Operator::LtEq => Comparison::LessOrEqual,
                Operator::Gt => Comparison::Greater,
                Operator::GtEq => Comparison::GreaterOrEqual,
                _ => return Err(refused(expr, graph)),
            };
            let (left, right) = (expression(left, graph, slot_of)?, expression(right, graph, slot_of)?);
            Ok(Condition::compare(comparison, left, right))
        }
        _ => Err(refused(expr, graph)),
    }
}

/// The column that is NULL where an expression is, and nowhere else: constants found by an outer join are NULL with its key.
fn null_with(expr: &Expr, graph: &JoinGraph) -> Option<BaseColumn> {
    let Expr::Case(case) = expr.clone().unalias() else { return graph.base_column(expr) };
    match (case.expr, case.when_then_expr.as_slice(), case.else_expr) {
        (None, [(when, then)], None) => match (when.as_ref(), then.as_ref()) {
            (Expr::IsNotNull(key), Expr::Literal(value, _)) if !value.is_null() => graph.base_column(key),
            _ => None,
        },
        _ => None,
    }
}

/// A condition on one column as a set of its values, if it can be said so.
fn one_set(
    expr: &Expr,
    graph: &JoinGraph,
    slot_of: SlotOf<'_>,
    is_negated: bool,
) -> Result<Option<Condition>, Refusal> {
    // A set says which values it is true for. What these are unknown for where it is not must be NULL alone.
    let is_plain = match expr {
        Expr::BinaryExpr(binary) => !matches!(binary.op, Operator::And | Operator::Or),
        Expr::InList(_) | Expr::Like(_) | Expr::Between(_) | Expr::Column(_) => true,
        _ => false,
    };
    if is_negated && !is_plain {
        return Ok(None);
    }
    let Some((base, domain)) = column_set(expr, graph) else { return Ok(None) };
    Ok(Some(Condition::In { slot: slot_of(base)?, domain }))
}

/// The column that a condition is about, if it is about one alone, and the values for which it is true.
pub(super) fn column_set(expr: &Expr, graph: &JoinGraph) -> Option<(BaseColumn, thermocline_predicate::Domain)> {
    let mut columns = expr.column_refs().into_iter();
    let base = graph.named(columns.next()?)?;
    if columns.next().is_some() {
        return None;
    }
    let schema = &graph.relations[base.relation].schema;
    let (path, _, domain) = filters::condition(&Fields { schema, element: None }, expr)?;
    // A field of a structure is no column.
    (path.parts().len() == 1).then_some((base, domain))
}

/// The column that a join's side compares: casts to a wider integer, or between texts, change no equality.
pub(super) fn key_column(expr: &Expr, graph: &JoinGraph) -> Option<BaseColumn> {
    match expr {
        Expr::Cast(Cast { expr: operand, field }) => {
            let base = key_column(operand, graph)?;
            let from = value_type(graph.relations[base.relation].schema.field(base.column).data_type())?;
            let to = value_type(field.data_type())?;
            let widens = match (from.range(), to.range()) {
                (Some(inner), Some(outer)) => {
                    from.is_integer() && to.is_integer() && outer.0 <= inner.0 && inner.1 <= outer.1
                }
                _ => from == ValueType::Text && to == ValueType::Text,
            };
            widens.then_some(base)
        }
        Expr::Alias(alias) => key_column(&alias.expr, graph),
        other => graph.base_column(other),
    }
}
