//! Items of the first records of a file, for which there is no room as a whole.

use std::sync::Arc;

use thermocline_budget::Budget;
use thermocline_hardware::ManualClock;
use thermocline_placement::operator_cache::PolicyName;
use thermocline_predicate::Conjunction;
use thermocline_seeded::Random;

use super::fake::*;
use crate::candidates::{Candidate, Going, Terms};
use crate::*;

const RECORDS: u64 = 40_000;
/// About what all rows of a and b take.
const WHOLE_BYTES: u64 = 160_000;

fn fake() -> Arc<Fake> {
    Arc::new(Fake { morsel_records: 1000, ..Fake::default() })
}

/// A request that would have all rows kept.
fn widened(names: &[&str], predicate: &Arc<Conjunction>) -> SelectRequest {
    SelectRequest { retain_predicate: Arc::default(), ..request(names, predicate) }
}

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, file: &str, request: &SelectRequest) -> Start {
    let source = SourceKey { path: Arc::from(file), ..request.source.clone() };
    let request = SelectRequest { source, ..request.clone() };
    cache.begin(&request, &pin(cache, &object(file, "1", RECORDS)), true, fake.factory())
}

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, file: &str, request: &SelectRequest) {
    let found = answer(begin(cache, fake, file, request), 2).unwrap();
    assert_eq!(found, expected(RECORDS, &request.predicate));
}

/// Of a file's head the share of the file's bytes; 0 if there is none.
fn share(cache: &OperatorCache, file: &str) -> f64 {
    let of_file = cache.items().into_iter().filter(|item| &*item.source.path == file && item.predicate.is_all());
    of_file.map(|item| item.end_bytes as f64 / item.file_bytes as f64).fold(0.0, f64::max)
}

/// Morsels that were decoded since the last call, once or more often.
fn decoded(fake: &Fake) -> usize {
    std::mem::take(&mut *fake.decode_counts.lock()).len()
}

#[test]
fn what_fits_is_kept_and_the_rest_scanned() {
    let (cache, budget) = timed_cache(WHOLE_BYTES / 2);
    let fake = fake();
    ask(&cache, &fake, "f", &widened(&["a", "b"], &between(100, 300)));
    assert_eq!(decoded(&fake), 40);
    let kept = share(&cache, "f");
    assert!((0.3..0.6).contains(&kept), "{kept}: {:?}", cache.decisions());
    let [head] = &cache.items()[..] else { panic!("{:?}", cache.items()) };
    assert_eq!((head.row_count, head.file_bytes), (head.end_bytes / 10, RECORDS * 10));
    for low in [0, 400, 999] {
        ask(&cache, &fake, "f", &request(&["a", "b"], &between(low, low + 50)));
        assert_eq!(decoded(&fake) as u64, 40 - head.row_count / 1000);
    }
    let specs = fake.specs.lock().clone();
    assert!(specs[0].predicate.is_all() && specs[1].head.is_none(), "the head, and the rest of its file");
    assert!(specs[2..].iter().all(|spec| spec.head.map(|head| head.record_count) == Some(head.row_count)));
    assert!(specs[1..].iter().all(|spec| !spec.predicate.is_all()), "of the rest no more is read than is asked for");
    assert!(budget.reserved_bytes() <= WHOLE_BYTES / 2);
    // What it lacks a column for is scanned whole.
    ask(&cache, &fake, "f", &request(&["a", "b", "s"], &between(0, 50)));
    assert_eq!(decoded(&fake), 40);
    // Of another content nothing is used.
    let changed = pin(&cache, &object("f", "2", RECORDS));
    let start = cache.begin(&request(&["a", "b"], &between(0, 50)), &changed, true, fake.factory());
    assert_eq!(answer(start, 1).unwrap(), expected(RECORDS, &between(0, 50)));
    assert_eq!(decoded(&fake), 40);
    assert_eq!(share(&cache, "f"), 0.0);
    cache.clear();
    assert!(budget.reserved_bytes() < 4096);
}

