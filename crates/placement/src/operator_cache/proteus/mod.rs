//! Proteus: least recently used, where every item from CSV goes before any from JSON.
//!
//! The formula: the key is `(k, time of the last use)`, lowest first, with `k = 0` for CSV and `k = 1` for JSON. The
//! assumption behind it, that parsing JSON is always the dearer work, is the one that ReCache replaces by
//! measurements.
//!
//! Knows nothing of costs, so it takes every newcomer that fits, and what an item is worth is its history without
//! ageing. Keeps no state. Pure; O(n log n).
//!
//! Paper: Karpathiotakis, Alagiannis, Ailamaki, "Fast queries over heterogeneous data through engine customization"
//! (PVLDB 2016), as ReCache describes it: §2, "LRU for eviction with the caveat that JSON caching is assumed to be
//! always costlier than CSV", and §6.3. Deviations: none known; the degree of eagerness is no part of eviction.

#[cfg(test)]
mod tests;

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, SourceKind, lowest_first};

/// Evicts items from CSV, the least recently used first, then items from JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proteus;

impl EvictionPolicy for Proteus {
    fn name(&self) -> &'static str {
        "proteus"
    }

    /// `k`: 0 for CSV, 1 for JSON. Of equal scores the least recently used goes first, under every policy.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        match item.kind {
            SourceKind::Csv => 0.0,
            SourceKind::Json => 1.0,
        }
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        lowest_first(self, state, items, bytes_to_free)
    }

    fn worth_s(&self, _state: &PolicyState, item: &ItemMeasurements) -> f64 {
        item.history_s()
    }

    fn after_refusal(&self, _state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        None
    }
}
