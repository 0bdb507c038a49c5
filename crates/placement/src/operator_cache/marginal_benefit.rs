//! What a cache loses if bytes are taken from it: its bid when the budget is divided.

use std::collections::HashMap;

use super::{EvictionPolicy, ItemMeasurements, PolicyState};

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
