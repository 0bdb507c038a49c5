//! Items that lack columns are completed by scanning only these.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Vec<i64> {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    answer(cache.begin(request, &pinned, true, fake.factory()), 3).unwrap()
}

fn kinds(cache: &OperatorCache) -> Vec<DecisionKind> {
    cache.decisions().iter().map(|decision| decision.kind).collect()
}

/// The columns that the `index`th scan was asked for.
fn scanned(fake: &Fake, index: usize) -> Vec<String> {
    fake.specs.lock()[index].columns.iter().map(|column| column.path.to_string()).collect()
}

fn widened(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    SelectRequest { retain_predicate: Arc::default(), ..request(names, predicate) }
}

#[test]
fn only_the_missing_columns_are_scanned_and_the_completed_item_takes_the_place_of_the_old_one() {
    for morsel_records in [1, 7, 16, 5000] {
        let (cache, budget) = cache(64 << 20);
        let fake = Arc::new(Fake { morsel_records, ..Fake::default() });
        let (first, second) = (between(100, 300), between(250, 700));
        ask(&cache, &fake, &widened(&["a", "b"], &first));
        assert_eq!(ask(&cache, &fake, &widened(&["a", "b", "s.z"], &second)), expected(RECORDS, &second));
        assert_eq!(scanned(&fake, 1), ["s.z"]);
        let expected_kinds = [DecisionKind::Miss, DecisionKind::Admit, DecisionKind::TopUp, DecisionKind::Admit];
        assert_eq!(kinds(&cache)[..4], expected_kinds);
        let items = cache.items();
        assert_eq!(items.len(), 1);
        assert_eq!((items[0].columns.len(), items[0].row_count, items[0].use_count), (3, RECORDS, 3));
        // What the completed item holds is what a scan of all columns gives.
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let narrow = between(260, 270);
        let Start::Hit { item, residual, .. } =
            cache.begin(&request(&["a", "b", "s.z"], &narrow), &pinned, true, fake.factory())
        else {
            panic!("expected a hit");
        };
        assert_eq!(read(&item, &residual), expected(RECORDS, &narrow));
        let route = ColumnRoute::find(item.columns(), &path("s.z")).unwrap();
        for chunk in &item.chunks {
            let z = route.extract(chunk.scanned()).unwrap();
            let a = ColumnRoute::find(item.columns(), &path("a")).unwrap().extract(chunk.scanned()).unwrap();
            for row in 0..chunk.scanned().row_count {
                let a = longs(&a).value(row);
                assert_eq!(arrow::array::Array::is_null(&z, row), a % 7 == 0 || a % 11 == 0);
            }
        }
        drop(item);
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn an_item_of_the_same_range_is_completed_within_it() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 300);
    ask(&cache, &fake, &request(&["a", "b"], &range));
    assert_eq!(ask(&cache, &fake, &request(&["a", "b", "s"], &range)), expected(RECORDS, &range));
    assert_eq!(scanned(&fake, 1), ["s"]);
    assert_eq!(fake.specs.lock()[1].predicate, range);
    let Explanation::TopUp { item, missing, .. } =
        cache.explain(&request(&["b", "w"], &range), &pin(&cache, &object("f", "1", RECORDS)))
    else {
        panic!("expected a top-up");
    };
    assert_eq!((item.columns.len(), missing.len(), missing[0].path.to_string()), (3, 1, "w".to_owned()));
}

#[test]
fn nothing_is_completed_that_cannot_be_aligned_or_would_keep_more_than_is_wanted() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &widened(&["a", "b"], &between(100, 300)));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let is_miss = |request: &SelectRequest| matches!(cache.explain(request, &pinned), Explanation::Miss { .. });
    let wanted = widened(&["a", "b", "s"], &between(1, 5));
    assert!(matches!(cache.explain(&wanted, &pinned), Explanation::TopUp { .. }));
    assert!(is_miss(&SelectRequest { may_skip: true, ..wanted.clone() }), "records may be bad for one column only");
    assert!(!is_miss(&request(&["a", "b", "s"], &between(1, 5))), "one of three is missing");
    assert!(is_miss(&request(&["a", "s", "w"], &between(1, 5))), "two of three are missing for a narrow range");
    assert!(!is_miss(&widened(&["a", "s", "w"], &between(1, 5))));
    assert!(is_miss(&request(&["s"], &between(1, 5))), "nothing that is kept is wanted");
    let other_type = ColumnSpec { path: path("b"), data_type: arrow::datatypes::DataType::Utf8 };
    let columns: Vec<ColumnSpec> = columns(&["a"]).iter().cloned().chain([other_type]).collect();
    assert!(is_miss(&SelectRequest { columns: columns.into(), ..wanted.clone() }), "two types of one path");
    let grown = pin(&cache, &object("f", "1", RECORDS + 100));
    assert!(matches!(cache.explain(&wanted, &grown), Explanation::Miss { .. }), "of another version");
}

