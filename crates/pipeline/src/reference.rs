//! The oracle: what a pipeline means, one row after another over decoded values, knowing nothing of the backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type,
};
use thermocline_column_store::Page;
use thermocline_predicate::Scalar;

use crate::ir::{Aggregate, Expression, Operator, Origin, Pipeline, ProbeKind, Sink, Step, ValueType};
use crate::{PageSource, PipelineError, Value};

/// The rows that a pipeline yields; for one that builds a table its rows, key first. Tables are given like that too.
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
            .map(|info| match info.origin {
                Origin::Column(column) => {
                    let pinned = source.page(row_group, column).unwrap();
                    let page = Page::open((*pinned).as_ref()).unwrap();
                    Some(page.decode(&arrow_type(info.value_type)).unwrap())
                }
                _ => None,
            })
            .collect();
        for row in 0..source.row_count(row_group) {
            let mut values: Vec<Value> =
                columns.iter().map(|column| column.as_ref().map_or(Value::Null, |array| value(array, row))).collect();
            if pass(pipeline, tables, &mut values)? {
                survivors.push(values);
            }
        }
    }
    let pick = |values: &[Value], slots: &[crate::Slot]| -> Vec<Value> {
        slots.iter().map(|slot| values[slot.index()].clone()).collect()
    };
    Ok(match pipeline.sink() {
        Sink::Materialise { columns } => survivors.iter().map(|values| pick(values, columns)).collect(),
        Sink::Build { key, payload, .. } => survivors
            .iter()
            .filter(|values| values[key.index()] != Value::Null)
            .map(|values| [pick(values, &[*key]), pick(values, payload)].concat())
            .collect(),
        Sink::Aggregate { groups, aggregates } => {
            let mut grouped: BTreeMap<Vec<Value>, Vec<Vec<Value>>> = BTreeMap::new();
            if groups.is_empty() {
                grouped.insert(Vec::new(), Vec::new());
            }
            for values in survivors {
                grouped.entry(pick(&values, groups)).or_default().push(values);
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

fn pass(pipeline: &Pipeline, tables: &[Vec<Vec<Value>>], values: &mut [Value]) -> Result<bool, PipelineError> {
    for step in pipeline.steps() {
        match step {
            Step::Filter { slot, domain } => {
                let scalar = match &values[slot.index()] {
                    Value::Null => None,
                    Value::Integer(value) => Some(Scalar::Int(*value)),
                    Value::Text(text) => Some(Scalar::from(&**text)),
                };
                if !domain.contains(scalar.as_ref()) {
                    return Ok(false);
                }
            }
            Step::Probe { table, key, kind, payload } => {
                let key = &values[key.index()];
                if *key == Value::Null {
                    return Ok(false);
                }
                let found: Vec<_> = tables[*table].iter().filter(|row| row[0] == *key).collect();
                let Some(row) = found.first() else { return Ok(false) };
                assert!(*kind == ProbeKind::Semi || found.len() == 1, "the test's tables have unique keys");
                for slot in payload {
                    let Origin::Payload { payload, .. } = pipeline.slot(*slot).origin else { unreachable!() };
                    values[slot.index()] = row[1 + payload].clone();
                }
            }
            Step::Compute { slot, expression } => {
                values[slot.index()] = computed(pipeline, expression, values)?.1.map_or(Value::Null, Value::Integer);
            }
        }
    }
    Ok(true)
}

/// A computed value beside its type.
fn computed(
    pipeline: &Pipeline,
    expression: &Expression,
    values: &[Value],
) -> Result<(ValueType, Option<i128>), PipelineError> {
    let value_type = expression.value_type(pipeline.slots())?;
    let value = match expression {
        Expression::Slot(slot) => match &values[slot.index()] {
            Value::Integer(value) => Some(*value),
            _ => None,
        },
        Expression::Literal { value, .. } => Some(*value),
        Expression::Widen { operand, .. } => computed(pipeline, operand, values)?.1,
        Expression::Binary { operator, operands } => {
            let (left_type, left) = computed(pipeline, &operands.0, values)?;
            let (right_type, right) = computed(pipeline, &operands.1, values)?;
            match left.zip(right) {
                None => None,
                Some((left, right)) => Some(binary(value_type, *operator, (left_type, left), (right_type, right))?),
            }
        }
    };
    Ok((value_type, value))
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
    };
    let (ValueType::Decimal { scale, .. }, ValueType::Decimal { scale: s1, .. }, ValueType::Decimal { scale: s2, .. }) =
        (value_type, left_type, right_type)
    else {
        let (least, greatest) = value_type.range().unwrap();
        let result = apply(left, right).unwrap();
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
    let numbers: Vec<i128> = present
        .map(|value| match value {
            Value::Integer(value) => *value,
            other => panic!("{other} is no number"),
        })
        .collect();
    let sum = || numbers.iter().copied().reduce(i128::wrapping_add);
    let result = match aggregate {
        Aggregate::Minimum(_) => numbers.iter().min().copied(),
        Aggregate::Maximum(_) => numbers.iter().max().copied(),
        Aggregate::Sum(_) if pipeline.slot(slot).value_type.is_integer() => sum().map(|sum| i128::from(sum as i64)),
        _ => sum(),
    };
    result.map_or(Value::Null, Value::Integer)
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
        DataType::Date32 => number!(Date32Type),
        DataType::Timestamp(..) => number!(TimestampNanosecondType),
        DataType::Decimal128(..) => number!(Decimal128Type),
        _ => return Value::Text(Arc::from(array.as_string::<i32>().value(row))),
    })
}
