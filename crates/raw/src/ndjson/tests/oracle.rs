//! What a plan gives on parsed records, value by value.

use arrow::array::{Array, AsArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int64Type, TimestampMillisecondType,
};
use std::sync::Arc;
use thermocline_predicate::{FieldPath, Scalar};

use super::json::{Node, Value, parse};
use crate::{Rows, ScanPlan};

/// One value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Boolean(bool),
    Int(i128),
    /// Bits, so that zeros are told apart.
    Float(u64),
    Text(String),
    List(Vec<Cell>),
    Struct(Vec<Cell>),
    /// A column of elements where a record is kept without any.
    NoElement,
}

/// The value of a node as `data_type`; None where it is of another type.
fn cell(node: Option<&Node>, data_type: &DataType) -> Option<Cell> {
    let Some(node) = node else { return Some(Cell::Null) };
    Some(match (&node.value, data_type) {
        (Value::Null, _) => Cell::Null,
        (Value::String(text), DataType::Utf8) => Cell::Text(text.clone()),
        (_, DataType::Utf8) => Cell::Text(node.text.clone()),
        (Value::Boolean(value), DataType::Boolean) => Cell::Boolean(*value),
        (Value::Number, DataType::Int64 | DataType::Timestamp(..)) => Cell::Int(node.text.parse::<i64>().ok()?.into()),
        (Value::Number, DataType::Int16) => Cell::Int(node.text.parse::<i16>().ok()?.into()),
        (Value::Number, DataType::Date32) => Cell::Int(node.text.parse::<i32>().ok()?.into()),
        (Value::Number, DataType::Float64) => {
            // A number that is too large is no number, rather than infinity.
            Cell::Float(node.text.parse::<f64>().ok().filter(|number| number.is_finite())?.to_bits())
        }
        (Value::Number, DataType::Decimal128(..)) => Cell::Int(cents(&node.text)?),
        (Value::String(text), DataType::Decimal128(..)) => Cell::Int(cents(text)?),
        (Value::List(elements), DataType::List(field)) => {
            Cell::List(elements.iter().map(|element| cell(Some(element), field.data_type())).collect::<Option<_>>()?)
        }
        (Value::Object(_), DataType::Struct(fields)) => Cell::Struct(
            fields.iter().map(|field| cell(node.field(field.name()), field.data_type())).collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

/// `12.3` as 1230; None for more than two digits of fraction other than zeros, or more than ten before it.
fn cents(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.trim_end_matches('0');
    let is_number = (text.contains('.') || !whole.is_empty()) && fraction.chars().all(|digit| digit.is_ascii_digit());
    if !is_number || digits.len() > 2 || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let cents: i128 = format!("{whole}{digits:0<2}").parse().ok()?;
    (cents.abs() < 10_i128.pow(12)).then_some(cents)
}

/// The node at a path through objects; None where it is missing, Err where something else is in the way.
fn at<'a>(node: &'a Node, names: &[Arc<str>]) -> Result<Option<&'a Node>, ()> {
    let mut here = node;
    for name in names {
        match &here.value {
            Value::Object(_) => {}
            Value::Null => return Ok(None),
            _ => return Err(()),
        }
        match here.field(name) {
            Some(below) => here = below,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

fn admits(plan: &ScanPlan, path: &FieldPath, cell: &Cell) -> bool {
    let domain = plan.predicate.domain(path).unwrap();
    let scalar = match cell {
        Cell::Null => return domain.contains(None),
        Cell::Boolean(value) => Scalar::Boolean(*value),
        Cell::Int(value) => Scalar::Int(*value),
        Cell::Float(bits) => Scalar::Float(f64::from_bits(*bits)),
        Cell::Text(text) => Scalar::Utf8(Arc::from(text.as_str())),
        // Of these only NULL and not NULL are asked.
        Cell::List(_) | Cell::Struct(_) | Cell::NoElement => return !domain.intervals().is_empty(),
    };
    domain.contains(Some(&scalar))
}

/// The rows of one record, or one without elements if it is kept without; None when a wanted value is of the wrong
/// type.
fn rows_of(record: &Node, plan: &ScanPlan) -> Option<Vec<Vec<Cell>>> {
    let absent;
    let (list, elements): (Option<&FieldPath>, &[Node]) = match &plan.unnest {
        None => {
            absent = Node { text: "null".to_owned(), value: Value::Null };
            (None, std::slice::from_ref(&absent))
        }
        Some(unnest) => match at(record, unnest.path.parts()).ok()?.map(|node| &node.value) {
            Some(Value::List(elements)) => (Some(&unnest.path), elements),
            Some(Value::Null) | None => (Some(&unnest.path), &[]),
            _ => return None,
        },
    };
    let value = |element: &Node, path: &FieldPath, data_type: &DataType| match list {
        Some(list) if path.starts_with(list) => cell(at(element, &path.parts()[list.len()..]).ok()?, data_type),
        _ => cell(at(record, path.parts()).ok()?, data_type),
    };
    let mut rows = Vec::new();
    for element in elements {
        let mut passes = true;
        for (path, _) in plan.predicate.fields() {
            passes &= admits(plan, path, &value(element, path, plan.type_of(path)?)?);
        }
        let row =
            plan.columns.iter().map(|column| value(element, &column.path, &column.data_type)).collect::<Option<_>>()?;
        if passes {
            rows.push(row);
        }
    }
    if rows.is_empty() && plan.unnest.as_ref().is_some_and(|unnest| unnest.keeps_empty) {
        let of_record = |path: &FieldPath| !list.is_some_and(|list| path.starts_with(list));
        for (path, _) in plan.predicate.fields().filter(|(path, _)| of_record(path)) {
            if !admits(plan, path, &cell(at(record, path.parts()).ok()?, plan.type_of(path)?)?) {
                return Some(rows);
            }
        }
        let row = plan.columns.iter().map(|column| match of_record(&column.path) {
            true => cell(at(record, column.path.parts()).ok()?, &column.data_type),
            false => Some(Cell::NoElement),
        });
        rows.push(row.collect::<Option<_>>()?);
    }
    Some(rows)
}

/// What a plan gives on lines of text: rows, records read, records that are not JSON or of another type.
pub(crate) fn expected(lines: &[&str], plan: &ScanPlan) -> (Vec<Vec<Cell>>, u64, u64) {
    let mut rows = Vec::new();
    let (mut records, mut skipped) = (0, 0);
    for line in lines {
        if line.trim_matches([' ', '\t', '\r']).is_empty() {
            continue;
        }
        let node = parse(line).filter(|node| matches!(node.value, Value::Object(_)));
        match node.and_then(|node| rows_of(&node, plan)) {
            Some(found) => {
                rows.extend(found);
                records += 1;
            }
            None => skipped += 1,
        }
    }
    (rows, records, skipped)
}

/// One value of an array.
fn cell_of(array: &dyn Array, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Boolean => Cell::Boolean(array.as_boolean().value(row)),
        DataType::Int16 => Cell::Int(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int64 => Cell::Int(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Date32 => Cell::Int(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Timestamp(..) => Cell::Int(array.as_primitive::<TimestampMillisecondType>().value(row).into()),
        DataType::Decimal128(..) => Cell::Int(array.as_primitive::<Decimal128Type>().value(row)),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row).to_bits()),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            Cell::List((0..elements.len()).map(|at| cell_of(&elements, at)).collect())
        }
        DataType::Struct(_) => {
            Cell::Struct(array.as_struct().columns().iter().map(|column| cell_of(column, row)).collect())
        }
        other => panic!("no cells of {other}"),
    }
}

/// The rows of a result; of a record without elements one without.
pub(crate) fn cells(rows: &Rows, plan: &ScanPlan) -> Vec<Vec<Cell>> {
    let list = plan.unnest.as_ref().map(|unnest| &unnest.path);
    let is_element = |path: &FieldPath| list.is_none_or(|list| path.starts_with(list));
    let offsets = rows.element_offsets.clone().unwrap_or_else(|| OffsetBuffer::from_repeated_length(1, rows.row_count));
    assert_eq!(offsets.last().copied(), Some(rows.row_count as i32));
    for (column, array) in plan.columns.iter().zip(&rows.columns) {
        assert_eq!(array.len(), if is_element(&column.path) { rows.row_count } else { offsets.len() - 1 });
        array.to_data().validate_full().unwrap();
    }
    let mut found = Vec::new();
    for (record, range) in offsets.windows(2).enumerate() {
        let elements = (range[0]..range[1]).map(|element| Some(element as usize));
        let none = (range[0] == range[1]).then_some(None);
        for element in elements.chain(none) {
            let row = plan.columns.iter().zip(&rows.columns).map(|(column, array)| match element {
                _ if !is_element(&column.path) => cell_of(array, record),
                Some(element) => cell_of(array, element),
                None => Cell::NoElement,
            });
            found.push(row.collect());
        }
    }
    found
}
