//! One query after the other: what is found, what is kept, what is explained.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow::array::Array;
use thermocline_placement::operator_cache::widening::Earlier;
use thermocline_predicate::{Conjunction, Domain, FieldPath, Scalar};

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Vec<i64> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    answer(cache.begin(request, &pinned, true, fake.factory()), 2).unwrap()
}

#[test]
fn the_second_query_of_a_predicate_reads_the_item() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let predicate = between(100, 300);
    let request = request(&["a", "b"], &predicate);
    assert_eq!(ask(&cache, &fake, &request), expected(RECORDS, &predicate));
    assert_eq!(ask(&cache, &fake, &request), expected(RECORDS, &predicate));
    assert_eq!(fake.open_count.load(std::sync::atomic::Ordering::Relaxed), 1);
    let items = cache.items();
    assert_eq!(items.len(), 1);
    assert_eq!((items[0].use_count, items[0].chunk_count), (2, 1), "small chunks are merged");
    let kinds: Vec<DecisionKind> = cache.decisions().iter().map(|decision| decision.kind).collect();
    assert_eq!(kinds, [DecisionKind::Miss, DecisionKind::Admit, DecisionKind::Hit]);
}

#[test]
fn a_narrower_range_is_answered_from_a_wider_item_with_a_residual_filter() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(100, 500)));
    let narrow = between(200, 300);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, kind, .. } = cache.begin(&request(&["b"], &narrow), &pinned, true, fake.factory())
    else {
        panic!("expected a hit");
    };
    assert_eq!(kind, MatchKind::Subsumed);
    assert_eq!(residual.to_string(), narrow.to_string());
    assert_eq!(read(&item, &residual), expected(RECORDS, &narrow), "in file order");
    let Explanation::Hit { residual: explained, kind: MatchKind::Subsumed, .. } =
        cache.explain(&request(&["b"], &narrow), &pinned)
    else {
        panic!("expected an explained hit");
    };
    assert_eq!(explained, residual);
}

#[test]
fn rows_are_marked_instead_of_copied_where_all_that_is_wanted_can_be_passed_over() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake { morsel_records: 500, ..Fake::default() });
    let all = Arc::new(Conjunction::all());
    ask(&cache, &fake, &request(&["a", "b", "t", "v"], &all));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    for (names, low, is_marked) in
        [(&["b"][..], 100, true), (&["b", "t"], 100, true), (&["b", "v"], 100, false), (&["b", "t"], 980, false)]
    {
        let range = between(low, 999);
        let start = cache.begin(&request(&["a", "b", "t", "v"], &range), &pinned, true, fake.factory());
        let Start::Hit { item, residual, .. } = start else { panic!("expected a hit") };
        let outputs: Vec<FieldPath> = names.iter().map(|name| path(name)).collect();
        let cut = item.cut(View::Elements, &residual, &outputs).unwrap().as_kept();
        let mut found = Vec::new();
        for piece in item.pieces() {
            for rows in item.read(&piece, &cut, &**cache.clock(), &mut Reading::default()).unwrap() {
                let CutRows { columns, row_count, selected } = rows.unwrap();
                assert_eq!(selected.is_some(), is_marked, "{names:?} from {low} on");
                let wanted = (0..row_count).filter(|&row| selected.as_ref().is_none_or(|selected| selected.value(row)));
                found.extend(wanted.map(|row| longs(&columns[0]).value(row)));
            }
        }
        assert_eq!(found, expected(RECORDS, &range));
    }
}

