//! What an operation of each layout costs, and from that what a query and a conversion cost.
//!
//! Owns the model; not its [correction](super::correction) by what is observed. Pure.
//!
//! A reading goes through an item piece by piece. Of each piece it first *tests* the columns of the filter, value by
//! value. A piece that nothing passes is done with then, and one that everything passes is lent, not copied. The others
//! are *cut*: every row is marked as passing or not; of the output's columns the values of passing rows are copied, one
//! by one, or run by run where most rows pass. Texts take more to copy. What is not in the processor's caches any more
//! ([`FromMemory`]) is fetched, line by line: all lines of a column that is tested, and of one that is not those of the
//! values taken, of `n` values of 8 bytes of which the share `s` is taken, `n / 8 · (1 − (1 − s)^8)`. Beyond that:
//!
//! - *nested*: record columns are tested once a record. Where rows are elements, the records that pass are spread over
//!   their elements, and the output's record columns are gathered: each selected element gets its record's number,
//!   which takes a step for each record passed and each run of elements, and then a value for each of the columns.
//! - *flat*: record columns are tested once for each of their elements. A query on records picks the first row of each
//!   record, so that whole pieces are cut too.
//! - *striped*: as nested, once arrays were made of each piece's columns, and the element columns' levels were turned
//!   into offsets: a step for each record and column.
//! - *row*: as flat, but a tested column is moved out of all rows first, and an output's values are moved out of the
//!   rows that pass.
//!
//! All of that is counted by whoever reads ([`ReadCounts`](crate::operator_cache::layout::ReadCounts)), in numbers that
//! are the same in every layout. Not in the model: how long texts are, and that comparing them takes longer; values
//! that are missing; values of other widths than 8 bytes.
//!
//! Paper: ReCache §4.2 extrapolates from the present layout's times; all of this is ours.

use super::residency::FromMemory;
use crate::operator_cache::layout::{ColumnsRead, ItemShape, Layout, LayoutObservation};

/// Nanoseconds of one core. Ratios matter more, since an item's [correction](super::Correction) finds out how fast the
/// machine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitCosts {
    /// Reading an item at all.
    pub open_ns: f64,
    /// Reading a piece, whatever comes of it.
    pub open_ns_per_piece: f64,
    /// Reading one of its columns.
    pub open_ns_per_column: f64,
    /// Making arrays of one of a piece's columns from its stripe.
    pub assemble_ns_per_column: f64,
    /// Comparing a value with a range.
    pub test_ns_per_value: f64,
    /// Marking a row of a piece as passing or not.
    pub mark_ns_per_row: f64,
    /// Finding a marked row.
    pub select_ns_per_row: f64,
    /// Copying the value of a row that was found.
    pub copy_ns_per_value: f64,
    /// Finding a run of marked rows, copying its values, or spreading a run of records over their elements.
    pub run_ns_per_run: f64,
    /// Moving a value that varies in width, beside what others take.
    pub text_ns_per_value: f64,
    /// Fetching a line of 64 bytes from memory, in their order, beside fetching it from the processor's caches.
    pub fetch_ns_per_line: f64,
    /// Bytes of the item that come from memory before the caches have lost all but 1/e of what they held; not a cost.
    pub kept_bytes: f64,
    /// Writing the number of its record for an element.
    pub number_ns_per_row: f64,
    /// Going on to another record, or another run of elements, while numbering.
    pub step_ns_per_record: f64,
    /// Moving a record's value for an element, by way of its record's number.
    pub gather_ns_per_value: f64,
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
    /// Those of queries were fitted by least squares, so that none is negative, to half of 5400 readings of TPC-H's
    /// nested orders (1.5 million records, 6 million elements, numbers of 8 bytes) in three layouts, on a core of 2 to
    /// 3 GHz. Of the other half 75 % are within 10 % of what the units say, and 99 % within 30 %; two runs of a query
    /// agree within 10 % in 84 % of cases. If every line came from memory, 56 % and 93 %. That floats took longer to
    /// compare than they do was allowed for. Those of texts and rows are from `benches/cost_model.rs` of the cache's
    /// crate, where the others come out about the same.
    ///
    /// What takes a stripe's columns apart was fitted to queries on records of 200 others that were each run five
    /// times: those were foretold 6 % too cheap, whatever their columns.
    ///
    /// What the caches keep was fitted too; 50 to 100 MB make no difference. The processor has 2 MB a core, and 260 MB
    /// that are shared with other machines'.
    ///
    /// A conversion was measured on TPC-H's orders too: 260 MB read and written from nested to flat in 173 ms, 950 MB
    /// to striped in 400; most of it goes into fresh memory. What is too little there is lost for good: items are
    /// converted to and fro.
    fn default() -> Self {
        Self {
            open_ns: 1_000.0,
            open_ns_per_piece: 210.0,
            open_ns_per_column: 270.0,
            assemble_ns_per_column: 230.0,
            test_ns_per_value: 0.65,
            mark_ns_per_row: 0.27,
            select_ns_per_row: 0.63,
            copy_ns_per_value: 0.5,
            run_ns_per_run: 7.9,
            text_ns_per_value: 6.7,
            fetch_ns_per_line: 4.1,
            kept_bytes: 64e6,
            number_ns_per_row: 1.7,
            step_ns_per_record: 3.9,
            gather_ns_per_value: 0.57,
            level_ns_per_record: 2.5,
            stride_ns_per_value: 4.2,
            convert_ns_per_byte: 0.6,
            repeat_ns_per_value: 1.5,
            shred_ns_per_value: 3.0,
        }
    }
}

