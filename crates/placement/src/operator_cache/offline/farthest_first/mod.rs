//! Farthest-first: what is asked for again last goes first.
//!
//! The formula: the key of an item is the number of the next request for it; the highest goes first, the item just
//! asked for included, until the rest fits. Items that nobody asks for again are not kept.
//!
//! The least misses there can be if all items are equally large and every miss costs the same. With sizes or costs that
//! differ it is a heuristic without a bound. Pure; O(n log n) for n requests.
//!
//! Paper: Belady, "A study of replacement algorithms for a virtual-storage computer" (IBM Systems Journal 1966), one of
//! the two offline baselines of ReCache §6.3. Deviation: an item may be passed on without being kept.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::OfflinePolicy;
use super::future::next_requests;
use crate::operator_cache::trace::Request;

/// Evicts the item that is needed again last.
#[derive(Clone, Copy, Debug, Default)]
pub struct FarthestFirst;

impl OfflinePolicy for FarthestFirst {
    fn name(&self) -> &'static str {
        "farthest-first"
    }

    fn plan(&self, requests: &[Request], limit_bytes: u64) -> Vec<bool> {
        let mut plan = vec![false; requests.len()];
        // Held items by their next request, with the latest one before.
        let mut held: BTreeMap<usize, usize> = BTreeMap::new();
        let mut held_bytes: u64 = 0;
        for (index, next) in next_requests(requests).into_iter().enumerate() {
            if let Some(latest) = held.remove(&index) {
                held_bytes -= requests[latest].size_bytes;
            }
            let size_bytes = requests[index].size_bytes;
            let Some(next) = next else { continue };
            if size_bytes > limit_bytes {
                continue;
            }
            held.insert(next, index);
            held_bytes += size_bytes;
            plan[index] = true;
            while held_bytes > limit_bytes
                && let Some((_, latest)) = held.pop_last()
            {
                held_bytes -= requests[latest].size_bytes;
                plan[latest] = false;
            }
        }
        plan
    }
}
