//! The flat layout: one row for each element of the list that is unnested, with the values of its record repeated.
//!
//! **Owns**: the step from rows that hold records once to flat ones, and back. A record without elements takes a row
//! too, whose columns of elements are NULL and which is no element's: otherwise nothing could be asked of the records.
//!
//! **Paper**: ReCache (PVLDB 2017) §4, the relational columnar layout. Deviations: flattened along the one list that
//! queries unnest (lists inside of its elements stay lists); two bits a row tell where records begin and which rows are
//! elements, so that nothing is lost and the way back is open.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::compute::{filter, take};
use arrow::error::ArrowError;

use crate::rows::{Elements, Rows};
use crate::value_bytes::add_value_bytes;

/// Which flat rows stand for what.
#[derive(Debug, Clone)]
pub(crate) struct FlatRecords {
    /// By row: whether it is its record's first.
    pub(crate) is_first: BooleanBuffer,
    /// By row: whether it is an element. None: all are.
    pub(crate) is_element: Option<BooleanBuffer>,
    /// By column: whether it belongs to the elements.
    element_columns: Arc<[bool]>,
}

/// Some neighbouring rows, of which only what is asked for is sliced.
#[derive(Debug)]
pub(crate) struct FlatPiece<'a> {
    columns: &'a [ArrayRef],
    range: Range<usize>,
    records: Option<FlatRecords>,
}

impl FlatPiece<'_> {
    pub(crate) fn row_count(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn records(&self) -> Option<&FlatRecords> {
        self.records.as_ref()
    }

    pub(crate) fn column(&self, index: usize) -> Option<ArrayRef> {
        Some(self.columns.get(index)?.slice(self.range.start, self.range.len()))
    }
}

/// Flat rows: every column has a value for each row.
#[derive(Debug, Clone)]
pub(crate) struct FlatRows {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) row_count: usize,
    /// None where nothing is unnested: a row is a record.
    pub(crate) records: Option<FlatRecords>,
}

impl FlatRows {
    /// What rows take while they are flattened, before anything of that is made: a long text may be repeated for
    /// thousands of elements.
    pub(crate) fn foretold_bytes(rows: &Rows) -> u64 {
        let Some(elements) = &rows.elements else { return rows.size_bytes() };
        let mut record_bytes = vec![0; elements.record_count()];
        let mut total_bytes = 0;
        for (column, is_element) in rows.columns.iter().zip(elements.is_element.iter()) {
            match is_element {
                true => total_bytes += column.get_array_memory_size() as u64,
                false => {
                    add_value_bytes(column, &mut record_bytes);
                    let dictionary = column.as_any_dictionary_opt().map(|coded| coded.values());
                    total_bytes += dictionary.map_or(0, |texts| texts.get_array_memory_size() as u64);
                }
            }
        }
        for (value_bytes, count) in record_bytes.into_iter().zip(elements.offsets.lengths()) {
            // With the number of its record.
            let row_bytes = value_bytes + size_of::<u32>() as u64;
            total_bytes = row_bytes.saturating_mul(count.max(1) as u64).saturating_add(total_bytes);
        }
        total_bytes
    }

    /// Flattens.
    ///
    /// # Errors
    /// Arrow's limits.
    pub(crate) fn of(rows: &Rows) -> Result<Self, ArrowError> {
        let Some(elements) = &rows.elements else {
            return Ok(Self { columns: rows.columns.clone(), row_count: rows.row_count, records: None });
        };
        let row_count: usize = elements.offsets.lengths().map(|count| count.max(1)).sum();
        let has_empty = row_count > rows.row_count;
        let mut is_first = BooleanBufferBuilder::new(row_count);
        let mut is_element = BooleanBufferBuilder::new(if has_empty { row_count } else { 0 });
        let mut records = Vec::with_capacity(row_count);
        for (record, count) in elements.offsets.lengths().enumerate() {
            is_first.append(true);
            is_first.append_n(count.saturating_sub(1), false);
            records.resize(records.len() + count.max(1), record as u32);
            if has_empty {
                is_element.append_n(count.max(1), count > 0);
            }
        }
        let is_element = has_empty.then(|| is_element.finish());
        let records = UInt32Array::from(records);
        let places = is_element.as_ref().map(|is_element| {
            let mut next = 0;
            let places = is_element.iter().map(|is_element| {
                let place = is_element.then_some(next);
                next += u32::from(is_element);
                place
            });
            places.collect::<UInt32Array>()
        });
        let columns = rows.columns.iter().enumerate().map(|(index, column)| match &places {
            _ if !elements.is_element[index] => take(column, &records, None),
            Some(places) => take(column, places, None),
            None => Ok(Arc::clone(column)),
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let element_columns = Arc::clone(&elements.is_element);
        let records = FlatRecords { is_first: is_first.finish(), is_element, element_columns };
        Ok(Self { columns, row_count, records: Some(records) })
    }

    /// Rows `range` of them, sharing the arrays' buffers.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        let (first, count) = (range.start, range.len());
        Self {
            columns: self.columns.iter().map(|column| column.slice(first, count)).collect(),
            row_count: count,
            records: self.records.as_ref().map(|records| records.slice(first, count)),
        }
    }

    /// Rows `range` of them, to be read.
    pub(crate) fn piece(&self, range: Range<usize>) -> FlatPiece<'_> {
        let records = self.records.as_ref().map(|records| records.slice(range.start, range.len()));
        FlatPiece { columns: &self.columns, range, records }
    }

