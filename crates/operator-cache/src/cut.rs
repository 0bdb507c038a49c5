//! How the rows that a query wants are cut out of rows that hold more.
//!
//! **Owns**: filtering by what kept or scanned rows do not imply (the residual predicate), and taking the asked-for
//! columns out of them; the two ways to look at rows that are elements of lists ([`View`]); counting what was done with
//! the rows of an item, in numbers that don't depend on its layout.
//! **Does not own**: which rows are read, and when.
//!
//! Columns of records are held once for each record. Where rows are elements, they are repeated as late as can be: a
//! record that fails costs nothing for its elements, and only rows that pass are given its values, in pieces.
//!
//! **Paper**: ReCache (PVLDB 2017) §3.3, the operator above a subsuming cache; §4, where `unnest` is an operator of the
//! plan.

mod pieces;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use thermocline_hardware::Clock;
use thermocline_narrow::widen;
use thermocline_placement::operator_cache::layout::row_or_column::{ColumnRead, RowsTouched};
use thermocline_placement::operator_cache::layout::{ColumnsRead, ReadCounts, is_marked};
use thermocline_predicate::{Conjunction, Domain, FieldPath};

use crate::item::Chunk;
use crate::layout::{Content, FlatPiece, FlatRecords, Reading, RowWiseRows};
use crate::request::ColumnSpec;
use crate::rows::{ColumnRoute, Elements, Rows};

pub use pieces::CutPieces;
use pieces::ElementPieces;

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
    /// The list whose elements are none of the columns of the view: what lies at its path is the list, in its struct.
    unseen: Option<FieldPath>,
    /// What must be checked of records; of rows where nothing is unnested.
    of_records: Conjunction,
    /// What must be checked of elements.
    of_elements: Conjunction,
    /// Whole columns of which something must be checked, of records or elements, and what.
    tested: Vec<(usize, Domain)>,
    outputs: Vec<ColumnRoute>,
    /// What is read, for the output or for the residual, each once.
    read: Vec<ColumnRoute>,
    /// Columns of records, and of elements.
    column_counts: (ColumnsRead, ColumnsRead),
    /// The same cut out of rows that have just what is read, in that order.
    of_read: Option<Box<Cut>>,
    /// Whether rows may be left as they are kept: values in narrow forms of their types, and those that fail among the
    /// others.
    may_be_narrow: bool,
}

/// The rows that were asked for.
#[derive(Debug)]
pub struct CutRows {
    /// One array per output.
    pub columns: Vec<ArrayRef>,
    /// Values of each.
    pub row_count: usize,
    /// Which of the rows were asked for, where the others are among them ([`Cut::as_kept`]).
    pub selected: Option<BooleanBuffer>,
}

impl Cut {
    /// A cut of the columns at `outputs` out of rows of `columns`, of those that pass `residual`. `list` is the one
    /// that is unnested, if any. None when an output is not among the columns, or is none of the view.
    pub fn new(
        columns: &Arc<[ColumnSpec]>,
        list: Option<&FieldPath>,
        view: View,
        residual: &Conjunction,
        outputs: &[FieldPath],
    ) -> Option<Self> {
        // Of records a list is a value as any other, if they have the struct that it lies in.
        let (list, unseen) = if view == View::Records { (None, list.cloned()) } else { (list, None) };
        let is_of_element = |path: &FieldPath| list.is_some_and(|list| path.starts_with(list));
        let (mut of_records, mut of_elements) = (Conjunction::all(), Conjunction::all());
        for (path, domain) in residual.fields() {
            let part = if is_of_element(path) { &mut of_elements } else { &mut of_records };
            *part = std::mem::take(part).and(path.clone(), domain.clone());
        }
        let mut cut = Self::of_columns(columns, unseen, view, of_records, of_elements, outputs)?;
        let mut read: Vec<ColumnSpec> = Vec::new();
        for path in outputs.iter().chain(residual.fields().map(|(path, _)| path)) {
            if !read.iter().any(|column| &column.path == path) {
                let route = cut.route(path)?;
                read.push(ColumnSpec { path: path.clone(), data_type: route.data_type(columns)?.clone() });
                cut.read.push(route);
            }
        }
        for ColumnSpec { path, data_type } in &read {
            let (of_records, of_elements) = &mut cut.column_counts;
            let count = if is_of_element(path) { of_elements } else { of_records };
            count.read += 1;
            let is_output = outputs.contains(path);
            let has_width = data_type.is_primitive() || *data_type == DataType::Boolean;
            count.output += u32::from(is_output);
            count.varying += u32::from(is_output && !has_width);
            count.untested += u32::from(residual.domain(path).is_none());
        }
        for (path, domain) in residual.fields() {
            let column = cut.route(path).filter(|route| route.children().is_empty());
            cut.tested.extend(column.map(|route| (route.column(), domain.clone())));
        }
        let (of_records, of_elements) = (cut.of_records.clone(), cut.of_elements.clone());
        cut.of_read = Self::of_columns(&read.into(), None, view, of_records, of_elements, outputs).map(Box::new);
        Some(cut)
    }

