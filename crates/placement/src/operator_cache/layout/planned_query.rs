//! What a query will do with an item's rows, as far as that can be told before it reads any.
//!
//! Owns the counts that a reader would make of rows that pass independently of each other. Pure.

use super::{ColumnsRead, ItemShape, Layout, LayoutObservation, ReadCounts};

/// Rows of a piece, about.
const PIECE_ROWS: u64 = 16 * 1024;

/// A query that has read nothing yet: all but how many rows pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedQuery {
    /// Whether its rows are innermost elements; else they are records.
    pub reads_elements: bool,
    /// Columns that have one value for each record.
    pub record_columns: ColumnsRead,
    /// Columns that have one value for each innermost element.
    pub element_columns: ColumnsRead,
    /// See [`LayoutObservation::as_kept`].
    pub as_kept: bool,
}

impl PlannedQuery {
    /// Whether it looks at values to find out which rows pass.
    pub fn is_filtered(&self) -> bool {
        self.tested_columns() != (0, 0)
    }

    /// Columns of records and of elements that are compared with what is asked of them.
    fn tested_columns(&self) -> (u32, u32) {
        let tested = |columns: ColumnsRead| columns.read.saturating_sub(columns.untested);
        (tested(self.record_columns), if self.reads_elements { tested(self.element_columns) } else { 0 })
    }

    /// The same read in no time in `layout`, if this share of the rows passed, each whatever others do. Without a filter
    /// all do.
    pub fn observation(&self, shape: &ItemShape, layout: Layout, share: f64) -> LayoutObservation {
        let rows = if self.reads_elements { shape.flat_row_count } else { shape.record_count };
        let is_filtered = self.is_filtered();
        let (tested_records, tested_elements) = self.tested_columns();
        // Elements of a record pass or fail together if they are filtered by their record.
        let by_record = is_filtered && tested_elements == 0;
        let entries = if by_record { shape.record_count } else { rows } as f64;
        let runs = (entries * share * (1.0 - share)) as u64;
        let piece_count = shape.flat_row_count.div_ceil(PIECE_ROWS);
        let if_filtered = |count: u64| if is_filtered { count } else { 0 };
        LayoutObservation {
            layout,
            data_ns: 0,
            compute_ns: 0,
            reads_elements: self.reads_elements,
            record_columns: self.record_columns,
            element_columns: self.element_columns,
            as_kept: self.as_kept,
            counts: ReadCounts {
                piece_count,
                columns_tested: piece_count * u64::from(tested_records + tested_elements),
                record_values_tested: shape.record_count * u64::from(tested_records),
                element_values_tested: shape.flat_row_count * u64::from(tested_elements),
                whole_rows: rows - if_filtered(rows),
                cut_rows: if_filtered(rows),
                cut_selected_rows: if_filtered((rows as f64 * share) as u64),
                cut_runs: if_filtered(runs),
                record_runs: if by_record && self.reads_elements { runs } else { 0 },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ItemShape = ItemShape {
        record_count: 1000,
        flat_row_count: 4000,
        record_columns: 2,
        element_columns: 2,
        size_bytes: [0; 4],
    };

    #[test]
    fn what_passes_is_the_share_of_what_is_asked_for_and_all_where_nothing_is_asked() {
        let both = ColumnsRead { read: 2, output: 2, untested: 1, varying: 0 };
        let free = ColumnsRead { read: 1, output: 1, untested: 1, varying: 0 };
        let planned = |reads_elements, record_columns, element_columns| {
            let query = PlannedQuery { reads_elements, record_columns, element_columns, as_kept: false };
            query.observation(&SHAPE, Layout::Flat, 0.25).counts
        };
        let by_element = planned(true, free, both);
        assert_eq!((by_element.cut_selected_rows, by_element.element_values_tested), (1000, 4000));
        assert_eq!((by_element.record_values_tested, by_element.record_runs), (0, 0));
        let by_record = planned(true, both, free);
        assert_eq!((by_record.cut_selected_rows, by_record.record_values_tested), (1000, 1000));
        assert_eq!((by_record.cut_runs, by_record.record_runs), (187, 187), "elements pass with their record");
        let records = planned(false, both, both);
        assert_eq!((records.cut_selected_rows, records.element_values_tested), (250, 0), "elements are not read");
        let all = planned(true, free, free);
        assert_eq!((all.whole_rows, all.cut_rows, all.columns_tested), (4000, 0, 0));
    }
}
