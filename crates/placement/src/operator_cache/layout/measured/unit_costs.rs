//! What an operation of each layout costs, and from that what a query and a conversion cost.
//!
//! Owns the model; not its [correction](super::correction) by what is observed. Pure.
//!
//! A row that has to be looked at costs a visit, a value that is taken along a copy, and a column whose lines are touched
//! their fetch: of a column of `n` values of 8 bytes of which the share `s` is taken, `n / 8 · (1 − (1 − s)^8)` lines, each the
//! dearer the more are left out between them. Beyond that:
//!
//! - *nested*: where no row is filtered out, columns of the rows' own kind are lent, not copied. A query on elements gathers
//!   its record columns, one value for each selected element, once it has visited every element to number its record.
//! - *flat*: where no row is filtered out, columns are lent. A query on records looks for the first row of each record.
//! - *striped*: every value of the columns read passes its levels first; a record's value is decoded for each of its elements.
//! - *row*: every row is visited in memory of its own; of a selected one all lines are fetched, and its values gathered by
//!   strides.
//!
//! Paper: ReCache §4.1 measures that striped scans of elements take about 2.8 times as long as flat ones, whatever the
//! cardinality; the rest is ours.

use crate::operator_cache::layout::{ItemShape, Layout, LayoutObservation};

/// Nanoseconds of one core. Only ratios matter, and only until an item has been observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitCosts {
    /// Reading an item at all: what is left where columns are lent.
    pub open_ns: f64,
    /// Deciding on a row, whether by a filter or by whether it is its record's first.
    pub visit_ns_per_row: f64,
    /// Fetching a line of 64 bytes in the order of memory.
    pub fetch_ns_per_line: f64,
    /// Fetching a line that nobody foresaw, because those before it were left out.
    pub seek_ns_per_line: f64,
    /// Moving a value into a batch.
    pub copy_ns_per_value: f64,
    /// Moving a record's value for an element, by way of its record's number.
    pub gather_ns_per_value: f64,
    /// Decoding the levels of a value, and branching on them.
    pub level_ns_per_value: f64,
    /// Moving a value out of a row.
    pub stride_ns_per_value: f64,
    /// Reading or writing a byte of a converted item.
    pub convert_ns_per_byte: f64,
}

impl Default for UnitCosts {
    /// A core of 2 to 3 GHz. A line comes at some 16 GB/s when prefetched: 4 ns; else after 100 ns, eight at a time. A copy is a
    /// load, a store and an index: 1 ns; a gather has one more dependent load, a stride one that isn't vectorised. A flat value
    /// so costs 1.5 ns, and with 3 ns for levels a striped one three times that: §4.1. A conversion was
    /// measured on TPC-H's nested orders: 260 MB read and written from nested to flat in 173 ms, 950 MB to striped in 400; most
    /// of it goes into fresh memory. What is too little here is lost for good: items are converted to and fro.
    fn default() -> Self {
        Self {
            open_ns: 1_000.0,
            visit_ns_per_row: 0.5,
            fetch_ns_per_line: 4.0,
            seek_ns_per_line: 12.0,
            copy_ns_per_value: 1.0,
            gather_ns_per_value: 1.5,
            level_ns_per_value: 3.0,
            stride_ns_per_value: 1.5,
            convert_ns_per_byte: 0.6,
        }
    }
}

/// Values of 8 bytes in a line.
const VALUES_PER_LINE: i32 = 8;
/// Bytes in a line.
const LINE_BYTES: f64 = 64.0;

impl UnitCosts {
    /// What the observed query costs in `layout`, whatever layout it was observed in.
    pub fn query_ns(&self, layout: Layout, shape: &ItemShape, query: &LayoutObservation) -> f64 {
        let flat_rows = shape.flat_row_count as f64;
        let records = shape.record_count as f64;
        let rows = query.rows_read(shape) as f64;
        let selected = (query.selected_rows as f64).min(rows);
        let is_filtered = selected < rows;
        let record_columns = f64::from(query.record_columns_read);
        // A query on records reads no elements, whatever its observer counted.
        let element_columns = if query.reads_elements { f64::from(query.element_columns_read) } else { 0.0 };
        let columns = record_columns + element_columns;
        let visits = |rows: f64| rows * self.visit_ns_per_row;
        let filtered = |stored: f64| self.fetch_ns(stored, selected) + selected * self.copy_ns_per_value;
        self.open_ns
            + match layout {
                Layout::Nested => {
                    let own_columns = if query.reads_elements { element_columns } else { record_columns };
                    let own = if is_filtered { visits(rows) + own_columns * filtered(rows) } else { 0.0 };
                    let gathered = self.fetch_ns(records, selected) + selected * self.gather_ns_per_value;
                    let gathers = query.reads_elements && record_columns > 0.0;
                    own + if gathers { visits(rows) + record_columns * gathered } else { 0.0 }
                }
                Layout::Flat => {
                    let is_lent = !is_filtered && rows == flat_rows;
                    if is_lent { 0.0 } else { visits(flat_rows) + columns * filtered(flat_rows) }
                }
                Layout::Striped => {
                    let decoded = rows * self.level_ns_per_value + self.fetch_ns(rows, rows);
                    visits(rows) + columns * (decoded + selected * self.copy_ns_per_value)
                }
                Layout::RowWise => {
                    let row_bytes = shape.size_bytes(Layout::RowWise) as f64 / flat_rows.max(1.0);
                    let lines_per_row = row_bytes / LINE_BYTES;
                    let passed = flat_rows * lines_per_row.min(1.0);
                    let more = selected * (lines_per_row.min(columns) - 1.0).max(0.0);
                    let lines = (passed + more) * self.fetch_ns_per_line;
                    visits(flat_rows) + lines + selected * columns * self.stride_ns_per_value
                }
            }
    }

