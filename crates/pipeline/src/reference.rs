//! The oracle: what a pipeline means, one row after another over decoded values, knowing nothing of the backend.

use std::collections::BTreeMap;
use std::ops::{Add, Div, Mul, Rem, Sub};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use thermocline_column_store::Page;
use thermocline_predicate::Scalar;

use crate::ir::{
    Aggregate, Condition, Expression, Operator, Origin, Pipeline, ProbeKind, Sink, Slot, Step, ValueType, text_slot,
};
use crate::{PageSource, PipelineError, SourceColumn, Value};

/// The rows that a pipeline yields; for one that builds a table its rows, key first, also those with a NULL in it.
/// Tables are given like that too.
pub(crate) fn interpret(
    pipeline: &Pipeline,
    source: &dyn PageSource,
    tables: &[Vec<Vec<Value>>],
) -> Result<Vec<Vec<Value>>, PipelineError> {
    let mut survivors = Vec::new();
    for row_group in 0..source.row_group_count() {
        let columns: Vec<Option<ArrayRef>> = pipeline
            .slots()
            .iter()
            .map(|info| {
                let Origin::Column(column) = info.origin else { return None };
                let array = match source.column(row_group, column).unwrap() {
                    SourceColumn::Page(pinned) => {
                        let page = Page::open((*pinned).as_ref()).unwrap();
                        page.decode(&arrow_type(info.value_type)).unwrap()
                    }
                    SourceColumn::Array(array) => array,
                };
                let Some(map) = &info.text_map else { return Some(array) };
                Some(map.apply(&cast(&array, &DataType::Utf8).unwrap()).unwrap())
            })
            .collect();
        for row in 0..source.row_count(row_group) {
            let values: Vec<Value> =
                columns.iter().map(|column| column.as_ref().map_or(Value::Null, |array| value(array, row))).collect();
            survivors.extend(pass(pipeline, tables, values)?);
        }
    }
    let pick = |values: &[Value], slots: &[Slot]| -> Vec<Value> {
        slots.iter().map(|slot| values[slot.index()].clone()).collect()
    };
    Ok(match pipeline.sink() {
        Sink::Materialise { columns } => survivors.iter().map(|values| pick(values, columns)).collect(),
        Sink::Build { keys, payload, .. } => {
            survivors.iter().map(|values| [pick(values, keys), pick(values, payload)].concat()).collect()
        }
        Sink::Aggregate { groups, aggregates } => {
            let mut grouped: BTreeMap<Vec<Value>, Vec<Vec<Value>>> = BTreeMap::new();
            if groups.is_empty() {
                grouped.insert(Vec::new(), Vec::new());
            }
            for values in survivors {
                // Both zeros make one group.
                let positive = |value: Value| if value == Value::Float(-0.0) { Value::Float(0.0) } else { value };
                let key = pick(&values, groups).into_iter().map(positive).collect();
                grouped.entry(key).or_default().push(values);
            }
            grouped
                .into_iter()
                .map(|(mut key, rows)| {
                    key.extend(aggregates.iter().map(|aggregate| aggregated(pipeline, *aggregate, &rows)));
                    key
                })
                .collect()
        }
    })
}

