//! What could have been kept by who had known the future: how far a policy is from the best there is.
//!
//! An offline policy is given the whole trace and plans it: for each request, whether its item is held until the next
//! request for it. One folder a policy, as for those that decide as they go ([`super::EvictionPolicy`]), which never
//! see a future and so have another trait.
//!
//! Every plan keeps the limit after each request. While a request is answered, its item may be beside the others: a
//! result that isn't kept passes through without a place, as in the cache. Pure.
//!
//! Paper: ReCache §6.3 compares with two: farthest-first (Belady) and "log-optimal" (Irani); [`local_ratio`] says what
//! stands for the latter.

pub mod farthest_first;
mod future;
pub mod local_ratio;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Debug;

use super::replay::Replayed;
use super::trace::{Answered, Request};

/// Plans a trace that is known from beginning to end.
pub trait OfflinePolicy: Debug + Send + Sync {
    /// The name users see, and choose the policy by.
    fn name(&self) -> &'static str;

    /// For each request, whether its item is held from then until the next request for the same item. False for the
    /// last request of an item.
    fn plan(&self, requests: &[Request], limit_bytes: u64) -> Vec<bool>;
}

/// Every offline policy.
pub const ALL: [&dyn OfflinePolicy; 2] = [&farthest_first::FarthestFirst, &local_ratio::LocalRatio];

/// What a plan comes to.
pub fn replay_plan(requests: &[Request], plan: &[bool]) -> Replayed {
    let mut outcome = Replayed::default();
    let mut held: HashSet<u64> = HashSet::new();
    for (request, &is_kept) in requests.iter().zip(plan) {
        let was_held = held.contains(&request.item);
        match (request.answered, was_held) {
            (Answered::Joined, _) => outcome.joined_count += 1,
            (_, true) => outcome.hit(request),
            (_, false) => outcome.missed(request),
        }
        match (was_held, is_kept) {
            (false, true) => {
                held.insert(request.item);
                outcome.spent_s += request.cache_ns as f64 * 1e-9;
            }
            (false, false) => outcome.refused_count += 1,
            (true, false) => {
                held.remove(&request.item);
                outcome.evicted_count += 1;
            }
            (true, true) => {}
        }
    }
    outcome
}