#[test]
fn chunks_whose_values_lie_elsewhere_are_not_read() {
    let (cache, _budget) = cache(64 << 20);
    // Too many for chunks to be merged.
    let (record_count, chunk_records) = (40_000, 5_000);
    let fake = Arc::new(Fake { morsel_records: chunk_records, ..Fake::default() });
    let pinned = pin(&cache, &object("f", "1", record_count));
    let all = request(&["a", "b", "t"], &Arc::new(Conjunction::all()));
    answer(cache.begin(&all, &pinned, true, fake.factory()), 2).unwrap();
    // Records are in the order of `b`, and in none of `a`'s.
    let of_b = |low, high| {
        let range = Domain::interval(Bound::Included(Scalar::Int(low)), Bound::Included(Scalar::Int(high)));
        Conjunction::all().and(path("b"), range)
    };
    let numbers = |range: Range<i64>| range.collect::<Vec<_>>();
    for (predicate, found, piece_count) in [
        (of_b(7_000, 7_010), numbers(7_000..7_011), 1),
        (of_b(9_999, 10_000), numbers(9_999..10_001), 2),
        (of_b(-5, -1), Vec::new(), 0),
        ((*between(330, 340)).clone(), expected(record_count, &between(330, 340)), 8),
    ] {
        let request = request(&["a", "b", "t"], &Arc::new(predicate.clone()));
        let Start::Hit { item, residual, .. } = cache.begin(&request, &pinned, true, fake.factory()) else {
            panic!("expected a hit")
        };
        // Spans are found when something is first asked of a column, and kept.
        for _ in 0..2 {
            let cut = item.cut(View::Elements, &residual, &[path("b")]).unwrap();
            let (mut reading, mut rows) = (Reading::default(), Vec::<i64>::new());
            for piece in item.pieces() {
                for cut_rows in item.read(&piece, &cut, &**cache.clock(), &mut reading).unwrap() {
                    rows.extend(longs(&cut_rows.unwrap().columns[0]).values());
                }
            }
            assert_eq!(rows, found, "{predicate}");
            assert_eq!((reading.counts.piece_count, reading.passed_over_count), (piece_count, 8 - piece_count));
        }
    }
}

#[test]
fn an_item_that_lacks_the_filtered_field_serves_only_its_own_predicate() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["b"], &between(100, 500)));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let same = cache.begin(&request(&["b"], &between(100, 500)), &pinned, true, fake.factory());
    assert!(matches!(same, Start::Hit { kind: MatchKind::Exact, .. }));
    assert!(matches!(cache.explain(&request(&["b"], &between(200, 300)), &pinned), Explanation::Miss { .. }));
}

#[test]
fn an_item_without_a_wanted_column_does_not_answer_and_a_wider_one_replaces_it() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let predicate = between(100, 500);
    ask(&cache, &fake, &request(&["b"], &predicate));
    let wider = request(&["a", "b"], &predicate);
    assert_eq!(ask(&cache, &fake, &wider), expected(RECORDS, &predicate));
    assert_eq!(cache.items().len(), 1, "the item with both columns makes the other superfluous");
    assert_eq!(cache.items()[0].columns.len(), 2);
}

#[test]
fn other_options_or_types_are_another_source() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let mut request = request(&["a", "b"], &between(100, 500));
    ask(&cache, &fake, &request);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    request.source.options = Arc::from("delimiter=;");
    assert!(matches!(cache.explain(&request, &pinned), Explanation::Miss { .. }));
    request.source = source("f");
    let mut columns = request.columns.to_vec();
    columns[0].data_type = arrow::datatypes::DataType::Utf8;
    request.columns = columns.into();
    assert!(matches!(cache.explain(&request, &pinned), Explanation::Miss { .. }));
}

#[test]
fn a_struct_column_supplies_its_children_with_the_nulls_of_both() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let all = Arc::new(Conjunction::all());
    ask(&cache, &fake, &request(&["s", "b"], &all));
    let not_null = Arc::new(Conjunction::all().and(path("s.z"), Domain::not_null()));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, .. } =
        cache.begin(&request(&["s.z", "b"], &not_null), &pinned, true, fake.factory())
    else {
        panic!("expected a hit");
    };
    let kept = |row: &u64| a_of(*row) % 7 != 0 && a_of(*row) % 11 != 0;
    let rows: Vec<i64> = (0..RECORDS).filter(kept).map(|row| row as i64).collect();
    assert_eq!(read(&item, &residual), rows);
    let route = ColumnRoute::find(item.columns(), &path("s.z")).unwrap();
    let z = route.extract(item.chunks[0].scanned()).unwrap();
    let z = longs(&z);
    for row in 0..RECORDS {
        let expected = kept(&row).then(|| a_of(row) * 2);
        assert_eq!(z.is_valid(row as usize).then(|| z.value(row as usize)), expected, "row {row}");
    }
}

#[test]
fn the_wider_predicate_is_scanned_and_kept_and_the_answer_filtered() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let narrow = between(200, 300);
    let widened = SelectRequest { retain_predicate: Arc::default(), ..request(&["a", "b"], &narrow) };
    assert_eq!(ask(&cache, &fake, &widened), expected(RECORDS, &narrow));
    assert!(cache.items()[0].predicate.is_all());
    let other = between(700, 900);
    assert_eq!(ask(&cache, &fake, &request(&["b"], &other)), expected(RECORDS, &other));
    assert_eq!(fake.most_decodes(), 1);
}

