//! ReCache's cost-based eviction: Algorithm 1, corrected.
//!
//! Greedy-dual: an item's key `H(p) = L(p) + b(p)` is its benefit above the baseline at its last use. Items leave in
//! ascending order of `H`, and the baseline `L` rises to the keys of those that left, so that an item that isn't used
//! loses ground to those that are. Among the items that a plain greedy-dual would evict, a second pass looks for few
//! large ones that free enough, and spares the rest.
//!
//! Owns the order of eviction; not the benefit metric (`benefit`), nor what may be evicted (the cache leaves items
//! in use out). Pure.
//!
//! Paper: ReCache §5.1, Algorithm 1. Deviations from the print:
//! - Room is made for the incoming bytes before they are admitted; the print evicts when the cache is already over
//!   its limit, and then adds the new item on top.
//! - Both loops stop as soon as enough is free; the print goes on while `Diff ≥ 0`, one item too far when the fit is
//!   exact, and after the largest item looks for one more even if nothing is missing any more.
//! - `L` rises by real victims only; the print raises it by every candidate, those spared by the second pass included,
//!   which ages every item for nothing.
//! - A new item counts as used once; with the print's `n = 0` it would be the next victim whatever it cost.
//! - A benefit is never negative, and log B is at least 1 (see `benefit`).
//! - A newcomer that is turned away because it is worth less than what it would displace counts as a victim that
//!   left at once, as in greedy-dual with bypassing: `L` rises by its benefit. Without that, items that were used often
//!   and never will be again could hold their place for ever (see [`super::admission`]).
//! - Items go in parts, and newcomers are kept in part, where that leaves more of what is worth most for its bytes
//!   (see [`super::heads`]).
//! - Equal keys: the least recently used goes first, then the lower id; equal sizes: the one evicted first by key.
//!
//! As in the paper `H` is recomputed from the measurements at each decision, never stored. Cost: O(n) to build a heap,
//! O(log n) for each candidate.

mod benefit;
#[cfg(test)]
mod tests;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

pub use benefit::{benefit, log_size};

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, Victim, eviction_order};

/// Algorithm 1 of ReCache, corrected as the module says.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReCache;

impl EvictionPolicy for ReCache {
    fn name(&self) -> &'static str {
        "recache"
    }

    /// `H(p) = L(p) + b(p)`.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        item.baseline + benefit(item)
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        let candidates = self.candidates(items, bytes_to_free);
        let victims = few_large(candidates, bytes_to_free);
        let baseline = victims.iter().map(|victim| victim.score).fold(state.baseline, f64::max);
        let freed_bytes = victims.iter().map(|victim| victim.size_bytes).sum();
        Eviction { victims, state: PolicyState { baseline, ..state }, freed_bytes }
    }

    /// What is left of the benefit, the size's weight taken out again: `(H(p) - L) · log B`. Right after a use that is
    /// `n · (t + c - s - l)`; it falls as others are evicted.
    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64 {
        (self.score(item) - state.baseline).max(0.0) * log_size(item.size_bytes)
    }

    fn after_refusal(&self, state: PolicyState, newcomer: &ItemMeasurements) -> Option<PolicyState> {
        Some(PolicyState { baseline: state.baseline + benefit(newcomer), ..state })
    }

    fn divides_items(&self) -> bool {
        true
    }
}

impl ReCache {
    /// First pass: what plain greedy-dual would evict, in that order.
    fn candidates(&self, items: &[ItemMeasurements], bytes_to_free: u64) -> Vec<Victim> {
        let mut heap: BinaryHeap<Reverse<Keyed<'_>>> =
            items.iter().map(|item| Reverse(Keyed { key: self.score(item), item })).collect();
        let mut candidates = Vec::new();
        let mut freed_bytes = 0_u64;
        while freed_bytes < bytes_to_free
            && let Some(Reverse(Keyed { key, item })) = heap.pop()
        {
            freed_bytes = freed_bytes.saturating_add(item.size_bytes);
            candidates.push(Victim { id: item.id, score: key, size_bytes: item.size_bytes });
        }
        candidates
    }
}

/// Second pass: the largest candidates, until one more item, the smallest that does, frees the rest.
///
/// No victim is superfluous: without the last too little is free, and each of the others is at least as large as it.
fn few_large(mut candidates: Vec<Victim>, bytes_to_free: u64) -> Vec<Victim> {
    // Ascending by size. The sort is stable, so of equal sizes the one with the higher key comes later; reversing
    // first makes it the one with the lower key, which is to go first.
    candidates.reverse();
    candidates.sort_by_key(|candidate| candidate.size_bytes);
    let mut victims = Vec::new();
    let mut missing_bytes = bytes_to_free;
    while missing_bytes > 0
        && let Some(largest) = candidates.pop()
    {
        missing_bytes = missing_bytes.saturating_sub(largest.size_bytes);
        victims.push(largest);
        if missing_bytes == 0 {
            break;
        }
        let first_enough = candidates.partition_point(|candidate| candidate.size_bytes < missing_bytes);
        if let Some(enough) = candidates.get(first_enough) {
            // Of equal sizes the last in the list has the lowest key.
            let size_bytes = enough.size_bytes;
            let same_size = candidates.partition_point(|candidate| candidate.size_bytes <= size_bytes);
            victims.push(candidates.swap_remove(same_size - 1));
            break;
        }
    }
    victims
}

/// An item in the order of eviction.
struct Keyed<'a> {
    key: f64,
    item: &'a ItemMeasurements,
}

impl Ord for Keyed<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        eviction_order((self.key, self.item), (other.key, other.item))
    }
}

impl PartialOrd for Keyed<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Keyed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Keyed<'_> {}
