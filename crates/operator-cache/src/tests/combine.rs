//! Items that cover parts of a request answer it together, with a scan of what they lack.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_budget::ReclaimableCache;
use thermocline_predicate::{Conjunction, Domain, Scalar};
use thermocline_seeded::Random;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Start {
    cache.begin(request, &pin(cache, &object("f", "1", RECORDS)), true, fake.factory())
}

fn ask(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, request: &SelectRequest) -> Vec<i64> {
    answer(begin(cache, fake, request), 2).unwrap()
}

fn scan_count(fake: &Fake) -> u64 {
    fake.open_count.load(Ordering::Relaxed)
}

/// Makes an item of a whole range, whatever is kept of it already: where bad records may be left out nothing is
/// combined.
fn keep(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, names: &[&str], predicate: &Arc<Conjunction>) {
    ask(cache, fake, &SelectRequest { may_skip: true, ..request(names, predicate) });
}

/// How often something was decided.
fn decided(cache: &OperatorCache, kind: DecisionKind) -> usize {
    cache.decisions().iter().filter(|decision| decision.kind == kind).count()
}

fn passes(predicate: &Conjunction, row: u64) -> bool {
    let a = a_of(row);
    let int = |value: i64| Some(Scalar::Int(value.into()));
    predicate.fields().all(|(path, domain)| {
        let value = match path.to_string().as_str() {
            "a" => int(a),
            "b" => int(row as i64),
            "s.z" => int(a * 2).filter(|_| a % 7 != 0 && a % 11 != 0),
            _ => Some(Scalar::Utf8(format!("{row:0>1000}").into())),
        };
        domain.contains(value.as_ref())
    })
}

/// The slow way.
fn brute_force(predicate: &Conjunction) -> Vec<i64> {
    (0..RECORDS).filter(|&row| passes(predicate, row)).map(|row| row as i64).collect()
}

#[test]
fn items_that_overlap_answer_a_wider_range_and_each_row_comes_once() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    keep(&cache, &fake, &["a", "b"], &between(0, 500));
    keep(&cache, &fake, &["a", "b"], &between(300, 800));
    let wide = request(&["a", "b"], &between(100, 700));
    let Explanation::Combine { parts, remainder: None } =
        cache.explain(&wide, &pin(&cache, &object("f", "1", RECORDS)))
    else {
        panic!("expected a combination");
    };
    let residuals: Vec<String> = parts.iter().map(|part| part.residual.to_string()).collect();
    assert!(residuals.iter().all(|residual| residual.contains("a")), "both are filtered: {residuals:?}");
    assert_eq!(ask(&cache, &fake, &wide), brute_force(&wide.predicate));
    assert_eq!(scan_count(&fake), 2);
    assert_eq!(cache.items().iter().map(|item| item.use_count).collect::<Vec<_>>(), [2, 2]);
    let decision = cache.decisions().into_iter().find(|decision| decision.kind == DecisionKind::Combine).unwrap();
    let number = |name: &str| decision.numbers.iter().find(|(other, _)| *other == name).unwrap().1;
    assert_eq!((number("part_count"), decision.predicate.unwrap().to_string()), (2.0, wide.predicate.to_string()));
    assert!((number("covered_share") - 1.0).abs() < 1e-9);
    assert!(number("predicted_ns") < number("scan_anew_ns"));
}

#[test]
fn what_no_item_has_is_scanned_and_kept_so_that_the_next_time_nothing_is() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 800)));
    let wide = request(&["a", "b"], &between(0, 950));
    assert_eq!(ask(&cache, &fake, &wide), brute_force(&wide.predicate));
    assert_eq!(scan_count(&fake), 2);
    assert_eq!(fake.specs.lock()[1].predicate, between(801, 950), "only the rest is parsed and kept");
    assert_eq!(ask(&cache, &fake, &wide), brute_force(&wide.predicate));
    assert_eq!(scan_count(&fake), 2);
    assert_eq!(decided(&cache, DecisionKind::Combine), 2);
}

