//! A replay harness: policies against traces of requests, every decision checked against the rules all policies keep.
//!
//! A trace mixes requests that follow Zipf's law with scans, runs of queries that come once. The simulator plays the
//! cache: it measures, marks uses, asks for admission, evicts.

use std::collections::{HashMap, HashSet};

use super::admission::{Admission, admit};
use super::lru::Lru;
use super::recache::ReCache;
use super::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState, SourceKind, bytes_to_free};

/// A xorshift generator; tests print its seed when they fail.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64
    }

    /// Between two bounds, every order of magnitude alike.
    pub(crate) fn magnitude(&mut self, low: f64, high: f64) -> u64 {
        (low * (high / low).powf(self.unit())) as u64
    }

    pub(crate) fn item(&mut self, id: u64) -> ItemMeasurements {
        ItemMeasurements {
            id,
            kind: if self.below(2) == 0 { SourceKind::Csv } else { SourceKind::Json },
            use_count: self.below(6),
            execute_ns: self.magnitude(1e3, 1e10),
            cache_ns: self.magnitude(1e3, 1e8),
            reuse_scan_ns: self.magnitude(1e3, 1e8),
            lookup_ns: self.below(20_000),
            // Small numbers, so that equal sizes and exact fits happen.
            size_bytes: if self.below(2) == 0 { self.below(12) } else { self.magnitude(1.0, 1e9) },
            baseline: self.below(4) as f64 * 0.25,
            last_use: self.below(10),
        }
    }
}

/// The rules that every policy keeps, whatever it evicts.
pub(crate) fn check_eviction(items: &[ItemMeasurements], bytes_to_free: u64, eviction: &Eviction, context: &str) {
    let held: HashMap<u64, u64> = items.iter().map(|item| (item.id, item.size_bytes)).collect();
    let victims: HashSet<u64> = eviction.victims.iter().map(|victim| victim.id).collect();
    assert_eq!(victims.len(), eviction.victims.len(), "a victim is named once, {context}");
    for victim in &eviction.victims {
        assert_eq!(held.get(&victim.id), Some(&victim.size_bytes), "a victim is one of the items, {context}");
    }
    let freed_bytes: u64 = eviction.victims.iter().map(|victim| victim.size_bytes).sum();
    assert_eq!(freed_bytes, eviction.freed_bytes, "{context}");
    let evictable_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
    assert!(freed_bytes >= bytes_to_free.min(evictable_bytes), "enough is freed, or everything, {context}");
    if bytes_to_free == 0 {
        assert!(eviction.victims.is_empty(), "nothing goes without need, {context}");
    }
}

/// Without any one victim too little would be free.
pub(crate) fn check_none_superfluous(bytes_to_free: u64, eviction: &Eviction, context: &str) {
    for victim in &eviction.victims {
        let without_bytes = eviction.freed_bytes - victim.size_bytes;
        assert!(without_bytes < bytes_to_free, "victim {} is superfluous, {context}", victim.id);
    }
}

/// What a request computes on a miss. The simulator's truth; the cache sees it as measurements.
#[derive(Clone, Copy, Debug)]
struct Source {
    execute_ns: u64,
    cache_ns: u64,
    reuse_scan_ns: u64,
    size_bytes: u64,
}

#[derive(Debug)]
struct Trace {
    sources: Vec<Source>,
    requests: Vec<usize>,
}

const LOOKUP_NS: u64 = 5_000;

/// Sources that are asked for again and again; they are the first of a trace.
const POPULAR_COUNT: usize = 150;

impl Trace {
    /// `costs_vary`: the time to execute has nothing to do with the size (other formats, wider records, harder
    /// predicates), instead of being proportional to it. `popularity_shifts`: half-way the most popular sources become
    /// the least popular, and the other way round.
    fn random(seed: u64, costs_vary: bool, popularity_shifts: bool) -> Self {
        const REQUEST_COUNT: usize = 4000;
        let mut random = Random::new(seed);
        let mut sources = Vec::new();
        let mut new_source = |random: &mut Random| {
            let size_bytes = random.magnitude(1e4, 1e8);
            let execute_ns = if costs_vary { random.magnitude(1e7, 1e11) } else { size_bytes * 100 };
            let (cache_ns, reuse_scan_ns) = (size_bytes / 2, size_bytes / 10);
            sources.push(Source { execute_ns, cache_ns, reuse_scan_ns, size_bytes });
            sources.len() - 1
        };
        let mut popular: Vec<usize> = (0..POPULAR_COUNT).map(|_| new_source(&mut random)).collect();
        let weights: Vec<f64> = (1..=POPULAR_COUNT).map(|rank| 1.0 / rank as f64).collect();
        let total_weight: f64 = weights.iter().sum();
        let mut requests = Vec::new();
        let mut shift_due = popularity_shifts;
        while requests.len() < REQUEST_COUNT {
            if shift_due && requests.len() >= REQUEST_COUNT / 2 {
                popular.reverse();
                shift_due = false;
            }
            if random.below(40) == 0 {
                let length = 5 + random.below(20);
                requests.extend((0..length).map(|_| new_source(&mut random)));
                continue;
            }
            let mut left = random.unit() * total_weight;
            let rank = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            requests.push(popular[rank.unwrap_or(0)]);
        }
        Self { sources, requests }
    }

