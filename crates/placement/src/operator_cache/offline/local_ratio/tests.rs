//! An example by hand, and the bound against the best plan of all.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::offline::future::next_requests;
use crate::operator_cache::offline::tests::{best_lost_s, check_plan, request};

/// Seconds that the plan loses.
fn lost_s(requests: &[Request], plan: &[bool]) -> f64 {
    next_requests(requests)
        .into_iter()
        .zip(plan)
        .filter_map(|(next, kept)| if *kept { None } else { next.map(|next| requests[next].saving_s()) })
        .sum()
}

#[test]
fn the_dearer_of_two_that_do_not_fit_together_is_kept_and_gaps_are_filled() {
    // Item 1 (10 bytes, 5 s) and item 2 (10 bytes, 3 s) overlap in a cache of 15; item 3 (5 bytes, 1 s) fits beside.
    let (one, two, three) = (request(1, 10, 5), request(2, 10, 3), request(3, 5, 1));
    let requests = [&one, &two, &three, &one, &three, &two].map(Clone::clone);
    assert_eq!(LocalRatio.plan(&requests, 15), [true, false, true, false, false, false]);
    // A large item that is dear for its bytes outweighs two small ones that are together worth less.
    let (large, small) = (request(9, 20, 10), [request(7, 10, 4), request(8, 10, 4)]);
    let requests = [&large, &small[0], &small[1], &large, &small[0], &small[1]].map(Clone::clone);
    assert_eq!(LocalRatio.plan(&requests, 20), [true, false, false, false, false, false]);
}

#[test]
fn no_plan_loses_more_than_four_times_what_the_best_does() {
    let mut worst = 1.0_f64;
    for seed in 0..800 {
        let mut random = Random::new(seed);
        let items: Vec<Request> = (0..1 + random.below_u64(6))
            .map(|item| request(item, random.below_u64(12), random.below_u64(20)))
            .collect();
        let requests: Vec<Request> =
            (0..random.below_u64(14)).map(|_| items[random.below_u64(items.len() as u64) as usize].clone()).collect();
        let limit_bytes = random.below_u64(25);
        let plan = LocalRatio.plan(&requests, limit_bytes);
        let context = format!("seed {seed}: {limit_bytes} bytes for {requests:?}");
        check_plan(&requests, &plan, limit_bytes, &context);
        let (lost_s, best_s) = (lost_s(&requests, &plan), best_lost_s(&requests, limit_bytes));
        assert!(lost_s <= 4.0 * best_s + 1e-9, "{lost_s} s lost, {best_s} s at best, {context}");
        if best_s > 0.0 {
            worst = worst.max(lost_s / best_s);
        }
    }
    assert!(worst > 1.0, "the instances are too easy to tell");
}

#[test]
fn what_fits_is_all_kept_and_what_never_fits_is_not() {
    let requests: Vec<Request> = [1, 2, 1, 2].map(|item| request(item, item * 10, 1)).to_vec();
    assert_eq!(LocalRatio.plan(&requests, 30), [true, true, false, false]);
    assert_eq!(LocalRatio.plan(&requests, 19), [true, false, false, false]);
    assert_eq!(LocalRatio.plan(&requests, 0), [false; 4]);
    assert_eq!(LocalRatio.plan(&[], 10), [false; 0]);
}
