//! Decoded rows, and how a column is found in them by path.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, MutableArrayData, StructArray, make_array};
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_predicate::FieldPath;

use crate::request::ColumnSpec;

/// Rows of one file in file order. Cheap to clone: the arrays are shared.
#[derive(Debug, Clone)]
pub struct Rows {
    /// One array per column of the scan, each of `row_count` values.
    pub columns: Vec<ArrayRef>,
    /// Rows that passed the scan's predicate.
    pub row_count: usize,
    /// Records that were read to find them.
    pub record_count: u64,
    /// Bad records that were left out (`on_error = 'skip'`).
    pub skipped_count: u64,
}

impl Rows {
    /// Bytes the arrays hold: the capacity of every buffer and the arrays' own structures.
    pub fn size_bytes(&self) -> u64 {
        let arrays: usize = self.columns.iter().map(|column| column.get_array_memory_size()).sum();
        (arrays + size_of::<Self>() + self.columns.capacity() * size_of::<ArrayRef>()) as u64
    }

    /// Rows `[first, first + count)`, sharing the arrays' buffers; they stand for no records of their own.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let columns = self.columns.iter().map(|column| column.slice(first, count)).collect();
        Self { columns, row_count: count, record_count: 0, skipped_count: 0 }
    }

    /// The same rows in buffers of their own, so that keeping them does not pin a larger allocation. Columns whose
    /// buffers are already about as small as their content are shared, not copied.
    pub(crate) fn into_owned(mut self) -> Self {
        for column in &mut self.columns {
            // An array that fills three quarters of its buffers wastes less than a copy costs.
            let needed_bytes = column.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
            if column.get_buffer_memory_size() > needed_bytes.saturating_add(needed_bytes / 3).saturating_add(1024) {
                let data = column.to_data();
                let mut copy = MutableArrayData::new(vec![&data], false, data.len());
                // Offsets can't overflow: the copy is no longer than what they address already.
                if copy.try_extend(0, 0, data.len()).is_ok() {
                    *column = make_array(copy.freeze());
                    column_shrink(column);
                }
            }
        }
        self.columns.shrink_to_fit();
        self
    }

    /// Several runs of rows as one. Peak memory: the result beside its parts.
    pub(crate) fn concat(parts: &[Arc<Rows>]) -> Result<Rows, ArrowError> {
        let column_count = parts.first().map_or(0, |rows| rows.columns.len());
        let mut columns = Vec::with_capacity(column_count);
        for index in 0..column_count {
            let arrays: Vec<&dyn Array> = parts.iter().map(|rows| rows.columns[index].as_ref()).collect();
            let mut merged = compute::concat(&arrays)?;
            column_shrink(&mut merged);
            columns.push(merged);
        }
        Ok(Rows {
            columns,
            row_count: parts.iter().map(|rows| rows.row_count).sum(),
            record_count: parts.iter().map(|rows| rows.record_count).sum(),
            skipped_count: parts.iter().map(|rows| rows.skipped_count).sum(),
        })
    }
}

/// Gives back what a builder allocated beyond the content; nothing happens to shared buffers.
fn column_shrink(column: &mut ArrayRef) {
    if let Some(column) = Arc::get_mut(column) {
        column.shrink_to_fit();
    }
}

/// Where a wanted column lies: a column of the rows, and the way down through its structs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRoute {
    column: usize,
    children: Vec<usize>,
}

impl ColumnRoute {
    /// The route to `path` among `columns`: itself, or through the deepest struct that is a column. None when neither
    /// is there. Lists are not descended into.
    pub fn find(columns: &[ColumnSpec], path: &FieldPath) -> Option<Self> {
        Self::all(columns, path).max_by_key(|(depth, _)| *depth).map(|(_, route)| route)
    }

    /// Like [`ColumnRoute::find`], and of the wanted type.
    pub fn find_typed(columns: &[ColumnSpec], wanted: &ColumnSpec) -> Option<Self> {
        Self::all(columns, &wanted.path)
            .filter(|(_, route)| route.data_type(columns) == Some(&wanted.data_type))
            .max_by_key(|(depth, _)| *depth)
            .map(|(_, route)| route)
    }

    /// Every route, with the length of the path of the column that it starts at.
    fn all<'a>(columns: &'a [ColumnSpec], path: &'a FieldPath) -> impl Iterator<Item = (usize, Self)> + 'a {
        columns.iter().enumerate().filter_map(move |(column, spec)| {
            let rest = path.starts_with(&spec.path).then(|| path.parts().get(spec.path.len()..)).flatten()?;
            let mut children = Vec::new();
            let mut data_type = &spec.data_type;
            for part in rest {
                let DataType::Struct(fields) = data_type else { return None };
                let child = fields.iter().position(|field| field.name() == part.as_ref())?;
                data_type = fields[child].data_type();
                children.push(child);
            }
            Some((spec.path.len(), Self { column, children }))
        })
    }

    fn data_type<'a>(&self, columns: &'a [ColumnSpec]) -> Option<&'a DataType> {
        let mut data_type = &columns.get(self.column)?.data_type;
        for &child in &self.children {
            let DataType::Struct(fields) = data_type else { return None };
            data_type = fields.get(child)?.data_type();
        }
        Some(data_type)
    }

    /// The column's values. A child of a NULL struct is NULL. None when the rows are not of the columns that the
    /// route was found in.
    pub fn extract(&self, rows: &Rows) -> Option<ArrayRef> {
        let mut array = Arc::clone(rows.columns.get(self.column)?);
        for &child in &self.children {
            let parent = array.as_any().downcast_ref::<StructArray>()?;
            let values = Arc::clone(parent.columns().get(child)?);
            array = match parent.nulls() {
                Some(nulls) if nulls.null_count() > 0 => {
                    let hidden = BooleanArray::new(!nulls.inner(), None);
                    compute::nullif(&values, &hidden).ok()?
                }
                _ => values,
            };
        }
        Some(array)
    }
}
