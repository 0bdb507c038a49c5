#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::ops::Bound;

use arrow::datatypes::{DataType, Field, Fields};
use thermocline_budget::{Account, Budget, Purpose};
use thermocline_placement::operator_cache::SourceKind;
use thermocline_placement::operator_cache::layout::{ItemShape, Layout};
use thermocline_predicate::Scalar;
use thermocline_seeded::Random;

use super::bounds::Digest;
use super::interval_tree::IntervalTree;
use super::*;
use crate::item::Meters;
use crate::source::SourceKey;

fn random_bound(random: &mut Random, value: Scalar) -> Bound<Scalar> {
    match random.below_u64(5) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(value),
        _ => Bound::Included(value),
    }
}

fn random_interval(random: &mut Random, value: impl Fn(u64) -> Scalar) -> Domain {
    let (one, other) = (random.below_u64(12), random.below_u64(12));
    let (low, high) = (random_bound(random, value(one.min(other))), random_bound(random, value(one.max(other))));
    Domain::interval(low, high)
}

fn random_domain(random: &mut Random, value: impl Fn(u64) -> Scalar) -> Domain {
    let domain = match random.below_u64(8) {
        0 => Domain::points((0..1 + random.below_u64(3)).map(|_| value(random.below_u64(12)))),
        1 => random_interval(random, &value).complement(),
        2 => Domain::not_null(),
        3 => Domain::null(),
        _ => random_interval(random, &value),
    };
    if random.below_u64(6) == 0 { domain.union(&Domain::null()) } else { domain }
}

fn random_predicate(random: &mut Random) -> Conjunction {
    let mut predicate = Conjunction::all();
    for field in ["i", "f", "t", "s.z"] {
        if random.below_u64(3) > 0 {
            continue;
        }
        let domain = match field {
            "f" => random_domain(random, |step| Scalar::Float(step as f64 / 4.0 - 1.0)),
            // Longer than the prefix that is a key, and equal in it.
            "t" => random_domain(random, |step| Scalar::Utf8(format!("a common beginning {step}").into())),
            _ => random_domain(random, |step| Scalar::Int(i128::from(step) * (1 << 70) - (1 << 72))),
        };
        predicate = predicate.and(path(field), domain);
    }
    predicate
}

fn random_columns(random: &mut Random) -> Vec<ColumnSpec> {
    ["i", "f", "t", "s", "s.z"].into_iter().filter(|_| random.below_u64(4) > 0).map(column).collect()
}

fn path(text: &str) -> FieldPath {
    FieldPath::new(text.split('.'))
}

fn column(name: &str) -> ColumnSpec {
    let data_type = match name {
        "f" => DataType::Float64,
        "t" => DataType::Utf8,
        "s" => DataType::Struct(Fields::from(vec![Field::new("z", DataType::Int64, true)])),
        _ => DataType::Int64,
    };
    ColumnSpec { path: path(name), data_type }
}

fn item(account: &Account, id: u64, predicate: Conjunction, columns: Vec<ColumnSpec>) -> Arc<Item> {
    Arc::new(Item {
        id: ItemId(id),
        source: SourceKey { path: "f".into(), kind: SourceKind::Json, options: "".into(), unnest: None },
        generation: id,
        end_bytes: 1,
        growable: true,
        keeps_empty: false,
        predicate: Arc::new(predicate),
        columns: columns.into(),
        chunks: Vec::new(),
        is_lazy: false,
        positions: None,
        map: None,
        row_count: id,
        record_count: 0,
        skipped_count: 0,
        size_bytes: 1,
        meters: Meters::default(),
        head: None,
        borders: Arc::default(),
        morsel_ends: None,
        layout: Layout::Flat,
        shape: ItemShape {
            record_count: 0,
            flat_row_count: 0,
            record_columns: 0,
            element_columns: 0,
            size_bytes: [0; 4],
        },
        widths_bytes: Arc::from([]),
        layouts: Default::default(),
        is_converting: Default::default(),
        mirror: Default::default(),
        may_share: false.into(),
        structure: Arc::new(account.try_reserve(1).unwrap()),
    })
}

