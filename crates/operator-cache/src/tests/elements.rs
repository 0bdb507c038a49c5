//! Rows that are elements of a list, kept with their records.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use thermocline_budget::Budget;
use thermocline_hardware::{Clock, ManualClock};
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};
use thermocline_seeded::Random;

use super::fake::*;
use crate::layout::Content;
use crate::*;

const RECORDS: u64 = 1000;

/// Rows as plain numbers, NULL as None; the rows in any order.
pub(super) type Table = Vec<Vec<Option<i64>>>;

pub(super) fn elements(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    let source = SourceKey { unnest: Some(path("l")), ..source("f") };
    SelectRequest { source, ..request(names, predicate) }
}

fn e_between(low: i64, high: i64) -> (FieldPath, Domain) {
    let bound = |value: i64| Bound::Included(Scalar::Int(value.into()));
    (path("l.e"), Domain::interval(bound(low), bound(high)))
}

/// `a` and `l.e` in ranges.
pub(super) fn both_between(a: (i64, i64), e: (i64, i64)) -> Arc<Conjunction> {
    let (path, domain) = e_between(e.0, e.1);
    Arc::new(between(a.0, a.1).as_ref().clone().and(path, domain))
}

pub(super) fn push(table: &mut Table, pieces: CutPieces) {
    pieces.for_each(|rows| push_rows(table, rows.unwrap()));
}

fn push_rows(table: &mut Table, CutRows { columns, row_count, selected }: CutRows) {
    let columns: Vec<Int64Array> = columns.iter().flat_map(flattened).collect();
    for row in (0..row_count).filter(|&row| selected.as_ref().is_none_or(|selected| selected.value(row))) {
        table.push(columns.iter().map(|column| column.is_valid(row).then(|| column.value(row))).collect());
    }
}

/// A column of numbers; of a struct, whether it is there, and its field.
fn flattened(column: &ArrayRef) -> Vec<Int64Array> {
    let Some(parent) = column.as_struct_opt() else { return vec![longs(column)] };
    let is_there = (0..parent.len()).map(|row| parent.is_valid(row).then_some(1)).collect();
    let field = longs(parent.column(0));
    vec![is_there, field.iter().enumerate().map(|(row, value)| value.filter(|_| parent.is_valid(row))).collect()]
}

/// The columns `names` of what a request gives, sorted, and whether nothing was scanned for it.
pub(super) fn answer(
    cache: &Arc<OperatorCache>,
    fake: &Arc<Fake>,
    request: &SelectRequest,
    names: &[&str],
) -> (Table, bool) {
    let outputs: Vec<FieldPath> = names.iter().map(|name| path(name)).collect();
    let pinned = pin(cache, &object("f", "1", RECORDS));
    let mut table = Table::new();
    let is_hit = match cache.begin(request, &pinned, true, fake.factory()) {
        Start::Hit { item, residual, view, .. } => {
            let cut = as_kept_at_times(item.cut(view, &residual, &outputs).unwrap(), item.row_count());
            let mut reading = Reading::default();
            let form = cache.form_for(&item, &cut);
            for piece in form.pieces() {
                push(&mut table, form.read(&piece, &cut, &**cache.clock(), &mut reading).unwrap());
            }
            assert_eq!(reading.counts.selected_rows(), table.len() as u64);
            if let Some(conversion) = cache.finish_reading(&item, form.layout(), &cut, &reading) {
                drop((item, form));
                cache.convert(conversion);
            }
            true
        }
        Start::Combine { parts, remainder } => {
            for CombinedPart { item, residual } in &parts {
                let cut = item.cut(View::Elements, residual, &outputs).unwrap();
                for piece in item.pieces() {
                    push(&mut table, item.read(&piece, &cut, &**cache.clock(), &mut Reading::default()).unwrap());
                }
            }
            if let Some(participant) = &remainder {
                drain(participant, &outputs, &mut table);
            }
            remainder.is_none()
        }
        Start::Wait(_) => panic!("the request may not wait"),
        Start::Scan(participant) => {
            drain(&participant, &outputs, &mut table);
            false
        }
    };
    table.sort_unstable();
    (table, is_hit)
}

