//! What an operation of each layout costs, and from that what a query and a conversion cost.
//!
//! Owns the model; not its [correction](super::correction) by what is observed. Pure.
//!
//! A reading goes through an item piece by piece. Of each piece it first *tests* the columns of the filter, value by
//! value, and begins each of them. A piece that nothing passes is done with then, and of one that everything passes the columns are lent. The
//! others are *cut*: every row is marked as passing or not; of the output's columns the values of passing rows are
//! copied, one by one, or run by run where most rows pass. Texts take more to copy. Columns of less than 8 bytes a
//! value are kept in narrow forms, and whatever is selected of them, lent or cut, is *widened*, value by value. All of
//! that is loaded from the processor's caches, line by line: all lines of a column that is tested, and of one that is
//! not those of the values taken. Of `n` values of `w` bytes, of which the share `s` is taken, these are
//! `n · w / 64 · (1 − (1 − s)^(64 / w))`. What is not in the caches any more ([`FromMemory`]) is fetched, which takes
//! longer. Beyond that:
//!
//! - *nested*: record columns are tested once a record. Where rows are elements, the records that pass are spread over
//!   their elements, and the output's record columns are gathered: each selected element gets its record's number,
//!   which takes a step for each record passed and a longer one for each run of elements and of records, and then a
//!   value for each of the columns, by number.
//! - *flat*: record columns are tested once for each of their elements. A query on records picks the first row of each
//!   record, so that whole pieces are cut too.
//! - *striped*: as nested, once arrays were made of each piece's columns, and the element columns' levels were turned
//!   into offsets: a step for each record and column.
//! - *row*: as flat, but a tested column is moved out of all rows first, and an output's values are moved out of the
//!   rows that pass.
//!
//! Rows and values are counted by whoever reads ([`ReadCounts`]), in numbers
//! that are the same in every layout. Not in the model: how long texts are, and that comparing them takes longer;
//! values that are missing; that values which are short by their type are not widened, and floats take longer to widen
//! than integers.
//!
//! Pipelines take values [as they are kept](LayoutObservation::as_kept): none is widened, and of pieces of numbers whose
//! rows are there as they are asked for, and of which enough pass, these are marked and nothing is copied.
//!
//! Paper: ReCache §4.2 extrapolates from the present layout's times; all of this is ours.

use super::residency::FromMemory;
use crate::operator_cache::layout::row_or_column::{CACHE_LINE_BYTES, ColumnRead, RowsTouched};
use crate::operator_cache::layout::{ColumnsRead, ItemShape, Layout, LayoutObservation, MARKED_SHARE, ReadCounts};

/// Nanoseconds of one core. Ratios matter more, since an item's [correction](super::Correction) finds out how fast the
/// machine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitCosts {
    /// Reading an item at all.
    pub open_ns: f64,
    /// Reading a piece, whatever comes of it.
    pub open_ns_per_piece: f64,
    /// Reading one of its columns, or making one of its output's.
    pub open_ns_per_column: f64,
    /// Making arrays of one of a piece's columns from its stripe.
    pub assemble_ns_per_column: f64,
    /// Beginning to compare the values of one of a piece's columns.
    pub test_ns_per_column: f64,
    /// Comparing a value with a range.
    pub test_ns_per_value: f64,
    /// Going over a row of a piece of which the rows that pass are marked.
    pub pass_ns_per_row: f64,
    /// Finding out of a row of a piece, of which those that pass are copied, whether it is one.
    pub mark_ns_per_row: f64,
    /// Finding a marked row.
    pub select_ns_per_row: f64,
    /// Copying the value of a row that was found, or that of its record by number.
    pub copy_ns_per_value: f64,
    /// Finding a run of marked rows, spreading a run of records over their elements, or coming upon it while numbering.
    pub run_ns_per_run: f64,
    /// Going on to another run of a column's values that is copied as a whole.
    pub copy_ns_per_run: f64,
    /// Copying a value that lies in such a run.
    pub move_ns_per_value: f64,
    /// Making 8 bytes of a selected value that is kept in less.
    pub widen_ns_per_value: f64,
    /// Moving a value that varies in width, beside what others take.
    pub text_ns_per_value: f64,
    /// Loading a line of 64 bytes from the processor's caches, in their order.
    pub load_ns_per_line: f64,
    /// Fetching it from memory, beside that.
    pub fetch_ns_per_line: f64,
    /// Bytes of the item that come from memory before the caches have lost all but 1/e of what they held; not a cost.
    pub kept_bytes: f64,
    /// Writing the number of its record for an element.
    pub number_ns_per_row: f64,
    /// Going on to another record while numbering.
    pub step_ns_per_record: f64,
    /// Going on to another run of elements while numbering.
    pub step_ns_per_run: f64,
    /// Finding from its levels where a record's elements begin in a column.
    pub level_ns_per_record: f64,
    /// Moving a value out of a row, whose line is to be fetched for it.
    pub stride_ns_per_value: f64,
    /// Reading or writing a byte of a converted item.
    pub convert_ns_per_byte: f64,
    /// Repeating a record's value in flat rows, or moving a value into or out of a row, while converting.
    pub repeat_ns_per_value: f64,
    /// Making or decoding a value's levels, while converting.
    pub shred_ns_per_value: f64,
}