    /// A share of what all the popular items would take.
    fn limit_bytes(&self, share: f64) -> u64 {
        let total: u64 = self.sources[..POPULAR_COUNT].iter().map(|source| source.size_bytes).sum();
        (total as f64 * share) as u64
    }
}

/// Replays the trace; gives the time of all queries together, in seconds. `weigh`: ask for admission, instead of
/// taking every item that fits.
fn replay(trace: &Trace, policy: &dyn EvictionPolicy, limit_bytes: u64, weigh: bool, context: &str) -> f64 {
    let mut state = PolicyState::default();
    let mut cache: Vec<ItemMeasurements> = Vec::new();
    let mut spent_ns: u64 = 0;
    for (tick, &request) in (1..).zip(&trace.requests) {
        let source = trace.sources[request];
        if let Some(item) = cache.iter_mut().find(|item| item.id == request as u64) {
            item.use_count += 1;
            item.last_use = tick;
            item.baseline = policy.baseline_on_use(&state);
            spent_ns += item.reuse_scan_ns + item.lookup_ns;
            continue;
        }
        spent_ns += source.execute_ns;
        let mut newcomer = ItemMeasurements {
            id: request as u64,
            kind: SourceKind::Json,
            use_count: 1,
            execute_ns: source.execute_ns,
            cache_ns: source.cache_ns,
            reuse_scan_ns: source.reuse_scan_ns,
            lookup_ns: LOOKUP_NS,
            size_bytes: source.size_bytes,
            baseline: 0.0,
            last_use: tick,
        };
        let held_bytes: u64 = cache.iter().map(|item| item.size_bytes).sum();
        let needed_bytes = bytes_to_free(held_bytes, newcomer.size_bytes, limit_bytes);
        let eviction = if weigh {
            match admit(policy, state, &cache, &newcomer, limit_bytes - held_bytes, limit_bytes) {
                Admission::Admit { eviction } => eviction,
                Admission::Refuse { state: after, .. } => {
                    assert!(after.baseline >= state.baseline, "{context}");
                    state = after;
                    continue;
                }
            }
        } else if newcomer.size_bytes <= limit_bytes {
            policy.choose(state, &cache, needed_bytes)
        } else {
            continue;
        };
        check_eviction(&cache, needed_bytes, &eviction, context);
        assert!(eviction.state.baseline >= state.baseline, "{context}");
        state = eviction.state;
        cache.retain(|item| eviction.victims.iter().all(|victim| victim.id != item.id));
        newcomer.baseline = policy.baseline_on_use(&state);
        cache.push(newcomer);
        spent_ns += newcomer.cache_ns;
        let held_bytes: u64 = cache.iter().map(|item| item.size_bytes).sum();
        assert!(held_bytes <= limit_bytes, "the capacity is kept, {context}");
    }
    spent_ns as f64 * 1e-9
}

fn for_traces(check: impl Fn(&Trace, u64, bool, &str)) {
    for seed in 0..12 {
        for limit_share in [0.02, 0.1, 0.3] {
            for costs_vary in [false, true] {
                for popularity_shifts in [false, true] {
                    let trace = Trace::random(seed, costs_vary, popularity_shifts);
                    let context =
                        format!("seed {seed}, limit {limit_share}, costs {costs_vary}, shifts {popularity_shifts}");
                    check(&trace, trace.limit_bytes(limit_share), costs_vary, &context);
                }
            }
        }
    }
}

#[test]
fn recache_is_never_much_worse_than_lru_and_better_where_costs_vary() {
    for_traces(|trace, limit_bytes, costs_vary, context| {
        let lru_s = replay(trace, &Lru, limit_bytes, false, context);
        let recache_s = replay(trace, &ReCache, limit_bytes, false, context);
        assert!(recache_s <= 2.0 * lru_s, "{recache_s} s, LRU {lru_s} s, {context}");
        assert!(!costs_vary || recache_s < lru_s, "{recache_s} s, LRU {lru_s} s, {context}");
    });
}

#[test]
fn weighing_newcomers_is_never_much_worse_than_taking_all_and_better_in_sum() {
    let sums_s = std::cell::Cell::new((0.0, 0.0));
    for_traces(|trace, limit_bytes, costs_vary, context| {
        let taking_all_s = replay(trace, &ReCache, limit_bytes, false, context);
        let weighing_s = replay(trace, &ReCache, limit_bytes, true, context);
        assert!(weighing_s <= 1.05 * taking_all_s, "{weighing_s} s, without {taking_all_s} s, {context}");
        if costs_vary {
            let (weighing_sum_s, taking_all_sum_s) = sums_s.get();
            sums_s.set((weighing_sum_s + weighing_s, taking_all_sum_s + taking_all_s));
        }
    });
    let (weighing_sum_s, taking_all_sum_s) = sums_s.get();
    assert!(weighing_sum_s < taking_all_sum_s, "{weighing_sum_s} s, without {taking_all_sum_s} s");
}
