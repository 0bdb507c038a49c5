//! Items in two layouts: that either gives what the file does, and that whoever needs the memory gets it.

use std::sync::Arc;

use thermocline_budget::{Budget, Purpose, ReclaimableCache};
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::elements::{answer, elements, expected_elements, nested};
use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;
const NAMES: [&str; 2] = ["a", "l.e"];

/// What a reader of the item would report whose cut is of elements.
fn hit(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, asked: &SelectRequest) -> (Arc<Item>, Cut) {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, view, .. } = cache.begin(asked, &pinned, true, fake.factory()) else {
        panic!("expected a hit");
    };
    let cut = item.cut(view, &residual, &NAMES.map(path)).unwrap();
    (item, cut)
}

/// A cache with one item, nested at first and flat now, and its mirror.
fn mirrored(limit_bytes: u64) -> (Arc<OperatorCache>, Budget, Arc<Fake>) {
    let (cache, budget) = timed_cache(limit_bytes);
    let fake = nested(16);
    let asked = elements(&NAMES, &Arc::new(Conjunction::all()));
    answer(&cache, &fake, &asked, &NAMES);
    convert(&cache, &fake, &asked, Layout::Flat);
    let items = cache.items();
    assert_eq!((items[0].layout, items[0].mirror_layout), (Layout::Flat, Some(Layout::Nested)));
    assert!(items[0].mirror_bytes > 0);
    (cache, budget, fake)
}

/// Converts the item as the rule would that keeps mirrors.
fn convert(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, asked: &SelectRequest, layout: Layout) {
    let (item, cut) = hit(cache, fake, asked);
    cache.set_layout_rule(LayoutRule::Fixed(layout));
    let conversion = cache.finish_reading(&item, item.layout(), &cut, &Reading::default()).unwrap();
    cache.set_layout_rule(LayoutRule::Measured);
    drop(item);
    cache.convert(conversion);
}

fn dropped_mirrors(cache: &OperatorCache) -> usize {
    cache.decisions().iter().filter(|decision| decision.kind == DecisionKind::DropMirror).count()
}

#[test]
fn both_forms_give_the_rows_of_the_file() {
    let mut read = [0_u32; 4];
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (cache, budget, fake) = mirrored(64 << 20);
        for _ in 0..30 {
            let low = random.below_u64(RECORDS) as i64;
            let predicate = between(low, low + random.below_u64(400) as i64);
            let asked = elements(&NAMES, &predicate);
            // Whatever the rule would choose: either form may be read at any time.
            let (item, cut) = hit(&cache, &fake, &asked);
            let form = cache.form_for(&item, &cut);
            read[form.layout().index()] += 1;
            drop((item, form));
            let (found, is_hit) = answer(&cache, &fake, &asked, &NAMES);
            assert!(is_hit);
            assert_eq!(found, expected_elements(&predicate, &NAMES), "seed {seed}");
            if random.one_in(10) {
                let present = cache.items()[0].layout;
                let others: Vec<Layout> = Layout::ALL.into_iter().filter(|layout| *layout != present).collect();
                convert(&cache, &fake, &asked, others[random.below_u64(3) as usize]);
            }
        }
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
    assert!(read.iter().filter(|count| **count > 0).count() > 1, "{read:?}");
}

#[test]
fn each_form_is_read_by_the_queries_it_was_made_for() {
    let (cache, _budget, fake) = mirrored(64 << 20);
    let asked = elements(&NAMES, &Arc::new(Conjunction::all()));
    let (item, cut) = hit(&cache, &fake, &asked);
    let form = cache.form_for(&item, &cut);
    assert_eq!(form.layout(), Layout::Flat, "all elements are lent as they lie");
    let records = request(&["a"], &between(0, 500));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, view, .. } = cache.begin(&records, &pinned, true, fake.factory()) else {
        panic!("an item of elements answers queries on records");
    };
    let cut = item.cut(view, &residual, &[path("a")]).unwrap();
    assert_eq!(cache.form_for(&item, &cut).layout(), Layout::Nested, "a record's values are there once");
    cache.set_layout_rule(LayoutRule::Fixed(Layout::Flat));
    assert_eq!(cache.form_for(&item, &cut).layout(), Layout::Flat, "as the user wants it");
}

