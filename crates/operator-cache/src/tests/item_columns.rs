//! Items of whole columns that lose some of them for room, and get them back.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_budget::{Budget, Purpose, ReclaimableCache};
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::fake::*;
use crate::candidates::PARTED_COUNT;
use crate::item::{Chunk, Lent};
use crate::*;

const RECORDS: u64 = 20_000;

fn fake() -> Arc<Fake> {
    Arc::new(Fake { morsel_records: 4000, ..Fake::default() })
}

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, names: &[&str]) {
    let pinned = pin(cache, &object("f", "1", RECORDS));
    let start = cache.begin(&request(names, &Arc::default()), &pinned, true, fake.factory());
    assert_eq!(answer(start, 2).unwrap(), expected(RECORDS, &Conjunction::all()));
}

fn kept(cache: &OperatorCache) -> Vec<String> {
    let items = cache.items();
    let paths = items.iter().flat_map(|item| item.columns.iter().map(|column| column.path.to_string()));
    paths.collect()
}

fn count(cache: &OperatorCache, kind: DecisionKind) -> usize {
    cache.decisions().iter().filter(|decision| decision.kind == kind).count()
}

fn scan_count(fake: &Fake) -> u64 {
    fake.open_count.load(Ordering::Relaxed)
}

/// A cache that has columns a, b and s of all rows, which take so many bytes; s was needed once, the others more often.
fn with_three_columns(limit_bytes: u64) -> (Arc<OperatorCache>, Budget, Arc<Fake>, u64) {
    let (cache, budget) = timed_cache(limit_bytes);
    let fake = fake();
    ask(&cache, &fake, &["a", "b", "s"]);
    for _ in 0..4 {
        ask(&cache, &fake, &["a", "b"]);
    }
    let size_bytes = cache.items()[0].size_bytes;
    (cache, budget, fake, size_bytes)
}

#[test]
fn a_query_that_needs_memory_takes_the_columns_first_that_were_asked_for_least() {
    let (cache, budget, fake, size_bytes) = with_three_columns(64 << 20);
    assert_eq!(kept(&cache), ["a", "b", "s"]);
    let freed_bytes = cache.release(1000);
    assert_eq!(kept(&cache), ["a", "b"]);
    assert_eq!((count(&cache, DecisionKind::DropColumns), count(&cache, DecisionKind::Evict)), (1, 0));
    let left_bytes = cache.items()[0].size_bytes;
    assert!(freed_bytes >= size_bytes / 3, "{freed_bytes} of {size_bytes}");
    assert!(left_bytes <= size_bytes - freed_bytes && budget.reserved_bytes() < left_bytes + 4096);
    assert_eq!(scan_count(&fake), 1);
    ask(&cache, &fake, &["a", "b"]);
    assert_eq!(scan_count(&fake), 1, "the others still answer");
    ask(&cache, &fake, &["b", "s", "a"]);
    assert_eq!(fake.specs.lock()[1].columns.len(), 1, "the one that went is read anew");
    assert_eq!(kept(&cache), ["a", "b", "s"]);
    cache.release(u64::MAX);
    assert!(cache.items().is_empty() && budget.reserved_bytes() < 4096);
}

#[test]
fn the_parts_of_an_item_are_looked_for_once_however_many_go() {
    let (cache, _budget, ..) = with_three_columns(64 << 20);
    PARTED_COUNT.set(0);
    cache.release(u64::MAX);
    assert!(cache.items().is_empty());
    assert_eq!(count(&cache, DecisionKind::Evict), 3, "each part is told of");
    assert_eq!(PARTED_COUNT.get(), 2, "to offer them, and to take them out");
}

#[test]
fn what_columns_took_is_known_when_they_are_gone() {
    let (cache, _budget, fake, _) = with_three_columns(64 << 20);
    let widths =
        |names: &[&str]| cache.kept_widths_bytes(&source("f"), &pin(&cache, &object("f", "1", 100)), &columns(names));
    cache.release(u64::MAX);
    assert!(cache.items().is_empty());
    // a and b are below 2¹⁵.
    let [Some(a), Some(b), None] = widths(&["a", "b", "w"])[..] else { panic!("{:?}", widths(&["a", "b", "w"])) };
    assert!((2.0..2.2).contains(&a) && (2.0..2.2).contains(&b), "{a}, {b}");
    assert_eq!(widths(&["s.z"]), [None], "a part of a column");
    ask(&cache, &fake, &["a", "b", "w"]);
    assert!(widths(&["w"])[0].is_some_and(|width| (1000.0..1100.0).contains(&width)), "{:?}", widths(&["w"]));
}

#[test]
fn uses_of_an_item_that_was_evicted_are_counted_once_when_it_comes_again_and_is_added_to() {
    let (cache, _budget, fake, _) = with_three_columns(64 << 20);
    cache.release(u64::MAX);
    let uses = || cache.items()[0].use_count;
    ask(&cache, &fake, &["b"]);
    assert_eq!(uses(), 6);
    ask(&cache, &fake, &["a", "b"]);
    ask(&cache, &fake, &["b", "s"]);
    assert_eq!((cache.items().len(), kept(&cache).len()), (1, 3));
    // A top-up is a use of what is there, and its query another of what comes.
    assert_eq!(uses(), 10);
}