/// A query that reads until its scan keeps a head and it reads the rest of the file elsewhere.
fn beginning(cache: &Arc<OperatorCache>, fake: &Arc<Fake>) -> (Arc<Participant>, RowStream, Vec<i64>) {
    let asked = widened(&["a", "b"], &between(100, 300));
    let Start::Scan(participant) = begin(cache, fake, "f", &asked) else { panic!("a scan") };
    let (mut stream, mut found) = (participant.stream(), Vec::new());
    while fake.specs.lock().len() < 2 {
        let rows = futures::executor::block_on(futures::StreamExt::next(&mut stream)).unwrap().unwrap();
        found.extend(delivered(&participant, &rows));
    }
    (participant, stream, found)
}

#[test]
fn a_head_is_kept_once_the_rest_of_its_file_was_read() {
    let (cache, budget) = timed_cache(WHOLE_BYTES / 2);
    let fake = fake();
    let (participant, stream, mut found) = beginning(&cache, &fake);
    assert!(cache.items().is_empty() && budget.reserved_bytes() > WHOLE_BYTES / 4);
    found.extend(futures::executor::block_on_stream(stream).flat_map(|rows| delivered(&participant, &rows.unwrap())));
    found.sort_unstable();
    assert_eq!(found, expected(RECORDS, &between(100, 300)));
    assert_eq!(fake.most_decodes(), 1);
    assert!(share(&cache, "f") >= 0.3);
    let specs = fake.specs.lock();
    assert_eq!(*specs[1].predicate, *between(100, 300), "of the rest no more is read than is asked for");
}

#[test]
fn a_head_goes_with_the_query_that_leaves_the_rest_of_its_file() {
    let (cache, budget) = timed_cache(WHOLE_BYTES / 2);
    let fake = fake();
    let (participant, stream, _) = beginning(&cache, &fake);
    drop((participant, stream));
    assert!(cache.items().is_empty() && budget.reserved_bytes() < 4096, "{:?}", cache.decisions());
    assert_eq!(cache.decisions().last().unwrap().kind, DecisionKind::Abort);
    // Nor does anybody wait for it.
    let may_wait = SelectRequest { may_wait: true, ..request(&["a", "s"], &between(0, 50)) };
    assert!(matches!(begin(&cache, &fake, "f", &may_wait), Start::Scan(_)));
}

#[test]
fn a_head_of_a_file_whose_rest_can_not_be_read_or_changed_is_not_kept() {
    for morsel_fails in [false, true] {
        let (cache, budget) = timed_cache(WHOLE_BYTES / 2);
        let fake = Arc::new(Fake { fail_at: morsel_fails.then_some(39), ..Arc::into_inner(fake()).unwrap() });
        let (participant, mut stream, _) = beginning(&cache, &fake);
        fake.finish_fails.store(true, std::sync::atomic::Ordering::Relaxed);
        let failed = futures::executor::block_on_stream(&mut stream).find_map(Result::err);
        assert!(failed.is_some());
        assert!(cache.items().is_empty(), "{morsel_fails}");
        drop((participant, stream));
        assert!(budget.reserved_bytes() < 4096, "{morsel_fails}: {} bytes", budget.reserved_bytes());
    }
}

/// Asks another file, of which all rows are kept if there is room.
fn ask_other(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, record_count: u64) {
    let asked = widened(&["a", "b"], &between(100, 300));
    let asked = SelectRequest { source: SourceKey { path: Arc::from("g"), ..asked.source.clone() }, ..asked };
    let start = cache.begin(&asked, &pin(cache, &object("g", "1", record_count)), true, fake.factory());
    assert_eq!(answer(start, 1).unwrap(), expected(record_count, &between(100, 300)));
}

#[test]
fn a_head_gives_its_last_rows_to_what_is_worth_more() {
    let (cache, _budget) = timed_cache(WHOLE_BYTES);
    let fake = fake();
    ask(&cache, &fake, "f", &widened(&["a", "b"], &between(100, 300)));
    let before = share(&cache, "f");
    assert!(before > 0.5 && before < 1.0, "{before}");
    for _ in 0..20 {
        ask_other(&cache, &fake, RECORDS / 6);
    }
    let after = share(&cache, "f");
    assert!(after > 0.0 && after < before && share(&cache, "g") == 1.0, "{before}, {after}: {:?}", cache.decisions());
    assert!(cache.decisions().iter().any(|decision| decision.kind == DecisionKind::DropRows));
    decoded(&fake);
    ask(&cache, &fake, "f", &request(&["a", "b"], &between(500, 600)));
    assert_eq!(decoded(&fake), ((1.0 - after) * 40.0).round() as usize);
}