impl Default for UnitCosts {
    /// Those of queries were fitted, so that the readings' relative errors are small and none is negative, to 1200 readings
    /// of TPC-H's nested orders by pipelines (1.5 million records, 6 million elements, numbers of 1, 2 and 4 bytes), each
    /// the middle one of three, on a core of Intel's (family 6, model 167); and drawn towards what came of readings by
    /// operators on another one of Intel's and on one of AMD's (EPYC, family 26).
    ///
    /// Processors differ in more than speed. Fitted to AMD's alone, costs foretold 91 % of other readings there to within
    /// 10 %, for a layout that was not read, and 18 % where they were fitted to Intel's, readings of striped records
    /// taking a third more than foretold and readings of flat ones a fifth less. But within one layout and one kind of
    /// query, records or elements, where an item's correction takes out what they have in common, all foretell much the
    /// same: so costs between processors are good enough once a layout was tried.
    ///
    /// What the caches keep was fitted too; 20 to 60 MB make little difference. The processor has 2 MB a core, and
    /// 260 MB that are shared with other machines'.
    ///
    /// Those of texts and rows are older, from `benches/cost_model.rs` of the cache's crate.
    ///
    /// A conversion was measured on TPC-H's orders too, when each number took 8 bytes: 260 MB read and written from
    /// nested to flat in 173 ms, 950 MB to striped in 400; most of it goes into fresh memory. What is too little there
    /// is lost for good: items are converted to and fro.
    fn default() -> Self {
        Self {
            open_ns: 1_000.0,
            open_ns_per_piece: 420.0,
            open_ns_per_column: 130.0,
            assemble_ns_per_column: 290.0,
            test_ns_per_column: 340.0,
            test_ns_per_value: 0.21,
            pass_ns_per_row: 0.017,
            mark_ns_per_row: 0.2,
            select_ns_per_row: 0.57,
            copy_ns_per_value: 0.48,
            run_ns_per_run: 10.4,
            copy_ns_per_run: 7.5,
            move_ns_per_value: 0.14,
            widen_ns_per_value: 0.32,
            text_ns_per_value: 6.7,
            load_ns_per_line: 4.75,
            fetch_ns_per_line: 1.5,
            kept_bytes: 30e6,
            number_ns_per_row: 2.3,
            step_ns_per_record: 1.5,
            step_ns_per_run: 7.1,
            level_ns_per_record: 2.2,
            stride_ns_per_value: 4.2,
            convert_ns_per_byte: 0.6,
            repeat_ns_per_value: 1.5,
            shred_ns_per_value: 3.0,
        }
    }
}

/// Bytes of a value that is not in a narrow form, and of columns of which nothing is known.
const WIDE_BYTES: f64 = 8.0;
/// If a larger share of a piece's rows passes, they are copied run by run: as Arrow's filters do.
const COPIED_BY_RUN: f64 = 0.8;
/// Of many pieces where about that share passes, some have more and some have less: by up to so much.
const SHARE_SPREAD: f64 = 0.01;

/// The rows of pieces that are cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: f64,
    selected: f64,
    runs: f64,
    /// The share of pieces where rows that pass are marked, and nothing is copied.
    marked: f64,
}

