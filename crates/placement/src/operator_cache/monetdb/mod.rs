//! MonetDB's recycler: the benefit policy, a knapsack of cost times reuses.
//!
//! The formula, for an item of cost `t + c` seconds that was used `n` times, the use that built it included:
//!
//! ```text
//! benefit = (t + c) · weight       weight = n − 1 if n > 1, else 0.1
//! ```
//!
//! What stays is a knapsack as large as what need not go: items are put into it in descending order of benefit over
//! size, those that no longer fit are left out. Greedy alone can be arbitrarily far from the best knapsack; so if the
//! one most beneficial item that fits is worth more than all that greedy packed, that item stays instead. Either way
//! at least half of the benefit that could have stayed does: greedy and the first item that it leaves out are together
//! worth more than any knapsack, and both are bounded by the better of the two.
//!
//! The weight of 0.1 is also the bound for new entries: an item without a reuse counts a tenth of one with a single
//! reuse, however dear it was, but not for nothing.
//!
//! Paper: Ivanova, Kersten, Nes, Gonçalves, "An architecture for recycling intermediates in a column-store"
//! (SIGMOD 2009, TODS 2010), the benefit policy with all intermediates admitted; a baseline of ReCache §6.3.
//! Deviations:
//! - The weight counts reuses by all queries; the original counts only an intermediate with reuses across queries, and
//!   one query uses an item here at most once for each time it names the file.
//! - The original protects the intermediates of the running query. The cache never offers items in use.
//! - When the single item wins, the rest of the knapsack is filled greedily; the original evicts everything else.
//! - Who keeps items remembers the uses of those that went: one that comes again is not a new one.
//! - Only leaves of the lineage may go in the original; items here have no lineage.
//!
//! Keeps no state. Pure; O(n log n).

#[cfg(test)]
mod tests;

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, Victim, eviction_order};

/// Evicts what does not belong to the most valuable knapsack, approximately.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonetDb;

/// Weight of an item that was not reused.
const UNUSED_WEIGHT: f64 = 0.1;

/// `(t + c) · weight`, seconds.
fn benefit(item: &ItemMeasurements) -> f64 {
    let weight = if item.use_count > 1 { (item.use_count - 1) as f64 } else { UNUSED_WEIGHT };
    item.rebuild_s() * weight
}

impl EvictionPolicy for MonetDb {
    fn name(&self) -> &'static str {
        "monetdb"
    }

    /// Benefit over size, seconds per byte: the order in which items are left out, but for those that fit a gap.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        benefit(item) / item.size_bytes.max(1) as f64
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        let mut eviction = Eviction { state, ..Eviction::default() };
        if bytes_to_free == 0 {
            return eviction;
        }
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).fold(0, u64::saturating_add);
        let capacity_bytes = total_bytes.saturating_sub(bytes_to_free);
        let mut order: Vec<(f64, &ItemMeasurements)> = items.iter().map(|item| (self.score(item), item)).collect();
        order.sort_unstable_by(|a, b| eviction_order(*b, *a));
        let mut kept = pack(&order, capacity_bytes, None);
        let greedy_s: f64 =
            order.iter().zip(&kept).filter(|(_, kept)| **kept).map(|((_, item), _)| benefit(item)).sum();
        // The last of equals is the one that the order of eviction spares longest.
        let best = (0..order.len())
            .rev()
            .filter(|&index| order[index].1.size_bytes <= capacity_bytes)
            .max_by(|&a, &b| benefit(order[a].1).total_cmp(&benefit(order[b].1)));
        if let Some(best) = best
            && benefit(order[best].1) > greedy_s
        {
            kept = pack(&order, capacity_bytes, Some(best));
        }
        for ((score, item), _) in order.iter().zip(&kept).rev().filter(|(_, kept)| !**kept) {
            eviction.freed_bytes = eviction.freed_bytes.saturating_add(item.size_bytes);
            eviction.victims.push(Victim { id: item.id, score: *score, size_bytes: item.size_bytes });
        }
        eviction
    }

    /// The benefit.
    fn worth_s(&self, _state: &PolicyState, item: &ItemMeasurements) -> f64 {
        benefit(item)
    }

    fn after_refusal(&self, _state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        None
    }
}

/// Which items are kept: `first`, then in the given order whatever still fits.
fn pack(order: &[(f64, &ItemMeasurements)], capacity_bytes: u64, first: Option<usize>) -> Vec<bool> {
    let mut kept = vec![false; order.len()];
    let mut left_bytes = capacity_bytes;
    for index in first.into_iter().chain(0..order.len()) {
        let size_bytes = order[index].1.size_bytes;
        if !kept[index] && size_bytes <= left_bytes {
            left_bytes -= size_bytes;
            kept[index] = true;
        }
    }
    kept
}
