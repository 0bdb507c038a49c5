//! What the cache bids for memory, whom it takes some from and when, and that it does not look at all it has for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use thermocline_budget::{Account, Budget, Purpose, ReclaimableCache, Reservation};
use thermocline_placement::operator_cache::recache::ReCache;
use thermocline_placement::operator_cache::{Eviction, EvictionPolicy, ItemMeasurements, PolicyState};
use thermocline_predicate::Conjunction;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 1000;

fn begin(cache: &Arc<OperatorCache>, fake: &Arc<Fake>, name: &str, names: &[&str]) -> Start {
    let asked = SelectRequest { source: source(name), ..request(names, &Arc::new(Conjunction::all())) };
    cache.begin(&asked, &pin(cache, &object(name, "1", RECORDS)), true, fake.factory())
}

/// Another cache of the budget, whose bytes save nothing.
struct Other {
    account: Account,
    held: Mutex<Option<Reservation>>,
    release_count: AtomicUsize,
}

impl Other {
    fn new(budget: &Budget) -> Arc<Self> {
        let account = budget.account("other", Purpose::Cache);
        let other = Arc::new(Self { account, held: Mutex::default(), release_count: AtomicUsize::new(0) });
        let weak: std::sync::Weak<Self> = Arc::downgrade(&other);
        budget.register_cache(weak);
        other
    }

    /// Takes what is free.
    fn fill(&self, budget: &Budget) {
        *self.held.lock() = None;
        *self.held.lock() = Some(self.account.try_reserve(budget.cache_room_bytes()).unwrap());
    }
}

impl ReclaimableCache for Other {
    fn name(&self) -> &str {
        "other"
    }

    fn held_bytes(&self) -> u64 {
        self.held.lock().as_ref().map_or(0, Reservation::size_bytes)
    }

    fn marginal_benefit(&self, _bytes: u64) -> f64 {
        0.0
    }

    fn release(&self, bytes: u64) -> u64 {
        self.release_count.fetch_add(1, Ordering::Relaxed);
        if let Some(held) = &mut *self.held.lock() {
            held.shrink(bytes);
        }
        bytes
    }
}

#[test]
fn room_is_taken_from_other_caches_for_what_is_scanned_and_not_for_what_is_there() {
    let (cache, budget) = timed_cache(1 << 20);
    let (other, fake) = (Other::new(&budget), Arc::new(Fake::default()));
    let release_count = || other.release_count.load(Ordering::Relaxed);
    // Nothing is kept but what is known of the file, which says nothing of what more would save.
    let pinned = pin(&cache, &object("f", "1", RECORDS));
    other.fill(&budget);
    assert_eq!(cache.gain(1 << 16), None);
    let first = begin(&cache, &fake, "f", &["a", "b"]);
    assert_eq!(release_count(), 1);
    answer(first, 1).unwrap();
    assert_eq!(cache.items().len(), 1, "{:?}", cache.decisions());
    other.fill(&budget);
    let hit = begin(&cache, &fake, "f", &["a", "b"]);
    assert!(matches!(hit, Start::Hit { .. }));
    assert_eq!(release_count(), 1, "it needs none");
    // All that there is is in use, which is no reason to give it no more.
    assert_eq!((cache.marginal_benefit(1), cache.gain(1).is_some_and(f64::is_finite)), (f64::INFINITY, true));
    let other_columns = begin(&cache, &fake, "f", &["a", "b", "s.z"]);
    assert_eq!(release_count(), 2);
    drop((other_columns, hit, pinned));
}

#[test]
fn where_there_is_room_nobody_is_asked_for_any() {
    let (cache, budget) = timed_cache(1 << 20);
    let (other, fake) = (Other::new(&budget), Arc::new(Fake::default()));
    *other.held.lock() = Some(other.account.try_reserve(1 << 19).unwrap());
    answer(begin(&cache, &fake, "f", &["a", "b"]), 1).unwrap();
    assert_eq!(other.release_count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_bid_is_in_seconds_that_pass_while_all_threads_work() {
    let bid = |processor_count: usize| {
        let budget = Budget::new(1 << 20, None);
        let options = CacheOptions { processor_count, ..CacheOptions::default() };
        let cache = OperatorCache::new(options, &budget, Arc::new(SteppingClock::default()));
        let fake = Arc::new(Fake::default());
        told(&cache, AdmissionMode::Eager);
        answer(begin(&cache, &fake, "f", &["a", "b"]), 1).unwrap();
        [cache.marginal_benefit(1 << 20), cache.gain(1 << 20).unwrap()]
    };
    let (alone, with_others) = (bid(1), bid(8));
    assert!(alone.iter().all(|bid| *bid > 0.0));
    for (alone, with_others) in alone.into_iter().zip(with_others) {
        assert!((alone / with_others - 8.0).abs() < 1e-9, "{alone} and {with_others}");
    }
}

/// ReCache, which counts how often it is asked something that is asked of each item.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl EvictionPolicy for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn score(&self, item: &ItemMeasurements) -> f64 {
        ReCache.score(item)
    }

    fn baseline_on_use(&self, state: &PolicyState) -> f64 {
        ReCache.baseline_on_use(state)
    }

    fn choose(&self, state: PolicyState, items: &[ItemMeasurements], bytes_to_free: u64) -> Eviction {
        ReCache.choose(state, items, bytes_to_free)
    }

    fn worth_s(&self, state: &PolicyState, item: &ItemMeasurements) -> f64 {
        ReCache.worth_s(state, item)
    }

    fn after_refusal(&self, state: PolicyState, newcomer: &ItemMeasurements) -> Option<PolicyState> {
        ReCache.after_refusal(state, newcomer)
    }

    fn divides_items(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[test]
fn items_are_not_looked_through_for_room_where_there_is_room() {
    let policy: &'static Counting = Box::leak(Box::default());
    let budget = Budget::new(64 << 20, None);
    let options = CacheOptions { policy, ..CacheOptions::default() };
    let cache = OperatorCache::new(options, &budget, Arc::new(SteppingClock::default()));
    let fake = Arc::new(Fake::default());
    told(&cache, AdmissionMode::Eager);
    let asked = |name: &str, names: &[&str]| {
        let before = policy.0.load(Ordering::Relaxed);
        answer(begin(&cache, &fake, name, names), 1).unwrap();
        policy.0.load(Ordering::Relaxed) - before
    };
    let rounds: Vec<[usize; 2]> = (0..40)
        .map(|file| {
            let name = format!("f{file}");
            [asked(&name, &["a", "b"]), asked(&name, &["a", "b", "s.z"])]
        })
        .collect();
    assert_eq!(cache.items().len(), 40);
    let kinds: Vec<DecisionKind> = cache.decisions().into_iter().map(|decision| decision.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == DecisionKind::TopUp).count(), 40);
    assert_eq!(rounds[2], rounds[39], "a new file costs no more for those that are kept: {rounds:?}");
}