#[test]
fn some_columns_of_a_file_too_large_for_memory_count_by_the_queries_that_they_answer() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = fake();
    for number in 0..12 {
        let low = number as i64 * 20;
        let names: &[&str] = if number % 6 == 0 { &["a", "b"] } else { &["a", "b", "s"] };
        ask(&cache, &fake, "f", &request(names, &between(low, low + 30)));
    }
    let uses = |limit_bytes| {
        let terms = Terms { limit_bytes, ..cache.terms() };
        cache.catalog().expected_uses(terms, &source("f"), &columns(&["a", "b"]), WHOLE_BYTES).unwrap()
    };
    // 12 of 64 queries are 48 of 256. What answers all of them is more than a and b are.
    assert_eq!(uses(WHOLE_BYTES), 48 / 6);
    assert!(uses(64 << 20) > 48 / 6, "by its bytes, where all could be held: {}", uses(64 << 20));
}

#[test]
fn a_head_that_finds_more_room_is_made_anew() {
    let (cache, _budget) = timed_cache(WHOLE_BYTES * 21 / 16);
    let fake = fake();
    for _ in 0..20 {
        ask_other(&cache, &fake, RECORDS / 2);
    }
    ask(&cache, &fake, "f", &widened(&["a", "b"], &between(100, 300)));
    let (f, g) = (share(&cache, "f"), share(&cache, "g"));
    assert!(f > 0.2 && f < 0.9 && g == 1.0, "{f} of f, {g} of g: {:?}", cache.decisions());
    cache.drop_stale(&Arc::from("g"), "for the test", |_, _| true);
    for _ in 0..8 {
        ask(&cache, &fake, "f", &request(&["a", "b"], &between(500, 600)));
    }
    assert_eq!(share(&cache, "f"), 1.0, "{:?}", cache.items());
    decoded(&fake);
    ask(&cache, &fake, "f", &request(&["a", "b"], &between(500, 600)));
    assert_eq!(decoded(&fake), 0);
}

#[test]
fn where_all_columns_find_no_room_all_rows_of_some_give_way_to_a_head_of_all() {
    // Room for all rows of a and b, but not for those of s beside them.
    let (cache, _budget) = timed_cache(WHOLE_BYTES * 5 / 2);
    let fake = fake();
    let ask_one = |number: usize| {
        let low = number as i64 * 20;
        ask(&cache, &fake, "f", &widened([&["a", "b"][..], &["a", "b", "s"]][number % 2], &between(low, low + 30)));
    };
    (0..40).for_each(ask_one);
    let [head] = &cache.items()[..] else { panic!("{:?}", cache.items()) };
    assert_eq!((head.columns.len(), head.file_bytes), (3, RECORDS * 10), "{head:?}");
    let kept = head.end_bytes as f64 / head.file_bytes as f64;
    assert!(kept > 0.5 && kept < 1.0, "{kept}");
    assert!(cache.decisions().iter().any(|decision| decision.reason == "what takes its place needs its room"));
    // Whoever asks is served by it, whatever the columns.
    decoded(&fake);
    (0..4).for_each(ask_one);
    let rest = ((1.0 - kept) * 40.0).round() as usize;
    assert_eq!(decoded(&fake), rest, "{:?}", cache.items());
}

#[test]
fn all_rows_that_need_no_more_columns_give_their_last_ones_to_what_is_worth_more() {
    let (cache, _budget) = timed_cache(WHOLE_BYTES * 7 / 4);
    let fake = fake();
    for low in [100, 200] {
        ask(&cache, &fake, "f", &widened(&["a", "b"], &between(low, low + 100)));
    }
    assert_eq!(share(&cache, "f"), 1.0, "{:?}", cache.decisions());
    for _ in 0..20 {
        ask_other(&cache, &fake, RECORDS / 2);
    }
    let (f, g) = (share(&cache, "f"), share(&cache, "g"));
    assert!(f > 0.2 && f < 1.0 && g == 1.0, "{f} of f, {g} of g: {:?}", cache.decisions());
    ask(&cache, &fake, "f", &request(&["a", "b"], &between(500, 600)));
}