#[test]
fn all_rows_of_other_columns_are_laid_beside_those_that_are_there() {
    let (cache, budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &widened(&["a", "b"], &between(100, 300)));
    let other = SelectRequest { columns: columns(&["s", "w"]), ..widened(&["a", "s", "w"], &Arc::default()) };
    assert_eq!(ask(&cache, &fake, &other).len(), RECORDS as usize);
    assert_eq!(scanned(&fake, 1), ["s", "w"]);
    let items = cache.items();
    assert_eq!((items.len(), items[0].columns.len()), (1, 4));
    // What asks for some of both is answered without a scan.
    let range = between(250, 700);
    assert_eq!(ask(&cache, &fake, &request(&["a", "w"], &range)), expected(RECORDS, &range));
    assert_eq!(fake.specs.lock().len(), 2);
    cache.clear();
    assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
}

#[test]
fn a_scan_that_finds_other_rows_fails_and_what_was_kept_is_dropped() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 300);
    // The same version, but records are cut into morsels in another way, or one is gone: as if the content had moved.
    let moved = Fake { morsel_records: 24, ..Fake::default() };
    let lacking = Fake { lacks_record: Some(expected(RECORDS, &range)[5] as u64), ..Fake::default() };
    for (is_whole, other) in [(true, moved), (false, lacking)] {
        let wanted = |names: &[&str]| if is_whole { widened(names, &range) } else { request(names, &range) };
        ask(&cache, &fake, &wanted(&["a", "b"]));
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let start = cache.begin(&wanted(&["a", "b", "s"]), &pinned, true, Arc::new(other).factory());
        let error = answer(start, 2).unwrap_err().to_string();
        assert!(error.contains("is not what was read before"), "{error}");
        assert!(cache.items().is_empty());
        assert_eq!(ask(&cache, &fake, &wanted(&["a", "b", "s"])), expected(RECORDS, &range));
        cache.clear();
    }
}

#[test]
fn of_an_item_of_some_records_these_alone_are_read_again_as_often_as_columns_are_missing() {
    let (cache, budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let range = between(100, 300);
    let record_count = expected(RECORDS, &range).len();
    let mut names = vec!["a", "b"];
    ask(&cache, &fake, &request(&names, &range));
    for name in ["s", "w"] {
        names.push(name);
        assert_eq!(ask(&cache, &fake, &request(&names, &range)), expected(RECORDS, &range));
        let spec = fake.specs.lock().last().unwrap().clone();
        assert_eq!((spec.columns.len(), spec.positions.unwrap().len()), (1, record_count));
        assert_eq!(cache.items()[0].row_count, record_count as u64);
    }
    // What was laid beside the kept columns belongs to their rows.
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, .. } = cache.begin(&request(&["b", "w"], &range), &pinned, true, fake.factory()) else {
        panic!("expected a hit");
    };
    let column =
        |rows: &Rows, name: &str| ColumnRoute::find(item.columns(), &path(name)).unwrap().extract(rows).unwrap();
    for chunk in &item.chunks {
        let (b, w) = (column(chunk.scanned(), "b"), column(chunk.scanned(), "w"));
        let b = longs(&b);
        let w: &arrow::array::StringArray = w.as_any().downcast_ref().unwrap();
        assert!(b.values().iter().zip(w).all(|(b, w)| w == Some(&format!("{b:0>1000}"))));
    }
    drop(item);
    cache.clear();
    assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
}

#[test]
fn a_top_up_that_finds_no_room_answers_and_leaves_the_item_as_it_was() {
    let (cache, budget) = cache(60_000);
    let fake = Arc::new(Fake::default());
    let range = between(0, 999);
    ask(&cache, &fake, &request(&["a", "b"], &range));
    assert_eq!(cache.items().len(), 1, "{:?}", kinds(&cache));
    // The texts of 1,000 bytes each fit nowhere.
    assert_eq!(ask(&cache, &fake, &request(&["a", "b", "w"], &range)), expected(RECORDS, &range));
    assert_eq!(cache.items()[0].columns.len(), 2);
    assert!(budget.reserved_bytes() <= 60_000);
    assert_eq!(fake.open_count.load(Ordering::Relaxed), 2);
}