impl Cut {
    /// Rows as the query asks for them.
    fn of(counts: &ReadCounts) -> Self {
        let [rows, selected, runs] = [counts.cut_rows, counts.cut_selected_rows, counts.cut_runs].map(|of| of as f64);
        Self { rows, selected, runs, marked: 0.0 }
    }

    /// The share of pieces of which more than this share passes.
    fn share_above(self, share: f64) -> f64 {
        let above = self.selected / self.rows.max(1.0) - (share - SHARE_SPREAD);
        (above / (2.0 * SHARE_SPREAD)).clamp(0.0, 1.0)
    }

    /// The same if rows may be marked whose output has these columns.
    fn marked_for(self, query: &LayoutObservation, columns: ColumnsRead) -> Self {
        let may_be = query.as_kept && columns.varying == 0;
        Self { marked: if may_be { self.share_above(MARKED_SHARE) } else { 0.0 }, ..self }
    }
}

/// The columns of one kind that a query reads.
#[derive(Clone, Copy, Debug)]
struct Columns {
    counts: ColumnsRead,
    /// Bytes of a value of those that are tested, on average.
    tested_bytes: f64,
    /// Bytes of a value of those that are not.
    untested_bytes: f64,
    /// Of all that are read, the share whose values are widened.
    narrow_share: f64,
    /// Of their lines, the share that comes from memory.
    from_memory: f64,
}

impl Columns {
    /// Of the elements, or of the records. `columns` are all of the item's, or none.
    fn of(counts: ColumnsRead, columns: &[ColumnRead], (of_elements, as_kept): (bool, bool), from_memory: f64) -> Self {
        let own = || columns.iter().filter(|column| column.is_of_elements == of_elements);
        let bytes = |column: &ColumnRead| f64::from(column.width_bytes.max(1));
        let mean_bytes = |rows: RowsTouched| mean(own().filter(|column| column.rows == rows).map(bytes));
        let read = own().filter(|column| column.rows != RowsTouched::None);
        Self {
            counts,
            tested_bytes: mean_bytes(RowsTouched::Every).unwrap_or(WIDE_BYTES),
            untested_bytes: mean_bytes(RowsTouched::Selected).unwrap_or(WIDE_BYTES),
            narrow_share: mean(read.map(|column| f64::from(!as_kept && bytes(column) < WIDE_BYTES))).unwrap_or(0.0),
            from_memory,
        }
    }

    /// Columns of the output whose values are widened.
    fn widened(&self) -> f64 {
        f64::from(self.counts.output.saturating_sub(self.counts.varying)) * self.narrow_share
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// What a query is predicted to cost, told apart as it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryCost {
    /// `D`: all but the levels and what is made of them.
    pub data_ns: f64,
    /// `C`: levels and arrays made by them, where the layout has them.
    pub compute_ns: f64,
}

impl QueryCost {
    /// `D + C`.
    pub fn total_ns(&self) -> f64 {
        self.data_ns + self.compute_ns
    }
}

impl UnitCosts {
    /// What the observed query costs in `layout`, whatever layout it was observed in, if this much of that comes from
    /// memory. `columns` are all of the item's, in any order; none if what they hold is not known, and then each takes
    /// 8 bytes a value.
    pub fn query_cost(
        &self,
        layout: Layout,
        shape: &ItemShape,
        query: &LayoutObservation,
        columns: &[ColumnRead],
        from_memory: FromMemory,
    ) -> QueryCost {
        // A query on records reads no elements, whatever its observer counted.
        let element_columns = if query.reads_elements { query.element_columns } else { ColumnsRead::default() };
        let of_records = Columns::of(query.record_columns, columns, (false, query.as_kept), from_memory.records);
        let of_elements = Columns::of(element_columns, columns, (true, query.as_kept), from_memory.elements);
        let work_ns = match layout {
            Layout::Nested | Layout::Striped => self.nested_ns(shape, query, of_records, of_elements),
            Layout::Flat => self.flat_ns(shape, query, of_records, of_elements),
            Layout::RowWise => self.row_wise_ns(shape, query, query.record_columns.plus(element_columns)),
        };
        let widened = query.counts.selected_rows() as f64 * (of_records.widened() + of_elements.widened());
        let tests_ns = query.counts.columns_tested as f64 * self.test_ns_per_column;
        let data_ns = self.opening_ns(query) + tests_ns + work_ns + widened * self.widen_ns_per_value;
        // Without a column of elements some column tells how many there are all the same.
        let leveled = if query.reads_elements { element_columns.read.max(1) } else { 0 };
        let levels_ns = shape.record_count as f64 * f64::from(leveled) * self.level_ns_per_record;
        match layout {
            Layout::Striped => QueryCost { data_ns, compute_ns: self.assembling_ns(query) + levels_ns },
            _ => QueryCost { data_ns, compute_ns: 0.0 },
        }
    }