#[test]
fn others_who_take_part_in_a_scan_that_keeps_a_head_read_the_rest_for_themselves() {
    // With little room, and where it runs out by a few bytes when all rows are there.
    let edges = (WHOLE_BYTES..WHOLE_BYTES * 5 / 4).step_by(753);
    for (stop_at, limit_bytes) in [1, 5, 17].map(|at| (at, WHOLE_BYTES / 2)).into_iter().chain(edges.map(|at| (5, at)))
    {
        let (cache, _budget) = timed_cache(limit_bytes);
        let fake = fake();
        let starts: Vec<Start> = (0..3)
            .map(|low| begin(&cache, &fake, "f", &widened(&["a", "b"], &between(low * 100, low * 100 + 300))))
            .collect();
        let participants: Vec<Arc<Participant>> = starts
            .into_iter()
            .map(|start| match start {
                Start::Scan(participant) => participant,
                other => panic!("{other:?}"),
            })
            .collect();
        let mut found = vec![Vec::new(); 3];
        let mut streams: Vec<_> = participants.iter().map(|participant| participant.stream()).collect();
        // In turn, the first one ahead.
        let mut open = [true; 3];
        for round in 0.. {
            for (index, stream) in streams.iter_mut().enumerate() {
                let count = if index == 0 && round == 0 { stop_at } else { 1 };
                for _ in 0..count {
                    match futures::executor::block_on(futures::StreamExt::next(stream)) {
                        Some(rows) => found[index].extend(delivered(&participants[index], &rows.unwrap())),
                        None => open[index] = false,
                    }
                }
            }
            if open == [false; 3] {
                break;
            }
        }
        for (low, mut found) in (0..3).zip(found) {
            found.sort_unstable();
            let expected = expected(RECORDS, &between(low * 100, low * 100 + 300));
            assert_eq!(found, expected, "{stop_at}, {low}, {limit_bytes} bytes");
        }
        let kept = share(&cache, "f");
        assert!(
            kept > 0.2 && (kept < 1.0 || limit_bytes > WHOLE_BYTES),
            "{stop_at}, {limit_bytes} bytes: {kept}: {:?}",
            cache.decisions()
        );
        ask(&cache, &fake, "f", &request(&["a", "b"], &between(7, 77)));
    }
}

#[test]
fn random_requests_of_several_files_are_answered_right_within_any_limit() {
    let (mut read_heads, mut dropped_rows) = (0, 0);
    for seed in 1..=12 {
        let random = &mut Random::new(seed);
        let limit_bytes = 40_000 + random.below_u64(4 * WHOLE_BYTES);
        let budget = Budget::new(1 << 30, Some(limit_bytes));
        let clock = Arc::new(SteppingClock::default());
        let cache = OperatorCache::new(CacheOptions::default(), &budget, clock);
        told(&cache, AdmissionMode::Eager);
        let fake = fake();
        for number in 0..60 {
            let all: [&[&str]; 4] = [&["a", "b"], &["a", "b"], &["a", "b", "s"], &["b", "a", "w"]];
            let names = *random.pick(&all);
            let low = random.below_u64(900) as i64;
            let predicate = between(low, low + random.below_u64(300) as i64);
            let asked = if random.one_in(3) { request(names, &predicate) } else { widened(names, &predicate) };
            let file = *random.pick(&["f", "f", "g", "h"]);
            let streams = 1 + random.below(3);
            let start = begin(&cache, &fake, file, &asked);
            assert_eq!(answer(start, streams).unwrap(), expected(RECORDS, &predicate), "seed {seed}, query {number}");
            assert!(cache.reserved_bytes() <= limit_bytes, "seed {seed}: {}", cache.reserved_bytes());
            if random.one_in(20) {
                thermocline_budget::ReclaimableCache::release(&*cache, random.below_u64(limit_bytes));
            }
            // Two items of one number would be one too many.
            let items = cache.items();
            let bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
            assert!(bytes <= cache.reserved_bytes() && items.windows(2).all(|pair| pair[0].id < pair[1].id));
        }
        let count = |kind| cache.decisions().iter().filter(|decision| decision.kind == kind).count();
        read_heads += count(DecisionKind::Head);
        dropped_rows += count(DecisionKind::DropRows);
        cache.clear();
        assert!(budget.reserved_bytes() < 8192, "seed {seed}: {}", budget.reserved_bytes());
    }
    assert!(read_heads > 60 && dropped_rows > 20, "{read_heads} heads were read, {dropped_rows} times rows dropped");
}

