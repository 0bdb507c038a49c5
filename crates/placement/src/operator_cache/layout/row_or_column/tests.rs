//! The count against lines marked one by one, and the choices that row and column stores are known for.

use std::collections::HashSet;

use thermocline_seeded::Random;

use super::*;

fn columns(count: usize, width_bytes: u32, read: &[(usize, RowsTouched)]) -> Vec<ColumnRead> {
    let mut columns = vec![ColumnRead { width_bytes, rows: RowsTouched::None, is_of_elements: false }; count];
    for &(index, rows) in read {
        columns[index].rows = rows;
    }
    columns
}

fn shape(row_count: u64, row_bytes: u64) -> ItemShape {
    ItemShape {
        record_count: row_count,
        flat_row_count: row_count,
        record_columns: 1,
        element_columns: 0,
        size_bytes: [row_count * row_bytes; 4],
    }
}

/// Marks the lines of a table in which `passes` says which rows pass.
fn marked(columns: &[ColumnRead], passes: &[bool]) -> usize {
    let mut lines = HashSet::new();
    let mut begin = 0;
    for &passes in passes {
        for column in columns {
            let end = begin + u64::from(column.width_bytes);
            let is_read = match column.rows {
                RowsTouched::None => false,
                RowsTouched::Selected => passes,
                RowsTouched::Every => true,
            };
            if is_read {
                lines.extend(begin / CACHE_LINE_BYTES..=(end - 1) / CACHE_LINE_BYTES);
            }
            begin = end;
        }
    }
    lines.len()
}

#[test]
fn the_expected_lines_are_those_marked_one_by_one() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let columns: Vec<ColumnRead> = (0..1 + random.below_u64(12))
            .map(|_| {
                let widest = if random.below_u64(4) == 0 { 200 } else { 16 };
                let width_bytes = 1 + random.below_u64(widest) as u32;
                let rows = [RowsTouched::None, RowsTouched::Selected, RowsTouched::Every][random.below_u64(3) as usize];
                ColumnRead { width_bytes, rows, is_of_elements: false }
            })
            .collect();
        // Whole periods, so that an unselective query is counted exactly.
        let row_count = 64 * 64;
        for selectivity in [0.0, 1.0, 0.01, 0.2, 0.7] {
            let passes: Vec<bool> = (0..row_count).map(|_| random.unit() < selectivity).collect();
            let selected_rows = passes.iter().filter(|&&passes| passes).count() as u64;
            let is_exact = selected_rows == 0 || selected_rows == row_count;
            let by_row = row_misses(&columns, row_count, selected_rows);
            let by_column = column_misses(&columns, row_count, selected_rows);
            let columns_marked: usize = columns.iter().map(|column| marked(&[*column], &passes)).sum();
            for (expected, marked) in [(by_row, marked(&columns, &passes)), (by_column, columns_marked)] {
                let marked = marked as f64;
                // Sums of independent lines: some standard deviations.
                let allowed = if is_exact { 1e-6 } else { 6.0 * marked.sqrt() + 6.0 };
                assert!(
                    (expected - marked).abs() <= allowed,
                    "seed {seed}, {selectivity}: {expected}, marked {marked}"
                );
            }
        }
    }
}

#[test]
fn a_sum_over_one_column_of_many_touches_fewer_lines_in_columns() {
    let columns = columns(16, 8, &[(3, RowsTouched::Every)]);
    assert_eq!(column_misses(&columns, 1_000_000, 1_000_000), 125_000.0);
    assert_eq!(row_misses(&columns, 1_000_000, 1_000_000), 1_000_000.0);
}

#[test]
fn whole_rows_here_and_there_touch_fewer_lines_in_rows() {
    let all: Vec<(usize, RowsTouched)> = (0..16).map(|index| (index, RowsTouched::Selected)).collect();
    let columns = columns(16, 8, &all);
    // One row in a hundred: two lines of a row of 128 bytes, against nearly a line for each value.
    assert!((row_misses(&columns, 1_000_000, 10_000) - 20_000.0).abs() < 1e-6);
    let by_column = column_misses(&columns, 1_000_000, 10_000);
    assert!((150_000.0..160_000.0).contains(&by_column), "{by_column}");
}

#[test]
fn nothing_read_touches_nothing() {
    assert_eq!(row_misses(&[], 100, 100), 0.0);
    assert_eq!(column_misses(&columns(4, 8, &[]), 100, 100), 0.0);
    assert_eq!(row_misses(&columns(4, 8, &[(0, RowsTouched::Every)]), 0, 0), 0.0);
    assert_eq!(row_misses(&columns(4, 8, &[(0, RowsTouched::Selected)]), 100, 0), 0.0);
}

#[test]
fn an_item_is_turned_when_the_window_has_paid_for_it_and_then_forgets() {
    let item = shape(1_000_000, 128);
    let all: Vec<(usize, RowsTouched)> = (0..16).map(|index| (index, RowsTouched::Selected)).collect();
    let points = columns(16, 8, &all);
    let mut window = MissWindow::default();
    // Converting touches 4,000,000 lines; a query gains some 131,000.
    let first = (1..100).find_map(|queries| {
        window.observe(&item, &points, 10_000);
        assert_eq!(window.decide(&item, Layout::RowWise), None);
        assert_eq!(window.decide(&item, Layout::Nested), None);
        window.decide(&item, Layout::Flat).map(|switch| (switch, queries))
    });
    let (switch, queries) = first.unwrap();
    assert_eq!((switch.to, switch.conversion_cost), (Layout::RowWise, 4_000_000.0));
    assert!((29..=33).contains(&queries), "{queries}");
    window.switched();
    assert_eq!(window.decide(&item, Layout::Flat), None);

    let sums = columns(16, 8, &[(3, RowsTouched::Every)]);
    let queries = (1..100).find(|_| {
        window.observe(&item, &sums, 1_000_000);
        window.decide(&item, Layout::RowWise).is_some()
    });
    // 875,000 lines a query.
    assert_eq!(queries, Some(5));
}
