//! When the rule converts an item and when it leaves it alone, against the regret written out over a list of all
//! queries.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::layout::ColumnsRead;
use crate::operator_cache::layout::row_or_column::RowsTouched;
use crate::operator_cache::layout::sample_query::{SampleQuery, evenly};

const ORDERS: ItemShape = ItemShape {
    record_count: 100_000,
    flat_row_count: 400_000,
    record_columns: 9,
    element_columns: 16,
    size_bytes: [60 << 20, 80 << 20, 65 << 20, 82 << 20],
};

const FREE: Spare = with_bytes(u64::MAX);

const fn with_bytes(bytes: u64) -> Spare {
    Spare { bytes, processors: 0.0 }
}

fn query(reads_elements: bool, columns: u32) -> LayoutObservation {
    of_share(reads_elements, columns, 0.5)
}

fn of_share(reads_elements: bool, columns: u32, share: f64) -> LayoutObservation {
    let element_columns = if reads_elements { columns } else { 0 };
    evenly(&ORDERS, SampleQuery { reads_elements, record_columns: columns, element_columns, share })
}

/// The query as it would be observed in a layout on a machine that is `slowness` times as slow as the model's.
fn observed(query: LayoutObservation, layout: Layout, slowness: f64) -> LayoutObservation {
    let cost = UnitCosts::default().query_cost(layout, &ORDERS, &query, &[], FromMemory::default());
    let [data_ns, compute_ns] = [cost.data_ns, cost.compute_ns].map(|ns| (ns * slowness) as u64);
    LayoutObservation { layout, data_ns, compute_ns, ..query }
}

/// Shows the window a query of an item without a mirror.
fn observe(window: &mut MeasuredWindow, shape: &ItemShape, query: &LayoutObservation, columns: &[ColumnRead]) {
    window.observe(&UnitCosts::default(), shape, (Forms::only(query.layout), false), query, columns);
}

/// Asks `query` in `layout` until the rule wants another layout: which one, and after how many queries.
fn until_switch(
    window: &mut MeasuredWindow,
    query: LayoutObservation,
    layout: Layout,
    shape: &ItemShape,
    spare: Spare,
) -> Option<(Layout, u32)> {
    let costs = UnitCosts::default();
    (1..=1000).find_map(|count| {
        observe(window, shape, &observed(query, layout, 1.0), &[]);
        window.decide(&costs, shape, spare).map(|switch| (switch.to, count))
    })
}

#[test]
fn the_rule_converts_when_the_regret_of_the_best_run_of_queries_exceeds_the_conversion() {
    let costs = UnitCosts::default();
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut window = MeasuredWindow::default();
        let mut layout = Layout::ALL[random.below_u64(4) as usize];
        let mut regrets: [Vec<f64>; 4] = Default::default();
        for _ in 0..120 {
            let asked = query(random.below_u64(3) == 0, 1 + random.below_u64(8) as u32);
            let observation = observed(asked, layout, 0.5 + random.unit());
            observe(&mut window, &ORDERS, &observation, &[]);
            for other in Layout::ALL.into_iter().filter(|other| *other != layout) {
                let predict_ns = |layout| window.predict_ns(&costs, &ORDERS, layout, &observation, &[]);
                let is_known = window.correction.knows(other, observation.reads_elements);
                let doubt = if is_known { 1.0 } else { UNTRIED };
                regrets[other.index()].push(predict_ns(layout) - doubt * predict_ns(other));
            }
            let left_over = |other: Layout| {
                let regrets = &regrets[other.index()];
                let sum = |from: usize| regrets[from..].iter().sum::<f64>();
                let run = (0..regrets.len()).max_by(|a, b| sum(*a).total_cmp(&sum(*b))).unwrap_or(0);
                let chance = regrets[run..].iter().map(|regret| regret * regret).sum::<f64>().sqrt();
                let conversion_ns = costs.conversion_ns(&ORDERS, layout, other) * window.correction.of_conversion();
                if sum(run) < CLEARLY * chance { f64::MIN } else { sum(run) - conversion_ns }
            };
            let others = Layout::ALL.into_iter().filter(|other| *other != layout);
            let best = others.max_by(|a, b| left_over(*a).total_cmp(&left_over(*b))).expect("three others");
            let decision = window.decide(&costs, &ORDERS, FREE);
            if left_over(best).abs() > 1.0 {
                let expected = (left_over(best) > 0.0).then_some(best);
                assert_eq!(decision.map(|switch| switch.to), expected, "seed {seed}: {decision:?}");
            }
            if let Some(switch) = decision {
                let conversion_ns = (switch.conversion_cost * (0.5 + random.unit())) as u64;
                window.switched(&costs, &ORDERS, switch.to, conversion_ns);
                assert_eq!(window.decide(&costs, &ORDERS, FREE), None, "seed {seed}");
                layout = switch.to;
                regrets = Default::default();
            }
        }
    }
}

