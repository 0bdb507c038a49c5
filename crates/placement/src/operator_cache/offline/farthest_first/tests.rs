//! The order by hand, and the least misses of all where that is promised.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::offline::replay_plan;
use crate::operator_cache::offline::tests::{best_spent_s, check_plan, requests};

#[test]
fn what_is_needed_again_last_goes_first_even_if_it_came_just_now() {
    let kept = |items: &[u64], limit_bytes| FarthestFirst.plan(&requests(items), limit_bytes);
    // Ten bytes an item, room for two: 2 is needed after 1 and 3.
    assert_eq!(kept(&[1, 2, 3, 1, 3, 2], 20), [true, false, true, false, false, false]);
    // 3 itself is needed last.
    assert_eq!(kept(&[1, 2, 3, 1, 2, 3], 20), [true, true, false, false, false, false]);
    assert_eq!(kept(&[1, 1, 1], 9), [false, false, false]);
}

#[test]
fn items_of_one_size_and_cost_are_missed_as_seldom_as_can_be() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let items: Vec<u64> = (0..random.below_u64(13)).map(|_| random.below_u64(5)).collect();
        let requests = requests(&items);
        let limit_bytes = random.below_u64(50);
        let plan = FarthestFirst.plan(&requests, limit_bytes);
        check_plan(&requests, &plan, limit_bytes, &format!("seed {seed}"));
        let (spent_s, best_s) = (replay_plan(&requests, &plan).spent_s, best_spent_s(&requests, limit_bytes));
        assert!(
            (spent_s - best_s).abs() < 1e-9,
            "seed {seed}: {spent_s} s, best {best_s} s, {items:?} in {limit_bytes}"
        );
    }
}