/// What becomes of a row: none, one or several.
fn pass(pipeline: &Pipeline, tables: &[Vec<Vec<Value>>], row: Vec<Value>) -> Result<Vec<Vec<Value>>, PipelineError> {
    let mut rows = vec![row];
    for step in pipeline.steps() {
        let mut kept = Vec::new();
        for mut values in rows {
            match step {
                Step::Filter { slot, domain } => {
                    if domain.contains(scalar(pipeline, *slot, &values).as_ref()) {
                        kept.push(values);
                    }
                }
                Step::Condition { condition } => {
                    if truth(pipeline, condition, &values)? == Some(true) {
                        kept.push(values);
                    }
                }
                Step::Probe { table, keys, kind, payload } => {
                    let table = &tables[*table];
                    let key: Vec<&Value> = keys.iter().map(|key| &values[key.index()]).collect();
                    let has_null = key.contains(&&Value::Null);
                    let found: Vec<_> = table
                        .iter()
                        .filter(|row| !has_null && key.iter().zip(*row).all(|(key, held)| **key == *held))
                        .collect();
                    let table_has_null = table.iter().any(|row| row[..keys.len()].contains(&Value::Null));
                    let with_payload = |row: &[Value]| {
                        let mut values = values.clone();
                        for slot in payload {
                            let Origin::Payload { payload, .. } = pipeline.slot(*slot).origin else { unreachable!() };
                            values[slot.index()] = row.get(keys.len() + payload).cloned().unwrap_or(Value::Null);
                        }
                        values
                    };
                    match kind {
                        ProbeKind::Outer if found.is_empty() => kept.push(with_payload(&[])),
                        ProbeKind::Inner | ProbeKind::Outer => {
                            kept.extend(found.iter().map(|row| with_payload(row)));
                        }
                        ProbeKind::Semi if !found.is_empty() => kept.push(values),
                        ProbeKind::Anti if found.is_empty() => kept.push(values),
                        ProbeKind::NullAwareAnti
                            if table.is_empty() || found.is_empty() && !has_null && !table_has_null =>
                        {
                            kept.push(values);
                        }
                        ProbeKind::Semi | ProbeKind::Anti | ProbeKind::NullAwareAnti => {}
                    }
                }
                Step::Compute { slot, expression } => {
                    values[slot.index()] = computed(pipeline, expression, &values)?.1;
                    kept.push(values);
                }
            }
        }
        rows = kept;
    }
    Ok(rows)
}

fn scalar(pipeline: &Pipeline, slot: Slot, values: &[Value]) -> Option<Scalar> {
    match &values[slot.index()] {
        Value::Null => None,
        Value::Integer(value) if pipeline.slot(slot).value_type == ValueType::Boolean => {
            Some(Scalar::Boolean(*value == 1))
        }
        Value::Integer(value) => Some(Scalar::Int(*value)),
        Value::Float(value) => Some(Scalar::Float(*value)),
        Value::Text(text) => Some(Scalar::from(&**text)),
    }
}

/// `None` if it is unknown.
fn truth(pipeline: &Pipeline, condition: &Condition, values: &[Value]) -> Result<Option<bool>, PipelineError> {
    let all =
        |parts: &[Condition]| -> Result<Vec<_>, _> { parts.iter().map(|part| truth(pipeline, part, values)).collect() };
    Ok(match condition {
        Condition::In { slot, domain } => {
            let scalar = scalar(pipeline, *slot, values);
            let is_in = domain.contains(scalar.as_ref());
            (is_in || scalar.is_some()).then_some(is_in)
        }
        Condition::Text { slot, test } => match &values[slot.index()] {
            Value::Text(text) => {
                let texts: ArrayRef = Arc::new(StringArray::from(vec![&**text]));
                Some(test.evaluate(&texts)?.value(0))
            }
            _ => test.of_null(),
        },
        Condition::IsNull(slot) => Some(values[slot.index()] == Value::Null),
        Condition::Compare { comparison, operands } => {
            let texts = [&operands.0, &operands.1].map(|of| text_slot(of, pipeline.slots()));
            if let [Some(left), Some(right)] = texts {
                return Ok(match (&values[left.index()], &values[right.index()]) {
                    (Value::Text(left), Value::Text(right)) => Some(comparison.holds(left.cmp(right))),
                    _ => None,
                });
            }
            let (left_type, left) = computed(pipeline, &operands.0, values)?;
            let (right_type, right) = computed(pipeline, &operands.1, values)?;
            let scale = |of| if let ValueType::Decimal { scale, .. } = of { scale } else { 0 };
            let scaled = |value: Value, scale| match value {
                Value::Integer(value) => Value::Integer(value * 10i128.pow(u32::from(scale))),
                other => other,
            };
            let (left, right) = (scaled(left, scale(right_type)), scaled(right, scale(left_type)));
            let unsigned_zero = |value| if value == Value::Float(-0.0) { Value::Float(0.0) } else { value };
            let (left, right) = (unsigned_zero(left), unsigned_zero(right));
            (left != Value::Null && right != Value::Null).then(|| comparison.holds(left.cmp(&right)))
        }
        Condition::All(parts) => {
            let parts = all(parts)?;
            if parts.contains(&Some(false)) { Some(false) } else { (!parts.contains(&None)).then_some(true) }
        }
        Condition::Any(parts) => {
            let parts = all(parts)?;
            if parts.contains(&Some(true)) { Some(true) } else { (!parts.contains(&None)).then_some(false) }
        }
        Condition::Not(part) => truth(pipeline, part, values)?.map(|is_true| !is_true),
    })
}