#[test]
fn two_queries_at_once_share_the_scan_of_the_remainder() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 800)));
    let wide = request(&["a", "b"], &between(0, 950));
    let (first, second) = (begin(&cache, &fake, &wide), begin(&cache, &fake, &wide));
    assert_eq!(answer(second, 2).unwrap(), brute_force(&wide.predicate));
    assert_eq!(answer(first, 2).unwrap(), brute_force(&wide.predicate));
    assert_eq!(scan_count(&fake), 2);
}

#[test]
fn a_query_whose_scan_would_keep_more_takes_no_remainder() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 400)));
    ask(&cache, &fake, &request(&["a", "b"], &between(401, 800)));
    let widened = |predicate: &Arc<Conjunction>| SelectRequest {
        retain_predicate: Arc::default(),
        ..request(&["a", "b"], predicate)
    };
    assert!(matches!(begin(&cache, &fake, &widened(&between(0, 801))), Start::Scan(_)));
    let covered = widened(&between(0, 800));
    let start = begin(&cache, &fake, &covered);
    assert!(matches!(&start, Start::Combine { parts, remainder: None } if parts.len() == 2));
    assert_eq!(answer(start, 1).unwrap(), brute_force(&covered.predicate));
}

#[test]
fn nothing_is_combined_of_items_that_lack_columns_or_may_lack_records_or_are_wider_nowhere() {
    let (cache, _budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    keep(&cache, &fake, &["b"], &between(0, 400));
    keep(&cache, &fake, &["a", "b"], &between(401, 800));
    let wide = between(0, 800);
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    let combines = |request: &SelectRequest| matches!(cache.explain(request, &pinned), Explanation::Combine { .. });
    let remainder = |request: &SelectRequest| match cache.explain(request, &pinned) {
        Explanation::Combine { remainder, .. } => remainder,
        other => panic!("expected a combination: {other:?}"),
    };
    let half = remainder(&request(&["a", "b"], &wide));
    assert_eq!(half, Some(between(0, 400)), "the other item has no `a` to filter on");
    keep(&cache, &fake, &["a", "b", "s.z"], &between(0, 400));
    assert_eq!(remainder(&request(&["a", "b"], &wide)), None);
    assert_eq!(remainder(&request(&["a", "b", "s.z"], &wide)), Some(between(401, 800)));
    assert!(!combines(&SelectRequest { may_skip: true, ..request(&["a", "b"], &wide) }));
    let other_field = Arc::new(wide.replace(&path("a"), Domain::all()).and(path("b"), Domain::not_null()));
    assert!(!combines(&request(&["a", "b"], &other_field)), "the items say nothing of all values of `a`");
    let other_generation = pin(&cache, &object("f", "2", RECORDS));
    assert!(matches!(cache.explain(&request(&["a", "b"], &wide), &other_generation), Explanation::Miss { .. }));
}

#[test]
fn items_of_a_combination_are_held_until_they_are_read() {
    let (cache, budget) = timed_cache(64 << 20);
    let fake = Arc::new(Fake::default());
    ask(&cache, &fake, &request(&["a", "b"], &between(0, 400)));
    ask(&cache, &fake, &request(&["a", "b"], &between(401, 800)));
    let wide = request(&["a", "b"], &between(0, 900));
    let start = begin(&cache, &fake, &wide);
    assert!(matches!(&start, Start::Combine { parts, remainder: Some(_) } if parts.len() == 2));
    // No room for anything: what is read stays.
    budget.set_limit(1);
    cache.release(u64::MAX);
    cache.clear();
    assert_eq!(answer(start, 3).unwrap(), brute_force(&wide.predicate));
    cache.clear();
    assert!(cache.reserved_bytes() < 2000, "{} bytes left", cache.reserved_bytes());
}

/// A set of values between `value(0)` and `value(19)`: ranges open and closed, lists, gaps.
fn random_domain(random: &mut Random, value: &dyn Fn(u64) -> Scalar) -> Domain {
    let bound = |random: &mut Random, at: u64| match random.below_u64(8) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(value(at)),
        _ => Bound::Included(value(at)),
    };
    let range = |random: &mut Random| {
        let low = random.below_u64(16);
        let high = low + 1 + random.below_u64(8);
        let (low, high) = (bound(random, low), bound(random, high));
        Domain::interval(low, high)
    };
    match random.below_u64(8) {
        0 => Domain::points((0..3).map(|_| value(random.below_u64(20)))),
        1 => range(random).union(&range(random)),
        2 => range(random).complement(),
        _ => range(random),
    }
}

