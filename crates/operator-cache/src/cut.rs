//! How the rows that a query wants are cut out of rows that hold more.
//!
//! **Owns**: filtering by what kept or scanned rows do not imply (the residual predicate), and taking the asked-for columns
//! out of them; the two ways to look at rows that are elements of lists ([`View`]).
//! **Does not own**: which rows are read, and when.
//!
//! Columns of records are held once for each record. Where rows are elements, they are repeated as late as can be: a
//! record that fails costs nothing for its elements, and only rows that pass are given its values.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.3, the operator above a subsuming cache; §4, where `unnest` is an operator of the plan.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::{FilterBuilder, FilterPredicate, take};
use arrow::error::ArrowError;
use thermocline_hardware::Clock;
use thermocline_placement::operator_cache::layout::row_or_column::{ColumnRead, RowsTouched};
use thermocline_predicate::{Conjunction, FieldPath};

use crate::layout::{Content, FlatRecords, FlatRows, ReadTimes, RowWiseRows};
use crate::request::ColumnSpec;
use crate::rows::{ColumnRoute, Elements, Rows};

/// What a row is, where the elements of a list are kept with their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// An element; or a record, where nothing is unnested.
    Elements,
    /// A record, with elements or without.
    Records,
}

/// What a query takes out of rows of certain columns. See the module.
#[derive(Debug)]
pub struct Cut {
    view: View,
    columns: Arc<[ColumnSpec]>,
    /// What must be checked of records; of rows where nothing is unnested.
    of_records: Conjunction,
    /// What must be checked of elements.
    of_elements: Conjunction,
    outputs: Vec<ColumnRoute>,
    /// What is read, for the output or for the residual, each once.
    read: Vec<ColumnRoute>,
    /// Columns read of records, and of elements.
    read_counts: (u32, u32),
    /// The same cut out of rows that have just what is read, in that order.
    of_read: Option<Box<Cut>>,
}

/// The rows that were asked for.
#[derive(Debug)]
pub struct CutRows {
    /// One array per output.
    pub columns: Vec<ArrayRef>,
    /// Values of each.
    pub row_count: usize,
}

impl Cut {
    /// A cut of the columns at `outputs` out of rows of `columns`, of those that pass `residual`. `list` is the one that is
    /// unnested, if any. None when an output is not among the columns, or is none of the view.
    pub fn new(
        columns: &Arc<[ColumnSpec]>,
        list: Option<&FieldPath>,
        view: View,
        residual: &Conjunction,
        outputs: &[FieldPath],
    ) -> Option<Self> {
        let is_of_element = |path: &FieldPath| list.is_some_and(|list| path.starts_with(list));
        let (mut of_records, mut of_elements) = (Conjunction::all(), Conjunction::all());
        for (path, domain) in residual.fields() {
            let part = if is_of_element(path) { &mut of_elements } else { &mut of_records };
            *part = std::mem::take(part).and(path.clone(), domain.clone());
        }
        let is_mixed = outputs.iter().any(is_of_element) || !of_elements.is_all();
        if view == View::Records && is_mixed {
            return None;
        }
        let mut read: Vec<ColumnSpec> = Vec::new();
        for path in outputs.iter().chain(residual.fields().map(|(path, _)| path)) {
            if !read.iter().any(|column| &column.path == path) {
                let data_type = ColumnRoute::find(columns, path)?.data_type(columns)?.clone();
                read.push(ColumnSpec { path: path.clone(), data_type });
            }
        }
        let mut cut = Self::of_columns(columns, view, of_records, of_elements, outputs)?;
        cut.read = read.iter().map(|column| ColumnRoute::find(columns, &column.path)).collect::<Option<_>>()?;
        for column in &read {
            let count = if is_of_element(&column.path) { &mut cut.read_counts.1 } else { &mut cut.read_counts.0 };
            *count += 1;
        }
        let (of_records, of_elements) = (cut.of_records.clone(), cut.of_elements.clone());
        cut.of_read = Self::of_columns(&read.into(), view, of_records, of_elements, outputs).map(Box::new);
        Some(cut)
    }

    fn of_columns(
        columns: &Arc<[ColumnSpec]>,
        view: View,
        of_records: Conjunction,
        of_elements: Conjunction,
        outputs: &[FieldPath],
    ) -> Option<Self> {
        let outputs = outputs.iter().map(|path| ColumnRoute::find(columns, path)).collect::<Option<_>>()?;
        let columns = Arc::clone(columns);
        Some(Self {
            view,
            columns,
            of_records,
            of_elements,
            outputs,
            read: Vec::new(),
            read_counts: (0, 0),
            of_read: None,
        })
    }

    /// What a row is.
    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// Columns read of records, and of elements.
    pub(crate) fn read_counts(&self) -> (u32, u32) {
        self.read_counts
    }

