//! What an item is measured to cost.

use std::sync::Arc;

use futures::FutureExt;
use thermocline_budget::{Budget, ReclaimableCache};
use thermocline_hardware::ManualClock;
use thermocline_placement::operator_cache::recache::ReCache;
use thermocline_placement::operator_cache::vectorwise::Vectorwise;
use thermocline_placement::operator_cache::{EvictionPolicy, ItemMeasurements};
use thermocline_predicate::Conjunction;

use super::fake::*;
use crate::*;

const RECORDS: u64 = 640;
const MORSELS: u64 = 40;

fn cache_with(policy: &'static dyn EvictionPolicy) -> (Arc<OperatorCache>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(0));
    let options = CacheOptions { policy, ..CacheOptions::default() };
    let cache = OperatorCache::new(options, &Budget::new(64 << 20, None), Arc::clone(&clock) as _);
    told(&cache, AdmissionMode::Eager);
    (cache, clock)
}

/// A fake that takes so long for each morsel that it gives out.
fn slow_to_claim(clock: &Arc<ManualClock>, ns: u64) -> Arc<Fake> {
    let (fake, clock) = (Arc::new(Fake::default()), Arc::clone(clock));
    *fake.interrupt.lock() = Some(Box::new(move |seam| {
        if seam == Seam::Claim {
            clock.advance_ns(ns);
        }
    }));
    fake
}

fn all(names: &[&str]) -> SelectRequest {
    request(names, &Arc::new(Conjunction::all()))
}

fn ask(cache: &Arc<OperatorCache>, factory: SourceFactory, request: &SelectRequest) {
    let start = cache.begin(request, &pin(cache, &object("f", "1", RECORDS)), true, factory);
    answer(start, 1).unwrap();
}

fn measured(cache: &OperatorCache) -> ItemMeasurements {
    let catalog = cache.catalog();
    let items: Vec<_> = catalog.items().map(|item| catalog.measured(cache.terms(), item)).collect();
    assert_eq!(items.len(), 1);
    items[0]
}

#[test]
fn to_read_and_cut_a_file_at_hand_is_part_of_what_an_item_costs() {
    let (cache, clock) = cache_with(&ReCache);
    ask(&cache, slow_to_claim(&clock, 1000).factory(), &all(&["a", "b"]));
    assert_eq!(measured(&cache).execute_ns, MORSELS * 1000);
}

/// Takes its time to fetch.
struct Far {
    source: Arc<dyn MorselSource>,
    clock: Arc<ManualClock>,
}

impl MorselSource for Far {
    fn next_morsel(&self) -> Result<Option<Morsel>, SourceError> {
        self.source.next_morsel()
    }

    fn fetch(self: Arc<Self>, morsel: Morsel) -> Fetch {
        Fetch::Pending(
            async move {
                self.clock.advance_ns(500);
                Ok(morsel)
            }
            .boxed(),
        )
    }

    fn decode(&self, morsel: Morsel) -> Result<Rows, SourceError> {
        self.source.decode(morsel)
    }

    fn total_bytes(&self) -> u64 {
        self.source.total_bytes()
    }

    fn finish(&self) -> Result<SourceEnd, SourceError> {
        self.source.finish()
    }
}

#[test]
fn to_fetch_a_remote_file_is_part_of_what_an_item_costs() {
    let (cache, clock) = cache_with(&ReCache);
    let near = Arc::new(Fake::default()).factory();
    let far: SourceFactory = Arc::new(move |spec| {
        let source = near(spec)?;
        Ok(Arc::new(Far { source, clock: Arc::clone(&clock) }) as Arc<dyn MorselSource>)
    });
    ask(&cache, far, &all(&["a", "b"]));
    assert_eq!(measured(&cache).execute_ns, MORSELS * 500);
}

#[test]
fn policies_as_published_are_told_of_an_items_own_uses_and_of_its_longest_scan() {
    let (cache, clock) = cache_with(&Vectorwise);
    let fake = slow_to_claim(&clock, 1000);
    for round in 1..4 {
        ask(&cache, fake.factory(), &all(&["a", "b"]));
        assert_eq!(cache.tick(), round, "one for each request");
        assert_eq!(
            (measured(&cache).use_count, measured(&cache).last_use),
            (1, round),
            "scans before it are not its uses"
        );
        cache.clear();
    }
    ask(&cache, fake.factory(), &all(&["a", "b"]));
    // To complete it takes a scan too, and it would take one to have all of it again.
    ask(&cache, fake.factory(), &all(&["a", "b", "s.z"]));
    let item = measured(&cache);
    assert_eq!((item.execute_ns, item.use_count), (MORSELS * 1000, 3));
}

#[test]
fn a_use_of_all_rows_saves_a_scan_of_what_was_asked_for() {
    let wider = |own_share: f64| SelectRequest {
        retain_predicate: Arc::default(),
        retain_expectation: Expectation { own_share, ..Expectation::default() },
        ..request(&["a", "b"], &between(100, 200))
    };
    for (policy, spared_ns) in [(&ReCache as &'static dyn EvictionPolicy, 250), (&Vectorwise, 1000)] {
        let (cache, clock) = cache_with(policy);
        ask(&cache, slow_to_claim(&clock, 1000).factory(), &wider(0.25));
        assert_eq!(measured(&cache).execute_ns, MORSELS * spared_ns, "{}", policy.name());
        // To complete it takes as long as the missing column does, which is none of what queries are spared.
        ask(&cache, slow_to_claim(&clock, 7000).factory(), &all(&["a", "b", "s.z"]));
        let longest_ns = if policy.divides_items() { spared_ns } else { 7000 };
        assert_eq!(measured(&cache).execute_ns, MORSELS * longest_ns, "{}", policy.name());
    }
    // What was measured of scans before counts too, the latest most.
    let (cache, clock) = cache_with(&ReCache);
    for low in 0..30 {
        ask(&cache, slow_to_claim(&clock, 100).factory(), &request(&["a", "b"], &between(low, low + 20)));
    }
    cache.release(u64::MAX);
    ask(&cache, slow_to_claim(&clock, 1000).factory(), &wider(0.25));
    let item = cache.items().into_iter().find(|item| item.predicate.is_all()).unwrap();
    assert_eq!(cache.items().len(), 1, "{item:?}");
    let spared_ns = measured(&cache).execute_ns;
    assert!((MORSELS * 101..MORSELS * 200).contains(&spared_ns), "{spared_ns}");
}