#[test]
fn the_index_finds_what_comparing_with_every_item_finds() {
    let account = Budget::new(1 << 20, None).account("items", Purpose::Cache);
    let mut subsumed_count = 0;
    for seed in 1..1500 {
        let mut random = Random::new(seed);
        let mut index = ItemIndex::default();
        let mut items = Vec::new();
        // Few enough that no bound is reached.
        for id in 0..12 {
            let item = item(&account, id, random_predicate(&mut random), random_columns(&mut random));
            index.insert(Arc::clone(&item));
            items.push(item);
        }
        for _ in 0..random.below_u64(4) {
            let removed = items.swap_remove(random.below_u64(items.len() as u64) as usize);
            assert_eq!(index.remove(removed.id).unwrap().id, removed.id);
        }
        for _ in 0..20 {
            let predicate = random_predicate(&mut random);
            let columns = random_columns(&mut random);
            let wanted = Wanted { columns: &columns, predicate: &predicate };
            let admissible = |generation: u64| !generation.is_multiple_of(5);
            let (found, exact) = index.find_all(wanted, |facts| admissible(facts.generation));
            let found: Vec<ItemId> = found.into_iter().map(|place| index.at(place).unwrap().item.id).collect();
            let mut expected: BTreeSet<ItemId> = items
                .iter()
                .filter(|item| admissible(item.generation) && answers(&item.columns, &item.predicate, wanted))
                .map(|item| item.id)
                .collect();
            let of_predicate = |id: &ItemId| *items.iter().find(|item| item.id == *id).unwrap().predicate == predicate;
            if expected.iter().any(of_predicate) {
                expected.retain(of_predicate);
            } else if predicate.is_unsatisfiable() {
                // Every item answers what nothing satisfies; the index does not look for that.
                continue;
            }
            subsumed_count += expected.len();
            assert!(found.iter().all(|found| exact == of_predicate(found)));
            let found: BTreeSet<ItemId> = found.into_iter().collect();
            let chosen = index.find(wanted, |facts| admissible(facts.generation)).map(|found| found.item.id);
            // In this test an item has as many rows as its number says.
            assert_eq!(chosen, found.first().copied(), "seed {seed}");
            assert_eq!(found, expected, "seed {seed}: {predicate}");
        }
    }
    assert!(subsumed_count > 1000, "{subsumed_count}");
}