    /// By column of a flat row: its width, and which of its values are read.
    pub(crate) fn columns_read(&self, widths_bytes: &[u32]) -> Vec<ColumnRead> {
        let is_tested = |index: usize| {
            let mut tested = self.of_records.fields().chain(self.of_elements.fields());
            tested.any(|(path, _)| ColumnRoute::find(&self.columns, path).is_some_and(|route| route.column() == index))
        };
        let is_read = |index: usize| self.read.iter().any(|route| route.column() == index);
        let columns = widths_bytes.iter().enumerate().map(|(index, &width_bytes)| ColumnRead {
            width_bytes,
            rows: match is_read(index) {
                false => RowsTouched::None,
                true if is_tested(index) => RowsTouched::Every,
                true => RowsTouched::Selected,
            },
        });
        columns.collect()
    }

    /// Cuts a piece of kept rows, and adds what that took.
    ///
    /// # Errors
    /// Arrow's limits.
    pub(crate) fn read(
        &self,
        content: &Content,
        piece: Range<usize>,
        clock: &dyn Clock,
        times: &mut ReadTimes,
    ) -> Result<CutRows, ArrowError> {
        let assembled = match content {
            Content::Striped(striped) => Some(striped.to_rows(&self.read, self.view, clock, times)?),
            _ => None,
        };
        let began_ns = clock.monotonic_ns();
        let cut = match content {
            Content::Arrays(rows) => self.apply(&rows.slice(piece.start, piece.len())),
            Content::Striped(_) => match (&self.of_read, &assembled) {
                (Some(cut), Some(rows)) => cut.apply(rows),
                _ => Err(missing_column()),
            },
            Content::Flat(flat) => self.cut_flat(&flat.slice(piece)),
            Content::RowWise(rows) => self.cut_flat(rows),
        };
        times.data_ns += clock.monotonic_ns().saturating_sub(began_ns);
        cut
    }

    /// Cuts rows that repeat their records' values.
    fn cut_flat(&self, rows: &dyn FlatColumns) -> Result<CutRows, ArrowError> {
        let row_count = rows.row_count();
        let mut mask = match (self.view, rows.records()) {
            (_, None) => None,
            (View::Records, Some(records)) => Some(records.is_first.clone()),
            (View::Elements, Some(records)) => records.is_element.clone(),
        };
        for residual in [&self.of_records, &self.of_elements] {
            let column = |path: &FieldPath| {
                let route = ColumnRoute::find(&self.columns, path)?;
                route.follow(&rows.column(route.column()).ok()?)
            };
            let passes = residual.evaluate(row_count, &column);
            if let Some(passes) = passes.map_err(|error| ArrowError::ExternalError(Box::new(error)))? {
                mask = Some(mask.map_or_else(|| passes.values().clone(), |mask| &mask & passes.values()));
            }
        }
        let mask = mask.filter(|mask| mask.count_set_bits() < row_count);
        let selected = mask.map(Selected::new);
        let columns = self.outputs.iter().map(|route| {
            let column = match &selected {
                None => rows.column(route.column()),
                Some(selected) => rows.selected(route.column(), selected),
            };
            route.follow(&column?).ok_or_else(missing_column)
        });
        Ok(CutRows {
            columns: columns.collect::<Result<_, _>>()?,
            row_count: selected.map_or(row_count, |selected| selected.filter.count()),
        })
    }

    /// Cuts.
    ///
    /// # Errors
    /// Rows of other columns than those of the cut; Arrow's limits.
    pub fn apply(&self, rows: &Rows) -> Result<CutRows, ArrowError> {
        let of_records = self.mask(&self.of_records, rows, rows.entry_count())?;
        match &rows.elements {
            Some(elements) if self.view == View::Elements => {
                let of_elements = self.mask(&self.of_elements, rows, rows.row_count)?;
                self.cut_elements(rows, elements, of_records.as_ref(), of_elements)
            }
            _ => {
                let filter = of_records.as_ref().map(filter_by);
                let columns = self.outputs.iter().map(|route| filtered(&extract(route, rows)?, filter.as_ref()));
                Ok(CutRows {
                    columns: columns.collect::<Result<_, _>>()?,
                    row_count: filter.as_ref().map_or(rows.entry_count(), FilterPredicate::count),
                })
            }
        }
    }

    /// Which of `count` entries or rows pass; None if all do.
    fn mask(&self, residual: &Conjunction, rows: &Rows, count: usize) -> Result<Option<BooleanArray>, ArrowError> {
        let mask = residual.evaluate(count, &|path| ColumnRoute::find(&self.columns, path)?.extract(rows));
        let mask = mask.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        Ok(mask.filter(|mask| mask.true_count() < count))
    }

