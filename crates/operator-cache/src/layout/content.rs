//! The rows of a chunk in whichever layout they have.
//!
//! **Owns**: the way from rows as scans deliver them to each layout, and back; how a chunk is cut into pieces for its
//! readers. **Does not own**: which layout an item should have (`placement`), when it is converted (the cache), what a
//! query takes out of rows (`cut`).
//!
//! **Invariant**: whatever the layout, the rows and records that went in come out, in their order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use thermocline_hardware::Clock;
use thermocline_placement::operator_cache::layout::Layout;

use super::ReadTimes;
use super::flat::{FlatRecords, FlatRows};
use super::row_wise::RowBlock;
use super::striped::StripedColumn;
use crate::cut::View;
use crate::rows::{ColumnRoute, Elements, Rows};

/// Rows read at once, about: the columns of a typical query then fit the second-level cache.
pub(crate) const PIECE_ROWS: usize = 16 * 1024;

/// Entries of each piece of so many, which have so many rows: even ones of about [`PIECE_ROWS`] rows, at most half as
/// many again. A short piece behind full ones would cost nearly what they do.
pub(crate) fn piece_entries(entry_count: usize, row_count: usize) -> usize {
    let piece_count = (row_count.max(entry_count) + PIECE_ROWS / 2) / PIECE_ROWS;
    entry_count.div_ceil(piece_count.max(1)).max(1)
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Content {
    /// As scans deliver them: Arrow's arrays, each record once.
    Arrays(Arc<Rows>),
    /// One row for each element.
    Flat(FlatRows),
    /// Values with levels.
    Striped(StripedRows),
    /// Flat rows, one after the other.
    RowWise(RowWiseRows),
}

/// Dremel's layout of records.
#[derive(Debug)]
pub(crate) struct StripedRows {
    /// Columns of elements are lists, one for each record.
    columns: Vec<StripedColumn>,
    /// The list alone, where it is unnested and no column is its elements'.
    bare_list: Option<StripedColumn>,
    /// By column, where a list is unnested: whether it belongs to the elements.
    is_element: Option<Arc<[bool]>>,
    record_count: usize,
    row_count: usize,
}

/// Flat rows whose values lie row after row.
#[derive(Debug)]
pub(crate) struct RowWiseRows {
    pub(crate) block: RowBlock,
    column_count: usize,
    pub(crate) records: Option<FlatRecords>,
    entry_count: usize,
}

/// All values of a column, in no particular order.
pub(crate) struct ColumnValues {
    pub(crate) array: ArrayRef,
    /// Whether some are missing that are not NULLs of the array.
    pub(crate) lacks_some: bool,
}

impl Content {
    /// About what it takes to have rows in a layout, found before anything is made.
    pub(crate) fn foretold_bytes(rows: &Rows, layout: Layout) -> u64 {
        match layout {
            Layout::Nested | Layout::Striped => rows.size_bytes(),
            Layout::Flat => FlatRows::foretold_bytes(rows),
            // Made of flat rows, which are there meanwhile; without a list those are the rows themselves.
            Layout::RowWise if rows.elements.is_some() => FlatRows::foretold_bytes(rows).saturating_mul(2),
            Layout::RowWise => rows.size_bytes(),
        }
    }

    /// Rows in a layout.
    ///
    /// # Errors
    /// Arrow's limits, types that a layout does not know.
    pub(crate) fn of(rows: &Arc<Rows>, layout: Layout) -> Result<Self, ArrowError> {
        Ok(match layout {
            Layout::Nested => Self::Arrays(Arc::clone(rows)),
            // Without a list there is nothing to flatten.
            Layout::Flat if rows.elements.is_none() => Self::Arrays(Arc::clone(rows)),
            Layout::Flat => Self::Flat(FlatRows::of(rows)?),
            Layout::Striped => Self::Striped(StripedRows::of(rows)?),
            Layout::RowWise => {
                let flat = FlatRows::of(rows)?;
                Self::RowWise(RowWiseRows {
                    block: RowBlock::from_columns(&flat.columns, flat.row_count)?,
                    column_count: flat.columns.len(),
                    entry_count: rows.entry_count(),
                    records: flat.records,
                })
            }
        })
    }

    /// The rows, if they are as scans deliver them.
    pub(crate) fn as_arrays(&self) -> Option<&Arc<Rows>> {
        if let Self::Arrays(rows) = self { Some(rows) } else { None }
    }

    /// Columns of records and of elements.
    pub(crate) fn column_count(&self) -> usize {
        match self {
            Self::Arrays(rows) => rows.columns.len(),
            Self::Flat(flat) => flat.columns.len(),
            Self::Striped(striped) => striped.columns.len(),
            Self::RowWise(rows) => rows.column_count,
        }
    }

    /// The values of a column. `None` of columns of more than one field in stripes. Of rows they are copied.
    pub(crate) fn values(&self, column: usize) -> Option<ColumnValues> {
        let whole = |array| ColumnValues { array, lacks_some: false };
        match self {
            Self::Arrays(rows) => rows.columns.get(column).cloned().map(whole),
            Self::Flat(flat) => flat.columns.get(column).cloned().map(whole),
            Self::Striped(striped) => striped.columns.get(column)?.values(),
            Self::RowWise(rows) => rows.block.column(column, None).ok().map(whole),
        }
    }

    /// The layout. Rows of records without a list are flat as they are.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Arrays(rows) if rows.elements.is_some() => Layout::Nested,
            Self::Arrays(_) | Self::Flat(_) => Layout::Flat,
            Self::Striped(_) => Layout::Striped,
            Self::RowWise(_) => Layout::RowWise,
        }
    }

    /// Records, where a list is unnested; else rows.
    pub(crate) fn entry_count(&self) -> usize {
        match self {
            Self::Arrays(rows) => rows.entry_count(),
            Self::Flat(flat) => flat.entry_count(),
            Self::Striped(striped) => striped.record_count,
            Self::RowWise(rows) => rows.entry_count,
        }
    }

    /// Elements, where a list is unnested; else rows.
    pub(crate) fn row_count(&self) -> usize {
        match self {
            Self::Arrays(rows) => rows.row_count,
            Self::Flat(flat) => flat.element_count(),
            Self::Striped(striped) => striped.row_count,
            Self::RowWise(rows) => rows.records.as_ref().map_or(rows.entry_count, |records| {
                records.is_element.as_ref().map_or(rows.block.row_count(), |is_element| is_element.count_set_bits())
            }),
        }
    }

    /// Bytes held.
    pub(crate) fn size_bytes(&self) -> u64 {
        let body = match self {
            Self::Arrays(rows) => rows.size_bytes(),
            Self::Flat(flat) => {
                let arrays: usize = flat.columns.iter().map(|column| column.get_array_memory_size()).sum();
                arrays as u64 + flat.records.as_ref().map_or(0, FlatRecords::size_bytes)
            }
            Self::Striped(striped) => {
                striped.columns.iter().chain(&striped.bare_list).map(StripedColumn::size_bytes).sum()
            }
            Self::RowWise(rows) => rows.block.size_bytes() + rows.records.as_ref().map_or(0, FlatRecords::size_bytes),
        };
        body + size_of::<Self>() as u64
    }

    /// How it is read: ranges of entries of arrays, of flat rows, or all.
    pub(crate) fn pieces(&self) -> Vec<Range<usize>> {
        let (count, step) = match self {
            Self::Arrays(rows) => (rows.entry_count(), piece_entries(rows.entry_count(), rows.row_count)),
            Self::Flat(flat) => (flat.row_count, piece_entries(flat.row_count, flat.row_count)),
            Self::Striped(striped) => (striped.record_count, striped.record_count),
            Self::RowWise(rows) => (rows.block.row_count(), rows.block.row_count()),
        };
        let step = step.max(1);
        (0..count).step_by(step).map(|start| start..(start + step).min(count)).collect()
    }

    /// Entries `[first, first + count)` as scans deliver them.
    ///
    /// # Errors
    /// Arrow's limits.
    pub(crate) fn to_rows(&self, first: usize, count: usize, clock: &dyn Clock) -> Result<Rows, ArrowError> {
        match self {
            Self::Arrays(rows) => Ok(rows.slice(first, count)),
            Self::Flat(flat) => flat.slice(flat.rows_of_entries(first, count)).to_rows(),
            Self::Striped(striped) => {
                let every_column: Vec<ColumnRoute> = (0..striped.columns.len()).map(ColumnRoute::whole).collect();
                let rows = striped.to_rows(&every_column, View::Elements, clock, &mut ReadTimes::default())?;
                Ok(rows.slice(first, count))
            }
            Self::RowWise(rows) => {
                let columns = (0..rows.column_count).map(|index| rows.block.column(index, None));
                let flat = FlatRows {
                    columns: columns.collect::<Result<_, _>>()?,
                    row_count: rows.block.row_count(),
                    records: rows.records.clone(),
                };
                flat.slice(flat.rows_of_entries(first, count)).to_rows()
            }
        }
    }
}

