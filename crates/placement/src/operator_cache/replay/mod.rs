//! What a policy would have made of a recorded trace, under any memory.
//!
//! Owns a cache without bytes: it admits, marks and evicts as the real one does, and adds up times as they were
//! measured when the trace was recorded. Does not own traces ([`super::trace`]) or decisions. Pure: the same trace,
//! policy and limit give the same outcome.
//!
//! Where it departs from the cache: sizes and times are those at the end of a scan, not estimates from a sample; items
//! in use can go; what requests ask for does not depend on what is kept, so that a request that a wider item answered
//! makes that item again if it is gone. Time is one tick a request.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::HashMap;

use super::admission::{Admission, admit};
use super::trace::{Answered, Request};
use super::{EvictionPolicy, ItemMeasurements, PolicyState, bytes_to_free};

/// What is done with an item that is not held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Newcomers {
    /// It is weighed against what it would displace, as the cache does, if the policy wishes so.
    #[default]
    Weighed,
    /// It is taken whenever it fits into the cache at all: policies of eviction alone.
    Taken,
}

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replayed {
    /// Time of all requests together, seconds.
    pub spent_s: f64,
    /// Requests that were answered from an item.
    pub hit_count: u64,
    /// Requests that took part in a scan that ran already.
    pub joined_count: u64,
    /// Requests that scanned their file.
    pub missed_count: u64,
    /// Bytes of the items that answered, each time.
    pub hit_bytes: u64,
    /// Items that were evicted.
    pub evicted_count: u64,
    /// Items that were not kept.
    pub refused_count: u64,
}

impl Replayed {
    pub(crate) fn hit(&mut self, request: &Request) {
        self.hit_count += 1;
        self.hit_bytes = self.hit_bytes.saturating_add(request.size_bytes);
        self.spent_s += request.reuse_ns() as f64 * 1e-9;
    }

    pub(crate) fn missed(&mut self, request: &Request) {
        self.missed_count += 1;
        self.spent_s += request.execute_ns as f64 * 1e-9;
    }
}

/// What happened when the trace was recorded, as far as it tells: every scan is taken to have been cached.
pub fn recorded(requests: &[Request]) -> Replayed {
    let mut outcome = Replayed::default();
    for request in requests {
        match request.answered {
            Answered::Hit | Answered::Subsumed | Answered::Extended => outcome.hit(request),
            Answered::Joined => outcome.joined_count += 1,
            Answered::Missed => {
                outcome.missed(request);
                outcome.spent_s += request.cache_ns as f64 * 1e-9;
            }
        }
    }
    outcome
}

/// Replays a trace against a policy, in a cache of `limit_bytes`.
pub fn replay(requests: &[Request], policy: &dyn EvictionPolicy, limit_bytes: u64, newcomers: Newcomers) -> Replayed {
    let mut cache =
        Cache { policy, limit_bytes, state: PolicyState::default(), items: Vec::new(), history: HashMap::new() };
    let mut outcome = Replayed::default();
    for (tick, request) in (1..).zip(requests) {
        cache.state.now = tick;
        let held = cache.items.iter().position(|item| item.id == request.item);
        match held {
            Some(index) => {
                match request.answered {
                    Answered::Joined => outcome.joined_count += 1,
                    _ => outcome.hit(request),
                }
                let item = cache.items.swap_remove(index);
                let used = ItemMeasurements { use_count: item.use_count + 1, ..request.measurements(tick) };
                // The item as it is now; if it grew and the rest can't give way, it is gone.
                if !cache.place(used, Newcomers::Taken, &mut outcome) {
                    outcome.evicted_count += 1;
                }
            }
            None if request.answered == Answered::Joined => outcome.joined_count += 1,
            None => {
                outcome.missed(request);
                let remembered = cache.history.get(&request.item).copied().unwrap_or(0);
                let newcomer = ItemMeasurements { use_count: 1 + remembered, ..request.measurements(tick) };
                if cache.place(newcomer, newcomers, &mut outcome) {
                    outcome.spent_s += request.cache_ns as f64 * 1e-9;
                } else {
                    outcome.refused_count += 1;
                }
            }
        }
    }
    outcome
}

struct Cache<'a> {
    policy: &'a dyn EvictionPolicy,
    limit_bytes: u64,
    state: PolicyState,
    items: Vec<ItemMeasurements>,
    /// Uses of items that are gone.
    history: HashMap<u64, u64>,
}

impl Cache<'_> {
    /// Makes room and holds the item, or remembers only that it was asked for.
    fn place(&mut self, item: ItemMeasurements, newcomers: Newcomers, outcome: &mut Replayed) -> bool {
        let held_bytes: u64 = self.items.iter().map(|item| item.size_bytes).sum();
        let free_bytes = self.limit_bytes.saturating_sub(held_bytes);
        let decision = match newcomers {
            Newcomers::Weighed => admit(self.policy, self.state, &self.items, &item, free_bytes, self.limit_bytes),
            Newcomers::Taken if item.size_bytes > self.limit_bytes => {
                self.history.insert(item.id, item.use_count);
                return false;
            }
            Newcomers::Taken => {
                let needed_bytes = bytes_to_free(held_bytes, item.size_bytes, self.limit_bytes);
                Admission::Admit { eviction: self.policy.choose(self.state, &self.items, needed_bytes) }
            }
        };
        match decision {
            Admission::Refuse { state, .. } => {
                self.state = state;
                self.history.insert(item.id, item.use_count);
                false
            }
            Admission::Admit { eviction } => {
                self.state = eviction.state;
                for victim in &eviction.victims {
                    if let Some(index) = self.items.iter().position(|item| item.id == victim.id) {
                        let gone = self.items.swap_remove(index);
                        self.history.insert(gone.id, gone.use_count);
                        outcome.evicted_count += 1;
                    }
                }
                self.items.push(ItemMeasurements { baseline: self.policy.baseline_on_use(&self.state), ..item });
                true
            }
        }
    }
}
