//! Rows that were asked for, a piece after the other.
//!
//! **Owns**: how many elements are cut out at once, so that what their records' values take when they are repeated is
//! bounded: a record may have a long text and thousands of elements. **Does not own**: which rows pass.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::error::ArrowError;

use super::{CutRows, delivered, extract, filter_by, filtered};
use crate::layout::PIECE_ROWS;
use crate::request::ColumnSpec;
use crate::rows::{ColumnRoute, Elements, Rows};
use crate::value_bytes::{add_spelt_bytes, add_value_bytes};

/// What the values of records may take in a piece, unless it is one row: a thousandth of a large budget, and far from
/// the 2 GiB at which a column of texts ends.
const PIECE_BYTES: u64 = 16 << 20;

/// What was cut out of rows, in their order. Each piece may be empty. The first one is cut already.
///
/// Errors are Arrow's limits; there is nothing after one.
#[derive(Debug)]
pub struct CutPieces {
    next: Option<CutRows>,
    rest: Option<ElementPieces>,
}

impl CutPieces {
    /// No piece: nothing was asked for.
    pub(crate) fn none() -> Self {
        Self { next: None, rest: None }
    }

    /// A single piece.
    pub(super) fn one(rows: CutRows) -> Self {
        Self { next: Some(rows), rest: None }
    }

    /// Of rows that are elements those in the mask, or all.
    pub(super) fn of_elements(mut pieces: ElementPieces) -> Result<Self, ArrowError> {
        let next = pieces.cut_next()?;
        // Who has the last piece needs the rows that it was cut out of no longer.
        Ok(Self { next: Some(next), rest: Some(pieces).filter(|rest| !rest.is_over()) })
    }
}

impl Iterator for CutPieces {
    type Item = Result<CutRows, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(next) = self.next.take() {
            return Some(Ok(next));
        }
        let mut rest = self.rest.take()?;
        let next = rest.cut_next();
        self.rest = Some(rest).filter(|rest| next.is_ok() && !rest.is_over());
        Some(next)
    }
}

/// Elements that are still to be cut out.
#[derive(Debug)]
pub(super) struct ElementPieces {
    columns: Arc<[ColumnSpec]>,
    outputs: Vec<ColumnRoute>,
    may_be_narrow: bool,
    rows: Rows,
    elements: Elements,
    /// The rows that pass; None is all.
    mask: Option<BooleanBuffer>,
    /// Of those that were not looked at yet, how many pass.
    left_count: usize,
    /// Bytes of each record's values that are wanted, if any are, and the most of one.
    record_bytes: Vec<u64>,
    most_bytes: u64,
    /// The first row that was not looked at, and its record or one before it.
    next_row: usize,
    next_record: usize,
}

impl ElementPieces {
    pub(super) fn new(
        columns: &Arc<[ColumnSpec]>,
        outputs: &[ColumnRoute],
        may_be_narrow: bool,
        rows: &Rows,
        elements: &Elements,
        mask: Option<BooleanBuffer>,
    ) -> Result<Self, ArrowError> {
        let of_records = || outputs.iter().filter(|route| rows.is_of_entry(route.column()));
        let repeats = of_records().next().is_some();
        let mut record_bytes = vec![0; if repeats { elements.record_count() } else { 0 }];
        for route in of_records() {
            let column = extract(route, rows)?;
            add_value_bytes(&column, &mut record_bytes);
            if !may_be_narrow {
                add_spelt_bytes(&column, &mut record_bytes);
            }
        }
        let left_count = mask.as_ref().map_or(rows.row_count, BooleanBuffer::count_set_bits);
        let most_bytes = record_bytes.iter().copied().max().unwrap_or(0);
        Ok(Self {
            columns: Arc::clone(columns),
            outputs: outputs.to_vec(),
            may_be_narrow,
            rows: rows.clone(),
            elements: elements.clone(),
            mask,
            left_count,
            record_bytes,
            most_bytes,
            next_row: 0,
            next_record: 0,
        })
    }

    fn is_over(&self) -> bool {
        self.next_row == self.rows.row_count
    }