/// Values of 8 bytes in a line.
const VALUES_PER_LINE: f64 = 8.0;
/// If a larger share of rows passes, they are copied run by run: as Arrow's filters do.
const COPIED_BY_RUN: f64 = 0.8;

/// The rows of pieces that are cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    rows: f64,
    selected: f64,
    runs: f64,
}

/// What a query is predicted to cost, told apart as it is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryCost {
    /// `D`: all but the levels.
    pub data_ns: f64,
    /// `C`: levels, where the layout has them.
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
    /// memory.
    pub fn query_cost(
        &self,
        layout: Layout,
        shape: &ItemShape,
        query: &LayoutObservation,
        from_memory: FromMemory,
    ) -> QueryCost {
        // A query on records reads no elements, whatever its observer counted.
        let element_columns = if query.reads_elements { query.element_columns } else { ColumnsRead::default() };
        let work_ns = match layout {
            Layout::Nested | Layout::Striped => self.nested_ns(shape, query, element_columns, from_memory),
            Layout::Flat => self.flat_ns(shape, query, element_columns, from_memory),
            Layout::RowWise => self.row_wise_ns(shape, query, query.record_columns.plus(element_columns)),
        };
        // Without a column of elements some column tells how many there are all the same.
        let leveled = if query.reads_elements { element_columns.read.max(1) } else { 0 };
        let levels_ns = shape.record_count as f64 * f64::from(leveled) * self.level_ns_per_record;
        let data_ns = self.opening_ns(query) + work_ns;
        match layout {
            Layout::Striped => QueryCost { data_ns: data_ns + self.assembling_ns(query), compute_ns: levels_ns },
            _ => QueryCost { data_ns, compute_ns: 0.0 },
        }
    }

    /// Arrays of every piece's columns.
    fn assembling_ns(&self, query: &LayoutObservation) -> f64 {
        query.counts.piece_count as f64 * f64::from(query.columns_read()) * self.assemble_ns_per_column
    }

    /// What is left of a query where nothing is tested and everything lent.
    pub fn opening_ns(&self, query: &LayoutObservation) -> f64 {
        let columns = f64::from(query.columns_read());
        self.open_ns + query.counts.piece_count as f64 * (self.open_ns_per_piece + columns * self.open_ns_per_column)
    }

    fn nested_ns(
        &self,
        shape: &ItemShape,
        query: &LayoutObservation,
        element_columns: ColumnsRead,
        from_memory: FromMemory,
    ) -> f64 {
        let counts = &query.counts;
        let [of_records, of_elements] = [counts.record_values_tested, counts.element_values_tested].map(|n| n as f64);
        let cut = Cut {
            rows: counts.cut_rows as f64,
            selected: counts.cut_selected_rows as f64,
            runs: counts.cut_runs as f64,
        };
        let tests_ns =
            self.tests_ns(of_records, from_memory.records) + self.tests_ns(of_elements, from_memory.elements);
        if !query.reads_elements {
            let lines_ns = self.lines_ns(query.record_columns, cut.rows, cut.selected, from_memory.records);
            return tests_ns + self.cut_ns(cut, query.record_columns) + lines_ns;
        }
        let spread_ns = counts.record_runs as f64 * self.run_ns_per_run;
        let lines_ns = self.lines_ns(element_columns, cut.rows, cut.selected, from_memory.elements);
        let own_ns = tests_ns + spread_ns + self.cut_ns(cut, element_columns) + lines_ns;
        if query.record_columns.output == 0 {
            return own_ns;
        }
        let records = shape.record_count as f64;
        let selected = counts.selected_rows() as f64;
        let passed_records = (cut.rows + counts.whole_rows as f64) / elements_per_record(shape);
        let taken_records = (cut.runs + counts.whole_rows as f64 / elements_per_record(shape)).min(records);
        let numbers_ns = selected * self.number_ns_per_row + (passed_records + cut.runs) * self.step_ns_per_record;
        let values_ns = selected * f64::from(query.record_columns.output) * self.gather_ns_per_value
            + selected * f64::from(query.record_columns.varying) * self.text_ns_per_value;
        let lines_ns = self.lines_ns(query.record_columns, records, taken_records, from_memory.records);
        own_ns + numbers_ns + values_ns + lines_ns
    }

    fn flat_ns(
        &self,
        shape: &ItemShape,
        query: &LayoutObservation,
        element_columns: ColumnsRead,
        from_memory: FromMemory,
    ) -> f64 {
        let of_records = query.counts.record_values_tested as f64 * elements_per_record(shape);
        let of_elements = query.counts.element_values_tested as f64;
        let tests_ns =
            self.tests_ns(of_records, from_memory.records) + self.tests_ns(of_elements, from_memory.elements);
        let Some(cut) = flat_cut(shape, query) else { return tests_ns };
        let lines_ns = self.lines_ns(query.record_columns, cut.rows, cut.selected, from_memory.records)
            + self.lines_ns(element_columns, cut.rows, cut.selected, from_memory.elements);
        tests_ns + self.cut_ns(cut, query.record_columns.plus(element_columns)) + lines_ns
    }

    fn row_wise_ns(&self, shape: &ItemShape, query: &LayoutObservation, columns: ColumnsRead) -> f64 {
        let values_tested = query.counts.record_values_tested as f64 * elements_per_record(shape)
            + query.counts.element_values_tested as f64;
        let tests_ns = values_tested * (self.stride_ns_per_value + self.test_ns_per_value);
        let found_ns = flat_cut(shape, query)
            .map_or(0.0, |cut| cut.rows * self.mark_ns_per_row + cut.selected * self.select_ns_per_row);
        let taken = query.counts.selected_rows() as f64 * f64::from(columns.output);
        let texts_ns = query.counts.selected_rows() as f64 * f64::from(columns.varying) * self.text_ns_per_value;
        tests_ns + found_ns + taken * self.stride_ns_per_value + texts_ns
    }

    /// Comparing values that lie one after the other, of which a share is fetched from memory.
    fn tests_ns(&self, values: f64, from_memory: f64) -> f64 {
        values * (self.test_ns_per_value + from_memory * self.fetch_ns_per_line / VALUES_PER_LINE)
    }

    /// Taking the selected values of some columns out of pieces, once they are fetched.
    fn cut_ns(&self, cut: Cut, columns: ColumnsRead) -> f64 {
        let output = f64::from(columns.output);
        let copied_ns = if cut.selected > cut.rows * COPIED_BY_RUN {
            cut.runs * (1.0 + output) * self.run_ns_per_run
        } else {
            cut.selected * (self.select_ns_per_row + output * self.copy_ns_per_value)
        };
        let texts_ns = cut.selected * f64::from(columns.varying) * self.text_ns_per_value;
        cut.rows * self.mark_ns_per_row + copied_ns + texts_ns
    }

    /// Fetching the lines of those columns that were not tested, if `taken` of `stored` values are taken of each, at
    /// random.
    fn lines_ns(&self, columns: ColumnsRead, stored: f64, taken: f64, from_memory: f64) -> f64 {
        if stored == 0.0 {
            return 0.0;
        }
        let left_out = (1.0 - (taken / stored).min(1.0)).powf(VALUES_PER_LINE);
        let lines = stored / VALUES_PER_LINE * (1.0 - left_out);
        f64::from(columns.untested) * lines * from_memory * self.fetch_ns_per_line
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

/// The flat rows that are cut; none where they are lent.
fn flat_cut(shape: &ItemShape, query: &LayoutObservation) -> Option<Cut> {
    let counts = &query.counts;
    let (cut_rows, whole_rows) = (counts.cut_rows as f64, counts.whole_rows as f64);
    if query.reads_elements || shape.flat_row_count == shape.record_count {
        let (selected, runs) = (counts.cut_selected_rows as f64, counts.cut_runs as f64);
        return (cut_rows > 0.0).then_some(Cut { rows: cut_rows, selected, runs });
    }
    // The first rows of records have others between them.
    let selected = counts.selected_rows() as f64;
    Some(Cut { rows: (cut_rows + whole_rows) * elements_per_record(shape), selected, runs: selected })
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
        UnitCosts::default().query_cost(layout, &ORDERS, query, FromMemory::default()).total_ns()
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
    fn what_the_caches_hold_costs_less_where_columns_are_read_and_not_where_they_are_lent() {
        let cached = FromMemory { records: 0.0, elements: 0.0 };
        let lent = query(true, 0, 4, 1.0);
        for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
            let cost = |query: &LayoutObservation, from_memory| {
                UnitCosts::default().query_cost(layout, &ORDERS, query, from_memory).total_ns()
            };
            for read in [query(false, 3, 0, 0.5), query(true, 2, 2, 0.5)] {
                let shares = [0.0, 0.5, 1.0].map(|share| FromMemory { records: share, ..cached });
                let [none, half, all] = shares.map(|from_memory| cost(&read, from_memory));
                assert!((half - (none + all) / 2.0).abs() < 1.0 && none < all, "{layout}");
            }
            assert_eq!(cost(&lent, cached), cost(&lent, FromMemory::default()), "{layout}");
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
            let cost = costs.query_cost(from, &empty, &nothing, FromMemory::default());
            assert_eq!(cost.total_ns(), costs.opening_ns(&nothing));
            for to in Layout::ALL {
                assert_eq!(costs.conversion_ns(&empty, from, to), costs.open_ns);
                assert!(costs.conversion_ns(&ORDERS, from, to) > costs.open_ns);
            }
        }
    }
}
