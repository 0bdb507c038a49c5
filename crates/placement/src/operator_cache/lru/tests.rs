//! The order of eviction, and where it stops.

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::trace::random::{check_eviction, random_item};

#[test]
fn the_least_recently_used_go_first_until_enough_is_free() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(30)).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2);
        let state = PolicyState { baseline: 0.5, now: 0 };
        let eviction = Lru.choose(state, &items, bytes_to_free);
        let context = format!("seed {seed}, {bytes_to_free} bytes of {items:?}");
        check_eviction(&items, bytes_to_free, &eviction, &context);
        assert_eq!(eviction.state, state, "{context}");
        let age_of = |id: u64| items.iter().find(|item| item.id == id).map(|item| (item.last_use, item.id));
        let oldest_kept = items
            .iter()
            .filter(|item| eviction.victims.iter().all(|victim| victim.id != item.id))
            .map(|item| (item.last_use, item.id))
            .min();
        if let Some(last) = eviction.victims.last() {
            assert!(oldest_kept.is_none_or(|kept| age_of(last.id) < Some(kept)), "{context}");
            assert!(eviction.freed_bytes - last.size_bytes < bytes_to_free, "one too many, {context}");
        }
    }
}

#[test]
fn times_too_large_for_a_float_are_still_told_apart() {
    let used_at = |id, last_use| ItemMeasurements { last_use, size_bytes: 1, ..random_item(&mut Random::new(1), id) };
    let items = [used_at(1, u64::MAX), used_at(2, u64::MAX - 1)];
    assert_eq!(Lru.choose(PolicyState::default(), &items, 1).victims[0].id, 2);
}
