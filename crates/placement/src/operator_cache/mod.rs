//! Which cached operator results to admit, keep, widen and use.
//!
//! One folder a policy, each with the same files inside; a policy implements [`EvictionPolicy`] and is chosen by its
//! [`PolicyName`]. Around them lie the decisions that go with every policy: [`admission`], [`widening`], [`top_up`],
//! [`choose_item`], [`item_parts`], [`heads`], [`eagerness`] (as the [`admission_rule`] says), [`layout`], [`map_making`], [`partial_cover`], and
//! the models they need: [`extrapolate`], [`marginal_benefit`]. What a policy would have done with a recorded [`trace`]
//! is found by [`replay`], beside what could have been done by who had known the future ([`offline`]).
//!
//! Paper: ReCache (PVLDB 2017) §4 and §5; each module lists its deviations.

pub mod admission;
pub mod admission_rule;
pub mod choose_item;
pub mod demand;
pub mod eagerness;
pub mod extrapolate;
pub mod further_columns;
pub mod heads;
pub mod item_parts;
pub mod layout;
pub mod lru;
pub mod map_making;
mod marginal_benefit;
pub mod monetdb;
pub mod offline;
pub mod partial_cover;
mod policy_name;
pub mod proteus;
pub mod recache;
pub mod recache_as_printed;
pub mod replay;
pub mod top_up;
pub mod trace;
pub mod vectorwise;
pub mod widening;

use std::cmp::Ordering;
use std::fmt::Debug;

pub use marginal_benefit::{elapsed_bid, marginal_benefit};
pub use policy_name::{PolicyName, UnknownPolicy};

/// What an item was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// Delimited text.
    Csv,
    /// JSON, one record a line.
    Json,
}

/// What is measured of one cached item, and the two marks the policies leave on it at each use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemMeasurements {
    /// The cache's name for the item; unique among the items of one decision.
    pub id: u64,
    /// The text it was parsed from.
    pub kind: SourceKind,
    /// `n`: queries the item has answered, the one that built it included. Zero is read as one.
    pub use_count: u64,
    /// `t`: executing the operator on the source, parsing included, without caching its result.
    pub execute_ns: u64,
    /// `c`: caching the result while it was computed.
    pub cache_ns: u64,
    /// `s`: scanning the item when it is reused; a prediction until it has been.
    pub reuse_scan_ns: u64,
    /// `l`: finding the item among all.
    pub lookup_ns: u64,
    /// `B`: bytes that evicting the item frees, its metadata included.
    pub size_bytes: u64,
    /// `L(p)`: what [`EvictionPolicy::baseline_on_use`] gave when the item was admitted or last used.
    pub baseline: f64,
    /// Logical time of the last use, larger is later.
    pub last_use: u64,
}

impl ItemMeasurements {
    /// Seconds that one more use of the item saves: `t + c - s - l`, or zero if reuse doesn't pay.
    pub fn saving_s(&self) -> f64 {
        let rebuild_ns = self.execute_ns as f64 + self.cache_ns as f64;
        let reuse_ns = self.reuse_scan_ns as f64 + self.lookup_ns as f64;
        (rebuild_ns - reuse_ns).max(0.0) * 1e-9
    }

    /// Seconds to have the item again once it is gone: `t + c`.
    pub fn rebuild_s(&self) -> f64 {
        (self.execute_ns as f64 + self.cache_ns as f64) * 1e-9
    }

    /// Seconds saved if the item is used as often again as it was: `n · (t + c - s - l)`.
    pub fn history_s(&self) -> f64 {
        self.use_count.max(1) as f64 * self.saving_s()
    }
}

/// What a policy remembers between decisions, beside the marks on the items. Starts at its default; one per cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicyState {
    /// `L` of the greedy-dual family, in seconds per log₂ byte: how much an item must have been worth when it was
    /// last used to be still worth anything. Never falls.
    pub baseline: f64,
    /// Logical time of the decision, on the scale of [`ItemMeasurements::last_use`]; who asks sets it. Policies that
    /// forget by time use it, and none changes it.
    pub now: u64,
}

/// One item to evict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Victim {
    /// Which item.
    pub id: u64,
    /// Its score at the decision, in the policy's own unit.
    pub score: f64,
    /// What evicting it frees.
    pub size_bytes: u64,
}

/// What to evict. A decision, not yet done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Eviction {
    /// In the order of eviction.
    pub victims: Vec<Victim>,
    /// The policy's state once the victims are gone.
    pub state: PolicyState,
    /// What the victims free together; less than asked for only if every item is a victim.
    pub freed_bytes: u64,
}

/// Decides what goes when room is needed. Pure: state in, decision out; the same inputs in any order give the same
/// decision.
pub trait EvictionPolicy: Debug + Send + Sync {
    /// The name users see, and choose the policy by.
    fn name(&self) -> &'static str;

    /// How much there is to keeping the item, in the policy's own unit. The lowest goes first.
    fn score(&self, item: &ItemMeasurements) -> f64;

    /// The mark to leave on an item ([`ItemMeasurements::baseline`]) when it is admitted and whenever it is used.
    fn baseline_on_use(&self, state: &PolicyState) -> f64;

    /// Picks victims that free at least `bytes_to_free` together, or all items if they are too few.
    ///
    /// `items` are those that may be evicted: not the ones in use. Nothing to free gives no victims.
    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction;

    /// Seconds of query time that the item is still expected to save, as far as the policy can tell. Never negative.
    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64;

    /// Whether a newcomer has to be worth as much as what it displaces, and if it isn't, the state after turning it
    /// away. `None`: the policy takes every newcomer that fits.
    fn after_refusal(&self, state: PolicyState, newcomer: &ItemMeasurements) -> Option<PolicyState>;

    /// Whether items may be kept, and go, in parts ([`heads`]), and all rows of a file are worth what is asked of it
    /// ([`demand`]). Neither is so if the policy doesn't say so: others are left as they were published.
    fn divides_items(&self) -> bool {
        false
    }
}

/// How much must go before `incoming_bytes` fit beside `held_bytes` under the limit.
pub fn bytes_to_free(held_bytes: u64, incoming_bytes: u64, limit_bytes: u64) -> u64 {
    held_bytes.saturating_add(incoming_bytes).saturating_sub(limit_bytes)
}

/// Orders items for eviction: by score, then the least recently used, then by id.
fn eviction_order(a: (f64, &ItemMeasurements), b: (f64, &ItemMeasurements)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.last_use.cmp(&b.1.last_use)).then(a.1.id.cmp(&b.1.id))
}

/// Evicts in `eviction_order` of the policy's scores until enough is free. Leaves the state as it is.
fn lowest_first(
    policy: &dyn EvictionPolicy,
    state: PolicyState,
    items: &[ItemMeasurements],
    bytes_to_free: u64,
) -> Eviction {
    let mut order: Vec<(f64, &ItemMeasurements)> = items.iter().map(|item| (policy.score(item), item)).collect();
    order.sort_unstable_by(|a, b| eviction_order(*a, *b));
    let mut eviction = Eviction { state, ..Eviction::default() };
    for (score, item) in order {
        if eviction.freed_bytes >= bytes_to_free {
            break;
        }
        eviction.freed_bytes = eviction.freed_bytes.saturating_add(item.size_bytes);
        eviction.victims.push(Victim { id: item.id, score, size_bytes: item.size_bytes });
    }
    eviction
}