    fn cut_next(&mut self) -> Result<CutRows, ArrowError> {
        let (rows, records) = self.take_next();
        let mask = self.mask.as_ref().map(|mask| mask.slice(rows.start, rows.len()));
        let piece = self.rows.slice_elements(&self.elements, rows, records);
        let Some(elements) = &piece.elements else { return Err(super::missing_column()) };
        let row_count = mask.as_ref().map_or(piece.row_count, BooleanBuffer::count_set_bits);
        let mask = mask.filter(|_| row_count < piece.row_count);
        let filter = mask.clone().map(filter_by);
        let mut records_of_rows: Option<UInt32Array> = None;
        let columns = self.outputs.iter().map(|route| {
            let column = extract(route, &piece)?;
            let column = if piece.is_of_entry(route.column()) {
                let records = records_of_rows.get_or_insert_with(|| match &mask {
                    None => records_of_all(elements, row_count),
                    Some(mask) => records_of_selected(elements, mask, row_count),
                });
                take(&column, records, None)?
            } else {
                filtered(&column, filter.as_ref())?
            };
            delivered(&self.columns, route, column, self.may_be_narrow)
        });
        Ok(CutRows { columns: columns.collect::<Result<_, _>>()?, row_count, selected: None })
    }

    /// The rows of the next piece, of which some may not pass, and the records that they belong to.
    fn take_next(&mut self) -> (Range<usize>, Range<usize>) {
        let (first_row, first_record) = (self.next_row, self.next_record);
        // What is little more than a piece is one: kept rows are cut by how many a record has on average.
        if self.left_count < 2 * PIECE_ROWS && self.most_bytes.saturating_mul(self.left_count as u64) <= PIECE_BYTES {
            (self.next_row, self.next_record) = (self.rows.row_count, self.elements.record_count());
            return (first_row..self.next_row, first_record..self.next_record);
        }
        let (mut row_count, mut bytes) = (0, 0);
        while self.next_record < self.elements.record_count() {
            let end = self.elements.rows_of(self.next_record).end;
            let count = self.count(self.next_row..end);
            let value_bytes = self.record_bytes.get(self.next_record).copied().unwrap_or(0);
            let fitting = match PIECE_BYTES.saturating_sub(bytes).checked_div(value_bytes) {
                Some(fitting) => usize::try_from(fitting).unwrap_or(usize::MAX),
                None => usize::MAX,
            };
            let fitting = fitting.min(PIECE_ROWS - row_count).max(usize::from(row_count == 0));
            if count > fitting {
                // The record has more rows than the piece has room for.
                self.next_row = self.after(self.next_row..end, fitting);
                self.left_count -= row_count + fitting;
                let records = first_record..self.next_record + 1;
                return (first_row..self.next_row, records);
            }
            (row_count, bytes) = (row_count + count, bytes + value_bytes * count as u64);
            self.next_row = end;
            self.next_record += 1;
        }
        self.left_count -= row_count;
        (first_row..self.next_row, first_record..self.next_record)
    }

    /// How many of the rows pass.
    fn count(&self, rows: Range<usize>) -> usize {
        self.mask.as_ref().map_or(rows.len(), |mask| mask.slice(rows.start, rows.len()).count_set_bits())
    }

    /// The row number `passing` of those among `rows` that pass; there are more.
    fn after(&self, rows: Range<usize>, passing: usize) -> usize {
        let Some(mask) = &self.mask else { return rows.start + passing };
        let within = mask.slice(rows.start, rows.len());
        rows.start + within.set_indices().nth(passing).unwrap_or(rows.len())
    }
}

/// The record of each row.
fn records_of_all(elements: &Elements, row_count: usize) -> UInt32Array {
    let mut records = Vec::with_capacity(row_count);
    for (record, count) in elements.offsets.lengths().enumerate() {
        records.resize(records.len() + count, record as u32);
    }
    records.into()
}

/// The record of each selected row.
fn records_of_selected(elements: &Elements, selected: &BooleanBuffer, row_count: usize) -> UInt32Array {
    let offsets: &[i32] = &elements.offsets;
    let mut records = Vec::with_capacity(row_count);
    let mut record = 0;
    for row in selected.set_indices() {
        // Row numbers count from the first offset.
        let row = row as i32 + offsets[0];
        while offsets[record + 1] <= row {
            record += 1;
        }
        records.push(record as u32);
    }
    records.into()
}