#[test]
fn where_room_runs_out_unforeseen_the_first_rows_are_kept() {
    // All rows of a, b and v take some 1.5 MB, by what a scan extrapolates from the first ones half of it.
    for limit_bytes in (700_000..1_700_000).step_by(5_003) {
        let (cache, _budget) = timed_cache(limit_bytes);
        let fake = fake();
        for low in [100, 140] {
            ask(&cache, &fake, "f", &widened(&["a", "b", "v"], &between(low, low + 300)));
            let (kept, fits) = (share(&cache, "f"), limit_bytes as f64 / 1.5e6);
            assert!(kept > 0.7 * fits.min(1.0), "{kept} with {limit_bytes} bytes: {:?}", cache.decisions());
        }
    }
}

#[test]
fn a_head_that_gives_way_to_the_first_rows_of_another_item_is_told_of_and_its_uses_are_remembered() {
    let fake = fake();
    let (first, _budget) = timed_cache(64 << 20);
    for low in [100, 200] {
        ask(&first, &fake, "f", &widened(&["a", "b", "s"], &between(low, low + 100)));
    }
    let whole = first.items()[0].id;
    drop(first.catalog().evict_going(whole, Going::Rows(1)));
    let Some(head) = first.catalog().head(&source("f")).cloned() else { panic!("{:?}", first.items()) };

    let (cache, _budget) = timed_cache(64 << 20);
    ask(&cache, &fake, "f", &widened(&["a", "b"], &between(100, 300)));
    let whole = cache.items()[0].id;
    let columns = (Arc::clone(&head.columns), Arc::clone(&head.widths_bytes));
    let mut head = head.of_chunks(columns, head.chunks.clone(), Arc::clone(&head.structure));
    head.id = ItemId(cache.next_number());
    let (id, use_count) = (head.id, head.measurements().use_count);
    let mut catalog = cache.catalog();
    catalog.insert(Arc::new(head), None);
    let mut items = catalog.displaceable(cache.terms());
    items.retain(|item| Candidate::of(item.id).item == whole);
    assert!(items.len() > 1, "{items:?}");
    let eviction = cache.policy().choose(cache.policy_state(&catalog), &items, 1);
    drop(cache.carry_out(&mut catalog, &eviction, &items, "for the test"));
    assert_eq!((catalog.remembered(&source("f"), &Conjunction::all()), use_count), (2, 2));
    drop(catalog);
    let told = |of: ItemId| -> Vec<DecisionKind> {
        let decisions = cache.decisions().into_iter();
        decisions.filter(|told| told.item_id == Some(of)).map(|told| told.kind).collect()
    };
    assert_eq!(told(id), [DecisionKind::Evict]);
    assert_eq!(told(whole).last(), Some(&DecisionKind::DropRows));
    assert_eq!(cache.items().len(), 1);
}

#[test]
fn policies_of_whole_items_keep_no_heads() {
    for policy in PolicyName::ALL.into_iter().filter(|policy| !policy.policy().divides_items()) {
        let options = CacheOptions { policy: policy.policy(), ..CacheOptions::default() };
        let cache = OperatorCache::new(options, &Budget::new(WHOLE_BYTES / 2, None), Arc::new(ManualClock::new(0)));
        let fake = fake();
        for _ in 0..4 {
            ask(&cache, &fake, "f", &widened(&["a", "b"], &between(100, 300)));
        }
        assert_eq!(share(&cache, "f"), 0.0, "{policy}");
    }
}