    /// What converting the whole item costs: its bytes in both layouts, and the work on values that either needs.
    pub fn conversion_ns(&self, shape: &ItemShape, from: Layout, to: Layout) -> f64 {
        let flat_rows = shape.flat_row_count as f64;
        let flat_values = flat_rows * f64::from(shape.record_columns.saturating_add(shape.element_columns));
        let stored_values =
            shape.record_count as f64 * f64::from(shape.record_columns) + flat_rows * f64::from(shape.element_columns);
        let values_ns = |layout: Layout| match layout {
            Layout::Nested => 0.0,
            Layout::Flat => (flat_values - stored_values).max(0.0) * self.gather_ns_per_value,
            Layout::Striped => stored_values * self.level_ns_per_value,
            Layout::RowWise => flat_values * self.stride_ns_per_value,
        };
        let bytes = shape.size_bytes(from) as f64 + shape.size_bytes(to) as f64;
        self.open_ns + bytes * self.convert_ns_per_byte + values_ns(from) + values_ns(to)
    }

    /// Fetching a column's lines, of whose `stored` values `taken` are looked at.
    fn fetch_ns(&self, stored: f64, taken: f64) -> f64 {
        if stored == 0.0 {
            return 0.0;
        }
        let share = (taken / stored).min(1.0);
        let left_out = (1.0 - share).powi(VALUES_PER_LINE);
        let lines = stored / f64::from(VALUES_PER_LINE) * (1.0 - left_out);
        lines * (self.fetch_ns_per_line + left_out * (self.seek_ns_per_line - self.fetch_ns_per_line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: ItemShape = ItemShape {
        record_count: 100_000,
        flat_row_count: 400_000,
        record_columns: 9,
        element_columns: 16,
        size_bytes: [60 << 20, 80 << 20, 65 << 20, 80 << 20],
    };

    fn query(elements: bool, record_columns_read: u32, element_columns_read: u32, selected: f64) -> LayoutObservation {
        let rows = if elements { 400_000.0 } else { 100_000.0 };
        LayoutObservation {
            layout: Layout::Flat,
            data_ns: 0,
            compute_ns: 0,
            reads_elements: elements,
            record_columns_read,
            element_columns_read,
            selected_rows: (rows * selected) as u64,
        }
    }

    fn cheapest(query: &LayoutObservation) -> Layout {
        let cost = |layout: &Layout| UnitCosts::default().query_ns(*layout, &ORDERS, query);
        let mut layouts = Layout::ALL;
        layouts.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        layouts[0]
    }

    #[test]
    fn each_layout_is_the_cheapest_for_what_it_is_made_for() {
        assert_eq!(cheapest(&query(false, 3, 0, 0.5)), Layout::Nested);
        assert_eq!(cheapest(&query(true, 3, 3, 0.5)), Layout::Flat);
        // Single rows of many columns.
        let rows = ItemShape { record_count: 400_000, size_bytes: [60 << 20; 4], ..ORDERS };
        let points = query(true, 9, 16, 0.05);
        let cost = |layout| UnitCosts::default().query_ns(layout, &rows, &points);
        assert!(cost(Layout::RowWise) < cost(Layout::Flat));
    }

    #[test]
    fn columns_that_lose_no_row_are_lent() {
        let costs = UnitCosts::default();
        assert_eq!(costs.query_ns(Layout::Flat, &ORDERS, &query(true, 4, 4, 1.0)), costs.open_ns);
        assert_eq!(costs.query_ns(Layout::Nested, &ORDERS, &query(true, 0, 4, 1.0)), costs.open_ns);
        assert_eq!(costs.query_ns(Layout::Nested, &ORDERS, &query(false, 4, 0, 1.0)), costs.open_ns);
        assert!(costs.query_ns(Layout::Flat, &ORDERS, &query(false, 4, 0, 1.0)) > costs.open_ns);
        assert!(costs.query_ns(Layout::Nested, &ORDERS, &query(true, 1, 4, 1.0)) > costs.open_ns);
    }

    #[test]
    fn striped_scans_of_elements_take_about_three_times_as_long_as_flat_ones() {
        let costs = UnitCosts::default();
        let elements = query(true, 2, 3, 0.999);
        let ratio =
            costs.query_ns(Layout::Striped, &ORDERS, &elements) / costs.query_ns(Layout::Flat, &ORDERS, &elements);
        assert!((2.5..3.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn no_cost_is_negative_or_infinite_for_items_without_rows() {
        let empty = ItemShape { record_count: 0, flat_row_count: 0, size_bytes: [0; 4], ..ORDERS };
        let costs = UnitCosts::default();
        for from in Layout::ALL {
            assert_eq!(costs.query_ns(from, &empty, &query(true, 3, 3, 1.0)), costs.open_ns);
            for to in Layout::ALL {
                assert_eq!(costs.conversion_ns(&empty, from, to), costs.open_ns);
                assert!(costs.conversion_ns(&ORDERS, from, to) > costs.open_ns);
            }
        }
    }
}