    /// The same cut, which leaves rows as they are kept where that spares copying them. Values stay in the narrow forms
    /// of their types. If many rows pass and the layout has their columns as they are asked for, they are marked; not
    /// with texts that are spelt out: whoever reads them looks at each, of rows that fail too.
    pub fn as_kept(mut self) -> Self {
        self.may_be_narrow = true;
        self.of_read = self.of_read.map(|of_read| Box::new(of_read.as_kept()));
        self
    }

    fn delivered(&self, route: &ColumnRoute, column: ArrayRef) -> Result<ArrayRef, ArrowError> {
        delivered(&self.columns, route, column, self.may_be_narrow)
    }

    fn of_columns(
        columns: &Arc<[ColumnSpec]>,
        unseen: Option<FieldPath>,
        view: View,
        of_records: Conjunction,
        of_elements: Conjunction,
        outputs: &[FieldPath],
    ) -> Option<Self> {
        let find = |path| ColumnRoute::find_outside(columns, unseen.as_ref(), path);
        let outputs = outputs.iter().map(find).collect::<Option<_>>()?;
        let columns = Arc::clone(columns);
        Some(Self {
            view,
            columns,
            unseen,
            of_records,
            of_elements,
            tested: Vec::new(),
            outputs,
            read: Vec::new(),
            column_counts: Default::default(),
            of_read: None,
            may_be_narrow: false,
        })
    }

    /// The way to a column among those of the view.
    fn route(&self, path: &FieldPath) -> Option<ColumnRoute> {
        ColumnRoute::find_outside(&self.columns, self.unseen.as_ref(), path)
    }

    /// What a row is.
    pub(crate) fn view(&self) -> View {
        self.view
    }

    /// Whether rows are left as they are kept where that spares copying them.
    pub(crate) fn leaves_as_kept(&self) -> bool {
        self.may_be_narrow
    }

    /// Columns read of records, and of elements.
    pub(crate) fn column_counts(&self) -> (ColumnsRead, ColumnsRead) {
        self.column_counts
    }

    /// By column: its width, which of its values are read, and whether it is one of the elements of `list`.
    pub(crate) fn columns_read(&self, widths_bytes: &[u32], list: Option<&FieldPath>) -> Vec<ColumnRead> {
        let is_tested = |index: usize| {
            let mut tested = self.of_records.fields().chain(self.of_elements.fields());
            tested.any(|(path, _)| self.route(path).is_some_and(|route| route.column() == index))
        };
        let is_read = |index: usize| self.read.iter().any(|route| route.column() == index);
        let columns = widths_bytes.iter().zip(self.columns.iter()).enumerate();
        let columns = columns.map(|(index, (&width_bytes, column))| ColumnRead {
            width_bytes,
            is_of_elements: list.is_some_and(|list| column.path.starts_with(list)),
            rows: match is_read(index) {
                false => RowsTouched::None,
                true if is_tested(index) => RowsTouched::Every,
                true => RowsTouched::Selected,
            },
        });
        columns.collect()
    }

    /// Whether a chunk is known to have no values that are asked for.
    pub(crate) fn asks_for_none_of(&self, chunk: &Chunk) -> bool {
        self.tested.iter().any(|(column, domain)| !chunk.may_hold(*column, domain))
    }

