//! Lists, structs, maps and unions: the children as a whole, then cut up by row.

use std::ops::Range;

use arrow::array::{Array, AsArray, ListLikeArray, MapArray, StructArray};
use arrow::datatypes::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{Values, of_array as of_any, rows};
use crate::errors::InputError;

/// The values of a nested array.
pub(super) fn of_array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::List(_) => lists(py, array.as_list::<i32>()),
        DataType::LargeList(_) => lists(py, array.as_list::<i64>()),
        DataType::ListView(_) => lists(py, array.as_list_view::<i32>()),
        DataType::LargeListView(_) => lists(py, array.as_list_view::<i64>()),
        DataType::FixedSizeList(_, _) => lists(py, array.as_fixed_size_list()),
        DataType::Struct(_) => structs(py, array.as_struct()),
        DataType::Map(_, _) => maps(py, array.as_map()),
        DataType::Union(_, _) => {
            let array = array.as_union();
            (0..array.len()).map(|row| Ok(of_any(py, array.value(row).as_ref())?.swap_remove(0))).collect()
        }
        other => Err(InputError::new_err(format!("type {other} has no Python value"))),
    }
}

fn lists<'py>(py: Python<'py>, array: &impl ListLikeArray) -> PyResult<Values<'py>> {
    let ranges: Vec<_> = (0..array.len()).map(|row| array.element_range(row)).collect();
    let used = span(&ranges);
    let elements = of_any(py, array.values().slice(used.start, used.len()).as_ref())?;
    rows(py, array, |row| Ok(PyList::new(py, &elements[within(&used, &ranges[row])])?.into_any()))
}

fn maps<'py>(py: Python<'py>, array: &MapArray) -> PyResult<Values<'py>> {
    let offsets = array.value_offsets();
    let ranges: Vec<_> = (0..array.len()).map(|row| offsets[row] as usize..offsets[row + 1] as usize).collect();
    let used = span(&ranges);
    let keys = of_any(py, array.keys().slice(used.start, used.len()).as_ref())?;
    let values = of_any(py, array.values().slice(used.start, used.len()).as_ref())?;
    rows(py, array, |row| {
        let map = PyDict::new(py);
        for entry in within(&used, &ranges[row]) {
            map.set_item(&keys[entry], &values[entry])?;
        }
        Ok(map.into_any())
    })
}

fn structs<'py>(py: Python<'py>, array: &StructArray) -> PyResult<Values<'py>> {
    let names: Vec<_> = array.fields().iter().map(|field| PyString::new(py, field.name())).collect();
    let columns = array.columns().iter().map(|column| of_any(py, column.as_ref())).collect::<PyResult<Vec<_>>>()?;
    rows(py, array, |row| {
        let object = PyDict::new(py);
        for (name, column) in names.iter().zip(&columns) {
            object.set_item(name, &column[row])?;
        }
        Ok(object.into_any())
    })
}

/// The part of the children that the rows refer to: of a sliced column most may belong to other rows.
fn span(ranges: &[Range<usize>]) -> Range<usize> {
    let start = ranges.iter().filter(|range| !range.is_empty()).map(|range| range.start).min();
    let end = ranges.iter().filter(|range| !range.is_empty()).map(|range| range.end).max();
    start.unwrap_or(0)..end.unwrap_or(0)
}

/// `range` counted from the start of `used`. Empty ranges may lie outside of it.
fn within(used: &Range<usize>, range: &Range<usize>) -> Range<usize> {
    if range.is_empty() { 0..0 } else { range.start - used.start..range.end - used.start }
}
