#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::*;

/// A cache of equal items that are worth the same each.
struct FakeCache {
    name: &'static str,
    account: Account,
    item_bytes: u64,
    benefit: f64,
    items: Mutex<Vec<Reservation>>,
    /// How often it was asked what it would lose.
    bid_count: AtomicUsize,
    releases: Arc<Mutex<Vec<(&'static str, u64)>>>,
}

impl FakeCache {
    fn new(budget: &Budget, name: &'static str, item_bytes: u64, benefit: f64) -> Arc<Self> {
        Self::with_log(budget, name, item_bytes, benefit, Arc::default())
    }

    fn with_log(
        budget: &Budget,
        name: &'static str,
        item_bytes: u64,
        benefit: f64,
        releases: Arc<Mutex<Vec<(&'static str, u64)>>>,
    ) -> Arc<Self> {
        let account = budget.account(name, Purpose::Cache);
        let (items, bid_count) = (Mutex::default(), AtomicUsize::new(0));
        let cache = Arc::new(Self { name, account, item_bytes, benefit, items, bid_count, releases });
        let weak: Weak<Self> = Arc::downgrade(&cache);
        budget.register_cache(weak);
        cache
    }

    fn fill(&self, item_count: usize) {
        for _ in 0..item_count {
            self.admit().unwrap();
        }
    }

    fn admit(&self) -> Result<()> {
        let item = self.account.try_reserve(self.item_bytes)?;
        self.items.lock().push(item);
        Ok(())
    }
}

impl ReclaimableCache for FakeCache {
    fn name(&self) -> &str {
        self.name
    }

    fn held_bytes(&self) -> u64 {
        self.items.lock().len() as u64 * self.item_bytes
    }

    fn marginal_benefit(&self, _bytes: u64) -> f64 {
        self.bid_count.fetch_add(1, Ordering::Relaxed);
        self.benefit
    }

    fn release(&self, bytes: u64) -> u64 {
        let mut items = self.items.lock();
        let count = (bytes.div_ceil(self.item_bytes) as usize).min(items.len());
        let kept = items.len() - count;
        // Dropped under the cache's own lock, as a real cache may do.
        items.truncate(kept);
        let released_bytes = count as u64 * self.item_bytes;
        self.releases.lock().push((self.name, released_bytes));
        released_bytes
    }
}

/// A cache all of which is in use.
struct StuckCache(Reservation);

impl ReclaimableCache for StuckCache {
    fn name(&self) -> &str {
        "stuck"
    }

    fn held_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn marginal_benefit(&self, _bytes: u64) -> f64 {
        0.0
    }

    fn release(&self, _bytes: u64) -> u64 {
        0
    }
}

/// A cache that keeps everything twice, of which some is in use.
struct TwiceCache {
    held: Mutex<Vec<(SpareMark, Reservation)>>,
    in_use: AtomicBool,
}

impl TwiceCache {
    fn new(budget: &Budget, item_bytes: &[u64]) -> Arc<Self> {
        let account = budget.account("twice", Purpose::Cache);
        let held = item_bytes.iter().map(|bytes| (budget.mark_spare(*bytes), account.try_reserve(*bytes).unwrap()));
        let cache = Arc::new(Self { held: Mutex::new(held.collect()), in_use: AtomicBool::new(false) });
        let weak: Weak<Self> = Arc::downgrade(&cache);
        budget.register_cache(weak);
        cache
    }
}

impl ReclaimableCache for TwiceCache {
    fn name(&self) -> &str {
        "twice"
    }

    fn held_bytes(&self) -> u64 {
        self.held.lock().iter().map(|(_, held)| held.size_bytes()).sum()
    }

    fn marginal_benefit(&self, _bytes: u64) -> f64 {
        f64::INFINITY
    }

    fn release(&self, _bytes: u64) -> u64 {
        0
    }