    /// Cuts a piece of kept rows, and adds what that took and did, but for pieces of the result behind the first, which
    /// are rare.
    ///
    /// # Errors
    /// Arrow's limits.
    pub(crate) fn read(
        &self,
        content: &Content,
        piece: Range<usize>,
        clock: &dyn Clock,
        reading: &mut Reading,
    ) -> Result<CutPieces, ArrowError> {
        let Reading { times, counts, .. } = reading;
        let assembled = match content {
            Content::Striped(striped) => Some(striped.to_rows(&self.read, self.view, clock, times)?),
            _ => None,
        };
        let began_ns = clock.monotonic_ns();
        let of_read = self.of_read.as_ref().ok_or_else(missing_column);
        let cut = match (content, &assembled) {
            (Content::Arrays(rows), _) => of_read?.cut_rows(&rows.slice_of(&self.read, piece)?, counts),
            (Content::Striped(_), Some(rows)) => of_read?.cut_rows(rows, counts),
            (Content::Striped(_), None) => Err(missing_column()),
            (Content::Flat(flat), _) => self.cut_flat(&flat.piece(piece), counts).map(CutPieces::one),
            (Content::RowWise(rows), _) => self.cut_flat(rows, counts).map(CutPieces::one),
        };
        counts.piece_count += 1;
        times.data_ns += clock.monotonic_ns().saturating_sub(began_ns);
        cut
    }

    /// Cuts rows that repeat their records' values.
    fn cut_flat(&self, rows: &dyn FlatColumns, counts: &mut ReadCounts) -> Result<CutRows, ArrowError> {
        let row_count = rows.row_count();
        let column = |path: &FieldPath| {
            let route = self.route(path)?;
            route.follow(&rows.column(route.column()).ok()?)
        };
        let (of_records, tested_count) = evaluate(&self.of_records, row_count, &column)?;
        let records = rows.records();
        let record_count = records.map_or(row_count, |records| records.is_first.count_set_bits());
        counts.columns_tested += tested_count;
        counts.record_values_tested += tested_count * record_count as u64;
        let of_records = of_records.filter(|mask| mask.count_set_bits() < row_count);
        let mut mask = match (self.view, records) {
            (_, None) => None,
            (View::Records, Some(records)) => Some(records.is_first.clone()),
            (View::Elements, Some(records)) => records.is_element.clone(),
        };
        let entry_count = mask.as_ref().map_or(row_count, BooleanBuffer::count_set_bits);
        mask = both(mask, of_records.clone());
        if of_records.as_ref().is_none_or(BooleanBuffer::has_true) {
            let (of_elements, tested_count) = evaluate(&self.of_elements, row_count, &column)?;
            counts.columns_tested += tested_count;
            counts.element_values_tested += tested_count * entry_count as u64;
            mask = both(mask, of_elements);
        }
        let selected_count = mask.as_ref().map_or(row_count, BooleanBuffer::count_set_bits);
        match (&of_records, self.view) {
            // All rows of a record pass, or none: runs of rows are those of records.
            (Some(of_records), View::Records) => {
                count_selected(counts, entry_count, selected_count, || run_count(of_records));
            }
            _ => count_selected(counts, entry_count, selected_count, || mask.as_ref().map_or(0, run_count)),
        }
        if let (Some(of_records), View::Elements, Some(_)) = (&of_records, self.view, records) {
            counts.record_runs += run_count(of_records);
        }
        let mask = mask.filter(|_| selected_count < row_count);
        let column = |route: &ColumnRoute| route.follow(&rows.column(route.column())?).ok_or_else(missing_column);
        // Of records in flat rows each has others behind it, that whoever reads them would pass over.
        let are_adjacent = self.view == View::Elements || records.is_none();
        if rows.lends()
            && are_adjacent
            && let Some(marked) = self.marked((row_count, selected_count), mask.as_ref(), column)?
        {
            return Ok(marked);
        }
        let selected = mask.map(Selected::new);
        let columns = self.outputs.iter().map(|route| {
            let column = match &selected {
                None => rows.column(route.column()),
                Some(selected) => rows.selected(route.column(), selected),
            };
            self.delivered(route, route.follow(&column?).ok_or_else(missing_column)?)
        });
        Ok(CutRows { columns: columns.collect::<Result<_, _>>()?, row_count: selected_count, selected: None })
    }

