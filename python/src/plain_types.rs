//! Arrow's types that other libraries don't know, or read wrongly: converted where a plainer type holds the same values,
//! refused where there is none.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Int64Type, IntervalUnit, Schema, SchemaRef, TimeUnit, UInt64Type,
};
use pyo3::PyResult;

use crate::errors::{InputError, InternalError};
use crate::names::repeated;

/// The type to convert to for pandas: its converter knows intervals of months, days and nanoseconds only, and not
/// everywhere, above all not in lists, views of strings and bytes, bytes of one length, decimals of 32 and 64 bits, and
/// runs.
pub(crate) fn for_pandas(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView | DataType::FixedSizeBinary(_) => Some(DataType::Binary),
        DataType::Interval(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        DataType::RunEndEncoded(_, values) => Some(plain_type(values.data_type(), for_pandas)),
        other => wide_decimal(other),
    }
}

/// The type to convert to for polars, which reads decimals of 32 and 64 bits as if they had 128, and multiplies seconds by
/// 1000 without a look at what comes out.
pub(crate) fn for_polars(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone())),
        DataType::Duration(TimeUnit::Second) => Some(DataType::Duration(TimeUnit::Millisecond)),
        other => wide_decimal(other),
    }
}

fn wide_decimal(data_type: &DataType) -> Option<DataType> {
    match *data_type {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            Some(DataType::Decimal128(precision, scale))
        }
        _ => None,
    }
}

/// The batches with the types that `plain` names converted, at any depth.
///
/// # Errors
/// `InputError` that names the column of a value that its new type cannot hold.
pub(crate) fn converted(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    plain: fn(&DataType) -> Option<DataType>,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let fields: Fields = schema.fields().iter().map(|field| plain_field(field, plain)).collect();
    if fields == *schema.fields() {
        return Ok((SchemaRef::clone(schema), batches));
    }
    let schema = SchemaRef::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batches = batches
        .into_iter()
        .map(|batch| {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| cast(column, field)).collect::<PyResult<_>>()?;
            RecordBatch::try_new(SchemaRef::clone(&schema), columns)
                .map_err(|error| InternalError::new_err(error.to_string()))
        })
        .collect::<PyResult<_>>()?;
    Ok((schema, batches))
}

fn cast(column: &ArrayRef, to: &Field) -> PyResult<ArrayRef> {
    // What does not fit is an error, not a NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to.data_type(), &options).map_err(|error| {
        InputError::new_err(format!(
            "column \"{}\": a value of type {} does not fit {}: {error}; arrow() has no such limit",
            to.name(),
            column.data_type(),
            to.data_type()
        ))
    })
}

fn plain_field(field: &FieldRef, plain: fn(&DataType) -> Option<DataType>) -> FieldRef {
    FieldRef::new(field.as_ref().clone().with_data_type(plain_type(field.data_type(), plain)))
}

fn plain_type(data_type: &DataType, plain: fn(&DataType) -> Option<DataType>) -> DataType {
    match data_type {
        DataType::List(element) => DataType::List(plain_field(element, plain)),
        DataType::LargeList(element) => DataType::LargeList(plain_field(element, plain)),
        DataType::ListView(element) => DataType::ListView(plain_field(element, plain)),
        DataType::LargeListView(element) => DataType::LargeListView(plain_field(element, plain)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(plain_field(element, plain), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain_field(field, plain)).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(plain_field(entries, plain), *is_sorted),
        DataType::Dictionary(key, value) => DataType::Dictionary(key.clone(), Box::new(plain_type(value, plain))),
        other => plain(other).unwrap_or_else(|| other.clone()),
    }
}

/// Refuses columns that pandas has no type for, and those that it would get wrongly.
///
/// # Errors
/// `InputError` that names the column.
pub(crate) fn check_for_pandas(schema: &Schema) -> PyResult<()> {
    check(schema, |data_type| match data_type {
        DataType::Union(_, _) => Some(format!("pandas has no type for {data_type}")),
        other => repeated_fields(other),
    })
}

/// Refuses columns that polars has no type for, at which it panics, and those that it would get wrongly.
///
/// # Errors
/// `InputError` that names the column.
pub(crate) fn check_for_polars(schema: &Schema) -> PyResult<()> {
    check(schema, |data_type| match data_type {
        DataType::Interval(_)
        | DataType::Union(_, _)
        | DataType::Decimal256(_, _)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(_, _) => Some(format!("polars has no type for {data_type}")),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale)
            if *scale < 0 =>
        {
            Some(format!("polars has no type for {data_type}, whose scale is negative"))
        }
        other => repeated_fields(other),
    })
}