#[test]
fn what_is_being_read_keeps_its_columns() {
    let (cache, budget, fake, size_bytes) = with_three_columns(64 << 20);
    let wanted = request(&["a", "b", "s"], &Arc::default());
    let Start::Hit { item, residual, .. } =
        cache.begin(&wanted, &pin(&cache, &object("f", "1", RECORDS)), true, fake.factory())
    else {
        panic!("expected a hit");
    };
    assert_eq!(cache.release(1000), 0);
    assert_eq!(read(&item, &residual), expected(RECORDS, &Conjunction::all()));
    drop(item);
    assert!(cache.release(1000) >= 1000);
    let queries = budget.account("query", Purpose::Query);
    assert!(queries.try_reserve((64 << 20) - size_bytes).is_ok());
}

#[test]
fn columns_that_chunks_of_one_item_hold_together_go_with_it() {
    let (cache, budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake { morsel_records: RECORDS, ..Fake::default() });
    ask(&cache, &fake, &["a", "b"]);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let wanted = request(&["a", "b"], &Arc::default());
    let Start::Hit { item, .. } = cache.begin(&wanted, &pinned, true, fake.factory()) else { panic!("expected a hit") };
    let [whole] = &item.chunks[..] else { panic!("{item:?}") };
    // As after columns were laid beside it in pieces that found no room to be laid together.
    let piece = |range: Range<usize>| {
        let lent = Lent { lender: Arc::downgrade(whole), range: range.clone() };
        let columns = (0..2).map(|column| lent.column(whole, column).unwrap().0).collect();
        let rows = Rows { row_count: range.len(), ..whole.scanned().with_columns(columns) };
        let nothing = cache.reserve_if_free(0).unwrap();
        Arc::new(Chunk::beside(Some(lent), Arc::new(rows), &[Some(0), Some(1)], nothing))
    };
    let pieces = [0..5000, 5000..12_000, 12_000..20_000].map(piece).to_vec();
    let columns = (Arc::clone(&item.columns), Arc::clone(&item.widths_bytes));
    let in_pieces = item.of_chunks(columns, pieces, Arc::clone(&item.structure));
    drop(cache.catalog().replace(in_pieces));
    drop(item);
    let before_bytes = budget.reserved_bytes();
    let freed_bytes = cache.release(1000);
    assert!(freed_bytes >= 1000 && budget.reserved_bytes() <= before_bytes - freed_bytes, "{freed_bytes}");
    assert_eq!(kept(&cache).len(), 1);
    cache.release(u64::MAX);
    assert!(cache.items().is_empty() && budget.reserved_bytes() < 4096);
}

#[test]
fn items_that_were_completed_from_the_same_one_go_with_the_columns_that_both_have() {
    let (cache, budget) = timed_cache(64 << 20);
    let fake = fake();
    ask(&cache, &fake, &["a", "b"]);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let begin = |names: &[&str]| cache.begin(&request(names, &Arc::default()), &pinned, true, fake.factory());
    for start in [begin(&["a", "b", "s"]), begin(&["a", "b", "v"])] {
        assert_eq!(answer(start, 2).unwrap(), expected(RECORDS, &Conjunction::all()));
    }
    assert_eq!((kept(&cache).len(), cache.items().len()), (6, 2));
    let reserved = budget.account("query", Purpose::Query).try_reserve((64 << 20) - 4096);
    assert!(reserved.is_ok(), "{reserved:?}, {:?}", cache.items());
}

#[test]
fn random_requests_of_random_columns_are_answered_like_scans_within_the_limit() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let limit_bytes = [60_000, 90_000, 150_000, 400_000][seed as usize % 4];
        let (cache, budget) = timed_cache(limit_bytes);
        let fake = Arc::new(Fake { morsel_records: 200 + random.below_u64(3000), ..Fake::default() });
        let queries = budget.account("query", Purpose::Query);
        for step in 0..60 {
            let mut names = vec!["b"];
            for name in ["a", "s", "s.z"] {
                if random.one_in(2) {
                    names.push(name);
                }
            }
            let held = if random.one_in(5) { queries.try_reserve(random.below_u64(limit_bytes)).ok() } else { None };
            let low = random.below_u64(900) as i64;
            let is_narrow = names.contains(&"a") && random.one_in(2);
            let predicate = if is_narrow { between(low, low + 100) } else { Arc::default() };
            let request = SelectRequest { retain_predicate: Arc::default(), ..request(&names, &predicate) };
            let pinned = pin(&cache, &object("f", "1", RECORDS));
            let found = answer(cache.begin(&request, &pinned, true, fake.factory()), 2).unwrap();
            assert_eq!(found, expected(RECORDS, &predicate), "seed {seed}, step {step}");
            drop(held);
            assert!(budget.reserved_bytes() <= limit_bytes, "seed {seed}, step {step}");
            let items: u64 = cache.items().iter().map(|item| item.size_bytes).max().unwrap_or(0);
            assert!(items <= cache.reserved_bytes(), "seed {seed}, step {step}");
            assert!(cache.catalog().is_counted_right(), "seed {seed}, step {step}");
        }
        cache.clear();
        assert!(budget.reserved_bytes() < 4096, "seed {seed}: {} bytes left", budget.reserved_bytes());
    }
}
