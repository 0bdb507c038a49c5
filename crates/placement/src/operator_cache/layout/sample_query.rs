//! Queries of tests, and what a reader of them would have counted.

use super::planned_query::PlannedQuery;
use super::{ColumnsRead, ItemShape, Layout, LayoutObservation};

/// A query that filters by one of the columns it reads, the first of its rows' own kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleQuery {
    pub(crate) reads_elements: bool,
    pub(crate) record_columns: u32,
    pub(crate) element_columns: u32,
    /// Of the rows, which pass independently of each other; with 1 there is no filter.
    pub(crate) share: f64,
}

/// The query, read in no time from a nested item.
pub(crate) fn evenly(shape: &ItemShape, query: SampleQuery) -> LayoutObservation {
    let is_filtered = query.share < 1.0;
    let tested_element = is_filtered && query.reads_elements && query.element_columns > 0;
    let tested_record = is_filtered && !tested_element && query.record_columns > 0;
    let columns = |read: u32, is_tested: bool| ColumnsRead {
        read,
        output: read,
        untested: read - u32::from(is_tested),
        varying: 0,
    };
    let planned = PlannedQuery {
        reads_elements: query.reads_elements,
        record_columns: columns(query.record_columns, tested_record),
        element_columns: columns(query.element_columns, tested_element),
        as_kept: false,
    };
    planned.observation(shape, Layout::Nested, query.share)
}