    /// Arrays of every piece's columns.
    fn assembling_ns(&self, query: &LayoutObservation) -> f64 {
        query.counts.piece_count as f64 * f64::from(query.columns_read()) * self.assemble_ns_per_column
    }

    /// What is left of a query where nothing is tested and everything lent.
    pub fn opening_ns(&self, query: &LayoutObservation) -> f64 {
        let ColumnsRead { read, output, .. } = query.record_columns.plus(query.element_columns);
        let columns = f64::from(read) + f64::from(output);
        self.open_ns + query.counts.piece_count as f64 * (self.open_ns_per_piece + columns * self.open_ns_per_column)
    }

    fn nested_ns(
        &self,
        shape: &ItemShape,
        query: &LayoutObservation,
        of_records: Columns,
        of_elements: Columns,
    ) -> f64 {
        let counts = &query.counts;
        let cut = Cut::of(counts);
        let whole_rows = counts.whole_rows as f64;
        let tests_ns = self.tests_ns(counts.record_values_tested as f64, of_records)
            + self.tests_ns(counts.element_values_tested as f64, of_elements);
        if !query.reads_elements {
            let cut = cut.marked_for(query, of_records.counts);
            return tests_ns + self.cut_ns(cut, of_records.counts) + self.lines_ns(of_records, cut, whole_rows);
        }
        let spread_ns = counts.record_runs as f64 * self.run_ns_per_run;
        // What is gathered for them is copied.
        let cut = if of_records.counts.output == 0 { cut.marked_for(query, of_elements.counts) } else { cut };
        let lines_ns = self.lines_ns(of_elements, cut, whole_rows);
        let own_ns = tests_ns + spread_ns + self.cut_ns(cut, of_elements.counts) + lines_ns;
        if of_records.counts.output == 0 {
            return own_ns;
        }
        let selected = counts.selected_rows() as f64;
        let passed_records = (cut.rows + whole_rows) / elements_per_record(shape);
        let numbers_ns = selected * self.number_ns_per_row
            + passed_records * self.step_ns_per_record
            + cut.runs * self.step_ns_per_run
            + (counts.record_runs as f64).min(cut.runs) * self.run_ns_per_run;
        let values_ns = selected * f64::from(of_records.counts.output) * self.copy_ns_per_value
            + selected * f64::from(of_records.counts.varying) * self.text_ns_per_value;
        let records = shape.record_count as f64;
        let taken_records = (cut.runs + whole_rows / elements_per_record(shape)).min(records);
        own_ns + numbers_ns + values_ns + self.taken_lines_ns(of_records, records, taken_records)
    }

    fn flat_ns(&self, shape: &ItemShape, query: &LayoutObservation, of_records: Columns, of_elements: Columns) -> f64 {
        let record_values = query.counts.record_values_tested as f64 * elements_per_record(shape);
        let tests_ns = self.tests_ns(record_values, of_records)
            + self.tests_ns(query.counts.element_values_tested as f64, of_elements);
        let (cut, whole_rows) = flat_cut(shape, query);
        let lines_ns = self.lines_ns(of_records, cut, whole_rows) + self.lines_ns(of_elements, cut, whole_rows);
        tests_ns + self.cut_ns(cut, of_records.counts.plus(of_elements.counts)) + lines_ns
    }

