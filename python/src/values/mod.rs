//! Arrow columns as Python values.
//!
//! A column is converted as a whole: one look at its type, then a loop; of nested columns the children first. NULL is
//! `None`. What Python's types cannot hold is an error that names the column; only digits beyond microseconds are cut
//! off from times, because `datetime` ends there and `now()` would fail otherwise. What lies hidden beneath a NULL of a
//! struct or a list may be anything, and is not converted: `outer` are the rows that are NULL for that reason.
//!
//! No Python code runs here, but for the first import of a class: no signal's exception is taken for a value's error.

mod nested;
mod time;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::errors::InputError;

/// A value for each row.
pub(super) type Values<'py> = Vec<Bound<'py, PyAny>>;

/// The values of a column of a result.
///
/// # Errors
/// `InputError` that names the column, for a value that Python's types cannot hold.
pub(crate) fn of_column<'py>(py: Python<'py>, name: &str, array: &ArrayRef) -> PyResult<Values<'py>> {
    of_array(py, array.as_ref(), None).map_err(|error| {
        // InputError is a ValueError. Others, such as MemoryError, have nothing to do with the value.
        let is_of_value = error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyOverflowError>(py);
        if !is_of_value {
            return error;
        }
        let said = InputError::new_err(format!("column \"{name}\": {}; arrow() has no such limit", error.value(py)));
        said.set_cause(py, error.cause(py));
        said
    })
}

/// The values of any array, but for rows that are NULL in `outer`.
fn of_array<'py>(py: Python<'py>, array: &dyn Array, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => {
            let array = array.as_boolean();
            rows(py, array, outer, |row| Ok(PyBool::new(py, array.value(row)).to_owned().into_any()))
        }
        DataType::Int8 => integers::<Int8Type>(py, array, outer),
        DataType::Int16 => integers::<Int16Type>(py, array, outer),
        DataType::Int32 => integers::<Int32Type>(py, array, outer),
        DataType::Int64 => integers::<Int64Type>(py, array, outer),
        DataType::UInt8 => integers::<UInt8Type>(py, array, outer),
        DataType::UInt16 => integers::<UInt16Type>(py, array, outer),
        DataType::UInt32 => integers::<UInt32Type>(py, array, outer),
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>();
            rows(py, array, outer, |row| array.value(row).into_bound_py_any(py))
        }
        DataType::Float16 => {
            let array = array.as_primitive::<Float16Type>();
            rows(py, array, outer, |row| Ok(PyFloat::new(py, array.value(row).to_f64()).into_any()))
        }
        DataType::Float32 => floats::<Float32Type>(py, array, outer),
        DataType::Float64 => floats::<Float64Type>(py, array, outer),
        DataType::Decimal32(_, _) => decimals::<Decimal32Type>(py, array, outer),
        DataType::Decimal64(_, _) => decimals::<Decimal64Type>(py, array, outer),
        DataType::Decimal128(_, _) => decimals::<Decimal128Type>(py, array, outer),
        DataType::Decimal256(_, _) => decimals::<Decimal256Type>(py, array, outer),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            rows(py, array, outer, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            rows(py, array, outer, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            rows(py, array, outer, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            rows(py, array, outer, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            rows(py, array, outer, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            rows(py, array, outer, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            rows(py, array, outer, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Interval(_) => time::of_array(py, array, outer),
        DataType::Dictionary(_, value) => of_plain(py, array, outer, value),
        DataType::RunEndEncoded(_, value) => of_plain(py, array, outer, value.data_type()),
        _ => nested::of_array(py, array, outer),
    }
}

/// Encoded columns by way of their plain form.
fn of_plain<'py>(
    py: Python<'py>,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
    value: &DataType,
) -> PyResult<Values<'py>> {
    let plain = if array.is_empty() { new_null_array(value, 0) } else { cast(array, value).map_err(refused)? };
    of_array(py, plain.as_ref(), outer)
}

/// `value` for each row that is NULL neither in `array` nor in `outer`.
fn rows<'py>(
    py: Python<'py>,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    let Some(nulls) = NullBuffer::union(outer, array.nulls()).filter(|nulls| nulls.null_count() > 0) else {
        return (0..array.len()).map(value).collect();
    };
    let none = py.None().into_bound(py);
    (0..array.len()).map(|row| if nulls.is_null(row) { Ok(none.clone()) } else { value(row) }).collect()
}

fn integers<'py, T>(py: Python<'py>, array: &dyn Array, outer: Option<&NullBuffer>) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType<Native: Into<i64>>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, outer, |row| Ok(PyInt::new(py, array.value(row).into()).into_any()))
}

fn floats<'py, T>(py: Python<'py>, array: &dyn Array, outer: Option<&NullBuffer>) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType<Native: Into<f64>>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, outer, |row| Ok(PyFloat::new(py, array.value(row).into()).into_any()))
}

fn decimals<'py, T: DecimalType + ArrowPrimitiveType>(
    py: Python<'py>,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
) -> PyResult<Values<'py>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = DECIMAL.import(py, "decimal", "Decimal")?;
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, outer, |row| class.call1((array.value_as_string(row),)))
}

/// Arrow's refusal as an exception; `of_column` adds the name of the column.
fn refused(error: arrow::error::ArrowError) -> PyErr {
    InputError::new_err(error.to_string())
}