#[test]
fn the_tree_gives_covering_intervals_tightest_first_and_all_while_they_are_few() {
    // What every interval of numbers has: then the keys alone decide.
    let digest = Digest::of(&Domain::not_null());
    for seed in 1..60 {
        let mut random = Random::new(seed);
        let key = |random: &mut Random| match random.below_u64(20) {
            0 => i128::MIN,
            1 => i128::MAX,
            _ => i128::from(random.below_u64(1 << 40)) * i128::from(1 + random.below_u64(1 << 48)),
        };
        let is_few = seed % 3 != 0;
        let mut tree = IntervalTree::default();
        let mut entries = Vec::new();
        for place in 0..if is_few { 140 } else { 4000 } {
            let (one, other) = (key(&mut random), key(&mut random));
            let keys = (one.min(other), one.max(other));
            tree.insert(keys, digest, place);
            entries.push((keys, place));
        }
        for _ in 0..100 {
            let (keys, place) = entries.swap_remove(random.below_u64(entries.len() as u64) as usize);
            assert!(tree.remove(keys, digest, place), "seed {seed}");
            assert!(!tree.remove(keys, digest, place));
        }
        for _ in 0..50 {
            let (one, other) = (key(&mut random), key(&mut random));
            let (low, high) = (one.min(other), one.max(other));
            let slack = |(of_low, of_high): (i128, i128)| low.abs_diff(of_low).saturating_add(of_high.abs_diff(high));
            let found: Vec<Place> = tree.covering((low, high), digest).collect();
            let slacks: Vec<u128> =
                found.iter().map(|place| slack(entries.iter().find(|entry| entry.1 == *place).unwrap().0)).collect();
            let distinct: BTreeSet<Place> = found.iter().copied().collect();
            assert_eq!(distinct.len(), found.len(), "seed {seed}");
            let covering = entries.iter().filter(|((of_low, of_high), _)| *of_low <= low && *of_high >= high);
            let expected: BTreeSet<Place> = covering.map(|entry| entry.1).collect();
            if is_few {
                assert!(slacks.is_sorted(), "seed {seed}");
                assert_eq!(distinct, expected, "seed {seed}");
            } else {
                assert!(distinct.is_subset(&expected), "seed {seed}");
                // Bounded work may miss some of a scattered few, not all of many.
                assert!(!distinct.is_empty() || expected.len() < ENOUGH, "none of {}, seed {seed}", expected.len());
            }
            let overlap = |(of_low, of_high): (i128, i128)| {
                (of_low.max(low) <= of_high.min(high)).then(|| of_high.min(high).abs_diff(of_low.max(low)))
            };
            let found: Vec<Place> = tree.overlapping((low, high)).collect();
            let overlaps: Vec<Option<u128>> =
                found.iter().map(|place| overlap(entries.iter().find(|entry| entry.1 == *place).unwrap().0)).collect();
            assert!(overlaps.iter().all(Option::is_some), "seed {seed}");
            assert!(overlaps.iter().rev().is_sorted(), "most of the overlap first, seed {seed}");
            let distinct: BTreeSet<Place> = found.iter().copied().collect();
            assert_eq!(distinct.len(), found.len(), "seed {seed}");
            let expected = entries.iter().filter(|(keys, _)| overlap(*keys).is_some()).count();
            assert!(if is_few { found.len() == expected } else { found.len() >= expected.min(ENOUGH) }, "seed {seed}");
        }
    }
}

#[test]
fn items_that_have_a_part_are_those_that_differ_in_one_field_and_overlap_in_it() {
    let account = Budget::new(1 << 20, None).account("items", Purpose::Cache);
    let (mut found_count, mut null_count) = (0, 0);
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut index = ItemIndex::default();
        let mut items = Vec::new();
        // So few that all of them are looked at.
        for id in 0..12 {
            let item = item(&account, id, random_predicate(&mut random), random_columns(&mut random));
            index.insert(Arc::clone(&item));
            items.push(item);
        }
        let (predicate, columns) = (random_predicate(&mut random), random_columns(&mut random));
        let wanted = Wanted { columns: &columns, predicate: &predicate };
        let mut found: Vec<(String, u64)> = index
            .partial(wanted, |facts| facts.generation % 3 > 0)
            .into_iter()
            .map(|partial| (partial.field.to_string(), partial.item.id.0))
            .collect();
        found.sort_unstable();
        let has_part = |item: &Arc<Item>| {
            let has = |wanted: &ColumnSpec| ColumnRoute::find_typed(&item.columns, wanted).is_some();
            let can_filter = |path: &FieldPath| ColumnRoute::find(&item.columns, path).is_some();
            if item.generation.is_multiple_of(3) || !columns.iter().all(has) || predicate.is_unsatisfiable() {
                return None;
            }
            let uncovered: Vec<&FieldPath> = predicate
                .fields()
                .filter(|(path, asked)| !item.predicate.domain(path).is_none_or(|known| known.covers(asked)))
                .map(|(path, _)| path)
                .collect();
            let [field] = uncovered.as_slice() else { return None };
            let (known, asked) = (item.predicate.domain(field)?, predicate.domain(field)?);
            let part = predicate.replace(field, known.intersect(asked));
            let is_used = !part.is_unsatisfiable() && item.predicate.covers(&part) && can_filter(field);
            let residual = predicate.fields().filter(|(path, asked)| item.predicate.domain(path) != Some(asked));
            (is_used && residual.into_iter().all(|(path, _)| can_filter(path))).then(|| (field.to_string(), item.id.0))
        };
        let mut expected: Vec<(String, u64)> = items.iter().filter_map(has_part).collect();
        expected.sort_unstable();
        // Hulls say nothing of NULL: items that share only that with the request may be passed over.
        let shares_null_alone = |(field, id): &(String, u64)| {
            let (path, item) = (path(field), &items[*id as usize]);
            let both = item.predicate.domain(&path).zip(predicate.domain(&path));
            both.is_some_and(|(known, asked)| known.intersect(asked).intervals().is_empty())
        };
        assert!(found.iter().all(|one| expected.contains(one)), "seed {seed}: {found:?}, not {expected:?}");
        for one in expected.iter().filter(|one| !found.contains(one)) {
            assert!(shares_null_alone(one), "seed {seed}: {one:?} was not found for {predicate}");
            null_count += 1;
        }
        found_count += found.len();
    }
    assert!(found_count > 200 && null_count < found_count / 10, "{found_count} found, {null_count} passed over");
}

