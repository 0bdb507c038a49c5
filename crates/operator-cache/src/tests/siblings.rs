//! Columns that items of the same records hold together.

use std::sync::Arc;

use thermocline_placement::operator_cache::layout::Layout;
use thermocline_placement::operator_cache::layout::rule::LayoutRule;
use thermocline_seeded::Random;

use super::elements::{Table, answer, elements, expected_elements, nested, rules, values};
use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn plain(morsel_records: u64) -> Arc<Fake> {
    Arc::new(Fake { morsel_records, ..Fake::default() })
}

/// With all rows to be kept.
fn whole(request: SelectRequest) -> SelectRequest {
    SelectRequest { retain_predicate: Arc::default(), ..request }
}

fn expected_records(low: i64, high: i64, names: &[&str]) -> Table {
    let records = (0..RECORDS).filter(|&record| (low..=high).contains(&a_of(record)));
    let mut table: Table =
        records.map(|record| names.iter().flat_map(|name| values(name, record, 0)).collect()).collect();
    table.sort_unstable();
    table
}

/// The columns that the latest scan read.
fn read_columns(fake: &Fake) -> Vec<String> {
    let specs = fake.specs.lock();
    specs.last().unwrap().columns.iter().map(|column| column.path.to_string()).collect()
}

#[test]
fn columns_of_records_are_read_and_held_once_whichever_way_they_are_asked_for() {
    for morsel_records in [1, 16, 5000] {
        let (cache, budget) = cache(64 << 20);
        let (records, lists) = (plain(morsel_records), nested(morsel_records));
        let all = between(0, 999);
        answer(&cache, &records, &whole(request(&["a", "b", "s.z"], &all)), &["b"]);
        let before_bytes = budget.reserved_bytes();
        let asked = whole(elements(&["a", "b", "l.e"], &all));
        let (found, _) = answer(&cache, &lists, &asked, &["a", "b", "l.e"]);
        assert_eq!(found, expected_elements(&all, &["a", "b", "l.e"]));
        assert_eq!(read_columns(&lists), ["l.e"]);
        let added_bytes = budget.reserved_bytes() - before_bytes;
        // Of 1500 elements and 1000 records the numbers, the lists' ends and what an item takes.
        assert!(morsel_records == 1 || added_bytes < 1500 * 2 + 1000 * 4 + 20_000, "{added_bytes}");
        let sizes: u64 = cache.items().iter().map(|item| item.size_bytes).sum();
        assert!(sizes <= budget.reserved_bytes());
        // Of the records it has what the other one has.
        let asked = elements(&["a", "s.z", "l.e"], &between(100, 500));
        let (found, is_hit) = answer(&cache, &lists, &asked, &["s.z", "l.e"]);
        assert!(is_hit);
        assert_eq!(found, expected_elements(&between(100, 500), &["s.z", "l.e"]));
    }
}

#[test]
fn records_are_laid_beside_those_of_a_list() {
    let (cache, _budget) = cache(64 << 20);
    let (records, lists) = (plain(16), nested(16));
    answer(&cache, &lists, &whole(elements(&["a", "l.e"], &between(0, 999))), &["a"]);
    let (found, is_hit) = answer(&cache, &records, &whole(request(&["a", "b"], &between(10, 700))), &["a", "b"]);
    assert!(!is_hit);
    assert_eq!(found, expected_records(10, 700, &["a", "b"]));
    assert_eq!(read_columns(&records), ["b"]);
}

#[test]
fn what_was_lent_outlives_the_item_that_lent_it() {
    for first in [true, false] {
        let (cache, budget) = cache(64 << 20);
        let (records, lists) = (plain(16), nested(16));
        let all = between(0, 999);
        answer(&cache, &records, &whole(request(&["a", "b"], &all)), &["b"]);
        answer(&cache, &lists, &whole(elements(&["a", "b", "l.e"], &all)), &["b"]);
        let lender = cache.items().iter().find(|item| item.source.unnest.is_none()).unwrap().size_bytes;
        let borrower = cache.items().iter().find(|item| item.source.unnest.is_some()).unwrap().size_bytes;
        assert!(lender + borrower < budget.reserved_bytes(), "what both hold is neither's");
        let going = cache.items().into_iter().find(|item| item.source.unnest.is_none() == first).unwrap();
        assert!(cache.catalog().evict(going.id).is_some());
        let (low, high) = (200, 800);
        let (found, is_hit) = match first {
            true => answer(&cache, &lists, &elements(&["a", "b", "l.e"], &between(low, high)), &["b", "l.e"]),
            false => answer(&cache, &records, &request(&["a", "b"], &between(low, high)), &["a", "b"]),
        };
        assert!(is_hit);
        match first {
            true => assert_eq!(found, expected_elements(&between(low, high), &["b", "l.e"])),
            false => assert_eq!(found, expected_records(low, high, &["a", "b"])),
        }
        cache.clear();
        assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
    }
}

#[test]
fn random_requests_for_records_and_elements_get_theirs_under_every_layout_and_little_memory() {
    for (limit_bytes, morsel_records) in [(64 << 20, 16), (64 << 20, 1), (24 << 10, 7), (16 << 10, 100)] {
        for rule in rules() {
            let mut random = Random::new(limit_bytes ^ morsel_records);
            let (cache, budget) = cache(limit_bytes);
            let (records, lists) = (plain(morsel_records), nested(morsel_records));
            for round in 0..40 {
                cache.set_layout_rule(if random.one_in(4) { LayoutRule::Fixed(Layout::Nested) } else { rule });
                let low = random.below_u64(1000) as i64;
                let range = between(low, low + random.below_u64(1000) as i64);
                let high = low + random.below_u64(1000) as i64;
                let context = format!("round {round}, limit {limit_bytes}, morsels of {morsel_records}, {rule}");
                if random.one_in(2) {
                    let names: &[&str] = [&["a", "l.e", "l.t"][..], &["a", "b", "l.n"], &["a", "s.z", "t"]]
                        [random.below_u64(3) as usize];
                    let (found, _) = answer(&cache, &lists, &whole(elements(names, &range)), names);
                    assert_eq!(found, expected_elements(&range, names), "{context}");
                } else {
                    let names: &[&str] = [&["a", "t"][..], &["a", "b"], &["a", "s.z"]][random.below_u64(3) as usize];
                    let asked = whole(request(names, &between(low, high)));
                    let (found, _) = answer(&cache, &records, &asked, names);
                    assert_eq!(found, expected_records(low, high, names), "{context}");
                }
                assert!(budget.reserved_bytes() <= limit_bytes, "{context}");
            }
            cache.clear();
            assert!(budget.reserved_bytes() < 10_000, "{} bytes left", budget.reserved_bytes());
        }
    }
}