#[test]
fn what_was_asked_long_ago_does_not_delay_a_switch() {
    // Every element passes, so that the flat columns are lent.
    let elements = of_share(true, 6, 1.0);
    let records = query(false, 6);
    let fresh = until_switch(&mut MeasuredWindow::default(), records, Layout::Flat, &ORDERS, FREE);
    assert_eq!(fresh.map(|(to, _)| to), Some(Layout::Nested));
    let mut window = MeasuredWindow::default();
    for _ in 0..100 {
        assert_eq!(until_switch(&mut window, elements, Layout::Flat, &ORDERS, FREE), None);
    }
    assert_eq!(until_switch(&mut window, records, Layout::Flat, &ORDERS, FREE), fresh);
}

#[test]
fn a_layout_that_does_not_fit_beside_the_present_one_is_not_chosen() {
    let records = query(false, 6);
    let chosen = |bytes| {
        let mut window = MeasuredWindow::default();
        until_switch(&mut window, records, Layout::Flat, &ORDERS, with_bytes(bytes)).map(|(to, _)| to)
    };
    assert_eq!(chosen(60 << 20), Some(Layout::Nested));
    assert_eq!(chosen((60 << 20) - 1), None);
    // Without room for the best one the second best is taken.
    let large = ItemShape { size_bytes: [100 << 20, 100 << 20, 65 << 20, 82 << 20], ..ORDERS };
    let spare = with_bytes(90 << 20);
    let second = until_switch(&mut MeasuredWindow::default(), query(false, 1), Layout::RowWise, &large, spare);
    assert_eq!(second.map(|(to, _)| to), Some(Layout::Striped));
}

#[test]
fn what_comes_and_goes_is_no_reason_to_convert_even_for_nothing() {
    let costs = UnitCosts::default();
    let spare = Spare { processors: 1.0, ..FREE };
    // Queries that gain and lose a hundred times what converting costs, in no order, and once the same as gains alone.
    let converts_after = |part_of_losses: u64, seed: u64| {
        let mut random = Random::new(seed);
        let mut rival = Rival::default();
        let step_ns = 100.0 * costs.conversion_ns(&ORDERS, Layout::Nested, Layout::Flat);
        (1..=50).find(|_| {
            let is_loss = random.below_u64(10) < part_of_losses;
            rival.add(2.0 * step_ns, if is_loss { 3.0 } else { 1.0 } * step_ns);
            let mut window = MeasuredWindow { present: Some(Forms::only(Layout::Nested)), ..Default::default() };
            window.rivals[Layout::Flat.index()] = rival;
            window.decide(&costs, &ORDERS, spare).is_some()
        })
    };
    assert!((0..20).all(|seed| converts_after(0, seed) == Some(4)), "four of a kind are clear");
    let by_chance = (0..100).filter(|seed| converts_after(6, *seed).is_some()).count();
    assert!(by_chance <= 60, "{by_chance} of 100");
}

