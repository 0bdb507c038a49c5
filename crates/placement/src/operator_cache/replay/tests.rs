//! The rules that every policy keeps, on random traces, and how policies compare on them.

use std::cell::Cell;
use std::sync::Mutex;

use thermocline_seeded::Random;

use super::*;
use crate::operator_cache::lru::Lru;
use crate::operator_cache::offline::{self, replay_plan};
use crate::operator_cache::recache::ReCache;
use crate::operator_cache::trace::random::{RandomTrace, check_eviction, random_item};
use crate::operator_cache::{Eviction, PolicyName, SourceKind};

/// Checks every decision of a policy as it is made.
#[derive(Debug)]
struct Checked<'a> {
    policy: &'a dyn EvictionPolicy,
    limit_bytes: u64,
    baseline: Mutex<f64>,
    context: &'a str,
}

impl<'a> Checked<'a> {
    fn new(policy: &'a dyn EvictionPolicy, limit_bytes: u64, context: &'a str) -> Self {
        Self { policy, limit_bytes, baseline: Mutex::new(0.0), context }
    }

    /// The state is the one that was left before, or an earlier one of a refused decision; it never goes back.
    fn check_state(&self, state: &PolicyState) {
        let mut baseline = self.baseline.lock().unwrap();
        assert!(state.baseline >= *baseline, "{} forgot its state, {}", self.policy.name(), self.context);
        *baseline = state.baseline;
    }
}

impl EvictionPolicy for Checked<'_> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn score(&self, item: &ItemMeasurements) -> f64 {
        self.policy.score(item)
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        self.check_state(state);
        self.policy.baseline_on_use(state)
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        self.check_state(&state);
        let held_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        assert!(held_bytes <= self.limit_bytes, "the limit is kept, {} {}", self.name(), self.context);
        let eviction = self.policy.choose(state, items, bytes_to_free);
        check_eviction(items, bytes_to_free, &eviction, self.context);
        assert!(eviction.state.baseline >= state.baseline && eviction.state.now == state.now, "{}", self.context);
        eviction
    }

    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64 {
        let worth_s = self.policy.worth_s(state, item);
        assert!(worth_s >= 0.0 && worth_s.is_finite(), "{} says {worth_s} s, {}", self.name(), self.context);
        worth_s
    }

    fn after_refusal(&self, state: PolicyState, newcomer: &ItemMeasurements) -> Option<PolicyState> {
        let after = self.policy.after_refusal(state, newcomer);
        assert!(after.is_none_or(|after| after.baseline >= state.baseline), "{}", self.context);
        after
    }
}

fn spent_s(trace: &RandomTrace, policy: &dyn EvictionPolicy, limit_bytes: u64, newcomers: Newcomers) -> f64 {
    replay(&trace.requests, policy, limit_bytes, newcomers).spent_s
}

#[test]
fn every_policy_keeps_the_rules_on_every_trace() {
    RandomTrace::for_each(3, |trace, limit_bytes, _, context| {
        for name in PolicyName::ALL {
            for newcomers in [Newcomers::Taken, Newcomers::Weighed] {
                let context = format!("{name}, {newcomers:?}, {context}");
                let policy = Checked::new(name.policy(), limit_bytes, &context);
                let outcome = replay(&trace.requests, &policy, limit_bytes, newcomers);
                let answered_count = outcome.hit_count + outcome.missed_count + outcome.joined_count;
                assert_eq!(answered_count, trace.requests.len() as u64, "{context}");
            }
        }
    });
}

#[test]
fn every_policy_decides_the_same_whatever_the_order_of_the_items() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let items: Vec<ItemMeasurements> = (0..random.below_u64(20)).map(|id| random_item(&mut random, id)).collect();
        let total_bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        let bytes_to_free = random.below_u64(total_bytes + 2);
        let mut shuffled = items.clone();
        shuffled.reverse();
        shuffled.rotate_left(items.len() / 3);
        for name in PolicyName::ALL {
            let state = PolicyState { baseline: 0.5, now: 10 };
            let context = format!("{name}, seed {seed}, {bytes_to_free} bytes of {items:?}");
            let eviction = name.policy().choose(state, &items, bytes_to_free);
            check_eviction(&items, bytes_to_free, &eviction, &context);
            assert_eq!(name.policy().choose(state, &shuffled, bytes_to_free), eviction, "{context}");
        }
    }
}

#[test]
fn recache_is_never_much_worse_than_lru_and_better_where_costs_vary() {
    RandomTrace::for_each(12, |trace, limit_bytes, costs_vary, context| {
        let lru_s = spent_s(trace, &Lru, limit_bytes, Newcomers::Taken);
        let recache_s = spent_s(trace, &ReCache, limit_bytes, Newcomers::Taken);
        assert!(recache_s <= 2.0 * lru_s, "{recache_s} s, LRU {lru_s} s, {context}");
        assert!(!costs_vary || recache_s < lru_s, "{recache_s} s, LRU {lru_s} s, {context}");
    });
}