#[test]
fn a_wider_predicate_that_could_not_be_filtered_afterwards_is_not_used() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let narrow = between(200, 300);
    let widened = SelectRequest { retain_predicate: Arc::default(), ..request(&["b"], &narrow) };
    assert_eq!(ask(&cache, &fake, &widened), expected(RECORDS, &narrow));
    assert_eq!(cache.items()[0].predicate, narrow);
}

#[test]
fn what_is_not_to_be_retained_leaves_nothing() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let request = request(&["a", "b"], &between(0, 999));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let before_bytes = cache.reserved_bytes();
    let start = cache.begin(&request, &pinned, false, fake.factory());
    assert_eq!(answer(start, 3).unwrap(), expected(RECORDS, &request.predicate));
    assert!(cache.items().is_empty());
    assert_eq!(cache.reserved_bytes(), before_bytes);
}

#[test]
fn an_empty_file_is_an_item_too() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let request = request(&["a", "b"], &between(0, 500));
    for _ in 0..2 {
        let pinned = pin(&cache, &object("f", "1", 0));
        assert_eq!(answer(cache.begin(&request, &pinned, true, fake.factory()), 1).unwrap(), Vec::<i64>::new());
    }
    assert_eq!(fake.open_count.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn records_read_and_left_out_are_remembered_of_rows_that_matched_nothing_too() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let request = request(&["a", "b"], &between(5000, 6000));
    ask(&cache, &fake, &request);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, .. } = cache.begin(&request, &pinned, true, fake.factory()) else { panic!("no hit") };
    assert_eq!((item.row_count(), item.record_count(), item.skipped_count()), (0, RECORDS, RECORDS.div_ceil(16)));
    assert!(item.pieces().is_empty());
}

#[test]
fn an_error_reaches_the_query_and_leaves_nothing_behind() {
    let (cache, _budget) = cache(64 << 20);
    let request = request(&["a", "b"], &between(0, 500));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let before_bytes = cache.reserved_bytes();
    let failing = [
        Fake { fail_at: Some(20), ..Fake::default() },
        Fake { finish_fails: true.into(), ..Fake::default() },
        Fake { number_gap_at: Some(7), ..Fake::default() },
    ];
    for fake in failing {
        let fake = Arc::new(fake);
        let error = answer(cache.begin(&request, &pinned, true, fake.factory()), 2).unwrap_err();
        assert!(!error.to_string().is_empty());
        assert!(cache.items().is_empty());
        assert_eq!(cache.reserved_bytes(), before_bytes);
    }
    let fake = Arc::new(Fake::default());
    assert_eq!(ask(&cache, &fake, &request), expected(RECORDS, &request.predicate));
}

#[test]
fn decisions_are_bounded_and_numbered() {
    let budget = thermocline_budget::Budget::new(1 << 20, None);
    let options = CacheOptions { decision_count: 8, ..CacheOptions::default() };
    let clock = Arc::new(thermocline_hardware::ManualClock::new(77));
    let cache = OperatorCache::new(options, &budget, clock);
    for _ in 0..20 {
        cache.clear();
    }
    let decisions = cache.decisions();
    assert_eq!(decisions.len(), 8);
    assert_eq!((decisions[0].tick, decisions[7].tick, decisions[7].wall_ns), (13, 20, 77));
}