/// A question about one field or two; all questions of a sequence are about the same.
fn random_predicate(random: &mut Random, kind: u64) -> Arc<Conjunction> {
    let of_a = |random: &mut Random| random_domain(random, &|at| Scalar::Int(i128::from(at) * 50));
    let predicate = Conjunction::all();
    Arc::new(match kind {
        0 => predicate.and(path("a"), of_a(random)),
        1 => {
            let domain = random_domain(random, &|at| Scalar::Int(i128::from(at) * 100));
            let with_null = random.one_in(2);
            predicate.and(path("s.z"), if with_null { domain.union(&Domain::null()) } else { domain })
        }
        2 => {
            let text = |at: u64| Scalar::Utf8(format!("{:0>1000}", at * 50).into());
            predicate.and(path("w"), random_domain(random, &text))
        }
        // The other field has one of three domains, so that items often agree in it.
        _ => {
            let below = Bound::Excluded(Scalar::Int([400, 700, 1000][random.below_u64(3) as usize]));
            predicate.and(path("a"), of_a(random)).and(path("b"), Domain::interval(Bound::Unbounded, below))
        }
    })
}

#[test]
fn random_requests_are_answered_like_scans_with_fewer_of_them() {
    let (mut combined_count, mut in_part_count) = (0, 0);
    let (mut together_count, mut apart_count) = (0, 0);
    for seed in 0..40 {
        let kind = seed % 4;
        let limit_bytes = [4 << 20, 30_000, 64 << 20][seed as usize % 3];
        let names: &[&str] = [&["a", "b"][..], &["b", "s.z"], &["b", "w"], &["a", "b"]][kind as usize];
        let scans_of = |may_skip: bool| {
            let mut random = Random::new(seed);
            let (cache, budget) = timed_cache(limit_bytes);
            let fake = Arc::new(Fake { morsel_records: 1 + random.below_u64(90), ..Fake::default() });
            let mut counts = (0, 0);
            for step in 0..30 {
                let predicate = random_predicate(&mut random, kind);
                let asked = SelectRequest { may_skip, ..request(names, &predicate) };
                let start = begin(&cache, &fake, &asked);
                match &start {
                    Start::Combine { remainder: None, .. } => counts.0 += 1,
                    Start::Combine { remainder: Some(_), .. } => counts.1 += 1,
                    _ => {}
                }
                let found = answer(start, 1 + random.below_u64(3) as usize).unwrap();
                assert_eq!(found, brute_force(&predicate), "seed {seed}, step {step}: {predicate}");
                assert!(budget.reserved_bytes() <= limit_bytes, "seed {seed}");
            }
            (scan_count(&fake), counts)
        };
        // Requests that may skip bad records are never combined, and are the same otherwise.
        let (apart, (none, _)) = scans_of(true);
        let (together, (whole, in_part)) = scans_of(false);
        assert_eq!(none, 0);
        together_count += together;
        apart_count += apart;
        combined_count += whole;
        in_part_count += in_part;
    }
    assert!(together_count * 10 < apart_count * 9, "{together_count} scans instead of {apart_count}");
    assert!(combined_count > 100 && in_part_count > 100, "{combined_count} without a scan, {in_part_count} with one");
}