#[test]
fn on_processors_that_lie_idle_a_conversion_costs_less_and_is_earned_sooner() {
    let asked_before = |processors| {
        let spare = Spare { processors, ..FREE };
        until_switch(&mut MeasuredWindow::default(), query(false, 6), Layout::Flat, &ORDERS, spare)
            .map(|(_, count)| count)
    };
    let busy = asked_before(0.0).expect("records are cheaper nested");
    for (idle, cost_share) in [(0.5, 0.5), (0.9, LEAST_COST), (1.0, LEAST_COST)] {
        let sooner = asked_before(idle).map(f64::from);
        let expected = f64::from(busy) * cost_share;
        assert!(sooner.is_some_and(|count| (count - expected).abs() <= 1.0), "{idle}: {sooner:?} of {busy}");
    }
}

#[test]
fn of_equal_layouts_the_smaller_is_chosen() {
    // No work but reading: what converting costs is all there is beside the sums, and that is free here too.
    let costs =
        UnitCosts { convert_ns_per_byte: 0.0, repeat_ns_per_value: 0.0, shred_ns_per_value: 0.0, ..Default::default() };
    let mut window = MeasuredWindow { present: Some(Forms::only(Layout::RowWise)), ..Default::default() };
    for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
        window.rivals[layout.index()] = Rival { present_ns: 1e12, other_ns: 0.0, squares_ns2: 0.0 };
    }
    for (size_bytes, chosen) in
        [([3, 2, 1, 9], Layout::Striped), ([3, 1, 2, 9], Layout::Flat), ([1, 2, 3, 9], Layout::Nested)]
    {
        let shape = ItemShape { size_bytes, ..ORDERS };
        assert_eq!(window.decide(&costs, &shape, FREE).map(|switch| switch.to), Some(chosen));
    }
}

#[test]
fn a_slower_machine_is_no_reason_to_switch() {
    let costs = UnitCosts::default();
    for slowness in [0.3, 1.0, 3.0] {
        let mut window = MeasuredWindow::default();
        for count in 0..1000 {
            observe(&mut window, &ORDERS, &observed(query(false, 1 + count % 9), Layout::Nested, slowness), &[]);
            assert_eq!(window.decide(&costs, &ORDERS, FREE), None, "{slowness}");
        }
    }
}

#[test]
fn readings_that_touch_no_value_correct_nothing() {
    let costs = UnitCosts::default();
    let mut window = MeasuredWindow::default();
    let lent = of_share(true, 6, 1.0);
    for _ in 0..100 {
        observe(&mut window, &ORDERS, &observed(lent, Layout::Flat, 50.0), &[]);
    }
    let filtered = LayoutObservation { layout: Layout::Flat, ..query(true, 6) };
    for layout in Layout::ALL {
        let model_ns = costs.query_cost(layout, &ORDERS, &filtered, &[], FromMemory::default()).total_ns();
        assert_eq!(window.predict_ns(&costs, &ORDERS, layout, &filtered, &[]), model_ns);
    }
}