    fn row_wise_ns(&self, shape: &ItemShape, query: &LayoutObservation, columns: ColumnsRead) -> f64 {
        let values_tested = query.counts.record_values_tested as f64 * elements_per_record(shape)
            + query.counts.element_values_tested as f64;
        let tests_ns = values_tested * (self.stride_ns_per_value + self.test_ns_per_value);
        let (cut, _) = flat_cut(shape, query);
        let found_ns = cut.rows * self.mark_ns_per_row + cut.selected * self.select_ns_per_row;
        let taken = query.counts.selected_rows() as f64 * f64::from(columns.output);
        let texts_ns = query.counts.selected_rows() as f64 * f64::from(columns.varying) * self.text_ns_per_value;
        tests_ns + found_ns + taken * self.stride_ns_per_value + texts_ns
    }

    /// Comparing values that lie one after the other, once they are loaded.
    fn tests_ns(&self, values: f64, columns: Columns) -> f64 {
        let lines = values * columns.tested_bytes / CACHE_LINE_BYTES as f64;
        values * self.test_ns_per_value + lines * self.line_ns(columns)
    }

    /// Taking the selected values of some columns out of pieces, once they are loaded.
    fn cut_ns(&self, cut: Cut, columns: ColumnsRead) -> f64 {
        if cut.rows == 0.0 {
            return 0.0;
        }
        let output = f64::from(columns.output);
        let by_run = cut.share_above(COPIED_BY_RUN);
        let by_run_ns = cut.runs * (self.run_ns_per_run + output * self.copy_ns_per_run)
            + cut.selected * output * self.move_ns_per_value;
        let one_by_one_ns = cut.selected * (self.select_ns_per_row + output * self.copy_ns_per_value);
        let copied_ns = by_run * by_run_ns + (1.0 - by_run) * one_by_one_ns;
        let texts_ns = cut.selected * f64::from(columns.varying) * self.text_ns_per_value;
        let marked_ns = cut.rows * self.pass_ns_per_row;
        cut.marked * marked_ns + (1.0 - cut.marked) * (cut.rows * self.mark_ns_per_row + copied_ns + texts_ns)
    }

    /// Loading the lines of those columns that were not tested: of rows that are cut, those that are taken, if they are
    /// copied; of rows that are lent, those that are widened.
    fn lines_ns(&self, columns: Columns, cut: Cut, whole_rows: f64) -> f64 {
        let whole_bytes = whole_rows * columns.narrow_share * columns.untested_bytes;
        let whole_lines = f64::from(columns.counts.untested) * whole_bytes / CACHE_LINE_BYTES as f64;
        let taken_ns = self.taken_lines_ns(columns, cut.rows, cut.selected);
        (1.0 - cut.marked) * taken_ns + whole_lines * self.line_ns(columns)
    }

    /// Loading the lines of those columns that were not tested, if `taken` of `stored` values are taken of each, at
    /// random.
    fn taken_lines_ns(&self, columns: Columns, stored: f64, taken: f64) -> f64 {
        if stored == 0.0 {
            return 0.0;
        }
        let line_bytes = CACHE_LINE_BYTES as f64;
        let values_per_line = (line_bytes / columns.untested_bytes).max(1.0);
        let left_out = (1.0 - (taken / stored).min(1.0)).powf(values_per_line);
        let lines = stored * columns.untested_bytes / line_bytes * (1.0 - left_out);
        f64::from(columns.counts.untested) * lines * self.line_ns(columns)
    }

    /// Of one of the columns.
    fn line_ns(&self, columns: Columns) -> f64 {
        self.load_ns_per_line + columns.from_memory * self.fetch_ns_per_line
    }

