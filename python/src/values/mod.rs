//! Arrow columns as Python values.
//!
//! A column is converted as a whole: one look at its type, then a loop; of nested columns the children first. NULL is
//! `None`. What Python's types cannot hold is an error that names the column; only digits beyond microseconds are cut
//! off from times, because `datetime` ends there and `now()` would fail otherwise.

mod nested;
mod time;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyType};

use crate::errors::InputError;

/// A value for each row.
pub(super) type Values<'py> = Vec<Bound<'py, PyAny>>;

/// The values of a column of a result.
///
/// # Errors
/// `InputError` that names the column.
pub(crate) fn of_column<'py>(py: Python<'py>, name: &str, array: &ArrayRef) -> PyResult<Values<'py>> {
    of_array(py, array.as_ref()).map_err(|error| {
        let said = InputError::new_err(format!("column \"{name}\": {}; arrow() has no such limit", error.value(py)));
        said.set_cause(py, error.cause(py));
        said
    })
}

/// The values of any array.
fn of_array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => {
            let array = array.as_boolean();
            rows(py, array, |row| Ok(PyBool::new(py, array.value(row)).to_owned().into_any()))
        }
        DataType::Int8 => integers::<Int8Type>(py, array),
        DataType::Int16 => integers::<Int16Type>(py, array),
        DataType::Int32 => integers::<Int32Type>(py, array),
        DataType::Int64 => integers::<Int64Type>(py, array),
        DataType::UInt8 => integers::<UInt8Type>(py, array),
        DataType::UInt16 => integers::<UInt16Type>(py, array),
        DataType::UInt32 => integers::<UInt32Type>(py, array),
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>();
            rows(py, array, |row| array.value(row).into_bound_py_any(py))
        }
        DataType::Float16 => {
            let array = array.as_primitive::<Float16Type>();
            rows(py, array, |row| Ok(PyFloat::new(py, array.value(row).to_f64()).into_any()))
        }
        DataType::Float32 => floats::<Float32Type>(py, array),
        DataType::Float64 => floats::<Float64Type>(py, array),
        DataType::Decimal32(_, _) => decimals::<Decimal32Type>(py, array),
        DataType::Decimal64(_, _) => decimals::<Decimal64Type>(py, array),
        DataType::Decimal128(_, _) => decimals::<Decimal128Type>(py, array),
        DataType::Decimal256(_, _) => decimals::<Decimal256Type>(py, array),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            rows(py, array, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            rows(py, array, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            rows(py, array, |row| Ok(PyString::new(py, array.value(row)).into_any()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            rows(py, array, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            rows(py, array, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            rows(py, array, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            rows(py, array, |row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Interval(_) => time::of_array(py, array),
        DataType::Dictionary(_, value) => of_plain(py, array, value),
        DataType::RunEndEncoded(_, value) => of_plain(py, array, value.data_type()),
        _ => nested::of_array(py, array),
    }
}

/// Encoded columns by way of their plain form.
fn of_plain<'py>(py: Python<'py>, array: &dyn Array, value: &DataType) -> PyResult<Values<'py>> {
    let plain = if array.is_empty() { new_null_array(value, 0) } else { cast(array, value).map_err(refused)? };
    of_array(py, plain.as_ref())
}

/// `value` for each row that is not NULL.
fn rows<'py>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    if array.null_count() == 0 {
        return (0..array.len()).map(value).collect();
    }
    let none = py.None().into_bound(py);
    (0..array.len()).map(|row| if array.is_null(row) { Ok(none.clone()) } else { value(row) }).collect()
}

fn integers<'py, T>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType<Native: Into<i64>>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, |row| Ok(PyInt::new(py, array.value(row).into()).into_any()))
}

fn floats<'py, T>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>>
where
    T: ArrowPrimitiveType<Native: Into<f64>>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, |row| Ok(PyFloat::new(py, array.value(row).into()).into_any()))
}

fn decimals<'py, T: DecimalType + ArrowPrimitiveType>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = DECIMAL.import(py, "decimal", "Decimal")?;
    let array: &PrimitiveArray<T> = array.as_primitive();
    rows(py, array, |row| class.call1((array.value_as_string(row),)))
}

/// Arrow's refusal as an exception; `of_column` adds the name of the column.
fn refused(error: arrow::error::ArrowError) -> PyErr {
    InputError::new_err(error.to_string())
}