#[test]
fn what_the_caches_still_hold_is_predicted_to_cost_less_until_other_columns_take_its_place_or_the_item_is_converted() {
    let costs = UnitCosts::default();
    // Columns of 8 MB of records, or of 32 MB.
    let shape = ItemShape { record_count: 1_000_000, flat_row_count: 4_000_000, ..ORDERS };
    let reading = |read: std::ops::Range<usize>| -> Vec<ColumnRead> {
        let rows = |index| if read.contains(&index) { RowsTouched::Every } else { RowsTouched::None };
        (0..25).map(|index| ColumnRead { width_bytes: 8, rows: rows(index), is_of_elements: index >= 9 }).collect()
    };
    let asked = |layout| LayoutObservation {
        layout,
        ..evenly(&shape, SampleQuery { reads_elements: false, record_columns: 2, element_columns: 0, share: 0.5 })
    };
    let predict_ns = |window: &MeasuredWindow, layout| {
        window.predict_ns(&costs, &shape, layout, &asked(Layout::Nested), &reading(0..2))
    };
    for layout in [Layout::Nested, Layout::Flat, Layout::Striped] {
        let mut window = MeasuredWindow::default();
        let fresh_ns = predict_ns(&window, layout);
        // Zero nanoseconds correct nothing.
        observe(&mut window, &shape, &asked(Layout::Nested), &reading(0..2));
        let again_ns = predict_ns(&window, layout);
        observe(&mut window, &shape, &asked(Layout::Nested), &reading(9..10));
        let later_ns = predict_ns(&window, layout);
        assert!(again_ns < later_ns && later_ns < fresh_ns, "{layout}: {again_ns} {later_ns} {fresh_ns}");
        window.switched(&costs, &shape, Layout::Flat, 0);
        assert_eq!(predict_ns(&window, layout), fresh_ns, "{layout}");
    }
}

#[test]
fn a_layout_that_disappoints_is_left_and_not_tried_again() {
    let costs = UnitCosts::default();
    let mut window = MeasuredWindow::default();
    let (mut layout, mut conversions) = (Layout::Flat, Vec::new());
    for _ in 0..5000 {
        // Nested should be far cheaper for records, and isn't.
        let slowness = if layout == Layout::Nested { 7.9 } else { 1.0 };
        observe(&mut window, &ORDERS, &observed(query(false, 6), layout, slowness), &[]);
        if let Some(switch) = window.decide(&costs, &ORDERS, FREE) {
            window.switched(&costs, &ORDERS, switch.to, switch.conversion_cost as u64);
            layout = switch.to;
            conversions.push(layout);
        }
    }
    assert_eq!(conversions.first(), Some(&Layout::Nested));
    assert!(conversions.len() <= 4 && layout != Layout::Nested, "{conversions:?}");
}

#[test]
fn an_item_without_rows_keeps_its_layout() {
    let empty = ItemShape { record_count: 0, flat_row_count: 0, size_bytes: [0; 4], ..ORDERS };
    let mut window = MeasuredWindow::default();
    let observation = LayoutObservation { data_ns: 1 << 40, ..query(true, 3) };
    observe(&mut window, &empty, &observation, &[]);
    assert_eq!(window, MeasuredWindow::default());
    assert_eq!(window.decide(&UnitCosts::default(), &empty, FREE), None);
}

#[test]
fn rows_without_a_list_are_not_converted_to_what_they_are() {
    let costs = UnitCosts::default();
    let shape = ItemShape {
        record_count: 15_000,
        flat_row_count: 15_000,
        record_columns: 3,
        element_columns: 0,
        size_bytes: [110_000; 4],
    };
    let sample = SampleQuery { reads_elements: false, record_columns: 2, element_columns: 0, share: 0.5 };
    let mut window = MeasuredWindow::default();
    for count in 0..200 {
        // Slower by far than foretold, and that as if it were the layout's fault.
        let slow =
            LayoutObservation { layout: Layout::Flat, data_ns: 40, compute_ns: 900_000, ..evenly(&shape, sample) };
        observe(&mut window, &shape, &slow, &[]);
        let switch = window.decide(&costs, &shape, FREE);
        assert!(switch.is_none_or(|switch| switch.to != Layout::Nested), "after {count} queries");
    }
}

