//! What a cache loses if bytes are taken from it: its bid when the budget is divided.

use std::collections::HashMap;

use super::demand::HORIZON_QUERIES;
use super::{EvictionPolicy, ItemMeasurements, PolicyState};
use crate::page_cache::window::DEFAULT_CAPACITY;

/// Seconds of query time lost per byte if `bytes` were taken away now: the worth of the victims the policy would
/// pick, over the bytes asked for (or over what can be freed, if that is less).
///
/// Victims are whole items, so a small request that costs a large item is dear per byte, and says so. Taking nothing
/// is priced as taking one byte. A cache with nothing to give, for lack of items or because all are in use, answers
/// infinity: ask it last.
pub fn marginal_benefit(
    policy: &dyn EvictionPolicy,
    state: &PolicyState,
    items: &[ItemMeasurements],
    bytes: u64,
) -> f64 {
    let asked_bytes = bytes.max(1);
    let eviction = policy.choose(*state, items, asked_bytes);
    if eviction.freed_bytes == 0 {
        return f64::INFINITY;
    }
    let lost_s = victims_worth_s(policy, state, items, &eviction);
    lost_s / asked_bytes.min(eviction.freed_bytes) as f64
}

/// What a cache whose items are worth so much bids for a byte: in seconds that pass, where those of the items are of all
/// of `thread_count` threads together, and over as many queries as the buffer pool bids for, where those of the items are
/// of all that are looked ahead for.
pub fn elapsed_bid(worth_s_per_byte: f64, thread_count: usize) -> f64 {
    worth_s_per_byte / thread_count.max(1) as f64 * (DEFAULT_CAPACITY as f64 / HORIZON_QUERIES)
}

/// Seconds that the victims are still worth together.
pub(super) fn victims_worth_s(
    policy: &dyn EvictionPolicy,
    state: &PolicyState,
    items: &[ItemMeasurements],
    eviction: &super::Eviction,
) -> f64 {
    if eviction.victims.is_empty() {
        return 0.0;
    }
    let by_id: HashMap<u64, &ItemMeasurements> = items.iter().map(|item| (item.id, item)).collect();
    eviction.victims.iter().filter_map(|victim| by_id.get(&victim.id)).map(|item| policy.worth_s(state, item)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator_cache::SourceKind;
    use crate::operator_cache::lru::Lru;
    use crate::operator_cache::recache::ReCache;

    fn item(id: u64, size_bytes: u64, execute_ns: u64) -> ItemMeasurements {
        ItemMeasurements {
            id,
            kind: SourceKind::Json,
            use_count: 2,
            execute_ns,
            cache_ns: 0,
            reuse_scan_ns: 0,
            lookup_ns: 0,
            size_bytes,
            baseline: 0.0,
            last_use: id,
        }
    }

    const SECOND_NS: u64 = 1_000_000_000;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b
    }

    #[test]
    fn the_price_is_that_of_the_items_the_policy_would_evict() {
        let items = [item(1, 1000, 100 * SECOND_NS), item(2, 1000, SECOND_NS)];
        let state = PolicyState::default();
        // ReCache gives the cheap item up, LRU the older one; each was used twice.
        assert!(close(marginal_benefit(&ReCache, &state, &items, 1000), 2.0 / 1000.0));
        assert!(close(marginal_benefit(&Lru, &state, &items, 1000), 200.0 / 1000.0));
        assert!(close(marginal_benefit(&ReCache, &state, &items, 2000), 202.0 / 2000.0));
    }

    #[test]
    fn a_small_request_that_costs_a_large_item_is_dear() {
        let items = [item(1, 1000, SECOND_NS)];
        assert!(close(marginal_benefit(&ReCache, &PolicyState::default(), &items, 10), 2.0 / 10.0));
        assert!(close(marginal_benefit(&ReCache, &PolicyState::default(), &items, 0), 2.0));
        assert!(close(marginal_benefit(&ReCache, &PolicyState::default(), &items, 5000), 2.0 / 1000.0));
    }

    #[test]
    fn a_cache_with_nothing_to_give_is_asked_last() {
        assert_eq!(marginal_benefit(&ReCache, &PolicyState::default(), &[], 10), f64::INFINITY);
        assert_eq!(marginal_benefit(&Lru, &PolicyState::default(), &[item(1, 0, SECOND_NS)], 10), f64::INFINITY);
    }

    #[test]
    fn a_bid_is_of_seconds_that_pass_and_of_as_many_queries_as_those_of_other_caches() {
        assert_eq!(elapsed_bid(32.0, 8), 1.0, "a quarter of the queries, an eighth of the time");
        assert_eq!(elapsed_bid(f64::INFINITY, 8), f64::INFINITY);
    }

    #[test]
    fn items_that_have_lost_their_worth_are_free_to_take() {
        let aged = PolicyState { baseline: 100.0, now: 0 };
        assert_eq!(marginal_benefit(&ReCache, &aged, &[item(1, 1000, SECOND_NS)], 500), 0.0);
    }
}
