//! Least recently used first: the baseline every other policy is measured against.
//!
//! Knows nothing of costs, so it takes every newcomer that fits, and what an item is worth is its history without
//! ageing. Keeps no state. Paper: the baseline of ReCache §5.1 and §6.3. Pure; O(n log n).

#[cfg(test)]
mod tests;

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, Victim, eviction_order};

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
        let mut order: Vec<&ItemMeasurements> = items.iter().collect();
        // Not by score alone: above 2^53 neighbouring times are one float, and `eviction_order` tells them apart.
        order.sort_unstable_by(|a, b| eviction_order((self.score(a), a), (self.score(b), b)));
        let mut eviction = Eviction { state, ..Eviction::default() };
        for item in order {
            if eviction.freed_bytes >= bytes_to_free {
                break;
            }
            eviction.freed_bytes = eviction.freed_bytes.saturating_add(item.size_bytes);
            eviction.victims.push(Victim { id: item.id, score: self.score(item), size_bytes: item.size_bytes });
        }
        eviction
    }

    fn worth_s(&self, _state: &PolicyState, item: &ItemMeasurements) -> f64 {
        item.history_s()
    }

    fn after_refusal(&self, _state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        None
    }
}