    fn release_spare(&self, bytes: u64) -> u64 {
        let mut freed_bytes = 0;
        while freed_bytes < bytes && !self.in_use.load(Ordering::Relaxed) {
            let Some((spare, _)) = self.held.lock().pop() else { break };
            freed_bytes += spare.size_bytes();
        }
        freed_bytes
    }
}

#[test]
fn what_is_spare_is_free_for_caches_and_goes_before_anything_else() {
    let budget = Budget::new(1000, Some(800));
    let twice = TwiceCache::new(&budget, &[200, 100, 100]);
    let items = FakeCache::new(&budget, "items", 100, 0.0);
    items.fill(3);
    assert_eq!((budget.cache_reserved_bytes(), budget.cache_room_bytes()), (700, 500));
    // A cache's own reservation, and one that grows.
    items.fill(2);
    assert_eq!((twice.held_bytes(), budget.cache_room_bytes()), (300, 300));
    let growing = budget.account("growing", Purpose::Cache).try_reserve(0).unwrap();
    growing.try_grow(50).unwrap();
    assert_eq!((twice.held_bytes(), budget.cache_room_bytes()), (200, 250));
    // Not even all of it would do: none of it goes.
    assert!(growing.try_grow(260).is_err());
    assert_eq!(twice.held_bytes(), 200);
    // A query takes it before an item whose bytes save nothing, and then those.
    let queries = budget.account("query", Purpose::Query);
    let held = queries.try_reserve(260).unwrap();
    assert_eq!((twice.held_bytes(), items.releases.lock().len()), (0, 0));
    assert!(queries.try_reserve(300).is_ok());
    assert_eq!(items.releases.lock().len(), 1);
    drop(held);
}

#[test]
fn what_is_spare_and_in_use_stays_until_it_is_not() {
    let budget = Budget::new(1000, None);
    let twice = TwiceCache::new(&budget, &[600]);
    twice.in_use.store(true, Ordering::Relaxed);
    let cache = budget.account("cache", Purpose::Cache);
    let queries = budget.account("query", Purpose::Query);
    assert!(cache.try_reserve(500).is_err() && queries.try_reserve(500).is_err());
    assert_eq!(twice.held_bytes(), 600);
    twice.in_use.store(false, Ordering::Relaxed);
    assert!(cache.try_reserve(500).is_ok());
    assert_eq!((twice.held_bytes(), budget.cache_room_bytes()), (0, 1000));
}

#[test]
fn a_lower_limit_takes_what_is_spare_first() {
    let budget = Budget::new(1000, None);
    let twice = TwiceCache::new(&budget, &[300, 300]);
    let items = FakeCache::new(&budget, "items", 100, 0.0);
    items.fill(4);
    budget.set_limit(700);
    assert_eq!((twice.held_bytes(), items.held_bytes()), (300, 400));
}

#[test]
fn what_one_cache_cannot_give_another_gives() {
    let budget = Budget::new(1000, None);
    let stuck = Arc::new(StuckCache(budget.account("stuck", Purpose::Cache).try_reserve(500).unwrap()));
    let weak: Weak<StuckCache> = Arc::downgrade(&stuck);
    budget.register_cache(weak);
    let items = FakeCache::new(&budget, "items", 100, 1.0);
    items.fill(4);
    let query = budget.account("query", Purpose::Query).try_reserve(300).unwrap();
    assert_eq!((query.size_bytes(), items.held_bytes()), (300, 200));
    // So it is where the limit is lowered.
    budget.set_limit(900);
    assert_eq!(items.held_bytes(), 100);
}

#[test]
fn a_reservation_counts_while_it_lives() {
    let budget = Budget::new(100, None);
    let account = budget.account("scan", Purpose::Query);
    let reservation = account.try_reserve(40).unwrap();
    assert_eq!((budget.reserved_bytes(), account.reserved_bytes(), reservation.size_bytes()), (40, 40, 40));
    reservation.try_grow(20).unwrap();
    assert!(reservation.try_grow(41).is_err());
    assert_eq!(reservation.size_bytes(), 60);
    assert_eq!(reservation.shrink(10), 10);
    reservation.resize(30).unwrap();
    reservation.resize(35).unwrap();
    let part = reservation.split(15);
    assert_eq!((reservation.size_bytes(), part.size_bytes(), budget.reserved_bytes()), (20, 15, 35));
    let rest = part.split(99);
    assert_eq!((part.size_bytes(), rest.size_bytes(), part.shrink(5)), (0, 15, 0));
    drop((part, rest));
    assert_eq!(budget.reserved_bytes(), 20);
    drop(reservation);
    assert_eq!((budget.reserved_bytes(), account.reserved_bytes(), account.snapshot().peak_bytes), (0, 0, 60));
}

#[test]
fn caches_yield_to_queries_the_least_benefit_first_and_no_more_than_needed() {
    let budget = Budget::new(1_000, None);
    let releases: Arc<Mutex<Vec<(&'static str, u64)>>> = Arc::default();
    let dear = FakeCache::with_log(&budget, "dear", 10, 5e-3, Arc::clone(&releases));
    let cheap = FakeCache::with_log(&budget, "cheap", 10, 1e-6, Arc::clone(&releases));
    let middle = FakeCache::with_log(&budget, "middle", 10, 1e-4, Arc::clone(&releases));
    for cache in [&dear, &cheap, &middle] {
        cache.fill(30);
    }
    let account = budget.account("sort", Purpose::Query);
    let first = account.try_reserve(100).unwrap();
    assert!(releases.lock().is_empty(), "there was room");
    let second = account.try_reserve(450).unwrap();
    assert_eq!(*releases.lock(), [("cheap", 300), ("middle", 150)]);
    assert_eq!([&dear, &cheap, &middle].map(|cache| cache.held_bytes()), [300, 0, 150]);
    drop((first, second));
    assert_eq!(budget.reserved_bytes(), 450);
}

#[test]
fn a_request_that_no_eviction_can_satisfy_evicts_nothing() {
    let budget = Budget::new(1_000, None);
    let cache = FakeCache::new(&budget, "items", 100, 1.0);
    cache.fill(5);
    let query = budget.account("join", Purpose::Query);
    let held = query.try_reserve(300).unwrap();
    assert!(query.try_reserve(701).is_err());
    assert_eq!(cache.held_bytes(), 500);
    assert!(query.try_reserve(700).is_ok());
    assert_eq!(cache.held_bytes(), 0);
    drop(held);
}

#[test]
fn caches_never_push_each_other_out() {
    let budget = Budget::new(1_000, Some(400));
    let (old, new) = (FakeCache::new(&budget, "old", 100, 0.0), FakeCache::new(&budget, "new", 100, 9.0));
    old.fill(4);
    let error = new.admit().unwrap_err();
    assert_eq!(error, BudgetError::CacheMemory { account: "new".to_owned(), asked_bytes: 100, free_bytes: 0 });
    assert_eq!((old.held_bytes(), budget.cache_room_bytes()), (400, 0));
    assert!(error.to_string().contains("thermocline.cache_memory"), "{error}");
}

#[test]
fn a_cache_yields_room_to_another_only_if_its_bytes_save_clearly_less() {
    let budget = Budget::new(16_000, Some(1_600));
    let (old, new) = (FakeCache::new(&budget, "old", 10, 1.0), FakeCache::new(&budget, "new", 10, 1.5));
    old.fill(159);
    assert_eq!(budget.make_room_for(new.as_ref()), 90, "it has nothing, and 10 of 100 bytes are free");
    assert_eq!((old.held_bytes(), budget.cache_room_bytes()), (1_500, 100));
    new.fill(10);
    assert_eq!(budget.make_room_for(new.as_ref()), 0, "its bytes save hardly more");
    let dear = FakeCache::new(&budget, "dear", 10, 9.0);
    assert_eq!(budget.make_room_for(dear.as_ref()), 100);
    dear.fill(10);
    assert_eq!(budget.make_room_for(dear.as_ref()), 100);
    assert_eq!((old.held_bytes(), new.held_bytes()), (1_300, 100));
}

#[test]
fn nobody_bids_where_there_is_room_or_nobody_has_any_to_yield() {
    let budget = Budget::new(16_000, Some(1_600));
    let (old, new) = (FakeCache::new(&budget, "old", 10, 1.0), FakeCache::new(&budget, "new", 10, 9.0));
    let bid_count = || [&old, &new].map(|cache| cache.bid_count.load(Ordering::Relaxed));
    old.fill(150);
    assert!(!budget.lacks_room());
    assert_eq!((budget.make_room_for(new.as_ref()), bid_count()), (0, [0, 0]));
    old.fill(1);
    assert!(budget.lacks_room());
    assert_eq!((budget.make_room_for(old.as_ref()), bid_count()), (0, [0, 0]), "the other has nothing");
    assert_eq!((budget.make_room_for(new.as_ref()), bid_count()), (10, [1, 0]));
}

/// Takes what it was asked to release back at once.
struct GreedyCache {
    account: Account,
    item: Mutex<Option<Reservation>>,
}

impl ReclaimableCache for GreedyCache {
    fn name(&self) -> &str {
        "greedy"
    }

    fn held_bytes(&self) -> u64 {
        self.item.lock().as_ref().map_or(0, Reservation::size_bytes)
    }

    fn marginal_benefit(&self, _bytes: u64) -> f64 {
        0.0
    }

    fn release(&self, _bytes: u64) -> u64 {
        let released_bytes = self.item.lock().take().map_or(0, |item| item.size_bytes());
        *self.item.lock() = self.account.try_reserve(released_bytes).ok();
        released_bytes
    }
}

#[test]
fn what_is_released_for_a_query_cannot_be_taken_by_a_cache() {
    let budget = Budget::new(100, None);
    let account = budget.account("greedy", Purpose::Cache);
    let item = Mutex::new(Some(account.try_reserve(80).unwrap()));
    let cache = Arc::new(GreedyCache { account, item });
    let weak: Weak<GreedyCache> = Arc::downgrade(&cache);
    budget.register_cache(weak);
    let reservation = budget.account("scan", Purpose::Query).try_reserve(50).unwrap();
    assert_eq!((cache.held_bytes(), budget.reserved_bytes()), (0, 50));
    drop(reservation);
    assert_eq!(budget.cache_room_bytes(), 100, "free for caches again");
}

#[test]
fn the_refusal_names_the_setting_what_was_asked_what_is_free_and_who_holds_what() {
    let budget = Budget::new(256_000_000, None);
    let scan = budget.account("scan", Purpose::Query);
    let (_one, _two) = (scan.try_reserve(100_000_000).unwrap(), scan.try_reserve(50_000_000).unwrap());
    let same_name = budget.account("scan", Purpose::Query);
    let _three = same_name.try_reserve(6_000_000).unwrap();
    let sort = budget.account("sort", Purpose::Query);
    let _four = sort.try_reserve(60_000_000).unwrap();
    let message = sort.try_reserve(64 << 20).unwrap_err().to_string();
    assert_eq!(
        message,
        "sort: asked for 64 MiB, but 40 MB of the memory budget of 256 MB are free; \
         held: 156 MB by scan, 60 MB by sort; \
         raise it with SET thermocline.memory = '…' or run fewer queries at once"
    );
}

#[test]
fn a_refusal_among_many_sums_up_the_small_holders() {
    let budget = Budget::new(1_000_000, None);
    let accounts: Vec<Account> = (0..20).map(|index| budget.account(format!("q{index:02}"), Purpose::Query)).collect();
    let _held: Vec<Reservation> =
        accounts.iter().zip(1..).map(|(account, weight)| account.try_reserve(weight * 1_000).unwrap()).collect();
    let message = accounts[0].try_reserve(1_000_000).unwrap_err().to_string();
    assert!(message.contains("20 KB by q19, 19 KB by q18") && message.contains("120 KB by 15 others"), "{message}");
}

#[test]
fn lowering_a_limit_shrinks_caches_at_once_and_leaves_queries_alone() {
    let budget = Budget::new(1_000, None);
    let cache = FakeCache::new(&budget, "items", 10, 1.0);
    cache.fill(60);
    let query = budget.account("scan", Purpose::Query).try_reserve(300).unwrap();
    budget.set_cache_limit(Some(400));
    assert_eq!(cache.held_bytes(), 400);
    budget.set_limit(500);
    assert_eq!(cache.held_bytes(), 200);
    budget.set_limit(100);
    assert_eq!((cache.held_bytes(), query.size_bytes(), budget.reserved_bytes()), (0, 300, 300));
    assert!(query.try_grow(1).is_err(), "over the limit there is no more");
    budget.set_limit(1_000);
    budget.set_cache_limit(None);
    assert!(query.try_grow(700).is_ok());
    assert_eq!(budget.cache_limit_bytes(), None);
}

#[test]
fn what_exists_already_is_taken_over_the_limit_and_caches_make_up_for_it() {
    let budget = Budget::new(100, None);
    let cache = FakeCache::new(&budget, "items", 10, 1.0);
    cache.fill(5);
    let account = budget.account("hash table", Purpose::Query);
    let reservation = account.reserve_infallible(80);
    assert_eq!((cache.held_bytes(), budget.reserved_bytes()), (20, 100));
    reservation.grow_infallible(70);
    assert_eq!((cache.held_bytes(), budget.reserved_bytes()), (0, 150));
}

#[test]
fn caches_and_accounts_that_are_gone_are_forgotten() {
    let budget = Budget::new(100, None);
    let cache = FakeCache::new(&budget, "items", 10, 1.0);
    cache.fill(10);
    let kept = budget.account("scan", Purpose::Query);
    let names = || budget.accounts().into_iter().map(|account| account.name).collect::<Vec<_>>();
    assert_eq!(names(), ["items", "scan"]);
    drop(cache);
    assert_eq!(names(), ["scan"]);
    assert!(kept.try_reserve(100).is_ok());
    let reservation = kept.try_reserve(1).unwrap();
    drop(kept);
    assert_eq!(names(), ["scan"], "its reservation keeps it");
    drop(reservation);
    assert!(budget.accounts().is_empty());
}

#[test]
fn memory_that_nobody_reserved_counts_and_is_named() {
    let budget = Budget::new(100_000, None);
    budget.observe_allocated(|| 70_000);
    let account = budget.account("scan", Purpose::Query);
    let _held = account.try_reserve(30_000).unwrap();
    let message = account.try_reserve(40_000).unwrap_err().to_string();
    assert!(message.contains("40 KB by memory outside of any account, 30 KB by scan"), "{message}");
}

#[test]
fn under_a_storm_of_threads_the_limits_hold_and_everything_returns_to_zero() {
    const LIMIT_BYTES: u64 = 100_000;
    const CACHE_LIMIT_BYTES: u64 = 60_000;
    let seed = 0x1234_5678_9ABC_DEF1_u64;
    let budget = Budget::new(LIMIT_BYTES, Some(CACHE_LIMIT_BYTES));
    let caches = [
        FakeCache::new(&budget, "a", 700, 1e-3),
        FakeCache::new(&budget, "b", 1_300, 1e-5),
        FakeCache::new(&budget, "c", 90, 1e-4),
    ];
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (budget, caches, served) = (&budget, &caches, &served);
            scope.spawn(move || {
                let account = budget.account(format!("query {thread}"), Purpose::Query);
                let mut held: Vec<Reservation> = Vec::new();
                let mut state = seed ^ (thread + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut random = |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % below
                };
                for _ in 0..20_000 {
                    match random(8) {
                        0..=1 => {
                            if let Ok(reservation) = account.try_reserve(random(12_000)) {
                                served.fetch_add(1, Ordering::Relaxed);
                                held.push(reservation);
                            }
                        }
                        2 => {
                            held.pop();
                        }
                        3 => {
                            if let Some(reservation) = held.last() {
                                let _ = reservation.try_grow(random(3_000));
                                let part = reservation.split(random(2_000));
                                reservation.shrink(random(2_000));
                                held.push(part);
                            }
                        }
                        4 if held.len() > 6 => held.clear(),
                        _ => {
                            let _ = caches[random(3) as usize].admit();
                        }
                    }
                    let (reserved, cached) = (budget.reserved_bytes(), budget.cache_reserved_bytes());
                    assert!(reserved <= LIMIT_BYTES, "seed {seed:#x}: {reserved} reserved");
                    assert!(cached <= CACHE_LIMIT_BYTES, "seed {seed:#x}: {cached} cached");
                }
            });
        }
    });
    assert!(served.load(Ordering::Relaxed) > 1_000, "queries were served");
    let in_caches: u64 = caches.iter().map(|cache| cache.held_bytes()).sum();
    assert_eq!((budget.reserved_bytes(), budget.cache_reserved_bytes()), (in_caches, in_caches), "seed {seed:#x}");
    assert_eq!(budget.accounts().iter().map(|account| account.reserved_bytes).sum::<u64>(), in_caches);
    for cache in &caches {
        cache.release(u64::MAX);
    }
    assert_eq!((budget.reserved_bytes(), budget.cache_reserved_bytes()), (0, 0), "seed {seed:#x}");
}

#[test]
fn queries_that_fit_together_are_never_refused_because_of_caches() {
    let budget = Budget::new(80_000, None);
    let caches = [FakeCache::new(&budget, "a", 50, 1.0), FakeCache::new(&budget, "b", 50, 2.0)];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for index in 0..30_000 {
                    let _ = caches[index % 2].admit();
                }
            });
        }
        for thread in 0..4 {
            let budget = &budget;
            scope.spawn(move || {
                let account = budget.account(format!("query {thread}"), Purpose::Query);
                for _ in 0..300 {
                    // Half of the budget in all; the caches refill what they can meanwhile.
                    drop(account.try_reserve(10_000).unwrap());
                }
            });
        }
    });
}