#[test]
fn decisions_on_long_lists_of_values_keep_the_beginning_alone() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let list = |first: i128, count: i128| {
        let values = (0..count).map(|step| Scalar::Int(first + 3 * step));
        Arc::new(Conjunction::all().and(path("a"), Domain::points(values)))
    };
    let (short, long) = (list(0, 10), list(0, 10_000));
    for predicate in [&short, &long] {
        assert_eq!(ask(&cache, &fake, &request(&["a", "b"], predicate)), expected(RECORDS, predicate));
    }
    let held_bytes = |noted: &NotedPredicate| match noted {
        NotedPredicate::Whole(predicate) => predicate.heap_bytes(),
        NotedPredicate::Brief(text) => text.len(),
    };
    let noted: Vec<NotedPredicate> = cache.decisions().into_iter().filter_map(|decision| decision.predicate).collect();
    assert!(noted.iter().all(|noted| held_bytes(noted) <= 2048), "{noted:?}");
    assert!(noted.iter().any(|noted| noted.to_string() == short.to_string()), "{noted:?}");
    let beginning = "(a IN (0, 3, 6, 9, 12, 15, 18, 21) OR … 9992 more)";
    assert!(noted.iter().any(|noted| noted.to_string() == beginning), "{noted:?}");
    // One long text is no list.
    let text = Scalar::Utf8("ä".repeat(5000).into());
    let predicate = Arc::new(Conjunction::all().and(path("w"), Domain::point(text)));
    assert!(ask(&cache, &fake, &request(&["a", "b"], &predicate)).is_empty());
    let last = cache.decisions().last().unwrap().predicate.clone().unwrap();
    assert!(held_bytes(&last) <= 520 && last.to_string().starts_with("w = 'ää"), "{last:?}");
}

#[test]
fn columns_asked_are_found_without_a_walk_over_the_items() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    for value in 0..300 {
        let names: &[&str] = if value % 2 == 0 { &["a", "b"] } else { &["a", "b", "s.z"] };
        ask(&cache, &fake, &request(names, &between(value, value)));
    }
    assert_eq!(cache.items().len(), 300);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let asked = cache.columns_asked(&source("f"), &pinned, &columns(&["w"]));
    assert_eq!(asked, columns(&["a", "b", "s.z", "w"]));
    let is_counted_right = || cache.catalog().is_counted_right();
    assert!(is_counted_right());
    // Some go, some are made anew of all rows, and then all go.
    thermocline_budget::ReclaimableCache::release(&*cache, cache.reserved_bytes() / 3);
    assert!(is_counted_right() && cache.items().len() < 300);
    ask(&cache, &fake, &request(&["a", "b", "w"], &Arc::default()));
    assert!(is_counted_right());
    let kept_count = cache.catalog().kept_item_count("f");
    assert_eq!(kept_count, cache.items().len() as u64);
    thermocline_budget::ReclaimableCache::release(&*cache, u64::MAX);
    assert!(is_counted_right() && cache.items().is_empty());
    // Then it is known what the latest queries asked for.
    let asked_still = columns(&["a", "b", "w"]);
    assert_eq!(cache.columns_asked(&source("f"), &pinned, &columns(&["w"])), asked_still);
}

#[test]
fn items_of_as_many_sources_of_one_file_are_evicted_without_a_walk_over_the_sources() {
    const COUNT: u64 = 60_000;
    // A walk for each takes many minutes.
    within_a_minute(0, || {
        let (cache, _budget) = cache(64 << 20);
        let fake = Arc::new(Fake::default());
        ask(&cache, &fake, &request(&["b"], &between(1, 1)));
        let mut catalog = cache.catalog();
        let first = catalog.items().next().cloned().unwrap();
        for number in 0..COUNT {
            let columns = (Arc::clone(&first.columns), Arc::clone(&first.widths_bytes));
            let mut item = first.of_chunks(columns, Vec::new(), Arc::clone(&first.structure));
            item.id = ItemId(cache.next_number());
            item.source.options = format!("{number}").into();
            catalog.insert(Arc::new(item), None);
        }
        let ids: Vec<ItemId> = catalog.items().map(|item| item.id).filter(|id| *id != first.id).collect();
        for (evicted, id) in ids.into_iter().enumerate() {
            assert_eq!(catalog.kept_item_count("f"), COUNT + 1 - evicted as u64);
            assert!(catalog.evict(id).is_some());
        }
        assert!(catalog.is_counted_right());
    });
}