#[test]
fn weighing_newcomers_is_never_much_worse_than_taking_all_and_better_in_sum() {
    let sums_s = Cell::new((0.0, 0.0));
    RandomTrace::for_each(12, |trace, limit_bytes, costs_vary, context| {
        let taking_all_s = spent_s(trace, &ReCache, limit_bytes, Newcomers::Taken);
        let weighing_s = spent_s(trace, &ReCache, limit_bytes, Newcomers::Weighed);
        assert!(weighing_s <= 1.05 * taking_all_s, "{weighing_s} s, without {taking_all_s} s, {context}");
        if costs_vary {
            let (weighing_sum_s, taking_all_sum_s) = sums_s.get();
            sums_s.set((weighing_sum_s + weighing_s, taking_all_sum_s + taking_all_s));
        }
    });
    let (weighing_sum_s, taking_all_sum_s) = sums_s.get();
    assert!(weighing_sum_s < taking_all_sum_s, "{weighing_sum_s} s, without {taking_all_sum_s} s");
}

#[test]
fn who_knows_the_future_is_faster_than_any_policy() {
    RandomTrace::for_each(1, |trace, limit_bytes, _, context| {
        let plans = offline::ALL.map(|policy| replay_plan(&trace.requests, &policy.plan(&trace.requests, limit_bytes)));
        let best_s = plans.iter().map(|outcome| outcome.spent_s).fold(f64::INFINITY, f64::min);
        for name in PolicyName::ALL {
            let online_s = spent_s(trace, name.policy(), limit_bytes, Newcomers::Weighed);
            assert!(best_s < online_s, "{best_s} s with the future, {name} {online_s} s, {context}");
        }
    });
}

fn request(item: u64, size_bytes: u64) -> Request {
    Request {
        wall_ns: 0,
        answered: Answered::Missed,
        source: "f".into(),
        kind: SourceKind::Json,
        item,
        asked: item,
        size_bytes,
        execute_ns: 10_000_000_000,
        cache_ns: 2_000_000_000,
        reuse_scan_ns: 900_000_000,
        lookup_ns: 100_000_000,
    }
}

#[test]
fn scans_caching_and_reading_are_charged_as_they_were_measured() {
    let joined = |item| Request { answered: Answered::Joined, ..request(item, 10) };
    let requests =
        [request(1, 10), request(1, 10), request(2, 50), joined(2), joined(1), request(3, 35), request(1, 10)];
    let outcome = replay(&requests, &Lru, 40, Newcomers::Taken);
    // Made, read, too large, two joined, made in place of 1, made in place of 3.
    let expected = Replayed {
        spent_s: outcome.spent_s,
        hit_count: 1,
        joined_count: 2,
        missed_count: 4,
        hit_bytes: 10,
        evicted_count: 2,
        refused_count: 1,
    };
    assert_eq!(outcome, expected);
    assert!((outcome.spent_s - (12.0 + 1.0 + 10.0 + 12.0 + 12.0)).abs() < 1e-9, "{outcome:?}");
}

#[test]
fn an_item_that_grew_takes_its_new_size() {
    let grown = |size_bytes| Request { answered: Answered::Extended, ..request(1, size_bytes) };
    let replayed = |requests: &[Request]| replay(requests, &Lru, 40, Newcomers::Taken);
    let beside = replayed(&[request(1, 10), request(2, 20), grown(20), request(2, 20)]);
    assert_eq!((beside.hit_count, beside.evicted_count), (2, 0));
    let instead = replayed(&[request(1, 10), request(2, 20), grown(30), request(2, 20)]);
    assert_eq!((instead.hit_count, instead.evicted_count), (1, 2));
    let beyond = replayed(&[request(1, 10), request(2, 20), grown(50), request(2, 20), request(1, 10)]);
    assert_eq!((beyond.hit_count, beyond.missed_count, beyond.evicted_count), (2, 3, 1));
}

#[test]
fn an_item_that_comes_again_has_its_history() {
    // 1 was used five times. 2 is turned away twice, which ages 1 by one and by two benefits, and displaces it the
    // third time, being worth three uses then; without a history it would be the fifth.
    let mut requests = vec![request(1, 40); 5];
    requests.extend(vec![request(2, 40); 6]);
    let weighed = replay(&requests, &ReCache, 40, Newcomers::Weighed);
    assert_eq!((weighed.refused_count, weighed.evicted_count, weighed.hit_count), (2, 1, 4 + 3), "{weighed:?}");
}

#[test]
fn what_was_recorded_is_added_up() {
    let answered = |answered| Request { answered, ..request(1, 10) };
    let all = [Answered::Missed, Answered::Joined, Answered::Hit, Answered::Subsumed, Answered::Extended].map(answered);
    let outcome = recorded(&all);
    assert!((outcome.spent_s - 15.0).abs() < 1e-9, "{outcome:?}");
    assert_eq!((outcome.missed_count, outcome.joined_count, outcome.hit_count), (1, 1, 3));
}