#[test]
fn a_form_that_was_never_read_is_given_the_benefit_of_the_doubt_until_it_is() {
    let mut window = MeasuredWindow::default();
    let asked = query(true, 2);
    let rivals = |window: &MeasuredWindow| window.rivals[Layout::Flat.index()];
    // Both are measured as they are predicted.
    observe(&mut window, &ORDERS, &observed(asked, Layout::Nested, 1.0), &[]);
    let first = rivals(&window);
    let striped = window.rivals[Layout::Striped.index()];
    observe(&mut window, &ORDERS, &observed(asked, Layout::Flat, 1.0), &[]);
    observe(&mut window, &ORDERS, &observed(asked, Layout::Nested, 1.0), &[]);
    let known = rivals(&window);
    let share = |rival: Rival| rival.other_ns / rival.present_ns;
    assert!((share(first) / share(known) - UNTRIED).abs() < 1e-6, "{first:?}, {known:?}");
    // Striped items are read as nested ones are, which is known.
    assert_eq!(striped, Rival::default(), "no better than the present layout");
}

#[test]
fn records_without_lists_lie_in_columns_or_rows() {
    let costs = UnitCosts::default();
    let records = ItemShape { flat_row_count: ORDERS.record_count, element_columns: 0, ..ORDERS };
    for present in [Layout::Flat, Layout::RowWise] {
        let mut window = MeasuredWindow::default();
        for count in 0..1000 {
            observe(&mut window, &records, &observed(query(false, 1 + count % 9), present, 1.0), &[]);
            let to = window.decide(&costs, &records, FREE).map(|switch| switch.to);
            assert!(to.is_none_or(|to| matches!(to, Layout::Flat | Layout::RowWise)), "{present} to {to:?}");
        }
    }
}

#[test]
fn of_two_forms_each_query_reads_the_one_made_for_it_and_none_of_them_is_converted_to() {
    let costs = UnitCosts::default();
    let mut window = MeasuredWindow::default();
    let forms = Forms { own: Layout::Flat, mirror: Some(Layout::Nested) };
    let elements = of_share(true, 6, 1.0);
    let records = query(false, 6);
    let planned = |query: &LayoutObservation| PlannedQuery {
        reads_elements: query.reads_elements,
        record_columns: query.record_columns,
        element_columns: query.element_columns,
        as_kept: query.as_kept,
    };
    for count in 0..300 {
        let asked = if count % 2 == 0 { elements } else { records };
        let chosen = window.choose(&costs, &ORDERS, forms, &planned(&asked), &[]);
        assert_eq!(chosen, if count % 2 == 0 { Layout::Flat } else { Layout::Nested }, "query {count}");
        assert_eq!(
            window.choose(&costs, &ORDERS, Forms::only(Layout::RowWise), &planned(&asked), &[]),
            Layout::RowWise
        );
        window.observe(&costs, &ORDERS, (forms, true), &observed(asked, chosen, 1.0), &[]);
        assert_eq!(window.decide(&costs, &ORDERS, FREE), None);
    }
    // Without the mirror, queries on records are a reason to convert to what it was.
    let again = until_switch(&mut window, records, Layout::Flat, &ORDERS, FREE);
    assert_eq!(again.map(|(to, _)| to), Some(Layout::Nested));
}

#[test]
fn a_query_is_taken_to_select_what_the_latest_of_its_kind_did() {
    let costs = UnitCosts::default();
    let forms = Forms { own: Layout::Nested, mirror: Some(Layout::Flat) };
    // Elements by a column of their records: few are found sooner among the records, many need no gathering in flat rows.
    let columns = |read: u32, untested: u32| ColumnsRead { read, output: read, untested, varying: 0 };
    let planned = PlannedQuery {
        reads_elements: true,
        record_columns: columns(2, 1),
        element_columns: columns(4, 4),
        as_kept: false,
    };
    let chosen_after = |share: f64| {
        let mut window = MeasuredWindow::default();
        for _ in 0..SHARE_READINGS {
            let asked = observed(planned.observation(&ORDERS, Layout::Nested, share), Layout::Nested, 1.0);
            window.observe(&costs, &ORDERS, (forms, true), &asked, &[]);
        }
        window.choose(&costs, &ORDERS, forms, &planned, &[])
    };
    assert_eq!([0.0001, 0.9].map(chosen_after), [Layout::Nested, Layout::Flat]);
}
