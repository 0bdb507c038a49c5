//! Decoded rows, and how a column is found in them by path.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, MutableArrayData, StructArray, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_narrow::{concat, narrow};
use thermocline_predicate::FieldPath;
use thermocline_raw::{MapPiece, RecordPositions};

use crate::request::ColumnSpec;

/// Rows of one file in file order. Cheap to clone: the arrays are shared.
///
/// Where a list is unnested, its elements are the rows, and what stands beside the list in a record is held once for
/// each record: such rows are sliced, and aligned with others, by record.
#[derive(Debug, Clone)]
pub struct Rows {
    /// One array per column of the scan, each of `row_count` values, but for columns of records where there are
    /// elements: those have [`entry_count`](Self::entry_count) values. Of rows that are kept they may be narrow forms of
    /// the columns' types (`thermocline_narrow`); a [`Cut`](crate::Cut) widens what it takes of them.
    pub columns: Vec<ArrayRef>,
    /// Which rows belong to which record, where a list is unnested.
    pub elements: Option<Elements>,
    /// Rows that passed the scan's predicate.
    pub row_count: usize,
    /// Records that were read to find them.
    pub record_count: u64,
    /// Bad records that were left out (`on_error = 'skip'`).
    pub skipped_count: u64,
    /// Where the records begin that gave rows, or are kept without: for a whole morsel, if the scan
    /// [notes them](crate::ScanSpec::notes_positions). The scan takes them; who reads its rows finds none.
    pub positions: Option<RecordPositions>,
    /// What a whole morsel adds to a map of the file, if the scan [makes one](crate::ScanSpec::makes_map). The scan
    /// takes it.
    pub map_piece: Option<MapPiece>,
}

/// How the rows that are elements of a list belong to records.
#[derive(Debug, Clone)]
pub struct Elements {
    /// The rows of record `i` begin at number `offsets[i] - offsets[0]` and end before `offsets[i + 1] - offsets[0]`.
    pub offsets: OffsetBuffer<i32>,
    /// By column: whether it holds a value for each element rather than for each record.
    pub is_element: Arc<[bool]>,
}

impl Elements {
    /// Records with and without elements.
    pub fn record_count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows of record `record`, by number.
    pub fn rows_of(&self, record: usize) -> Range<usize> {
        let first = self.offsets[0];
        (self.offsets[record] - first) as usize..(self.offsets[record + 1] - first) as usize
    }

    /// Records `[first, first + count)`.
    fn slice(&self, first: usize, count: usize) -> Self {
        Self { offsets: self.offsets.slice(first, count), is_element: Arc::clone(&self.is_element) }
    }

    /// Whether the records have as many elements each as those of `other`.
    pub(crate) fn is_same_shape(&self, other: &Self) -> bool {
        let shift = other.offsets[0] - self.offsets[0];
        self.offsets.len() == other.offsets.len()
            && self.offsets.iter().zip(other.offsets.iter()).all(|(own, other)| own + shift == *other)
    }
}

/// By column: whether it belongs to the elements of `list`.
pub fn element_columns(columns: &[ColumnSpec], list: &FieldPath) -> Arc<[bool]> {
    columns.iter().map(|column| column.path.starts_with(list)).collect()
}

impl Rows {
    /// What is sliced and counted alike in all that is laid beside these rows: records where there are elements, else
    /// rows.
    pub fn entry_count(&self) -> usize {
        self.elements.as_ref().map_or(self.row_count, Elements::record_count)
    }

    /// Whether column `index` has a value for each entry; otherwise it has one for each of an entry's elements.
    pub(crate) fn is_of_entry(&self, index: usize) -> bool {
        self.elements.as_ref().is_none_or(|elements| !elements.is_element[index])
    }

