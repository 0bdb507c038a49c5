//! Lists, structs, maps and unions: the children as a whole, then cut up by row.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, ListLikeArray, MapArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{Values, of_array as of_any, rows};
use crate::errors::InputError;
use crate::names::repeated;

/// The values of a nested array.
pub(super) fn of_array<'py>(py: Python<'py>, array: &dyn Array, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::List(_) => lists(py, array.as_list::<i32>(), outer),
        DataType::LargeList(_) => lists(py, array.as_list::<i64>(), outer),
        DataType::ListView(_) => lists(py, array.as_list_view::<i32>(), outer),
        DataType::LargeListView(_) => lists(py, array.as_list_view::<i64>(), outer),
        DataType::FixedSizeList(_, _) => lists(py, array.as_fixed_size_list(), outer),
        DataType::Struct(_) => structs(py, array.as_struct(), outer),
        DataType::Map(_, _) => maps(py, array.as_map(), outer),
        DataType::Union(_, _) => {
            let array = array.as_union();
            rows(py, array, outer, |row| Ok(of_any(py, array.value(row).as_ref(), None)?.swap_remove(0)))
        }
        other => Err(InputError::new_err(format!("type {other} has no Python value"))),
    }
}

fn lists<'py>(py: Python<'py>, array: &impl ListLikeArray, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    let asked = Asked::new(array, outer, |row| array.element_range(row));
    let elements = asked.values(py, array.values())?;
    rows(py, array, outer, |row| Ok(PyList::new(py, &elements[asked.of_row(row)])?.into_any()))
}

fn maps<'py>(py: Python<'py>, array: &MapArray, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    let offsets = array.value_offsets();
    let asked = Asked::new(array, outer, |row| offsets[row] as usize..offsets[row + 1] as usize);
    let keys = asked.values(py, array.keys())?;
    let values = asked.values(py, array.values())?;
    rows(py, array, outer, |row| {
        let map = PyDict::new(py);
        let entries = asked.of_row(row);
        for entry in entries.clone() {
            map.set_item(&keys[entry], &values[entry])?;
            // Else a value would be lost.
            if map.len() <= entry - entries.start {
                let key = keys[entry].repr()?;
                return Err(InputError::new_err(format!("a map has the key {key} twice, a dict has it once")));
            }
        }
        Ok(map.into_any())
    })
}

fn structs<'py>(py: Python<'py>, array: &StructArray, outer: Option<&NullBuffer>) -> PyResult<Values<'py>> {
    let names: Vec<_> = array.fields().iter().map(|field| PyString::new(py, field.name())).collect();
    let repeated = repeated(array.fields());
    let outer = NullBuffer::union(outer, array.nulls());
    let column = |column: &ArrayRef| of_any(py, column.as_ref(), outer.as_ref());
    let columns = array.columns().iter().map(column).collect::<PyResult<Vec<_>>>()?;
    rows(py, array, outer.as_ref(), |row| {
        if let Some(names) = &repeated {
            return Err(InputError::new_err(format!("a struct has several fields named {names}, a dict has one")));
        }
        let object = PyDict::new(py);
        for (name, column) in names.iter().zip(&columns) {
            object.set_item(name, &column[row])?;
        }
        Ok(object.into_any())
    })
}

/// The part of the children that rows refer to which are not NULL: of a sliced column most may belong to other rows.
struct Asked {
    /// Of each row, nothing where it is NULL.
    ranges: Vec<Range<usize>>,
    /// From the first to the last child.
    span: Range<usize>,
    /// The children of the span between those of the rows, as NULLs.
    between: Option<NullBuffer>,
}

impl Asked {
    fn new(array: &dyn Array, outer: Option<&NullBuffer>, range: impl Fn(usize) -> Range<usize>) -> Self {
        let nulls = NullBuffer::union(outer, array.nulls());
        let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let ranges: Vec<_> = (0..array.len()).map(|row| if is_null(row) { 0..0 } else { range(row) }).collect();
        let filled = || ranges.iter().filter(|range| !range.is_empty());
        let start = filled().map(|range| range.start).min().unwrap_or(0);
        let span = start..filled().map(|range| range.end).max().unwrap_or(0);
        let mut is_asked = BooleanBufferBuilder::new(span.len());
        is_asked.append_n(span.len(), false);
        for child in filled().cloned().flatten() {
            is_asked.set_bit(child - start, true);
        }
        let between = Some(NullBuffer::new(is_asked.finish())).filter(|nulls| nulls.null_count() > 0);
        Self { ranges, span, between }
    }

    /// The values of the span.
    fn values<'py>(&self, py: Python<'py>, children: &dyn Array) -> PyResult<Values<'py>> {
        of_any(py, children.slice(self.span.start, self.span.len()).as_ref(), self.between.as_ref())
    }

    /// Where the children of a row are among these values. Empty ranges may lie outside of the span.
    fn of_row(&self, row: usize) -> Range<usize> {
        match &self.ranges[row] {
            range if range.is_empty() => 0..0,
            range => range.start - self.span.start..range.end - self.span.start,
        }
    }
}
