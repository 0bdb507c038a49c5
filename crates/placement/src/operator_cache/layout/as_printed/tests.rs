//! The example of the print, and the sums against the equations written out over a list of all queries.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::layout::sample_query::{SampleQuery, evenly};

const ORDERS: ItemShape =
    ItemShape { record_count: 100, flat_row_count: 400, record_columns: 9, element_columns: 16, size_bytes: [0; 4] };

fn reading(layout: Layout, data_ns: u64, compute_ns: u64, reads_elements: bool) -> LayoutObservation {
    of_columns(layout, data_ns, compute_ns, reads_elements, [2, u32::from(reads_elements) * 2])
}

/// Reads so many columns of records, and of elements.
fn of_columns(
    layout: Layout,
    data_ns: u64,
    compute_ns: u64,
    reads_elements: bool,
    [record_columns, element_columns]: [u32; 2],
) -> LayoutObservation {
    let query = SampleQuery { reads_elements, record_columns, element_columns, share: 0.1 };
    LayoutObservation { layout, data_ns, compute_ns, ..evenly(&ORDERS, query) }
}

/// §4.2: five queries with Σ D = 1000 and Σ C = 2000.
fn five_queries(reads_elements: bool) -> LayoutWindow {
    let mut window = LayoutWindow::default();
    for _ in 0..5 {
        window.observe(&ORDERS, &reading(Layout::Striped, 200, 400, reads_elements));
    }
    window
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn the_example_of_the_paper_stays_striped_for_records_and_is_flattened_for_elements() {
    let records = five_queries(false);
    let costs = records.costs(&ORDERS).expect("five queries");
    assert!(close(costs.present_cost, 3000.0) && close(costs.other_cost, 4000.0), "{costs:?}");
    assert!(close(costs.conversion_cost, 2400.0), "{costs:?}");
    assert_eq!(records.decide(&ORDERS), None);

    let elements = five_queries(true);
    let switch = elements.decide(&ORDERS).expect("3000 > 1000 + 600");
    assert_eq!(switch.to, Layout::Flat);
    assert!(close(switch.present_cost, 3000.0) && close(switch.other_cost, 1000.0), "{switch:?}");
    assert!(close(switch.conversion_cost, 600.0), "{switch:?}");
}

#[test]
fn after_a_switch_the_window_is_empty_and_the_history_is_not() {
    let mut window = five_queries(true);
    window.switched();
    assert_eq!(window.decide(&ORDERS), None);
    assert_eq!(window.compute_cost_ns(400, 4), Some(400));
    // Equation 5: (1000 + 400) · 100/400 = 350 for each, T = 1000 · 4; the gain is 650 a query.
    for query in 1..=7 {
        window.observe(&ORDERS, &reading(Layout::Flat, 1000, 0, false));
        let switch = window.decide(&ORDERS);
        assert_eq!(switch.map(|switch| switch.to), (query == 7).then_some(Layout::Striped), "{query}");
    }
}

#[test]
fn an_item_that_was_never_striped_stays_flat() {
    let mut window = LayoutWindow::default();
    for _ in 0..1000 {
        window.observe(&ORDERS, &reading(Layout::Flat, 1000, 0, false));
    }
    assert_eq!((window.costs(&ORDERS), window.compute_cost_ns(100, 2)), (None, None));
}

#[test]
fn readings_in_other_layouts_and_of_nothing_are_passed_over() {
    let mut window = five_queries(false);
    let before = window.clone();
    window.observe(&ORDERS, &reading(Layout::Nested, 7, 7, true));
    window.observe(&ItemShape { record_count: 0, flat_row_count: 0, ..ORDERS }, &reading(Layout::Striped, 7, 7, true));
    assert_eq!(window, before);
}

#[test]
fn the_nearest_striped_query_gives_the_compute_cost() {
    let mut window = LayoutWindow::default();
    for (elements, element_columns, compute_ns) in [(true, 1, 10), (true, 8, 80), (false, 0, 3), (true, 8, 81)] {
        let observation = of_columns(Layout::Striped, 100, compute_ns, elements, [2, element_columns]);
        window.observe(&ORDERS, &observation);
    }
    assert_eq!(window.compute_cost_ns(400, 10), Some(81), "the later of equal ones");
    assert_eq!(window.compute_cost_ns(400, 4), Some(10));
    assert_eq!(window.compute_cost_ns(100, 3), Some(3));
}

/// The equations over a list, and the history without a bound: few enough columns that none is forgotten.
#[test]
fn the_running_sums_are_those_of_the_equations() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (mut window, mut history, mut since) = (LayoutWindow::default(), Vec::new(), Vec::new());
        let mut layout = Layout::Striped;
        for _ in 0..random.below_u64(60) {
            let elements = random.below_u64(2) == 0;
            let compute_ns = if layout == Layout::Striped { random.below_u64(5_000) } else { 0 };
            let columns = [1 + random.below_u64(5) as u32, u32::from(elements) * 2];
            let observation = of_columns(layout, random.below_u64(5_000), compute_ns, elements, columns);
            window.observe(&ORDERS, &observation);
            let (rows, columns) = (observation.rows_read(&ORDERS), observation.columns_read());
            if layout == Layout::Striped {
                history.push((rows, columns, compute_ns));
            }
            since.push((observation, rows as f64, columns));
            let (mut present, mut other, mut conversion) = (0.0, 0.0, 0.0_f64);
            for &(query, rows, columns) in &since {
                let (data, compute) = (query.data_ns as f64, query.compute_ns as f64);
                conversion = conversion.max((data + compute) * 400.0 / rows);
                if layout == Layout::Striped {
                    present += data + compute;
                    other += data * 400.0 / rows;
                } else {
                    let mut best = (f64::INFINITY, 0);
                    for &(r, c, compute_ns) in &history {
                        let far = (r as f64 / rows).ln().abs() + (f64::from(c) / f64::from(columns)).ln().abs();
                        if far <= best.0 {
                            best = (far, compute_ns);
                        }
                    }
                    present += data;
                    other += (data + best.1 as f64) * rows / 400.0;
                }
            }
            let costs = window.costs(&ORDERS).expect("the item was striped first");
            assert!(close(costs.present_cost, present) && close(costs.other_cost, other), "seed {seed}: {costs:?}");
            assert!(close(costs.conversion_cost, conversion), "seed {seed}: {costs:?}");
            let switch = window.decide(&ORDERS);
            assert_eq!(switch.is_some(), present > other + conversion, "seed {seed}: {costs:?}");
            if let Some(switch) = switch {
                window.switched();
                since.clear();
                layout = switch.to;
            }
        }
    }
}

#[test]
fn memory_stays_bounded_whatever_is_asked() {
    let mut window = LayoutWindow::default();
    for columns in 0..10_000 {
        let observation = of_columns(Layout::Striped, 9, 9, true, [columns, 2]);
        window.observe(&ORDERS, &observation);
    }
    assert_eq!(window.history.len(), HISTORY_LENGTH);
    assert_eq!(window.compute_cost_ns(400, 10_000), Some(9));
}