#[test]
fn where_an_item_and_the_completed_one_have_no_room_together_all_columns_are_read_anew_in_its_place() {
    let (cache, budget) = cache(11_500);
    // One morsel, so that nothing is laid together at the end.
    let fake = Arc::new(Fake { morsel_records: 5000, ..Fake::default() });
    let range = between(100, 300);
    for _ in 0..3 {
        ask(&cache, &fake, &widened(&["a", "b"], &range));
    }
    let wanted = widened(&["a", "b", "s.z"], &range);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let explained = cache.explain(&wanted, &pinned);
    let is_rebuilt = matches!(explained, Explanation::Miss { reason, .. } if reason.contains("no room"));
    assert!(is_rebuilt, "{explained:?} beside {} bytes", budget.reserved_bytes());
    assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range));
    assert_eq!(scanned(&fake, 1), ["a", "b", "s.z"]);
    let items = cache.items();
    assert_eq!((items.len(), items[0].columns.len(), items[0].row_count), (1, 3, RECORDS), "{:?}", kinds(&cache));
    assert!(items[0].use_count >= 4, "{} uses", items[0].use_count);
    assert_eq!(ask(&cache, &fake, &wanted), expected(RECORDS, &range));
    assert_eq!(fake.open_count.load(Ordering::Relaxed), 2);
    assert!(budget.reserved_bytes() <= 11_500);
}

#[test]
fn random_requests_with_top_ups_are_answered_like_scans() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let limit_bytes = [8_000, 40_000, 200_000, 64 << 20][seed as usize % 4];
        let (cache, budget) = cache(limit_bytes);
        let fake = Arc::new(Fake { morsel_records: 1 + random.below_u64(90), ..Fake::default() });
        for _ in 0..30 {
            let mut names = vec!["a", "b"];
            for name in ["s", "s.z", "w"] {
                if random.one_in(3) {
                    names.push(name);
                }
            }
            let low = random.below_u64(900) as i64;
            let range = between(low, low + random.below_u64(200) as i64);
            let request = if random.one_in(2) { widened(&names, &range) } else { request(&names, &range) };
            assert_eq!(ask(&cache, &fake, &request), expected(RECORDS, &range), "seed {seed}");
            assert!(budget.reserved_bytes() <= limit_bytes);
        }
    }
}

#[test]
fn columns_that_others_may_ask_for_come_along_with_those_that_an_item_of_all_records_lacks() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let further = |names: &[&str], predicate: &Arc<Conjunction>| SelectRequest {
        further_columns: columns(&["a", "s.z", "w"]),
        ..widened(names, predicate)
    };
    let (first, second) = (between(100, 300), between(250, 700));
    ask(&cache, &fake, &further(&["a", "b"], &first));
    assert_eq!(scanned(&fake, 0), ["a", "b"], "nothing says yet that there will be others");
    assert_eq!(ask(&cache, &fake, &further(&["a", "b", "s.z"], &second)), expected(RECORDS, &second));
    assert_eq!(scanned(&fake, 1), ["s.z", "w"]);
    assert_eq!(ask(&cache, &fake, &further(&["b", "a", "w"], &first)), expected(RECORDS, &first));
    assert_eq!(fake.specs.lock().len(), 2, "the item answers");
    assert_eq!(cache.items().len(), 1);
}

#[test]
fn few_records_get_the_columns_that_are_asked_for_alone() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let few = between(100, 110);
    ask(&cache, &fake, &request(&["a", "b"], &few));
    let more = SelectRequest { further_columns: columns(&["w"]), ..request(&["a", "b", "s.z"], &few) };
    assert_eq!(ask(&cache, &fake, &more), expected(RECORDS, &few));
    assert_eq!(scanned(&fake, 1), ["s.z"]);
}

