//! What a query that ends before its scan leaves behind: nothing that is true of one that needed all.

use std::sync::Arc;

use thermocline_placement::operator_cache::widening::Earlier;
use thermocline_predicate::Conjunction;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 640;

/// Asks for a few rows and keeps all.
fn widened() -> SelectRequest {
    SelectRequest { retain_predicate: Arc::default(), ..request(&["a", "b"], &between(100, 400)) }
}

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest, retain: bool) -> Start {
    cache.begin(request, &pin(cache, &object("f", "1", RECORDS)), retain, fake.factory())
}

/// What is known of the file: its scans, and the queries that needed columns of it.
fn known(cache: &OperatorCache) -> (Earlier, usize) {
    let earlier = pin(cache, &object("f", "1", RECORDS)).earlier(None);
    (earlier, cache.catalog().demands.get(&source("f")).map_or(0, |demand| demand.queries().len()))
}

/// Takes the first rows and leaves.
fn preview(start: Start) {
    let Start::Scan(participant) = start else { panic!("no scan") };
    assert!(futures::executor::block_on_stream(participant.stream()).next().is_some());
}

#[test]
fn a_preview_is_no_scan_no_bet_and_no_demand() {
    for retain in [true, false] {
        let (cache, _budget) = cache(64 << 20);
        let fake = Arc::new(Fake::default());
        for _ in 0..3 {
            preview(begin(&cache, &fake, &widened(), retain));
            assert_eq!(known(&cache), (Earlier { scan_count: 0, lost_bets: 0, scans_since_bet: 0 }, 0));
        }
        answer(begin(&cache, &fake, &widened(), retain), 1).unwrap();
        assert_eq!(
            known(&cache),
            (Earlier { scan_count: 1, lost_bets: u32::from(retain), scans_since_bet: u32::from(!retain) }, 1)
        );
    }
}

#[test]
fn a_scan_that_one_of_two_leaves_early_stays_one() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let (first, second) = (begin(&cache, &fake, &widened(), true), begin(&cache, &fake, &widened(), true));
    preview(first);
    assert_eq!(known(&cache), (Earlier { scan_count: 1, lost_bets: 1, scans_since_bet: 0 }, 2));
    answer(second, 1).unwrap();
    assert_eq!(known(&cache), (Earlier { scan_count: 1, lost_bets: 1, scans_since_bet: 0 }, 2));
}

#[test]
fn a_query_that_waits_is_counted_once_when_it_is_answered() {
    let (cache, _budget) = cache(64 << 20);
    let fake = Arc::new(Fake::default());
    let leader = begin(&cache, &fake, &widened(), true);
    let patient = SelectRequest { columns: columns(&["a", "b", "s.z"]), may_wait: true, ..widened() };
    for _ in 0..5 {
        assert!(matches!(begin(&cache, &fake, &patient, true), Start::Wait(_)));
    }
    assert_eq!(known(&cache).1, 1, "the leader's");
    answer(leader, 1).unwrap();
    answer(begin(&cache, &fake, &patient, true), 1).unwrap();
    assert_eq!(known(&cache).1, 2);
}

#[test]
fn of_too_many_sources_the_one_that_was_asked_longest_ago_is_forgotten() {
    let (cache, _budget) = cache(1 << 20);
    let mut catalog = cache.catalog();
    let mut note = |name: &str, tick: u64| {
        let asked = SelectRequest { source: source(name), ..request(&["a"], &Arc::new(Conjunction::all())) };
        catalog.note_demand(cache.policy(), &asked, tick);
        catalog.demands.len()
    };
    let counts: Vec<usize> = (0..512).map(|file| note(&format!("f{file}"), file + 1)).collect();
    assert_eq!(counts.last(), Some(&512));
    note("f0", 600);
    assert_eq!(note("new", 601), 512);
    assert_eq!(note("newer", 602), 512);
    let is_known = |name: &str| catalog.demands.contains_key(&source(name));
    assert_eq!(["f0", "f1", "f2", "f3", "new"].map(is_known), [true, false, false, true, true]);
}