fn drain(participant: &Arc<Participant>, outputs: &[FieldPath], table: &mut Table) {
    let cut = participant.cut(outputs).unwrap();
    let cut = if participant.residual().fields().count() % 2 == 1 { cut.as_kept() } else { cut };
    for rows in futures::executor::block_on_stream(participant.stream()) {
        push(table, cut.apply(&rows.unwrap()).unwrap());
    }
}

/// One row for each element whose record and self pass, made the slow way.
pub(super) fn expected_elements(predicate: &Conjunction, names: &[&str]) -> Table {
    let passes =
        |name: &str, value: i64| predicate.domain(&path(name)).is_none_or(|domain| domain.contains_int(value.into()));
    let mut table = Table::new();
    for record in (0..RECORDS).filter(|&record| passes("a", a_of(record))) {
        for element in elements_of(record).filter(|&element| passes("l.e", element)) {
            table.push(names.iter().flat_map(|name| values(name, record, element)).collect());
        }
    }
    table.sort_unstable();
    table
}

pub(super) fn values(name: &str, record: u64, element: i64) -> Vec<Option<i64>> {
    let value = match name {
        "a" => Some(a_of(record)),
        "b" => Some(record as i64),
        "s.z" => (a_of(record) % 7 != 0 && a_of(record) % 11 != 0).then(|| a_of(record) * 2),
        "t" => t_of(record),
        "l.n" => n_of(element),
        "l.t" => Some(element % TEXTS),
        "l.o" => return vec![o_of(element).map(|_| 1), o_of(element).flatten()],
        "l.o.m" => o_of(element).flatten(),
        _ => Some(element),
    };
    vec![value]
}

pub(super) fn nested(morsel_records: u64) -> Arc<Fake> {
    Arc::new(Fake { morsel_records, unnests: true, ..Fake::default() })
}

/// Every rule; under the last each item has another layout after each reading.
pub(super) fn rules() -> Vec<LayoutRule> {
    let fixed = Layout::ALL.into_iter().map(LayoutRule::Fixed);
    [LayoutRule::Measured, LayoutRule::Single, LayoutRule::AsPrinted].into_iter().chain(fixed).collect()
}

#[test]
fn random_cuts_of_scans_and_items_give_the_elements_that_pass() {
    for rule in rules() {
        for morsel_records in [1, 7, 16, 5000] {
            random_cuts(morsel_records, |_| rule);
        }
    }
    random_cuts(16, |round| LayoutRule::Fixed(Layout::ALL[round % 4]));
}

