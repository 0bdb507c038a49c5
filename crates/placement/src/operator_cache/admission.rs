//! Whether a result that is being computed is worth its place.
//!
//! Asked when a sample of the scan tells how large the item will be and what it saves, and again, if the caller
//! wishes, when the item is complete. Owns the comparison; not the estimate (see [`super::extrapolate`]), nor the
//! choice of victims (the policy's), nor eager against lazy caching. Pure.
//!
//! The rule, in order:
//! 1. An item larger than the whole cache is refused.
//! 2. An item that fits into what is free is admitted: memory that buys nothing better is free of charge.
//! 3. If even all items that may go don't make enough room, it is refused, and nothing is evicted in vain.
//! 4. *History rule*: it is refused if the items it would displace are worth more seconds together than it is. Worth is
//!    `n · (t + c − s − l)`, aged by the policy. So a scan of queries that come once (`n = 1`) can't flush items with
//!    repeated reuse; but each refusal ages the others by the newcomer's benefit, so that items which are no longer
//!    used give way after about as many newcomers as they had uses. [Not every](refusal_ages) refusal does.
//!
//! Paper: ReCache §5.1, which admits an item with a history "if the benefit metric is higher than existing items in
//! the cache". Deviations: the comparison is with the victims alone, all of them, and in seconds; the print leaves open
//! which items, and whether one large item may displace many small ones that are better together. Ageing by refusals
//! is ours.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

use super::marginal_benefit::victims_worth_s;
use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState};

/// Whether to admit an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// Evict these (perhaps none), take over the state, then admit.
    Admit {
        /// What makes room.
        eviction: Eviction,
    },
    /// Don't cache the result. The cache stays as it is but for the state.
    Refuse {
        /// Why, with the numbers.
        reason: Refusal,
        /// The policy's state after turning the item away.
        state: PolicyState,
    },
}

/// Why an item is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// It would not fit into an empty cache.
    LargerThanLimit {
        /// Estimated size of the item.
        size_bytes: u64,
        /// What caches may hold.
        limit_bytes: u64,
    },
    /// The rest is in use, by queries or as items being read.
    NotEnoughToEvict {
        /// What would have to go.
        needed_bytes: u64,
        /// What may go.
        evictable_bytes: u64,
    },
    /// The items it would displace are worth more.
    WorthLessThanVictims {
        /// Seconds the item is expected to save.
        newcomer_s: f64,
        /// Seconds the victims are expected to save together.
        victims_s: f64,
        /// How many would go.
        victim_count: usize,
    },
}

/// Whether turning a newcomer away ages the others. Not where it was asked for but once: of ranges that nobody asks for
/// again there is no end, and in time they would wear out whatever is used. Nor where its uses are those that are
/// [expected](super::demand), which rise and fall by themselves.
pub fn refusal_ages(use_count: u64, is_expected: bool) -> bool {
    use_count > 1 && !is_expected
}

/// Decides on `newcomer`, whose `size_bytes` is the size it is estimated to have at the end, and whose times are
/// predictions for the whole item. Its `use_count` is its history: 1, or more if the same item was asked for before
/// and is remembered. Its `baseline` and `last_use` don't matter: it is seen as used now.
///
/// `items` may be evicted, `free_bytes` are there for the taking, `limit_bytes` is what caches may hold in all.
pub fn admit(
    policy: &dyn EvictionPolicy,
    state: PolicyState,
    items: &[ItemMeasurements],
    newcomer: &ItemMeasurements,
    free_bytes: u64,
    limit_bytes: u64,
) -> Admission {
    let size_bytes = newcomer.size_bytes;
    if size_bytes > limit_bytes {
        return Admission::Refuse { reason: Refusal::LargerThanLimit { size_bytes, limit_bytes }, state };
    }
    let needed_bytes = size_bytes.saturating_sub(free_bytes);
    if needed_bytes == 0 {
        return Admission::Admit { eviction: Eviction { state, ..Eviction::default() } };
    }
    let eviction = policy.choose(state, items, needed_bytes);
    if eviction.freed_bytes < needed_bytes {
        let reason = Refusal::NotEnoughToEvict { needed_bytes, evictable_bytes: eviction.freed_bytes };
        return Admission::Refuse { reason, state };
    }
    let newcomer = ItemMeasurements { baseline: policy.baseline_on_use(&state), ..*newcomer };
    if let Some(state_after) = policy.after_refusal(state, &newcomer) {
        let newcomer_s = policy.worth_s(&state, &newcomer);
        let victims_s = victims_worth_s(policy, &state, items, &eviction);
        if victims_s > newcomer_s {
            let victim_count = eviction.victims.len();
            let reason = Refusal::WorthLessThanVictims { newcomer_s, victims_s, victim_count };
            return Admission::Refuse { reason, state: state_after };
        }
    }
    Admission::Admit { eviction }
}