#[test]
fn a_rule_of_one_layout_keeps_no_mirror() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = nested(16);
    let asked = elements(&NAMES, &Arc::new(Conjunction::all()));
    answer(&cache, &fake, &asked, &NAMES);
    let (item, cut) = hit(&cache, &fake, &asked);
    cache.set_layout_rule(LayoutRule::Fixed(Layout::Flat));
    let conversion = cache.finish_reading(&item, item.layout(), &cut, &Reading::default()).unwrap();
    cache.set_layout_rule(LayoutRule::Single);
    drop(item);
    let before_bytes = cache.reserved_bytes();
    cache.convert(conversion);
    let items = cache.items();
    assert_eq!((items[0].layout, items[0].mirror_layout, items[0].mirror_bytes), (Layout::Flat, None, 0));
    assert!(cache.reserved_bytes() < before_bytes + items[0].size_bytes, "the nested form has gone");
}

#[test]
fn what_a_query_needs_is_taken_from_a_mirror_before_any_item() {
    let (cache, budget, fake) = mirrored(1 << 20);
    let (free_bytes, mirror_bytes) = (budget.cache_room_bytes(), cache.items()[0].mirror_bytes);
    let all = elements(&NAMES, &Arc::new(Conjunction::all()));
    assert_eq!(cache.marginal_benefit(mirror_bytes), 0.0, "nobody misses it");
    assert!(cache.marginal_benefit(mirror_bytes + 1) > 0.0);
    let queries = budget.account("query", Purpose::Query);
    let held = queries.try_reserve(free_bytes + 100).unwrap();
    let items = cache.items();
    assert_eq!((items.len(), items[0].mirror_layout, dropped_mirrors(&cache)), (1, None, 1));
    assert_eq!(budget.cache_room_bytes(), mirror_bytes - 100);
    drop(held);
    let (found, is_hit) = answer(&cache, &fake, &all, &NAMES);
    assert!(is_hit);
    assert_eq!(found, expected_elements(&all.predicate, &NAMES));
}

#[test]
fn a_mirror_that_is_read_stays_until_it_was() {
    let (cache, budget, fake) = mirrored(1 << 20);
    let records = request(&["a"], &between(0, 500));
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let Start::Hit { item, residual, view, .. } = cache.begin(&records, &pinned, true, fake.factory()) else {
        panic!("an item of elements answers queries on records");
    };
    let cut = item.cut(view, &residual, &[path("a")]).unwrap();
    let form = cache.form_for(&item, &cut);
    assert_eq!(form.layout(), Layout::Nested);
    let queries = budget.account("query", Purpose::Query);
    let needed_bytes = budget.cache_room_bytes() + 100;
    assert!(queries.try_reserve(needed_bytes).is_err(), "both forms are in use");
    assert_eq!(cache.items()[0].mirror_layout, Some(Layout::Nested));
    drop((item, form));
    assert!(queries.try_reserve(needed_bytes).is_ok());
    assert_eq!(cache.items()[0].mirror_layout, None);
}

#[test]
fn a_new_item_takes_the_place_of_a_mirror_and_of_no_item() {
    let (cache, budget, fake) = mirrored(64 << 20);
    let mirror_bytes = cache.items()[0].mirror_bytes;
    // Room for another item of some columns if the mirror goes, and not without.
    budget.set_limit(budget.reserved_bytes() + 6000);
    assert_eq!(cache.room_bytes(), mirror_bytes + 6000);
    let other = SelectRequest { source: source("g"), ..request(&["a"], &Arc::new(Conjunction::all())) };
    let plain = fake_records();
    let pinned = pin(&cache, &object("g", "1", RECORDS));
    let Start::Scan(participant) = cache.begin(&other, &pinned, true, plain.factory()) else { panic!("no scan") };
    for rows in futures::executor::block_on_stream(participant.stream()) {
        rows.unwrap();
    }
    let items = cache.items();
    assert_eq!(items.len(), 2, "{items:?}");
    assert_eq!((items[0].mirror_layout, dropped_mirrors(&cache)), (None, 1));
    assert!(budget.reserved_bytes() <= budget.limit_bytes());
    let all = elements(&NAMES, &Arc::new(Conjunction::all()));
    assert!(answer(&cache, &fake, &all, &NAMES).1);
}

fn fake_records() -> Arc<Fake> {
    Arc::new(Fake { morsel_records: 16, ..Fake::default() })
}