fn random_cuts(morsel_records: u64, rule: impl Fn(usize) -> LayoutRule) {
    let mut random = Random::new(7);
    // In the second kind of cache scans take time, so that items are combined.
    for (cache, budget) in [cache(64 << 20), timed_cache(64 << 20)] {
        let fake = nested(morsel_records);
        let mut hit_count = 0;
        for round in 0..60 {
            let rule = rule(round);
            cache.set_layout_rule(rule);
            let range = |random: &mut Random, bound: u64| {
                let low = random.below_u64(bound) as i64;
                (low, low + random.below_u64(bound) as i64)
            };
            let predicate = match random.below_u64(4) {
                0 => between(range(&mut random, 1000).0, 1000),
                1 => both_between(range(&mut random, 1000), (i64::MIN, i64::MAX)),
                2 => both_between((0, 1000), range(&mut random, 10 * RECORDS)),
                _ => both_between(range(&mut random, 1000), range(&mut random, 10 * RECORDS)),
            };
            let names: &[&str] =
                [&["a", "l.e"][..], &["b", "a", "l.e", "t"], &["l.e", "s.z", "a"], &["l.o", "a", "l.n", "l.e", "l.t"]]
                    [random.below_u64(4) as usize];
            let asked = elements(names, &predicate);
            let asked =
                if random.one_in(3) { SelectRequest { retain_predicate: Arc::default(), ..asked } } else { asked };
            let (found, is_hit) = answer(&cache, &fake, &asked, names);
            assert_eq!(
                found,
                expected_elements(&predicate, names),
                "round {round}, morsels of {morsel_records}, {rule}"
            );
            hit_count += usize::from(is_hit);
        }
        assert!(hit_count > 20, "next to nothing was answered from items: {hit_count}");
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn null_elements_and_fields_of_structs_come_out_of_every_layout() {
    for rule in rules() {
        let (cache, _budget) = cache(64 << 20);
        cache.set_layout_rule(rule);
        let fake = nested(16);
        let columns = ["a", "b", "t", "l.e", "l.n", "l.o", "l.t"];
        for (round, names) in
            [&columns[..], &["l.n", "b"], &["l.o.m", "a"], &["l.o"], &["l.t", "l.n", "t"]].iter().enumerate()
        {
            for predicate in [between(0, 999), both_between((100, 700), (500, 6000)), both_between((0, 999), (0, 40))] {
                let asked = SelectRequest { retain_predicate: Arc::default(), ..elements(&columns, &predicate) };
                let (found, is_hit) = answer(&cache, &fake, &asked, names);
                assert_eq!(found, expected_elements(&predicate, names), "{rule}, {names:?}");
                assert!(is_hit || round == 0, "{rule}, {names:?}");
            }
        }
    }
}

#[test]
fn rows_are_marked_instead_of_copied_where_they_are_there_as_they_are_asked_for() {
    use Layout::{Flat, Nested, RowWise, Striped};
    for layout in Layout::ALL {
        let (cache, _budget) = cache(64 << 20);
        cache.set_layout_rule(LayoutRule::Fixed(layout));
        let fake = nested(400);
        let columns = ["a", "b", "l.e", "l.n"];
        let asked = |predicate: &_| SelectRequest { retain_predicate: Arc::default(), ..elements(&columns, predicate) };
        for _ in 0..2 {
            answer(&cache, &fake, &asked(&between(0, 500)), &columns);
        }
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let [half, few] = [both_between((0, 500), (0, 10 * 1000)), both_between((0, 60), (0, 10 * 1000))];
        for (names, predicate, marked) in [
            (&["l.e", "l.n"][..], &half, [Nested, Flat, Striped].as_slice()),
            // What records have is gathered for those alone that pass, if it does not lie beside them.
            (&["l.e", "b"], &half, &[Flat]),
            (&["l.e", "l.n"], &few, &[]),
        ] {
            let start = cache.begin(&asked(predicate), &pinned, true, fake.factory());
            let Start::Hit { item, residual, view, .. } = start else { panic!("expected a hit") };
            assert_eq!(item.layout, layout);
            let outputs: Vec<FieldPath> = names.iter().map(|name| path(name)).collect();
            let cut = item.cut(view, &residual, &outputs).unwrap().as_kept();
            let mut table = Table::new();
            for piece in item.pieces() {
                for rows in item.read(&piece, &cut, &**cache.clock(), &mut Reading::default()).unwrap() {
                    let rows = rows.unwrap();
                    assert_eq!(rows.selected.is_some(), marked.contains(&layout), "{layout}, {names:?}");
                    push_rows(&mut table, rows);
                }
            }
            table.sort_unstable();
            assert_eq!(table, expected_elements(predicate, names), "{layout}, {names:?}");
        }
        let records = request(&["a", "b"], &between(0, 500));
        let start = cache.begin(&records, &pinned, true, fake.factory());
        let Start::Hit { item, residual, view, .. } = start else { panic!("expected a hit") };
        let cut = item.cut(view, &residual, &[path("b")]).unwrap().as_kept();
        for piece in item.pieces() {
            for rows in item.read(&piece, &cut, &**cache.clock(), &mut Reading::default()).unwrap() {
                // First rows of records have others behind them.
                let is_marked = rows.unwrap().selected.is_some();
                assert_eq!(is_marked, !matches!(layout, Flat | RowWise), "{layout}");
            }
        }
    }
}

#[test]
fn texts_that_come_again_take_a_byte_in_every_layout() {
    for (rule, morsel_records) in rules().into_iter().flat_map(|rule| [(rule, 16), (rule, 400)]) {
        let (cache, _budget) = cache(64 << 20);
        cache.set_layout_rule(rule);
        let fake = nested(morsel_records);
        let asked = |names| SelectRequest { retain_predicate: Arc::default(), ..elements(names, &between(0, 999)) };
        let names = ["a", "l.e", "t", "l.t"];
        answer(&cache, &fake, &asked(&names), &names);
        let (found, is_hit) = answer(&cache, &fake, &asked(&names), &["t", "l.t"]);
        assert!(is_hit);
        assert_eq!(found, expected_elements(&between(0, 999), &["t", "l.t"]), "{rule}");
        let size_bytes = cache.items()[0].size_bytes;
        cache.clear();
        answer(&cache, &fake, &asked(&names[..2]), &names[..2]);
        let without_bytes = cache.items()[0].size_bytes;
        // Of 1500 elements, and as many records if they are repeated, 500 without elements among these; levels, NULLs and
        // two dictionaries of 17 texts in a chunk, of which there may be some.
        let added_bytes = size_bytes - without_bytes;
        assert!(added_bytes < 2 * 2000 * 2 + 3 * 1500, "{rule}, morsels of {morsel_records}: {added_bytes}");
    }
}

#[test]
fn elements_kept_with_all_their_records_answer_questions_about_the_records() {
    for (rule, morsel_records) in rules().into_iter().flat_map(|rule| [(rule, 1), (rule, 16), (rule, 5000)]) {
        let (cache, _budget) = cache(64 << 20);
        cache.set_layout_rule(rule);
        let fake = nested(morsel_records);
        let names = ["a", "b", "l.e"];
        answer(&cache, &fake, &elements(&names, &between(0, 600)), &names);
        let records = request(&["a", "b"], &between(100, 500));
        let (found, is_hit) = answer(&cache, &fake, &records, &["b"]);
        assert!(is_hit, "every fourth record has no element, but is there");
        let expected: Table = expected(RECORDS, &between(100, 500)).into_iter().map(|b| vec![Some(b)]).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn elements_chosen_by_themselves_or_read_past_bad_records_answer_no_questions_about_records() {
    let (cache, _budget) = cache(64 << 20);
    let (lists, plain) = (nested(16), Arc::new(Fake::default()));
    let names = ["a", "b", "l.e"];
    answer(&cache, &lists, &elements(&names, &both_between((0, 600), (0, 3000))), &names);
    let records = request(&["a", "b"], &between(100, 500));
    assert!(!answer(&cache, &plain, &records, &["b"]).1);
    cache.clear();
    answer(&cache, &lists, &elements(&names, &between(0, 600)), &names);
    assert!(!answer(&cache, &plain, &SelectRequest { may_skip: true, ..records.clone() }, &["b"]).1);
    cache.clear();
    answer(&cache, &lists, &elements(&names, &between(0, 600)), &names);
    assert!(!answer(&cache, &plain, &request(&["a", "s.z", "b"], &between(100, 500)), &["b"]).1, "no such column");
}

#[test]
fn records_give_a_list_out_of_its_struct_beside_which_it_is_unnested() {
    let lists = [vec![1, 2], vec![], vec![3]];
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    let elements: ArrayRef = Arc::new(Int64Array::from(lists.concat()));
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let list: ArrayRef = Arc::new(ListArray::new(Arc::clone(&field), offsets.clone(), Arc::clone(&elements), None));
    let fields = Fields::from(vec![Field::new("deep", DataType::List(field), true)]);
    let parent: ArrayRef = Arc::new(StructArray::new(fields.clone(), vec![Arc::clone(&list)], None));
    let columns: Arc<[ColumnSpec]> = [("s", DataType::Struct(fields)), ("s.deep", DataType::Int64)]
        .map(|(name, data_type)| ColumnSpec { path: path(name), data_type })
        .into();
    let deep = path("s.deep");
    let rows = Arc::new(Rows {
        columns: vec![Arc::clone(&parent), Arc::clone(&elements)],
        elements: Some(Elements { offsets, is_element: element_columns(&columns, &deep) }),
        row_count: 3,
        record_count: 3,
        skipped_count: 0,
        positions: None,
        map_piece: None,
    });
    let cut = |view, names: &[&str]| {
        let outputs: Vec<FieldPath> = names.iter().map(|name| path(name)).collect();
        Cut::new(&columns, Some(&deep), view, &Conjunction::all(), &outputs).unwrap()
    };
    for layout in Layout::ALL {
        let content = Content::of(&rows, layout).unwrap();
        let read = |cut: &Cut| {
            let pieces = content.pieces().into_iter();
            let rows = pieces
                .flat_map(|piece| cut.read(&content, piece, &ManualClock::new(0), &mut Reading::default()).unwrap());
            rows.map(|rows| rows.unwrap().columns).collect::<Vec<_>>()
        };
        let of_records = read(&cut(View::Records, &["s", "s.deep"]));
        assert_eq!(of_records, [[Arc::clone(&parent), Arc::clone(&list)]], "{layout}");
        let of_elements = read(&cut(View::Elements, &["s.deep"]));
        assert_eq!(of_elements, [[Arc::clone(&elements)]], "{layout}");
    }
    let of_elements_alone: Arc<[ColumnSpec]> = columns[1..].into();
    assert!(
        Cut::new(&of_elements_alone, Some(&deep), View::Records, &Conjunction::all(), std::slice::from_ref(&deep))
            .is_none()
    );
}

#[test]
fn columns_of_records_and_of_elements_are_laid_beside_kept_ones() {
    for (first, added) in [(["a", "l.e"], "b"), (["a", "b"], "l.e")] {
        for (rule, morsel_records) in rules().into_iter().flat_map(|rule| [(rule, 1), (rule, 7), (rule, 5000)]) {
            let (cache, _budget) = cache(64 << 20);
            cache.set_layout_rule(rule);
            let fake = nested(morsel_records);
            let wide = |names: &[&str], predicate: &Arc<Conjunction>| SelectRequest {
                retain_predicate: Arc::default(),
                ..elements(names, predicate)
            };
            answer(&cache, &fake, &wide(&first, &between(0, 400)), &first);
            let names = [first[0], first[1], added];
            let (found, _) = answer(&cache, &fake, &wide(&names, &between(300, 700)), &names);
            assert_eq!(found, expected_elements(&between(300, 700), &names));
            let scanned = fake.specs.lock()[1].columns.iter().map(|column| column.path.clone()).collect::<Vec<_>>();
            assert_eq!(scanned, [path(added)]);
            let (found, is_hit) = answer(&cache, &fake, &wide(&names, &between(600, 900)), &names);
            assert!(is_hit);
            assert_eq!(found, expected_elements(&between(600, 900), &names));
        }
    }
}

#[test]
fn an_item_that_is_read_as_its_layout_is_bad_for_is_converted_while_others_read_it() {
    let (cache, budget) = cache(64 << 20);
    cache.set_layout_rule(LayoutRule::Fixed(Layout::Striped));
    let (fake, names) = (nested(16), ["a", "l.e"]);
    let asked = elements(&names, &between(0, 600));
    answer(&cache, &fake, &asked, &names);
    let before = cache.items();
    assert_eq!((before.len(), before[0].layout), (1, Layout::Striped));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item: reader, .. } = cache.begin(&asked, &pinned, true, fake.factory()) else {
        panic!("expected a hit");
    };
    cache.set_layout_rule(LayoutRule::Fixed(Layout::Flat));
    assert_eq!(answer(&cache, &fake, &asked, &names).0, expected_elements(&between(0, 600), &names));
    let after = cache.items();
    assert_eq!((after.len(), after[0].layout), (1, Layout::Flat));
    assert_ne!(after[0].id, before[0].id);
    assert_eq!(after[0].use_count, 3, "it keeps its history");
    assert!(cache.decisions().iter().any(|decision| decision.kind == DecisionKind::SwitchLayout));
    assert_eq!(reader.layout(), Layout::Striped);
    assert_eq!(reader.row_count(), after[0].row_count);
    drop(reader);
    cache.clear();
    assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
}

#[test]
fn an_item_is_converted_after_fewer_readings_where_a_processor_is_idle() {
    let readings = |is_idle| {
        let clock = Arc::new(ManualClock::new(0));
        let budget = Budget::new(64 << 20, None);
        let cache = OperatorCache::new(CacheOptions::default(), &budget, Arc::clone(&clock) as Arc<dyn Clock>);
        cache.set_layout_rule(LayoutRule::Fixed(Layout::Striped));
        let (fake, names) = (nested(16), ["a", "l.e"]);
        let asked = elements(&names, &between(0, 600));
        answer(&cache, &fake, &asked, &names);
        cache.set_layout_rule(LayoutRule::Measured);
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let Start::Hit { item, residual, view, .. } = cache.begin(&asked, &pinned, true, fake.factory()) else {
            panic!("expected a hit");
        };
        let cut = item.cut(view, &residual, &names.map(path)).unwrap();
        let mut reading = Reading::default();
        for piece in item.pieces() {
            item.read(&piece, &cut, &**cache.clock(), &mut reading).unwrap();
        }
        (reading.times.data_ns, reading.times.compute_ns) = (100, 400);
        (1..1000)
            .find(|_| {
                clock.advance_ns(1_000_000_000);
                clock.work_ns(if is_idle { 0 } else { 1_000_000_000 });
                cache.finish_reading(&item, item.layout(), &cut, &reading).is_some()
            })
            .expect("levels take four fifths of the time")
    };
    let (busy, idle) = (readings(false), readings(true));
    assert!(2 * idle < busy, "{idle} readings, {busy} where it is busy");
}

#[test]
fn without_room_for_both_forms_an_item_stays_as_it_is() {
    let (cache, budget) = cache(64 << 20);
    let (fake, names) = (nested(16), ["a", "l.e"]);
    let asked = elements(&names, &between(0, 1000));
    answer(&cache, &fake, &asked, &names);
    budget.set_limit(budget.reserved_bytes() + 100);
    cache.set_layout_rule(LayoutRule::Fixed(Layout::RowWise));
    let (found, is_hit) = answer(&cache, &fake, &asked, &names);
    assert!(is_hit);
    assert_eq!(found, expected_elements(&between(0, 1000), &names));
    assert_eq!(cache.items()[0].layout, Layout::Nested);
    assert!(cache.decisions().iter().any(|decision| decision.kind == DecisionKind::KeepLayout));
}

#[test]
fn elements_of_several_items_make_up_a_wider_range_of_records_and_of_elements() {
    for (rule, morsel_records) in rules().into_iter().flat_map(|rule| [(rule, 1), (rule, 16), (rule, 5000)]) {
        let (cache, _budget) = timed_cache(64 << 20);
        cache.set_layout_rule(rule);
        let fake = nested(morsel_records);
        let names = ["a", "b", "l.e"];
        let scan_count = || fake.open_count.load(std::sync::atomic::Ordering::Relaxed);
        // Overlapping ranges of the records, then of the elements; what was kept first is in the way of neither.
        type Sides = fn(i64, i64) -> Arc<Conjunction>;
        let sides: [Sides; 2] = [
            |low, high| both_between((low / 10, high / 10), (0, 4000)),
            |low, high| both_between((0, 200), (low, high)),
        ];
        for range in sides {
            cache.clear();
            for (low, high) in [(500, 3000), (2000, 6000)] {
                let asked = SelectRequest { may_skip: true, ..elements(&names, &range(low, high)) };
                answer(&cache, &fake, &asked, &names);
            }
            let before = scan_count();
            for (low, high) in [(500, 6000), (1000, 5000), (2500, 3500)] {
                let (found, is_kept) = answer(&cache, &fake, &elements(&names, &range(low, high)), &names);
                assert_eq!(found, expected_elements(&range(low, high), &names), "{rule}, morsels of {morsel_records}");
                assert!(is_kept || morsel_records == 5000, "{rule}, morsels of {morsel_records}");
            }
            assert!(scan_count() == before || morsel_records == 5000);
        }
    }
}

#[test]
fn elements_get_further_columns_of_their_own_records_alone() {
    for layout in Layout::ALL {
        let (cache, _budget) = cache(64 << 20);
        cache.set_layout_rule(LayoutRule::Fixed(layout));
        let fake = Arc::new(Fake { unnests: true, ..Fake::default() });
        let predicate = both_between((100, 300), (1500, 6000));
        let names = ["a", "l.e", "s.z"];
        answer(&cache, &fake, &elements(&names[..2], &predicate), &names[..2]);
        let item_records = fake.specs.lock().len();
        let (topped_up, is_hit) = answer(&cache, &fake, &elements(&names, &predicate), &names);
        let spec = fake.specs.lock()[item_records].clone();
        assert!(!is_hit && spec.positions.is_some_and(|positions| positions.len() < 201), "{layout:?}");
        assert_eq!(spec.columns.len(), 1);
        let (kept, is_hit) = answer(&cache, &fake, &elements(&names, &predicate), &names);
        assert!(is_hit);
        cache.clear();
        let (scanned, _) = answer(&cache, &fake, &elements(&names, &predicate), &names);
        assert_eq!((&topped_up, &kept), (&scanned, &scanned), "{layout:?}");
    }
}

#[test]
fn a_bad_value_beside_a_list_without_elements_fails_nobody() {
    let (cache, _budget) = timed_cache(64 << 20);
    let (fake, names) = (nested(16), ["a", "b", "l.e"]);
    // Every fourth record has no element.
    fake.bad_values.lock().push(("b", 400));
    for (low, high) in [(0, 999), (a_of(400), a_of(400) + 100), (0, 999)] {
        let predicate = between(low, high);
        let (found, _) = answer(&cache, &fake, &elements(&names, &predicate), &names);
        assert_eq!(found, expected_elements(&predicate, &names));
    }
    let specs = fake.specs.lock();
    assert!(specs[0].keeps_empty && specs[1..].iter().all(|spec| !spec.keeps_empty), "{specs:?}");
    drop(specs);
    fake.bad_values.lock().push(("s", 400));
    let names = ["a", "b", "l.e", "s.z"];
    let (found, _) = answer(&cache, &fake, &elements(&names, &between(0, 999)), &names);
    assert_eq!(found, expected_elements(&between(0, 999), &names));
}

#[test]
fn columns_of_more_than_an_item_with_empty_lists_has_are_read_of_elements_where_something_is_bad() {
    for reads_more in [false, true] {
        let (cache, _budget) = timed_cache(64 << 20);
        let (fake, names) = (nested(16), ["a", "l.e"]);
        answer(&cache, &fake, &elements(&names, &between(0, 999)), &names);
        fake.bad_values.lock().push(("s.z", 400));
        if reads_more {
            let (found, _) = answer(&cache, &fake, &elements(&["a", "b", "l.e"], &between(0, 999)), &["b"]);
            assert_eq!(found, expected_elements(&between(0, 999), &["b"]));
        }
        let names = ["a", "l.e", "s.z"];
        let (found, _) = answer(&cache, &fake, &elements(&names, &between(0, 999)), &names);
        assert_eq!(found, expected_elements(&between(0, 999), &names), "{reads_more}");
    }
}

#[test]
fn elements_of_a_head_and_of_the_rest_are_all() {
    for layout in Layout::ALL {
        // Less than all rows take.
        let (cache, _budget) = timed_cache(8000);
        cache.set_layout_rule(LayoutRule::Fixed(layout));
        let fake = Arc::new(Fake { unnests: true, ..Fake::default() });
        for low in [0, 100, 200, 700] {
            let predicate = both_between((low, low + 200), (low * 5, 9000));
            let asked = elements(&["a", "l.e"], &predicate);
            let asked = SelectRequest { retain_predicate: Arc::default(), ..asked };
            let (found, is_hit) = answer(&cache, &fake, &asked, &["a", "l.e"]);
            assert_eq!(found, expected_elements(&predicate, &["a", "l.e"]), "{layout:?}, {low}");
            assert!(!is_hit);
        }
        let heads = fake.specs.lock().iter().filter(|spec| spec.head.is_some()).count();
        assert_eq!(heads, 3, "{layout:?}: {:?}", cache.items());
    }
}