    /// What converting the whole item costs: its bytes in both layouts, and the work on values that either needs.
    pub fn conversion_ns(&self, shape: &ItemShape, from: Layout, to: Layout) -> f64 {
        let flat_rows = shape.flat_row_count as f64;
        let flat_values = flat_rows * f64::from(shape.record_columns.saturating_add(shape.element_columns));
        let stored_values =
            shape.record_count as f64 * f64::from(shape.record_columns) + flat_rows * f64::from(shape.element_columns);
        let values_ns = |layout: Layout| match layout {
            Layout::Nested => 0.0,
            Layout::Flat => (flat_values - stored_values).max(0.0) * self.repeat_ns_per_value,
            Layout::Striped => stored_values * self.shred_ns_per_value,
            Layout::RowWise => flat_values * self.repeat_ns_per_value,
        };
        let bytes = shape.size_bytes(from) as f64 + shape.size_bytes(to) as f64;
        self.open_ns + bytes * self.convert_ns_per_byte + values_ns(from) + values_ns(to)
    }
}

/// How often a flat layout repeats the values of a record; at least once.
fn elements_per_record(shape: &ItemShape) -> f64 {
    (shape.flat_row_count as f64 / (shape.record_count as f64).max(1.0)).max(1.0)
}

/// The flat rows that are cut, and how many are lent.
fn flat_cut(shape: &ItemShape, query: &LayoutObservation) -> (Cut, f64) {
    let counts = &query.counts;
    let (cut_rows, whole_rows) = (counts.cut_rows as f64, counts.whole_rows as f64);
    if query.reads_elements || shape.flat_row_count == shape.record_count {
        let element_columns = if query.reads_elements { query.element_columns } else { ColumnsRead::default() };
        return (Cut::of(counts).marked_for(query, query.record_columns.plus(element_columns)), whole_rows);
    }
    // The first rows of records have others between them, and are copied.
    let (rows, selected) = ((cut_rows + whole_rows) * elements_per_record(shape), counts.selected_rows() as f64);
    (Cut { rows, selected, runs: selected, marked: 0.0 }, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator_cache::layout::sample_query::{SampleQuery, evenly};

    const ORDERS: ItemShape = ItemShape {
        record_count: 100_000,
        flat_row_count: 400_000,
        record_columns: 9,
        element_columns: 16,
        size_bytes: [60 << 20, 80 << 20, 65 << 20, 80 << 20],
    };

    fn query(reads_elements: bool, record_columns: u32, element_columns: u32, share: f64) -> LayoutObservation {
        evenly(&ORDERS, SampleQuery { reads_elements, record_columns, element_columns, share })
    }

    fn cost(layout: Layout, query: &LayoutObservation) -> f64 {
        UnitCosts::default().query_cost(layout, &ORDERS, query, &[], FromMemory::default()).total_ns()
    }

    fn cheapest(query: &LayoutObservation) -> Layout {
        let mut layouts = Layout::ALL;
        layouts.sort_by(|a, b| cost(*a, query).total_cmp(&cost(*b, query)));
        layouts[0]
    }

    #[test]
    fn each_layout_is_the_cheapest_for_what_it_is_made_for() {
        assert_eq!(cheapest(&query(false, 3, 0, 0.5)), Layout::Nested);
        assert_eq!(cheapest(&query(true, 3, 3, 0.5)), Layout::Flat);
    }

    #[test]
    fn columns_that_lose_no_row_are_lent() {
        let opening = |query: &LayoutObservation| UnitCosts::default().opening_ns(query);
        let lent = query(true, 4, 4, 1.0);
        assert_eq!(cost(Layout::Flat, &lent), opening(&lent));
        for lent in [query(true, 0, 4, 1.0), query(false, 4, 0, 1.0)] {
            assert_eq!(cost(Layout::Nested, &lent), opening(&lent));
        }
        let [records, gathered] = [query(false, 4, 0, 1.0), query(true, 1, 4, 1.0)];
        assert!(cost(Layout::Flat, &records) > opening(&records));
        assert!(cost(Layout::Nested, &gathered) > opening(&gathered));
    }

    #[test]
    fn a_column_that_is_tested_costs_something_in_each_piece_however_few_values_it_has() {
        for layout in Layout::ALL {
            let one = query(true, 2, 2, 0.5);
            let mut two = one;
            two.counts.columns_tested += 100;
            let beginning = 100.0 * UnitCosts::default().test_ns_per_column;
            assert!(beginning > 0.0 && (cost(layout, &two) - cost(layout, &one) - beginning).abs() < 1.0, "{layout}");
        }
    }

    #[test]
    fn a_range_that_selects_whole_pieces_costs_less_than_one_that_selects_as_many_rows_everywhere() {
        for (layout, query) in Layout::ALL.into_iter().zip([query(true, 2, 2, 0.5); 4]) {
            let mut clustered = query;
            clustered.counts.whole_rows = query.counts.cut_selected_rows;
            clustered.counts.cut_rows = 0;
            clustered.counts.cut_selected_rows = 0;
            clustered.counts.cut_runs = 0;
            assert!(cost(layout, &clustered) < cost(layout, &query), "{layout}");
        }
    }

    #[test]
    fn texts_take_longer_wherever_they_are_copied() {
        for layout in Layout::ALL {
            let numbers = query(true, 2, 2, 0.5);
            let mut texts = numbers;
            texts.element_columns.varying = 1;
            assert!(cost(layout, &texts) > cost(layout, &numbers), "{layout}");
        }
        let mut lent = query(true, 0, 2, 1.0);
        lent.element_columns.varying = 2;
        assert_eq!(cost(Layout::Flat, &lent), UnitCosts::default().opening_ns(&lent));
    }

    #[test]
    fn rows_that_are_marked_are_not_copied() {
        let kept = |query: LayoutObservation| LayoutObservation { as_kept: true, ..query };
        let costs = |layout, query: &LayoutObservation| (cost(layout, query), cost(layout, &kept(*query)));
        // Whether they can be marked where half of them pass: not what is gathered, nor first rows among others.
        for (query, marked) in [
            (query(false, 3, 0, 0.5), [Layout::Nested, Layout::Striped].as_slice()),
            (query(true, 0, 3, 0.5), &[Layout::Nested, Layout::Flat, Layout::Striped]),
            (query(true, 2, 3, 0.5), &[Layout::Flat]),
        ] {
            for layout in Layout::ALL {
                let (copied, as_kept) = costs(layout, &query);
                assert_eq!(as_kept < copied, marked.contains(&layout), "{layout}: {as_kept} {copied}");
            }
        }
        let (few, mut texts) = (query(true, 0, 3, 0.1), query(true, 0, 3, 0.5));
        texts.element_columns.varying = 1;
        for query in [few, texts] {
            let (copied, as_kept) = costs(Layout::Flat, &query);
            assert_eq!(as_kept, copied);
        }
    }

    #[test]
    fn what_the_caches_hold_costs_less_where_columns_are_read_and_not_where_they_are_lent() {
        let cached = FromMemory { records: 0.0, elements: 0.0 };
        let lent = query(true, 0, 4, 1.0);
        for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
            let cost = |query: &LayoutObservation, from_memory| {
                UnitCosts::default().query_cost(layout, &ORDERS, query, &[], from_memory).total_ns()
            };
            for read in [query(false, 3, 0, 0.5), query(true, 2, 2, 0.5)] {
                let shares = [0.0, 0.5, 1.0].map(|share| FromMemory { records: share, ..cached });
                let [none, half, all] = shares.map(|from_memory| cost(&read, from_memory));
                assert!((half - (none + all) / 2.0).abs() < 1.0 && none < all, "{layout}");
            }
            assert_eq!(cost(&lent, cached), cost(&lent, FromMemory::default()), "{layout}");
        }
    }

    /// The item's columns as the query reads them, of as many bytes a value each: the first one of its rows' kind is
    /// tested.
    fn columns(query: &LayoutObservation, width_bytes: u32) -> Vec<ColumnRead> {
        let is_tested = query.counts.whole_rows == 0;
        let of = |read: u32, count: u32, is_of_elements: bool| {
            let rows = move |index| match index {
                0 if is_tested && is_of_elements == query.reads_elements => RowsTouched::Every,
                _ if index < read => RowsTouched::Selected,
                _ => RowsTouched::None,
            };
            (0..count).map(move |index| ColumnRead { width_bytes, rows: rows(index), is_of_elements })
        };
        let of_records = of(query.record_columns.read, ORDERS.record_columns, false);
        of_records.chain(of(query.element_columns.read, ORDERS.element_columns, true)).collect()
    }

    fn cost_of_width(layout: Layout, query: &LayoutObservation, width_bytes: u32) -> f64 {
        let columns = columns(query, width_bytes);
        UnitCosts::default().query_cost(layout, &ORDERS, query, &columns, FromMemory::default()).total_ns()
    }

    #[test]
    fn columns_of_which_nothing_is_known_take_8_bytes_a_value() {
        for layout in Layout::ALL {
            for query in [query(false, 3, 0, 0.5), query(true, 2, 2, 0.5), query(true, 2, 2, 1.0)] {
                assert_eq!(cost_of_width(layout, &query, 8), cost(layout, &query), "{layout}");
            }
        }
    }

    #[test]
    fn narrow_values_are_loaded_faster_and_each_that_is_selected_is_widened() {
        for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
            for few in [query(false, 3, 0, 0.01), query(true, 2, 2, 0.01)] {
                let costs = [1, 2, 4, 8].map(|width_bytes| cost_of_width(layout, &few, width_bytes));
                assert!(costs.is_sorted_by(|a, b| a < b), "{layout}: {costs:?}");
            }
        }
        let costs = UnitCosts::default();
        for layout in Layout::ALL {
            let mut lent = query(true, 0, 4, 1.0);
            let values = 4.0 * ORDERS.flat_row_count as f64;
            let beside_ns = cost_of_width(layout, &lent, 1) - cost_of_width(layout, &lent, 8);
            let lines = if layout == Layout::RowWise { 0.0 } else { values / 64.0 };
            let loaded_ns = lines * (costs.load_ns_per_line + costs.fetch_ns_per_line);
            assert!((beside_ns / (values * costs.widen_ns_per_value + loaded_ns) - 1.0).abs() < 1e-9, "{layout}");
            // Texts have no narrow form.
            let numbers_ns = cost_of_width(layout, &lent, 4);
            lent.element_columns.varying = 4;
            let texts = lent.element_columns.varying as f64 * ORDERS.flat_row_count as f64;
            let moved_ns = if layout == Layout::RowWise { texts * costs.text_ns_per_value } else { 0.0 };
            let spared_ns = numbers_ns + moved_ns - cost_of_width(layout, &lent, 4);
            assert!((spared_ns / (values * costs.widen_ns_per_value) - 1.0).abs() < 1e-6, "{layout}");
        }
    }