    /// Cuts.
    ///
    /// # Errors
    /// Rows of other columns than those of the cut; Arrow's limits.
    pub fn apply(&self, rows: &Rows) -> Result<CutPieces, ArrowError> {
        self.cut_rows(rows, &mut ReadCounts::default())
    }

    /// Cuts rows that hold each record once.
    fn cut_rows(&self, rows: &Rows, counts: &mut ReadCounts) -> Result<CutPieces, ArrowError> {
        let column = |path: &FieldPath| self.route(path)?.extract(rows);
        let entry_count = rows.entry_count();
        let (of_records, tested_count) = evaluate(&self.of_records, entry_count, &column)?;
        counts.columns_tested += tested_count;
        counts.record_values_tested += tested_count * entry_count as u64;
        let passing_count = of_records.as_ref().map_or(entry_count, BooleanBuffer::count_set_bits);
        let of_records = of_records.filter(|_| passing_count < entry_count);
        if let (Some(elements), View::Elements) = (&rows.elements, self.view) {
            let mut of_elements = None;
            if passing_count > 0 {
                let (mask, tested_count) = evaluate(&self.of_elements, rows.row_count, &column)?;
                counts.columns_tested += tested_count;
                counts.element_values_tested += tested_count * rows.row_count as u64;
                of_elements = mask;
            }
            counts.record_runs += of_records.as_ref().map_or(0, run_count);
            let of_records = of_records.map(|of_records| spread(&of_records, elements, rows.row_count));
            return self.cut_elements(rows, elements, both(of_records, of_elements), counts);
        }
        count_selected(counts, entry_count, passing_count, || of_records.as_ref().map_or(0, run_count));
        let column = |route: &ColumnRoute| extract(route, rows);
        if let Some(marked) = self.marked((entry_count, passing_count), of_records.as_ref(), column)? {
            return Ok(CutPieces::one(marked));
        }
        let filter = of_records.map(filter_by);
        let columns = self.outputs.iter().map(|route| {
            let column = filtered(&extract(route, rows)?, filter.as_ref())?;
            self.delivered(route, column)
        });
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(CutPieces::one(CutRows { columns, row_count: passing_count, selected: None }))
    }

    /// All rows with a mark at those that were asked for, if that is cheaper than to copy these: so many rows there are,
    /// and so many are in the mask.
    fn marked(
        &self,
        (row_count, selected_count): (usize, usize),
        mask: Option<&BooleanBuffer>,
        column: impl Fn(&ColumnRoute) -> Result<ArrayRef, ArrowError>,
    ) -> Result<Option<CutRows>, ArrowError> {
        let may_mark = self.may_be_narrow && is_marked(row_count as u64, selected_count as u64);
        let Some(mask) = mask.filter(|_| may_mark) else { return Ok(None) };
        let columns = self.outputs.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let are_passed_over = columns.iter().all(is_passed_over);
        Ok(are_passed_over.then(|| CutRows { columns, row_count, selected: Some(mask.clone()) }))
    }

    fn cut_elements(
        &self,
        rows: &Rows,
        elements: &Elements,
        mask: Option<BooleanBuffer>,
        counts: &mut ReadCounts,
    ) -> Result<CutPieces, ArrowError> {
        let row_count = mask.as_ref().map_or(rows.row_count, BooleanBuffer::count_set_bits);
        let mask = mask.filter(|_| row_count < rows.row_count);
        count_selected(counts, rows.row_count, row_count, || mask.as_ref().map_or(0, run_count));
        let column = |route: &ColumnRoute| extract(route, rows);
        if !self.outputs.iter().any(|route| rows.is_of_entry(route.column()))
            && let Some(marked) = self.marked((rows.row_count, row_count), mask.as_ref(), column)?
        {
            return Ok(CutPieces::one(marked));
        }
        let pieces = ElementPieces::new(&self.columns, &self.outputs, self.may_be_narrow, rows, elements, mask)?;
        CutPieces::of_elements(pieces)
    }
}

/// Whether a value that is not wanted costs next to nothing.
fn is_passed_over(column: &ArrayRef) -> bool {
    let data_type = column.data_type();
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Dictionary(..))
}