#[test]
fn columns_that_are_there_are_held_once_while_others_are_laid_beside_them_and_afterwards() {
    const MANY: u64 = 20_000;
    let version = object("f", "1", MANY);
    let range = between(100, 300);
    let complete = |cache: &Arc<OperatorCache>, fake: &Arc<Fake>| {
        let ask = |names: &[&str]| {
            answer(cache.begin(&widened(names, &range), &pin(cache, &version), true, fake.factory()), 3).unwrap()
        };
        ask(&["a", "b"]);
        assert_eq!(cache.items().len(), 1, "{:?}", cache.decisions());
        let base = cache.items()[0].size_bytes;
        assert_eq!(ask(&["a", "b", "s.z"]), expected(MANY, &range));
        assert_eq!(scanned(fake, 1), ["s.z"]);
        (base, cache.items()[0].clone())
    };
    // Small morsels are merged into chunks of thousands of rows; large ones stay.
    for morsel_records in [100, 5000] {
        let fake = || Arc::new(Fake { morsel_records, ..Fake::default() });
        let (cache, budget) = cache(64 << 20);
        let (base_bytes, completed) = complete(&cache, &fake());
        let added_bytes = completed.size_bytes - base_bytes;
        assert!(added_bytes < base_bytes, "{added_bytes} beside {base_bytes}");
        assert!(budget.reserved_bytes() < completed.size_bytes + 4096, "{} in all", budget.reserved_bytes());
        let pinned = pin(&cache, &version);
        let wanted = request(&["a", "b", "s.z"], &range);
        let Start::Hit { item, residual, .. } = cache.begin(&wanted, &pinned, true, fake().factory()) else {
            panic!("expected a hit");
        };
        assert_eq!(read(&item, &residual), expected(MANY, &range));
        let buffer_bytes: u64 = item.chunks.iter().map(|chunk| chunk.scanned().size_bytes()).sum();
        assert!(
            (buffer_bytes..buffer_bytes + 8192).contains(&item.size_bytes()),
            "{} of {buffer_bytes}",
            item.size_bytes()
        );
        assert!(cache.reserved_bytes() >= buffer_bytes, "what is lent stays reserved");
        assert!(item.chunks.iter().rev().skip(1).all(|chunk| chunk.scanned().row_count >= 4096));
        drop(item);
        cache.clear();
        assert!(budget.reserved_bytes() < 4096, "{} bytes left", budget.reserved_bytes());

        // Where it would not all fit twice. (Of small morsels more is expected than comes when they are merged.)
        if morsel_records < 5000 {
            continue;
        }
        let limit_bytes = completed.size_bytes + added_bytes / 2 + 4096;
        assert!(limit_bytes < completed.size_bytes + base_bytes);
        let (cache, budget) = super::fake::cache(limit_bytes);
        assert_eq!(complete(&cache, &fake()).1.columns.len(), 3, "{:?}", cache.decisions());
        assert!(budget.reserved_bytes() <= limit_bytes);
    }
}

#[test]
fn columns_are_laid_beside_lent_ones_as_often_as_some_are_missing() {
    for morsel_records in [40, 300, 5000] {
        let (cache, budget) = cache(64 << 20);
        let fake = Arc::new(Fake { morsel_records, ..Fake::default() });
        let range = between(100, 300);
        let mut names = vec!["a", "b"];
        ask(&cache, &fake, &widened(&names, &range));
        for name in ["s.z", "s", "w"] {
            names.push(name);
            assert_eq!(ask(&cache, &fake, &widened(&names, &range)), expected(RECORDS, &range), "{names:?}");
        }
        let summed: u64 = cache.items().iter().map(|item| item.size_bytes).sum();
        assert_eq!(cache.items().len(), 1);
        let (least, most) = (summed, summed + 4096);
        assert!((least..most).contains(&budget.reserved_bytes()), "{} of {least}", budget.reserved_bytes());
        let pinned = pin(&cache, &object("f", "1", RECORDS));
        let wanted = request(&["b", "w"], &Arc::default());
        let Start::Hit { item, .. } = cache.begin(&wanted, &pinned, true, fake.factory()) else {
            panic!("expected a hit");
        };
        let column =
            |rows: &Rows, name: &str| ColumnRoute::find(item.columns(), &path(name)).unwrap().extract(rows).unwrap();
        for chunk in &item.chunks {
            let (b, w) = (longs(&column(chunk.scanned(), "b")), column(chunk.scanned(), "w"));
            let w: &arrow::array::StringArray = w.as_any().downcast_ref().unwrap();
            assert!(b.values().iter().zip(w).all(|(b, w)| w == Some(&format!("{b:0>1000}"))));
        }
    }
}
