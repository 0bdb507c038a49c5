//! Queries of tests, and what a reader of them would have counted.

use super::{ColumnsRead, ItemShape, Layout, LayoutObservation, ReadCounts};

/// A query that filters by one of the columns it reads, the first of its rows' own kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleQuery {
    pub(crate) reads_elements: bool,
    pub(crate) record_columns: u32,
    pub(crate) element_columns: u32,
    /// Of the rows, which pass independently of each other; with 1 there is no filter.
    pub(crate) share: f64,
}

/// Rows of a piece.
const PIECE_ROWS: u64 = 16 * 1024;

/// The query, read in no time from a nested item.
pub(crate) fn evenly(shape: &ItemShape, query: SampleQuery) -> LayoutObservation {
    let rows = if query.reads_elements { shape.flat_row_count } else { shape.record_count };
    let is_filtered = query.share < 1.0;
    let selected = rows as f64 * query.share;
    let tested_element = is_filtered && query.reads_elements && query.element_columns > 0;
    let tested_record = is_filtered && !tested_element && query.record_columns > 0;
    // Elements of a record pass or fail together if they are filtered by their record.
    let entries = if tested_record { shape.record_count } else { rows } as f64;
    let runs = (entries * query.share * (1.0 - query.share)) as u64;
    let piece_count = shape.flat_row_count.div_ceil(PIECE_ROWS);
    let columns = |read: u32, is_tested: bool| ColumnsRead {
        read,
        output: read,
        untested: read - u32::from(is_tested),
        varying: 0,
    };
    LayoutObservation {
        layout: Layout::Nested,
        data_ns: 0,
        compute_ns: 0,
        reads_elements: query.reads_elements,
        record_columns: columns(query.record_columns, tested_record),
        element_columns: columns(query.element_columns, tested_element),
        as_kept: false,
        counts: ReadCounts {
            piece_count,
            columns_tested: if tested_record || tested_element { piece_count } else { 0 },
            record_values_tested: if tested_record { shape.record_count } else { 0 },
            element_values_tested: if tested_element { shape.flat_row_count } else { 0 },
            whole_rows: if is_filtered { 0 } else { rows },
            cut_rows: if is_filtered { rows } else { 0 },
            cut_selected_rows: if is_filtered { selected as u64 } else { 0 },
            cut_runs: runs,
            record_runs: if tested_record && query.reads_elements { runs } else { 0 },
        },
    }
}