    #[test]
    fn wider_columns_that_are_not_read_cost_nothing() {
        for layout in Layout::ALL {
            let read = query(true, 2, 2, 0.5);
            let mut others = columns(&read, 4);
            for column in others.iter_mut().filter(|column| column.rows == RowsTouched::None) {
                column.width_bytes = 100;
            }
            let cost = UnitCosts::default().query_cost(layout, &ORDERS, &read, &others, FromMemory::default());
            assert_eq!(cost.total_ns(), cost_of_width(layout, &read, 4), "{layout}");
        }
    }

    #[test]
    fn a_row_more_makes_no_leap_where_pieces_begin_to_be_copied_by_run() {
        for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
            for query in [|share| query(true, 0, 3, share), |share| query(false, 3, 0, share)] {
                let costs: Vec<f64> =
                    (0..=100).map(|step| cost_of_width(layout, &query(0.75 + f64::from(step) / 1000.0), 4)).collect();
                let leap = costs.windows(2).map(|pair| (pair[1] / pair[0] - 1.0).abs()).fold(0.0, f64::max);
                assert!(leap < 0.06, "{layout}: {leap}");
            }
        }
    }

    #[test]
    fn a_prediction_is_the_same_whichever_layout_the_query_was_observed_in() {
        let observed = query(true, 2, 3, 0.3);
        for layout in Layout::ALL {
            let elsewhere = LayoutObservation { layout, data_ns: 7, compute_ns: 9, ..observed };
            for predicted in Layout::ALL {
                assert_eq!(cost(predicted, &elsewhere), cost(predicted, &observed));
            }
        }
    }

    #[test]
    fn no_cost_is_negative_or_infinite_for_items_without_rows() {
        let empty = ItemShape { record_count: 0, flat_row_count: 0, size_bytes: [0; 4], ..ORDERS };
        let costs = UnitCosts::default();
        let nothing =
            evenly(&empty, SampleQuery { reads_elements: true, record_columns: 3, element_columns: 3, share: 1.0 });
        for from in Layout::ALL {
            let cost = costs.query_cost(from, &empty, &nothing, &[], FromMemory::default());
            assert_eq!(cost.total_ns(), costs.opening_ns(&nothing));
            for to in Layout::ALL {
                assert_eq!(costs.conversion_ns(&empty, from, to), costs.open_ns);
                assert!(costs.conversion_ns(&ORDERS, from, to) > costs.open_ns);
            }
        }
    }
}