    /// Bytes the arrays hold: the capacity of every buffer and the arrays' own structures.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes_of(|_| true)
    }

    /// The same without the arrays of other columns than these.
    pub(crate) fn size_bytes_of(&self, is_counted: impl Fn(usize) -> bool) -> u64 {
        let counted = self.columns.iter().enumerate().filter(|(index, _)| is_counted(*index));
        let arrays: usize = counted.map(|(_, column)| column.get_array_memory_size()).sum();
        let offsets = self.elements.as_ref().map_or(0, |elements| elements.offsets.inner().inner().capacity());
        (arrays + offsets + size_of::<Self>() + self.columns.capacity() * size_of::<ArrayRef>()) as u64
    }

    /// The same rows with other columns, where there are no elements.
    pub(crate) fn with_columns(&self, columns: Vec<ArrayRef>) -> Self {
        Self {
            columns,
            elements: None,
            row_count: self.row_count,
            record_count: self.record_count,
            skipped_count: self.skipped_count,
            positions: None,
            map_piece: None,
        }
    }

    /// The rows of `count` entries from number `first` on.
    fn rows_of_entries(&self, first: usize, count: usize) -> Range<usize> {
        match &self.elements {
            None => first..first + count,
            Some(_) if count == 0 => 0..0,
            Some(elements) => elements.rows_of(first).start..elements.rows_of(first + count - 1).end,
        }
    }

    /// What the `wanted` routes lead to of some entries, in their order, sharing the arrays' buffers.
    ///
    /// # Errors
    /// Routes of other rows.
    pub(crate) fn slice_of(&self, wanted: &[ColumnRoute], entries: Range<usize>) -> Result<Self, ArrowError> {
        let rows = self.rows_of_entries(entries.start, entries.len());
        let columns = wanted.iter().map(|route| {
            let range = if self.is_of_entry(route.column()) { &entries } else { &rows };
            let column = self.columns.get(route.column()).map(|column| column.slice(range.start, range.len()));
            let found = column.and_then(|column| route.follow(&column));
            found.ok_or_else(|| ArrowError::InvalidArgumentError("a column of other rows".to_owned()))
        });
        let elements = self.elements.as_ref().map(|elements| Elements {
            offsets: elements.offsets.slice(entries.start, entries.len()),
            is_element: wanted.iter().map(|route| elements.is_element[route.column()]).collect(),
        });
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            elements,
            row_count: rows.len(),
            record_count: 0,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    }

    /// Entries `[first, first + count)`, sharing the arrays' buffers; they stand for no records that were read.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let elements = self.elements.as_ref().map(|elements| elements.slice(first, count));
        let rows = self.rows_of_entries(first, count);
        let columns = self.columns.iter().enumerate().map(|(index, column)| match self.is_of_entry(index) {
            true => column.slice(first, count),
            false => column.slice(rows.start, rows.len()),
        });
        Self {
            columns: columns.collect(),
            elements,
            row_count: rows.len(),
            record_count: 0,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        }
    }

    /// Rows `[rows.start, rows.end)`, which are elements, of some of their records: all that they belong to, and records
    /// in part. They share the arrays' buffers.
    pub(crate) fn slice_elements(&self, elements: &Elements, rows: Range<usize>, records: Range<usize>) -> Self {
        let columns = self.columns.iter().zip(elements.is_element.iter()).map(|(column, is_element)| {
            let range = if *is_element { &rows } else { &records };
            column.slice(range.start, range.len())
        });
        let offsets = if rows == (0..self.row_count) && records == (0..elements.record_count()) {
            elements.offsets.clone()
        } else {
            let first = elements.offsets[0];
            let (start, end) = (first + rows.start as i32, first + rows.end as i32);
            let offsets = elements.offsets[records.start..=records.end].iter();
            // They ascend, within the range too.
            OffsetBuffer::new(offsets.map(|offset| (*offset).clamp(start, end)).collect())
        };
        Self {
            columns: columns.collect(),
            elements: Some(Elements { offsets, is_element: Arc::clone(&elements.is_element) }),
            row_count: rows.len(),
            record_count: 0,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        }
    }

    /// The same rows in buffers of their own, so that keeping them does not pin a larger allocation. Columns whose
    /// buffers are already about as small as their content are shared, not copied.
    pub(crate) fn into_owned(self) -> Self {
        self.into_owned_of(|_| true)
    }

    fn into_owned_of(mut self, is_own: impl Fn(usize) -> bool) -> Self {
        for (_, column) in self.columns.iter_mut().enumerate().filter(|(index, _)| is_own(*index)) {
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

    /// The same rows to be kept: the columns, which are of these types or narrow forms of them, each in its narrowest
    /// form or in a buffer of its own; but for those that are not their own, which stay as they are.
    pub(crate) fn into_kept(mut self, columns: &[ColumnSpec], is_own: impl Fn(usize) -> bool) -> Self {
        for (index, (column, spec)) in self.columns.iter_mut().zip(columns).enumerate() {
            if is_own(index)
                && *column.data_type() == spec.data_type
                && let Some(form) = narrow(column)
            {
                *column = form;
            }
        }
        self.into_owned_of(is_own)
    }

    /// Several runs of rows as one. Peak memory: the result beside its parts.
    pub(crate) fn concat(parts: &[Arc<Rows>]) -> Result<Rows, ArrowError> {
        Self::concat_beside(parts, |_| None)
    }

    /// The same, but that columns which `lent` has a whole array of are that.
    pub(crate) fn concat_beside(
        parts: &[Arc<Rows>],
        lent: impl Fn(usize) -> Option<ArrayRef>,
    ) -> Result<Rows, ArrowError> {
        let column_count = parts.first().map_or(0, |rows| rows.columns.len());
        let mut columns = Vec::with_capacity(column_count);
        for index in 0..column_count {
            if let Some(whole) = lent(index) {
                columns.push(whole);
                continue;
            }
            let arrays: Vec<&ArrayRef> = parts.iter().map(|rows| &rows.columns[index]).collect();
            let mut merged = concat(&arrays)?;
            column_shrink(&mut merged);
            columns.push(merged);
        }
        let is_element =
            parts.first().and_then(|rows| rows.elements.as_ref()).map(|first| Arc::clone(&first.is_element));
        let elements = match is_element {
            None => None,
            Some(is_element) => {
                let shapes = parts.iter().filter_map(|rows| rows.elements.as_ref());
                let lengths: Vec<usize> = shapes.flat_map(|elements| elements.offsets.lengths()).collect();
                let total: usize = lengths.iter().sum();
                i32::try_from(total).map_err(|_| ArrowError::OffsetOverflowError(total))?;
                Some(Elements { offsets: OffsetBuffer::from_lengths(lengths), is_element })
            }
        };
        Ok(Rows {
            columns,
            elements,
            row_count: parts.iter().map(|rows| rows.row_count).sum(),
            record_count: parts.iter().map(|rows| rows.record_count).sum(),
            skipped_count: parts.iter().map(|rows| rows.skipped_count).sum(),
            positions: None,
            map_piece: None,
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
    /// The column that the way begins at.
    pub(crate) fn column(&self) -> usize {
        self.column
    }

    /// The route to `path` among `columns`: itself, or through the deepest struct that is a column. None when neither
    /// is there. Lists are not descended into.
    pub fn find(columns: &[ColumnSpec], path: &FieldPath) -> Option<Self> {
        Self::all(columns, path).max_by_key(|(depth, _)| *depth).map(|(_, route)| route)
    }

    /// Like [`ColumnRoute::find`], but through no column of the elements of `list`.
    pub(crate) fn find_outside(columns: &[ColumnSpec], list: Option<&FieldPath>, path: &FieldPath) -> Option<Self> {
        let is_outside = |route: &Self| list.is_none_or(|list| !columns[route.column].path.starts_with(list));
        let routes = Self::all(columns, path).filter(|(_, route)| is_outside(route));
        routes.max_by_key(|(depth, _)| *depth).map(|(_, route)| route)
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

    /// The way down from the column, by numbers of fields.
    pub(crate) fn children(&self) -> &[usize] {
        &self.children
    }

    /// A column itself.
    pub(crate) fn whole(column: usize) -> Self {
        Self { column, children: Vec::new() }
    }

    pub(crate) fn data_type<'a>(&self, columns: &'a [ColumnSpec]) -> Option<&'a DataType> {
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
        self.follow(rows.columns.get(self.column)?)
    }

    /// The wanted values out of the column that the way begins at.
    pub(crate) fn follow(&self, column: &ArrayRef) -> Option<ArrayRef> {
        let mut array = Arc::clone(column);
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