    fn cut_elements(
        &self,
        rows: &Rows,
        elements: &Elements,
        of_records: Option<&BooleanArray>,
        of_elements: Option<BooleanArray>,
    ) -> Result<CutRows, ArrowError> {
        let mask = match (of_records, of_elements) {
            (None, of_elements) => of_elements,
            (Some(of_records), of_elements) => {
                let spread = spread(of_records, elements, rows.row_count);
                let both = match of_elements {
                    Some(of_elements) => &spread & of_elements.values(),
                    None => spread,
                };
                Some(BooleanArray::new(both, None))
            }
        };
        let filter = mask.as_ref().map(filter_by);
        let row_count = filter.as_ref().map_or(rows.row_count, FilterPredicate::count);
        let mut records_of_rows: Option<UInt32Array> = None;
        let columns = self.outputs.iter().map(|route| {
            let column = extract(route, rows)?;
            if !rows.is_of_entry(route.column()) {
                return filtered(&column, filter.as_ref());
            }
            let records = records_of_rows.get_or_insert_with(|| match &mask {
                None => records_of_all(elements, row_count),
                Some(mask) => records_of_selected(elements, mask.values(), row_count),
            });
            take(&column, records, None)
        });
        Ok(CutRows { columns: columns.collect::<Result<_, _>>()?, row_count })
    }
}

/// Selected rows, in the two forms that layouts want.
struct Selected {
    filter: FilterPredicate,
    mask: BooleanBuffer,
}

impl Selected {
    fn new(mask: BooleanBuffer) -> Self {
        let filter = filter_by(&BooleanArray::new(mask.clone(), None));
        Self { filter, mask }
    }
}

/// Rows each of which has a value in every column.
trait FlatColumns {
    fn row_count(&self) -> usize;
    fn records(&self) -> Option<&FlatRecords>;
    fn column(&self, index: usize) -> Result<ArrayRef, ArrowError>;
    fn selected(&self, index: usize, selected: &Selected) -> Result<ArrayRef, ArrowError>;
}

impl FlatColumns for FlatRows {
    fn row_count(&self) -> usize {
        self.row_count
    }

    fn records(&self) -> Option<&FlatRecords> {
        self.records.as_ref()
    }

    fn column(&self, index: usize) -> Result<ArrayRef, ArrowError> {
        self.columns.get(index).cloned().ok_or_else(missing_column)
    }

    fn selected(&self, index: usize, selected: &Selected) -> Result<ArrayRef, ArrowError> {
        selected.filter.filter(&self.column(index)?)
    }
}

impl FlatColumns for RowWiseRows {
    fn row_count(&self) -> usize {
        self.block.row_count()
    }

    fn records(&self) -> Option<&FlatRecords> {
        self.records.as_ref()
    }

    fn column(&self, index: usize) -> Result<ArrayRef, ArrowError> {
        self.block.column(index, None)
    }

    fn selected(&self, index: usize, selected: &Selected) -> Result<ArrayRef, ArrowError> {
        let rows: Vec<u32> = selected.mask.set_indices().map(|row| row as u32).collect();
        self.block.column(index, Some(&rows))
    }
}

fn missing_column() -> ArrowError {
    ArrowError::InvalidArgumentError("a column of the cut is not in the rows".to_owned())
}

fn extract(route: &ColumnRoute, rows: &Rows) -> Result<ArrayRef, ArrowError> {
    route.extract(rows).ok_or_else(missing_column)
}

/// Made once for all columns.
fn filter_by(mask: &BooleanArray) -> FilterPredicate {
    FilterBuilder::new(mask).optimize().build()
}

fn filtered(column: &ArrayRef, filter: Option<&FilterPredicate>) -> Result<ArrayRef, ArrowError> {
    match filter {
        Some(filter) => filter.filter(column),
        None => Ok(Arc::clone(column)),
    }
}

/// The elements of the records that pass.
fn spread(of_records: &BooleanArray, elements: &Elements, row_count: usize) -> BooleanBuffer {
    let offsets: &[i32] = &elements.offsets;
    let row_of = |record: usize| (offsets[record] - offsets[0]) as usize;
    let mut words = vec![0_u64; row_count.div_ceil(64)];
    // Neighbours that pass are taken together.
    for (first, end) in of_records.values().set_slices() {
        set_bits(&mut words, row_of(first), row_of(end));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, row_count)
}

/// Sets bits `[start, end)`, a word at a time.
fn set_bits(words: &mut [u64], mut start: usize, end: usize) {
    while start < end {
        let bit = start % 64;
        let count = (64 - bit).min(end - start);
        words[start / 64] |= u64::MAX >> (64 - count) << bit;
        start += count;
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
