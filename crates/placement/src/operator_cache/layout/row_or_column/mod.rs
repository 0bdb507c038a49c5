//! Flat or row-wise: by the cache lines that the window's queries touch.
//!
//! A query reads the columns it filters by in every row, and the others in the rows that pass. Rows pass independently
//! of each other with the same probability `s`, so that a line which holds values of `k` rows is touched with
//! probability `1 − (1 − s)^k`, or for certain if it holds a value of a filtering column. The lines are counted over
//! one period of the layout: rows of `w` bytes lie in the same places of their lines again after `64 / gcd(w, 64)`
//! rows. A column by itself is a table of one column, so that the same count serves both layouts.
//!
//! **Owns** this count and the sums over the window: two numbers an item. **Does not own** the choice between records
//! and elements; both layouts have a row for each innermost element. Pure.
//!
//! Cost of observing a query: at most 64 steps for each column, or for each line if a column is wider.
//!
//! Paper: ReCache §4.3, "a minor variation of the algorithm described in H2O" (Alagiannis et al., SIGMOD 2014, §3),
//! which estimates a query's cost by the data cache misses of each layout, from widths, numbers of tuples and
//! selectivity. ReCache doesn't print the variation. What is read into it here, and deviations:
//! - The count above is derived from these assumptions, not copied. No line is still cached when it is met again by
//!   another column's pass, and prefetching is not credited to either layout.
//! - Both layouts are compared over the same window as in §4.2, and converting costs its misses: every line of both
//!   layouts once. The paper names no cost of conversion here, and H2O pays it within a query.
//! - Columns of variable width count with their average; validity bits and offsets are left out on both sides.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use super::{ItemShape, Layout, Switch};

/// Bytes that come from memory together.
pub const CACHE_LINE_BYTES: u64 = 64;

/// Which rows of a column a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsTouched {
    /// None: the query doesn't mention it.
    None,
    /// Those that pass the filter.
    Selected,
    /// All: it is filtered by.
    Every,
}

/// One column of the item and what a query does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRead {
    /// Bytes of a value, the average if they vary. Zero is read as one.
    pub width_bytes: u32,
    /// Which of them are read.
    pub rows: RowsTouched,
    /// Whether it has a value for each element of the list that is unnested; else it has one for each record, or there
    /// is no list.
    pub is_of_elements: bool,
}

/// Expected cache lines that a query touches in the row layout. `columns` are all of the item's, in the order in which
/// a row holds them; of `row_count` rows `selected_rows` pass.
pub fn row_misses(columns: &[ColumnRead], row_count: u64, selected_rows: u64) -> f64 {
    lines_touched(columns, row_count, selected_rows)
}

/// The same in the flat layout, where each column lies by itself.
pub fn column_misses(columns: &[ColumnRead], row_count: u64, selected_rows: u64) -> f64 {
    columns.iter().map(|column| lines_touched(std::slice::from_ref(column), row_count, selected_rows)).sum()
}

/// What the rule remembers of an item: lines touched by the window's queries, in each of the two layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MissWindow {
    row_misses: f64,
    column_misses: f64,
}

impl MissWindow {
    /// Takes a query into the window, whatever layout it read. `columns` are all of the item's; `selected_rows` are
    /// counted as rows of the flat layout.
    pub fn observe(&mut self, shape: &ItemShape, columns: &[ColumnRead], selected_rows: u64) {
        self.row_misses += row_misses(columns, shape.flat_row_count, selected_rows);
        self.column_misses += column_misses(columns, shape.flat_row_count, selected_rows);
    }

    /// Whether an item that is [flat](Layout::Flat) should become [row-wise](Layout::RowWise), or the other way round;
    /// costs are cache misses. An item in another layout is not of this rule's concern.
    pub fn decide(&self, shape: &ItemShape, present: Layout) -> Option<Switch> {
        let (to, present_cost, other_cost) = match present {
            Layout::Flat => (Layout::RowWise, self.column_misses, self.row_misses),
            Layout::RowWise => (Layout::Flat, self.row_misses, self.column_misses),
            Layout::Nested | Layout::Striped => return None,
        };
        let converted_bytes = shape.size_bytes(Layout::Flat).saturating_add(shape.size_bytes(Layout::RowWise));
        let conversion_cost = converted_bytes as f64 / CACHE_LINE_BYTES as f64;
        let pays = present_cost > other_cost + conversion_cost;
        pays.then_some(Switch { to, present_cost, other_cost, conversion_cost })
    }

    /// Begins a new window: the item has been converted.
    pub fn switched(&mut self) {
        *self = Self::default();
    }
}

/// A line that is being counted.
#[derive(Default)]
struct Line {
    index: u64,
    is_certain: bool,
    /// Rows that touch it if they pass.
    row_count: i32,
    last_row: Option<u64>,
}

/// Expected lines touched of a table whose rows hold `columns` side by side.
fn lines_touched(columns: &[ColumnRead], row_count: u64, selected_rows: u64) -> f64 {
    if row_count == 0 || columns.iter().all(|column| column.rows == RowsTouched::None) {
        return 0.0;
    }
    let width = |column: &ColumnRead| u64::from(column.width_bytes.max(1));
    let row_bytes: u64 = columns.iter().map(width).sum();
    // The number of rows after which a row begins at a line's beginning again: 64 / gcd(row_bytes, 64).
    let period_rows = CACHE_LINE_BYTES >> row_bytes.trailing_zeros().min(CACHE_LINE_BYTES.trailing_zeros());
    let passes = (selected_rows as f64 / row_count as f64).min(1.0);
    let touched = |line: &Line| if line.is_certain { 1.0 } else { 1.0 - (1.0 - passes).powi(line.row_count) };

    // Rows and columns come in the order of their bytes, so that one line is counted at a time; the period ends with a
    // line.
    let mut lines = 0.0;
    let mut line = Line::default();
    for row in 0..period_rows {
        let mut begin = row * row_bytes;
        for column in columns {
            let end = begin + width(column);
            if column.rows != RowsTouched::None {
                for index in begin / CACHE_LINE_BYTES..=(end - 1) / CACHE_LINE_BYTES {
                    if index != line.index {
                        lines += touched(&line);
                        line = Line { index, ..Line::default() };
                    }
                    line.is_certain |= column.rows == RowsTouched::Every;
                    if line.last_row != Some(row) {
                        line.last_row = Some(row);
                        line.row_count += 1;
                    }
                }
            }
            begin = end;
        }
    }
    (lines + touched(&line)) * row_count as f64 / period_rows as f64
}
