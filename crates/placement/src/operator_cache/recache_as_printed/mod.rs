//! ReCache's Algorithm 1 to the letter: the baseline that the corrected one ([`super::recache`]) is measured against.
//!
//! The formula: `H(p) = L(p) + b(p)`, `b(p) = n · (t + c − (s + l)) / log₂ B`, where `n` is how many times the item was
//! *re*used: 0 for a new one. Items leave in ascending order of `H` into a set `C` while `Diff ≥ 0`, each of them
//! raising `L` to its `H`; then, while `Diff ≥ 0`, the largest of `C` is evicted, and after each the smallest of `C`
//! that is at least as large as what is still missing, whereupon the eviction ends.
//!
//! What that does and the corrected one does not:
//! - An exact fit is not enough: both loops go on at `Diff = 0`, so one item too many goes.
//! - When the largest is enough (`Diff < 0`), the smallest of `C` goes too, needlessly.
//! - `L` rises by candidates that are spared in the end, which ages every item.
//! - A new item has benefit 0 whatever it cost, so among items not used since they are in order of their baseline
//!   alone.
//! - Benefits of items that are slower to reuse than to compute are negative.
//! - Every newcomer is taken: the print's rule for items with a history only shortens the way to eager caching.
//!
//! Paper: ReCache §5.1, Algorithm 1. Deviations, without which it could not run here:
//! - `Diff` starts at the bytes that must be free for the newcomer. The print looks at the cache's size alone and adds
//!   the newcomer on top, which breaks the limit. `EVICT` runs only if the size is exceeded, so nothing goes for
//!   nothing.
//! - log B is at least 1: the print divides by zero at one byte. The base, which it leaves open, is 2.
//! - `L` does not fall below 0, where it starts, when benefits are negative, as `if L ≤ H(p)` has it anyway.
//! - Who keeps items remembers the uses of those that went: one that comes again is not a new one.
//! - Equal keys: the least recently used first, then the lower id; equal sizes: the one with the lower key.
//!
//! Pure; O(n log n).

#[cfg(test)]
mod tests;

use super::recache::log_size;
use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, Victim, eviction_order};

/// Algorithm 1 of ReCache as it is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReCacheAsPrinted;

/// `b(p) = n · (t + c − (s + l)) / log B`, in seconds per log₂ byte; negative if reuse doesn't pay.
fn benefit(item: &ItemMeasurements) -> f64 {
    let reuse_count = item.use_count.saturating_sub(1) as f64;
    let reuse_s = (item.reuse_scan_ns as f64 + item.lookup_ns as f64) * 1e-9;
    reuse_count * (item.rebuild_s() - reuse_s) / log_size(item.size_bytes)
}

impl EvictionPolicy for ReCacheAsPrinted {
    fn name(&self) -> &'static str {
        "recache-as-printed"
    }

    /// `H(p) = L(p) + b(p)`.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        item.baseline + benefit(item)
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        let mut eviction = Eviction { state, ..Eviction::default() };
        if bytes_to_free == 0 {
            return eviction;
        }
        let mut order: Vec<(f64, &ItemMeasurements)> = items.iter().map(|item| (self.score(item), item)).collect();
        order.sort_unstable_by(|a, b| eviction_order(*a, *b));
        let mut candidates: Vec<Victim> = Vec::new();
        let mut diff_bytes = i128::from(bytes_to_free);
        for (key, item) in order {
            if diff_bytes < 0 {
                break;
            }
            diff_bytes -= i128::from(item.size_bytes);
            candidates.push(Victim { id: item.id, score: key, size_bytes: item.size_bytes });
            eviction.state.baseline = eviction.state.baseline.max(key);
        }
        // Ascending by size; of equal sizes the one with the lower key is the last, so that it goes first.
        candidates.reverse();
        candidates.sort_by_key(|candidate| candidate.size_bytes);
        let mut diff_bytes = i128::from(bytes_to_free);
        while diff_bytes >= 0
            && let Some(largest) = candidates.pop()
        {
            diff_bytes -= i128::from(largest.size_bytes);
            eviction.victims.push(largest);
            let first_enough = candidates.partition_point(|candidate| i128::from(candidate.size_bytes) < diff_bytes);
            if let Some(enough) = candidates.get(first_enough) {
                let size_bytes = enough.size_bytes;
                let beyond = candidates.partition_point(|candidate| candidate.size_bytes <= size_bytes);
                eviction.victims.push(candidates.swap_remove(beyond - 1));
                break;
            }
        }
        eviction.freed_bytes = eviction.victims.iter().map(|victim| victim.size_bytes).sum();
        eviction
    }

    /// What is left of the benefit, the size's weight taken out again, as for the corrected algorithm.
    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64 {
        (self.score(item) - state.baseline).max(0.0) * log_size(item.size_bytes)
    }

    fn after_refusal(&self, _state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        None
    }
}