#[test]
fn scans_that_kept_more_than_was_asked_count_as_lost_until_that_was_of_use() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let earlier = |list: Option<&FieldPath>| pin(&cache, &object("f", "1", RECORDS)).earlier(list);
    let lost_bets = || earlier(None).lost_bets;
    assert_eq!(earlier(None).scan_count, 0);
    let widened = |names: &[&str], predicate: &Arc<Conjunction>| SelectRequest {
        retain_predicate: Arc::default(),
        ..request(names, predicate)
    };
    ask(&cache, &fake, &request(&["b"], &between(1, 2)));
    assert_eq!(earlier(None).scan_count, 1);
    assert_eq!(lost_bets(), 0, "no more was kept than asked");
    assert_eq!(ask(&cache, &fake, &widened(&["b"], &between(3, 4))), expected(RECORDS, &between(3, 4)));
    assert_eq!(lost_bets(), 0, "rows that could not be told apart later were not kept");
    assert_eq!(ask(&cache, &fake, &widened(&["a", "b"], &between(5, 6))), expected(RECORDS, &between(5, 6)));
    assert_eq!(lost_bets(), 1);
    ask(&cache, &fake, &SelectRequest { may_skip: true, ..widened(&["a", "b", "s.z"], &between(7, 8)) });
    assert_eq!(lost_bets(), 2, "other columns: the first item was of no use");
    assert_eq!(earlier(Some(&path("list"))), Earlier::default(), "each list has its own");
    let third = widened(&["a", "b", "s.z"], &between(700, 800));
    assert_eq!(ask(&cache, &fake, &third), expected(RECORDS, &between(700, 800)));
    assert_eq!(lost_bets(), 0);
}

#[test]
fn a_scan_ahead_answers_whoever_asks_next_and_counts_as_a_bet() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let (all, narrow) = (Arc::<Conjunction>::default(), between(100, 300));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let whole = SelectRequest { retain_predicate: Arc::clone(&all), ..request(&["a", "b"], &all) };
    let ahead = cache.scan_ahead(&whole, &pinned, fake.factory()).unwrap();
    assert!(cache.scan_ahead(&whole, &pinned, fake.factory()).is_none(), "it runs already");
    assert_eq!(pinned.earlier(None).lost_bets, 1);
    // Who comes while it runs takes part.
    let joined = cache.begin(&request(&["a"], &narrow), &pinned, true, fake.factory());
    assert!(matches!(&joined, Start::Scan(participant) if participant.predicate().is_all()));
    assert_eq!(answer(Start::Scan(ahead), 1).unwrap(), expected(RECORDS, &all));
    assert_eq!(answer(joined, 1).unwrap(), expected(RECORDS, &narrow));
    let open_count = fake.open_count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ask(&cache, &fake, &request(&["b"], &between(7, 8))), expected(RECORDS, &between(7, 8)));
    assert_eq!(fake.open_count.load(std::sync::atomic::Ordering::Relaxed), open_count, "the item answers");
    assert_eq!(pinned.earlier(None).lost_bets, 0);
    assert!(cache.scan_ahead(&whole, &pinned, fake.factory()).is_none(), "it is kept");
}

#[test]
fn a_scan_ahead_that_is_not_read_to_its_end_leaves_nothing() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let before_bytes = cache.reserved_bytes();
    let all: Arc<Conjunction> = Arc::default();
    let ahead = cache.scan_ahead(&request(&["a"], &all), &pinned, fake.factory()).unwrap();
    let mut rows = ahead.stream();
    assert!(futures::executor::block_on(futures::StreamExt::next(&mut rows)).is_some());
    drop((rows, ahead));
    assert_eq!((cache.items().len(), cache.reserved_bytes()), (0, before_bytes));
}

#[test]
fn whoever_keeps_all_rows_keeps_the_columns_that_were_asked_for_before_too() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let all: Arc<Conjunction> = Arc::default();
    for (names, range) in [(["a", "b", "s.z"], (100, 300)), (["a", "b", "w"], (900, 901))] {
        ask(&cache, &fake, &request(&names, &between(range.0, range.1)));
    }
    let wide = between(0, 800);
    let plain = request(&["a", "b", "s"], &wide);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let retain_columns = cache.columns_asked(&plain.source, &pinned, &plain.columns);
    let widened = SelectRequest { retain_predicate: all, retain_columns, ..plain };
    assert_eq!(ask(&cache, &fake, &widened), expected(RECORDS, &wide));
    let open_count = fake.specs.lock().len();
    let kept: Vec<String> = fake.specs.lock()[open_count - 1].columns.iter().map(|of| of.path.to_string()).collect();
    assert_eq!(kept, ["a", "b", "s", "w"], "s has s.z in it");
    assert_eq!(ask(&cache, &fake, &request(&["a", "b", "w"], &between(5, 700))), expected(RECORDS, &between(5, 700)));
    assert_eq!(fake.specs.lock().len(), open_count);
}
