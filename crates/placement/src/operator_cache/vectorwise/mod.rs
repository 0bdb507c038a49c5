//! Vectorwise's recycler: cost times references over size, with ageing.
//!
//! The formula, for an item of cost `t + c` seconds and size `B` bytes that was referenced `n` times, the last time `a`
//! requests ago:
//!
//! ```text
//! benefit = (t + c) · h / B        h = n · 2^(−a / HALF_LIFE)
//! ```
//!
//! The lowest benefit goes first. A newcomer is turned away if what it would displace has more cost times references
//! together than it has. Time is logical, one tick a request, so an item's age is the number of requests since its
//! last reference.
//!
//! The age of all items grows alike, so their order does not depend on the present time: it is that of
//! `log₂((t + c) · n / B) + last use / HALF_LIFE`, which is the score.
//!
//! Paper: Nagel, Boncz, Viglas, "Recycling in pipelined query evaluation" (ICDE 2013), the baseline of ReCache §6.3.
//! Deviations:
//! - References are not aged one by one: all count as if they had come with the last one. One mark for each item is
//!   all that policies may leave.
//! - The paper's factor of ageing depends on its workload; the half-life here is ours (see [`HALF_LIFE`]).
//! - The paper's cost of a result leaves out what cached results below it in the plan save. Items here are selects over
//!   raw files, with nothing below them.
//! - The paper looks for what to replace among results of like sizes; here victims are taken in the order of benefit.
//!
//! Keeps no state. Pure; O(n log n).

#[cfg(test)]
mod tests;

use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, lowest_first};

/// Requests after which a reference counts half: a few times as many as there are items that matter at a time (some
/// dozens), so that each has been asked for again by then if it ever will.
pub const HALF_LIFE: f64 = 128.0;

/// Evicts the items of least benefit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vectorwise;

impl EvictionPolicy for Vectorwise {
    fn name(&self) -> &'static str {
        "vectorwise"
    }

    /// log₂ of the benefit, had all items been forgotten for as long as there is time. An item without cost is below
    /// all others.
    fn score(&self, item: &ItemMeasurements) -> f64 {
        let benefit = item.rebuild_s() * item.use_count.max(1) as f64 / item.size_bytes.max(1) as f64;
        benefit.log2() + item.last_use as f64 / HALF_LIFE
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        state.baseline
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        lowest_first(self, state, items, bytes_to_free)
    }

    /// `(t + c) · h`: the benefit, the size taken out again.
    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64 {
        let age = state.now.saturating_sub(item.last_use) as f64;
        item.rebuild_s() * item.use_count.max(1) as f64 * (-age / HALF_LIFE).exp2()
    }

    /// The state as it is: what is no longer used gives way with time.
    fn after_refusal(&self, state: PolicyState, _newcomer: &ItemMeasurements) -> Option<PolicyState> {
        Some(state)
    }
}
