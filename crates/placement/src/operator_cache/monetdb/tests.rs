//! The formula by hand, and the knapsack against the best of all.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::SourceKind;
use crate::operator_cache::trace::random::{check_eviction, check_none_superfluous, random_item};

const SECOND_NS: u64 = 1_000_000_000;

fn item(id: u64, use_count: u64, seconds: u64, size_bytes: u64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: SourceKind::Csv,
        use_count,
        execute_ns: seconds * SECOND_NS,
        cache_ns: 0,
        reuse_scan_ns: 0,
        lookup_ns: 0,
        size_bytes,
        baseline: 0.0,
        last_use: 0,
    }
}

fn victims(items: &[ItemMeasurements], bytes_to_free: u64) -> Vec<u64> {
    let eviction = MonetDb.choose(PolicyState::default(), items, bytes_to_free);
    eviction.victims.iter().map(|victim| victim.id).collect()
}

#[test]
fn benefit_is_cost_times_reuses_and_a_tenth_of_the_cost_without_any() {
    let state = PolicyState::default();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(MonetDb.worth_s(&state, &item(1, 4, 10, 100)), 30.0));
    assert!(close(MonetDb.worth_s(&state, &item(1, 2, 10, 100)), 10.0));
    assert!(close(MonetDb.worth_s(&state, &item(1, 1, 10, 100)), 1.0));
    assert!(close(MonetDb.worth_s(&state, &item(1, 0, 10, 100)), 1.0));
    assert!(close(MonetDb.score(&item(1, 4, 10, 100)), 0.3));
    // Nine times as dear, never reused.
    assert_eq!(victims(&[item(1, 2, 10, 100), item(2, 1, 90, 100)], 1), [2]);
    assert_eq!(victims(&[item(1, 2, 10, 100), item(2, 1, 110, 100)], 1), [1]);
}

#[test]
fn an_item_that_does_not_fit_is_left_out_and_smaller_ones_behind_it_are_kept() {
    // Per byte 3, 1.1 and 1; of 60 bytes the first takes 10, the second does not fit, the third does.
    let items = [item(1, 2, 30, 10), item(2, 2, 66, 60), item(3, 2, 40, 40)];
    assert_eq!(victims(&items, 50), [2]);
}

#[test]
fn one_large_item_stays_if_it_is_worth_more_than_all_that_greedy_packs() {
    // Per byte 2 and 1: greedy would keep the first, worth 20, and has no room for the second, worth 100.
    let items = [item(1, 2, 20, 10), item(2, 2, 100, 100)];
    assert_eq!(victims(&items, 10), [1]);
    // Beside it the knapsack is filled up.
    let items = [item(1, 2, 20, 10), item(2, 2, 100, 100), item(3, 2, 1, 5)];
    assert_eq!(victims(&items, 10), [1]);
}

#[test]
fn at_least_half_of_the_benefit_that_could_stay_does() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(11)).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2).min(random.magnitude(1.0, 1e10));
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        let eviction = MonetDb.choose(PolicyState::default(), &items, bytes_to_free);
        check_eviction(&items, bytes_to_free, &eviction, &context);
        if bytes_to_free <= total_bytes {
            check_none_superfluous(bytes_to_free, &eviction, &context);
        }
        let capacity_bytes = total_bytes.saturating_sub(bytes_to_free);
        let best_s = (0..1_u32 << items.len())
            .map(|set| items.iter().enumerate().filter(move |(index, _)| set >> index & 1 == 1).map(|(_, item)| item))
            .filter(|set| set.clone().map(|item| item.size_bytes).sum::<u64>() <= capacity_bytes)
            .map(|set| set.map(benefit).sum::<f64>())
            .fold(0.0, f64::max);
        let kept_s: f64 =
            items.iter().filter(|item| eviction.victims.iter().all(|victim| victim.id != item.id)).map(benefit).sum();
        assert!(kept_s >= 0.5 * best_s * (1.0 - 1e-9), "{kept_s} s of {best_s} s, {context}");
        let mut shuffled = items.clone();
        shuffled.reverse();
        assert_eq!(MonetDb.choose(PolicyState::default(), &shuffled, bytes_to_free), eviction, "{context}");
    }
}