/// A computed value beside its type.
fn computed(
    pipeline: &Pipeline,
    expression: &Expression,
    values: &[Value],
) -> Result<(ValueType, Value), PipelineError> {
    let value_type = expression.value_type(pipeline.slots())?;
    let value = match expression {
        Expression::Slot(slot) => values[slot.index()].clone(),
        Expression::Literal { value, .. } if value_type.is_float() => Value::of_ordinal(value_type, *value as i64),
        Expression::Literal { value, .. } => Value::Integer(*value),
        Expression::Null { .. } => Value::Null,
        Expression::Parameter { number, value_type } => {
            return Err(PipelineError::Parameter { number: *number, expected: *value_type });
        }
        Expression::Cast { operand, to } => {
            let (from, value) = computed(pipeline, operand, values)?;
            let scale = |of| if let ValueType::Decimal { scale, .. } = of { u32::from(scale) } else { 0 };
            match (value, value_type) {
                (Value::Integer(value), ValueType::Float64) => {
                    Value::Float(value as f64 / 10f64.powi(scale(from) as i32))
                }
                (Value::Integer(value), ValueType::Float32) => Value::Float((value as f32).into()),
                (Value::Integer(value), _) => Value::Integer(value * 10i128.pow(scale(*to) - scale(from))),
                (Value::Float(value), ValueType::Decimal { scale, .. }) => {
                    let rounded = (value * 10f64.powi(scale.into())).round();
                    let (least, most) = to.range().unwrap();
                    if !(least as f64..=most as f64).contains(&rounded) {
                        return Err(PipelineError::Cast { value, to: *to });
                    }
                    Value::Integer(rounded as i128)
                }
                (value, _) => value,
            }
        }
        Expression::DatePart { part, operand } => match computed(pipeline, operand, values)?.1 {
            Value::Integer(days) => {
                let of_range = || PipelineError::DateOutOfRange { part: part.name(), days: days as i64 };
                Value::Integer(part.of_days(days as i32).ok_or_else(of_range)?.into())
            }
            _ => Value::Null,
        },
        Expression::Case { branches, otherwise } => {
            for (condition, value) in branches {
                if truth(pipeline, condition, values)? == Some(true) {
                    return computed(pipeline, value, values);
                }
            }
            match otherwise {
                Some(value) => computed(pipeline, value, values)?.1,
                None => Value::Null,
            }
        }
        Expression::Binary { operator, operands } => {
            let (left_type, left) = computed(pipeline, &operands.0, values)?;
            let (right_type, right) = computed(pipeline, &operands.1, values)?;
            match (left, right) {
                (Value::Integer(left), Value::Integer(right)) => {
                    Value::Integer(binary(value_type, *operator, (left_type, left), (right_type, right))?)
                }
                (Value::Float(left), Value::Float(right)) => {
                    let result = match value_type {
                        ValueType::Float32 => float(*operator, left as f32, right as f32).into(),
                        _ => float(*operator, left, right),
                    };
                    Value::Float(if result.is_nan() { f64::NAN } else { result })
                }
                _ => Value::Null,
            }
        }
    };
    Ok((value_type, value))
}

fn float<F>(operator: Operator, left: F, right: F) -> F
where
    F: Add<Output = F> + Sub<Output = F> + Mul<Output = F> + Div<Output = F> + Rem<Output = F>,
{
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
    }
}