    /// Records; rows where nothing is unnested.
    pub(crate) fn entry_count(&self) -> usize {
        self.records.as_ref().map_or(self.row_count, |records| records.is_first.count_set_bits())
    }

    /// Rows that are elements.
    pub(crate) fn element_count(&self) -> usize {
        let is_element = self.records.as_ref().and_then(|records| records.is_element.as_ref());
        is_element.map_or(self.row_count, |is_element| is_element.count_set_bits())
    }

    /// The rows of entries `[first, first + count)`.
    pub(crate) fn rows_of_entries(&self, first: usize, count: usize) -> Range<usize> {
        let Some(records) = &self.records else { return first..first + count };
        let mut starts = records.is_first.set_indices().skip(first);
        let start = if count == 0 { None } else { starts.next() };
        let end = starts.nth(count.saturating_sub(1));
        start.map_or(0..0, |start| start..end.unwrap_or(self.row_count))
    }

    /// The same with each record once.
    ///
    /// # Errors
    /// Arrow's limits.
    pub(crate) fn to_rows(&self) -> Result<Rows, ArrowError> {
        let Some(records) = &self.records else {
            let (columns, row_count) = (self.columns.clone(), self.row_count);
            return Ok(Rows {
                columns,
                elements: None,
                row_count,
                record_count: 0,
                skipped_count: 0,
                positions: None,
                map_piece: None,
            });
        };
        let is_first = BooleanArray::new(records.is_first.clone(), None);
        let is_element = records.is_element.clone().map(|is_element| BooleanArray::new(is_element, None));
        let columns =
            self.columns.iter().zip(records.element_columns.iter()).map(|(column, belongs_to_element)| {
                match (&is_element, *belongs_to_element) {
                    (_, false) => filter(column, &is_first),
                    (Some(is_element), true) => filter(column, is_element),
                    (None, true) => Ok(Arc::clone(column)),
                }
            });
        let elements = records.elements();
        Ok(Rows {
            columns: columns.collect::<Result<_, _>>()?,
            row_count: elements.offsets.last().copied().unwrap_or(0) as usize,
            elements: Some(elements),
            record_count: 0,
            skipped_count: 0,
            positions: None,
            map_piece: None,
        })
    }
}

impl FlatRecords {
    pub(crate) fn slice(&self, first: usize, count: usize) -> Self {
        Self {
            is_first: self.is_first.slice(first, count),
            is_element: self.is_element.as_ref().map(|is_element| is_element.slice(first, count)),
            element_columns: Arc::clone(&self.element_columns),
        }
    }

    /// Bytes held on the heap.
    pub(crate) fn size_bytes(&self) -> u64 {
        let of = |bits: &BooleanBuffer| bits.inner().capacity() as u64;
        of(&self.is_first) + self.is_element.as_ref().map_or(0, of)
    }

    /// Which elements belong to which record.
    fn elements(&self) -> Elements {
        let mut lengths: Vec<usize> = Vec::with_capacity(self.is_first.count_set_bits());
        for (row, is_first) in self.is_first.iter().enumerate() {
            let is_element = usize::from(self.is_element.as_ref().is_none_or(|is_element| is_element.value(row)));
            match lengths.last_mut() {
                Some(length) if !is_first => *length += is_element,
                _ => lengths.push(is_element),
            }
        }
        Elements { offsets: OffsetBuffer::from_lengths(lengths), is_element: Arc::clone(&self.element_columns) }
    }
}