impl StripedRows {
    fn of(rows: &Rows) -> Result<Self, ArrowError> {
        let as_list = |elements: &Elements, values: &ArrayRef| -> Result<ArrayRef, ArrowError> {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            // Offsets count from the first, as the values do.
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(elements.offsets.lengths());
            Ok(Arc::new(ListArray::try_new(field, offsets, Arc::clone(values), None)?))
        };
        let columns = rows.columns.iter().enumerate().map(|(index, column)| match &rows.elements {
            Some(elements) if elements.is_element[index] => StripedColumn::shred(&as_list(elements, column)?),
            _ => StripedColumn::shred(column),
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let bare_list = match &rows.elements {
            Some(elements) if !elements.is_element.contains(&true) => {
                let marks: ArrayRef = Arc::new(BooleanArray::from(vec![true; rows.row_count]));
                Some(StripedColumn::shred(&as_list(elements, &marks)?)?)
            }
            _ => None,
        };
        Ok(Self {
            columns,
            bare_list,
            is_element: rows.elements.as_ref().map(|elements| Arc::clone(&elements.is_element)),
            record_count: rows.entry_count(),
            row_count: rows.row_count,
        })
    }

    /// The rows with what the `wanted` routes lead to, in their order. Seen as records they have no elements.
    ///
    /// # Errors
    /// Arrow's limits; routes of other columns.
    pub(crate) fn to_rows(
        &self,
        wanted: &[ColumnRoute],
        view: View,
        clock: &dyn Clock,
        times: &mut ReadTimes,
    ) -> Result<Rows, ArrowError> {
        let is_of_element =
            |route: &ColumnRoute| self.is_element.as_ref().is_some_and(|is_element| is_element[route.column()]);
        let mut offsets = None;
        let mut columns = Vec::with_capacity(wanted.len());
        for route in wanted {
            let missing = || ArrowError::InvalidArgumentError("a column of other rows".to_owned());
            let striped = self.columns.get(route.column()).ok_or_else(missing)?;
            let column = match route.children() {
                [] => striped.assemble(clock, times)?,
                children => striped.assemble_field(children, clock, times)?,
            };
            if !is_of_element(route) {
                columns.push(column);
                continue;
            }
            let list = column.as_list::<i32>();
            columns.push(Arc::clone(list.values()));
            offsets.get_or_insert_with(|| list.offsets().clone());
        }
        let elements = match &self.is_element {
            Some(_) if view == View::Elements => {
                let offsets = match offsets {
                    Some(offsets) => offsets,
                    None => self.offsets(clock, times)?,
                };
                Some(Elements { offsets, is_element: wanted.iter().map(is_of_element).collect() })
            }
            _ => None,
        };
        let row_count = if elements.is_some() { self.row_count } else { self.record_count };
        Ok(Rows { columns, elements, row_count, record_count: 0, skipped_count: 0, positions: None, map_piece: None })
    }

    /// Where the records' elements begin and end, told by the first column that knows.
    fn offsets(
        &self,
        clock: &dyn Clock,
        times: &mut ReadTimes,
    ) -> Result<arrow::buffer::OffsetBuffer<i32>, ArrowError> {
        let first_of_elements = self.is_element.as_ref().and_then(|is_element| is_element.iter().position(|is| *is));
        let column = self.bare_list.as_ref().or_else(|| self.columns.get(first_of_elements?));
        let missing = || ArrowError::InvalidArgumentError("no column tells where records end".to_owned());
        Ok(column.ok_or_else(missing)?.assemble(clock, times)?.as_list::<i32>().offsets().clone())
    }
}
