//! Items in two layouts: that either gives what the file does, and that whoever needs the memory gets it.

use std::sync::Arc;

use thermocline_budget::{Budget, Purpose};
use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::elements::{Table, answer, elements, expected_elements, nested, push};
use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;
const NAMES: [&str; 2] = ["a", "l.e"];

/// The item that answers a request for elements, and what is cut out of it.
fn hit(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, asked: &SelectRequest) -> (Arc<Item>, Cut) {
    let pinned = pin(cache, &object(&asked.source.path, "1", RECORDS));
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
    // Without dropping the mirrors that there are, as whoever sets the rule does.
    *cache.layout_rule.lock() = LayoutRule::Fixed(layout);
    let conversion = cache.finish_reading(&item, item.layout(), &cut, &Reading::default()).unwrap();
    *cache.layout_rule.lock() = LayoutRule::Measured;
    drop(item);
    cache.convert(conversion);
}

fn dropped_mirrors(cache: &OperatorCache) -> usize {
    cache.decisions().iter().filter(|decision| decision.kind == DecisionKind::DropMirror).count()
}

#[test]
fn both_forms_give_the_rows_of_the_file() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (cache, budget, fake) = mirrored(64 << 20);
        for _ in 0..30 {
            let low = random.below_u64(RECORDS) as i64;
            let predicate = between(low, low + random.below_u64(400) as i64);
            let asked = elements(&NAMES, &predicate);
            let (item, cut) = hit(&cache, &fake, &asked);
            let mirror = item.mirror.read(0).unwrap();
            assert_ne!(item.layout(), mirror.layout());
            let expected = expected_elements(&predicate, &NAMES);
            for form in [&item, &mirror] {
                assert_eq!(rows_of(&cache, form, &cut), expected, "seed {seed}, {}", form.layout());
            }
            drop((item, mirror));
            // And whichever the rule chooses.
            let (found, is_hit) = answer(&cache, &fake, &asked, &NAMES);
            assert!(is_hit);
            assert_eq!(found, expected, "seed {seed}");
            if random.one_in(10) {
                let present = cache.items()[0].layout;
                let others: Vec<Layout> = Layout::ALL.into_iter().filter(|layout| *layout != present).collect();
                convert(&cache, &fake, &asked, others[random.below_u64(3) as usize]);
            }
        }
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
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
fn mirrors_go_with_the_rule_that_keeps_them() {
    for rule in [LayoutRule::Single, LayoutRule::AsPrinted, LayoutRule::Fixed(Layout::Flat)] {
        let (cache, budget, _fake) = mirrored(64 << 20);
        let (before_bytes, mirror_bytes) = (budget.reserved_bytes(), cache.items()[0].mirror_bytes);
        cache.set_layout_rule(rule);
        let items = cache.items();
        assert_eq!((items[0].layout, items[0].mirror_layout), (Layout::Flat, None));
        assert!(budget.reserved_bytes() <= before_bytes - mirror_bytes, "{rule}");
        cache.set_layout_rule(LayoutRule::Measured);
        assert_eq!(cache.items()[0].mirror_layout, None);
    }
}

#[test]
fn a_file_that_is_another_takes_the_mirror_with_the_item() {
    let (cache, budget, fake) = mirrored(64 << 20);
    let asked = elements(&NAMES, &Arc::new(Conjunction::all()));
    let (reader, _) = hit(&cache, &fake, &asked);
    let before_bytes = budget.reserved_bytes();
    pin(&cache, &object("f", "2", RECORDS));
    assert!(cache.items().is_empty());
    assert!(budget.reserved_bytes() < before_bytes, "somebody reads the item, and nobody its mirror");
    drop(reader);
    assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
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
    let (room_bytes, mirror_bytes) = (budget.cache_room_bytes(), cache.items()[0].mirror_bytes);
    let all = elements(&NAMES, &Arc::new(Conjunction::all()));
    let queries = budget.account("query", Purpose::Query);
    let held = queries.try_reserve(room_bytes - mirror_bytes + 100).unwrap();
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
    let needed_bytes = budget.cache_room_bytes() - cache.items()[0].mirror_bytes + 100;
    assert!(queries.try_reserve(needed_bytes).is_err(), "both forms are in use");
    assert_eq!(cache.items()[0].mirror_layout, Some(Layout::Nested));
    drop((item, form));
    assert!(queries.try_reserve(needed_bytes).is_ok());
    assert_eq!(cache.items()[0].mirror_layout, None);
}

#[test]
fn the_mirror_that_was_read_longest_ago_goes_first() {
    for read in ["f", "g"] {
        let (cache, budget, fake) = mirrored(2 << 20);
        let all = |name: &str| {
            let asked = elements(&NAMES, &Arc::new(Conjunction::all()));
            SelectRequest { source: SourceKey { path: name.into(), ..asked.source.clone() }, ..asked }
        };
        let pinned = pin(&cache, &object("g", "1", RECORDS));
        let Start::Scan(participant) = cache.begin(&all("g"), &pinned, true, fake.factory()) else { panic!("no scan") };
        for rows in futures::executor::block_on_stream(participant.stream()) {
            rows.unwrap();
        }
        drop(participant);
        convert(&cache, &fake, &all("g"), Layout::Flat);
        let mirrors_bytes: u64 = cache.items().iter().map(|item| item.mirror_bytes).sum();
        let (item, _) = hit(&cache, &fake, &all(read));
        drop(item.mirror.read(cache.tick() + 1).unwrap());
        drop(item);
        let queries = budget.account("query", Purpose::Query);
        drop(queries.try_reserve(budget.cache_room_bytes() - mirrors_bytes + 100).unwrap());
        let items = cache.items();
        let left = items.iter().filter(|item| item.mirror_layout.is_some()).map(|item| &*item.source.path);
        assert_eq!((items.len(), left.collect::<Vec<_>>()), (2, vec![read]));
    }
}

#[test]
fn a_new_item_takes_the_place_of_a_mirror_and_of_no_item() {
    let (cache, budget, fake) = mirrored(64 << 20);
    let mirror_bytes = cache.items()[0].mirror_bytes;
    // Room for another item of some columns if the mirror goes, and not without.
    budget.set_limit(budget.reserved_bytes() + 6000);
    assert_eq!(budget.cache_room_bytes(), mirror_bytes + 6000);
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

/// What the cut gives of an item, sorted.
fn rows_of(cache: &OperatorCache, item: &Item, cut: &Cut) -> Table {
    let mut table = Table::new();
    for piece in item.pieces() {
        push(&mut table, item.read(&piece, cut, &**cache.clock(), &mut Reading::default()).unwrap());
    }
    table.sort_unstable();
    table
}

fn fake_records() -> Arc<Fake> {
    Arc::new(Fake { morsel_records: 16, ..Fake::default() })
}