fn binary(
    value_type: ValueType,
    operator: Operator,
    (left_type, left): (ValueType, i128),
    (right_type, right): (ValueType, i128),
) -> Result<i128, PipelineError> {
    let apply = |left: i128, right: i128| match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide | Operator::Remainder => None,
    };
    let (ValueType::Decimal { scale, .. }, ValueType::Decimal { scale: s1, .. }, ValueType::Decimal { scale: s2, .. }) =
        (value_type, left_type, right_type)
    else {
        let (least, greatest) = value_type.range().unwrap();
        let division = || PipelineError::DivisionByZero { left, operator: operator.symbol() };
        let result = match operator {
            // Exact modulo 2^128, and so modulo the type's power of two.
            Operator::Multiply => left.wrapping_mul(right),
            Operator::Divide => left.checked_div(right).ok_or_else(division)?,
            Operator::Remainder => left.checked_rem(right).ok_or_else(division)?,
            _ => apply(left, right).unwrap(),
        };
        return Ok((result - least).rem_euclid(greatest - least + 1) + least);
    };
    let scaled = |value: i128, from: u8| match operator {
        Operator::Multiply => Some(value),
        _ => value.checked_mul(10i128.pow(u32::from(scale - from))),
    };
    let overflow = || PipelineError::Overflow { left, operator: operator.symbol(), right };
    let (left, right) = scaled(left, s1).zip(scaled(right, s2)).ok_or_else(overflow)?;
    apply(left, right).ok_or_else(overflow)
}

fn aggregated(pipeline: &Pipeline, aggregate: Aggregate, rows: &[Vec<Value>]) -> Value {
    let Some(slot) = aggregate.slot() else { return Value::Integer(rows.len() as i128) };
    let present = rows.iter().map(|row| &row[slot.index()]).filter(|value| **value != Value::Null);
    if let Aggregate::Count(_) = aggregate {
        return Value::Integer(present.count() as i128);
    }
    let present: Vec<&Value> = present.collect();
    if present.is_empty() {
        return Value::Null;
    }
    let integers = present.iter().map(|value| if let Value::Integer(value) = value { *value } else { 0 });
    let floats = present.iter().map(|value| if let Value::Float(value) = value { *value } else { 0.0 });
    let value_type = pipeline.slot(slot).value_type;
    match aggregate {
        Aggregate::Minimum(_) => present.into_iter().min().cloned().unwrap_or(Value::Null),
        Aggregate::Maximum(_) => present.into_iter().max().cloned().unwrap_or(Value::Null),
        Aggregate::Sum(_) if value_type.is_float() => Value::Float(floats.fold(0.0, |sum, value| sum + value)),
        _ => {
            let sum = integers.fold(0, i128::wrapping_add);
            Value::Integer(match aggregate {
                Aggregate::Sum(_) if value_type.is_unsigned_integer() => i128::from(sum as u64),
                Aggregate::Sum(_) if value_type.is_integer() => i128::from(sum as i64),
                _ => sum,
            })
        }
    }
}

/// The Arrow type that stands for a type here; timestamps are in nanoseconds.
pub(crate) fn arrow_type(value_type: ValueType) -> DataType {
    match value_type {
        ValueType::Int8 => DataType::Int8,
        ValueType::Int16 => DataType::Int16,
        ValueType::Int32 => DataType::Int32,
        ValueType::Int64 => DataType::Int64,
        ValueType::UInt8 => DataType::UInt8,
        ValueType::UInt16 => DataType::UInt16,
        ValueType::UInt32 => DataType::UInt32,
        ValueType::UInt64 => DataType::UInt64,
        ValueType::Float32 => DataType::Float32,
        ValueType::Float64 => DataType::Float64,
        ValueType::Boolean => DataType::Boolean,
        ValueType::Date => DataType::Date32,
        ValueType::Timestamp => DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None),
        ValueType::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
        ValueType::Text => DataType::Utf8,
    }
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! number {
        ($kind:ty) => {
            i128::from(array.as_primitive::<$kind>().value(row))
        };
    }
    Value::Integer(match array.data_type() {
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => return Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => return Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Date32 => number!(Date32Type),
        DataType::Timestamp(..) => number!(TimestampNanosecondType),
        DataType::Decimal128(..) => number!(Decimal128Type),
        _ => return Value::Text(Arc::from(array.as_string::<i32>().value(row))),
    })
}