/// Refuses integers that pandas would change without a word: where there are NULLs among them, at any depth, it makes
/// floats of all of them.
///
/// # Errors
/// `InputError` that names the column and the integer.
pub(crate) fn check_integers_for_pandas(schema: &Schema, batches: &[RecordBatch]) -> PyResult<()> {
    for (index, field) in schema.fields().iter().enumerate() {
        let chunks: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(index))).collect();
        if let Some(integer) = first_changed(&chunks) {
            return Err(InputError::new_err(format!(
                "column \"{}\": pandas holds integers among NULLs as floats, and no float is {integer}; arrow() has no \
                 such limit",
                field.name()
            )));
        }
    }
    Ok(())
}

/// The first integer of a column that no float is, if the column has a NULL beside it.
fn first_changed(chunks: &[ArrayRef]) -> Option<String> {
    let children: Vec<Vec<ArrayRef>> = match chunks.first()?.data_type() {
        DataType::Int64 => {
            return first_among_nulls::<Int64Type>(chunks, |value| value as f64 as i128 != i128::from(value));
        }
        DataType::UInt64 => {
            return first_among_nulls::<UInt64Type>(chunks, |value| value as f64 as u128 != u128::from(value));
        }
        _ => chunks.iter().map(children).collect(),
    };
    (0..children.first()?.len()).find_map(|child| {
        let chunks: Vec<ArrayRef> = children.iter().map(|children| Arc::clone(&children[child])).collect();
        first_changed(&chunks)
    })
}

fn first_among_nulls<T: ArrowPrimitiveType>(chunks: &[ArrayRef], is_meant: fn(T::Native) -> bool) -> Option<String> {
    if chunks.iter().all(|chunk| chunk.null_count() == 0) {
        return None;
    }
    let mut values = chunks.iter().flat_map(|chunk| chunk.as_primitive::<T>().iter().flatten());
    values.find(|&value| is_meant(value)).map(|value| format!("{value:?}"))
}

/// The arrays within an array that pandas' converter looks into, as many for each array of a type.
fn children(array: &ArrayRef) -> Vec<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            vec![used(list.values(), list.offsets())]
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            vec![used(list.values(), list.offsets())]
        }
        DataType::ListView(_) => vec![Arc::clone(array.as_list_view::<i32>().values())],
        DataType::LargeListView(_) => vec![Arc::clone(array.as_list_view::<i64>().values())],
        DataType::FixedSizeList(_, _) => vec![Arc::clone(array.as_fixed_size_list().values())],
        DataType::Map(_, _) => {
            let map = array.as_map();
            vec![used(map.keys(), map.offsets()), used(map.values(), map.offsets())]
        }
        DataType::Struct(_) => array.as_struct().columns().to_vec(),
        _ => Vec::new(),
    }
}

/// The elements that a slice of lists has.
fn used<O: OffsetSizeTrait>(elements: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let (start, end) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    elements.slice(start, end - start)
}

fn repeated_fields(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Struct(fields) => repeated(fields).map(|names| format!("a struct has several fields named {names}")),
        _ => None,
    }
}

/// Refuses a schema if a type in it, at any depth, is wrong for the reason that `wrong` tells.
fn check(schema: &Schema, wrong: fn(&DataType) -> Option<String>) -> PyResult<()> {
    for field in schema.fields() {
        if let Some(reason) = first_wrong(field.data_type(), wrong) {
            return Err(InputError::new_err(format!(
                "column \"{}\": {reason}; arrow() has no such limit",
                field.name()
            )));
        }
    }
    Ok(())
}

fn first_wrong(data_type: &DataType, wrong: fn(&DataType) -> Option<String>) -> Option<String> {
    let within = |field: &FieldRef| first_wrong(field.data_type(), wrong);
    wrong(data_type).or_else(|| match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::Map(element, _)
        | DataType::RunEndEncoded(_, element) => within(element),
        DataType::Struct(fields) => fields.iter().find_map(within),
        DataType::Union(fields, _) => fields.iter().find_map(|(_, field)| within(field)),
        DataType::Dictionary(_, value) => first_wrong(value, wrong),
        _ => None,
    })
}
