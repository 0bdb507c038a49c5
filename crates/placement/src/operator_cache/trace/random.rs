//! Random measurements and traces for tests, and the rules that every decision keeps.
//!
//! A random trace mixes requests that follow Zipf's law with scans, runs of queries that come once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thermocline_seeded::Random;

use super::{Answered, Request};
use crate::operator_cache::{Eviction, ItemMeasurements, SourceKind};

/// An item as a policy sees it.
pub(crate) fn random_item(random: &mut Random, id: u64) -> ItemMeasurements {
    ItemMeasurements {
        id,
        kind: if random.below_u64(2) == 0 { SourceKind::Csv } else { SourceKind::Json },
        use_count: random.below_u64(6),
        execute_ns: random.magnitude(1e3, 1e10),
        cache_ns: random.magnitude(1e3, 1e8),
        reuse_scan_ns: random.magnitude(1e3, 1e8),
        lookup_ns: random.below_u64(20_000),
        // Small numbers, so that equal sizes and exact fits happen.
        size_bytes: if random.below_u64(2) == 0 { random.below_u64(12) } else { random.magnitude(1.0, 1e9) },
        baseline: random.below_u64(4) as f64 * 0.25,
        last_use: random.below_u64(10),
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

/// A random trace, and how much its popular items would take together.
#[derive(Debug)]
pub(crate) struct RandomTrace {
    pub(crate) requests: Vec<Request>,
    popular_bytes: u64,
}

impl RandomTrace {
    /// `costs_vary`: the time to execute has nothing to do with the size (other formats, wider records, harder
    /// predicates), instead of being proportional to it. `popularity_shifts`: half-way the most popular items become
    /// the least popular, and the other way round.
    pub(crate) fn new(seed: u64, costs_vary: bool, popularity_shifts: bool) -> Self {
        const REQUEST_COUNT: usize = 4000;
        const POPULAR_COUNT: u64 = 150;
        let mut random = Random::new(seed);
        let mut next_item = 0;
        let mut new_item = |random: &mut Random| {
            let size_bytes = random.magnitude(1e4, 1e8);
            next_item += 1;
            Request {
                wall_ns: 0,
                answered: Answered::Missed,
                source: Arc::from(""),
                kind: if next_item % 2 == 0 { SourceKind::Csv } else { SourceKind::Json },
                item: next_item,
                asked: next_item,
                size_bytes,
                execute_ns: if costs_vary { random.magnitude(1e7, 1e11) } else { size_bytes * 100 },
                cache_ns: size_bytes / 2,
                reuse_scan_ns: size_bytes / 10,
                lookup_ns: 5_000,
            }
        };
        let mut popular: Vec<Request> = (0..POPULAR_COUNT).map(|_| new_item(&mut random)).collect();
        let popular_bytes = popular.iter().map(|request| request.size_bytes).sum();
        let weights: Vec<f64> = (1..=POPULAR_COUNT).map(|rank| 1.0 / rank as f64).collect();
        let total_weight: f64 = weights.iter().sum();
        let mut requests: Vec<Request> = Vec::new();
        let mut shift_due = popularity_shifts;
        while requests.len() < REQUEST_COUNT {
            if shift_due && requests.len() >= REQUEST_COUNT / 2 {
                popular.reverse();
                shift_due = false;
            }
            if random.below_u64(40) == 0 {
                let length = 5 + random.below_u64(20);
                requests.extend((0..length).map(|_| new_item(&mut random)));
                continue;
            }
            let mut left = random.unit() * total_weight;
            let rank = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            requests.push(popular[rank.unwrap_or(0)].clone());
        }
        Self { requests, popular_bytes }
    }

    /// A share of what all the popular items would take.
    pub(crate) fn limit_bytes(&self, share: f64) -> u64 {
        (self.popular_bytes as f64 * share) as u64
    }

    /// Traces of every kind under tight and ample memory: the check is given trace, limit, whether costs vary, and what
    /// to say when it fails.
    pub(crate) fn for_each(seeds: u64, check: impl Fn(&Self, u64, bool, &str)) {
        for seed in 0..seeds {
            for costs_vary in [false, true] {
                for popularity_shifts in [false, true] {
                    let trace = Self::new(seed, costs_vary, popularity_shifts);
                    for share in [0.02, 0.1, 0.3] {
                        let context =
                            format!("seed {seed}, limit {share}, costs {costs_vary}, shifts {popularity_shifts}");
                        check(&trace, trace.limit_bytes(share), costs_vary, &context);
                    }
                }
            }
        }
    }
}