/// A column as it is delivered.
fn delivered(
    columns: &[ColumnSpec],
    route: &ColumnRoute,
    column: ArrayRef,
    may_be_narrow: bool,
) -> Result<ArrayRef, ArrowError> {
    match route.data_type(columns) {
        Some(data_type) if !may_be_narrow => widen(&column, data_type),
        _ => Ok(column),
    }
}

/// Which of `count` rows pass, None if nothing is asked of them; and of how many columns the values were compared.
fn evaluate(
    residual: &Conjunction,
    count: usize,
    column: &dyn Fn(&FieldPath) -> Option<ArrayRef>,
) -> Result<(Option<BooleanBuffer>, u64), ArrowError> {
    let tested_count = Cell::new(0);
    let mask = residual.evaluate(count, &|path| {
        tested_count.set(tested_count.get() + 1);
        column(path)
    });
    let mask = mask.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    Ok((mask.map(|mask| mask.into_parts().0), tested_count.get()))
}

/// What is in both masks; None is all.
fn both(left: Option<BooleanBuffer>, right: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    match (left, right) {
        (Some(left), Some(right)) => Some(&left & &right),
        (left, right) => left.or(right),
    }
}

/// Counts a piece of which `selected_count` of `row_count` rows were selected, in so many runs.
fn count_selected(counts: &mut ReadCounts, row_count: usize, selected_count: usize, runs: impl FnOnce() -> u64) {
    if selected_count == row_count {
        counts.whole_rows += row_count as u64;
    } else if selected_count > 0 {
        counts.cut_rows += row_count as u64;
        counts.cut_selected_rows += selected_count as u64;
        counts.cut_runs += runs();
    }
}

/// Runs of neighbours that are set.
fn run_count(mask: &BooleanBuffer) -> u64 {
    let mut last = 0;
    let begins = mask.bit_chunks().iter_padded().map(|word| {
        let begins = word & !(word << 1 | last);
        last = word >> 63;
        u64::from(begins.count_ones())
    });
    begins.sum()
}

/// Selected rows, in the two forms that layouts want.
struct Selected {
    filter: FilterPredicate,
    mask: BooleanBuffer,
}

impl Selected {
    fn new(mask: BooleanBuffer) -> Self {
        let filter = filter_by(mask.clone());
        Self { filter, mask }
    }
}

/// Rows each of which has a value in every column.
trait FlatColumns {
    fn row_count(&self) -> usize;
    /// Whether columns are there as they are asked for.
    fn lends(&self) -> bool;
    fn records(&self) -> Option<&FlatRecords>;
    fn column(&self, index: usize) -> Result<ArrayRef, ArrowError>;
    fn selected(&self, index: usize, selected: &Selected) -> Result<ArrayRef, ArrowError>;
}

impl FlatColumns for FlatPiece<'_> {
    fn row_count(&self) -> usize {
        self.row_count()
    }

    fn lends(&self) -> bool {
        true
    }

    fn records(&self) -> Option<&FlatRecords> {
        self.records()
    }

    fn column(&self, index: usize) -> Result<ArrayRef, ArrowError> {
        self.column(index).ok_or_else(missing_column)
    }

    fn selected(&self, index: usize, selected: &Selected) -> Result<ArrayRef, ArrowError> {
        selected.filter.filter(&FlatColumns::column(self, index)?)
    }
}

impl FlatColumns for RowWiseRows {
    fn row_count(&self) -> usize {
        self.block.row_count()
    }

    fn lends(&self) -> bool {
        false
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
fn filter_by(mask: BooleanBuffer) -> FilterPredicate {
    FilterBuilder::new(&BooleanArray::new(mask, None)).optimize().build()
}

fn filtered(column: &ArrayRef, filter: Option<&FilterPredicate>) -> Result<ArrayRef, ArrowError> {
    match filter {
        Some(filter) => filter.filter(column),
        None => Ok(Arc::clone(column)),
    }
}

/// The elements of the records that pass.
fn spread(of_records: &BooleanBuffer, elements: &Elements, row_count: usize) -> BooleanBuffer {
    let offsets: &[i32] = &elements.offsets;
    let row_of = |record: usize| (offsets[record] - offsets[0]) as usize;
    let mut words = vec![0_u64; row_count.div_ceil(64)];
    // Neighbours that pass are taken together.
    for (first, end) in of_records.set_slices() {
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
