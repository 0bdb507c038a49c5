//! Least recently used first: the baseline every other policy is measured against.
//!
//! Knows nothing of costs, so it takes every newcomer that fits, and what an item is worth is its history without
//! ageing. Keeps no state. Paper: the baseline of ReCache §5.1 and §6.3. Pure; O(n log n).

#[cfg(test)]
mod tests;

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, lowest_first};

/// Evicts the least recently used items until enough is free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

impl EvictionPolicy for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    /// The logical time of the last use.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        item.last_use as f64
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        // Above 2^53 neighbouring times are one score; the order of eviction then looks at the times themselves.
        lowest_first(self, state, items, bytes_to_free)
    }

    fn worth_s(&self, _state: &PolicyState, item: &ItemMeasurements) -> f64 {
        item.history_s()
    }

    fn after_refusal(&self, _state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        None
    }
}