#[test]
fn lists_too_long_to_be_compared_while_others_wait_are_passed_over_and_short_ones_are_found() {
    let account = Budget::new(1 << 20, None).account("items", Purpose::Cache);
    let list = |first: i128, count: i128| {
        let values = (0..count).map(|step| Scalar::Int(first + 2 * step));
        Conjunction::all().and(path("i"), Domain::points(values))
    };
    let mut index = ItemIndex::default();
    // The last and the shortest one overlaps the request least, so that it is looked at last.
    for (id, count) in [(0, 10_000), (1, 3000), (2, 3000), (3, 1000), (4, 10)] {
        index.insert(item(&account, id, list(0, count), vec![column("i")]));
    }
    let parts = |predicate: &Conjunction| {
        let columns = [column("i")];
        let found = index.partial(Wanted { columns: &columns, predicate }, |_| true).into_iter();
        let mut found: Vec<u64> = found.map(|partial| partial.item.id.0).collect();
        found.sort_unstable();
        let compared = found.iter().map(|&id| index.get(ItemId(id)).unwrap().predicate.interval_count());
        let compared_count: usize = compared.map(|known_count| known_count + predicate.interval_count()).sum();
        assert!(compared_count <= partial::COMPARED_INTERVALS, "{compared_count} intervals");
        found
    };
    let range = Domain::interval(Bound::Included(Scalar::Int(0)), Bound::Excluded(Scalar::Int(30_000)));
    let found = parts(&Conjunction::all().and(path("i"), range));
    assert!(found == [1, 3, 4] || found == [2, 3, 4], "{found:?}");
    assert_eq!(parts(&list(-20, 1100)), [3, 4], "a list is compared with short ones alone");
    assert!(parts(&list(-20, 5000)).is_empty(), "a long list is compared with nothing");
}

#[test]
fn a_look_at_a_crowded_index_is_bounded_and_finds_tight_items() {
    let account = Budget::new(1 << 20, None).account("items", Purpose::Cache);
    let mut index = ItemIndex::default();
    for id in 0..2000_u64 {
        let reach = i128::from(id) + 1;
        let around = Domain::interval(
            Bound::Included(Scalar::Int(10_000 - reach)),
            Bound::Included(Scalar::Int(10_000 + reach)),
        );
        let predicate = Conjunction::all().and(path("i"), around);
        index.insert(item(&account, id, predicate, vec![column("i")]));
    }
    let predicate = Conjunction::all().and(path("i"), Domain::point(Scalar::Int(10_000)));
    let wanted = Wanted { columns: &[column("i")], predicate: &predicate };
    let examined = std::cell::Cell::new(0);
    let (found, _) = index.find_all(wanted, |_| {
        examined.set(examined.get() + 1);
        true
    });
    assert!(examined.get() <= EXAMINED);
    let mut ids: Vec<u64> = found.iter().map(|&place| index.at(place).unwrap().item.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..ENOUGH as u64).collect::<Vec<_>>());
}
