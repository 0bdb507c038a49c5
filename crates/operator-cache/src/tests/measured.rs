//! What an item is measured to cost.

use std::sync::Arc;

use futures::FutureExt;
use thermocline_budget::Budget;
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
